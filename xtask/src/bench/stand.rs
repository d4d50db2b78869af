//! Where a leg happens: a fresh server, the program under test on it, and what a phase cost everyone.
//!
//! A phase is the stretch that is measured: whoever measures begins it, has the driver do its work and ends it; the
//! difference of the two moments is noted here, the same for every benchmark of a controller. The driver is an
//! administrator, exempt from Priority and Fairness; the program under test is not.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

use super::driver::Driver;
use super::peers::{Programs, Settings, Side, Subject, UnderTest};
use super::requests::Requests;
use super::run::settle;
use super::sampling::{self, Machine};
use super::{Figure, Unit};
use crate::http::Client;
use crate::real::{Identity, Instance, Options, Role};

/// How long a program has for what it does after it is ready.
pub(super) const SETTLE: Duration = Duration::from_secs(2);
/// How often it is looked whether everyone has done what is left to do at the end of a phase.
const AFTERMATH: Duration = Duration::from_secs(1);
/// When that is given up: whoever still asks then is not finishing but retrying, and the figures show it.
const AFTERMATH_MAX: u32 = 60;

/// Names of figures that are read again, for verdicts and notes.
pub(super) const REQUEST_RATE: &str = "requests/s";
pub(super) const SERVER_CPU: &str = "API server's CPU time each";
pub(super) const STEADY_BYTES: &str = "resident memory, steady";
pub(super) const PEAK_BYTES: &str = "resident memory, peak";
pub(super) const STEAL: &str = "stolen by the host";
pub(super) const OTHERS: &str = "taken by other programs";
pub(super) const DRIVER_BUSY: &str = "driver busy";

/// A server, and who is measured on it.
pub(super) struct Stand<'a> {
    programs: &'a Programs,
    driver: &'a Driver,
    side: Side,
    server: Instance,
    client: Client,
    figures: Vec<Figure>,
}

/// A phase that has begun.
pub(super) struct Phase {
    requests: Requests,
    before: Moment,
}

/// What was done in a phase.
pub(super) struct Done<'a> {
    /// How many things were dealt with.
    pub(super) count: usize,
    /// What one of them is called.
    pub(super) each: &'static str,
    /// How long it took, in seconds.
    pub(super) secs: f64,
    /// The kinds on which nobody but the program under test and the driver acts.
    pub(super) kinds: &'a [&'a str],
    /// The driver's requests on these, by verb.
    pub(super) own_requests: &'a BTreeMap<String, f64>,
    /// The driver's processor time meanwhile, in seconds.
    pub(super) driver_secs: f64,
    /// The driver's processor time for what it made in the same phase before, in seconds.
    pub(super) making_secs: f64,
}

/// What everyone has used up to a moment.
pub(super) struct Moment {
    at: Instant,
    /// Nothing before it was started.
    pub(super) program_secs: f64,
    apiserver_secs: f64,
    etcd_secs: f64,
    machine: Machine,
}

/// The figure that says how much was asked of the server for one thing.
pub(super) fn requests_per(each: &str) -> String {
    format!("requests per {each}")
}

// === impl Stand ===

impl<'a> Stand<'a> {
    /// A fresh server.
    pub(super) fn new(programs: &'a Programs, driver: &'a Driver, side: Side) -> Result<Self> {
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
    pub(super) fn start(&self, subject: &Subject, settings: Settings) -> Result<UnderTest> {
        let Self { programs, side, .. } = self;
        programs.start(*side, subject, settings, &self.server)
    }

    /// Has the driver do something, as an administrator.
    pub(super) fn drive<T: DeserializeOwned>(&self, args: &str) -> Result<T> {
        self.drive_as(Identity::Admin, args)
    }

    /// Has the driver do something as somebody.
    pub(super) fn drive_as<T: DeserializeOwned>(&self, who: Identity, args: &str) -> Result<T> {
        let kubeconfig = self.server.kubeconfig(who);
        self.driver.drive(self.side.word(), &kubeconfig, args)
    }

    /// Begins a phase; the program under test may be started in it.
    pub(super) fn begin(&self, program: Option<&UnderTest>) -> Result<Phase> {
        Ok(Phase {
            requests: Requests::of(&self.client)?,
            before: self.moment(program)?,
        })
    }

    /// Ends a phase, when nobody asks for anything any more, and notes what it cost.
    pub(super) fn end(&mut self, phase: &Phase, done: &Done, program: &UnderTest) -> Result<()> {
        let mut requests = Requests::of(&self.client)?;
        for _ in 0..AFTERMATH_MAX {
            settle(AFTERMATH)?;
            let before = std::mem::replace(&mut requests, Requests::of(&self.client)?);
            let more = requests.since(&before);
            if more.on(done.kinds, &BTreeMap::new()).is_empty() {
                break;
            }
        }
        let after = self.moment(Some(program))?;
        self.note_requests(&requests.since(&phase.requests), done);
        self.note_cost(&phase.before, &after, done);
        self.figure(STEADY_BYTES, program.resident_bytes()?, Unit::Bytes);
        self.figure(PEAK_BYTES, program.peak_bytes()?, Unit::Bytes);
        Ok(())
    }

    /// Ends the server; what was measured on it.
    pub(super) fn close(self) -> Result<Vec<Figure>> {
        self.server.stop()?;
        Ok(self.figures)
    }

    /// What everyone has used so far.
    pub(super) fn moment(&self, program: Option<&UnderTest>) -> Result<Moment> {
        let pids = self.server.pids();
        let cpu = |wanted| {
            let found = pids.iter().find(|(role, _)| *role == wanted);
            let (_, pid) = found.context("the server has no such process")?;
            sampling::cpu_secs(*pid)
        };
        Ok(Moment {
            at: Instant::now(),
            program_secs: program.map_or(Ok(0.0), UnderTest::cpu_secs)?,
            apiserver_secs: cpu(Role::Apiserver)?,
            etcd_secs: cpu(Role::Etcd)?,
            machine: Machine::now()?,
        })
    }

    /// What the host and other programs took of the machine meanwhile.
    pub(super) fn note_disturbance(&mut self, before: &Moment, after: &Moment, driver_secs: f64) {
        let machine = after.machine - before.machine;
        let steal = machine.steal_secs / machine.all_secs;
        self.figure(STEAL, steal, Unit::Busy);
        let known = after.known_secs() - before.known_secs() + driver_secs;
        let others = (machine.busy_secs - known).max(0.0);
        let secs = (after.at - before.at).as_secs_f64();
        self.figure(OTHERS, others / secs, Unit::Busy);
    }

    /// Notes one number.
    pub(super) fn figure(&mut self, what: impl Into<String>, value: f64, unit: Unit) {
        self.figures.push(Figure::new(what, value, unit));
    }

    fn note_requests(&mut self, requests: &Requests, done: &Done) {
        let count = done.count as f64;
        let verbs = requests.on(done.kinds, done.own_requests);
        let all: f64 = verbs.values().sum();
        self.figure(requests_per(done.each), all / count, Unit::Count);
        for (verb, number) in verbs {
            self.figure(format!("  {verb}"), number / count, Unit::Count);
        }
        self.figure(REQUEST_RATE, all / done.secs, Unit::PerSecond);
        let errors = requests.errors_on(done.kinds);
        self.figure("requests answered with an error", errors, Unit::Count);
        let elsewhere = requests.elsewhere(done.kinds);
        self.figure("requests of all others", elsewhere, Unit::Count);
    }

    fn note_cost(&mut self, before: &Moment, after: &Moment, done: &Done) {
        let shares = [
            (
                "controller's CPU time each",
                after.program_secs - before.program_secs,
            ),
            (SERVER_CPU, after.apiserver_secs - before.apiserver_secs),
            ("etcd's CPU time each", after.etcd_secs - before.etcd_secs),
        ];
        for (what, secs) in shares {
            self.figure(what, secs / done.count as f64, Unit::Seconds);
        }
        self.figure(DRIVER_BUSY, done.driver_secs / done.secs, Unit::Busy);
        self.note_disturbance(before, after, done.driver_secs + done.making_secs);
    }
}

// === impl Moment ===

impl Moment {
    fn known_secs(&self) -> f64 {
        self.program_secs + self.apiserver_secs + self.etcd_secs
    }
}
