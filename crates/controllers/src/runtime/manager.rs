//! Starts controllers, starts them again when they break, and ends all of them together.
//!
//! A controller is made by a factory, because one that panicked is thrown away with all it knew: its successor reads
//! everything anew, which is safe, where half an update would not be. The process lives on; how often that happened is
//! counted. Mirrors what `kube-controller-manager` does around its controllers, where a panic ends the process.

use std::time::Duration;

use caretaker_machinery::clock::Clock;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::controller::Controller;
use super::driver::{Driver, Handle, Options, Parts};
use super::effects::{Effects, Limit};
use super::events::Events;
use super::evidence::Trail;
use super::feeds::{Feeds, Interest};
use super::metrics::{ControllerLabel, Metrics, RunningLabels};

/// How long a controller that broke stays away: upstream's workers take as long.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// What `running_managed_controllers` calls this program.
const MANAGER: &str = "caretaker";

/// What controllers share.
#[derive(Clone)]
pub struct Shared {
    /// Sends requests.
    pub client: kube::Client,
    /// Brings changes.
    pub feeds: Feeds,
    /// Domain time.
    pub clock: Clock,
    /// Where notes go.
    pub events: Events,
    /// Where records of writes go.
    pub evidence: Trail,
    /// What is counted.
    pub metrics: Metrics,
    /// So many requests per second and controller, if at all.
    pub limit: Option<Limit>,
}

/// The controllers of a process.
pub struct Manager {
    shared: Shared,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// Where the driver that has a controller now can be found. Nothing while it is being started again.
pub type Post<C> = watch::Receiver<Option<Handle<C>>>;

// === impl Manager ===

impl Manager {
    /// No controller runs yet.
    #[must_use]
    pub fn new(shared: Shared) -> Self {
        Self {
            shared,
            stop: watch::Sender::new(false),
            tasks: JoinSet::new(),
        }
    }

    /// Runs the controller that `make` makes, and another one whenever it breaks.
    pub fn start<C: Controller>(
        &mut self,
        interest: Interest,
        options: Options,
        make: impl Fn() -> C + Send + 'static,
    ) -> Post<C> {
        let (post, found) = watch::channel(None);
        let shared = self.shared.clone();
        let stop = self.stop.subscribe();
        self.tasks
            .spawn(supervise(shared, interest, options, make, post, stop));
        found
    }

    /// Ends all controllers, after the requests they have sent, and then the feeds.
    pub async fn stop(mut self) {
        // Nobody listens if no controller was started.
        let _ = self.stop.send(true);
        while self.tasks.join_next().await.is_some() {}
        self.shared.feeds.stop().await;
    }
}

async fn supervise<C: Controller>(
    shared: Shared,
    interest: Interest,
    options: Options,
    make: impl Fn() -> C + Send + 'static,
    post: watch::Sender<Option<Handle<C>>>,
    mut stop: watch::Receiver<bool>,
) {
    let effects = effects(&shared).showing(interest.shown());
    loop {
        let controller = make();
        let name = controller.name();
        let parts = Parts {
            effects: effects.clone(),
            clock: shared.clock.clone(),
            events: shared.events.clone(),
            evidence: shared.evidence.clone(),
            metrics: shared.metrics.clone(),
            options: options.clone(),
        };
        let changes = shared.feeds.subscribe(interest.clone());
        let driver = Driver::new(controller, changes, parts);
        post.send_replace(Some(driver.handle()));
        let running = shared
            .metrics
            .families()
            .running
            .get_or_create_owned(&RunningLabels {
                name,
                manager: MANAGER,
            });
        running.set(1);
        let ended = tokio::spawn(driver.run(stop.clone())).await;
        running.set(0);
        post.send_replace(None);
        if ended.is_ok() {
            return;
        }
        let label = ControllerLabel { controller: name };
        shared
            .metrics
            .families()
            .restarts
            .get_or_create(&label)
            .inc();
        tracing::error!(
            controller = name,
            "it broke and is started again with nothing it knew"
        );
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(RESTART_AFTER) => {}
        }
    }
}

fn effects(shared: &Shared) -> Effects {
    let catalog = shared.feeds.catalog();
    let effects = Effects::new(shared.client.clone(), catalog, shared.metrics.clone());
    match shared.limit {
        Some(limit) => effects.limited(limit),
        None => effects,
    }
}
