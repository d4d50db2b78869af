//! `caretaker up`: an API server in this process, until a signal stops it or its command ends.
//!
//! Scripts may rely on this: the kubeconfig exists while the server can be used; stdout carries the result only; a stop
//! takes less than a second.

mod child;
pub(crate) mod kubeconfig;
pub(crate) mod signals;
pub(crate) mod simulation;

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use caretaker_apiserver::listen::{ApiListener, KubeconfigFile, ListenTransport};
use caretaker_apiserver::{ApiServer, UserIdentity};
use caretaker_controllers::runtime::clients::ClusterClients;
use caretaker_controllers::runtime::driver::DriverMode;
use caretaker_controllers::runtime::driver::clock_skew::TimeSource;
use caretaker_machinery::clock::{Clock, REAL_TIME};
use futures::FutureExt as _;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use self::kubeconfig::KubeconfigLocation;
use self::signals::StopSignals;
use self::simulation::WorkloadMode;
use crate::admin::{self, AdminPages};
use crate::args::{ControllerFlags, ListenAddress, OutputFormat, UpFlags};
use crate::controller_set::{ControllerSet, ControllerSetOptions};
use crate::wiring::{self, notice};

/// The default port of a Kubernetes API server.
const PORT: u16 = 6443;

/// Number of ports that are tried before the user has to choose one.
const PORTS_TRIED: u16 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiTransport {
    Plain,
    Tls,
}

pub(crate) fn run(args: &UpFlags) -> Result<ExitCode> {
    if let Some(directory) = &args.data_dir {
        bail!(
            "--data-dir {} is not supported yet: objects are kept in memory only",
            directory.display()
        );
    }
    wiring::log(args.verbosity.level(), args.controllers.logging_format)?;
    wiring::block_on(serve(args))
}

async fn serve(args: &UpFlags) -> Result<ExitCode> {
    let mut signals = StopSignals::listen()?;
    let wire = if args.insecure_http {
        ApiTransport::Plain
    } else {
        ApiTransport::Tls
    };
    let (listener, port) = open(args.listen, wire).await?;
    let clock = clock(args);
    let server = wiring::server(clock.clone())?;
    let url = listener.url();
    let admin = match args.secure_port {
        Some(0) => None,
        port => Some(open_admin(&listener, port.unwrap_or_default()).await?),
    };
    let admin_url = admin.as_ref().map(ApiListener::url);
    let location = KubeconfigLocation::choose(
        args.kubeconfig_out.as_deref(),
        port,
        !args.command.is_empty(),
    )?;
    let kubeconfig = location.write(listener.kubeconfig())?;
    let admin_file = admin.as_ref().and_then(|admin| admin_file(admin, &url));

    let mode = args.controllers.mode();
    let workloads = match args.simulate_workloads {
        true => WorkloadMode::Simulated,
        false => WorkloadMode::Absent,
    };
    simulation::install(&in_process_client(&server), &args.controllers, workloads).await?;
    let controllers = start_controllers(&args.controllers, mode, &server, clock.clone())?;
    let simulation = (workloads == WorkloadMode::Simulated).then(|| {
        notice(simulation::SIMULATED);
        simulation::start(in_process_client(&server), controllers.feeds(), clock)
    });
    tracing::info!(version = env!("CARGO_PKG_VERSION"), %url, "API server started");
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = stopped.shared();
    // A dropped sender stops the servers, too.
    let until = |stopped| async { drop(stopped.await) };
    let serving = tokio::spawn(listener.serve(server, until(stopped.clone())));
    if let Some(admin) = admin {
        tokio::spawn(admin.serve(AdminPages::new(controllers.diagnostics()), until(stopped)));
    }
    for warning in args.controllers.warnings() {
        notice(&warning);
    }
    let outcome = if args.command.is_empty() {
        match announce(args.output, &url, kubeconfig.path(), admin_url.as_deref()) {
            Ok(()) => {
                signals.next().await;
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => Err(error).context("cannot write to stdout"),
        }
    } else {
        child::run(&args.command, kubeconfig.path(), &location, &mut signals).await
    };
    tracing::info!("stopping; waiting for requests under way");
    controllers.stop().await;
    if let Some(simulation) = simulation {
        simulation.stop().await;
    }
    drop((kubeconfig, admin_file, stop));
    serving.await.context("API server task panicked")?;
    tracing::info!("API server stopped");
    outcome
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
    }))
}

/// A client that calls the server directly, without a socket.
pub(crate) fn in_process_client(server: &ApiServer) -> kube::Client {
    let identity = UserIdentity {
        user: "system:kube-controller-manager".to_owned(),
        groups: vec!["system:authenticated".to_owned()],
    };
    kube::Client::new(server.service(identity), "default")
}

/// Opens a listener with new keys and a new token. Returns its port, too.
pub(crate) async fn open(
    listen: Option<ListenAddress>,
    wire: ApiTransport,
) -> Result<(ApiListener, u16)> {
    let socket = bind(listen).await?;
    let address = socket.local_addr().context("the socket has no address")?;
    let transport = match wire {
        ApiTransport::Plain => ListenTransport::Plain,
        ApiTransport::Tls => wiring::tls()?,
    };
    let listener = ApiListener::new(socket, transport, wiring::token()?)?;
    Ok((listener, address.port()))
}

/// Opens the admin server's listener with the API server's certificates and token.
async fn open_admin(listener: &ApiListener, port: u16) -> Result<ApiListener> {
    let socket = admin::bind((Ipv4Addr::LOCALHOST, port).into()).await?;
    Ok(listener.beside(socket)?)
}

/// Writes the kubeconfig by which `explain` finds the admin server. Without it `explain` works, too.
fn admin_file(admin: &ApiListener, server: &str) -> Option<KubeconfigFile> {
    let port = admin.url().rsplit(':').next()?.parse().ok()?;
    let path = admin::known::path(&kubeconfig::directory(), port);
    let text = admin::known::marked(&admin.kubeconfig(), server);
    let written = KubeconfigFile::write_private(path, text);
    written
        .inspect_err(|error| tracing::warn!(%error, "explain will not find this process"))
        .ok()
}

/// Binds the given address, or the first free port.
async fn bind(listen: Option<ListenAddress>) -> Result<TcpListener> {
    if let Some(ListenAddress(address)) = listen {
        let socket = TcpListener::bind(address).await;
        return socket.with_context(|| format!("cannot listen on {address}"));
    }
    for port in PORT..PORT + PORTS_TRIED {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            other => return other.with_context(|| format!("cannot listen on {address}")),
        }
    }
    let last = PORT + PORTS_TRIED - 1;
    bail!("all ports from {PORT} to {last} are in use: choose one with --listen")
}

/// Prints the address of the server on stdout.
fn announce(
    output: Option<OutputFormat>,
    url: &str,
    kubeconfig: &Path,
    admin: Option<&str>,
) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match output {
        Some(OutputFormat::Json) => {
            let line = json!({"server": url, "kubeconfig": kubeconfig, "admin": admin});
            writeln!(stdout, "{line}")?;
        }
        None => {
            let tries = [
                r#"echo '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"hello"}}' | kubectl apply -f -"#,
                "kubectl get configmaps --all-namespaces",
                "kubectl delete configmap hello",
            ];
            write!(stdout, "{}", instructions(url, kubeconfig, admin, &tries))?;
        }
    }
    stdout.flush()
}

/// The addresses of the server and its admin server, the kubeconfig, and commands to try.
pub(crate) fn instructions(
    url: &str,
    kubeconfig: &Path,
    admin: Option<&str>,
    tries: &[&str],
) -> String {
    let (path, quoted) = (kubeconfig.display(), quoted(kubeconfig));
    let admin = admin.map_or_else(String::new, |admin| {
        format!("Health, metrics and the ownership graph are at {admin}, with the token of the kubeconfig.\n")
    });
    format!(
        "A Kubernetes API server is ready at {url}. Objects are in memory only and are lost when it stops.
{admin}The kubeconfig is {path}. Try in another terminal:

  export KUBECONFIG={quoted}
  {tries}

Press Ctrl-C to stop it.
",
        tries = tries.join("\n  "),
    )
}

/// A path, quoted for a shell if necessary.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(is_plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_special_characters_is_quoted() {
        let cases = [
            ("/run/a-1/6443.kubeconfig", "/run/a-1/6443.kubeconfig"),
            ("/a b", "'/a b'"),
            ("/it's", "'/it'\\''s'"),
            ("/$a", "'/$a'"),
        ];
        for (path, expected) in cases {
            assert_eq!(quoted(Path::new(path)), expected);
        }
    }
}
