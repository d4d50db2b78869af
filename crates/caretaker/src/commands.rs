//! The commands that look: `graph` and `explain` at a cluster, `schedule` at an expression or at CronJobs.
//!
//! The first two learn what the collector would know, by the same feeds into the same index, and then answer from it. They
//! cannot write: no driver runs, and of a decision's requests only reads are carried out. The one command here that changes
//! something is `schedule run`, which makes one Job. What could not be learned is said on stderr, because an answer from half
//! of the objects looks like any other.

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
use caretaker_controllers::gc::{GarbageCollector, ORPHAN_HOLD_MAX};
use caretaker_controllers::runtime::clients::{Choice, Clients, Environment};
use caretaker_controllers::runtime::controller::{Change, Controller, Wake};
use caretaker_controllers::runtime::effects::Effects;
use caretaker_controllers::runtime::feed_set::{FeedSet, FeedSetOptions, Interest};
use caretaker_controllers::runtime::kind::{Catalog, KindId, KindState};
use caretaker_controllers::runtime::metrics::Metrics;
use caretaker_machinery::clock::Clock;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::args::{Explain, Graph, Place, Schedule};
use crate::{crew, wiring};

/// How many kinds are named before the rest is counted.
const KINDS_NAMED: usize = 10;

/// What is known of a cluster.
struct Look {
    collector: GarbageCollector,
    effects: Effects,
    clock: Clock,
    catalog: Arc<Catalog>,
    states: BTreeMap<KindId, KindState>,
    interest: Interest,
    namespace: String,
    /// They end when this goes.
    feeds: FeedSet,
    /// What they told; kept, because kinds that nobody listens to are forgotten.
    changes: mpsc::Receiver<Change>,
}

/// `caretaker graph`.
pub(crate) fn graph(args: &Graph) -> Result<ExitCode> {
    wiring::log_but(args.verbosity.level(), QUIET)?;
    block_on(graph::run(args))
}

/// `caretaker explain`.
pub(crate) fn explain(args: &Explain) -> Result<ExitCode> {
    wiring::log_but(args.verbosity.level(), QUIET)?;
    block_on(explain::run(args))
}

/// `caretaker schedule`.
pub(crate) fn schedule(args: &Schedule) -> Result<ExitCode> {
    match args {
        Schedule::Next(args) => {
            let answer = schedule::next(args, wiring::clock().now())?;
            if let Some(note) = answer.note {
                eprintln!("caretaker: {note}");
            }
            print(&answer.text)?;
            Ok(ExitCode::SUCCESS)
        }
        Schedule::List(args) => {
            wiring::log(args.verbosity.level())?;
            block_on(schedule::list(args))
        }
        Schedule::Run(args) => {
            wiring::log(args.verbosity.level())?;
            block_on(schedule::run(args))
        }
    }
}

/// What these commands say in their own words: a user who may list nothing would read a line for each kind.
const QUIET: &str = "caretaker_controllers::runtime::feed::task=error";

/// Runs a command to its end and prints what it has to say.
fn block_on(command: impl Future<Output = Result<String>>) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let outcome = runtime.block_on(command);
    runtime.shutdown_background();
    print(&outcome?)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints to stdout. A reader that has seen enough, `head` for one, is no error.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot print"),
        _ => Ok(()),
    }
}

// === impl Look ===

impl Look {
    /// Learns what there is, as long as that takes, but no longer than the collector would wait.
    async fn take(place: &Place) -> Result<Self> {
        let (clients, namespace) = reach(place).await?;
        let server = clients.server().to_owned();
        let clock = wiring::clock();
        let mut rng = wiring::rng()?;
        let collector = GarbageCollector::new(rng.u64());
        let interest = crew::collected(&[]);
        let options = FeedSetOptions::default();
        let feeds = FeedSet::start(clients.watches(), clock.clone(), rng, options);
        let mut look = Self {
            collector,
            effects: Effects::new(clients.requests(), feeds.catalog(), Metrics::new()),
            clock,
            catalog: Arc::default(),
            states: BTreeMap::new(),
            namespace,
            interest: interest.clone(),
            feeds: feeds.clone(),
            changes: feeds.subscribe(interest),
        };
        look.read().await;
        if look.catalog.iter().next().is_none() {
            bail!("the server {server} does not say what kinds it has");
        }
        for sentence in gaps(&look.catalog, &look.states, feeds.unreadable()) {
            eprintln!("caretaker: {sentence}");
        }
        Ok(look)
    }

    async fn read(&mut self) {
        let deadline = Instant::now() + ORPHAN_HOLD_MAX;
        while !self.is_complete() {
            match timeout_at(deadline, self.changes.recv()).await {
                Ok(Some(change)) => self.observe(&change),
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn observe(&mut self, change: &Change) {
        match change {
            Change::Catalog(catalog) => self.catalog = catalog.clone(),
            Change::Kind(kind, state) => {
                self.states.insert(*kind, *state);
            }
            Change::Applied(_) | Change::Deleted(_) | Change::Missing(..) => {}
        }
        // Nobody decides anything before everything is known, so nobody has to be woken.
        let wake = &mut Wake::default();
        self.collector.observe(change, self.clock.now(), wake);
    }

    /// Whether every kind has been listed, or cannot be.
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

/// The cluster that is meant and answers, and the namespace in it.
async fn reach(place: &Place) -> Result<(Clients, String)> {
    let choice = Choice {
        kubeconfig: place.kubeconfig.clone(),
        context: place.context.clone(),
        environment: Environment::read(),
    };
    let clients = Clients::find(&choice).await?;
    knock(&clients).await?;
    let namespace = match &place.namespace {
        Some(namespace) => namespace.clone(),
        None => clients.namespace().to_owned(),
    };
    Ok((clients, namespace))
}

/// Feeds are patient with a server that is not there yet. Somebody who waits for an answer is not.
async fn knock(clients: &Clients) -> Result<()> {
    let server = clients.server();
    match clients.requests().apiserver_version().await {
        Err(kube::Error::Api(status)) if status.code == 401 => {
            bail!("the server {server} does not know you: {}", status.message)
        }
        // Whoever may not read the version may still read objects.
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

/// What could not be learned, a sentence each.
fn gaps(catalog: &Catalog, states: &BTreeMap<KindId, KindState>, unreadable: u64) -> Vec<String> {
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
        those(|state| *state == KindState::Forbidden).map(|kinds| {
            format!("the server does not let you list {kinds}: those are missing here")
        }),
        those(|state| matches!(state, KindState::Failing(_)))
            .map(|kinds| format!("the server fails to list {kinds}: those are missing here")),
        those(|state| matches!(state, KindState::Syncing(_) | KindState::Frozen)).map(|kinds| {
            let secs = ORPHAN_HOLD_MAX.as_secs();
            format!("{kinds} were not listed within {secs} s: those are missing here")
        }),
        (unreadable > 0)
            .then(|| format!("objects that cannot be read and are missing here: {unreadable}")),
    ];
    sentences.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
