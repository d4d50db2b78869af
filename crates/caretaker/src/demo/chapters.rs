//! The chapters, in the order in which they are told. A new one is a file and a row.

mod cascades;

use anyhow::Result;
use futures::future::LocalBoxFuture;

use super::story::Story;
use crate::args::GARBAGE_COLLECTOR;

/// What one controller does.
#[derive(Clone, Copy)]
pub(crate) struct Chapter {
    pub(crate) number: u8,
    /// As `--controllers` spells it.
    pub(crate) controller: &'static str,
    pub(crate) title: &'static str,
    pub(crate) run: for<'a> fn(&'a mut Story<'_>) -> LocalBoxFuture<'a, Result<()>>,
}

/// All there are.
pub(crate) const CHAPTERS: [Chapter; 1] = [Chapter {
    number: 1,
    controller: GARBAGE_COLLECTOR,
    title: "cascades in three modes",
    run: |story| Box::pin(cascades::tell(story)),
}];
