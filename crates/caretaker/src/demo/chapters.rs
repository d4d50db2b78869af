//! The chapters, in the order in which they are told. A new one is a file and a row.

mod cascades;
mod finished;
mod pods;
mod ticks;

use anyhow::Result;
use futures::future::LocalBoxFuture;

use super::story::Story;

pub(crate) use self::pods::KEPT as PODS_KEPT;

/// What one controller does.
#[derive(Clone, Copy)]
pub(crate) struct Chapter {
    pub(crate) number: u8,
    /// As `--controllers` spells it.
    pub(crate) controller: &'static str,
    pub(crate) title: &'static str,
    /// Whether Nodes, Pods and Jobs are simulated from here on.
    pub(crate) has_actors: bool,
    pub(crate) run: for<'a> fn(&'a mut Story<'_>) -> LocalBoxFuture<'a, Result<()>>,
}

/// All there are.
pub(crate) const CHAPTERS: [Chapter; 5] = [
    Chapter {
        number: 1,
        controller: "garbage-collector-controller",
        title: "cascades in three modes",
        has_actors: false,
        run: |story| Box::pin(cascades::tell(story)),
    },
    Chapter {
        number: 2,
        controller: "ttl-after-finished-controller, gc-controller",
        title: "Jobs that have finished",
        has_actors: true,
        run: |story| Box::pin(finished::tell(story)),
    },
    Chapter {
        number: 3,
        controller: "pod-garbage-collector-controller",
        title: "Pods that nobody else removes",
        has_actors: true,
        run: |story| Box::pin(pods::tell(story)),
    },
    Chapter {
        number: 4,
        controller: "cronjob-controller/volcano",
        title: "CronJobs of Volcano",
        has_actors: true,
        run: |story| Box::pin(ticks::volcano(story)),
    },
    Chapter {
        number: 5,
        controller: "cronjob-controller/batch",
        title: "CronJobs of Kubernetes",
        has_actors: true,
        run: |story| Box::pin(ticks::batch(story)),
    },
];
