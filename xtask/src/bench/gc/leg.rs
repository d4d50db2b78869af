//! One leg: a fresh server, one collector on it, one workload, and what that cost everyone.
//!
//! The objects are there before the collector starts, and it is given a moment after it said that it knows them, so that
//! a phase holds the cascade and nothing else. The plain client that it is compared with is as ordinary a user as it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::super::driver::Measured;
use super::super::peers::{GARBAGE_COLLECTOR, UnderTest};
use super::super::stand::{Done, PEAK_BYTES, SETTLE, STEADY_BYTES, Stand};
use super::super::{Figure, Unit};
use super::{Case, Mode, Workload, settle};
use crate::real::Identity;

/// Where the family lives, and where the plain client's objects do.
const NAMESPACE: &str = "bench";
const PLAIN_NAMESPACE: &str = "plain";
/// The kinds on which nobody but the collector and the driver acts.
const KINDS: [&str; 2] = ["configmaps", "events"];
/// Clients that create the objects.
const PLANTERS: usize = 32;
/// How long memory is left alone before it counts as steady; the Go runtime gives some back meanwhile.
const STEADY: Duration = Duration::from_secs(8);

/// Names of figures that are read again, for verdicts and notes.
pub(super) const RATE: &str = "objects/s";
pub(super) const PER_OBJECT: &str = "requests per object";
pub(super) const PLAIN_RATE: &str = "plain client's deletes/s";
pub(super) const READY: &str = "start to complete graph";
pub(super) const EMPTY_BYTES: &str = "resident memory, empty cluster";
pub(super) const BYTES_PER_OBJECT: &str = "resident memory per object";

/// A case on a stand.
pub(super) struct Leg<'a> {
    stand: Stand<'a>,
    case: &'a Case,
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

// === impl Leg ===

impl<'a> Leg<'a> {
    pub(super) fn new(stand: Stand<'a>, case: &'a Case) -> Self {
        Self { stand, case }
    }

    /// Measures the case and ends the server.
    pub(super) fn measure(mut self) -> Result<Vec<Figure>> {
        match self.case.workload {
            Workload::Start => self.start()?,
            Workload::Flat if self.case.mode == Mode::Unlimited => {
                self.plain()?;
                self.cascade()?;
            }
            Workload::Flat | Workload::Chain | Workload::Foreground | Workload::Orphan => {
                self.cascade()?;
            }
        }
        self.stand.close()
    }

    /// What a client achieves that only deletes, with as many requests under way as the collector may have.
    fn plain(&mut self) -> Result<()> {
        let clients = self.case.settings.workers.context("a number of workers")?;
        let many = |clients: usize| {
            let count = self.case.dependents();
            format!("{PLAIN_NAMESPACE} --clients {clients} --count {count}")
        };
        let create = format!("create {}", many(PLANTERS));
        self.stand.drive::<Measured>(&create)?;
        let delete = format!("delete {}", many(clients as usize));
        let deleted: Measured = self.stand.drive_as(Identity::Ordinary, &delete)?;
        self.stand
            .figure(PLAIN_RATE, deleted.rate(), Unit::PerSecond);
        Ok(())
    }

    /// A cascade from the owners' deletes to its end.
    fn cascade(&mut self) -> Result<()> {
        self.plant()?;
        let collector = self.collector()?;
        settle(SETTLE)?;
        let phase = self.stand.begin(Some(&collector))?;
        let (_, policy) = self.case.workload.shape_and_policy();
        let run = format!("gc-run {} --policy {policy}", kin(self.case));
        let collected: Collected = self.stand.drive(&run)?;
        let Collected {
            count,
            secs,
            first_secs,
            ..
        } = collected;
        let stand = &mut self.stand;
        stand.figure(RATE, count as f64 / secs, Unit::PerSecond);
        stand.figure("  first one after", first_secs, Unit::Seconds);
        let done = Done {
            count,
            each: "object",
            secs,
            kinds: &KINDS,
            own_requests: &collected.own_requests,
            driver_secs: collected.cpu_secs,
            making_secs: 0.0,
        };
        stand.end(&phase, &done, &collector)
    }

    /// A start on an empty cluster, and one beside many objects.
    fn start(&mut self) -> Result<()> {
        let collector = self.collector()?;
        settle(STEADY)?;
        let empty = collector.resident_bytes()?;
        let ready_empty = collector.ready_after.as_secs_f64();
        drop(collector);
        self.plant()?;
        settle(SETTLE)?;
        let before = self.stand.moment(None)?;
        let collector = self.collector()?;
        let after = self.stand.moment(Some(&collector))?;
        settle(STEADY)?;
        let (steady, peak) = (collector.resident_bytes()?, collector.peak_bytes()?);
        let (owners, _) = self.case.family();
        let each = (steady - empty) / (self.case.dependents() + owners) as f64;
        let ready = collector.ready_after.as_secs_f64();
        let (then, now) = (after.program_secs, collector.cpu_secs()?);
        for (what, value, unit) in [
            (EMPTY_BYTES, empty, Unit::Bytes),
            (
                "start to complete graph, empty cluster",
                ready_empty,
                Unit::Seconds,
            ),
            (READY, ready, Unit::Seconds),
            ("collector's CPU time until then", then, Unit::Seconds),
            ("collector's CPU time when steady", now, Unit::Seconds),
            (STEADY_BYTES, steady, Unit::Bytes),
            (PEAK_BYTES, peak, Unit::Bytes),
            (BYTES_PER_OBJECT, each, Unit::Bytes),
        ] {
            self.stand.figure(what, value, unit);
        }
        self.stand.note_disturbance(&before, &after, 0.0);
        Ok(())
    }

    /// Makes the family.
    fn plant(&self) -> Result<()> {
        let plant = format!("gc-create {} --clients {PLANTERS}", kin(self.case));
        self.stand.drive::<Measured>(&plant).map(drop)
    }

    fn collector(&self) -> Result<UnderTest> {
        self.stand.start(&GARBAGE_COLLECTOR, self.case.settings)
    }
}

/// The arguments of the driver that name a family.
fn kin(case: &Case) -> String {
    let (owners, dependents) = case.family();
    let (shape, _) = case.workload.shape_and_policy();
    format!("{NAMESPACE} --shape {shape} --owners {owners} --dependents {dependents}")
}
