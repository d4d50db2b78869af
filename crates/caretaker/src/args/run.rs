//! The flags of `caretaker run`: where the cluster is, whether somebody else works in it, how much it may be asked, and
//! where the admin server listens.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::Args;

use super::values::{Verbosity, limit, rate, switch};
use super::work::Work;

/// kube-controller-manager's burst, for those who limit the rate and say nothing about bursts.
const BURST: u32 = 30;

#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct Run {
    /// The kubeconfig [default: $KUBECONFIG, ~/.kube/config, or the service account of the Pod]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// Not supported: name the server in a kubeconfig
    #[arg(long, value_name = "URL")]
    pub(crate) master: Option<String>,

    /// Act also while a kube-controller-manager or vc-controller-manager is alive
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", hide_default_value = true, value_name = "BOOL", value_parser = switch)]
    pub(crate) take_over: bool,

    #[command(flatten)]
    pub(crate) work: Work,

    /// Requests per second to the API server [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = rate, allow_negative_numbers = true)]
    kube_api_qps: Option<f32>,

    /// Requests that may come at once, where there is a limit
    #[arg(long, value_name = "N", default_value_t = BURST)]
    kube_api_burst: u32,

    /// The port of the admin server: health, metrics, graph; 0 for none
    #[arg(long, value_name = "PORT", default_value_t = 10257)]
    pub(crate) secure_port: u16,

    /// The address of the admin server
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub(crate) bind_address: IpAddr,

    /// A file with the token that the admin server asks for [default: a fresh one, which it says where to find]
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,

    /// Accepted as kube-controller-manager's; there is no lease yet
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", value_parser = switch)]
    leader_elect: Option<bool>,

    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

/// A limit on requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate {
    /// Requests per second in the long run; above zero.
    pub(crate) qps: f32,
    /// Requests that may come at once; at least one.
    pub(crate) burst: u32,
}

// === impl Run ===

impl Run {
    /// How much the API server may be asked, if that is limited.
    pub(crate) fn rate(&self) -> Option<Rate> {
        let qps = limit(self.kube_api_qps)?;
        Some(Rate {
            qps,
            burst: self.kube_api_burst.max(1),
        })
    }

    /// What somebody asked for and will not get, a sentence each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.work.warnings();
        if self.leader_elect == Some(true) {
            warnings.push(
                "there is no lease yet: --leader-elect changes nothing, so run one of these".into(),
            );
        }
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
        run: Run,
    }

    fn mk(flags: &[&str]) -> Run {
        let arguments = [&["caretaker"], flags].concat();
        Wrapped::try_parse_from(arguments).unwrap().run
    }

    #[test]
    fn the_admin_server_is_where_upstreams_is_and_for_this_machine_only() {
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
    fn requests_are_limited_only_if_somebody_says_so() {
        let limited = |qps, burst| Some(Rate { qps, burst });
        let cases: &[(&[&str], Option<Rate>)] = &[
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
    fn a_wish_for_a_lease_is_answered_with_a_sentence() {
        for (flag, warnings) in [
            ("--leader-elect", 1),
            ("--leader-elect=true", 1),
            ("--leader-elect=false", 0),
            ("--take-over", 0),
        ] {
            assert_eq!(mk(&[flag]).warnings().len(), warnings, "{flag}");
        }
        assert!(mk(&["--leader-elect"]).warnings()[0].contains("no lease yet"));
    }

    #[test]
    fn a_flag_that_is_repeated_counts_as_it_was_said_last() {
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
