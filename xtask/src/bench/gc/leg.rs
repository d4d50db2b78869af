//! One leg: a new server, one collector on it, one workload, and its cost.
//!
//! The objects exist before the collector starts, and the leg waits for a moment after the collector is ready, so that the
//! phase holds only the cascade. The plain client beside it is subject to Priority and Fairness too.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::super::driver::LoadOutput;
use super::super::peers::{GARBAGE_COLLECTOR, ProgramUnderTest};
use super::super::stand::{BenchStand, PEAK_BYTES, PhaseWork, SETTLE, STEADY_BYTES};
use super::super::{BenchFigure, FigureUnit};
use super::{GcCase, GcMode, GcWorkload, settle};
use crate::real::Identity;

/// The namespaces of the family and of the plain client's objects.
const NAMESPACE: &str = "bench";
const PLAIN_NAMESPACE: &str = "plain";
/// The kinds on which only the collector and the driver act.
const KINDS: [&str; 2] = ["configmaps", "events"];
/// Clients that create the objects.
const PLANTERS: usize = 32;
/// Wait before memory counts as steady; the Go runtime frees some meanwhile.
const STEADY: Duration = Duration::from_secs(8);

/// Names of figures that are read again, for verdicts and notes.
pub(super) const RATE: &str = "objects/s";
pub(super) const PER_OBJECT: &str = "requests per object";
pub(super) const PLAIN_RATE: &str = "plain client's deletes/s";
pub(super) const READY: &str = "start to complete graph";
pub(super) const EMPTY_BYTES: &str = "resident memory, empty cluster";
pub(super) const BYTES_PER_OBJECT: &str = "resident memory per object";

/// A case that runs on a stand.
pub(super) struct CascadeLeg<'a> {
    stand: BenchStand<'a>,
    case: &'a GcCase,
}

/// The output of `load gc-run`.
#[derive(Debug, Deserialize)]
struct CascadeOutput {
    count: usize,
    secs: f64,
    first_secs: f64,
    own_requests: BTreeMap<String, f64>,
    cpu_secs: f64,
}

// === impl CascadeLeg ===

impl<'a> CascadeLeg<'a> {
    pub(super) fn new(stand: BenchStand<'a>, case: &'a GcCase) -> Self {
        Self { stand, case }
    }

    /// Measures the case and ends the server.
    pub(super) fn measure(mut self) -> Result<Vec<BenchFigure>> {
        match self.case.workload {
            GcWorkload::Start => self.start()?,
            GcWorkload::Flat if self.case.mode == GcMode::Unlimited => {
                self.plain()?;
                self.cascade()?;
            }
            GcWorkload::Flat | GcWorkload::Chain | GcWorkload::Foreground | GcWorkload::Orphan => {
                self.cascade()?;
            }
        }
        self.stand.close()
    }

    /// Measures a client that only deletes, with as many requests in flight as the collector has workers.
    fn plain(&mut self) -> Result<()> {
        let clients = self.case.settings.workers.context("a number of workers")?;
        let load = |clients: usize| {
            let count = self.case.dependents();
            format!("{PLAIN_NAMESPACE} --clients {clients} --count {count}")
        };
        let create = format!("create {}", load(PLANTERS));
        self.stand.drive::<LoadOutput>(&create)?;
        let delete = format!("delete {}", load(clients as usize));
        let deleted: LoadOutput = self.stand.drive_as(Identity::Ordinary, &delete)?;
        self.stand
            .figure(PLAIN_RATE, deleted.rate(), FigureUnit::PerSecond);
        Ok(())
    }

    /// Measures a cascade from the owners' deletes to its end.
    fn cascade(&mut self) -> Result<()> {
        self.plant()?;
        let collector = self.collector()?;
        settle(SETTLE)?;
        let phase = self.stand.begin(Some(&collector))?;
        let (_, policy) = self.case.workload.shape_and_policy();
        let run = format!("gc-run {} --policy {policy}", kin(self.case));
        let collected: CascadeOutput = self.stand.drive(&run)?;
        let CascadeOutput {
            count,
            secs,
            first_secs,
            ..
        } = collected;
        let stand = &mut self.stand;
        stand.figure(RATE, count as f64 / secs, FigureUnit::PerSecond);
        stand.figure("  first one after", first_secs, FigureUnit::Seconds);
        let done = PhaseWork {
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

    /// Measures a start on an empty cluster, and one with many objects.
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
            (EMPTY_BYTES, empty, FigureUnit::Bytes),
            (
                "start to complete graph, empty cluster",
                ready_empty,
                FigureUnit::Seconds,
            ),
            (READY, ready, FigureUnit::Seconds),
            ("collector's CPU time until then", then, FigureUnit::Seconds),
            ("collector's CPU time when steady", now, FigureUnit::Seconds),
            (STEADY_BYTES, steady, FigureUnit::Bytes),
            (PEAK_BYTES, peak, FigureUnit::Bytes),
            (BYTES_PER_OBJECT, each, FigureUnit::Bytes),
        ] {
            self.stand.figure(what, value, unit);
        }
        self.stand.note_disturbance(&before, &after, 0.0);
        Ok(())
    }

    /// Creates the family of owners and dependents.
    fn plant(&self) -> Result<()> {
        let plant = format!("gc-create {} --clients {PLANTERS}", kin(self.case));
        self.stand.drive::<LoadOutput>(&plant).map(drop)
    }

    fn collector(&self) -> Result<ProgramUnderTest> {
        self.stand.start(&GARBAGE_COLLECTOR, self.case.settings)
    }
}

/// The arguments of the driver that name a family.
fn kin(case: &GcCase) -> String {
    let (owners, dependents) = case.family();
    let (shape, _) = case.workload.shape_and_policy();
    format!("{NAMESPACE} --shape {shape} --owners {owners} --dependents {dependents}")
}
