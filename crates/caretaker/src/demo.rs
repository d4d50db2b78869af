//! `caretaker demo`: all controllers at work on an API server in this process.
//!
//! The server and the controllers are those of `up`; every printed number is measured. The demo exits with 1 if an
//! expected write does not happen. `chapters` holds the script, `runner` performs it, `printer` prints it.

mod chapters;
mod printer;
mod runner;

use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use caretaker_apiserver::listen::KUBECONFIG_CONTEXT;
use caretaker_apiserver::{AccountOptions, ApiServer, ServerOptions};
use caretaker_controllers::runtime::driver::DriverMode;
use caretaker_controllers::runtime::manager::ControllerManager;
use caretaker_machinery::clock::Clock;

use self::chapters::{DemoChapter, chapters};
use self::printer::DemoPrinter;
use self::runner::DemoRunner;
use crate::args::{ControllerFlags, DemoFlags, ListenAddress, LogFormat};
use crate::controller_set::ControllerSet;
use crate::up::banner::ServerBanner;
use crate::up::kubeconfig::KubeconfigLocation;
use crate::up::signals::StopSignals;
use crate::up::simulation::{self, WorkloadMode};
use crate::up::sockets::{self, ApiTransport};
use crate::{up, wiring};

/// Speed of the server's clock: a minute of a TTL or a schedule takes three seconds.
const CLOCK_SPEED: NonZeroU32 = NonZeroU32::new(20).expect("it is not zero");

/// The port in Service `kubernetes`, which nothing in the demo uses.
const PORT: u16 = 6443;

/// Limit of all chapters together.
const DEMO_MAX: Duration = Duration::from_secs(60);

const INTRODUCTION: &str =
    "An API server and all controllers run in this process; objects are in memory only.
The numbered lines are writes of controllers with their reasons, in the order of the answers.
All numbers are measured, in real time.";

const NEXT_STEPS: &str = "
Next: `caretaker up` starts such a server for kubectl. `caretaker demo --keep` keeps this one running.";

/// Holds the server and the controllers of the demo.
struct DemoCluster {
    server: ApiServer,
    clock: Clock,
    controllers: ControllerSet,
    /// Started by the first chapter that needs it.
    simulation: Option<ControllerManager>,
}

/// The objects and ServiceAccounts of a cluster, as `up` has them. The certificate is made only when the demo is kept.
fn server_options() -> ServerOptions {
    ServerOptions {
        bootstrap: Some((Ipv4Addr::LOCALHOST, PORT).into()),
        accounts: Some(AccountOptions::default()),
        ..ServerOptions::default()
    }
}

pub(crate) fn run(args: &DemoFlags) -> Result<ExitCode> {
    wiring::log(0, LogFormat::Text)?;
    match wiring::block_on(show(args)) {
        Err(error) if printer::is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        outcome => outcome,
    }
}

async fn show(args: &DemoFlags) -> Result<ExitCode> {
    let mut cluster = DemoCluster::start(DriverMode::Act).await?;
    let mut printer = DemoPrinter::stdout();
    let mut outcome = cluster.show(&mut printer, &chapters()).await;
    if outcome.is_ok() && args.keep {
        outcome = cluster.keep(&mut printer).await;
    } else if outcome.is_ok() {
        outcome = printer.print(NEXT_STEPS);
    }
    cluster.controllers.stop().await;
    if let Some(simulation) = cluster.simulation {
        simulation.stop().await;
    }
    outcome.map(|()| ExitCode::SUCCESS)
}

// === impl DemoCluster ===

impl DemoCluster {
    /// Starts the server and the controllers without summary lines.
    async fn start(mode: DriverMode) -> Result<Self> {
        let clock = wiring::fast_clock(CLOCK_SPEED);
        let server = wiring::server(clock.clone(), server_options(), None)?;
        let flags = ControllerFlags::quiet(&["--terminated-pod-gc-threshold=4"]);
        let client = up::in_process_client(&server);
        simulation::install(&client, &flags, WorkloadMode::Simulated).await?;
        let controllers = up::start_controllers(&flags, mode, &server, clock.clone())?;
        Ok(Self {
            server,
            clock,
            controllers,
            simulation: None,
        })
    }

    /// Runs the chapters in order.
    async fn show(&mut self, printer: &mut DemoPrinter, chapters: &[DemoChapter]) -> Result<()> {
        let client = up::in_process_client(&self.server);
        printer.title(&format!(
            "Caretaker demo. The server's clock runs {CLOCK_SPEED} times as fast as yours."
        ))?;
        printer.text(INTRODUCTION)?;
        let mut runner = DemoRunner::new(client.clone(), &self.controllers, printer);
        let showing = async {
            self.controllers.ready().await;
            for (index, chapter) in chapters.iter().enumerate() {
                if chapter.simulated && self.simulation.is_none() {
                    let (client, clock) = (client.clone(), self.clock.clone());
                    let feeds = self.controllers.feeds();
                    let options = simulation::options(1, CLOCK_SPEED);
                    self.simulation = Some(simulation::start(client, feeds, clock, options));
                }
                let shown = runner.run(index + 1, chapter).await;
                shown.with_context(|| format!("chapter {}, {}", index + 1, chapter.controllers))?;
            }
            Ok(())
        };
        let shown = tokio::time::timeout(DEMO_MAX, showing).await;
        shown.with_context(|| format!("the demo took longer than {} s", DEMO_MAX.as_secs()))?
    }

    /// Opens the server to kubectl, until a signal.
    async fn keep(&mut self, printer: &mut DemoPrinter) -> Result<()> {
        let mut signals = StopSignals::listen()?;
        let listener = sockets::open(ListenAddress::default(), &[], ApiTransport::Tls).await?;
        let port = listener.address().port().to_string();
        let location = KubeconfigLocation::choose(None, &port, false)?;
        let kubeconfig = location.write(listener.kubeconfig())?;
        let commands = [
            "kubectl --namespace shop get pods,configmaps",
            "kubectl --namespace shop delete pods --all",
        ];
        let banner = ServerBanner {
            url: listener.url(),
            remote: Vec::new(),
            admin: None,
            context: KUBECONFIG_CONTEXT.to_owned(),
        };
        let instructions = banner.instructions(kubeconfig.path(), &commands);
        self.controllers.print_summary();
        printer.print(&format!("\n{}", instructions.trim_end()))?;
        listener
            .serve(self.server.clone(), async { _ = signals.next().await })
            .await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
