//! The flags of `caretaker up`.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use caretaker_apiserver::UpkeepTasks;
use caretaker_apiserver::listen::SubjectName;
use caretaker_machinery::clock::REAL_TIME;
use caretaker_machinery::names;
use caretaker_simulator::NODES_MAX;
use clap::{ArgAction, Args, ValueEnum};

use super::controller_flags::ControllerFlags;
use super::values::{InvalidNumber, InvalidValue, VerbosityFlags, number, port};

#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct UpFlags {
    /// Address to listen on: 0.0.0.0 or [::] for all addresses of this machine. Port 0 means any free port; without a
    /// port it is 6443 or the next free one [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    pub(crate) listen: Option<ListenAddress>,

    /// Name or address under which clients reach the server, for the certificate and the check of the Host header;
    /// repeatable
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', action = ArgAction::Append)]
    pub(crate) tls_san: Vec<SubjectName>,

    /// Serve plain HTTP instead of TLS, on a loopback address only
    #[arg(long)]
    pub(crate) insecure_http: bool,

    /// Name of this instance, for its kubeconfig and context, and for `caretaker graph --name`; only one instance of a
    /// name can run [default: the port]
    #[arg(long, value_name = "NAME", value_parser = instance_name)]
    pub(crate) name: Option<String>,

    /// Path of the kubeconfig, which is removed on exit [default: NAME.kubeconfig in $XDG_RUNTIME_DIR/caretaker]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig_out: Option<PathBuf>,

    /// Manifests to create before the server is ready: a file or a directory of YAML or JSON, or - for stdin; repeatable
    #[arg(short, long, value_name = "FILE|DIR", action = ArgAction::Append)]
    pub(crate) filename: Vec<PathBuf>,

    /// CustomResourceDefinitions to create before all other manifests; repeatable
    #[arg(long, value_name = "FILE|DIR", action = ArgAction::Append)]
    pub(crate) crds: Vec<PathBuf>,

    /// Print one line of JSON when ready: server, remoteServers, kubeconfig, context, admin
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<OutputFormat>,

    #[command(flatten)]
    pub(crate) controllers: ControllerFlags,

    /// Port of the admin server (health, metrics, graph); 0 disables it [default: any free port]
    #[arg(long, value_name = "PORT", value_parser = port)]
    pub(crate) secure_port: Option<u16>,

    /// Simulate Nodes, Pods, their controllers and Jobs; no container runs
    #[arg(long)]
    pub(crate) simulate_workloads: bool,

    /// Number of simulated Nodes, up to 1000
    #[arg(long, value_name = "N", default_value_t = 1, requires = "simulate_workloads", value_parser = node_count)]
    pub(crate) nodes: u32,

    /// Keep no ServiceAccount `default` and no ConfigMap `kube-root-ca.crt` in namespaces, like kube-apiserver without a
    /// controller manager
    #[arg(long)]
    pub(crate) no_service_accounts: bool,

    /// Leave terminating Namespaces and their objects to a namespace controller that runs beside this server
    #[arg(long)]
    pub(crate) no_namespace_upkeep: bool,

    /// Speed of the server's clock relative to the wall clock
    #[arg(long, value_name = "N", default_value_t = REAL_TIME, value_parser = clock_speed)]
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
pub(crate) struct ListenAddress {
    pub(crate) address: IpAddr,
    /// `None`: the first free port.
    pub(crate) port: Option<u16>,
}

/// A name that can be part of a file name and of a context, and is no port.
fn instance_name(text: &str) -> Result<String, InvalidValue> {
    match names::dns_1035_label(text).is_empty() {
        true => Ok(text.to_owned()),
        false => Err(InvalidValue(
            "a name like shop or test-2: lower-case letters, digits and -, beginning with a letter, 63 at most",
        )),
    }
}

fn node_count(text: &str) -> Result<u32, InvalidNumber> {
    number::<u32, 1, { NODES_MAX as i64 }>(text)
}

fn clock_speed(text: &str) -> Result<NonZeroU32, InvalidNumber> {
    let speed = number::<u32, 1, { u32::MAX as i64 }>(text)?;
    Ok(NonZeroU32::new(speed).unwrap_or(REAL_TIME))
}

// === impl UpFlags ===

impl UpFlags {
    /// The tasks that the server runs by itself.
    pub(crate) fn upkeep(&self) -> UpkeepTasks {
        UpkeepTasks {
            namespaces: !self.no_namespace_upkeep,
            ..UpkeepTasks::default()
        }
    }
}

// === impl ListenAddress ===

impl Default for ListenAddress {
    fn default() -> Self {
        Self {
            address: Ipv4Addr::LOCALHOST.into(),
            port: None,
        }
    }
}

impl FromStr for ListenAddress {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        const INVALID: InvalidValue = InvalidValue(
            "an IP address with or without a port, like 127.0.0.1:6443, localhost:0, 0.0.0.0 or [::1]:6443",
        );
        let text = match text.strip_prefix("localhost") {
            Some(rest) if rest.is_empty() || rest.starts_with(':') => format!("127.0.0.1{rest}"),
            _ => text.to_owned(),
        };
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self {
                address: address.ip(),
                port: Some(address.port()),
            });
        }
        let bare = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        let address = match bare {
            Some(bare) => bare.parse().map(IpAddr::V6),
            None => text.parse(),
        };
        address
            .map(|address| Self {
                address,
                port: None,
            })
            .map_err(|_| INVALID)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Wrapped {
        #[command(flatten)]
        up: UpFlags,
    }

    #[test]
    fn listen_takes_an_address_and_perhaps_a_port() {
        let fine = [
            ("127.0.0.1:6443", "127.0.0.1", Some(6443)),
            ("127.0.0.1", "127.0.0.1", None),
            ("localhost:0", "127.0.0.1", Some(0)),
            ("localhost", "127.0.0.1", None),
            ("[::1]:80", "::1", Some(80)),
            ("[::]", "::", None),
            ("::", "::", None),
            ("0.0.0.0:6443", "0.0.0.0", Some(6443)),
            ("0.0.0.0", "0.0.0.0", None),
            ("192.0.2.7", "192.0.2.7", None),
        ];
        for (text, address, port) in fine {
            let address = address.parse().unwrap();
            assert_eq!(text.parse(), Ok(ListenAddress { address, port }), "{text}");
        }
        for text in [
            "",
            "6443",
            ":6443",
            "localhost:",
            "localhost:65536",
            "localhosts",
            "[127.0.0.1]",
            "[::1",
            "a.example:80",
            "0.0.0.0:",
            "https://127.0.0.1",
        ] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn flags_with_bad_values_say_what_they_expect() {
        for (line, expected) in [
            ("up --name 6443", "beginning with a letter"),
            ("up --name Shop", "lower-case letters"),
            ("up --name a/b", "lower-case letters"),
            ("up --name=", "lower-case letters"),
            (
                "up --clock-speed 0",
                "expected a whole number from 1 to 4294967295",
            ),
            (
                "up --clock-speed 1.5",
                "expected a whole number from 1 to 4294967295",
            ),
            (
                "up --secure-port 65536",
                "expected a whole number from 0 to 65535",
            ),
            (
                "up --listen 6443",
                "expected an IP address with or without a port",
            ),
            ("up -f", "a value is required"),
        ] {
            let read = Wrapped::try_parse_from(line.split_whitespace());
            let error = read.unwrap_err().to_string();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn namespace_upkeep_can_be_switched_off() {
        for (line, namespaces) in [("up", true), ("up --no-namespace-upkeep", false)] {
            let up = Wrapped::try_parse_from(line.split_whitespace()).unwrap().up;
            let upkeep = up.upkeep();
            assert_eq!(upkeep.namespaces, namespaces, "{line}");
            assert!(upkeep.crds && upkeep.events, "{line}");
        }
    }

    #[test]
    fn manifests_are_repeatable() {
        let line = "up -f a.yaml -f - --filename b --crds c --crds=d -o json -- true";
        let up = Wrapped::try_parse_from(line.split_whitespace()).unwrap().up;
        assert_eq!(up.filename, ["a.yaml", "-", "b"].map(PathBuf::from));
        assert_eq!(up.crds, ["c", "d"].map(PathBuf::from));
        assert!(up.output.is_some() && up.command == ["true"]);
    }

    #[test]
    fn names_of_the_certificate_are_listed_or_repeated() {
        let read = |line: &str| {
            let read = Wrapped::try_parse_from(line.split_whitespace());
            let names = |up: UpFlags| up.tls_san.iter().map(ToString::to_string).collect();
            read.map(|read| names(read.up))
        };
        let names: Vec<String> =
            read("up --tls-san a.example,192.0.2.7 --tls-san=*.b.example").unwrap();
        assert_eq!(names, ["a.example", "192.0.2.7", "*.b.example"]);
        for line in [
            "up --tls-san a:6443",
            "up --tls-san https://a",
            "up --tls-san=",
            "up --tls-san 0.0.0.0",
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(
                error.contains("expected an IP address or a DNS name"),
                "{error}"
            );
        }
    }
}
