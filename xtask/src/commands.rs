//! Runs each command by calling the library, and prints the result.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use xtask::bench::{self, BenchOptions, BenchTopic};
use xtask::conformance::{self, ConformanceSuite, SuiteRequest};
use xtask::facts::ServerFacts;
use xtask::faults::FaultsRequest;
use xtask::interrupt;
use xtask::picture;
use xtask::prose::ProseReport;
use xtask::real::{self, Identity, Instance, Options, OracleHome};

use crate::args::{self, BenchCommand, Command, Conformance, RealCommand};

/// Runs one command.
pub(crate) fn run(command: Command, out: &mut impl Write) -> Result<()> {
    match command {
        Command::Real(command) => real(command, out),
        Command::Conformance(command) => conformance(command, out),
        Command::Faults(request) => faults(&request, out),
        Command::Bench(command) => bench(command, out),
        Command::Prose(args) => prose(&args, out),
        Command::Picture(args) => picture(&args, out),
    }
}

fn picture(args: &args::PictureArgs, out: &mut impl Write) -> Result<()> {
    let profile = if args.quick { "dev" } else { "release" };
    for path in picture::write(profile)? {
        writeln!(out, "wrote {}", path.display())?;
    }
    Ok(())
}

fn real(command: RealCommand, out: &mut impl Write) -> Result<()> {
    match command {
        RealCommand::Build => build(out),
        RealCommand::Up(args) => up(&args, out),
        RealCommand::Down(args) => down(&args, out),
        RealCommand::Status => status(out),
        RealCommand::Logs(args) => logs(&args, out),
        RealCommand::Probe(args) => probe(&args, out),
        RealCommand::Facts(args) => facts(&args, out),
    }
}

fn build(out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let programs = real::build::ensure(&OracleHome::from_env()?)?;
    let (megabytes, dir) = (programs.size_bytes() / 1_000_000, programs.dir.display());
    match programs.took.map(|took| took.as_secs_f64()) {
        Some(secs) => writeln!(out, "built {megabytes} MB in {secs:.1} s: {dir}")?,
        None => writeln!(out, "built already, {megabytes} MB: {dir}")?,
    }
    Ok(())
}

fn up(args: &args::RealUp, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    real::build::ensure(&OracleHome::from_env()?)?;
    let started = Instant::now();
    let instance = Instance::start(&args.name, &args.options)?;
    let (name, version) = (&args.name, real::build::kubernetes_version());
    let secs = started.elapsed().as_secs_f64();
    let [admin, ordinary] =
        [Identity::Admin, Identity::Ordinary].map(|who| instance.kubeconfig(who));
    let (url, admin, ordinary) = (instance.url(), admin.display(), ordinary.display());
    write!(
        out,
        "{name}: Kubernetes {version} at {url}, ready after {secs:.1} s
  export KUBECONFIG={admin}
the same rights, but subject to Priority and Fairness:
  export KUBECONFIG={ordinary}
end it and remove its directory:
  cargo xtask real down {name}
"
    )?;
    instance.keep();
    Ok(())
}

fn down(args: &args::RealDown, out: &mut impl Write) -> Result<()> {
    let home = OracleHome::from_env()?;
    if !args.all {
        return down_one(&home, &args.name, out);
    }
    let names = home.names()?;
    if names.is_empty() {
        writeln!(out, "no instance exists")?;
    }
    names.iter().try_for_each(|name| down_one(&home, name, out))
}

fn down_one(home: &OracleHome, name: &str, out: &mut impl Write) -> Result<()> {
    let condition = home.down(name)?;
    Ok(writeln!(out, "{name} ({condition}) ended and removed")?)
}

fn status(out: &mut impl Write) -> Result<()> {
    let all = OracleHome::from_env()?.status()?;
    if all.is_empty() {
        writeln!(
            out,
            "no instance exists: start one with `cargo xtask real up`"
        )?;
    }
    all.iter()
        .try_for_each(|status| Ok(write!(out, "{status}")?))
}

fn logs(args: &args::RealLogs, out: &mut impl Write) -> Result<()> {
    let home = OracleHome::from_env()?;
    let (name, role) = args.target()?;
    let name = home.pick(name)?;
    for (role, text) in home.logs(&name, role, args.lines)? {
        writeln!(out, "==> {name} {} <==\n{text}", role.word())?;
    }
    Ok(())
}

fn probe(args: &args::RealProbe, out: &mut impl Write) -> Result<()> {
    let name = OracleHome::from_env()?.pick(args.to.as_deref())?;
    let client = Instance::open(&name)?.client(args.identity)?;
    args.request.send(&client, out)
}

fn facts(args: &args::RealFacts, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let ask = |instance: &Instance| ServerFacts::ask(&instance.client(Identity::Admin)?);
    let facts = match &args.from {
        Some(name) => ask(&Instance::open(name)?)?,
        None => Instance::run("facts", &Options::default(), ask)?,
    };
    interrupt::check()?;
    for (what, count) in &facts.counts {
        writeln!(out, "{count:>6} {what}")?;
    }
    for path in facts.write()? {
        writeln!(out, "wrote {}", path.display())?;
    }
    Ok(())
}

fn conformance(command: Conformance, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let (suite, request) = match command {
        Conformance::Gc(request) => (conformance::GC, request),
        Conformance::Podgc(request) => (conformance::POD_GC, request),
        Conformance::Cron(request) => (conformance::CRON, request),
        Conformance::Ttl(request) => (conformance::TTL, request),
        Conformance::Workloads(request) => (conformance::WORKLOADS, request),
        Conformance::Api(request) => {
            let report = conformance::api(&request)?;
            let count = report.summary.different;
            let failure = "checks differ where crates/testbed/data/api/allowed.txt allows nothing";
            return print(&report, count, failure, out);
        }
        Conformance::GcRandom(scripts) => {
            let report = conformance::gc_random(&scripts)?;
            let failure = "scripts leave other objects with one collector than with the other";
            return print(&report, report.different(), failure, out);
        }
        Conformance::Restore(request) => {
            let report = conformance::restore(&request)?;
            return print(&report, report.failed(), "cases failed", out);
        }
        Conformance::E2e(request) => {
            let report = conformance::e2e(&request)?;
            return print(&report, report.failed(), "specs failed", out);
        }
        Conformance::Interop(request) => {
            let report = conformance::interop(&request)?;
            return print(&report, report.failed(), "parts failed", out);
        }
        Conformance::Kubectl(request) => {
            let report = conformance::kubectl(&request)?;
            let failure = "cases are not as xtask/data/kubectl/allowed.txt says";
            return print(&report, report.failed(), failure, out);
        }
        Conformance::Protobuf => {
            let report = conformance::protobuf()?;
            return print(&report, report.failed(), "samples differ", out);
        }
        Conformance::Schema(schemas) => {
            let report = conformance::schema(&schemas)?;
            let failure = "schemas are not answered alike";
            return print(&report, report.different(), failure, out);
        }
        Conformance::Validation(objects) => {
            let report = conformance::validation(&objects)?;
            let failure = "writes are not answered alike";
            return print(&report, report.different(), failure, out);
        }
    };
    run_suite(suite, &request, out)
}

fn faults(request: &FaultsRequest, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let failed = xtask::faults::faults(request, out)?;
    ensure!(failed == 0, "{failed} seeds did not end right");
    Ok(())
}

fn run_suite(suite: ConformanceSuite, request: &SuiteRequest, out: &mut impl Write) -> Result<()> {
    let report = conformance::run_suite(suite, request)?;
    print(&report, report.failed(), "cases failed", out)
}

/// Prints a report; an error if it counts failures.
fn print(report: &impl Display, count: usize, failure: &str, out: &mut impl Write) -> Result<()> {
    write!(out, "{report}")?;
    ensure!(count == 0, "{count} {failure}");
    Ok(())
}

fn bench(command: BenchCommand, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let (topic, options) = match command {
        BenchCommand::Apiserver(args) => {
            let table = bench::apiserver(usize::try_from(args.objects)?)?;
            return Ok(write!(out, "{table}")?);
        }
        BenchCommand::GcMemory(args) => {
            let held = bench::graph_memory(args.objects, args.quick)?;
            let (each, count) = (held.bytes_per_object, held.count);
            return Ok(writeln!(
                out,
                "{each:.0} B of resident memory per object, with {count} objects in the graph"
            )?);
        }
        BenchCommand::Gc(args) => {
            let options = BenchOptions {
                workloads: args.workload,
                modes: args.mode,
                budget: args.budget,
                ..BenchOptions::new(args.objects, args.workers, args.run)
            };
            (BenchTopic::Gc, options)
        }
        BenchCommand::Cron(args) => {
            let options = BenchOptions::new(args.cron_jobs, vec![args.workers], args.run);
            (BenchTopic::Cron, options)
        }
        // Pod GC has no flag for its workers.
        BenchCommand::Podgc(args) => {
            let options = BenchOptions::new(args.pods, Vec::new(), args.run);
            (BenchTopic::PodGc, options)
        }
        BenchCommand::Ttl(args) => {
            let options = BenchOptions::new(args.jobs, vec![args.workers], args.run);
            (BenchTopic::Ttl, options)
        }
    };
    Ok(write!(out, "{}", bench::measure(topic, &options)?)?)
}

fn prose(args: &args::ProseArgs, out: &mut impl Write) -> Result<()> {
    let here = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let root = args.root.as_deref().unwrap_or(here);
    let report = ProseReport::of(root)?;
    if args.names {
        write!(out, "{}", report.shared_names())?;
    }
    if args.words {
        write!(out, "{}", report.banned_places())?;
    }
    if !args.names && !args.words {
        write!(out, "{report}")?;
    }
    Ok(())
}
