//! The flags of `caretaker up`.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use caretaker_machinery::clock::REAL_TIME;
use clap::{Args, ValueEnum};

use super::values::Verbosity;
use super::work::Work;

#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct Up {
    /// Address and port to listen on; port 0 takes any free one [default: 127.0.0.1:6443, or the next free port]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<Listen>,

    /// Serve plain HTTP instead of TLS, on a loopback address only
    #[arg(long)]
    pub(crate) insecure_http: bool,

    /// Where to write the kubeconfig, which is removed on exit [default: a file per port in $XDG_RUNTIME_DIR/caretaker]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig_out: Option<PathBuf>,

    /// Print one line of JSON when ready: server, kubeconfig, admin
    #[arg(short, long, value_name = "FORMAT", conflicts_with = "command")]
    pub(crate) output: Option<Output>,

    #[command(flatten)]
    pub(crate) work: Work,

    /// The port of the admin server: health, metrics, graph; 0 for none [default: any free one]
    #[arg(long, value_name = "PORT")]
    pub(crate) secure_port: Option<u16>,

    /// Make Nodes, Pods, Deployments and Jobs live and end as in a cluster; simulated, no container runs
    #[arg(long)]
    pub(crate) simulate_workloads: bool,

    /// How many times faster than the wall clock the server's clock runs
    #[arg(long, value_name = "N", default_value_t = REAL_TIME)]
    pub(crate) clock_speed: NonZeroU32,

    /// Keep objects in memory only; so far this is all there is
    #[arg(long, conflicts_with = "data_dir")]
    pub(crate) ephemeral: bool,

    // Known, so that it can be refused with a reason.
    #[arg(long, value_name = "DIRECTORY", hide = true)]
    pub(crate) data_dir: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) verbosity: Verbosity,

    /// A command to run with KUBECONFIG set; when it ends, so does the server, with the command's exit code
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Json,
}

/// An address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listen(pub(crate) SocketAddr);

// === impl Listen ===

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let localhost = || {
            let port = text.strip_prefix("localhost:")?.parse().ok()?;
            Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        };
        let address = text.parse().ok().or_else(localhost).map(Self);
        address.ok_or_else(|| {
            "an address with a port is needed, like 127.0.0.1:6443, localhost:0 or [::1]:6443"
                .into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_needs_an_ip_address_or_localhost_and_a_port() {
        let fine = [
            ("127.0.0.1:6443", "127.0.0.1:6443"),
            ("localhost:0", "127.0.0.1:0"),
            ("[::1]:80", "[::1]:80"),
            ("0.0.0.0:6443", "0.0.0.0:6443"),
        ];
        for (text, expected) in fine {
            assert_eq!(
                text.parse(),
                Ok(Listen(expected.parse().unwrap())),
                "{text}"
            );
        }
        for text in [
            "",
            "6443",
            ":6443",
            "127.0.0.1",
            "localhost",
            "localhost:65536",
            "::1:80",
            "a.example:80",
        ] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
    }
}
