//! What crash and chaos runs add to an environment: wires that record every request, and the server's history.
//!
//! The users' requests and the controllers' requests pass different wires into one log. The checkers judge that log
//! together with the server's history of all objects since [`Environment::start_history`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::Environment;
use crate::case::CheckResult;
use crate::checkers::{KnownKind, ObjectHistory, violations};
use crate::controllers::ControllerSource;
use crate::controllers::process::{ControllerProcess, ProcessOptions};
use crate::session::Session;
use crate::target::Target;
use crate::wire::{FaultInjector, RequestLog, RequestSender, Wire, WireTrace};

/// Time without a write after which a run is over: longer than any backoff and any wait of the controllers.
const QUIET: Duration = Duration::from_secs(300);
/// Number of such waits after which a run is said to have no end.
const QUIET_WAITS_MAX: usize = 20;

/// A fault injector for each controller process, by its number; `None` lets every request pass.
pub type ProcessFaults<'a> = &'a dyn Fn(usize) -> Option<Box<dyn FaultInjector>>;

/// The log of all requests, and the revision at which the history begins.
#[derive(Default)]
pub(super) struct RequestRecording {
    log: RequestLog,
    since: AtomicU64,
}

// === impl Environment ===

impl Environment {
    /// An environment beside a new embedded server, whose users' requests are recorded. The history begins now.
    pub async fn recorded(ns: &str) -> CheckResult<Self> {
        Self::recorded_on(&Target::embedded(), ns).await
    }

    /// The same on any server.
    pub async fn recorded_on(target: &Target, ns: &str) -> CheckResult<Self> {
        let recording = RequestRecording::default();
        let users = Wire::new(target.client(), RequestSender::User, &recording.log, None);
        let session = Session::new(target.through(users.client()), ns.to_owned());
        let env = Self::with_session(session, target, &ControllerSource::Running).await;
        let env = Self { recording, ..env };
        env.start_history().await?;
        Ok(env)
    }

    pub fn log(&self) -> &RequestLog {
        &self.recording.log
    }

    /// Begins the history now. A kind must be defined before, because its history begins with its definition.
    pub async fn start_history(&self) -> CheckResult {
        let now = ObjectHistory::now(self.target.client()).await;
        let now = now.map_err(|error| format!("{error:#}"))?;
        self.recording.since.store(now, Ordering::Relaxed);
        Ok(())
    }

    /// All changes of objects of these kinds since the history began.
    pub async fn history(&self, kinds: &[KnownKind]) -> CheckResult<ObjectHistory> {
        let since = self.recording.since.load(Ordering::Relaxed);
        let history = ObjectHistory::read(self.target.client(), kinds, since).await;
        history.map_err(|error| format!("{error:#}"))
    }

    /// The safety rules that the recorded requests have broken.
    pub async fn violations(&self, kinds: &[KnownKind]) -> CheckResult<Vec<String>> {
        Ok(violations(&self.history(kinds).await?, &self.log().acts()))
    }

    /// Starts controllers whose requests pass a recorded wire.
    pub fn start_process(
        &self,
        options: &ProcessOptions<'_>,
        injector: Option<Box<dyn FaultInjector>>,
    ) -> CheckResult<(Wire, ControllerProcess)> {
        let wire = Wire::new(
            self.target.client(),
            RequestSender::Controllers,
            self.log(),
            injector,
        );
        let process = ControllerProcess::start(&self.target, &wire, options)?;
        Ok((wire, process))
    }

    /// Runs one controller process after the other, each until its wire is cut; never returns without an error.
    /// Collects in `dead` the traces by which the caller sees that nothing of a dead process is left.
    pub async fn run_processes(
        &self,
        options: &ProcessOptions<'_>,
        faults: ProcessFaults<'_>,
        dead: &mut Vec<WireTrace>,
    ) -> CheckResult {
        loop {
            let (wire, _process) = self.start_process(options, faults(dead.len()))?;
            wire.until_cut().await;
            dead.push(wire.trace());
        }
    }

    /// Waits until the controllers have written nothing for a while. Reads do not count: the collector polls for ever for
    /// an owner of a kind that it does not watch.
    pub async fn until_quiet(&self) -> CheckResult {
        let mut quiet_at = Instant::now() + QUIET;
        for _ in 0..QUIET_WAITS_MAX {
            tokio::time::sleep_until(quiet_at).await;
            match self.log().last_write().map(|last| last + QUIET) {
                Some(later) if later > quiet_at => quiet_at = later,
                _ => return Ok(()),
            }
        }
        Err("the controllers do not stop writing".to_owned())
    }
}
