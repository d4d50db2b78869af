//! The flags of controllers, shared by `caretaker run` and `caretaker up`.
//!
//! Names and meanings are those of kube-controller-manager where it has the flag. Defaults differ where
//! `docs/deviations.md` says so (`client-limit`, `retry-limits`): retries share no bucket and come within a minute.

use std::collections::BTreeSet;
use std::time::Duration;

use caretaker_controllers::podgc;
use caretaker_controllers::runtime::driver::DriverMode;
use clap::{ArgAction, Args, Parser, ValueEnum};

use super::decision_flags::{RetentionFlags, ZoneFlag};
use super::selection::{ControllerSelection, GARBAGE_COLLECTOR, VOLCANO_CRON};
use super::values::{FeatureGate, ResourceName, duration, limit, number, rate, switch, workers};

/// The feature gates that have an effect here.
const GATES: [&str; 4] = [
    "CronVolcanoJobSupport",
    "NodeOutOfServiceVolumeDetach",
    "PodDisruptionConditions",
    "VolcanoJobSupport",
];

/// Upstream's number of workers of the TTL controller, also for values below 1.
const TTL_WORKERS: u16 = 5;

#[derive(Debug, Args)]
pub(crate) struct ControllerFlags {
    /// Controllers to run: a list of names; '*' for all, '*,-name' for all but one, 'none' or '-*' for none
    #[arg(
        long,
        value_name = "LIST",
        default_value = "*",
        allow_hyphen_values = true,
        action = ArgAction::Append
    )]
    controllers: Vec<ControllerSelection>,

    /// Send no writes; report the writes that would be sent, one step of a cascade deep
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", hide_default_value = true, value_name = "BOOL", value_parser = switch)]
    pub(crate) dry_run: bool,

    /// Suppress the summary lines on stderr
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", hide_default_value = true, value_name = "BOOL", value_parser = switch)]
    pub(crate) quiet: bool,

    /// Run the garbage collector
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", value_name = "BOOL", value_parser = switch)]
    enable_garbage_collector: bool,

    /// Concurrent requests of the garbage collector
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = workers)]
    pub(crate) concurrent_gc_syncs: u16,

    /// Resources that the garbage collector ignores, besides events
    #[arg(long, value_name = "RESOURCE[.GROUP],…", value_delimiter = ',', action = ArgAction::Append)]
    pub(crate) gc_ignored_resources: Vec<ResourceName>,

    #[command(flatten)]
    pub(crate) retention: RetentionFlags,

    /// Concurrent requests of the TTL controller of batch/v1
    #[arg(long, value_name = "N", default_value_t = TTL_WORKERS.into(), value_parser = number::<i32, { i32::MIN as i64 }, { u16::MAX as i64 }>, allow_negative_numbers = true)]
    concurrent_ttl_after_finished_syncs: i32,

    // DEVIATION(volcano-gc-workers): Volcano's code has 1 as default, and its chart sets 5.
    /// Concurrent requests of the TTL controller of Volcano
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = workers)]
    pub(crate) worker_threads_for_gc: u16,

    /// Concurrent requests of the CronJob controller of batch/v1
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = workers)]
    pub(crate) concurrent_cron_job_syncs: u16,

    /// Concurrent requests of the CronJob controller of Volcano
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = workers)]
    pub(crate) worker_threads_for_cronjob: u16,

    #[command(flatten)]
    pub(crate) zone: ZoneFlag,

    /// Longest backoff between retries of an object; upstream's is 16m40s
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub(crate) retry_max_delay: Duration,

    /// Retries per second of each controller, over all objects; upstream's is 10 [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = rate, allow_negative_numbers = true)]
    retry_bucket_qps: Option<f32>,

    /// Feature gates of kube-controller-manager and vc-controller-manager
    #[arg(long, value_name = "GATE=BOOL,…", value_delimiter = ',', action = ArgAction::Append)]
    feature_gates: Vec<FeatureGate>,

    /// Format of the lines on stderr
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) logging_format: LogFormat,
}

/// Values of kube-controller-manager's `--logging-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

// === impl ControllerFlags ===

impl ControllerFlags {
    /// The defaults with `--quiet` and these flags.
    pub(crate) fn quiet(flags: &[&str]) -> Self {
        #[derive(Parser)]
        struct FlagParser {
            #[command(flatten)]
            controllers: ControllerFlags,
        }
        let flags = [&["caretaker", "--quiet"], flags].concat();
        let parser = FlagParser::try_parse_from(flags);
        parser
            .expect("the flags exist, and all others have defaults")
            .controllers
    }

    pub(crate) fn mode(&self) -> DriverMode {
        if self.dry_run {
            DriverMode::DryRun
        } else {
            DriverMode::Act
        }
    }

    /// All values of `--controllers`, joined.
    pub(crate) fn selection(&self) -> ControllerSelection {
        ControllerSelection::merged(&self.controllers)
    }

    /// Whether `--controllers` and the other switches enable this controller.
    pub(crate) fn runs(&self, name: &str) -> bool {
        self.is_allowed(name) && self.selection().runs(name)
    }

    /// The garbage collector has a second switch. Volcano's CronJobs need both gates: that of Jobs and that of CronJobs.
    fn is_allowed(&self, name: &str) -> bool {
        let is_open = |gate| self.gate(gate).unwrap_or(true);
        match name {
            GARBAGE_COLLECTOR => self.enable_garbage_collector,
            VOLCANO_CRON => is_open("VolcanoJobSupport") && is_open("CronVolcanoJobSupport"),
            _ => true,
        }
    }

    /// Names of the enabled controllers.
    pub(crate) fn running(&self) -> Vec<&'static str> {
        let mut names = self.selection().running();
        names.retain(|name| self.is_allowed(name));
        names
    }

    /// Workers of the TTL controller of `batch/v1`.
    pub(crate) fn ttl_workers(&self) -> u16 {
        let workers = u16::try_from(self.concurrent_ttl_after_finished_syncs).unwrap_or(0);
        if workers == 0 { TTL_WORKERS } else { workers }
    }

    /// Retries per second; `None` without a limit.
    pub(crate) fn retry_rate(&self) -> Option<f32> {
        limit(self.retry_bucket_qps)
    }

    pub(crate) fn pod_gc(&self) -> podgc::PodGcSettings {
        podgc::PodGcSettings {
            sweeps_out_of_service: self.gate("NodeOutOfServiceVolumeDetach").unwrap_or(true),
            marks_failed: self.gate("PodDisruptionConditions").unwrap_or(true),
            ..self.retention.pod_gc()
        }
    }

    /// The last value of a feature gate.
    fn gate(&self, name: &str) -> Option<bool> {
        let mut gates = self.feature_gates.iter().rev();
        gates.find(|gate| gate.name == name).map(|gate| gate.on)
    }

    /// One sentence for each group of values that have no effect.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let controllers = self.selection();
        let ignored = controllers.upstream_only();
        if !ignored.is_empty() {
            let names = ignored.join(", ");
            warnings.push(format!(
                "ignoring controllers that caretaker does not have: {names}"
            ));
        }
        // Upstream's gates change with every release, so an unknown gate must not prevent a start.
        let gates = self.feature_gates.iter().map(|gate| gate.name.as_str());
        let idle: BTreeSet<&str> = gates.filter(|name| !GATES.contains(name)).collect();
        if !idle.is_empty() {
            let names = Vec::from_iter(idle).join(", ");
            warnings.push(format!("ignoring feature gates without effect: {names}"));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::super::selection::BATCH_CRON;
    use super::*;
    use crate::wiring;

    #[derive(Debug, Parser)]
    #[command(args_override_self = true)]
    struct Wrapped {
        #[command(flatten)]
        work: ControllerFlags,
    }

    fn mk(flags: &[&str]) -> ControllerFlags {
        let arguments = [&["caretaker"], flags].concat();
        Wrapped::try_parse_from(arguments).unwrap().work
    }

    #[test]
    fn defaults_are_upstreams_except_for_retries() {
        let work = mk(&[]);
        assert!(work.runs(GARBAGE_COLLECTOR) && !work.dry_run && !work.quiet);
        assert_eq!(work.concurrent_gc_syncs, 20);
        assert_eq!(work.retry_max_delay, Duration::from_secs(60));
        assert_eq!(
            (work.retry_rate(), work.gc_ignored_resources.len()),
            (None, 0)
        );
        assert_eq!(work.warnings(), Vec::<String>::new());
        let quiet = ControllerFlags::quiet(&[]);
        assert!(quiet.runs(GARBAGE_COLLECTOR) && !quiet.dry_run && quiet.quiet);
    }

    #[test]
    fn the_garbage_collector_has_two_switches() {
        let cases: &[(&[&str], bool)] = &[
            (&["--enable-garbage-collector"], true),
            (&["--enable-garbage-collector=true"], true),
            (&["--enable-garbage-collector=false"], false),
            (
                &[
                    "--enable-garbage-collector=false",
                    "--enable-garbage-collector",
                ],
                true,
            ),
            (&["--controllers=none"], false),
            (&["--controllers", "-*"], false),
            (&["--controllers=*,-garbagecollector"], false),
            (
                &["--controllers=-garbagecollector", "--controllers=*"],
                false,
            ),
            (
                &["--controllers=podgc", "--controllers=garbagecollector"],
                true,
            ),
            (
                &[
                    "--controllers=garbagecollector",
                    "--enable-garbage-collector=0",
                ],
                false,
            ),
        ];
        for (flags, collects) in cases {
            assert_eq!(mk(flags).runs(GARBAGE_COLLECTOR), *collects, "{flags:?}");
        }
    }

    #[test]
    fn the_last_value_of_a_flag_counts() {
        let work = mk(&[
            "--concurrent-gc-syncs",
            "5",
            "--concurrent-gc-syncs=7",
            "--retry-max-delay",
            "16m40s",
            "--retry-bucket-qps=10",
            "--dry-run",
            "--quiet=true",
            "--quiet=false",
            "--gc-ignored-resources",
            "pods,leases.coordination.k8s.io",
            "--gc-ignored-resources=nodes",
        ]);
        assert_eq!(work.concurrent_gc_syncs, 7);
        assert_eq!(work.retry_max_delay, Duration::from_secs(1000));
        assert_eq!(work.retry_rate(), Some(10.0));
        assert!(work.dry_run && !work.quiet);
        let ignored = work
            .gc_ignored_resources
            .iter()
            .map(|name| name.resource.as_str());
        assert_eq!(ignored.collect::<Vec<_>>(), ["pods", "leases", "nodes"]);
        assert_eq!(mk(&["--retry-bucket-qps", "-1"]).retry_rate(), None);
    }

    #[test]
    fn pod_gc_thresholds_default_to_upstreams() {
        assert_eq!(mk(&[]).pod_gc(), podgc::PodGcSettings::default());
        for (value, threshold) in [
            ("-1", None),
            ("0", None),
            ("1", Some(1)),
            ("2147483647", Some(2_147_483_647)),
        ] {
            let flags = [
                "--terminated-pod-gc-threshold",
                value,
                "--terminated-pod-gc-threshold-per-namespace",
                value,
            ];
            let settings = mk(&flags).pod_gc();
            assert_eq!(settings.threshold, threshold, "{value}");
            assert_eq!(settings.threshold_per_namespace, threshold, "{value}");
        }
        let gates = mk(&[
            "--feature-gates=NodeOutOfServiceVolumeDetach=false,PodDisruptionConditions=false",
        ]);
        assert_eq!(gates.warnings(), Vec::<String>::new());
        let settings = gates.pod_gc();
        assert!(!settings.sweeps_out_of_service && !settings.marks_failed);
    }

    #[test]
    fn ttl_flags_have_their_documented_defaults() {
        let work = mk(&[]);
        assert_eq!((work.ttl_workers(), work.worker_threads_for_gc), (5, 5));
        assert_eq!(work.retention.ttl_after_aborted, None);
        let work = mk(&[
            "--concurrent-ttl-after-finished-syncs=9",
            "--worker-threads-for-gc=1",
            "--ttl-after-aborted=24h",
        ]);
        assert_eq!((work.ttl_workers(), work.worker_threads_for_gc), (9, 1));
        let day = Duration::from_secs(24 * 3600);
        assert_eq!(work.retention.ttl_after_aborted, Some(day));
        for none in ["0", "-3"] {
            let work = mk(&["--concurrent-ttl-after-finished-syncs", none]);
            assert_eq!(work.ttl_workers(), 5, "as upstream has it");
        }
    }

    #[test]
    fn the_cron_job_controllers_have_upstreams_flags_and_gates() {
        let work = mk(&[]);
        let workers = (
            work.concurrent_cron_job_syncs,
            work.worker_threads_for_cronjob,
        );
        assert_eq!(workers, (5, 3));
        assert!(work.runs(BATCH_CRON) && work.runs(VOLCANO_CRON));
        assert_eq!(work.zone.find(), wiring::local_zone());
        let work = mk(&["--default-time-zone=Asia/Kathmandu"]);
        assert_eq!(work.zone.find().iana_name(), Some("Asia/Kathmandu"));
        for gate in ["VolcanoJobSupport", "CronVolcanoJobSupport"] {
            let work = mk(&[&format!("--feature-gates={gate}=false")]);
            assert!(!work.runs(VOLCANO_CRON) && !work.running().contains(&VOLCANO_CRON));
            assert!(work.runs(BATCH_CRON), "{gate} is Volcano's");
            assert_eq!(work.warnings(), Vec::<String>::new());
        }
    }

    #[test]
    fn invalid_values_are_errors() {
        for flag in [
            "--concurrent-gc-syncs=0",
            "--concurrent-gc-syncs=-1",
            "--terminated-pod-gc-threshold=2147483648",
            "--terminated-pod-gc-threshold-per-namespace=many",
            "--dry-run=maybe",
            "--retry-max-delay=60",
            "--worker-threads-for-gc=0",
            "--ttl-after-aborted=-1h",
            "--concurrent-cron-job-syncs=0",
            "--worker-threads-for-cronjob=0",
            "--default-time-zone=Local",
            "--default-time-zone=nowhere",
            "--concurrent-ttl-after-finished-syncs=many",
            "--retry-bucket-qps=fast",
            "--gc-ignored-resources=Pods",
            "--feature-gates=A",
            "--controllers=unknown",
        ] {
            assert!(
                Wrapped::try_parse_from(["caretaker", flag]).is_err(),
                "{flag}"
            );
        }
        // A switch takes no value from the next argument.
        assert!(Wrapped::try_parse_from(["caretaker", "--dry-run", "false"]).is_err());
    }

    #[test]
    fn unknown_gates_and_controllers_give_warnings() {
        let work = mk(&[
            "--feature-gates=kube:AllAlpha=true,VolcanoJobSupport=false",
            "--feature-gates",
            "AllAlpha=false,VolcanoJobSupport=true",
            "--controllers=*,cronjob-controller,tokencleaner",
        ]);
        let expected = [
            "ignoring controllers that caretaker does not have: tokencleaner",
            "ignoring feature gates without effect: AllAlpha",
        ];
        assert_eq!(work.warnings(), expected);
        assert_eq!(work.gate("VolcanoJobSupport"), Some(true));
        assert_eq!(work.gate("CronVolcanoJobSupport"), None);
    }
}
