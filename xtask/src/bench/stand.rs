//! The stand of a leg: a new server, the program under test on it, and the cost of a phase for each process.
//!
//! A phase is the time that is measured: a leg begins it, runs the driver and ends it; the stand records the difference
//! of the two moments, the same for every benchmark of a controller. The driver is an administrator, exempt from
//! Priority and Fairness; the program under test is not.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::cases::BenchCase;
use super::peers::{BenchPrograms, BenchSide, ProgramUnderTest};
use super::requests::RequestCounts;
use super::run::settle;
use super::sampling::{self, MachineTime};
use super::{BenchFigure, FigureUnit};
use crate::http::HttpClient;
use crate::real::{Identity, Instance, Options, Role};

/// Interval of looks at the request counters at the end of a phase.
const AFTERMATH: Duration = Duration::from_secs(1);
/// Looks until the phase ends anyway: a program that still sends requests is retrying, and the figures show it.
const AFTERMATH_MAX: u32 = 60;

/// Names of figures that are read again, for verdicts and notes.
pub(super) const REQUESTS_PER_OBJECT: &str = "requests per object";
pub(super) const REQUEST_RATE: &str = "requests/s";
pub(super) const SERVER_CPU: &str = "API server's CPU time each";
pub(super) const STEADY_BYTES: &str = "resident memory, steady";
pub(super) const PEAK_BYTES: &str = "resident memory, peak";
pub(super) const STEAL: &str = "stolen by the host";
pub(super) const OTHERS: &str = "taken by other programs";
pub(super) const DRIVER_BUSY: &str = "driver busy";

/// A server, and the side that is measured on it.
pub(super) struct BenchStand<'a> {
    programs: &'a BenchPrograms,
    side: BenchSide,
    server: Instance,
    client: HttpClient,
    figures: Vec<BenchFigure>,
}

/// The counters at the beginning of a phase.
pub(super) struct BenchPhase {
    requests: RequestCounts,
    before: UsageMoment,
}

/// The objects that are handled in a phase.
pub(super) struct PhaseSubject {
    /// The word for one of them in figures.
    pub(super) each: &'static str,
    /// The figure of how many are handled per second.
    pub(super) rate: &'static str,
    /// The kinds on which only the program under test and the driver act.
    pub(super) kinds: &'static [&'static str],
}

/// The output of the commands of the driver that wait for the program under test.
#[derive(Debug, Deserialize)]
pub(super) struct PhaseOutput {
    /// The number of objects that were handled.
    pub(super) count: usize,
    pub(super) secs: f64,
    pub(super) first_secs: Option<f64>,
    pub(super) p50_secs: Option<f64>,
    pub(super) p99_secs: Option<f64>,
    pub(super) max_secs: Option<f64>,
    pub(super) early: Option<f64>,
    /// Only of controllers that make objects.
    pub(super) duplicates: Option<f64>,
    /// The driver's requests on the kinds of the phase, by verb.
    own_requests: BTreeMap<String, f64>,
    /// The driver's processor time in the phase.
    cpu_secs: f64,
    /// The driver's processor time for making the objects, if that is in the same phase.
    #[serde(default)]
    making_secs: f64,
}

/// Processor time used up to a moment, by process.
pub(super) struct UsageMoment {
    at: Instant,
    /// Zero before the program was started.
    pub(super) program_secs: f64,
    apiserver_secs: f64,
    etcd_secs: f64,
    machine: MachineTime,
}

// === impl BenchStand ===

impl<'a> BenchStand<'a> {
    /// Starts a new server.
    pub(super) fn new(programs: &'a BenchPrograms, side: BenchSide) -> Result<Self> {
        let name = format!("bench-{}", std::process::id());
        let server = Instance::start(&name, &Options::default())?;
        Ok(Self {
            programs,
            side,
            client: server.client(Identity::Admin)?,
            server,
            figures: Vec::new(),
        })
    }

    /// Starts the program under test and waits until it is ready.
    pub(super) fn start(&self, case: &BenchCase) -> Result<ProgramUnderTest> {
        let (subject, settings) = (case.row.subject, case.settings);
        self.programs
            .start(self.side, subject, settings, &self.server)
    }

    /// Runs the driver as an administrator.
    pub(super) fn drive<T: DeserializeOwned>(&self, args: &str) -> Result<T> {
        self.drive_as(Identity::Admin, args)
    }

    /// Runs the driver with an identity.
    pub(super) fn drive_as<T: DeserializeOwned>(&self, who: Identity, args: &str) -> Result<T> {
        let kubeconfig = self.server.kubeconfig(who);
        let driver = &self.programs.driver;
        driver.drive(self.side.word(), &kubeconfig, args)
    }

    /// Begins a phase. The program under test may be started in it.
    pub(super) fn begin(&self, program: Option<&ProgramUnderTest>) -> Result<BenchPhase> {
        Ok(BenchPhase {
            requests: RequestCounts::of(&self.client)?,
            before: self.moment(program)?,
        })
    }

    /// Ends a phase when no more requests arrive, and records its cost.
    pub(super) fn end(
        &mut self,
        phase: &BenchPhase,
        subject: &PhaseSubject,
        done: &PhaseOutput,
        program: &ProgramUnderTest,
    ) -> Result<()> {
        let mut requests = RequestCounts::of(&self.client)?;
        for _ in 0..AFTERMATH_MAX {
            settle(AFTERMATH)?;
            let before = std::mem::replace(&mut requests, RequestCounts::of(&self.client)?);
            let more = requests.since(&before);
            if more.on(subject.kinds, &BTreeMap::new()).is_empty() {
                break;
            }
        }
        let after = self.moment(Some(program))?;
        self.note_requests(&requests.since(&phase.requests), subject, done);
        self.note_cost(&phase.before, &after, done);
        let steady = sampling::resident_bytes(program.pid())?;
        let peak = sampling::peak_bytes(program.pid())?;
        self.figures([
            (STEADY_BYTES, Some(steady), FigureUnit::Bytes),
            (PEAK_BYTES, Some(peak), FigureUnit::Bytes),
        ]);
        Ok(())
    }

    /// Ends the server and returns the figures.
    pub(super) fn close(self) -> Result<Vec<BenchFigure>> {
        self.server.stop()?;
        Ok(self.figures)
    }

    /// The processor time used so far.
    pub(super) fn moment(&self, program: Option<&ProgramUnderTest>) -> Result<UsageMoment> {
        let pids = self.server.pids();
        let cpu = |wanted| {
            let found = pids.iter().find(|(role, _)| *role == wanted);
            let (_, pid) = found.context("the server does not run this program")?;
            sampling::cpu_secs(*pid)
        };
        Ok(UsageMoment {
            at: Instant::now(),
            program_secs: program.map_or(Ok(0.0), |program| sampling::cpu_secs(program.pid()))?,
            apiserver_secs: cpu(Role::Apiserver)?,
            etcd_secs: cpu(Role::Etcd)?,
            machine: MachineTime::now()?,
        })
    }

    /// Records the share of the machine that the host and other programs took.
    pub(super) fn note_disturbance(
        &mut self,
        before: &UsageMoment,
        after: &UsageMoment,
        driver_secs: f64,
    ) {
        let machine = after.machine - before.machine;
        let steal = machine.steal_secs / machine.all_secs;
        let known = after.known_secs() - before.known_secs() + driver_secs;
        let others = (machine.busy_secs - known).max(0.0);
        let secs = (after.at - before.at).as_secs_f64();
        self.figures([
            (STEAL, Some(steal), FigureUnit::Busy),
            (OTHERS, Some(others / secs), FigureUnit::Busy),
        ]);
    }

    /// Records figures. One without a value was not measured.
    pub(super) fn figures<const N: usize>(
        &mut self,
        figures: [(&str, Option<f64>, FigureUnit); N],
    ) {
        let measured = figures.into_iter();
        self.figures.extend(
            measured.filter_map(|(what, value, unit)| Some(BenchFigure::new(what, value?, unit))),
        );
    }

    fn note_requests(
        &mut self,
        requests: &RequestCounts,
        PhaseSubject { each, kinds, .. }: &PhaseSubject,
        done: &PhaseOutput,
    ) {
        let count = done.count as f64;
        let verbs = requests.on(kinds, &done.own_requests);
        let all: f64 = verbs.values().sum();
        let per_object = format!("requests per {each}");
        self.figures([(&per_object, Some(all / count), FigureUnit::Count)]);
        for (verb, number) in verbs {
            let what = format!("  {verb}");
            self.figures([(&what, Some(number / count), FigureUnit::Count)]);
        }
        let errors = Some(requests.errors_on(kinds));
        let elsewhere = Some(requests.elsewhere(kinds));
        self.figures([
            (REQUEST_RATE, Some(all / done.secs), FigureUnit::PerSecond),
            ("requests answered with an error", errors, FigureUnit::Count),
            ("requests of all others", elsewhere, FigureUnit::Count),
        ]);
    }

    fn note_cost(&mut self, before: &UsageMoment, after: &UsageMoment, done: &PhaseOutput) {
        let each = |of: fn(&UsageMoment) -> f64| Some((of(after) - of(before)) / done.count as f64);
        let (own, apiserver, etcd) = (
            each(|moment| moment.program_secs),
            each(|moment| moment.apiserver_secs),
            each(|moment| moment.etcd_secs),
        );
        let busy = Some(done.cpu_secs / done.secs);
        self.figures([
            ("controller's CPU time each", own, FigureUnit::Seconds),
            (SERVER_CPU, apiserver, FigureUnit::Seconds),
            ("etcd's CPU time each", etcd, FigureUnit::Seconds),
            (DRIVER_BUSY, busy, FigureUnit::Busy),
        ]);
        self.note_disturbance(before, after, done.cpu_secs + done.making_secs);
    }
}

// === impl UsageMoment ===

impl UsageMoment {
    fn known_secs(&self) -> f64 {
        self.program_secs + self.apiserver_secs + self.etcd_secs
    }
}
