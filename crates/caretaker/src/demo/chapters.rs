//! The chapters, in the order in which they are told. A new one is a file and a row.

mod cascades;
mod finished;
mod pods;
mod ticks;

use anyhow::Result;
use futures::future::LocalBoxFuture;

use super::story::Story;
use crate::args::{BATCH_CRON, GARBAGE_COLLECTOR, POD_GC, VOLCANO_CRON};

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
        controller: GARBAGE_COLLECTOR,
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
        controller: POD_GC,
        title: "Pods that nobody else removes",
        has_actors: true,
        run: |story| Box::pin(pods::tell(story)),
    },
    Chapter {
        number: 4,
        controller: VOLCANO_CRON,
        title: "CronJobs of Volcano",
        has_actors: true,
        run: |story| Box::pin(ticks::volcano(story)),
    },
    Chapter {
        number: 5,
        controller: BATCH_CRON,
        title: "CronJobs of Kubernetes",
        has_actors: true,
        run: |story| Box::pin(ticks::batch(story)),
    },
];
