//! The controllers at work in this process, and everything around them: feeds, events, evidence, metrics, the narrator.
//!
//! `up` and `run` differ in where the server is and in what may be done; from there on it is one crew. Whoever starts it
//! stops it, and then requests under way are waited for. A controller is a file in `crew` and a row in [`OTHERS`]; only
//! the collector is known by name, because its graph is asked for.

mod collector;
mod cron;
mod member;
mod podgc;
mod stage;
mod ttl;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use caretaker_controllers::gc::metrics::GcMetrics;
use caretaker_controllers::gc::view::{Part, View};
use caretaker_controllers::gc::{GarbageCollector, Knowledge};
use caretaker_controllers::runtime::clients::Clients;
use caretaker_controllers::runtime::driver::Mode;
use caretaker_controllers::runtime::driver::clock_skew::Timing;
use caretaker_controllers::runtime::effects::Limit;
use caretaker_controllers::runtime::events::Events;
use caretaker_controllers::runtime::evidence::Trail;
use caretaker_controllers::runtime::feed_set::{FeedSet, FeedSetOptions};
use caretaker_controllers::runtime::kind::KindState;
use caretaker_controllers::runtime::manager::{CurrentHandle, Manager, Shared};
use caretaker_controllers::runtime::metrics::Metrics;
use caretaker_controllers::runtime::record::Uid;
use caretaker_machinery::clock::Clock;
use caretaker_machinery::rng::Rng;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;

pub(crate) use self::collector::collected;
use self::member::{Hiring, Member, member};
use self::stage::Stage;
use crate::admin::Backstage;
use crate::args::{
    BATCH_CRON, BATCH_TTL, GARBAGE_COLLECTOR, POD_GC, VOLCANO_CRON, VOLCANO_TTL, Work,
};
use crate::output::narrate::Narrator;
use crate::output::told;

/// Who else can be at work: the name that `--controllers` has, and how it starts.
const OTHERS: [(&str, Start); 5] = [
    (BATCH_CRON, cron::batch),
    (VOLCANO_CRON, cron::volcano),
    (BATCH_TTL, ttl::batch),
    (VOLCANO_TTL, ttl::volcano),
    (POD_GC, podgc::start),
];

/// Starts a controller.
type Start = fn(&mut Hiring<'_>) -> Box<dyn Member>;

/// How often it is looked whether all kinds are known.
const SYNC_LOOK: Duration = Duration::from_millis(20);

/// What a crew is made of.
pub(crate) struct Orders<'a> {
    /// Where the server is.
    pub(crate) clients: Clients,
    /// Domain time.
    pub(crate) clock: Clock,
    /// Randomness.
    pub(crate) rng: Rng,
    /// How it works.
    pub(crate) work: &'a Work,
    /// So many requests, if that is limited.
    pub(crate) limit: Option<Limit>,
    /// Whether writes are sent.
    pub(crate) mode: Mode,
    /// Controllers that only show what they would do, because somebody else does it.
    pub(crate) shy: Vec<&'static str>,
    /// Whether the server has a clock of its own.
    pub(crate) timing: Timing,
}

/// Controllers at work.
pub(crate) struct Crew {
    manager: Manager,
    stage: Arc<Stage>,
    feeds: FeedSet,
    /// Nothing if it is off.
    collector: Option<CurrentHandle<GarbageCollector>>,
    clock: Clock,
    asides: Vec<JoinHandle<()>>,
    narrator: Option<JoinHandle<()>>,
    evidence: Trail,
}

// === impl Crew ===

impl Crew {
    /// Starts what is on. Must be called inside a tokio runtime.
    pub(crate) fn start(orders: Orders<'_>) -> Self {
        let Orders {
            clients,
            clock,
            mut rng,
            work,
            limit,
            mode,
            shy,
            timing,
        } = orders;
        let metrics = Metrics::new();
        caretaker_controllers::register_metrics(&metrics);
        let evidence = Trail::new();
        let seed = rng.u64();
        let feeds = FeedSet::start(
            clients.watches(),
            clock.clone(),
            rng,
            FeedSetOptions::default(),
        );
        // Whoever only shows what it would do tells nobody: an Event is a write, too.
        let (events, recorder) = Events::new(clients.requests(), clock.clone(), metrics.clone());
        let asides = vec![tokio::spawn(recorder.run())];
        let mut manager = Manager::new(Shared {
            client: clients.requests(),
            feeds: feeds.clone(),
            clock: clock.clone(),
            events,
            evidence: evidence.clone(),
            metrics: metrics.clone(),
            limit,
        });
        let hiring = &mut Hiring {
            manager: &mut manager,
            work,
            mode,
            shy: &shy,
            timing,
            seed,
        };
        let (collector, members) = hire(hiring);
        let stage = Stage {
            feeds: feeds.clone(),
            metrics,
            evidence: evidence.clone(),
            members,
            collector: collector.clone(),
        };
        let mut crew = Self {
            manager,
            stage: Arc::new(stage),
            feeds,
            collector,
            clock,
            asides,
            narrator: None,
            evidence,
        };
        if !work.quiet {
            crew.narrate();
        }
        crew
    }

    /// From now on it is told, on stderr, what the controllers do.
    pub(crate) fn narrate(&mut self) {
        let narrate = || tokio::spawn(narrate(self.evidence.clone(), self.clock.clone()));
        self.narrator.get_or_insert_with(narrate);
    }

    /// Says once, on stderr, when every kind has been listed or cannot be.
    pub(crate) fn announce(&mut self) {
        if let Some(collector) = &self.collector {
            let told = announce(self.feeds.clone(), collector.clone());
            self.asides.push(tokio::spawn(told));
        }
    }

    /// What the controllers did, and do from now on.
    pub(crate) fn evidence(&self) -> Trail {
        self.evidence.clone()
    }

    /// Returns when every kind has been listed or cannot be; at once if nobody needs that.
    pub(crate) async fn ready(&self) {
        if let Some(collector) = &self.collector {
            complete(&self.feeds, collector).await;
        }
    }

    /// What all that works in this process learns from.
    pub(crate) fn feeds(&self) -> FeedSet {
        self.feeds.clone()
    }

    /// What the admin server asks.
    pub(crate) fn backstage(&self) -> Arc<dyn Backstage> {
        self.stage.clone()
    }

    /// Whether the collector knows these objects, by uid. It learns of them from its own watches, a moment after others.
    pub(crate) async fn has_seen(&self, uids: &[&str]) -> bool {
        let Some(collector) = &self.collector else {
            return true;
        };
        let Some(handle) = collector.borrow().clone() else {
            return false;
        };
        let part = Part::Above(uids.iter().map(|uid| Uid::from(*uid)).collect());
        let view = handle.ask(move |collector, _| View::of(collector.index(), &part));
        let view = view.await.unwrap_or_default();
        let is_shown = |uid: &&str| {
            let mut nodes = view.nodes.iter();
            nodes.any(|node| node.uid == **uid && !node.r#virtual)
        };
        uids.iter().all(is_shown)
    }

    /// Ends all work, after the requests under way, and tells what has not been told.
    pub(crate) async fn stop(self) {
        self.manager.stop().await;
        for aside in self.asides {
            aside.abort();
        }
        drop(self.stage);
        // The narrator ends with the last one who could record anything.
        drop(self.evidence);
        if let Some(narrator) = self.narrator {
            let _ = tokio::time::timeout(Duration::from_secs(1), narrator).await;
        }
    }
}

/// Starts everybody who is on; the collector, if it is, is also told apart.
fn hire(
    hiring: &mut Hiring<'_>,
) -> (
    Option<CurrentHandle<GarbageCollector>>,
    Vec<Box<dyn Member>>,
) {
    let work = hiring.work;
    let collector = work
        .runs(GARBAGE_COLLECTOR)
        .then(|| collector::start(hiring));
    let mut members: Vec<Box<dyn Member>> = Vec::new();
    if let Some(post) = collector.clone() {
        members.push(member(GARBAGE_COLLECTOR, post, |collector, metrics| {
            metrics.of::<GcMetrics>().refresh(collector);
        }));
    }
    let others = OTHERS.iter().filter(|(name, _)| work.runs(name));
    members.extend(others.map(|(_, start)| start(hiring)));
    (collector, members)
}

/// Says once, on stderr, that every kind has been listed or cannot be.
async fn announce(feeds: FeedSet, collector: CurrentHandle<GarbageCollector>) {
    let known = complete(&feeds, &collector).await;
    eprintln!(
        "caretaker: the graph is complete: {} objects of {} kinds",
        known.objects, known.kinds
    );
}

/// Waits until every kind has been listed or cannot be, and the collector knows.
async fn complete(feeds: &FeedSet, collector: &CurrentHandle<GarbageCollector>) -> Knowledge {
    let is_complete = || {
        let states = feeds.states();
        let is_pending = |state: &KindState| matches!(state, KindState::Syncing(_));
        !states.is_empty() && !states.iter().any(|(_, state)| is_pending(state))
    };
    loop {
        let handle = collector.borrow().clone();
        if is_complete()
            && let Some(handle) = handle
            && let Some(known) = handle
                .ask(|collector, _| collector.index().knowledge())
                .await
            && known.pending == 0
        {
            return known;
        }
        tokio::time::sleep(SYNC_LOOK).await;
    }
}

/// Prints what was done, on stderr, until nobody can do anything any more.
async fn narrate(evidence: Trail, clock: Clock) {
    let mut heard = evidence.subscribe();
    drop(evidence);
    let mut narrator = Narrator::default();
    loop {
        let due = narrator.due();
        tokio::select! {
            biased;
            record = heard.recv() => match record {
                Ok(record) => {
                    for fact in told::facts(&record) {
                        print(narrator.hear(fact));
                    }
                }
                // Some of what was done is not told; evidence and metrics have it.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => break,
            },
            () = until(&clock, due) => {}
        }
        print(narrator.tell(clock.now()));
    }
    print(narrator.finish());
}

async fn until(clock: &Clock, due: Option<jiff::Timestamp>) {
    match due {
        Some(due) => clock.sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn print(lines: Vec<String>) {
    let mut stderr = std::io::stderr().lock();
    for line in lines {
        // Nothing can be done about a terminal that is gone.
        let _ = writeln!(stderr, "caretaker: {line}");
    }
}
