//! The API servers beside each other: start, memory, creates, lists and watches.
//!
//! Both get the same requests from the same driver (`load` of `testbed`), one server after the other, so that they do not
//! compete for the machine. Memory and processor time are those of the processes that serve: `caretaker` on one side,
//! kube-apiserver and etcd on the other. Notes below the table name the limits of the comparison.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::bounds::BUSY_MAX;
use super::driver::{LoadDriver, LoadOutput};
use super::{BenchFigure, FigureTable, FigureUnit, grouped, sampling};
use crate::cargo::{Binary, Running};
use crate::embedded::EmbeddedServer;
use crate::real::{Identity, Instance, Options, OracleHome, build};

/// Concurrent clients and the objects they create: [`LISTED`] in all.
const LEVELS: [(usize, usize); 3] = [(1, 2_000), (8, 4_000), (32, 4_000)];
/// Objects in the list that is timed.
pub const LISTED: usize = 10_000;
/// Repetitions of the list; the median counts.
const LISTS: usize = 5;
/// The arguments of a load in protobuf; without them it is in JSON.
const PROTOBUF: &str = " --format protobuf";
/// Clients and objects of the creates in protobuf: those of a level, for comparison.
const PROTOBUF_CREATES: (usize, usize) = LEVELS[1];
/// Clients that fill a server up.
const FILLERS: usize = 32;
/// Watchers, each on a connection of its own; fewer than either server allows.
const WATCHERS: usize = 100;
/// Objects that each watcher sees.
const WATCHED: usize = 500;
/// Clients that create the watched objects.
const WRITERS: usize = 8;
/// Servers still allocate and free memory for a moment after the last request.
const SETTLE: Duration = Duration::from_secs(3);

/// One server under measurement.
struct ServerBench<'a> {
    load: &'a LoadDriver,
    server: MeasuredServer,
    figures: Vec<BenchFigure>,
}

/// A running server.
struct MeasuredServer {
    /// Its name in progress messages.
    name: &'static str,
    kubeconfig: PathBuf,
    /// The duration of its start.
    ready_after: Duration,
    pids: Vec<u32>,
    /// Ends the server when it is dropped.
    _processes: ServerProcesses,
}

#[expect(dead_code, reason = "held for their Drop")]
enum ServerProcesses {
    Ours(Running),
    Real(Instance),
}

/// Measures both servers with at most `count` objects, at least [`LISTED`].
pub fn apiserver(count: usize) -> Result<FigureTable> {
    // Ours as it is shipped.
    let caretaker = Binary::caretaker("dist").build()?;
    let load = LoadDriver::build(false)?;
    build::ensure(&OracleHome::from_env()?)?;
    let ours = ServerBench::run(MeasuredServer::ours(&caretaker)?, &load, count)?;
    let real = ServerBench::run(MeasuredServer::real()?, &load, count)?;
    let notes = notes(&ours, &real);
    Ok(FigureTable {
        title: String::new(),
        peer: "real",
        ours,
        real,
        notes,
    })
}

// === impl ServerBench ===

impl<'a> ServerBench<'a> {
    /// Measures a server and ends it.
    fn run(server: MeasuredServer, load: &'a LoadDriver, most: usize) -> Result<Vec<BenchFigure>> {
        let mut bench = Self {
            load,
            server,
            figures: Vec::new(),
        };
        let ready_secs = bench.server.ready_after.as_secs_f64();
        bench.figures("", [("time to ready", ready_secs, FigureUnit::Seconds)]);
        bench.memory("empty")?;
        let mut created = 0;
        for (clients, count) in LEVELS {
            let s = if clients == 1 { "" } else { "s" };
            let args = format!("listed --first {created} --clients {clients} --count {count}");
            bench.creates(&format!("{clients} client{s}"), &args)?;
            created += count;
        }
        bench.memory(&objects(created))?;
        bench.list("")?;
        bench.list(PROTOBUF)?;
        let (clients, count) = PROTOBUF_CREATES;
        let args = format!("protobuf --clients {clients} --count {count}{PROTOBUF}");
        bench.creates(&format!("{clients} clients, protobuf"), &args)?;
        created += count;
        if most > created {
            let (all, count) = (objects(most), most - created);
            let args = format!("filled --clients {FILLERS} --count {count}");
            bench.creates(&format!("up to {all}"), &args)?;
            bench.memory(&all)?;
        }
        bench.watch()?;
        Ok(bench.figures)
    }

    fn memory(&mut self, when: &str) -> Result<()> {
        thread::sleep(SETTLE);
        let bytes = self.sum(sampling::resident_bytes)?;
        self.figures(when, [("resident memory", bytes, FigureUnit::Bytes)]);
        Ok(())
    }

    fn creates(&mut self, who: &str, args: &str) -> Result<()> {
        let before = self.sum(sampling::cpu_secs)?;
        let measured = self.drive(&format!("create {args}"))?;
        let each = (self.sum(sampling::cpu_secs)? - before) / measured.count as f64;
        let figures = [
            ("creates/s", measured.rate(), FigureUnit::PerSecond),
            ("  p50", measured.p50_secs, FigureUnit::Seconds),
            ("  p99", measured.p99_secs, FigureUnit::Seconds),
            ("  server's CPU time each", each, FigureUnit::Seconds),
            ("  driver busy", measured.busy(), FigureUnit::Busy),
        ];
        self.figures(who, figures);
        Ok(())
    }

    fn list(&mut self, format: &str) -> Result<()> {
        let measured = self.drive(&format!("list listed --times {LISTS}{format}"))?;
        let (mut what, bytes) = (objects(measured.count), measured.bytes as f64);
        if !format.is_empty() {
            what += ", protobuf";
        }
        let list = format!("list of {what}");
        self.figures("", [(&list, measured.p50_secs, FigureUnit::Seconds)]);
        self.figures(&what, [("  its size", bytes, FigureUnit::Bytes)]);
        Ok(())
    }

    fn watch(&mut self) -> Result<()> {
        let args =
            format!("watch watched --watchers {WATCHERS} --clients {WRITERS} --count {WATCHED}");
        let measured = self.drive(&args)?;
        let figures = [
            ("events/s", measured.rate(), FigureUnit::PerSecond),
            ("  driver busy", measured.busy(), FigureUnit::Busy),
        ];
        self.figures(&format!("{WATCHERS} watchers"), figures);
        Ok(())
    }

    fn drive(&self, args: &str) -> Result<LoadOutput> {
        let server = &self.server;
        self.load.drive(server.name, &server.kubeconfig, args)
    }

    /// The sum over the processes that serve.
    fn sum(&self, of: fn(u32) -> Result<f64>) -> Result<f64> {
        self.server.pids.iter().copied().map(of).sum()
    }

    /// Records figures that were measured under the same condition.
    fn figures<const N: usize>(&mut self, when: &str, figures: [(&str, f64, FigureUnit); N]) {
        let comma = if when.is_empty() { "" } else { ", " };
        self.figures.extend(figures.map(|(what, value, unit)| {
            BenchFigure::new(format!("{what}{comma}{when}"), value, unit)
        }));
    }
}

// === impl MeasuredServer ===

impl MeasuredServer {
    /// Our server, in memory. It is ready when it prints its first line.
    fn ours(caretaker: &Path) -> Result<Self> {
        // kube-apiserver alone keeps no ConfigMap in every namespace, which lists and watches would show.
        let flags = ["--ephemeral", "--controllers=-*", "--no-service-accounts"];
        let server = EmbeddedServer::start(caretaker, &flags, Stdio::inherit())?;
        Ok(Self {
            name: "ours",
            kubeconfig: server.kubeconfig,
            ready_after: server.ready_after,
            pids: vec![server.running.0.id()],
            _processes: ServerProcesses::Ours(server.running),
        })
    }

    /// A real server. It is ready when `/readyz` answers 200; its programs must be built already.
    fn real() -> Result<Self> {
        let started = Instant::now();
        let name = format!("bench-{}", std::process::id());
        let instance = Instance::start(&name, &Options::default())?;
        Ok(Self {
            name: "real",
            ready_after: started.elapsed(),
            kubeconfig: instance.kubeconfig(Identity::Admin),
            pids: instance.pids().into_iter().map(|(_, pid)| pid).collect(),
            _processes: ServerProcesses::Real(instance),
        })
    }
}

fn objects(count: usize) -> String {
    format!("{} objects", grouped(&count.to_string()))
}

/// Facts without which the numbers mislead.
fn notes(ours: &[BenchFigure], real: &[BenchFigure]) -> Vec<String> {
    let version = build::kubernetes_version();
    let mut notes = vec![
        "ours: caretaker up as it is shipped (profile dist), journal in memory: it writes nothing to disk".to_owned(),
        format!("real: kube-apiserver {version} and etcd with fsync, both counted; the client is an administrator, exempt from Priority and Fairness"),
        "objects: ConfigMaps of 1 kB, to which the real server adds managedFields and ours does not yet".to_owned(),
        "a client sends its next request when the last one is answered, over TLS and HTTP/1.1".to_owned(),
        "one server at a time; the driver runs beside it and is one thread".to_owned(),
    ];
    for (name, figures) in [("ours", ours), ("real", real)] {
        let limited = figures
            .iter()
            .filter(|figure| figure.unit == FigureUnit::Busy && figure.value >= BUSY_MAX);
        for figure in limited {
            let what = figure.what.trim_start();
            notes.push(format!(
                "{name}, {what}: the driver may be the limit there, not the server"
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_create_what_is_listed() {
        assert_eq!(LEVELS.iter().map(|(_, count)| count).sum::<usize>(), LISTED);
    }

    #[test]
    fn a_driver_at_its_limit_is_noted() {
        let mk = |value| BenchFigure {
            what: "  driver busy, 8 clients".to_owned(),
            value,
            unit: FigureUnit::Busy,
        };
        let quiet = notes(&[mk(0.5)], &[mk(BUSY_MAX - 0.01)]);
        let loud = notes(&[mk(BUSY_MAX)], &[mk(0.5)]);
        assert_eq!(loud[..quiet.len()], quiet);
        assert_eq!(
            loud[quiet.len()..],
            ["ours, driver busy, 8 clients: the driver may be the limit there, not the server"]
        );
    }
}
