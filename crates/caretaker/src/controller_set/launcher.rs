//! Starts controllers with the options they have in common, and gives diagnostics one view of all of them.

use std::time::Duration;

use caretaker_controllers::runtime::controller::Controller;
use caretaker_controllers::runtime::driver::clock_skew::TimeSource;
use caretaker_controllers::runtime::driver::{DriverMode, DriverOptions, WriteHold};
use caretaker_controllers::runtime::feed_set::KindInterest;
use caretaker_controllers::runtime::manager::{ControllerManager, CurrentHandle};
use caretaker_controllers::runtime::metrics::ControllerMetrics;
use caretaker_controllers::runtime::queue::RetryBucket;

use crate::admin::BoxedAnswer;
use crate::args::ControllerFlags;
use crate::peers::PeerWatch;

/// Upstream's burst of the retry bucket (client-go's `DefaultControllerRateLimiter`).
const RETRY_BURST: u32 = 100;

/// Time that a busy controller gets to answer a query of the admin server.
const QUERY_MAX: Duration = Duration::from_secs(5);

/// What builders need in order to start a controller.
pub(super) struct ControllerLauncher<'a> {
    pub(super) manager: &'a mut ControllerManager,
    pub(super) flags: &'a ControllerFlags,
    pub(super) mode: DriverMode,
    /// The looks at other controller managers, if this process has to stand back for them.
    pub(super) peers: Option<&'a PeerWatch>,
    /// The election of a leader among replicas.
    pub(super) lease: Option<WriteHold>,
    /// Clock of the controllers that compare our time with timestamps in objects.
    pub(super) timing: TimeSource,
    /// Seed of the controllers' random numbers.
    pub(super) seed: u64,
}

/// A started controller of any type.
pub(super) trait RunningController: Send + Sync {
    /// Name in `--controllers`.
    fn name(&self) -> &'static str;

    /// How long its oldest due work has waited; `None` while it restarts.
    fn overdue(&self) -> Option<Duration>;

    /// The conditions that may hold back its writes.
    fn holds(&self) -> &[WriteHold];

    /// Updates the metrics that are read from the controller's state.
    fn update<'a>(&'a self, metrics: &'a ControllerMetrics) -> BoxedAnswer<'a, ()>;
}

struct LaunchedController<C: Controller> {
    name: &'static str,
    current: CurrentHandle<C>,
    holds: Vec<WriteHold>,
    update: fn(&C, &ControllerMetrics),
}

// === impl ControllerLauncher ===

impl ControllerLauncher<'_> {
    /// Whether the controller of this name runs in this process and writes, unless its gate holds it back.
    pub(super) fn acts(&self, name: &str) -> bool {
        self.mode == DriverMode::Act && self.flags.runs(name)
    }

    /// The rows of a controller's gate that tasks of this process set. A dry run needs none.
    fn holds(&self, name: &str) -> Vec<WriteHold> {
        if self.mode == DriverMode::DryRun {
            return Vec::new();
        }
        let peers = self.peers.and_then(|peers| peers.hold(name));
        peers.into_iter().chain(self.lease.clone()).collect()
    }

    /// Starts a controller. `adjust` changes the common options.
    pub(super) fn start<C: Controller>(
        &mut self,
        name: &'static str,
        interest: KindInterest,
        adjust: impl FnOnce(&mut DriverOptions),
        make: impl Fn() -> C + Send + 'static,
    ) -> CurrentHandle<C> {
        let mut options = DriverOptions {
            mode: self.mode,
            holds: self.holds(name),
            retry_max: self.flags.retry_max_delay,
            retry_bucket: self.flags.retry_rate().map(|qps| RetryBucket {
                qps: qps.into(),
                burst: RETRY_BURST,
            }),
            ..DriverOptions::default()
        };
        adjust(&mut options);
        self.manager.start(interest, options, make)
    }

    /// Wraps a started controller; `update` copies numbers of its state into metrics.
    pub(super) fn running<C: Controller>(
        &self,
        name: &'static str,
        current: CurrentHandle<C>,
        update: fn(&C, &ControllerMetrics),
    ) -> Box<dyn RunningController> {
        Box::new(LaunchedController {
            name,
            current,
            holds: self.holds(name),
            update,
        })
    }
}

/// Queries a controller; `None` while it restarts or when it takes longer than [`QUERY_MAX`].
pub(super) async fn query<C: Controller, R: Send + 'static>(
    current: &CurrentHandle<C>,
    question: impl FnOnce(&C) -> R + Send + 'static,
) -> Option<R> {
    let handle = current.borrow().clone()?;
    let answer = handle.query(|controller, _| question(controller));
    tokio::time::timeout(QUERY_MAX, answer).await.ok()?
}

// === impl LaunchedController ===

impl<C: Controller> RunningController for LaunchedController<C> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn overdue(&self) -> Option<Duration> {
        let handle = self.current.borrow().clone();
        handle.map(|handle| handle.stats().overdue())
    }

    fn holds(&self) -> &[WriteHold] {
        &self.holds
    }

    fn update<'a>(&'a self, metrics: &'a ControllerMetrics) -> BoxedAnswer<'a, ()> {
        let (metrics, update) = (metrics.clone(), self.update);
        Box::pin(async move {
            // Without an answer the metrics keep their last values.
            let _ = query(&self.current, move |controller| {
                update(controller, &metrics);
            })
            .await;
        })
    }
}
