//! `caretaker up`: an API server in this process, until somebody stops it or the command it was started for ends.
//!
//! What it promises scripts: the kubeconfig appears when the server can be used and goes when it stops; stdout carries the
//! result and nothing else; a stop takes less than a second.

pub(crate) mod actors;
mod child;
pub(crate) mod place;
pub(crate) mod signals;

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use caretaker_apiserver::listen::{Listener, Transport};
use caretaker_apiserver::{ApiServer, Identity};
use caretaker_controllers::runtime::clients::Clients;
use caretaker_controllers::runtime::driver::Mode;
use caretaker_controllers::runtime::driver::clock_skew::Timing;
use caretaker_machinery::clock::{Clock, REAL_TIME};
use futures::FutureExt as _;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use self::actors::Workloads;
use self::place::Place;
use self::signals::Signals;
use crate::admin::Admin;
use crate::args::{Listen, Output, Up, Work};
use crate::crew::{Crew, Orders};
use crate::wiring;

/// Where kubectl and people expect a Kubernetes API.
const PORT: u16 = 6443;

/// How many ports are tried from there on before somebody has to choose one.
const PORTS_TRIED: u16 = 100;

/// How bytes get in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Plain,
    Tls,
}

/// Starts the server, and returns when it has ended.
pub(crate) fn run(args: &Up) -> Result<ExitCode> {
    if let Some(directory) = &args.data_dir {
        bail!(
            "objects are kept in memory only so far, and {} would stay empty: leave --data-dir out",
            directory.display()
        );
    }
    wiring::log(args.verbosity.level())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let outcome = runtime.block_on(serve(args));
    // The server's own tasks have nothing to finish: there is nothing to keep.
    runtime.shutdown_background();
    outcome
}

async fn serve(args: &Up) -> Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let wire = if args.insecure_http {
        Wire::Plain
    } else {
        Wire::Tls
    };
    let (listener, port) = open(args.listen, wire).await?;
    let clock = clock(args);
    let server = wiring::server(clock.clone())?;
    let url = listener.url();
    let admin = match args.secure_port {
        Some(0) => None,
        port => Some(beside(&listener, port.unwrap_or_default()).await?),
    };
    let admin_url = admin.as_ref().map(Listener::url);
    let place = Place::choose(
        args.kubeconfig_out.as_deref(),
        port,
        !args.command.is_empty(),
    )?;
    let kubeconfig = place.write(listener.kubeconfig())?;

    let mode = if args.work.dry_run {
        Mode::DryRun
    } else {
        Mode::Act
    };
    let workloads = match args.simulate_workloads {
        true => Workloads::Simulated,
        false => Workloads::Absent,
    };
    actors::install(&inside(&server), &args.work, workloads).await?;
    let crew = start_crew(&args.work, mode, &server, clock.clone())?;
    let actors = (workloads == Workloads::Simulated).then(|| {
        eprintln!("caretaker: {}", actors::SIMULATED);
        actors::start(inside(&server), crew.feeds(), clock)
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = stopped.shared();
    // A sender that is gone means the same.
    let until = |stopped| async { drop(stopped.await) };
    let serving = tokio::spawn(listener.serve(server, until(stopped.clone())));
    if let Some(admin) = admin {
        tokio::spawn(admin.serve(Admin::new(crew.backstage()), until(stopped)));
    }
    for warning in args.work.warnings() {
        eprintln!("caretaker: {warning}");
    }
    let outcome = if args.command.is_empty() {
        match announce(args.output, &url, kubeconfig.path(), admin_url.as_deref()) {
            Ok(()) => {
                signals.next().await;
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => Err(error).context("nobody reads what is printed"),
        }
    } else {
        child::run(&args.command, kubeconfig.path(), &place, &mut signals).await
    };
    crew.stop().await;
    if let Some(actors) = actors {
        actors.stop().await;
    }
    drop((kubeconfig, stop));
    serving.await.context("the server broke")?;
    outcome
}

/// The machine's time, or one that runs faster.
fn clock(args: &Up) -> Clock {
    if args.clock_speed == REAL_TIME {
        wiring::clock()
    } else {
        wiring::fast_clock(args.clock_speed)
    }
}

/// The controllers, in process: they speak to the server without a wire.
pub(crate) fn start_crew(
    work: &Work,
    mode: Mode,
    server: &ApiServer,
    clock: Clock,
) -> Result<Crew> {
    Ok(Crew::start(Orders {
        clients: Clients::in_process(inside(server)),
        clock,
        rng: wiring::rng()?,
        work,
        limit: None,
        mode,
        shy: Vec::new(),
        // The server's clock is this one.
        timing: Timing::Own,
    }))
}

/// A client without a wire.
pub(crate) fn inside(server: &ApiServer) -> kube::Client {
    let identity = Identity {
        user: "system:kube-controller-manager".to_owned(),
        groups: vec!["system:authenticated".to_owned()],
    };
    kube::Client::new(server.service(identity), "default")
}

/// The server's door with fresh keys and a fresh token, and its port.
pub(crate) async fn open(listen: Option<Listen>, wire: Wire) -> Result<(Listener, u16)> {
    let socket = bind(listen).await?;
    let address = socket.local_addr().context("the socket has no address")?;
    let transport = match wire {
        Wire::Plain => Transport::Plain,
        Wire::Tls => wiring::tls()?,
    };
    let listener = Listener::new(socket, transport, wiring::token()?)?;
    Ok((listener, address.port()))
}

/// The admin server's socket, with the API's certificates and token.
async fn beside(listener: &Listener, port: u16) -> Result<Listener> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let socket = TcpListener::bind(address).await;
    let socket = socket.with_context(|| {
        format!("the admin server cannot listen on {address}: choose another --secure-port, or 0 for none")
    })?;
    Ok(listener.beside(socket)?)
}

/// A socket on the address that was asked for, or on the first free port.
async fn bind(listen: Option<Listen>) -> Result<TcpListener> {
    if let Some(Listen(address)) = listen {
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
    bail!("all ports from {PORT} to {last} are taken: name a free one with --listen")
}

/// Tells where the server is, on stdout.
fn announce(
    output: Option<Output>,
    url: &str,
    kubeconfig: &Path,
    admin: Option<&str>,
) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match output {
        Some(Output::Json) => {
            let line = json!({"server": url, "kubeconfig": kubeconfig, "admin": admin});
            writeln!(stdout, "{line}")?;
        }
        None => {
            let tries = [
                r#"echo '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"hello"}}' | kubectl apply -f -"#,
                "kubectl get configmaps --all-namespaces",
                "kubectl delete configmap hello",
            ];
            write!(stdout, "{}", invitation(url, kubeconfig, &tries))?;
        }
    }
    stdout.flush()
}

/// Where the server is, how to get there, and what to try.
pub(crate) fn invitation(url: &str, kubeconfig: &Path, tries: &[&str]) -> String {
    let (path, quoted) = (kubeconfig.display(), quoted(kubeconfig));
    format!(
        "A Kubernetes API is ready at {url}. It is in memory only: what is in it ends with it.
The kubeconfig is {path}. Try it in another terminal:

  export KUBECONFIG={quoted}
  {tries}

Ctrl-C stops it.
",
        tries = tries.join("\n  "),
    )
}

/// A path as a shell reads it.
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
    fn a_path_is_quoted_only_where_a_shell_would_stumble() {
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
