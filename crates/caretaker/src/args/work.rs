//! The flags that say how controllers work, in `caretaker run` and in `caretaker up` alike.
//!
//! Names and meanings are those of kube-controller-manager where it has the flag. Defaults differ where
//! `docs/deviations.md` says so (`client-limit`, `retry-limits`): retries share no bucket and come within a minute.

use std::time::Duration;

use caretaker_controllers::podgc;
use clap::{ArgAction, Args, Parser};

use super::controllers::{Controllers, GARBAGE_COLLECTOR, VOLCANO_CRON};
use super::settings::{Limits, Zone};
use super::values::{Gate, ResourceName, duration, limit, rate, switch};

/// The feature gates that change something here.
const GATES: [&str; 4] = [
    "CronVolcanoJobSupport",
    "NodeOutOfServiceVolumeDetach",
    "PodDisruptionConditions",
    "VolcanoJobSupport",
];

/// Upstream's workers of the TTL controller, also for those who say that there should be none.
const TTL_WORKERS: u16 = 5;

#[derive(Debug, Args)]
pub(crate) struct Work {
    /// Controllers to run: a list of names, '*' for all, '*,-name' for all but one, 'none' or '-*' for none
    #[arg(
        long,
        value_name = "LIST",
        default_value = "*",
        allow_hyphen_values = true,
        action = ArgAction::Append
    )]
    controllers: Vec<Controllers>,

    /// Change nothing: record what would be done, one step deep
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", hide_default_value = true, value_name = "BOOL", value_parser = switch)]
    pub(crate) dry_run: bool,

    /// Do not tell what the controllers do
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", hide_default_value = true, value_name = "BOOL", value_parser = switch)]
    pub(crate) quiet: bool,

    /// Whether the garbage collector runs
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", value_name = "BOOL", value_parser = switch)]
    enable_garbage_collector: bool,

    /// Requests of the garbage collector that may be under way at the same time
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrent_gc_syncs: u16,

    /// Resources the garbage collector leaves alone, besides events
    #[arg(long, value_name = "RESOURCE[.GROUP],…", value_delimiter = ',', action = ArgAction::Append)]
    pub(crate) gc_ignored_resources: Vec<ResourceName>,

    #[command(flatten)]
    pub(crate) limits: Limits,

    /// Requests of the TTL controller of batch/v1 that may be under way at the same time
    #[arg(long, value_name = "N", default_value_t = TTL_WORKERS.into(), value_parser = clap::value_parser!(i32).range(..=65_535), allow_negative_numbers = true)]
    concurrent_ttl_after_finished_syncs: i32,

    /// Requests of the TTL controller of Volcano that may be under way at the same time
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) worker_threads_for_gc: u16,

    /// Requests of the CronJob controller of batch/v1 that may be under way at the same time
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrent_cron_job_syncs: u16,

    /// Requests of the CronJob controller of Volcano that may be under way at the same time
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) worker_threads_for_cronjob: u16,

    #[command(flatten)]
    pub(crate) zone: Zone,

    /// The longest pause before something that failed is tried again; upstream has 16m40s
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub(crate) retry_max_delay: Duration,

    /// Retries per second of all objects of a controller together; upstream has 10 [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = rate, allow_negative_numbers = true)]
    retry_bucket_qps: Option<f32>,

    /// Feature gates of the originals
    #[arg(long, value_name = "GATE=BOOL,…", value_delimiter = ',', action = ArgAction::Append)]
    feature_gates: Vec<Gate>,
}

// === impl Work ===

impl Work {
    /// What these flags make of it, without a word about it.
    pub(crate) fn quiet(flags: &[&str]) -> Self {
        #[derive(Parser)]
        struct Alone {
            #[command(flatten)]
            work: Work,
        }
        let flags = [&["caretaker", "--quiet"], flags].concat();
        let alone = Alone::try_parse_from(flags);
        alone
            .expect("the flags are ours, and every other has a default")
            .work
    }

    /// Which controllers are on by `--controllers`.
    pub(crate) fn controllers(&self) -> Controllers {
        Controllers::merged(&self.controllers)
    }

    /// Whether the controller of this name runs.
    pub(crate) fn runs(&self, name: &str) -> bool {
        self.is_allowed(name) && self.controllers().runs(name)
    }

    /// The garbage collector has a second switch, and Volcano's CronJobs have two gates: without Jobs there is nothing to
    /// make, without CronJobs nothing to make it of.
    fn is_allowed(&self, name: &str) -> bool {
        let is_open = |gate| self.gate(gate).unwrap_or(true);
        match name {
            GARBAGE_COLLECTOR => self.enable_garbage_collector,
            VOLCANO_CRON => is_open("VolcanoJobSupport") && is_open("CronVolcanoJobSupport"),
            _ => true,
        }
    }

    /// What runs, by name.
    pub(crate) fn running(&self) -> Vec<&'static str> {
        let mut names = self.controllers().running();
        names.retain(|name| self.is_allowed(name));
        names
    }

    /// Workers of the TTL controller of `batch/v1`.
    pub(crate) fn ttl_workers(&self) -> u16 {
        let workers = u16::try_from(self.concurrent_ttl_after_finished_syncs).unwrap_or(0);
        if workers == 0 { TTL_WORKERS } else { workers }
    }

    /// Retries per second, if they are limited.
    pub(crate) fn retry_rate(&self) -> Option<f32> {
        limit(self.retry_bucket_qps)
    }

    /// How Pod GC works.
    pub(crate) fn pod_gc(&self) -> podgc::Settings {
        podgc::Settings {
            sweeps_out_of_service: self.gate("NodeOutOfServiceVolumeDetach").unwrap_or(true),
            marks_failed: self.gate("PodDisruptionConditions").unwrap_or(true),
            ..self.limits.pod_gc()
        }
    }

    /// What was said about a feature gate last.
    fn gate(&self, name: &str) -> Option<bool> {
        let gates = self.feature_gates.iter().rev();
        gates
            .into_iter()
            .find(|gate| gate.name == name)
            .map(|gate| gate.on)
    }

    /// What somebody asked for and will not get, a sentence each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let controllers = self.controllers();
        let foreign = controllers.foreign();
        if !foreign.is_empty() {
            let names = foreign.join(", ");
            warnings.push(format!(
                "these controllers belong to others and do not run here: {names}"
            ));
        }
        // Upstream's gates come and go with every release: a list of them here would refuse somebody's manifest.
        let mut idle: Vec<&str> = self
            .feature_gates
            .iter()
            .map(|gate| gate.name.as_str())
            .collect();
        idle.retain(|name| !GATES.contains(name));
        idle.sort_unstable();
        idle.dedup();
        if !idle.is_empty() {
            let names = idle.join(", ");
            warnings.push(format!("these feature gates mean nothing here: {names}"));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::super::controllers::BATCH_CRON;
    use super::*;
    use crate::wiring;

    #[derive(Debug, Parser)]
    #[command(args_override_self = true)]
    struct Wrapped {
        #[command(flatten)]
        work: Work,
    }

    fn mk(flags: &[&str]) -> Work {
        let arguments = [&["caretaker"], flags].concat();
        Wrapped::try_parse_from(arguments).unwrap().work
    }

    #[test]
    fn defaults_are_upstreams_except_where_the_design_says_so() {
        let work = mk(&[]);
        assert!(work.runs(GARBAGE_COLLECTOR) && !work.dry_run && !work.quiet);
        assert_eq!(work.concurrent_gc_syncs, 20);
        assert_eq!(work.retry_max_delay, Duration::from_secs(60));
        assert_eq!(
            (work.retry_rate(), work.gc_ignored_resources.len()),
            (None, 0)
        );
        assert_eq!(work.warnings(), Vec::<String>::new());
        let quiet = Work::quiet(&[]);
        assert!(quiet.runs(GARBAGE_COLLECTOR) && !quiet.dry_run && quiet.quiet);
    }

    #[test]
    fn the_collector_has_two_switches() {
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
    fn values_follow_a_space_or_an_equals_sign_and_the_last_one_counts() {
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
    fn pod_gc_keeps_what_upstream_keeps_unless_it_is_told_otherwise() {
        assert_eq!(mk(&[]).pod_gc(), podgc::Settings::default());
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
    fn the_ttl_controllers_have_upstreams_flags() {
        let work = mk(&[]);
        assert_eq!((work.ttl_workers(), work.worker_threads_for_gc), (5, 5));
        assert_eq!(work.limits.ttl_after_aborted, None);
        let work = mk(&[
            "--concurrent-ttl-after-finished-syncs=9",
            "--worker-threads-for-gc=1",
            "--ttl-after-aborted=24h",
        ]);
        assert_eq!((work.ttl_workers(), work.worker_threads_for_gc), (9, 1));
        let day = Duration::from_secs(24 * 3600);
        assert_eq!(work.limits.ttl_after_aborted, Some(day));
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
    fn what_makes_no_sense_is_refused() {
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
            "--controllers=nobody",
        ] {
            assert!(
                Wrapped::try_parse_from(["caretaker", flag]).is_err(),
                "{flag}"
            );
        }
        // A switch does not eat what comes after it.
        assert!(Wrapped::try_parse_from(["caretaker", "--dry-run", "false"]).is_err());
    }

    #[test]
    fn gates_and_controllers_of_others_are_said_to_do_nothing() {
        let work = mk(&[
            "--feature-gates=kube:AllAlpha=true,VolcanoJobSupport=false",
            "--feature-gates",
            "AllAlpha=false,VolcanoJobSupport=true",
            "--controllers=*,cronjob-controller,tokencleaner",
        ]);
        let expected = [
            "these controllers belong to others and do not run here: tokencleaner",
            "these feature gates mean nothing here: AllAlpha",
        ];
        assert_eq!(work.warnings(), expected);
        assert_eq!(work.gate("VolcanoJobSupport"), Some(true));
        assert_eq!(work.gate("CronVolcanoJobSupport"), None);
    }
}
