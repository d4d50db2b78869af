//! The API servers beside each other: start, memory, creates, lists and watches.
//!
//! Both get the same requests from the same driver (`load` of `testbed`), one server after the other, so that they do not
//! take the machine from each other. What makes the comparison less than fair is said below the table.

use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::driver::{Driver, LOAD, Measured};
use super::server::Server;
use super::{Figure, Table, Unit, grouped};
use crate::cargo::Binary;
use crate::real::{Home, build};

const CARETAKER: Binary = Binary {
    package: "kube-caretaker",
    name: "caretaker",
    profile: "dist",
};
/// Clients at once and how many objects they create: [`LISTED`] in all.
const LEVELS: [(usize, usize); 3] = [(1, 2_000), (8, 4_000), (32, 4_000)];
/// Objects in the list that is timed.
pub const LISTED: usize = 10_000;
/// How often it is listed; the median counts.
const LISTS: usize = 5;
/// Clients that fill a server up.
const FILLERS: usize = 32;
/// Watchers, each on a connection of its own; fewer than either server allows.
const WATCHERS: usize = 100;
/// Objects that each of them sees.
const WATCHED: usize = 500;
/// Clients that create these.
const WRITERS: usize = 8;
/// Servers still take and give back memory for a moment after the last request.
const SETTLE: Duration = Duration::from_secs(3);
/// From this share of a processor on the driver, which is one thread, may be what limits.
const BUSY_MAX: f64 = 0.9;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Objects in a server when it has the most, at least [`LISTED`].
    pub objects: usize,
}

/// One server under measurement.
struct Bench<'a> {
    load: &'a Driver,
    server: Server,
    figures: Vec<Figure>,
}

/// Measures both servers.
pub fn apiserver(wanted: Wanted) -> Result<Table> {
    let (caretaker, load) = (CARETAKER.build()?, Driver(LOAD.build()?));
    build::ensure(&Home::from_env()?)?;
    let ours = Bench::run(Server::ours(&caretaker)?, &load, wanted)?;
    let real = Bench::run(Server::real()?, &load, wanted)?;
    let notes = notes(&ours, &real);
    Ok(Table {
        title: String::new(),
        peer: "real",
        ours,
        real,
        notes,
    })
}

// === impl Bench ===

impl<'a> Bench<'a> {
    /// Measures a server and ends it.
    fn run(server: Server, load: &'a Driver, wanted: Wanted) -> Result<Vec<Figure>> {
        let mut bench = Self {
            load,
            server,
            figures: Vec::new(),
        };
        let ready_secs = bench.server.ready_after.as_secs_f64();
        bench.figure("time to ready", ready_secs, Unit::Seconds);
        bench.memory("empty")?;
        let mut created = 0;
        for (clients, count) in LEVELS {
            let s = if clients == 1 { "" } else { "s" };
            let who = format!("{clients} client{s}");
            bench.creates(&who, "listed", created, clients, count)?;
            created += count;
        }
        bench.memory(&objects(created))?;
        bench.list()?;
        if wanted.objects > created {
            let all = objects(wanted.objects);
            let who = format!("up to {all}");
            bench.creates(&who, "filled", 0, FILLERS, wanted.objects - created)?;
            bench.memory(&all)?;
        }
        bench.watch()?;
        Ok(bench.figures)
    }

    fn memory(&mut self, when: &str) -> Result<()> {
        thread::sleep(SETTLE);
        let bytes = self.server.resident_bytes()?;
        self.figure(format!("resident memory, {when}"), bytes, Unit::Bytes);
        Ok(())
    }

    fn creates(
        &mut self,
        who: &str,
        ns: &str,
        first: usize,
        clients: usize,
        count: usize,
    ) -> Result<()> {
        let before = self.server.cpu_secs()?;
        let args = format!("create {ns} --first {first} --clients {clients} --count {count}");
        let measured = self.drive(&args)?;
        let each = (self.server.cpu_secs()? - before) / measured.count as f64;
        self.figure(
            format!("creates/s, {who}"),
            measured.rate(),
            Unit::PerSecond,
        );
        self.figure(format!("  p50, {who}"), measured.p50_secs, Unit::Seconds);
        self.figure(format!("  p99, {who}"), measured.p99_secs, Unit::Seconds);
        self.figure(
            format!("  server's CPU time each, {who}"),
            each,
            Unit::Seconds,
        );
        self.figure(format!("  driver busy, {who}"), measured.busy(), Unit::Busy);
        Ok(())
    }

    fn list(&mut self) -> Result<()> {
        let measured = self.drive(&format!("list listed --times {LISTS}"))?;
        let what = objects(measured.count);
        self.figure(format!("list of {what}"), measured.p50_secs, Unit::Seconds);
        self.figure(
            format!("  its size, {what}"),
            measured.bytes as f64,
            Unit::Bytes,
        );
        Ok(())
    }

    fn watch(&mut self) -> Result<()> {
        let args =
            format!("watch watched --watchers {WATCHERS} --clients {WRITERS} --count {WATCHED}");
        let measured = self.drive(&args)?;
        let who = format!("{WATCHERS} watchers");
        self.figure(format!("events/s, {who}"), measured.rate(), Unit::PerSecond);
        self.figure(format!("  driver busy, {who}"), measured.busy(), Unit::Busy);
        Ok(())
    }

    fn drive(&self, args: &str) -> Result<Measured> {
        let Server {
            name, kubeconfig, ..
        } = &self.server;
        self.load.drive(name, kubeconfig, args)
    }

    fn figure(&mut self, what: impl Into<String>, value: f64, unit: Unit) {
        self.figures.push(Figure::new(what, value, unit));
    }
}

fn objects(count: usize) -> String {
    format!("{} objects", grouped(&count.to_string()))
}

/// What has to be known to read the numbers.
fn notes(ours: &[Figure], real: &[Figure]) -> Vec<String> {
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
            .filter(|figure| figure.unit == Unit::Busy && figure.value >= BUSY_MAX);
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
    fn a_driver_at_its_limit_is_said() {
        let mk = |value| Figure {
            what: "  driver busy, 8 clients".to_owned(),
            value,
            unit: Unit::Busy,
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
