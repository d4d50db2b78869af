//! The commands `graph`, `explain` and `schedule`.
//!
//! `graph` and `explain` fill the garbage collector's index from the same watches as the controllers and answer from it.
//! They cannot write: no driver runs, and only the reads of a decision are sent. `schedule run` is the only command here
//! that writes; it creates one Job. Kinds that could not be listed are named on stderr, because an incomplete answer looks
//! like a complete one.

mod explain;
mod find;
mod graph;
mod schedule;

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use caretaker_controllers::gc::{GarbageCollector, KIND_WAIT_MAX};
use caretaker_controllers::runtime::clients::{
    ClientEnvironment, ClientsError, ClusterChoice, ClusterClients,
};
use caretaker_controllers::runtime::controller::{Controller, ObservedChange, WakeList};
use caretaker_controllers::runtime::effects::{Effects, REQUEST_TIMEOUT};
use caretaker_controllers::runtime::feed_set::{FeedSet, FeedSetOptions, KindInterest};
use caretaker_controllers::runtime::kind::{KindCatalog, KindId, KindState};
use caretaker_controllers::runtime::metrics::ControllerMetrics;
use caretaker_controllers::runtime::record::{ObjectRecord, Uid};
use caretaker_machinery::clock::Clock;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::args::{ClusterFlags, ExplainFlags, GraphFlags, LogFormat, ScheduleCommand};
use crate::up::kubeconfig;
use crate::wiring::{self, notice};
use crate::{controller_set, instances};

/// Kinds that a message names; the rest is counted.
const KINDS_NAMED: usize = 10;

/// The objects of a cluster in the garbage collector's index.
struct ClusterSnapshot {
    collector: GarbageCollector,
    effects: Effects,
    clock: Clock,
    catalog: Arc<KindCatalog>,
    states: BTreeMap<KindId, KindState>,
    interest: KindInterest,
    namespace: String,
    /// The address of the API server.
    server: String,
    /// Objects that had finalizers when they were listed. The index keeps only those of the garbage collector.
    held: BTreeMap<Uid, Arc<ObjectRecord>>,
    /// The watches end when this is dropped.
    feeds: FeedSet,
    /// Kept open: kinds without a subscriber are forgotten.
    changes: mpsc::Receiver<ObservedChange>,
}

pub(crate) fn graph(args: &GraphFlags) -> Result<ExitCode> {
    wiring::log_except(args.verbosity.level(), LogFormat::Text, SILENCED)?;
    block_on(graph::run(args))
}

pub(crate) fn explain(args: &ExplainFlags) -> Result<ExitCode> {
    wiring::log_except(args.verbosity.level(), LogFormat::Text, SILENCED)?;
    block_on(explain::run(args))
}

pub(crate) fn schedule(args: &ScheduleCommand) -> Result<ExitCode> {
    match args {
        ScheduleCommand::Next(args) => {
            let output = schedule::next(args, wiring::clock().now())?;
            if let Some(note) = output.note {
                notice(&note);
            }
            print(&output.text)?;
            Ok(ExitCode::SUCCESS)
        }
        ScheduleCommand::List(args) => {
            wiring::log(args.verbosity.level(), LogFormat::Text)?;
            block_on(schedule::list(args))
        }
        ScheduleCommand::Run(args) => {
            wiring::log(args.verbosity.level(), LogFormat::Text)?;
            block_on(schedule::run(args))
        }
    }
}

/// Failed lists are reported by [`gaps`] in one sentence instead of a log line per kind.
const SILENCED: &str = "caretaker_controllers::runtime::feed::task=error";

/// Runs a command and prints its result.
fn block_on(command: impl Future<Output = Result<String>>) -> Result<ExitCode> {
    print(&wiring::block_on(command)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints to stdout. A closed pipe, as of `head`, is no error.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to stdout")
        }
        _ => Ok(()),
    }
}

// === impl ClusterSnapshot ===

impl ClusterSnapshot {
    /// Lists all kinds. Gives up on a kind after the time that the garbage collector waits for it.
    async fn take(cluster: &ClusterFlags) -> Result<Self> {
        let (clients, namespace) = connect(cluster).await?;
        let server = clients.server().to_owned();
        let clock = wiring::clock();
        let mut rng = wiring::rng()?;
        let collector = GarbageCollector::new(rng.u64());
        let interest = controller_set::collected_kinds(&[]);
        let options = FeedSetOptions::default();
        let feeds = FeedSet::start(clients.watches(), clock.clone(), rng, options);
        let mut snapshot = Self {
            collector,
            effects: Effects::new(
                clients.requests(),
                feeds.catalog(),
                ControllerMetrics::new(),
            ),
            clock,
            catalog: Arc::default(),
            states: BTreeMap::new(),
            namespace,
            server,
            held: BTreeMap::new(),
            interest: interest.clone(),
            feeds: feeds.clone(),
            changes: feeds.subscribe(interest),
        };
        snapshot.fill().await;
        if snapshot.catalog.iter().next().is_none() {
            bail!(
                "discovery of the server {} returned no kinds",
                snapshot.server
            );
        }
        for sentence in gaps(&snapshot.catalog, &snapshot.states, feeds.unreadable()) {
            notice(&sentence);
        }
        Ok(snapshot)
    }

    async fn fill(&mut self) {
        let deadline = Instant::now() + KIND_WAIT_MAX;
        while !self.is_complete() {
            match timeout_at(deadline, self.changes.recv()).await {
                Ok(Some(change)) => self.observe(&change),
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn observe(&mut self, change: &ObservedChange) {
        match change {
            ObservedChange::Catalog(catalog) => self.catalog = catalog.clone(),
            ObservedChange::Kind(kind, state) => {
                self.states.insert(*kind, *state);
            }
            ObservedChange::Applied(record) if !record.meta.finalizers.is_empty() => {
                self.held.insert(record.meta.uid.clone(), record.clone());
            }
            ObservedChange::Applied(_)
            | ObservedChange::Deleted(_)
            | ObservedChange::Missing(..)
            | ObservedChange::Progress(..) => {}
        }
        // Decisions start after the last list, so wake-ups are dropped.
        let wake = &mut WakeList::default();
        self.collector.observe(change, self.clock.now(), wake);
    }

    /// Whether every kind is listed or cannot be listed.
    fn is_complete(&self) -> bool {
        let mut kinds = self.catalog.iter().peekable();
        let is_settled = |kind: KindId| {
            let state = self.states.get(&kind);
            state.is_some_and(|state| !matches!(state, KindState::Syncing(_)))
        };
        kinds.peek().is_some()
            && kinds.all(|(id, kind)| !self.interest.includes(kind) || is_settled(id))
    }
}

/// Connects to the cluster of the flags. Returns the namespace, too.
async fn connect(cluster: &ClusterFlags) -> Result<(ClusterClients, String)> {
    let clients = find_cluster(cluster).await?;
    check_server(&clients).await?;
    let namespace = match &cluster.namespace {
        Some(namespace) => namespace.clone(),
        None => clients.namespace().to_owned(),
    };
    Ok((clients, namespace))
}

/// The cluster of the flags, else of the environment, else the only `caretaker up` that runs on this machine.
async fn find_cluster(cluster: &ClusterFlags) -> Result<ClusterClients> {
    let running = || instances::running(&kubeconfig::directory());
    let mut choice = ClusterChoice {
        kubeconfig: cluster.kubeconfig.clone(),
        context: cluster.context.clone(),
        environment: ClientEnvironment::read(),
        seed: wiring::rng()?.u64(),
    };
    if let Some(name) = &cluster.name {
        choice.kubeconfig = Some(instances::named(running(), name)?.kubeconfig);
    }
    let clock = wiring::clock();
    let missing = match ClusterClients::find(&choice, &clock).await {
        Err(error @ ClientsError::NoKubeconfig { .. }) if choice.kubeconfig.is_none() => error,
        decided => return Ok(decided?),
    };
    let Some(instance) = instances::only(running())? else {
        return Err(missing.into());
    };
    notice(&instance.chosen());
    choice.kubeconfig = Some(instance.kubeconfig);
    Ok(ClusterClients::find(&choice, &clock).await?)
}

/// Fails early if the server does not answer: the watches would retry forever.
async fn check_server(clients: &ClusterClients) -> Result<()> {
    let server = clients.server();
    let client = clients.requests();
    let Ok(version) = tokio::time::timeout(REQUEST_TIMEOUT, client.apiserver_version()).await
    else {
        let secs = REQUEST_TIMEOUT.as_secs();
        bail!("the server {server} does not answer: no answer within {secs} s");
    };
    match version {
        Err(kube::Error::Api(status)) if status.code == 401 => {
            bail!(
                "the server {server} rejected the credentials: {}",
                status.message
            )
        }
        // A user without access to the version may still read objects.
        Ok(_) | Err(kube::Error::Api(_)) => Ok(()),
        Err(error) => {
            let error = anyhow::Error::from(error);
            bail!(
                "the server {server} does not answer: {}",
                error.root_cause()
            )
        }
    }
}

/// One sentence for each reason why kinds or objects are missing.
fn gaps(
    catalog: &KindCatalog,
    states: &BTreeMap<KindId, KindState>,
    unreadable: u64,
) -> Vec<String> {
    let those = |wanted: fn(&KindState) -> bool| {
        let kinds = states.iter().filter(|(_, state)| wanted(state));
        let names = kinds.filter_map(|(id, _)| catalog.get(*id));
        let mut names: Vec<String> = names.map(ToString::to_string).collect();
        names.sort_unstable();
        let rest = names.len().saturating_sub(KINDS_NAMED);
        names.truncate(KINDS_NAMED);
        let more = if rest > 0 {
            format!(" and {rest} more")
        } else {
            String::new()
        };
        (!names.is_empty()).then(|| names.join(", ") + &more)
    };
    let sentences = [
        those(|state| *state == KindState::Forbidden)
            .map(|kinds| format!("missing in this output: {kinds} (forbidden to list)")),
        those(|state| matches!(state, KindState::Failing(_))).map(|kinds| {
            format!("missing in this output: {kinds} (the server failed to list them)")
        }),
        those(|state| matches!(state, KindState::Syncing(_) | KindState::Frozen)).map(|kinds| {
            let secs = KIND_WAIT_MAX.as_secs();
            format!("missing in this output: {kinds} (not listed within {secs} s)")
        }),
        (unreadable > 0)
            .then(|| format!("missing in this output: {unreadable} objects that cannot be parsed")),
    ];
    sentences.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
