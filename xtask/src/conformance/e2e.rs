//! Upstream's own e2e specs: on `caretaker up`, and on a real server with `caretaker run` in place of its controllers.
//!
//! The specs come from the program itself (`xtask/real/e2e`), which lists them in a dry run. `specs` chooses: on `up` the
//! conformance specs of the groups that need no container, without those that a row of `xtask/data/e2e/skipped.txt` names
//! with its reason; on the real server every spec about the controllers that ours replace.

mod specs;

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use super::kubectl::ComparedServer;
use super::{kept_file, suites};
use crate::cargo::{Binary, Running, workspace};
use crate::real::{E2E, Identity, Instance, KUBECTL, Options};
use specs::{SkipRows, SpecReport, SpecState};

/// Longest time for all specs of one process.
const TIMEOUT: &str = "60m";

/// The controllers of kube-controller-manager beside ours, on the real server.
const OTHER_CONTROLLERS: &str = "clusterrole-aggregation-controller,daemonset-controller,deployment-controller,\
disruption-controller,endpoints-controller,endpointslice-controller,job-controller,namespace-controller,\
replicaset-controller,replicationcontroller-controller,resourcequota-controller,\
root-ca-certificate-publisher-controller,serviceaccount-controller,statefulset-controller";

/// Ours in their place.
const OUR_CONTROLLERS: &str = "garbage-collector-controller,cronjob-controller,pod-garbage-collector-controller,\
ttl-after-finished-controller";

/// A run of upstream's specs.
#[derive(Debug, clap::Args)]
pub struct E2eRequest {
    /// Only specs whose name contains this
    #[arg(long, value_name = "TEXT")]
    focus: Option<String>,
    /// The server of the specs
    #[arg(long, value_enum, default_value = "up")]
    server: E2eServer,
    /// Processes at the same time, each with a share of the specs
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: usize,
    /// Choose by name only: also specs of other groups, and those with a row in the list of skipped ones
    #[arg(long, requires = "focus")]
    all: bool,
    /// Show the chosen specs and run none
    #[arg(long)]
    list: bool,
}

/// The server that the specs run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum E2eServer {
    /// `caretaker up` with simulated workloads
    Up,
    /// The real server, with `caretaker run` as its collector, CronJob, TTL and Pod GC controller
    Real,
}

/// The outcome of the chosen specs.
#[derive(Debug)]
pub struct E2eReport {
    ran: Vec<SpecReport>,
    /// Specs with a row in the list of skipped ones.
    skipped: usize,
    /// Rows that name no spec.
    strays: Vec<String>,
    took: Duration,
}

/// A server, and the programs beside it.
#[derive(Debug)]
struct E2eTarget {
    kubeconfig: PathBuf,
    // The guests of a server end before it: fields are dropped in this order.
    _guests: Vec<Running>,
    _server: Option<ComparedServer>,
    instance: Option<Instance>,
}

/// Chooses the specs and runs them.
pub fn e2e(request: &E2eRequest) -> Result<E2eReport> {
    let program = E2E.ensure()?;
    let rows = workspace().join("xtask/data/e2e/skipped.txt");
    let rows = fs::read_to_string(&rows)
        .with_context(|| format!("cannot read {}", rows.display()))
        .and_then(|text| SkipRows::parse(&text))?;
    let all = list(&program)?;
    let strays = rows.strays(&all);
    let (mut chosen, mut skipped) = (Vec::new(), 0);
    for name in all {
        let is_meant = match request.server {
            _ if request.all => true,
            E2eServer::Up => specs::is_for_up(&name),
            E2eServer::Real => specs::is_about_our_controllers(&name),
        };
        let focus = request.focus.as_deref().unwrap_or_default();
        let is_chosen = is_meant && name.contains(focus);
        // The rows are about `caretaker up`.
        let has_row = request.server == E2eServer::Up && rows.reason(&name).is_some();
        let is_skipped = has_row && !request.all;
        skipped += usize::from(is_chosen && is_skipped);
        if is_chosen && !is_skipped {
            chosen.push(name);
        }
    }
    if chosen.is_empty() {
        bail!("no spec of upstream's suites is chosen");
    }
    let started = Instant::now();
    let ran = match request.list {
        true => chosen.into_iter().map(SpecReport::listed).collect(),
        false => run(&program, request, &chosen)?,
    };
    Ok(E2eReport {
        ran,
        skipped,
        strays,
        took: started.elapsed(),
    })
}

/// The names of all specs of the program.
fn list(program: &Path) -> Result<Vec<String>> {
    let report = kept_file("e2e-list.json")?;
    let output = Command::new(program)
        .arg("-ginkgo.dry-run")
        .arg(format!("-ginkgo.json-report={}", report.display()))
        .arg("-provider=local")
        .env("KUBECONFIG", "/dev/null")
        .stdin(Stdio::null())
        .output()
        .context("cannot start the e2e program")?;
    let reports = specs::read(&report).with_context(|| {
        let error = String::from_utf8_lossy(&output.stderr);
        format!("the e2e program lists no specs: {error}")
    })?;
    Ok(reports.into_iter().map(|report| report.name).collect())
}

/// Runs the specs in several processes.
fn run(program: &Path, request: &E2eRequest, chosen: &[String]) -> Result<Vec<SpecReport>> {
    let target = match request.server {
        E2eServer::Up => E2eTarget::up()?,
        E2eServer::Real => E2eTarget::real()?,
    };
    let jobs = request.jobs.clamp(1, chosen.len());
    eprintln!(
        "running {} specs in {jobs} processes; the output is in target/conformance/e2e-*.log",
        chosen.len()
    );
    let mut processes = Vec::new();
    for job in 0..jobs {
        let share: Vec<&str> = chosen.iter().map(String::as_str).collect();
        let share: Vec<&str> = share.into_iter().skip(job).step_by(jobs).collect();
        let report = kept_file(&format!("e2e-{job}.json"))?;
        // A process that fails early leaves no report.
        let _ = fs::remove_file(&report);
        let process = start(program, &target, job, &share, &report)?;
        processes.push((process, report, share));
    }
    let mut ran = Vec::new();
    for (mut process, report, share) in processes {
        process.wait()?;
        let reports = specs::read(&report).with_context(|| {
            format!("no report; see {}", report.with_extension("log").display())
        })?;
        ran.extend(
            reports
                .into_iter()
                .filter(|spec| share.contains(&spec.name.as_str())),
        );
    }
    target.stop()?;
    ran.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(ran)
}

fn start(
    program: &Path,
    target: &E2eTarget,
    job: usize,
    share: &[&str],
    report: &Path,
) -> Result<Running> {
    let log = report.with_extension("log");
    let log = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(program);
    command
        .arg(format!("-ginkgo.focus={}", specs::focus(share)))
        .arg(format!("-ginkgo.json-report={}", report.display()))
        .arg(format!("-ginkgo.timeout={TIMEOUT}"))
        .arg("-ginkgo.no-color")
        .arg("-ginkgo.v")
        .arg(format!("-ginkgo.seed={}", job + 1))
        .arg(format!("-kubeconfig={}", target.kubeconfig.display()))
        .arg(format!("-kubectl-path={}", KUBECTL.ensure()?.display()))
        .args(["-provider=local", "-num-nodes=2", "-test.timeout=0"])
        .args(["-dump-logs-on-failure=false", "-disable-log-dump"])
        .stdout(log.try_clone().context("cannot share a file")?)
        .stderr(log);
    Running::start(&mut command)
}

// === impl E2eTarget ===

impl E2eTarget {
    fn up() -> Result<Self> {
        let server = ComparedServer::up(&["--simulate-workloads", "--nodes=2"])?;
        let kubeconfig = kept_file("e2e.kubeconfig")?;
        server.write_kubeconfig(&kubeconfig, "default")?;
        Ok(Self {
            kubeconfig,
            _guests: Vec::new(),
            _server: Some(server),
            instance: None,
        })
    }

    fn real() -> Result<Self> {
        let (suites, caretaker) = (suites()?, Binary::caretaker("dev").build()?);
        let rates = ["--kube-api-qps=200", "--kube-api-burst=400"];
        let options = Options {
            controllers: Some(OTHER_CONTROLLERS.to_owned()),
            apiserver_flags: vec![super::kubectl::ADMISSION.to_owned()],
            controller_manager_flags: rates.map(str::to_owned).to_vec(),
        };
        let instance = Instance::start(&format!("e2e-{}", std::process::id()), &options)?;
        let kubeconfig = instance.kubeconfig(Identity::Admin);
        let log = kept_file("e2e-run.log")?;
        let log = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let nodes = Running::start(
            Command::new(suites)
                .arg("nodes")
                .arg("--kubeconfig")
                .arg(&kubeconfig),
        )?;
        let run = Running::start(
            Command::new(caretaker)
                .args([
                    "run",
                    "--take-over",
                    "--leader-elect=false",
                    "--secure-port=0",
                ])
                .arg(format!("--controllers={OUR_CONTROLLERS}"))
                .arg("--terminated-pod-gc-threshold=100")
                .arg("--kubeconfig")
                .arg(&kubeconfig)
                .stderr(log),
        )?;
        Ok(Self {
            kubeconfig,
            _guests: vec![run, nodes],
            _server: None,
            instance: Some(instance),
        })
    }

    fn stop(self) -> Result<()> {
        drop(self._guests);
        self.instance.map_or(Ok(()), Instance::stop)
    }
}

// === impl E2eReport ===

impl E2eReport {
    /// The specs that did not pass, and the rows that name no spec.
    pub fn failed(&self) -> usize {
        self.count(SpecState::Failed) + self.strays.len()
    }

    fn count(&self, state: SpecState) -> usize {
        self.ran.iter().filter(|spec| spec.state == state).count()
    }
}

impl fmt::Display for E2eReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for spec in &self.ran {
            writeln!(f, "{spec}")?;
        }
        for row in &self.strays {
            writeln!(f, "xtask/data/e2e/skipped.txt: no spec contains {row:?}")?;
        }
        let [passed, failed, itself] = [SpecState::Passed, SpecState::Failed, SpecState::Skipped]
            .map(|state| self.count(state));
        let (rows, secs) = (self.skipped, self.took.as_secs_f64());
        writeln!(
            f,
            "{passed} passed, {failed} failed, {itself} skipped by themselves, {rows} by a row; {secs:.0} s"
        )
    }
}
