//! The sockets of `up`: the API server's, and the admin server's with the same certificates and token.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, anyhow, bail};
use caretaker_apiserver::listen::{ApiListener, ListenTransport, ServerNames, SubjectName};
use tokio::net::TcpListener;

use super::banner::ServerBanner;
use crate::args::{ListenAddress, UpFlags};
use crate::{admin, wiring};

/// The default port of a Kubernetes API server.
const PORT: u16 = 6443;

/// Number of ports that are tried before the user has to choose one.
const PORTS_TRIED: u16 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiTransport {
    Plain,
    Tls,
}

/// The sockets of one `up`.
#[derive(Debug)]
pub(super) struct ServerSockets {
    pub(super) api: ApiListener,
    pub(super) admin: Option<ApiListener>,
}

// === impl ServerSockets ===

impl ServerSockets {
    /// Opens the sockets that the flags ask for.
    pub(super) async fn open(args: &UpFlags) -> Result<Self> {
        let wire = match args.insecure_http {
            true => ApiTransport::Plain,
            false => ApiTransport::Tls,
        };
        let api = open(args.listen.unwrap_or_default(), &args.tls_san, wire).await?;
        let admin = match args.secure_port {
            Some(0) => None,
            port => Some(open_admin(&api, port.unwrap_or_default()).await?),
        };
        Ok(Self { api, admin })
    }

    /// The addresses of the servers. `context` is the current context of the kubeconfig.
    pub(super) fn banner(&self, context: &str) -> ServerBanner {
        ServerBanner {
            url: self.api.url(),
            remote: self.api.remote_addresses(context),
            admin: self.admin.as_ref().map(ApiListener::url),
            context: context.to_owned(),
        }
    }

    /// The address of the server for the endpoints of Service `kubernetes`: of all its addresses, the first that others can
    /// reach.
    pub(super) fn advertised(&self) -> SocketAddr {
        let mut address = self.api.address();
        if address.ip().is_unspecified() {
            let others = wiring::interface_addresses();
            let other = others.into_iter().find(|other| !other.is_loopback());
            address.set_ip(other.unwrap_or(Ipv4Addr::LOCALHOST.into()));
        }
        address
    }

    pub(super) fn is_reachable_from_elsewhere(&self) -> bool {
        !self.api.address().ip().is_loopback()
    }
}

/// Opens a listener with new keys and a new token, for clients that reach it by its addresses or by `names`.
pub(crate) async fn open(
    listen: ListenAddress,
    names: &[SubjectName],
    wire: ApiTransport,
) -> Result<ApiListener> {
    let socket = bind(listen).await?;
    let address = socket.local_addr().context("the socket has no address")?;
    let interfaces = match address.ip().is_unspecified() {
        true => wiring::interface_addresses(),
        false => Vec::new(),
    };
    let names = ServerNames::new(address.ip(), interfaces, names.iter().cloned());
    let transport = match wire {
        ApiTransport::Plain => ListenTransport::Plain,
        ApiTransport::Tls => wiring::tls()?,
    };
    let listener = ApiListener::with_names(socket, transport, wiring::token()?, names)?;
    Ok(listener)
}

/// Opens the admin server's listener with the API server's certificates and token.
async fn open_admin(listener: &ApiListener, port: u16) -> Result<ApiListener> {
    let socket = admin::bind((Ipv4Addr::LOCALHOST, port).into()).await?;
    Ok(listener.beside(socket)?)
}

/// Binds the given port, or the first free one.
async fn bind(listen: ListenAddress) -> Result<TcpListener> {
    let ListenAddress { address, port } = listen;
    if let Some(port) = port {
        let address = SocketAddr::from((address, port));
        let socket = TcpListener::bind(address).await;
        return socket.map_err(|error| cannot_listen(address, &error));
    }
    for port in PORT..PORT + PORTS_TRIED {
        let address = SocketAddr::from((address, port));
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            other => return other.map_err(|error| cannot_listen(address, &error)),
        }
    }
    let last = PORT + PORTS_TRIED - 1;
    bail!("all ports from {PORT} to {last} are in use: choose one with --listen {address}:PORT")
}

/// The sentence says what to do.
fn cannot_listen(address: SocketAddr, error: &io::Error) -> anyhow::Error {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => "; choose another port with --listen, or 0 for any free one",
        io::ErrorKind::AddrNotAvailable => "; this machine does not have the address",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need privileges",
        _ => "",
    };
    anyhow!("cannot listen on {address}: {error}{advice}")
}
