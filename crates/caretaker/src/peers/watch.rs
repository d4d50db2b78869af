//! The tasks that look at other controller managers as long as the process runs.
//!
//! Each way to look at a manager has a task of its own, so that one that gets no answer does not delay another. A manager's
//! tasks together publish what our controllers may do as a row of their gates, and print a line when that changes. The
//! looks at the Lease of kube-controller-manager also show whether the API server answers.

use std::mem::Discriminant;
use std::sync::{Arc, Mutex, PoisonError};
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
use super::{KUBERNETES, LookPlan, PeerManager, PeerPolicy, PeerStanding, VOLCANO};
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

/// What the looks at one manager have shown, and who has to know it.
struct ManagerVerdict {
    manager: &'static PeerManager,
    /// The controllers of this process that it shares.
    ours: Vec<&'static str>,
    policy: PeerPolicy,
    /// One per look, in the order of the manager's looks.
    standings: Vec<PeerStanding>,
    row: watch::Sender<HoldState>,
    announced: Option<Discriminant<PeerStanding>>,
    was_alive: bool,
}

/// One look that is repeated.
struct RepeatedLook {
    plan: &'static LookPlan,
    /// Its place among the manager's looks.
    place: usize,
    client: kube::Client,
    clock: Clock,
    history: PeerHistory,
    /// Only one look counts as contact.
    contact: Option<ContactLog>,
    /// Locked by one task at a time, and never across an await.
    verdict: Arc<Mutex<ManagerVerdict>>,
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
            let mut contact = log.take();
            if ours.is_empty() && contact.is_none() {
                continue;
            }
            let histories: Vec<PeerHistory> =
                manager.looks.iter().map(|plan| (plan.history)()).collect();
            let standings = histories.iter().map(|history| history.standing().clone());
            let standings: Vec<PeerStanding> = standings.collect();
            let combined = PeerStanding::combined(&standings);
            let (row, state) = watch::channel(combined.hold(manager));
            rows.push((manager, state));
            let verdict = Arc::new(Mutex::new(ManagerVerdict {
                manager,
                ours,
                policy,
                standings,
                row,
                announced: None,
                was_alive: false,
            }));
            for (place, history) in histories.into_iter().enumerate() {
                let look = RepeatedLook {
                    plan: &manager.looks[place],
                    place,
                    client: clients.lease(),
                    clock: clock.clone(),
                    history,
                    contact: contact.take(),
                    verdict: verdict.clone(),
                };
                tasks.push(tokio::spawn(look.run()));
            }
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

// === impl RepeatedLook ===

impl RepeatedLook {
    async fn run(mut self) {
        loop {
            let look = self.look().await;
            self.take(look);
            sleep(self.history.pause()).await;
        }
    }

    /// Looks once. The first look reports a server that is slow to answer before it gives up.
    async fn look(&mut self) -> PeerLook {
        let look = look::look(&self.client, self.plan.path, self.plan.read);
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
        let verdict = self.verdict.lock();
        let mut verdict = verdict.unwrap_or_else(PoisonError::into_inner);
        verdict.take(self.place, self.history.standing().clone(), is_error);
    }
}

// === impl ManagerVerdict ===

impl ManagerVerdict {
    /// Takes the standing of one look.
    fn take(&mut self, place: usize, standing: PeerStanding, is_error: bool) {
        self.standings[place] = standing;
        let standing = PeerStanding::combined(&self.standings);
        let hold = standing.hold(self.manager);
        self.row.send_if_modified(|row| {
            let is_change = *row != hold;
            *row = hold;
            is_change
        });
        // If the server does not answer, the line about the contact says so.
        if is_error || !matches!(standing, PeerStanding::Unknown(_)) {
            self.announce(&standing);
        }
    }

    /// Prints a line if the standing is another one than the last line was about.
    fn announce(&mut self, standing: &PeerStanding) {
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
