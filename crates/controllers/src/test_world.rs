//! One controller on the real driver and queue, against a scripted API server: the world of all controller tests.
//!
//! Time stands still unless a test moves it. The driver runs by hand: [`TestWorld::step`] decides one key or takes one
//! answer, [`TestWorld::settle`] goes on until no key is due and no watch event is left. Watch events of a kind can lag
//! behind, arrive before the answer to the request that caused them, or after it.

mod server;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use caretaker_machinery::clock::{Clock, REAL_TIME};
use jiff::Timestamp;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};

use server::ServerWire;
pub(crate) use server::{ObjectPlace, ScriptedServer, ServerFault, merged, text};

use crate::runtime::call::{ApiAnswer, ApiCall, FailureKind};
use crate::runtime::controller::{
    AfterWrite, AnsweredCall, Controller, DriverStep, EventNote, FeedProgress, ObservedChange,
    Verdict, WakeList,
};
use crate::runtime::driver::clock_skew::TimeSource;
use crate::runtime::driver::{Driver, DriverOptions, DriverParts};
use crate::runtime::effects::Effects;
use crate::runtime::events::EventSink;
use crate::runtime::evidence::EvidenceTrail;
use crate::runtime::kind::{ApiKind, KindCatalog, KindId, KindScope, KindVerbs};
use crate::runtime::metrics::ControllerMetrics;
use crate::runtime::record::{ObjectRecord, RecordView, Revision};

/// More steps than any cascade in these tests takes.
const STEPS_MAX: usize = 2_000_000;

/// A controller, its driver and its server.
pub(crate) struct TestWorld<C: Controller> {
    driver: Driver<RecordedController<C>>,
    server: Arc<Mutex<ScriptedServer>>,
    client: kube::Client,
    catalog: watch::Sender<Arc<KindCatalog>>,
    clock: Clock,
    notes: mpsc::Receiver<(&'static str, EventNote)>,
    options: WorldOptions,
    /// Kinds whose watch events wait until [`TestWorld::catch_up`].
    pub(crate) lagging: BTreeSet<KindId>,
    /// Whether watch events arrive before the answer to the request that caused them.
    pub(crate) shows_first: bool,
    /// Drops last: the driver and the client need it.
    runtime: Runtime,
}

/// The options of a world.
#[derive(Clone, Copy)]
pub(crate) struct WorldOptions {
    pub(crate) start: Timestamp,
    /// How much of an object the controller's feeds show.
    pub(crate) view: RecordView,
    /// The longest backoff of a key.
    pub(crate) retry_max: Duration,
    /// Whose time the controller judges by.
    pub(crate) timing: TimeSource,
}

/// Passes all calls to a controller and records what the driver does with it.
pub(crate) struct RecordedController<C: Controller> {
    inner: C,
    decisions: Cell<usize>,
    calls: Vec<ApiCall>,
    /// Answers after which a key backs off.
    failures: usize,
    /// The keys that the last change woke, and when they become due.
    woken: Vec<(C::Key, Option<Timestamp>)>,
}

// === impl TestWorld ===

impl<C: Controller> TestWorld<C> {
    /// The controller knows `kinds` from discovery, and nothing else.
    pub(crate) fn new(
        controller: C,
        kinds: impl IntoIterator<Item = ApiKind>,
        options: WorldOptions,
    ) -> Self {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without I/O");
        let guard = runtime.enter();
        let clock = Clock::driven(options.start, REAL_TIME);
        let catalog = Arc::new(KindCatalog::default().with(kinds));
        let server = ScriptedServer::new(catalog.clone(), options.view, clock.clone());
        let server = Arc::new(Mutex::new(server));
        let client = kube::Client::new(ServerWire(server.clone()), "default");
        let catalog = watch::Sender::new(catalog);
        let (driver, notes) = start(controller, &client, &catalog, &clock, options);
        drop(guard);
        let mut world = Self {
            driver,
            server,
            client,
            catalog,
            clock,
            notes,
            options,
            lagging: BTreeSet::new(),
            shows_first: false,
            runtime,
        };
        world.show_catalog();
        world
    }

    /// Another process takes over with an empty index. The test shows it the objects.
    pub(crate) fn restart(&mut self, controller: C) {
        let guard = self.runtime.enter();
        let parts = start(
            controller,
            &self.client,
            &self.catalog,
            &self.clock,
            self.options,
        );
        drop(guard);
        (self.driver, self.notes) = parts;
        self.show_catalog();
    }

    /// Replaces what discovery returns.
    pub(crate) fn serve(&mut self, kinds: impl IntoIterator<Item = ApiKind>) {
        let catalog = Arc::new(self.catalog.borrow().with(kinds));
        self.server().catalog = catalog.clone();
        self.catalog.send_replace(catalog);
        self.show_catalog();
    }

    fn show_catalog(&mut self) {
        let catalog = self.catalog.borrow().clone();
        self.observe(&ObservedChange::Catalog(catalog));
    }

    pub(crate) fn server(&self) -> MutexGuard<'_, ScriptedServer> {
        self.server.lock().expect("no request panicked")
    }

    pub(crate) fn controller(&self) -> &C {
        &self.driver.controller().inner
    }

    pub(crate) fn controller_mut(&mut self) -> &mut C {
        &mut self.driver.controller_mut().inner
    }

    pub(crate) fn decisions(&self) -> usize {
        self.driver.controller().decisions.get()
    }

    /// The requests that were answered, in order.
    pub(crate) fn calls(&self) -> &[ApiCall] {
        &self.driver.controller().calls
    }

    pub(crate) fn failures(&self) -> usize {
        self.driver.controller().failures
    }

    /// The keys that the last change woke, and when they become due.
    pub(crate) fn woken(&self) -> &[(C::Key, Option<Timestamp>)] {
        &self.driver.controller().woken
    }

    /// The Events since the last call.
    pub(crate) fn take_notes(&mut self) -> Vec<EventNote> {
        std::iter::from_fn(|| self.notes.try_recv().ok())
            .map(|(_, note)| note)
            .collect()
    }

    pub(crate) fn now(&self) -> Timestamp {
        let _guard = self.runtime.enter();
        self.clock.now()
    }

    pub(crate) fn set_time(&self, time: Timestamp) {
        let _guard = self.runtime.enter();
        let by = time.duration_since(self.clock.now());
        self.clock.jump(by).expect("the clock is driven");
    }

    /// The decision about a key, without its consequences.
    pub(crate) fn decide(&self, key: &C::Key) -> Verdict<C::Key, C::Reason> {
        self.controller().decide(key, self.now())
    }

    pub(crate) fn observe(&mut self, change: &ObservedChange) {
        let _guard = self.runtime.enter();
        self.driver.take_change(change);
    }

    /// Makes a key due, as a relist could.
    pub(crate) fn wake(&mut self, key: C::Key) {
        let _guard = self.runtime.enter();
        self.driver.wake(key);
    }

    /// Shows the next watch event of a kind. False: there is none.
    pub(crate) fn deliver(&mut self, kind: KindId) -> bool {
        let event = self.server().events.entry(kind).or_default().pop_front();
        event.map(|event| self.observe(&event)).is_some()
    }

    /// Shows all watch events of kinds that do not lag.
    pub(crate) fn deliver_all(&mut self) {
        for event in due_events(&self.server, &self.lagging) {
            self.observe(&event);
        }
    }

    /// No kind lags any more, and all watch events are shown.
    pub(crate) fn catch_up(&mut self) {
        self.lagging.clear();
        self.deliver_all();
    }

    /// Decides one key and takes the answer to its request. False: no key is due and no answer is awaited.
    pub(crate) fn step(&mut self) -> bool {
        let guard = self.runtime.enter();
        let is_new = !self.driver.has_request();
        if is_new && !self.driver.decide_next() {
            return false;
        }
        drop(guard);
        if self.driver.has_request() {
            let (server, lagging) = (&self.server, &self.lagging);
            let shows_first = self.shows_first;
            let events = || match shows_first {
                true => due_events(server, lagging),
                false => Vec::new(),
            };
            self.runtime.block_on(self.driver.take_answer(events));
        }
        true
    }

    /// Runs steps until none is left to do now.
    pub(crate) fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            self.deliver_all();
            if !self.step() {
                return;
            }
        }
        panic!("it never settles");
    }

    /// Whether no key is due and all watch events were shown.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let _guard = self.runtime.enter();
        let has_events = self
            .server()
            .events
            .values()
            .any(|events| !events.is_empty());
        !has_events && !self.driver.is_due()
    }

    /// When the next key becomes due.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let _guard = self.runtime.enter();
        let wait = self.driver.next_due_in()?;
        Some(self.clock.now() + wait)
    }

    /// Lets time pass, with everything that becomes due meanwhile.
    pub(crate) fn pass(&mut self, duration: Duration) {
        let end = self.now() + duration;
        self.settle();
        while let Some(at) = self.next_due()
            && at <= end
        {
            self.set_time(at.max(self.now()));
            self.settle();
        }
        self.set_time(end);
        self.settle();
    }
}

/// Takes the watch events of all kinds that do not lag, and their bookmarks.
fn due_events(server: &Mutex<ScriptedServer>, lagging: &BTreeSet<KindId>) -> Vec<ObservedChange> {
    let mut server = server.lock().expect("no request panicked");
    let revision = server.revision;
    let kinds = server.events.iter_mut();
    let due = kinds.filter(|(kind, _)| !lagging.contains(kind));
    let mut due: Vec<ObservedChange> = due.flat_map(|(_, events)| events.drain(..)).collect();
    let bookmarked = server.bookmarked.iter_mut();
    for (kind, sent) in bookmarked.filter(|(kind, _)| !lagging.contains(kind)) {
        if *sent < revision {
            *sent = revision;
            let progress = FeedProgress::UpTo(Revision::Number(revision));
            due.push(ObservedChange::Progress(*kind, progress));
        }
    }
    due
}

type StartedDriver<C> = (
    Driver<RecordedController<C>>,
    mpsc::Receiver<(&'static str, EventNote)>,
);

fn start<C: Controller>(
    controller: C,
    client: &kube::Client,
    catalog: &watch::Sender<Arc<KindCatalog>>,
    clock: &Clock,
    options: WorldOptions,
) -> StartedDriver<C> {
    let metrics = ControllerMetrics::new();
    let (events, notes) = EventSink::captured();
    let effects = Effects::new(client.clone(), catalog.subscribe(), metrics.clone());
    let parts = DriverParts {
        effects: effects.showing(options.view),
        clock: clock.clone(),
        events,
        evidence: EvidenceTrail::new(),
        metrics,
        options: DriverOptions {
            retry_max: options.retry_max,
            timing: options.timing,
            ..DriverOptions::default()
        },
    };
    let recorded = RecordedController {
        inner: controller,
        decisions: Cell::new(0),
        calls: Vec::new(),
        failures: 0,
        woken: Vec::new(),
    };
    // Tests pass changes themselves.
    let (_, changes) = mpsc::channel(1);
    (Driver::new(recorded, changes, parts), notes)
}

// === impl RecordedController ===

impl<C: Controller> Controller for RecordedController<C> {
    type Key = C::Key;
    type Reason = C::Reason;

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn observe(&mut self, change: &ObservedChange, now: Timestamp, wake: &mut WakeList<C::Key>) {
        let mut woken = WakeList::default();
        self.inner.observe(change, now, &mut woken);
        self.woken = woken.drain().collect();
        for (key, at) in self.woken.iter().cloned() {
            match at {
                Some(at) => wake.at(key, at),
                None => wake.now(key),
            }
        }
    }

    fn decide(&self, key: &C::Key, now: Timestamp) -> Verdict<C::Key, C::Reason> {
        self.decisions.set(self.decisions.get() + 1);
        self.inner.decide(key, now)
    }

    fn answered(&mut self, answered: AnsweredCall<'_, C::Key>) -> Vec<EventNote> {
        self.calls.push(answered.call.clone());
        if let ApiAnswer::Failed(failure) = answered.answer {
            // After a conflict of a write the driver reads the object at once.
            let is_read_next = failure.kind == FailureKind::Conflict && !answered.call.is_read();
            self.failures += usize::from(!is_read_next);
        }
        self.inner.answered(answered)
    }

    fn after_write(&self) -> AfterWrite {
        self.inner.after_write()
    }

    fn measure(&mut self, step: &DriverStep<'_, C::Key, C::Reason>, metrics: &ControllerMetrics) {
        self.inner.measure(step, metrics);
    }

    fn keys(&self, record: &ObjectRecord) -> Vec<C::Key> {
        self.inner.keys(record)
    }
}

/// A kind of one version that can be read, watched and deleted.
pub(crate) fn mk_kind(
    group: &str,
    version: &str,
    kind: &str,
    resource: &str,
    scope: KindScope,
) -> ApiKind {
    ApiKind {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        resource: resource.into(),
        scope,
        verbs: KindVerbs {
            get: true,
            list: true,
            watch: true,
            delete: true,
        },
        versions: vec![version.into()],
        aliases: Vec::new(),
    }
}
