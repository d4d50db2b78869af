//! Legs of controllers that act when a time comes: how late they are for each of many.
//!
//! The driver makes the objects beside the running program, with a time that lies behind the last of them, so what the
//! servers took includes making them.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Deserialize;

use super::peers::{Settings, Subject};
use super::run::settle;
use super::stand::{Done, SETTLE, Stand};
use super::{Figure, Unit};

/// Where the objects are.
pub(super) const NAMESPACE: &str = "bench";
/// Clients that make them.
const MAKERS: usize = 32;
/// Objects that can be made each second, at the least; their time comes when all are there.
const MADE_PER_SEC: usize = 100;
/// Time for the program to see what was made last.
const SPARE_SECS: usize = 15;

/// How late they were; names of figures that are read again.
pub(super) const P99: &str = "lateness, p99";
const P50: &str = "lateness, p50";
const MAX: &str = "lateness, max";

/// Objects whose time comes, and who acts then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub(super) subject: &'static Subject,
    pub(super) settings: Settings,
    /// The driver's command.
    pub(super) load: &'static str,
    /// How many.
    pub(super) count: usize,
    /// Volcano's instead of Kubernetes' own: there is no Go program for these.
    pub(super) is_volcano: bool,
    /// What one of them is called.
    pub(super) each: &'static str,
    /// The kinds on which nobody but the program and the driver acts.
    pub(super) kinds: &'static [&'static str],
}

/// What the driver prints.
#[derive(Debug, Deserialize)]
struct Ended {
    count: usize,
    secs: f64,
    p50_secs: f64,
    p99_secs: f64,
    max_secs: f64,
    early: usize,
    /// Only of those who make something.
    duplicates: Option<usize>,
    own_requests: BTreeMap<String, f64>,
    making_secs: f64,
    cpu_secs: f64,
}

// === impl Timed ===

impl Timed {
    /// How it is limited, in a title.
    pub(super) fn how(&self) -> String {
        self.settings.workers.map_or_else(
            || "defaults".to_owned(),
            |workers| format!("unlimited, {workers} workers"),
        )
    }

    /// One leg: one program, and what became of the objects.
    pub(super) fn measure(&self, mut stand: Stand<'_>, more: &str) -> Result<Vec<Figure>> {
        if self.is_volcano {
            stand.drive::<()>("volcano-install")?;
        }
        let program = stand.start(self.subject, self.settings)?;
        settle(SETTLE)?;
        let phase = stand.begin(Some(&program))?;
        let ended: Ended = stand.drive(&format!("{}{more}", self.args()))?;
        let rate = ended.count as f64 / ended.secs;
        stand.figure(P50, ended.p50_secs, Unit::Seconds);
        stand.figure(P99, ended.p99_secs, Unit::Seconds);
        stand.figure(MAX, ended.max_secs, Unit::Seconds);
        stand.figure("before their time", ended.early as f64, Unit::Count);
        if let Some(duplicates) = ended.duplicates {
            stand.figure("duplicates", duplicates as f64, Unit::Count);
        }
        stand.figure(format!("{}s/s", self.each), rate, Unit::PerSecond);
        let done = Done {
            count: ended.count,
            each: self.each,
            secs: ended.secs,
            kinds: self.kinds,
            own_requests: &ended.own_requests,
            driver_secs: ended.cpu_secs,
            making_secs: ended.making_secs,
        };
        stand.end(&phase, &done, &program)?;
        drop(program);
        stand.close()
    }

    /// The arguments of the driver.
    pub(super) fn args(&self) -> String {
        let Self { load, count, .. } = self;
        let lead = count.div_ceil(MADE_PER_SEC) + SPARE_SECS;
        let volcano = if self.is_volcano { " --volcano" } else { "" };
        format!("{load} {NAMESPACE} --count {count} --lead {lead} --clients {MAKERS}{volcano}")
    }
}
