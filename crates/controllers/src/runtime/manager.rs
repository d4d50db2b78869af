//! Starts controllers, restarts them when they panic, and stops all of them together.
//!
//! A controller is made by a factory, because one that panicked is dropped with its whole index: its successor lists
//! everything anew, which is safe, where half an update would not be. The process lives on, and metrics count restarts.
//! Mirrors what `kube-controller-manager` does around its controllers, where a panic ends the process.

use std::time::Duration;

use caretaker_machinery::clock::Clock;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::controller::Controller;
use super::driver::{Driver, DriverHandle, DriverOptions, DriverParts};
use super::effects::{ClientRateLimit, Effects};
use super::events::EventSink;
use super::evidence::EvidenceTrail;
use super::feed_set::{FeedSet, KindInterest};
use super::metrics::{ControllerLabel, ControllerMetrics, RunningLabels};

/// The time from the first panic to the restart, as of upstream's workers. It doubles with each further panic, because
/// each restart lists everything anew.
const RESTART_MIN: Duration = Duration::from_secs(1);

/// The longest time from a panic to the restart.
const RESTART_MAX: Duration = Duration::from_secs(60);

/// After a controller has run for this time, earlier panics are forgotten.
const RESTART_FORGOTTEN: Duration = Duration::from_secs(600);

/// The `manager` label of `running_managed_controllers`.
const MANAGER: &str = "caretaker";

/// The parts that all controllers of a process share.
#[derive(Clone)]
pub struct SharedParts {
    pub client: kube::Client,
    pub feeds: FeedSet,
    pub clock: Clock,
    pub events: EventSink,
    pub evidence: EvidenceTrail,
    pub metrics: ControllerMetrics,
    /// A limit on the requests of each controller; none by default.
    pub limit: Option<ClientRateLimit>,
}

/// The controllers of a process.
pub struct ControllerManager {
    shared: SharedParts,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// The handle of the driver that runs a controller now. Nothing while the controller is restarted.
pub type CurrentHandle<C> = watch::Receiver<Option<DriverHandle<C>>>;

// === impl ControllerManager ===

impl ControllerManager {
    /// A manager without controllers.
    #[must_use]
    pub fn new(shared: SharedParts) -> Self {
        Self {
            shared,
            stop: watch::Sender::new(false),
            tasks: JoinSet::new(),
        }
    }

    /// Runs the controller that `make` makes, and another one after each panic.
    pub fn start<C: Controller>(
        &mut self,
        interest: KindInterest,
        options: DriverOptions,
        make: impl Fn() -> C + Send + 'static,
    ) -> CurrentHandle<C> {
        let (current, handle) = watch::channel(None);
        let shared = self.shared.clone();
        let stop = self.stop.subscribe();
        self.tasks
            .spawn(supervise(shared, interest, options, make, current, stop));
        handle
    }

    /// Ends all controllers, after the requests they have sent, and then the feeds.
    pub async fn stop(mut self) {
        // An error means that no controller was started.
        let _ = self.stop.send(true);
        while self.tasks.join_next().await.is_some() {}
        self.shared.feeds.stop().await;
    }
}

async fn supervise<C: Controller>(
    shared: SharedParts,
    interest: KindInterest,
    options: DriverOptions,
    make: impl Fn() -> C + Send + 'static,
    current: watch::Sender<Option<DriverHandle<C>>>,
    mut stop: watch::Receiver<bool>,
) {
    let effects = effects(&shared).showing(interest.shown());
    let mut restart_in = RESTART_MIN;
    loop {
        let controller = make();
        let name = controller.name();
        let parts = DriverParts {
            effects: effects.clone(),
            clock: shared.clock.clone(),
            events: shared.events.clone(),
            evidence: shared.evidence.clone(),
            metrics: shared.metrics.clone(),
            options: options.clone(),
        };
        tracing::info!(controller = name, mode = ?options.mode, "controller starting");
        let changes = shared.feeds.subscribe(interest.clone());
        let driver = Driver::new(controller, changes, parts);
        current.send_replace(Some(driver.handle()));
        let families = shared.metrics.families();
        let running = families.running.get_or_create_owned(&RunningLabels {
            name,
            manager: MANAGER,
        });
        running.set(1);
        let start = Instant::now();
        let ended = tokio::spawn(driver.run(stop.clone())).await;
        running.set(0);
        current.send_replace(None);
        let error = match ended {
            Ok(end) => {
                tracing::info!(controller = name, ?end, "controller stopped");
                return;
            }
            Err(error) => error,
        };
        let label = ControllerLabel { controller: name };
        families.restarts.get_or_create(&label).inc();
        let panic = panic_text(error);
        if start.elapsed() >= RESTART_FORGOTTEN {
            restart_in = RESTART_MIN;
        }
        tracing::error!(
            controller = name,
            panic,
            restart_in_secs = restart_in.as_secs(),
            "controller panicked; restarting with an empty index"
        );
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(restart_in) => {}
        }
        restart_in = (restart_in * 2).min(RESTART_MAX);
    }
}

/// The message of the panic that ended a task.
fn panic_text(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "the task was cancelled".to_owned();
    };
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>();
            text.copied().unwrap_or("no message").to_owned()
        }
    }
}

fn effects(shared: &SharedParts) -> Effects {
    let catalog = shared.feeds.catalog();
    let effects = Effects::new(shared.client.clone(), catalog, shared.metrics.clone());
    match shared.limit {
        Some(limit) => effects.limited(limit),
        None => effects,
    }
}
