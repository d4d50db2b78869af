//! A controller at work as the crew sees it, whichever it is: its name, how it is, what it has to be counted.
//!
//! A new controller is a file beside this one with a function that starts it, and a row in `crew.rs`.

use std::time::Duration;

use caretaker_controllers::runtime::controller::Controller;
use caretaker_controllers::runtime::driver::clock_skew::Timing;
use caretaker_controllers::runtime::driver::{Mode, Options};
use caretaker_controllers::runtime::feed_set::Interest;
use caretaker_controllers::runtime::manager::{CurrentHandle, Manager};
use caretaker_controllers::runtime::metrics::Metrics;
use caretaker_controllers::runtime::queue::Bucket;

use crate::admin::Soon;
use crate::args::Work;

/// Upstream's burst of retries, for those who ask for its bucket.
const RETRY_BURST: u32 = 100;

/// How long a busy controller may take before a page goes without it.
const PATIENCE: Duration = Duration::from_secs(5);

/// What controllers are started with.
pub(super) struct Hiring<'a> {
    pub(super) manager: &'a mut Manager,
    pub(super) work: &'a Work,
    /// Whether writes are sent, by whoever does not only show what it would do.
    pub(super) mode: Mode,
    /// Who only shows what it would do, because somebody else does it.
    pub(super) shy: &'a [&'static str],
    /// By whose time those judge who compare ours with times that others wrote.
    pub(super) timing: Timing,
    /// What a controller's randomness begins with.
    pub(super) seed: u64,
}

/// A controller at work.
pub(super) trait Member: Send + Sync {
    /// As `--controllers` spells it.
    fn name(&self) -> &'static str;

    /// How long nothing has moved that should have; nothing while it is being started again.
    fn overdue(&self) -> Option<Duration>;

    /// Brings up to date what it knows and the metrics show.
    fn count<'a>(&'a self, metrics: &'a Metrics) -> Soon<'a, ()>;
}

/// The controller of a post.
struct Posted<C: Controller> {
    name: &'static str,
    post: CurrentHandle<C>,
    count: fn(&C, &Metrics),
}

// === impl Hiring ===

impl Hiring<'_> {
    /// Whether the controller of this name works here and changes something.
    pub(super) fn acts(&self, name: &str) -> bool {
        self.mode == Mode::Act && self.work.runs(name) && !self.shy.contains(&name)
    }

    /// Starts a controller that has this name. `shape` changes what is said about how it works.
    pub(super) fn start<C: Controller>(
        &mut self,
        name: &'static str,
        interest: Interest,
        shape: impl FnOnce(&mut Options),
        make: impl Fn() -> C + Send + 'static,
    ) -> CurrentHandle<C> {
        let mut options = Options {
            mode: match self.shy.contains(&name) {
                true => Mode::DryRun,
                false => self.mode,
            },
            retry_max: self.work.retry_max_delay,
            retry_bucket: self.work.retry_rate().map(|qps| Bucket {
                qps: qps.into(),
                burst: RETRY_BURST,
            }),
            ..Options::default()
        };
        shape(&mut options);
        self.manager.start(interest, options, make)
    }
}

/// A member of the crew; `count` shows what it knows.
pub(super) fn member<C: Controller>(
    name: &'static str,
    post: CurrentHandle<C>,
    count: fn(&C, &Metrics),
) -> Box<dyn Member> {
    Box::new(Posted { name, post, count })
}

/// Asks the controller of a post; nothing if it is being started again, or too busy.
pub(super) async fn ask<C: Controller, R: Send + 'static>(
    post: &CurrentHandle<C>,
    question: impl FnOnce(&C) -> R + Send + 'static,
) -> Option<R> {
    let handle = post.borrow().clone()?;
    let answer = handle.ask(|controller, _| question(controller));
    tokio::time::timeout(PATIENCE, answer).await.ok()?
}

// === impl Posted ===

impl<C: Controller> Member for Posted<C> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn overdue(&self) -> Option<Duration> {
        let handle = self.post.borrow().clone();
        handle.map(|handle| handle.stats().overdue())
    }

    fn count<'a>(&'a self, metrics: &'a Metrics) -> Soon<'a, ()> {
        let (metrics, count) = (metrics.clone(), self.count);
        Box::pin(async move {
            // Without an answer the last numbers stay.
            let _ = ask(&self.post, move |controller| {
                count(controller, &metrics);
            })
            .await;
        })
    }
}
