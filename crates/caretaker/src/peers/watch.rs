//! The task that looks at another controller manager as long as the process runs.
//!
//! Each manager has a task of its own. It looks, publishes what our controllers may do as a row of their gates, and
//! prints a line when that changes. The looks at kube-controller-manager also show whether the API server answers.

use std::mem::Discriminant;
use std::time::Duration;

use caretaker_controllers::runtime::clients::ClusterClients;
use caretaker_controllers::runtime::driver::{HoldPurpose, HoldState, WriteHold};
use caretaker_machinery::clock::Clock;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::contact::{ContactLog, ServerContact};
use super::history::PeerHistory;
use super::look::{self, PeerLook};
use super::{KUBERNETES, PeerManager, PeerPolicy, PeerStanding, VOLCANO};
use crate::wiring::notice;

/// The name of the row in gates and health pages.
const ROW: &str = "other-controller-manager";

/// A server that has not answered the first request after this time is reported, while the request goes on.
const FIRST_ANSWER: Duration = Duration::from_millis(1500);

/// The tasks that look at other managers. Dropping it ends them, and their rows hold back all writes then.
pub(crate) struct PeerWatch {
    rows: Vec<(&'static PeerManager, watch::Receiver<HoldState>)>,
    contact: watch::Receiver<ServerContact>,
    policy: PeerPolicy,
    tasks: Vec<JoinHandle<()>>,
}

/// One manager that is looked at.
struct WatchedManager {
    manager: &'static PeerManager,
    /// The controllers of this process that it shares.
    ours: Vec<&'static str>,
    policy: PeerPolicy,
    client: kube::Client,
    clock: Clock,
    history: PeerHistory,
    row: watch::Sender<HoldState>,
    /// Only one manager's looks count as contact.
    contact: Option<ContactLog>,
    announced: Option<Discriminant<PeerStanding>>,
    was_alive: bool,
}

// === impl PeerWatch ===

impl PeerWatch {
    /// Looks at the managers that share one of the `running` controllers. Must be called inside a tokio runtime.
    pub(crate) fn start(
        clients: &ClusterClients,
        clock: &Clock,
        running: &[&'static str],
        policy: PeerPolicy,
    ) -> Self {
        let log = ContactLog::new(clients.server().to_owned());
        let contact = log.subscribe();
        let mut log = Some(log);
        let (mut rows, mut tasks) = (Vec::new(), Vec::new());
        for manager in [&KUBERNETES, &VOLCANO] {
            let ours = manager.shared(running);
            let contact = log.take();
            if ours.is_empty() && contact.is_none() {
                continue;
            }
            let history = (manager.history)();
            let (row, state) = watch::channel(history.standing().hold(manager));
            rows.push((manager, state));
            let watched = WatchedManager {
                manager,
                ours,
                policy,
                client: clients.lease(),
                clock: clock.clone(),
                history,
                row,
                contact,
                announced: None,
                was_alive: false,
            };
            tasks.push(tokio::spawn(watched.run()));
        }
        Self {
            rows,
            contact,
            policy,
            tasks,
        }
    }

    /// The row in the gate of a controller; nothing with `--take-over`.
    pub(crate) fn hold(&self, unit: &str) -> Option<WriteHold> {
        if self.policy == PeerPolicy::TakeOver {
            return None;
        }
        let mut rows = self.rows.iter();
        let (_, state) = rows.find(|(manager, _)| manager.units.contains(&unit))?;
        Some(WriteHold::new(ROW, HoldPurpose::Trouble, state.clone()))
    }

    pub(crate) fn contact(&self) -> watch::Receiver<ServerContact> {
        self.contact.clone()
    }
}

impl Drop for PeerWatch {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

// === impl WatchedManager ===

impl WatchedManager {
    async fn run(mut self) {
        loop {
            let look = self.look().await;
            self.take(look);
            sleep(self.history.pause()).await;
        }
    }

    /// Looks once. The first look reports a server that is slow to answer before it gives up.
    async fn look(&mut self) -> PeerLook {
        let look = look::look(&self.client, self.manager.path, self.manager.read);
        tokio::pin!(look);
        let is_first = self.contact.as_ref().is_some_and(ContactLog::is_unknown);
        tokio::select! {
            biased;
            look = &mut look => return look,
            () = sleep(FIRST_ANSWER), if is_first => {}
        }
        let why = format!("no answer within {} s", FIRST_ANSWER.as_secs_f64());
        let late = PeerLook::Unreachable(why);
        let now = self.clock.now();
        let line = self
            .contact
            .as_mut()
            .and_then(|log| log.note(&late, now, Instant::now()));
        if let Some(line) = line {
            notice(&line);
        }
        look.await
    }

    fn take(&mut self, look: PeerLook) {
        let at = Instant::now();
        let now = self.clock.now();
        let contact = self.contact.as_mut();
        if let Some(line) = contact.and_then(|log| log.note(&look, now, at)) {
            notice(&line);
        }
        let is_error = matches!(look, PeerLook::Failed(_));
        self.history.note(look, at);
        let standing = self.history.standing();
        let hold = standing.hold(self.manager);
        self.row.send_if_modified(|row| {
            let is_change = *row != hold;
            *row = hold;
            is_change
        });
        // If the server does not answer, the line about the contact says so.
        if is_error || !matches!(standing, PeerStanding::Unknown(_)) {
            self.announce();
        }
    }

    /// Prints a line if the standing is another one than the last line was about.
    fn announce(&mut self) {
        let standing = self.history.standing();
        let kind = std::mem::discriminant(standing);
        if self.ours.is_empty() || self.announced == Some(kind) {
            return;
        }
        self.announced = Some(kind);
        let line = self
            .manager
            .sentence(standing, &self.ours, self.policy, self.was_alive);
        self.was_alive = match standing {
            PeerStanding::Alive(_) => true,
            PeerStanding::Unknown(_) => self.was_alive,
            PeerStanding::Absent | PeerStanding::Forbidden(_) => false,
        };
        if let Some(line) = line {
            notice(&line);
        }
    }
}
