//! The controllers of a run: `caretaker run` behind a proxy, or controllers in this process behind a wire. They are
//! killed and started again.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use caretaker_machinery::rng::Rng;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;

use super::FaultsPlan;
use super::proxy::FaultProxy;
use super::trouble::{TroubleInjector, TroubleState};
use crate::case::CheckResult;
use crate::checkers::KnownKind;
use crate::controllers::COLLECTOR;
use crate::controllers::process::ProcessOptions;
use crate::environment::Environment;
use crate::wire::{RequestSender, Wire};

/// Time between two looks at a process.
const LOOK: Duration = Duration::from_millis(200);
/// The default of the product.
const DISCOVERY: Duration = Duration::from_secs(30);

/// What the controllers are.
#[derive(Clone, Debug)]
pub enum ControllerHost {
    /// A program that has the command `run`, and the directory for its logs and kubeconfigs.
    Program {
        path: PathBuf,
        directory: PathBuf,
        now: Timestamp,
    },
    /// In this process, on the clock of the embedded server.
    InProcess,
}

/// The controllers of one run.
pub(super) struct ControllerFleet<'e> {
    pub(super) env: &'e Environment,
    pub(super) plan: &'e FaultsPlan,
    pub(super) kinds: &'e [KnownKind],
    pub(super) state: Arc<TroubleState>,
    /// Times at which all processes are killed once more.
    pub(super) restarts: watch::Sender<usize>,
    pub(super) kills: AtomicUsize,
    /// Processes that ended by themselves.
    pub(super) exits: AtomicUsize,
}

// === impl ControllerHost ===

impl ControllerHost {
    /// All that the programs have logged.
    pub(super) fn logs(&self, processes: usize) -> String {
        let Self::Program { directory, .. } = self else {
            return String::new();
        };
        let files = (0..processes).map(|slot| directory.join(format!("process-{slot}.log")));
        let logs = files.map(|file| fs::read_to_string(file).unwrap_or_default());
        logs.collect()
    }
}

/// A program that is killed when this value is dropped.
struct KilledOnDrop(Child);

// === impl ControllerFleet ===

impl ControllerFleet<'_> {
    /// Runs all processes; returns only with an error.
    pub(super) async fn run(&self, host: &ControllerHost) -> CheckResult {
        let slots = 0..self.plan.kills.len();
        let slots = slots.map(|slot| async move {
            match host {
                ControllerHost::InProcess => self.run_here(slot).await,
                ControllerHost::Program { .. } => {
                    let ran = self.run_programs(slot, host).await;
                    ran.map_err(|error| format!("{error:#}"))
                }
            }
        });
        futures::future::try_join_all(slots).await.map(|_| ())
    }

    fn injector(&self, slot: usize, life: usize) -> TroubleInjector {
        let number = ((slot as u64) << 32) | life as u64;
        let rng = Rng::seeded(self.plan.fault_seed.wrapping_add(number));
        TroubleInjector::new(rng, self.plan.mix.clone(), self.state.clone())
    }

    /// Waits for the end of a life: the time of a planned kill, or a restart of all.
    async fn until_killed(&self, slot: usize, life: usize, began: Instant) -> Duration {
        let mut restarts = self.restarts.subscribe();
        let planned = self.plan.kills[slot].get(life);
        let at = planned.map(|(at, _)| began + *at);
        let planned_end = async {
            match at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // The sender lives as long as this value.
            _ = restarts.changed() => Duration::ZERO,
            () = planned_end => planned.map_or(Duration::ZERO, |(_, down)| *down),
        }
    }

    async fn run_here(&self, slot: usize) -> CheckResult {
        let options = ProcessOptions {
            names: &[COLLECTOR],
            kinds: self.kinds,
            discovery: DISCOVERY,
            ahead: SignedDuration::ZERO,
        };
        let began = Instant::now();
        for life in 0.. {
            let injector = Box::new(self.injector(slot, life));
            let (wire, process) = self.env.start_process(&options, Some(injector))?;
            let down = self.until_killed(slot, life, began).await;
            wire.cut();
            drop(process);
            self.kills.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(down).await;
        }
        Ok(())
    }

    async fn run_programs(&self, slot: usize, host: &ControllerHost) -> anyhow::Result<()> {
        let ControllerHost::Program {
            path,
            directory,
            now,
        } = host
        else {
            anyhow::bail!("no program");
        };
        let injector = Box::new(self.injector(slot, 0));
        let server = self.env.target().client();
        let sender = RequestSender::Controllers;
        let wire = Wire::new(server, sender, self.env.log(), Some(injector));
        let proxy = FaultProxy::new(*now).await?;
        let kubeconfig = directory.join(format!("process-{slot}.kubeconfig"));
        fs::write(&kubeconfig, &proxy.kubeconfig)?;
        let start = || -> anyhow::Result<KilledOnDrop> {
            let log = directory.join(format!("process-{slot}.log"));
            let log = OpenOptions::new().create(true).append(true).open(log)?;
            let mut command = Command::new(path);
            command
                .args([
                    "run",
                    "--take-over",
                    "--leader-elect=false",
                    "--secure-port=0",
                    "-v",
                ])
                .arg(format!("--controllers={COLLECTOR}"))
                .arg("--kubeconfig")
                .arg(&kubeconfig)
                .env_remove("RUST_LOG")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log);
            let child = command.spawn();
            let child = child.with_context(|| format!("cannot start {}", path.display()))?;
            Ok(KilledOnDrop(child))
        };
        let lives = async {
            let began = Instant::now();
            for life in 0.. {
                let down = self.live(slot, life, began, &start).await?;
                self.kills.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(down).await;
            }
            anyhow::Ok(())
        };
        let served = proxy.serve(&wire, &self.plan.outages[slot]);
        futures::future::try_join(lives, served).await.map(|_| ())
    }

    /// One life of a process. It is started again if it ends by itself.
    async fn live(
        &self,
        slot: usize,
        life: usize,
        began: Instant,
        start: &impl Fn() -> anyhow::Result<KilledOnDrop>,
    ) -> anyhow::Result<Duration> {
        let mut process = start()?;
        let killed = self.until_killed(slot, life, began);
        let mut killed = std::pin::pin!(killed);
        loop {
            tokio::select! {
                biased;
                down = &mut killed => return Ok(down),
                () = tokio::time::sleep(LOOK) => {}
            }
            if process.0.try_wait()?.is_some() {
                self.exits.fetch_add(1, Ordering::Relaxed);
                process = start()?;
            }
        }
    }
}

// === impl KilledOnDrop ===

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // A program that has ended already cannot be killed; either way it is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
