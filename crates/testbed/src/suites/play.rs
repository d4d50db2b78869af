//! Plays: conversations with expectations, for what a server and a controller do together.
//!
//! A scenario of the API suite writes down what was answered and lets a comparison judge. What a controller does has no
//! fixed order of answers: a play makes objects, waits until something is true and looks whether something stays true.
//! It runs on a [`Stage`](super::stage::Stage) of its own, which is cleared whatever happens.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;

use super::stage::Stage;
use super::{Need, namespace_of};
use crate::collector::Collector;
use crate::target::Target;

/// Longest a play may take: several waits of [`Stage::until`] at their worst.
const PLAY_MAX: Duration = Duration::from_secs(600);

/// What came of a step: nothing remarkable, or what is not as it should be.
pub type Checked<T = ()> = Result<T, String>;

/// One play of a suite.
pub struct Play {
    /// What it proves, after the upstream case it comes from.
    pub name: &'static str,
    /// What it takes.
    pub needs: &'static [Need],
    /// The name of our deviation, where the original ends otherwise and is allowed to.
    pub deviation: Option<&'static str>,
    /// The conversation.
    pub run: for<'a> fn(&'a Stage) -> LocalBoxFuture<'a, Checked>,
}

/// How a play ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It cannot be played here, for want of this.
    Skipped(Need),
    /// Everything was as it should be.
    Passed,
    /// What was not.
    Failed(String),
}

/// A row of a suite's table: `play!(function)` or `play!(function, Need, …)`, and `; "deviation"` where there is one.
macro_rules! play {
    ($function:ident $(, $need:ident)*) => {
        $crate::suites::play::play!(@ $function, None $(, $need)*)
    };
    ($function:ident $(, $need:ident)*; $deviation:literal) => {
        $crate::suites::play::play!(@ $function, Some($deviation) $(, $need)*)
    };
    (@ $function:ident, $deviation:expr $(, $need:ident)*) => {
        $crate::suites::Play {
            name: stringify!($function),
            needs: &[$($crate::suites::Need::$need),*],
            deviation: $deviation,
            run: |stage| Box::pin($function(stage)),
        }
    };
}
pub(crate) use play;

// === impl Play ===

impl Play {
    /// The namespace this play runs in: its name, as far as a namespace's name can be that long.
    pub fn namespace(&self) -> String {
        namespace_of(self.name)
    }

    /// Whether the play starts its collector itself, at the moment it chooses.
    pub fn is_fresh(&self) -> bool {
        self.needs.contains(&Need::FreshCollector)
    }

    /// Plays it. A play that does not ask for a fresh collector finds one running when it begins.
    pub async fn run(&self, target: &Target, collector: &Collector) -> Ending {
        let is_met = |need: &&Need| match need {
            Need::FreshCollector => !matches!(collector, Collector::Standing),
            other => other.met_by(target.server()),
        };
        if let Some(need) = self.needs.iter().find(|need| !is_met(need)) {
            return Ending::Skipped(*need);
        }
        let stage = Stage::set(target, collector, self.namespace()).await;
        let played = async {
            if self.needs.contains(&Need::Actors) {
                stage.start_actors().await?;
            }
            if !self.is_fresh() && !matches!(collector, Collector::Standing) {
                stage.start_collector().await?;
            }
            (self.run)(&stage).await
        };
        let played = tokio::time::timeout(PLAY_MAX, AssertUnwindSafe(played).catch_unwind()).await;
        let ending = match played {
            Ok(Ok(Ok(()))) => Ending::Passed,
            Ok(Ok(Err(why))) => Ending::Failed(stage.explain(why)),
            Ok(Err(_)) => Ending::Failed("the play panicked; it says where above".to_owned()),
            Err(_) => Ending::Failed(format!("no end after {} s", PLAY_MAX.as_secs())),
        };
        stage.strike().await;
        ending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn passes(_: &Stage) -> Checked {
        Ok(())
    }

    async fn fails(_: &Stage) -> Checked {
        Err("it is not".to_owned())
    }

    async fn panics(_: &Stage) -> Checked {
        panic!("on purpose")
    }

    async fn hangs(_: &Stage) -> Checked {
        std::future::pending().await
    }

    #[tokio::test(start_paused = true)]
    async fn every_way_to_end_is_told() {
        let table = [
            (play!(passes), Ending::Passed),
            (play!(fails), Ending::Failed("it is not".to_owned())),
            (
                play!(panics),
                Ending::Failed("the play panicked; it says where above".to_owned()),
            ),
            (
                play!(hangs),
                Ending::Failed("no end after 600 s".to_owned()),
            ),
            (play!(fails, RealOnly), Ending::Skipped(Need::RealOnly)),
            (
                play!(fails, FreshCollector),
                Ending::Skipped(Need::FreshCollector),
            ),
        ];
        for (play, ending) in table {
            let ended = play.run(&Target::embedded(), &Collector::Standing).await;
            assert_eq!(ended, ending, "{}", play.name);
        }
    }

    #[test]
    fn a_row_may_name_a_deviation() {
        let play = play!(passes, Crds; "some-name");
        assert_eq!(
            (play.needs, play.deviation),
            (&[Need::Crds][..], Some("some-name"))
        );
        assert_eq!(play!(passes).deviation, None);
    }
}
