//! The suites: tables of scenarios, and how one scenario is run on one server.
//!
//! A scenario is data: its name says what it proves, `needs` what it takes, `run` is the conversation. The same
//! scenarios run on the embedded and on the real server; see `crates/testbed/tests` and the `suites` binary. Those of the
//! API are compared answer by answer; those with a controller are plays, which say themselves what they expect.

pub mod api;
pub mod cron;
pub mod gc;
mod play;
pub mod podgc;
pub mod stage;
pub mod ttl;
pub mod workloads;

pub use play::{Checked, Ending, Play};

use futures::future::BoxFuture;
use serde_json::Value;

use crate::normalise::normalise;
use crate::session::Session;
use crate::target::{Server, Target};

/// What a scenario needs of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Time that can be moved.
    MoveClock,
    /// Simulated Nodes and workloads.
    Actors,
    /// CustomResourceDefinitions.
    Crds,
    /// A server behind a wire.
    RealOnly,
    /// The server in this process.
    EmbeddedOnly,
    /// A collector that the scenario starts itself, after it has made its objects.
    FreshCollector,
    /// A controller that ends Volcano's Jobs.
    VolcanoTtl,
    /// A controller of Volcano's CronJobs.
    VolcanoCron,
}

/// One scenario of a suite.
pub struct Scenario {
    /// What it proves.
    pub name: &'static str,
    /// What it takes.
    pub needs: &'static [Need],
    /// The conversation.
    pub run: for<'a> fn(&'a mut Session) -> BoxFuture<'a, ()>,
}

/// Scenarios about one thing; their frozen answers are one file.
pub struct Theme {
    /// The name of the file.
    pub name: &'static str,
    /// The scenarios, in the order they are listed.
    pub scenarios: &'static [Scenario],
}

/// What became of a scenario.
pub enum Outcome {
    /// It cannot run on this server, for want of this.
    Skipped(Need),
    /// Its normalised transcript.
    Ran(Vec<Value>),
}

/// A row of a theme's table: `scenario!(function)` or `scenario!(function, Need, …)`; the function's name is the scenario's.
macro_rules! scenario {
    ($function:ident $(, $need:ident)*) => {
        $crate::suites::Scenario {
            name: stringify!($function),
            needs: &[$($crate::suites::Need::$need),*],
            run: |session| Box::pin($function(session)),
        }
    };
}
pub(crate) use scenario;

// === impl Scenario ===

impl Scenario {
    /// The namespace this scenario runs in: its name, as far as a namespace's name can be that long.
    pub fn namespace(&self) -> String {
        namespace_of(self.name)
    }

    /// Runs it on a server, in a namespace of its own that is gone afterwards.
    pub async fn run(&self, target: &Target) -> Outcome {
        if let Some(need) = self.needs.iter().find(|need| !need.met_by(target.server())) {
            return Outcome::Skipped(*need);
        }
        let ns = self.namespace();
        let mut session = Session::new(target.clone(), ns.clone());
        stage::make_namespace(&session).await;
        (self.run)(&mut session).await;
        stage::clear(&session).await;
        Outcome::Ran(normalise(&session.into_transcript(), &ns))
    }
}

// === impl Need ===

impl Need {
    fn met_by(self, server: Server) -> bool {
        match self {
            // Which controllers there are, the play is told; actors work beside any server.
            Self::Crds
            | Self::Actors
            | Self::FreshCollector
            | Self::VolcanoTtl
            | Self::VolcanoCron => true,
            Self::RealOnly => server == Server::Real,
            Self::MoveClock | Self::EmbeddedOnly => server == Server::Embedded,
        }
    }
}

/// A name as a namespace's, as far as that can be so long.
fn namespace_of(name: &str) -> String {
    /// Leaves room under the 63 characters of a DNS label for what scenarios append.
    const LENGTH_MAX: usize = 50;
    let mut ns = name.replace('_', "-");
    ns.truncate(LENGTH_MAX);
    ns.trim_end_matches('-').to_owned()
}
