//! `caretaker up`: an API server in this process, until a signal stops it or its command ends.
//!
//! Scripts may rely on this: the kubeconfig exists while the server can be used, and manifests are applied before;
//! stdout carries the result only; a stop takes milliseconds, or half a second if a client stalls.

mod apply;
pub(crate) mod banner;
mod child;
mod files;
pub(crate) mod kubeconfig;
mod manifests;
pub(crate) mod signals;
pub(crate) mod simulation;
pub(crate) mod sockets;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use caretaker_apiserver::{AccountOptions, ApiServer, ServerOptions, UserIdentity};
use caretaker_controllers::runtime::clients::ClusterClients;
use caretaker_controllers::runtime::driver::DriverMode;
use caretaker_controllers::runtime::driver::clock_skew::TimeSource;
use caretaker_machinery::clock::{Clock, REAL_TIME};
use futures::FutureExt as _;
use rustix::process::Signal;
use tokio::sync::oneshot;

use self::banner::ServerBanner;
use self::files::{InstanceFiles, InstanceName};
use self::manifests::ManifestObject;
use self::signals::StopSignals;
use self::simulation::WorkloadMode;
use self::sockets::ServerSockets;
use crate::admin::AdminPages;
use crate::args::{ControllerFlags, UpFlags};
use crate::controller_set::{ControllerSet, ControllerSetOptions};
use crate::wiring::{self, notice};

/// Printed by a server that does not only listen on loopback.
const REACHABLE: &str =
    "other machines can reach this server; the token in the kubeconfig gives full access to it";

pub(crate) fn run(args: &UpFlags) -> Result<ExitCode> {
    if let Some(directory) = &args.data_dir {
        bail!(
            "--data-dir {} is not supported yet: objects are kept in memory only",
            directory.display()
        );
    }
    wiring::log(args.verbosity.level(), args.controllers.logging_format)?;
    let manifests = manifests::read(&args.crds, &args.filename)?;
    wiring::block_on(serve(args, &manifests))
}

async fn serve(args: &UpFlags, manifests: &[ManifestObject]) -> Result<ExitCode> {
    let mut signals = StopSignals::listen()?;
    let name = InstanceName::claim(args.name.as_deref())?;
    let sockets = ServerSockets::open(args).await?;
    let clock = clock(args);
    let options = server_options(args, &sockets);
    let server = wiring::server(clock.clone(), options, Some(sockets.api.token()))?;
    let workloads = match args.simulate_workloads {
        true => WorkloadMode::Simulated,
        false => {
            server.warn_of_idle_workloads();
            WorkloadMode::Absent
        }
    };
    simulation::install(&in_process_client(&server), &args.controllers, workloads).await?;
    apply::apply(in_process_client(&server), manifests).await?;
    let banner = sockets.banner(&name.context());
    let files = InstanceFiles::write(args, name, &sockets)?;
    let mode = args.controllers.mode();
    let controllers = start_controllers(&args.controllers, mode, &server, clock.clone())?;
    let simulation = (workloads == WorkloadMode::Simulated).then(|| {
        notice(simulation::SIMULATED);
        let options = simulation::options(args.nodes, args.clock_speed);
        let client = in_process_client(&server);
        simulation::start(client, controllers.feeds(), clock, options)
    });
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        url = banner.url,
        "API server started"
    );
    if sockets.is_reachable_from_elsewhere() {
        notice(REACHABLE);
    }
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = stopped.shared();
    // A dropped sender stops the servers, too.
    let until = |stopped| async { drop(stopped.await) };
    let serving = tokio::spawn(sockets.api.serve(server, until(stopped.clone())));
    if let Some(admin) = sockets.admin {
        tokio::spawn(admin.serve(AdminPages::new(controllers.diagnostics()), until(stopped)));
    }
    for warning in args.controllers.warnings() {
        notice(&warning);
    }
    let outcome = until_end(args, &banner, &files, &mut signals).await;
    tracing::info!("stopping; waiting for requests under way");
    controllers.stop().await;
    if let Some(simulation) = simulation {
        simulation.stop().await;
    }
    drop((files, stop));
    serving.await.context("API server task panicked")?;
    tracing::info!("API server stopped");
    if args.command.is_empty() && args.output.is_none() {
        notice("stopped; its objects are gone");
    }
    outcome
}

/// Prints the addresses, and waits for the end of the command, or for a signal.
async fn until_end(
    args: &UpFlags,
    banner: &ServerBanner,
    files: &InstanceFiles,
    signals: &mut StopSignals,
) -> Result<ExitCode> {
    let kubeconfig = files.kubeconfig.path();
    if args.command.is_empty() || args.output.is_some() {
        let printed = banner.print(args, kubeconfig);
        printed.context("cannot write to stdout")?;
    }
    if !args.command.is_empty() {
        return child::run(&args.command, kubeconfig, &files.location, signals).await;
    }
    if signals.next().await == Signal::INT && io::stderr().is_terminal() {
        // The terminal shows ^C at the beginning of the line.
        let _ = writeln!(io::stderr());
    }
    Ok(ExitCode::SUCCESS)
}

/// The objects that a cluster has from the start, and the upkeep that the flags do not switch off.
fn server_options(args: &UpFlags, sockets: &ServerSockets) -> ServerOptions {
    ServerOptions {
        upkeep: args.upkeep(),
        bootstrap: Some(sockets.advertised()),
        accounts: (!args.no_service_accounts).then(|| AccountOptions {
            root_ca: sockets.api.root_ca().map(str::to_owned),
        }),
    }
}

/// The system clock, or one that runs faster.
fn clock(args: &UpFlags) -> Clock {
    if args.clock_speed == REAL_TIME {
        wiring::clock()
    } else {
        wiring::fast_clock(args.clock_speed)
    }
}

/// Starts the controllers with a client that calls the server directly, without a socket.
pub(crate) fn start_controllers(
    flags: &ControllerFlags,
    mode: DriverMode,
    server: &ApiServer,
    clock: Clock,
) -> Result<ControllerSet> {
    Ok(ControllerSet::start(ControllerSetOptions {
        clients: ClusterClients::in_process(in_process_client(server)),
        clock,
        rng: wiring::rng()?,
        flags,
        limit: None,
        mode,
        peers: None,
        // Server and controllers share one clock.
        timing: TimeSource::Own,
        election: None,
    }))
}

/// A client that calls the server directly, without a socket.
pub(crate) fn in_process_client(server: &ApiServer) -> kube::Client {
    let identity = UserIdentity::named("system:kube-controller-manager");
    kube::Client::new(server.service(identity), "default")
}
