//! `caretaker run`: the controllers against an existing cluster, until a signal stops them.

use std::process::ExitCode;

use anyhow::{Result, bail};
use caretaker_apiserver::listen::{ApiListener, KubeconfigFile};
use caretaker_controllers::runtime::clients::{
    ClientEnvironment, ClientsError, ClusterChoice, ClusterClients,
};
use caretaker_controllers::runtime::driver::DriverMode;
use caretaker_controllers::runtime::driver::clock_skew::TimeSource;
use caretaker_controllers::runtime::effects::ClientRateLimit;
use tokio::sync::oneshot;

use crate::admin::{self, AdminPages, TokenSource};
use crate::args::RunFlags;
use crate::controller_set::{ControllerSet, ControllerSetOptions};
use crate::instances;
use crate::peers::{PeerPolicy, PeerWatch};
use crate::up::kubeconfig;
use crate::up::signals::StopSignals;
use crate::wiring::{self, notice};

pub(crate) fn run(args: &RunFlags) -> Result<ExitCode> {
    if args.master.is_some() {
        bail!("--master is not supported: name the server in a kubeconfig");
    }
    wiring::log(args.verbosity.level(), args.controllers.logging_format)?;
    for warning in args.warnings() {
        notice(&warning);
    }
    wiring::block_on(run_controllers(args))
}

async fn run_controllers(args: &RunFlags) -> Result<ExitCode> {
    let mut signals = StopSignals::listen()?;
    let choice = ClusterChoice {
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
        environment: ClientEnvironment::read(),
        seed: wiring::rng()?.u64(),
    };
    let clock = wiring::clock();
    let election = args.leader.election(&host_name(), wiring::rng()?);
    let election = match election {
        Ok(election) => election.filter(|_| args.controllers.mode() == DriverMode::Act),
        Err(why) => bail!("leader election: {why}; see --leader-elect-lease-duration"),
    };
    let clients = match ClusterClients::find(&choice, &clock).await {
        Err(error @ ClientsError::NoKubeconfig { .. }) => {
            let running = instances::running(&kubeconfig::directory());
            bail!("{error}{}", instances::hint(&running));
        }
        decided => decided?,
    };
    let (running, mode) = (args.controllers.running(), args.controllers.mode());
    let admin = open_admin(args, clients.server()).await?;
    let policy = PeerPolicy::by_flag(args.take_over);
    let peers = PeerWatch::start(&clients, &clock, &running, policy);
    let mut controllers = ControllerSet::start(ControllerSetOptions {
        clients: clients.clone(),
        clock,
        rng: wiring::rng()?,
        flags: &args.controllers,
        limit: args.rate().map(|rate| ClientRateLimit {
            qps: rate.qps.into(),
            burst: rate.burst,
        }),
        mode,
        peers: Some(&peers),
        timing: TimeSource::Server,
        election,
    });
    let names = describe_controllers(&running, mode);
    controllers.announce_sync();
    let server = clients.server();
    notice(&format!("running against {server}: {names}"));
    tracing::info!(version = env!("CARGO_PKG_VERSION"), %server, controllers = %names, "controllers started");
    let (stop, stopped) = oneshot::channel::<()>();
    let file = admin.and_then(|(listener, file)| {
        serve_admin(listener, file.as_ref(), &controllers, stopped);
        file
    });
    let signal = signals.next().await;
    tracing::info!(?signal, "stopping; waiting for requests under way");
    controllers.stop().await;
    drop((stop, file, peers));
    tracing::info!("controllers stopped");
    Ok(ExitCode::SUCCESS)
}

/// Opens the admin server's socket, and writes the kubeconfig with its token unless the user gave one.
async fn open_admin(
    args: &RunFlags,
    server: &str,
) -> Result<Option<(ApiListener, Option<KubeconfigFile>)>> {
    if args.secure_port == 0 {
        return Ok(None);
    }
    let token = match &args.admin_token_file {
        Some(path) => TokenSource::File(path.clone()),
        None => TokenSource::Generated {
            directory: kubeconfig::directory(),
            server: server.to_owned(),
        },
    };
    let opened = admin::open(args.bind_address, args.secure_port, &token);
    Ok(Some(opened.await?))
}

fn serve_admin(
    listener: ApiListener,
    file: Option<&KubeconfigFile>,
    controllers: &ControllerSet,
    stopped: oneshot::Receiver<()>,
) {
    notice(&format!("health, metrics and graph at {}", listener.url()));
    if let Some(file) = file {
        let path = file.path().display();
        notice(&format!("kubeconfig with the admin token: {path}"));
    }
    let pages = AdminPages::new(controllers.diagnostics());
    tokio::spawn(listener.serve(pages, async {
        // A dropped sender stops the server, too.
        let _ = stopped.await;
    }));
}

/// The name of this machine or Pod, by which people recognise a replica.
fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// `a, b; dry run only`.
fn describe_controllers(running: &[&str], mode: DriverMode) -> String {
    let names = running.join(", ");
    match mode {
        _ if running.is_empty() => "no controller".to_owned(),
        DriverMode::Act => names,
        DriverMode::DryRun => format!("{names}; dry run only"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_line_names_controllers_and_a_dry_run() {
        let table: [(&[&str], DriverMode, &str); 4] = [
            (&[], DriverMode::Act, "no controller"),
            (&[], DriverMode::DryRun, "no controller"),
            (&["a", "b"], DriverMode::Act, "a, b"),
            (&["a"], DriverMode::DryRun, "a; dry run only"),
        ];
        for (running, mode, expected) in table {
            assert_eq!(describe_controllers(running, mode), expected);
        }
    }
}
