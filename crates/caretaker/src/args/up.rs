//! The flags of `caretaker up`.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use caretaker_machinery::clock::REAL_TIME;
use clap::{Args, ValueEnum};

use super::controller_flags::ControllerFlags;
use super::values::{InvalidValue, VerbosityFlags};

#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct UpFlags {
    /// Address and port to listen on; port 0 means any free port [default: 127.0.0.1:6443, or the next free port]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<ListenAddress>,

    /// Serve plain HTTP instead of TLS, on a loopback address only
    #[arg(long)]
    pub(crate) insecure_http: bool,

    /// Path of the kubeconfig, which is removed on exit [default: a file per port in $XDG_RUNTIME_DIR/caretaker]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig_out: Option<PathBuf>,

    /// Print one line of JSON when ready: server, kubeconfig, admin
    #[arg(short, long, value_name = "FORMAT", conflicts_with = "command")]
    pub(crate) output: Option<OutputFormat>,

    #[command(flatten)]
    pub(crate) controllers: ControllerFlags,

    /// Port of the admin server (health, metrics, graph); 0 disables it [default: any free port]
    #[arg(long, value_name = "PORT")]
    pub(crate) secure_port: Option<u16>,

    /// Simulate Nodes, Pods, Deployments and Jobs; no container runs
    #[arg(long)]
    pub(crate) simulate_workloads: bool,

    /// Speed of the server's clock relative to the wall clock
    #[arg(long, value_name = "N", default_value_t = REAL_TIME)]
    pub(crate) clock_speed: NonZeroU32,

    /// Keep objects in memory only, which is the only mode so far
    #[arg(long, conflicts_with = "data_dir")]
    pub(crate) ephemeral: bool,

    // Defined in order to give a better error than "unexpected argument".
    #[arg(long, value_name = "DIRECTORY", hide = true)]
    pub(crate) data_dir: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) verbosity: VerbosityFlags,

    /// Command to run with KUBECONFIG set; the server stops when it ends and exits with its exit code
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    Json,
}

/// The value of `--listen`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListenAddress(pub(crate) SocketAddr);

// === impl ListenAddress ===

impl FromStr for ListenAddress {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let localhost = || {
            let port = text.strip_prefix("localhost:")?.parse().ok()?;
            Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        };
        let address = text.parse().ok().or_else(localhost).map(Self);
        address.ok_or(InvalidValue(
            "an address with a port, like 127.0.0.1:6443, localhost:0 or [::1]:6443",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_needs_an_ip_address_or_localhost_and_a_port() {
        let fine = [
            ("127.0.0.1:6443", "127.0.0.1:6443"),
            ("localhost:0", "127.0.0.1:0"),
            ("[::1]:80", "[::1]:80"),
            ("0.0.0.0:6443", "0.0.0.0:6443"),
        ];
        for (text, expected) in fine {
            assert_eq!(
                text.parse(),
                Ok(ListenAddress(expected.parse().unwrap())),
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
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }
}
