//! The stand of a leg: a new server, the program under test on it, and the cost of a phase for each process.
//!
//! A phase is the time that is measured: a leg begins it, runs the driver and ends it; the stand records the difference
//! of the two moments, the same for every benchmark of a controller. The driver is an administrator, exempt from
//! Priority and Fairness; the program under test is not.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

use super::driver::LoadDriver;
use super::peers::{BenchPrograms, BenchSide, BenchSubject, ProgramUnderTest, SubjectSettings};
use super::requests::RequestCounts;
use super::run::settle;
use super::sampling::{self, MachineTime};
use super::{BenchFigure, FigureUnit};
use crate::http::HttpClient;
use crate::real::{Identity, Instance, Options, Role};

/// Time of a program for its work after it is ready.
pub(super) const SETTLE: Duration = Duration::from_secs(2);
/// Interval of looks at the request counters at the end of a phase.
const AFTERMATH: Duration = Duration::from_secs(1);
/// Looks until the phase ends anyway: a program that still sends requests is retrying, and the figures show it.
const AFTERMATH_MAX: u32 = 60;

/// Names of figures that are read again, for verdicts and notes.
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
    driver: &'a LoadDriver,
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

/// The work of a phase, as the driver reports it.
pub(super) struct PhaseWork<'a> {
    /// The number of objects that were handled.
    pub(super) count: usize,
    /// The word for one of them in figures.
    pub(super) each: &'static str,
    pub(super) secs: f64,
    /// The kinds on which only the program under test and the driver act.
    pub(super) kinds: &'a [&'a str],
    /// The driver's requests on these, by verb.
    pub(super) own_requests: &'a BTreeMap<String, f64>,
    /// The driver's processor time in the phase.
    pub(super) driver_secs: f64,
    /// The driver's processor time for making the objects, in the same phase.
    pub(super) making_secs: f64,
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

/// The name of the figure of requests per object.
pub(super) fn requests_per(each: &str) -> String {
    format!("requests per {each}")
}

// === impl BenchStand ===

impl<'a> BenchStand<'a> {
    /// Starts a new server.
    pub(super) fn new(
        programs: &'a BenchPrograms,
        driver: &'a LoadDriver,
        side: BenchSide,
    ) -> Result<Self> {
        let name = format!("bench-{}", std::process::id());
        let server = Instance::start(&name, &Options::default())?;
        let client = server.client(Identity::Admin)?;
        Ok(Self {
            programs,
            driver,
            side,
            server,
            client,
            figures: Vec::new(),
        })
    }

    /// Starts the program under test and waits until it is ready.
    pub(super) fn start(
        &self,
        subject: &BenchSubject,
        settings: SubjectSettings,
    ) -> Result<ProgramUnderTest> {
        let Self { programs, side, .. } = self;
        programs.start(*side, subject, settings, &self.server)
    }

    /// Runs the driver as an administrator.
    pub(super) fn drive<T: DeserializeOwned>(&self, args: &str) -> Result<T> {
        self.drive_as(Identity::Admin, args)
    }

    /// Runs the driver with an identity.
    pub(super) fn drive_as<T: DeserializeOwned>(&self, who: Identity, args: &str) -> Result<T> {
        let kubeconfig = self.server.kubeconfig(who);
        self.driver.drive(self.side.word(), &kubeconfig, args)
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
        done: &PhaseWork,
        program: &ProgramUnderTest,
    ) -> Result<()> {
        let mut requests = RequestCounts::of(&self.client)?;
        for _ in 0..AFTERMATH_MAX {
            settle(AFTERMATH)?;
            let before = std::mem::replace(&mut requests, RequestCounts::of(&self.client)?);
            let more = requests.since(&before);
            if more.on(done.kinds, &BTreeMap::new()).is_empty() {
                break;
            }
        }
        let after = self.moment(Some(program))?;
        self.note_requests(&requests.since(&phase.requests), done);
        self.note_cost(&phase.before, &after, done);
        self.figure(STEADY_BYTES, program.resident_bytes()?, FigureUnit::Bytes);
        self.figure(PEAK_BYTES, program.peak_bytes()?, FigureUnit::Bytes);
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
            program_secs: program.map_or(Ok(0.0), ProgramUnderTest::cpu_secs)?,
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
        self.figure(STEAL, steal, FigureUnit::Busy);
        let known = after.known_secs() - before.known_secs() + driver_secs;
        let others = (machine.busy_secs - known).max(0.0);
        let secs = (after.at - before.at).as_secs_f64();
        self.figure(OTHERS, others / secs, FigureUnit::Busy);
    }

    /// Records one figure.
    pub(super) fn figure(&mut self, what: impl Into<String>, value: f64, unit: FigureUnit) {
        self.figures.push(BenchFigure::new(what, value, unit));
    }

    fn note_requests(&mut self, requests: &RequestCounts, done: &PhaseWork) {
        let count = done.count as f64;
        let verbs = requests.on(done.kinds, done.own_requests);
        let all: f64 = verbs.values().sum();
        self.figure(requests_per(done.each), all / count, FigureUnit::Count);
        for (verb, number) in verbs {
            self.figure(format!("  {verb}"), number / count, FigureUnit::Count);
        }
        self.figure(REQUEST_RATE, all / done.secs, FigureUnit::PerSecond);
        let errors = requests.errors_on(done.kinds);
        self.figure("requests answered with an error", errors, FigureUnit::Count);
        let elsewhere = requests.elsewhere(done.kinds);
        self.figure("requests of all others", elsewhere, FigureUnit::Count);
    }

    fn note_cost(&mut self, before: &UsageMoment, after: &UsageMoment, done: &PhaseWork) {
        let shares = [
            (
                "controller's CPU time each",
                after.program_secs - before.program_secs,
            ),
            (SERVER_CPU, after.apiserver_secs - before.apiserver_secs),
            ("etcd's CPU time each", after.etcd_secs - before.etcd_secs),
        ];
        for (what, secs) in shares {
            self.figure(what, secs / done.count as f64, FigureUnit::Seconds);
        }
        self.figure(DRIVER_BUSY, done.driver_secs / done.secs, FigureUnit::Busy);
        self.note_disturbance(before, after, done.driver_secs + done.making_secs);
    }
}

// === impl UsageMoment ===

impl UsageMoment {
    fn known_secs(&self) -> f64 {
        self.program_secs + self.apiserver_secs + self.etcd_secs
    }
}
