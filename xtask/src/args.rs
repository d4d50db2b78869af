//! The command line as types. `commands` gives the flags their meaning.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args as ArgGroup, Parser, Subcommand, ValueEnum, value_parser};
use xtask::bench::{
    BenchRun, CRON_WORKERS, GC_WORKERS, GcWorkload, LISTED, LimitMode, OBJECTS_IN_MEMORY,
    REQUEST_BUDGET, TTL_WORKERS,
};
use xtask::conformance::{
    ApiRequest, E2eRequest, InteropRequest, KubectlRequest, RandomObjects, RandomSchemas,
    RandomScripts, RestoreRequest, SuiteRequest,
};
use xtask::faults::FaultsRequest;
use xtask::probe::ProbeRequest;
use xtask::real::{Identity, Options, Role};

/// Developer tools of caretaker.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub(crate) struct XtaskArgs {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// A real Kubernetes control plane to check everything against
    #[command(subcommand)]
    Real(RealCommand),
    /// The same cases with ours and with the real one
    #[command(subcommand)]
    Conformance(Conformance),
    /// Random ownership with `caretaker run` behind a faulty proxy, killed and restarted, against an independent model
    Faults(FaultsRequest),
    /// Measure ours and the Go programs in the same run
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Figures of the language: type names, banned words, empty doc comments, log calls, lines
    Prose(ProseArgs),
    /// Run the built binary and write the output that README.md and docs/demo.* show; needs kubectl
    Picture(PictureArgs),
}

#[derive(Debug, ArgGroup)]
pub(crate) struct PictureArgs {
    /// Build without optimising
    #[arg(long)]
    pub(crate) quick: bool,
}

#[derive(Debug, ArgGroup)]
pub(crate) struct ProseArgs {
    /// The checkout to measure [default: this one]
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// List the type names that are defined more than once, with their places
    #[arg(long)]
    pub(crate) names: bool,
    /// List the banned words with their places
    #[arg(long)]
    pub(crate) words: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RealCommand {
    /// Build kube-apiserver, kube-controller-manager and etcd into the cache directory, once
    Build,
    /// Start an instance and wait until it is ready
    Up(RealUp),
    /// End instances and remove all they left
    Down(RealDown),
    /// Show all instances
    Status,
    /// Show the end of an instance's logs
    Logs(RealLogs),
    /// Send one request and print the answer
    Probe(RealProbe),
    /// Write the data files of the API server's crate from a real server
    Facts(RealFacts),
}

#[derive(Debug, ArgGroup)]
pub(crate) struct RealUp {
    /// The name of the instance
    #[arg(long, default_value = "default")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Debug, ArgGroup)]
pub(crate) struct RealDown {
    /// The instance to end
    #[arg(default_value = "default")]
    pub(crate) name: String,
    /// End all instances
    #[arg(long, conflicts_with = "name")]
    pub(crate) all: bool,
}

#[derive(Debug, ArgGroup)]
pub(crate) struct RealLogs {
    /// The instance and the program: [NAME] [etcd|apiserver|controller-manager]
    #[arg(num_args = 0..=2, value_name = "NAME|PROGRAM")]
    pub(crate) of: Vec<String>,
    /// Lines to show of each log
    #[arg(short = 'n', long, default_value_t = 50)]
    pub(crate) lines: usize,
}

#[derive(Debug, ArgGroup)]
pub(crate) struct RealProbe {
    /// The instance to ask [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub(crate) to: Option<String>,
    /// The identity of the request
    #[arg(long = "as", value_name = "IDENTITY", default_value = "admin")]
    pub(crate) identity: Identity,
    #[command(flatten)]
    pub(crate) request: ProbeRequest,
}

#[derive(Debug, ArgGroup)]
pub(crate) struct RealFacts {
    /// Ask this instance instead of a new one
    #[arg(long, value_name = "NAME")]
    pub(crate) from: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Conformance {
    /// Requests, watches, conflicts and deletes, as any client sees them
    Api(ApiRequest),
    /// Ownership, cascades and orphans on a real server, with `caretaker run` as its only collector
    Gc(SuiteRequest),
    /// Pods that no other controller removes, on a real server, with `caretaker run` as its only Pod GC and collector
    Podgc(SuiteRequest),
    /// CronJobs on a real server, with `caretaker run` as its only CronJob and TTL controller and collector
    Cron(SuiteRequest),
    /// The TTL of finished Jobs on a real server, with `caretaker run` as its only TTL controller and collector
    Ttl(SuiteRequest),
    /// Simulated Pods, Deployments and Jobs on a real server, with our actors and `caretaker run` as its only collector
    Workloads(SuiteRequest),
    /// Random scripts on a real server, once with the Go collector and once with ours: the same objects are left
    GcRandom(RandomScripts),
    /// Restores of etcd from a snapshot, with raised revisions and without, while `caretaker run` keeps running
    Restore(RestoreRequest),
    /// Upstream's e2e specs on `caretaker up`, or on a real server with `caretaker run` in place of its controllers
    E2e(E2eRequest),
    /// Clients that others wrote, with `caretaker up`: Go controllers, client-go, controller-runtime, helm, Python, kopf, JavaScript, Rust
    Interop(InteropRequest),
    /// Command lines of kubectl on `caretaker up` and on a real server with the same controllers: the same output
    Kubectl(KubectlRequest),
    /// Upstream's samples of the built-in kinds: protobuf to JSON and back, byte for byte
    Protobuf,
    /// Random schemas and objects on the embedded and on a real server: the same verdicts and the same objects
    Schema(RandomSchemas),
    /// Built-in objects with random changes on the embedded and on a real server: the same verdicts and causes
    Validation(RandomObjects),
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Time to ready, memory, creates, lists and watches of the API server
    Apiserver(BenchApiserver),
    /// Cascades, and a start with many objects, of the garbage collectors on real servers; takes about 25 minutes
    Gc(BenchGc),
    /// Lateness of the Jobs of CronJobs in one minute, with the CronJob controllers on real servers; takes about 25 minutes
    Cron(BenchCron),
    /// Rate of deletes of Pods that terminated or lost their Node, with Pod GC on real servers; takes about 15 minutes
    Podgc(BenchPodgc),
    /// Lateness of the deletes of finished Jobs, with the TTL controllers on real servers; takes about 20 minutes
    Ttl(BenchTtl),
    /// Memory for each object in our collector's graph, in one process
    GcMemory(BenchGcMemory),
}

#[derive(Debug, ArgGroup)]
pub(crate) struct BenchApiserver {
    /// The largest number of objects in each server
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(u32).range(LISTED as i64..))]
    pub(crate) objects: u32,
}

#[derive(Debug, ArgGroup)]
pub(crate) struct BenchGc {
    /// Only these workloads, comma separated
    #[arg(long, value_delimiter = ',')]
    pub(crate) workload: Vec<GcWorkload>,
    /// Only these modes, comma separated
    #[arg(long, value_delimiter = ',')]
    pub(crate) mode: Vec<LimitMode>,
    /// Objects in every case [default: 1000 at defaults, 50000 at a start, else 5000]
    #[arg(long, value_parser = value_parser!(u32).range(1..))]
    pub(crate) objects: Option<u32>,
    /// Requests in flight where only workers limit, comma separated; flat runs with all numbers, the others with the largest
    #[arg(long, value_delimiter = ',', default_values_t = GC_WORKERS, value_parser = value_parser!(u32).range(1..))]
    pub(crate) workers: Vec<u32>,
    /// Requests per second where the budget is equal
    #[arg(long, default_value_t = REQUEST_BUDGET, value_parser = value_parser!(u32).range(2..))]
    pub(crate) budget: u32,
    #[command(flatten)]
    pub(crate) run: BenchRun,
}

#[derive(Debug, ArgGroup)]
pub(crate) struct BenchCron {
    /// CronJobs in every case [default: 500 at defaults, else 2000]
    #[arg(long, value_parser = value_parser!(u32).range(1..))]
    pub(crate) cron_jobs: Option<u32>,
    /// Requests in flight where only workers limit
    #[arg(long, default_value_t = CRON_WORKERS, value_parser = value_parser!(u32).range(1..))]
    pub(crate) workers: u32,
    #[command(flatten)]
    pub(crate) run: BenchRun,
}

#[derive(Debug, ArgGroup)]
pub(crate) struct BenchPodgc {
    /// Pods in every case [default: 1000 or 5000]
    #[arg(long, value_parser = value_parser!(u32).range(1..))]
    pub(crate) pods: Option<u32>,
    #[command(flatten)]
    pub(crate) run: BenchRun,
}

#[derive(Debug, ArgGroup)]
pub(crate) struct BenchTtl {
    /// Jobs in every burst [default: 1000 at defaults, else 5000]
    #[arg(long, value_parser = value_parser!(u32).range(1..))]
    pub(crate) jobs: Option<u32>,
    /// Requests in flight where only workers limit
    #[arg(long, default_value_t = TTL_WORKERS, value_parser = value_parser!(u32).range(1..))]
    pub(crate) workers: u32,
    #[command(flatten)]
    pub(crate) run: BenchRun,
}

#[derive(Debug, ArgGroup)]
pub(crate) struct BenchGcMemory {
    /// Objects in the graph
    #[arg(long, default_value_t = OBJECTS_IN_MEMORY, value_parser = value_parser!(u32).range(1..))]
    pub(crate) objects: u32,
    /// Build the driver without optimising: to try the harness, not for figures
    #[arg(long)]
    pub(crate) quick: bool,
}

// === impl RealLogs ===

impl RealLogs {
    /// The named instance and program. The word for a program is never the name of an instance.
    pub(crate) fn target(&self) -> Result<(Option<&str>, Option<Role>)> {
        let role = |word: &str| Role::from_str(word, false).ok();
        Ok(match self.of.as_slice() {
            [] => (None, None),
            [only] => role(only).map_or((Some(only.as_str()), None), |role| (None, Some(role))),
            [name, program, ..] => {
                let refusal =
                    || format!("{program:?} is none of etcd, apiserver, controller-manager");
                (
                    Some(name.as_str()),
                    Some(role(program).with_context(refusal)?),
                )
            }
        })
    }
}

/// Prints the error of the command line. Usage errors exit with 1.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    // Without a terminal the message is lost.
    let _ = error.print();
    ExitCode::from(u8::from(error.use_stderr()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<XtaskArgs, clap::Error> {
        XtaskArgs::try_parse_from(
            std::iter::once("cargo xtask").chain(line.split_ascii_whitespace()),
        )
    }

    #[test]
    fn wrong_arguments_are_refused_with_what_is_wrong() {
        let table = [
            ("", "Usage"),
            ("real", "Usage"),
            ("real uo", "unrecognized subcommand"),
            ("real up extra", "unexpected argument"),
            ("real up -- --kube-api-qps=50", "--controllers <LIST>"),
            ("real up --name", "a value is required"),
            ("real down a --all", "cannot be used with"),
            ("real logs a b c", "unexpected"),
            ("real logs -n many", "invalid value"),
            ("real probe GET", "<PATH>"),
            ("real probe --as root GET /", "invalid value"),
            ("real probe --for 0 GET /", "0"),
            ("real facts --from", "a value is required"),
            ("conformance", "Usage"),
            ("conformance cg", "unrecognized subcommand"),
            ("conformance api --only", "a value is required"),
            ("conformance api --only a --record", "cannot be used with"),
            ("conformance gc --record", "unexpected argument"),
            ("conformance gc --peer ours", "unexpected argument"),
            ("conformance gc-random --seeds 0", "0"),
            ("conformance gc-random --seed all", "invalid value"),
            ("faults --seeds 0", "0"),
            ("faults --server other", "invalid value"),
            ("bench", "Usage"),
            ("bench api", "unrecognized subcommand"),
            ("bench apiserver --objects 9999", "9999 is not in 10000.."),
            ("bench apiserver --objects many", "invalid value"),
            ("bench gc --workload flat,round", "invalid value"),
            ("bench gc --mode fair", "invalid value"),
            ("bench gc --objects 0", "0"),
            ("bench gc --workers 20,0", "0"),
            ("bench gc --legs ABC", "'C'"),
            ("bench gc-memory --objects 0", "0"),
        ];
        for (line, sentence) in table {
            let error = parse(line).unwrap_err();
            assert!(error.use_stderr() || sentence == "Usage", "{line:?}");
            assert!(error.to_string().contains(sentence), "{line:?}: {error}");
        }
    }

    #[test]
    fn flags_behind_two_dashes_go_to_the_controller_manager() {
        let args = parse(
            "real up --controllers a,b --apiserver-flag=--v=4 --apiserver-flag --x=y -- --kube-api-qps=50 -v2",
        );
        let Command::Real(RealCommand::Up(up)) = args.unwrap().command else {
            panic!("not up")
        };
        assert_eq!(up.name, "default");
        assert_eq!(up.options.controllers.as_deref(), Some("a,b"));
        assert_eq!(up.options.apiserver_flags, ["--v=4", "--x=y"]);
        assert_eq!(
            up.options.controller_manager_flags,
            ["--kube-api-qps=50", "-v2"]
        );
    }

    #[test]
    fn a_benchmark_of_collectors_takes_lists_and_has_everything_by_default() {
        let gc = |line: &str| match parse(line).unwrap().command {
            Command::Bench(BenchCommand::Gc(gc)) => gc,
            other => panic!("{other:?}"),
        };
        let all = gc("bench gc");
        assert!(all.workload.is_empty() && all.mode.is_empty());
        assert_eq!(all.workers, GC_WORKERS);
        let some = gc("bench gc --workload flat,start --mode unlimited --workers 5,7 --legs AB");
        assert_eq!(some.workload, [GcWorkload::Flat, GcWorkload::Start]);
        assert_eq!(
            (some.mode, some.workers),
            (vec![LimitMode::Unlimited], vec![5, 7])
        );
        assert_eq!(some.run.legs, "AB".parse().unwrap());
    }

    #[test]
    fn logs_understand_name_and_program_in_either_absence() {
        let table = [
            ("real logs", (None, None)),
            ("real logs a", (Some("a"), None)),
            ("real logs etcd", (None, Some(Role::Etcd))),
            (
                "real logs a controller-manager",
                (Some("a"), Some(Role::ControllerManager)),
            ),
        ];
        for (line, target) in table {
            let Command::Real(RealCommand::Logs(logs)) = parse(line).unwrap().command else {
                panic!("not logs")
            };
            assert_eq!(logs.target().unwrap(), target, "{line}");
        }
        let Command::Real(RealCommand::Logs(logs)) = parse("real logs a b").unwrap().command else {
            panic!("not logs")
        };
        assert!(logs.target().is_err());
    }
}
