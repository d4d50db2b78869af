//! The flags of `caretaker run`: the cluster, other controller managers, replicas, request limits, and the admin server.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::Args;

use super::controller_flags::ControllerFlags;
use super::leader_flags::LeaderFlags;
use super::values::{InvalidValue, VerbosityFlags, limit, number, port, rate, switch};

/// kube-controller-manager's default burst.
const BURST: u32 = 30;

#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct RunFlags {
    /// Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, or the service account of the Pod]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// Not supported: name the server in a kubeconfig
    #[arg(long, value_name = "URL")]
    pub(crate) master: Option<String>,

    /// Write even while a kube-controller-manager or vc-controller-manager is active
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", hide_default_value = true, value_name = "BOOL", value_parser = switch)]
    pub(crate) take_over: bool,

    #[command(flatten)]
    pub(crate) controllers: ControllerFlags,

    /// Requests per second to the API server [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = rate, allow_negative_numbers = true)]
    kube_api_qps: Option<f32>,

    /// Burst of requests, if --kube-api-qps is set
    #[arg(long, value_name = "N", default_value_t = BURST, value_parser = number::<u32, 0, { u32::MAX as i64 }>)]
    kube_api_burst: u32,

    /// Port of the admin server (health, metrics, graph); 0 disables it
    #[arg(long, value_name = "PORT", default_value_t = 10257, value_parser = port)]
    pub(crate) secure_port: u16,

    /// Address of the admin server
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_parser = address)]
    pub(crate) bind_address: IpAddr,

    /// File with the bearer token of the admin server [default: a generated token; its path is printed]
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) leader: LeaderFlags,

    #[command(flatten)]
    pub(crate) verbosity: VerbosityFlags,

    /// Warning about upstream's flags that were removed from the command line.
    #[arg(skip)]
    pub(super) ignored: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RequestRate {
    /// Requests per second; above zero.
    pub(crate) qps: f32,
    /// At least one.
    pub(crate) burst: u32,
}

fn address(text: &str) -> Result<IpAddr, InvalidValue> {
    let address = text.parse();
    address.map_err(|_| InvalidValue("an IP address without port, like 127.0.0.1 or 0.0.0.0"))
}

// === impl RunFlags ===

impl RunFlags {
    /// The limit on requests; `None` without a limit.
    pub(crate) fn rate(&self) -> Option<RequestRate> {
        let qps = limit(self.kube_api_qps)?;
        Some(RequestRate {
            qps,
            burst: self.kube_api_burst.max(1),
        })
    }

    /// One sentence for each flag or value that has no effect.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self.ignored.iter().cloned().collect();
        warnings.extend(self.controllers.warnings());
        warnings
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Wrapped {
        #[command(flatten)]
        run: RunFlags,
    }

    fn mk(flags: &[&str]) -> RunFlags {
        let arguments = [&["caretaker"], flags].concat();
        Wrapped::try_parse_from(arguments).unwrap().run
    }

    #[test]
    fn the_admin_server_has_upstreams_port_on_localhost() {
        let run = mk(&[]);
        assert_eq!(run.secure_port, 10257);
        assert_eq!(run.bind_address.to_string(), "127.0.0.1");
        let run = mk(&["--secure-port=0", "--bind-address", "::"]);
        assert_eq!(
            (run.secure_port, run.bind_address.to_string()),
            (0, "::".into())
        );
    }

    #[test]
    fn requests_are_limited_only_with_kube_api_qps() {
        let limited = |qps, burst| Some(RequestRate { qps, burst });
        let cases: &[(&[&str], Option<RequestRate>)] = &[
            (&[], None),
            (&["--kube-api-burst=50"], None),
            (&["--kube-api-qps=0"], None),
            (&["--kube-api-qps", "-1"], None),
            (&["--kube-api-qps=20"], limited(20.0, 30)),
            (
                &["--kube-api-qps", "50", "--kube-api-burst", "100"],
                limited(50.0, 100),
            ),
            (
                &["--kube-api-qps=0.5", "--kube-api-burst=0"],
                limited(0.5, 1),
            ),
        ];
        for (flags, expected) in cases {
            assert_eq!(mk(flags).rate(), *expected, "{flags:?}");
        }
    }

    #[test]
    fn the_last_value_of_a_flag_counts() {
        let run = mk(&[
            "--kubeconfig=a",
            "--take-over",
            "--kubeconfig",
            "b",
            "--take-over=false",
            "-v=2",
        ]);
        assert_eq!(run.kubeconfig, Some("b".into()));
        assert!(!run.take_over);
        assert_eq!(run.verbosity.level(), 1);
    }
}
