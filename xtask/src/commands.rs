//! Runs each command by calling the library, and prints the result.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use xtask::bench::{self, BenchOptions, BenchTopic};
use xtask::conformance::{self, Whose};
use xtask::facts::ServerFacts;
use xtask::interrupt;
use xtask::picture;
use xtask::probe::ProbeRequest;
use xtask::prose::ProseReport;
use xtask::real::{self, Identity, Instance, InstanceStatus, Options, OracleHome};

use crate::args;

/// Runs one command.
pub(crate) fn run(command: args::Command, out: &mut impl Write) -> Result<()> {
    match command {
        args::Command::Real(command) => real(command, out),
        args::Command::Conformance(args::Conformance::Api(args)) => conformance_api(args, out),
        args::Command::Conformance(args::Conformance::Gc(args)) => {
            run_suite(conformance::GC, args, out)
        }
        args::Command::Conformance(args::Conformance::Podgc(args)) => {
            run_suite(conformance::POD_GC, args, out)
        }
        args::Command::Conformance(args::Conformance::Cron(args)) => {
            run_suite(conformance::CRON, args, out)
        }
        args::Command::Conformance(args::Conformance::Ttl(args)) => {
            run_suite(conformance::TTL, args, out)
        }
        args::Command::Conformance(args::Conformance::Workloads(args)) => {
            run_suite(conformance::WORKLOADS, args, out)
        }
        args::Command::Conformance(args::Conformance::GcRandom(args)) => gc_random(&args, out),
        args::Command::Conformance(args::Conformance::Schema(args)) => schema(&args, out),
        args::Command::Bench(args::BenchCommand::Apiserver(args)) => bench_apiserver(&args, out),
        args::Command::Bench(args::BenchCommand::Gc(args)) => bench_gc(args, out),
        args::Command::Bench(args::BenchCommand::Cron(args)) => bench_cases(
            BenchTopic::Cron,
            args.cron_jobs,
            args.workers,
            args.run,
            out,
        ),
        // Pod GC has no flag for its workers.
        args::Command::Bench(args::BenchCommand::Podgc(args)) => {
            bench_cases(BenchTopic::PodGc, args.pods, 0, args.run, out)
        }
        args::Command::Bench(args::BenchCommand::Ttl(args)) => {
            bench_cases(BenchTopic::Ttl, args.jobs, args.workers, args.run, out)
        }
        args::Command::Bench(args::BenchCommand::GcMemory(args)) => bench_gc_memory(&args, out),
        args::Command::Prose(args) => prose(&args, out),
        args::Command::Picture(args) => picture(&args, out),
    }
}

fn picture(args: &args::PictureArgs, out: &mut impl Write) -> Result<()> {
    let profile = if args.quick { "dev" } else { "release" };
    for path in picture::write(profile)? {
        writeln!(out, "wrote {}", path.display())?;
    }
    Ok(())
}

fn real(command: args::RealCommand, out: &mut impl Write) -> Result<()> {
    match command {
        args::RealCommand::Build => build(out),
        args::RealCommand::Up(args) => up(args, out),
        args::RealCommand::Down(args) => down(&args, out),
        args::RealCommand::Status => status(out),
        args::RealCommand::Logs(args) => logs(&args, out),
        args::RealCommand::Probe(args) => probe(args, out),
        args::RealCommand::Facts(args) => facts(&args, out),
    }
}

fn build(out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let report = real::build::ensure(&OracleHome::from_env()?)?;
    let megabytes = report.programs.size_bytes() / 1_000_000;
    let dir = report.programs.dir().display();
    match report.took {
        Some(took) => writeln!(
            out,
            "built {megabytes} MB in {:.1} s: {dir}",
            took.as_secs_f64()
        )?,
        None => writeln!(out, "built already, {megabytes} MB: {dir}")?,
    }
    Ok(())
}

fn up(args: args::RealUp, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let options = Options {
        apiserver_flags: args.apiserver_flag,
        controllers: args.controllers,
        controller_manager_flags: args.controller_manager_flags,
    };
    real::build::ensure(&OracleHome::from_env()?)?;
    let started = Instant::now();
    let instance = Instance::start(&args.name, &options)?;
    let (name, version) = (instance.name(), real::build::kubernetes_version());
    let secs = started.elapsed().as_secs_f64();
    writeln!(
        out,
        "{name}: Kubernetes {version} at {}, ready after {secs:.1} s",
        instance.url()
    )?;
    writeln!(
        out,
        "  export KUBECONFIG={}",
        instance.kubeconfig(Identity::Admin).display()
    )?;
    writeln!(
        out,
        "the same rights, but subject to Priority and Fairness:"
    )?;
    writeln!(
        out,
        "  export KUBECONFIG={}",
        instance.kubeconfig(Identity::Ordinary).display()
    )?;
    writeln!(out, "end it and remove its directory:")?;
    writeln!(out, "  cargo xtask real down {name}")?;
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
    let summaries = OracleHome::from_env()?.status()?;
    if summaries.is_empty() {
        writeln!(
            out,
            "no instance exists: start one with `cargo xtask real up`"
        )?;
    }
    for summary in &summaries {
        write!(out, "{}", describe(summary))?;
    }
    Ok(())
}

fn describe(status: &InstanceStatus) -> String {
    let since = status
        .age_secs
        .map(|secs| format!(", started {} ago", age(secs)))
        .unwrap_or_default();
    let mut text = format!("{}: {}{since}\n", status.name, status.condition);
    for (role, id) in &status.processes {
        text.push_str(&format!("  {:<18}  pid {}\n", role.word(), id.pid));
    }
    text.push_str(&format!("  KUBECONFIG={}\n", status.kubeconfig.display()));
    text
}

fn age(secs: u64) -> String {
    match secs {
        0..120 => format!("{secs} s"),
        120..7200 => format!("{} min", secs / 60),
        7200..172_800 => format!("{} h", secs / 3600),
        _ => format!("{} days", secs / 86_400),
    }
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

fn probe(args: args::RealProbe, out: &mut impl Write) -> Result<()> {
    let name = OracleHome::from_env()?.pick(args.to.as_deref())?;
    let client = Instance::open(&name)?.client(args.identity)?;
    let request = ProbeRequest {
        method: args.method.to_ascii_uppercase(),
        path: args.path,
        headers: args.headers,
        body: args.data,
        stream_for: args.for_secs.map(Duration::from_secs),
    };
    request.send(&client, out)
}

fn facts(args: &args::RealFacts, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let facts = match &args.from {
        Some(name) => ask_facts(&Instance::open(name)?)?,
        None => {
            let instance = Instance::start(
                &format!("facts-{}", std::process::id()),
                &Options::default(),
            )?;
            let facts = ask_facts(&instance);
            instance.stop()?;
            facts?
        }
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

fn ask_facts(instance: &Instance) -> Result<ServerFacts> {
    ServerFacts::ask(&instance.client(Identity::Admin)?)
}

fn conformance_api(args: args::ConformanceApi, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let args::ConformanceApi { only, record } = args;
    let report = conformance::api(&conformance::Wanted { only, record })?;
    write!(out, "{report}")?;
    match report.summary.different {
        0 => Ok(()),
        count => {
            bail!("{count} checks differ where crates/testbed/data/api/allowed.txt allows nothing")
        }
    }
}

fn run_suite(
    suite: conformance::ConformanceSuite,
    args: args::ConformanceSuite,
    out: &mut impl Write,
) -> Result<()> {
    interrupt::watch()?;
    let request = conformance::SuiteRequest {
        only: args.only,
        controllers: if args.peer { Whose::Peer } else { Whose::Ours },
        apiserver_flags: args.apiserver_flag,
    };
    let report = conformance::run_suite(suite, &request)?;
    write!(out, "{report}")?;
    match report.failed() {
        0 => Ok(()),
        count => bail!("{count} cases failed"),
    }
}

fn gc_random(args: &args::ConformanceGcRandom, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let report = conformance::gc_random(&conformance::RandomWanted {
        seed: args.seed,
        seeds: args.seeds,
        against: if args.peer { Whose::Peer } else { Whose::Ours },
    })?;
    write!(out, "{report}")?;
    match report.different() {
        0 => Ok(()),
        count => {
            bail!("{count} scripts leave other objects with one collector than with the other")
        }
    }
}

fn schema(args: &args::ConformanceSchema, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let report = conformance::schema(&conformance::SchemaWanted {
        seed: args.seed,
        seeds: args.seeds,
    })?;
    write!(out, "{report}")?;
    match report.different() {
        0 => Ok(()),
        count => bail!("{count} schemas are not answered alike"),
    }
}

fn bench_apiserver(args: &args::BenchApiserver, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let objects = usize::try_from(args.objects)?;
    let table = bench::apiserver(bench::ServerBenchOptions { objects })?;
    Ok(write!(out, "{table}")?)
}

fn bench_gc(args: args::BenchGc, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let options = bench::gc::GcBenchOptions {
        workloads: args.workload,
        modes: args.mode,
        objects: args.objects.map(usize::try_from).transpose()?,
        workers: args.workers,
        budget: args.budget,
        run: args.run.into(),
    };
    Ok(write!(out, "{}", bench::gc::gc(&options)?)?)
}

fn bench_cases(
    topic: BenchTopic,
    count: Option<u32>,
    workers: u32,
    run: args::BenchRunArgs,
    out: &mut impl Write,
) -> Result<()> {
    interrupt::watch()?;
    let options = BenchOptions {
        count: count.map(usize::try_from).transpose()?,
        workers,
        run: run.into(),
    };
    Ok(write!(out, "{}", bench::measure(topic, &options)?)?)
}

fn bench_gc_memory(args: &args::BenchGcMemory, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let held = bench::gc::memory(args.objects, args.quick)?;
    let (each, count) = (held.bytes_per_object, held.count);
    writeln!(
        out,
        "{each:.0} B of resident memory per object, with {count} objects in the graph"
    )?;
    Ok(())
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
