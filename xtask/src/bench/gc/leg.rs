//! One leg: a fresh server, one collector on it, one workload, and what that cost everyone.
//!
//! The objects are there before the collector starts, and it is given a moment after it said that it knows them, so that
//! a phase holds the cascade and nothing else. The driver is an administrator, exempt from Priority and Fairness; the
//! collector, and the plain client it is compared with, are not.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::super::driver::{Driver, Measured};
use super::super::peers::{GARBAGE_COLLECTOR, Programs, Side, UnderTest};
use super::super::requests::Requests;
use super::super::sampling::{self, Machine};
use super::super::{Figure, Unit};
use super::{Case, Mode, Workload, settle};
use crate::http::Client;
use crate::real::{Identity, Instance, Options, Role};

/// Where the family lives, and where the plain client's objects do.
const NAMESPACE: &str = "bench";
const PLAIN_NAMESPACE: &str = "plain";
/// The kinds on which nobody but the collector and the driver acts.
const KINDS: [&str; 2] = ["configmaps", "events"];
/// Clients that create the objects.
const PLANTERS: usize = 32;
/// How long a collector has for what it does after it is ready.
const SETTLE: Duration = Duration::from_secs(2);
/// How long everyone has for what is left to do after the last object, and the server to count a watch that ended.
const AFTERMATH: Duration = Duration::from_secs(1);
/// How long memory is left alone before it counts as steady; the Go runtime gives some back meanwhile.
const STEADY: Duration = Duration::from_secs(8);

/// Names of figures that are read again, for verdicts and notes.
pub(super) const RATE: &str = "objects/s";
pub(super) const PER_OBJECT: &str = "requests per object";
pub(super) const REQUEST_RATE: &str = "requests/s";
pub(super) const SERVER_CPU: &str = "API server's CPU time each";
pub(super) const PLAIN_RATE: &str = "plain client's deletes/s";
pub(super) const READY: &str = "start to complete graph";
pub(super) const EMPTY_BYTES: &str = "resident memory, empty cluster";
pub(super) const STEADY_BYTES: &str = "resident memory, steady";
pub(super) const PEAK_BYTES: &str = "resident memory, peak";
pub(super) const BYTES_PER_OBJECT: &str = "resident memory per object";
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

/// What everyone has used up to a moment.
struct Moment {
    at: Instant,
    /// Nothing before it was started.
    collector_secs: f64,
    apiserver_secs: f64,
    etcd_secs: f64,
    machine: Machine,
}

/// What `load gc-run` prints.
#[derive(Debug, Deserialize)]
struct Collected {
    count: usize,
    secs: f64,
    first_secs: f64,
    own_requests: BTreeMap<String, f64>,
    cpu_secs: f64,
}

// === impl Stand ===

impl<'a> Stand<'a> {
    /// A fresh server.
    pub(super) fn new(programs: &'a Programs, driver: &'a Driver, side: Side) -> Result<Self> {
        let name = format!("bench-gc-{}", std::process::id());
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

    /// Measures one case and ends the server.
    pub(super) fn measure(mut self, case: &Case) -> Result<Vec<Figure>> {
        match case.workload {
            Workload::Start => self.start(case)?,
            Workload::Flat if case.mode == Mode::Unlimited => {
                self.plain(case)?;
                self.cascade(case)?;
            }
            Workload::Flat | Workload::Chain | Workload::Foreground | Workload::Orphan => {
                self.cascade(case)?;
            }
        }
        self.server.stop()?;
        Ok(self.figures)
    }

    /// What a client achieves that only deletes, with as many requests under way as the collector may have.
    fn plain(&mut self, case: &Case) -> Result<()> {
        let clients = case.settings.workers.context("a number of workers")?;
        let many = |clients: usize| {
            let count = case.dependents();
            format!("{PLAIN_NAMESPACE} --clients {clients} --count {count}")
        };
        self.drive::<Measured>(Identity::Admin, &format!("create {}", many(PLANTERS)))?;
        let delete = format!("delete {}", many(clients as usize));
        let deleted: Measured = self.drive(Identity::Ordinary, &delete)?;
        self.figure(PLAIN_RATE, deleted.rate(), Unit::PerSecond);
        Ok(())
    }

    /// A cascade from the owners' deletes to its end.
    fn cascade(&mut self, case: &Case) -> Result<()> {
        self.plant(case)?;
        let collector = self.collector(case)?;
        settle(SETTLE)?;
        let requests = Requests::of(&self.client)?;
        let before = self.moment(Some(&collector))?;
        let (_, policy) = case.workload.shape_and_policy();
        let run = format!("gc-run {} --policy {policy}", kin(case));
        let collected: Collected = self.drive(Identity::Admin, &run)?;
        settle(AFTERMATH)?;
        let after = self.moment(Some(&collector))?;
        let requests = Requests::of(&self.client)?.since(&requests);
        self.note_speed(&collected, &requests);
        self.note_cost(&collected, &before, &after);
        let (steady, peak) = (collector.resident_bytes()?, collector.peak_bytes()?);
        self.figure(STEADY_BYTES, steady, Unit::Bytes);
        self.figure(PEAK_BYTES, peak, Unit::Bytes);
        Ok(())
    }

    /// A start on an empty cluster, and one beside many objects.
    fn start(&mut self, case: &Case) -> Result<()> {
        let collector = self.collector(case)?;
        settle(STEADY)?;
        let empty = collector.resident_bytes()?;
        let ready_empty = collector.ready_after.as_secs_f64();
        drop(collector);
        self.figure(EMPTY_BYTES, empty, Unit::Bytes);
        self.figure(
            format!("{READY}, empty cluster"),
            ready_empty,
            Unit::Seconds,
        );
        self.plant(case)?;
        settle(SETTLE)?;
        let before = self.moment(None)?;
        let collector = self.collector(case)?;
        let after = self.moment(Some(&collector))?;
        settle(STEADY)?;
        let (steady, peak) = (collector.resident_bytes()?, collector.peak_bytes()?);
        let ready = collector.ready_after.as_secs_f64();
        self.figure(READY, ready, Unit::Seconds);
        let (then, now) = (after.collector_secs, collector.cpu_secs()?);
        self.figure("collector's CPU time until then", then, Unit::Seconds);
        self.figure("collector's CPU time when steady", now, Unit::Seconds);
        self.figure(STEADY_BYTES, steady, Unit::Bytes);
        self.figure(PEAK_BYTES, peak, Unit::Bytes);
        let (owners, _) = case.family();
        let each = (steady - empty) / (case.dependents() + owners) as f64;
        self.figure(BYTES_PER_OBJECT, each, Unit::Bytes);
        self.note_disturbance(&before, &after, 0.0);
        Ok(())
    }

    fn note_speed(&mut self, collected: &Collected, requests: &Requests) {
        let objects = collected.count as f64;
        let rate = objects / collected.secs;
        self.figure(RATE, rate, Unit::PerSecond);
        self.figure("  first one after", collected.first_secs, Unit::Seconds);
        let verbs = requests.on(&KINDS, &collected.own_requests);
        let all: f64 = verbs.values().sum();
        self.figure(PER_OBJECT, all / objects, Unit::Count);
        for (verb, count) in verbs {
            self.figure(format!("  {verb}"), count / objects, Unit::Count);
        }
        self.figure(REQUEST_RATE, all / collected.secs, Unit::PerSecond);
        let errors = requests.errors_on(&KINDS);
        self.figure("requests answered with an error", errors, Unit::Count);
        let elsewhere = requests.elsewhere(&KINDS);
        self.figure("requests of all others", elsewhere, Unit::Count);
    }

    fn note_cost(&mut self, collected: &Collected, before: &Moment, after: &Moment) {
        let objects = collected.count as f64;
        let collector = after.collector_secs - before.collector_secs;
        let apiserver = after.apiserver_secs - before.apiserver_secs;
        let etcd = after.etcd_secs - before.etcd_secs;
        let shares = [
            ("collector's CPU time each", collector),
            (SERVER_CPU, apiserver),
            ("etcd's CPU time each", etcd),
        ];
        for (what, secs) in shares {
            self.figure(what, secs / objects, Unit::Seconds);
        }
        let driver = collected.cpu_secs;
        self.figure(DRIVER_BUSY, driver / collected.secs, Unit::Busy);
        self.note_disturbance(before, after, driver);
    }

    /// What the host and other programs took of the machine meanwhile.
    fn note_disturbance(&mut self, before: &Moment, after: &Moment, driver_secs: f64) {
        let machine = after.machine - before.machine;
        let steal = machine.steal_secs / machine.all_secs;
        self.figure(STEAL, steal, Unit::Busy);
        let known = after.known_secs() - before.known_secs() + driver_secs;
        let others = (machine.busy_secs - known).max(0.0);
        let secs = (after.at - before.at).as_secs_f64();
        self.figure(OTHERS, others / secs, Unit::Busy);
    }

    /// Makes the family.
    fn plant(&self, case: &Case) -> Result<()> {
        let plant = format!("gc-create {} --clients {PLANTERS}", kin(case));
        self.drive::<Measured>(Identity::Admin, &plant).map(drop)
    }

    fn collector(&self, case: &Case) -> Result<UnderTest> {
        let Self {
            programs,
            side,
            server,
            ..
        } = self;
        programs.start(*side, &GARBAGE_COLLECTOR, case.settings, server)
    }

    fn moment(&self, collector: Option<&UnderTest>) -> Result<Moment> {
        let pids = self.server.pids();
        let cpu = |wanted| {
            let found = pids.iter().find(|(role, _)| *role == wanted);
            let (_, pid) = found.context("the server has no such process")?;
            sampling::cpu_secs(*pid)
        };
        Ok(Moment {
            at: Instant::now(),
            collector_secs: collector.map_or(Ok(0.0), UnderTest::cpu_secs)?,
            apiserver_secs: cpu(Role::Apiserver)?,
            etcd_secs: cpu(Role::Etcd)?,
            machine: Machine::now()?,
        })
    }

    fn drive<T: serde::de::DeserializeOwned>(&self, who: Identity, args: &str) -> Result<T> {
        let kubeconfig = self.server.kubeconfig(who);
        self.driver.drive(self.side.word(), &kubeconfig, args)
    }

    fn figure(&mut self, what: impl Into<String>, value: f64, unit: Unit) {
        self.figures.push(Figure::new(what, value, unit));
    }
}

// === impl Moment ===

impl Moment {
    fn known_secs(&self) -> f64 {
        self.collector_secs + self.apiserver_secs + self.etcd_secs
    }
}

/// The arguments of the driver that name a family.
fn kin(case: &Case) -> String {
    let (owners, dependents) = case.family();
    let (shape, _) = case.workload.shape_and_policy();
    format!("{NAMESPACE} --shape {shape} --owners {owners} --dependents {dependents}")
}
