//! `caretaker run`: the controllers against an existing cluster, until a signal stops them.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use caretaker_apiserver::listen::{ApiListener, KubeconfigFile};
use caretaker_controllers::runtime::clients::{ClientEnvironment, ClusterChoice, ClusterClients};
use caretaker_controllers::runtime::driver::DriverMode;
use caretaker_controllers::runtime::driver::clock_skew::TimeSource;
use caretaker_controllers::runtime::effects::ClientRateLimit;
use tokio::sync::oneshot;

use crate::admin::{self, AdminPages, TokenSource};
use crate::args::RunFlags;
use crate::controller_set::{ControllerSet, ControllerSetOptions};
use crate::peers::{self, PeerManagers, PeerPolicy};
use crate::up::kubeconfig;
use crate::up::signals::StopSignals;
use crate::wiring::{self, notice};

/// How long an API server that does not answer at the start is retried.
const START_RETRY_MAX: Duration = Duration::from_secs(60);

const START_RETRY_INTERVAL: Duration = Duration::from_secs(1);

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
    };
    let clients = ClusterClients::find(&choice).await?;
    let peers = tokio::select! {
        biased;
        _ = signals.next() => return Ok(ExitCode::SUCCESS),
        peers = find_peers(&clients) => peers,
    };
    let policy = PeerPolicy::by_flag(args.take_over);
    for sentence in peers.sentences(&args.controllers.selection(), policy) {
        notice(&sentence);
    }
    let running = args.controllers.running();
    let mode = args.controllers.mode();
    let mut dry_run_only = running.clone();
    dry_run_only.retain(|name| mode == DriverMode::DryRun || !peers.may_act(name, policy));
    let names = describe_controllers(&running, &dry_run_only);
    let admin = open_admin(args).await?;
    let mut controllers = ControllerSet::start(ControllerSetOptions {
        clients: clients.clone(),
        clock: wiring::clock(),
        rng: wiring::rng()?,
        flags: &args.controllers,
        limit: args.rate().map(|rate| ClientRateLimit {
            qps: rate.qps.into(),
            burst: rate.burst,
        }),
        mode,
        dry_run_only,
        timing: TimeSource::Server,
    });
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
    drop((stop, file));
    tracing::info!("controllers stopped");
    Ok(ExitCode::SUCCESS)
}

/// Opens the admin server's socket, and writes the kubeconfig with its token unless the user gave one.
async fn open_admin(args: &RunFlags) -> Result<Option<(ApiListener, Option<KubeconfigFile>)>> {
    if args.secure_port == 0 {
        return Ok(None);
    }
    let token = match &args.admin_token_file {
        Some(path) => TokenSource::File(path.clone()),
        None => TokenSource::Generated(kubeconfig::directory()),
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

/// Looks for other controller managers. Retries for a while if the API server does not answer yet.
async fn find_peers(clients: &ClusterClients) -> PeerManagers {
    let deadline = tokio::time::Instant::now() + START_RETRY_MAX;
    loop {
        let peers = peers::find(&clients.requests()).await;
        if !peers.is_unanswered() || tokio::time::Instant::now() >= deadline {
            return peers;
        }
        tokio::time::sleep(START_RETRY_INTERVAL).await;
    }
}

/// `a, b; dry run only: b`.
fn describe_controllers(running: &[&str], dry_run_only: &[&str]) -> String {
    let names = running.join(", ");
    match dry_run_only {
        _ if running.is_empty() => "no controller".to_owned(),
        [] => names,
        _ if dry_run_only.len() == running.len() => format!("{names}; dry run only"),
        _ => format!("{names}; dry run only: {}", dry_run_only.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_line_names_controllers_in_dry_run() {
        let table: [(&[&str], &[&str], &str); 4] = [
            (&[], &[], "no controller"),
            (&["a", "b"], &[], "a, b"),
            (&["a"], &["a"], "a; dry run only"),
            (&["a", "b"], &["b"], "a, b; dry run only: b"),
        ];
        for (running, dry_run_only, expected) in table {
            assert_eq!(describe_controllers(running, dry_run_only), expected);
        }
    }
}
