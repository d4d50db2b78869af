//! Test cases and their one runner.
//!
//! A [`TestCase`] is a row of a table: its name says what it proves, `needs` says where it can run, `body` does the work.
//! The same cases run on the embedded server (`cargo test`) and on a real one (`cargo xtask conformance`). API cases
//! record a transcript that is compared answer by answer with another server's. What a controller does has no fixed order
//! of answers, so controller cases state their own expectations. Convergent cases state none: their end is compared with
//! that of a run in which the controllers crash (see [`crate::crash`]).

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, LocalBoxFuture};
use serde_json::Value;

use crate::controllers::ControllerSource;
use crate::crash;
use crate::environment::{Environment, cleanup};
use crate::fixtures::CreatedObject;
use crate::normalise::normalise;
use crate::session::Session;
use crate::target::{Server, Target};

/// Longest time for one case: several waits of [`Environment::until`] that time out.
const CASE_MAX: Duration = Duration::from_secs(600);

/// The result of a step of a case; the error says what was found and what was expected.
pub type CheckResult<T = ()> = Result<T, String>;

/// One row of a suite.
pub struct TestCase {
    /// Says what the case proves; also names its namespace.
    pub name: &'static str,
    pub needs: &'static [CaseNeed],
    /// The name of our deviation from Kubernetes, where the Go controllers are allowed to fail the case.
    pub deviation: Option<&'static str>,
    pub body: CaseBody,
}

/// How a case is run and judged.
#[derive(Clone, Copy)]
pub enum CaseBody {
    /// Every exchange is recorded; a comparison with another server's transcript judges.
    Recorded(for<'a> fn(&'a mut Session) -> BoxFuture<'a, ()>),
    /// The case checks its own expectations.
    Checked(for<'a> fn(&'a Environment) -> LocalBoxFuture<'a, CheckResult>),
    /// The end must not depend on when controllers crash.
    Convergent(ConvergentSteps),
}

/// The steps of a convergent case.
#[derive(Clone, Copy)]
pub struct ConvergentSteps {
    /// The controllers that crash, as `--controllers` spells them.
    pub controllers: &'static [&'static str],
    pub is_volcano: bool,
    /// Creates the objects, while no controller runs.
    pub create: for<'a> fn(&'a Environment) -> LocalBoxFuture<'a, CheckResult<Vec<CreatedObject>>>,
    /// The users' requests while the controllers run.
    pub act: for<'a> fn(&'a Environment, &'a [CreatedObject]) -> LocalBoxFuture<'a, CheckResult>,
    /// Objects that may be left or not, because users and controllers race.
    pub undetermined: &'static [&'static str],
}

/// A property of the server or of the controllers without which a case is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseNeed {
    /// The case moves the server's clock.
    MoveClock,
    /// Simulated Nodes and workloads.
    Actors,
    Crds,
    /// A server behind a network connection.
    RealOnly,
    /// The server in this process.
    EmbeddedOnly,
    /// The case starts the controllers itself, after it has created its objects.
    FreshControllers,
    /// No other case at the same time: the case changes what the server does for all namespaces.
    Alone,
    /// A controller that deletes finished Jobs of Volcano.
    VolcanoTtl,
    /// A controller of Volcano's CronJobs.
    VolcanoCron,
}

/// The end of one run of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum CaseOutcome {
    /// This need is not met.
    Skipped(CaseNeed),
    /// The normalised transcript.
    Recorded(Vec<Value>),
    Passed,
    Failed(String),
}

/// A row of the API suite: `api_case!(function)` or `api_case!(function, Need, …)`; the function's name is the case's.
macro_rules! api_case {
    ($function:ident $(, $need:ident)*) => {
        $crate::case::TestCase {
            name: stringify!($function),
            needs: &[$($crate::case::CaseNeed::$need),*],
            deviation: None,
            body: $crate::case::CaseBody::Recorded(|session| Box::pin($function(session))),
        }
    };
}
pub(crate) use api_case;

/// A row of a controller suite: `case!(function)` or `case!(function, Need, …)`, and `; "deviation"` where there is one.
macro_rules! case {
    ($function:ident $(, $need:ident)*) => {
        $crate::case::case!(@ $function, None $(, $need)*)
    };
    ($function:ident $(, $need:ident)*; $deviation:literal) => {
        $crate::case::case!(@ $function, Some($deviation) $(, $need)*)
    };
    (@ $function:ident, $deviation:expr $(, $need:ident)*) => {
        $crate::case::TestCase {
            name: stringify!($function),
            needs: &[$($crate::case::CaseNeed::$need),*],
            deviation: $deviation,
            body: $crate::case::CaseBody::Checked(|env| Box::pin($function(env))),
        }
    };
}
pub(crate) use case;

// === impl TestCase ===

impl TestCase {
    /// The namespace of this case: its name, cut to a length that leaves room for what cases append.
    pub fn namespace(&self) -> String {
        /// Below the 63 characters of a DNS label.
        const LENGTH_MAX: usize = 50;
        let mut ns = self.name.replace('_', "-");
        ns.truncate(LENGTH_MAX);
        ns.trim_end_matches('-').to_owned()
    }

    /// Whether the case starts its controllers itself.
    pub fn is_fresh(&self) -> bool {
        self.needs.contains(&CaseNeed::FreshControllers)
    }

    /// Whether no other case may run at the same time.
    pub fn is_alone(&self) -> bool {
        self.is_fresh() || self.needs.contains(&CaseNeed::Alone)
    }

    /// Runs the case in a namespace of its own that is deleted afterwards. Unless the case starts its controllers itself,
    /// they run when its body begins.
    pub async fn run(&self, target: &Target, source: &ControllerSource) -> CaseOutcome {
        let is_met = |need: &&CaseNeed| need.is_met(target.server(), source);
        if let Some(need) = self.needs.iter().find(|need| !is_met(need)) {
            return CaseOutcome::Skipped(*need);
        }
        match self.body {
            CaseBody::Recorded(run) => self.record(target, run).await,
            CaseBody::Checked(run) => self.check(target, source, run).await,
            CaseBody::Convergent(_) => match crash::reference(self).await {
                Ok(_) => CaseOutcome::Passed,
                Err(why) => CaseOutcome::Failed(why),
            },
        }
    }

    async fn record(
        &self,
        target: &Target,
        run: for<'a> fn(&'a mut Session) -> BoxFuture<'a, ()>,
    ) -> CaseOutcome {
        let ns = self.namespace();
        let mut session = Session::new(target.clone(), ns.clone());
        cleanup::create_namespace(&session).await;
        run(&mut session).await;
        cleanup::clean_up(&session).await;
        CaseOutcome::Recorded(normalise(&session.into_transcript(), &ns))
    }

    async fn check(
        &self,
        target: &Target,
        source: &ControllerSource,
        run: for<'a> fn(&'a Environment) -> LocalBoxFuture<'a, CheckResult>,
    ) -> CaseOutcome {
        let env = Environment::new(target, source, self.namespace()).await;
        let steps = async {
            if self.needs.contains(&CaseNeed::Actors) {
                env.start_actors().await?;
            }
            if !self.is_fresh() && !matches!(source, ControllerSource::Running) {
                env.start_controllers().await?;
            }
            run(&env).await
        };
        let ended = tokio::time::timeout(CASE_MAX, AssertUnwindSafe(steps).catch_unwind()).await;
        let outcome = match ended {
            Ok(Ok(Ok(()))) => CaseOutcome::Passed,
            Ok(Ok(Err(why))) => CaseOutcome::Failed(env.explain(why)),
            Ok(Err(_)) => CaseOutcome::Failed("the case panicked; see stderr".to_owned()),
            Err(_) => CaseOutcome::Failed(format!("no end after {} s", CASE_MAX.as_secs())),
        };
        env.clean_up().await;
        outcome
    }
}

// === impl CaseNeed ===

impl CaseNeed {
    fn is_met(self, server: Server, source: &ControllerSource) -> bool {
        match self {
            // Actors run beside any server. `--lacks` names the controllers that are missing.
            Self::Alone | Self::Crds | Self::Actors | Self::VolcanoTtl | Self::VolcanoCron => true,
            Self::FreshControllers => !matches!(source, ControllerSource::Running),
            Self::RealOnly => server == Server::Real,
            Self::MoveClock | Self::EmbeddedOnly => server == Server::Embedded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn passes(_: &Environment) -> CheckResult {
        Ok(())
    }

    async fn fails(_: &Environment) -> CheckResult {
        Err("it is not".to_owned())
    }

    async fn panics(_: &Environment) -> CheckResult {
        panic!("on purpose")
    }

    async fn hangs(_: &Environment) -> CheckResult {
        std::future::pending().await
    }

    #[tokio::test(start_paused = true)]
    async fn reports_every_outcome() {
        let failed = |why: &str| CaseOutcome::Failed(why.to_owned());
        let table = [
            (case!(passes), CaseOutcome::Passed),
            (case!(fails), failed("it is not")),
            (case!(panics), failed("the case panicked; see stderr")),
            (case!(hangs), failed("no end after 600 s")),
            (
                case!(fails, RealOnly),
                CaseOutcome::Skipped(CaseNeed::RealOnly),
            ),
            (
                case!(fails, FreshControllers),
                CaseOutcome::Skipped(CaseNeed::FreshControllers),
            ),
        ];
        for (case, outcome) in table {
            let source = ControllerSource::Running;
            let ended = case.run(&Target::embedded(), &source).await;
            assert_eq!(ended, outcome, "{}", case.name);
        }
    }

    #[test]
    fn row_names_needs_and_deviation() {
        let case = case!(passes, Crds; "some-name");
        assert_eq!(
            (case.needs, case.deviation),
            (&[CaseNeed::Crds][..], Some("some-name"))
        );
        assert_eq!(case!(passes).deviation, None);
    }
}
