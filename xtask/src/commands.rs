//! What each command does, in terms of the library, and what it prints.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use xtask::bench;
use xtask::conformance::{self, Whose};
use xtask::facts::Facts;
use xtask::interrupt;
use xtask::probe::Question;
use xtask::prose::{self, ProseReport};
use xtask::real::{self, Home, Identity, Instance, Options, Summary};

use crate::args;

/// Runs one command.
pub(crate) fn run(command: args::Command, out: &mut impl Write) -> Result<()> {
    match command {
        args::Command::Real(command) => real(command, out),
        args::Command::Conformance(args::Conformance::Api(args)) => conformance_api(args, out),
        args::Command::Conformance(args::Conformance::Gc(args)) => {
            plays(conformance::GC, args, out)
        }
        args::Command::Conformance(args::Conformance::Podgc(args)) => {
            plays(conformance::POD_GC, args, out)
        }
        args::Command::Conformance(args::Conformance::Cron(args)) => {
            plays(conformance::CRON, args, out)
        }
        args::Command::Conformance(args::Conformance::Ttl(args)) => {
            plays(conformance::TTL, args, out)
        }
        args::Command::Conformance(args::Conformance::Workloads(args)) => {
            plays(conformance::WORKLOADS, args, out)
        }
        args::Command::Conformance(args::Conformance::GcRandom(args)) => gc_random(&args, out),
        args::Command::Conformance(args::Conformance::Schema(args)) => schema(&args, out),
        args::Command::Bench(args::Bench::Apiserver(args)) => bench_apiserver(&args, out),
        args::Command::Bench(args::Bench::Gc(args)) => bench_gc(args, out),
        args::Command::Bench(args::Bench::Cron(args)) => bench_cron(args, out),
        args::Command::Bench(args::Bench::Podgc(args)) => bench_podgc(args, out),
        args::Command::Bench(args::Bench::Ttl(args)) => bench_ttl(args, out),
        args::Command::Bench(args::Bench::GcMemory(args)) => bench_gc_memory(&args, out),
        args::Command::Prose(args) => prose(&args, out),
    }
}

fn real(command: args::Real, out: &mut impl Write) -> Result<()> {
    match command {
        args::Real::Build => build(out),
        args::Real::Up(args) => up(args, out),
        args::Real::Down(args) => down(&args, out),
        args::Real::Status => status(out),
        args::Real::Logs(args) => logs(&args, out),
        args::Real::Probe(args) => probe(args, out),
        args::Real::Facts(args) => facts(&args, out),
    }
}

fn build(out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let report = real::build::ensure(&Home::from_env()?)?;
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

fn up(args: args::Up, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let options = Options {
        apiserver_flags: args.apiserver_flag,
        controllers: args.controllers,
        controller_manager_flags: args.controller_manager_flags,
    };
    real::build::ensure(&Home::from_env()?)?;
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
        "not exempt from Priority and Fairness, with the same rights:"
    )?;
    writeln!(
        out,
        "  export KUBECONFIG={}",
        instance.kubeconfig(Identity::Ordinary).display()
    )?;
    writeln!(out, "end it and remove all it wrote:")?;
    writeln!(out, "  cargo xtask real down {name}")?;
    instance.keep();
    Ok(())
}

fn down(args: &args::Down, out: &mut impl Write) -> Result<()> {
    let home = Home::from_env()?;
    if !args.all {
        return Ok(writeln!(out, "{}", real::down(&home, &args.name)?)?);
    }
    let names = home.names()?;
    if names.is_empty() {
        writeln!(out, "there is no instance")?;
    }
    for name in names {
        writeln!(out, "{}", real::down(&home, &name)?)?;
    }
    Ok(())
}

fn status(out: &mut impl Write) -> Result<()> {
    let summaries = real::status(&Home::from_env()?)?;
    if summaries.is_empty() {
        writeln!(
            out,
            "there is no instance: start one with `cargo xtask real up`"
        )?;
    }
    for summary in &summaries {
        write!(out, "{}", describe(summary))?;
    }
    Ok(())
}

fn describe(summary: &Summary) -> String {
    let Summary {
        name,
        condition,
        processes,
        age_secs,
        kubeconfig,
    } = summary;
    let since = age_secs
        .map(|secs| format!(", started {} ago", age(secs)))
        .unwrap_or_default();
    let mut text = format!("{name}: {condition}{since}\n");
    for (role, pid, port, is_alive) in processes {
        let gone = if *is_alive { "" } else { "  gone" };
        text.push_str(&format!(
            "  {:<18}  pid {pid:<7}  127.0.0.1:{port}{gone}\n",
            role.word()
        ));
    }
    text.push_str(&format!("  KUBECONFIG={}\n", kubeconfig.display()));
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

fn logs(args: &args::Logs, out: &mut impl Write) -> Result<()> {
    let home = Home::from_env()?;
    let (name, role) = args.target()?;
    let name = real::pick(&home, name)?;
    for (role, text) in real::logs(&home, &name, role, args.lines)? {
        writeln!(out, "==> {name} {} <==\n{text}", role.word())?;
    }
    Ok(())
}

fn probe(args: args::Probe, out: &mut impl Write) -> Result<()> {
    let name = real::pick(&Home::from_env()?, args.to.as_deref())?;
    let client = Instance::open(&name)?.client(args.identity)?;
    let question = Question {
        method: args.method.to_ascii_uppercase(),
        path: args.path,
        headers: args.headers,
        body: args.data,
        stream_for: args.for_secs.map(Duration::from_secs),
    };
    question.ask(&client, out)
}

fn facts(args: &args::Facts, out: &mut impl Write) -> Result<()> {
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

fn ask_facts(instance: &Instance) -> Result<Facts> {
    Facts::ask(&instance.client(Identity::Admin)?)
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

fn plays(
    suite: conformance::Suite,
    args: args::ConformancePlays,
    out: &mut impl Write,
) -> Result<()> {
    interrupt::watch()?;
    let wanted = conformance::PlaysWanted {
        only: args.only,
        collector: if args.peer { Whose::Peer } else { Whose::Ours },
        apiserver_flags: args.apiserver_flag,
    };
    let report = conformance::plays(suite, &wanted)?;
    write!(out, "{report}")?;
    match report.failed() {
        0 => Ok(()),
        count => bail!("{count} plays did not end as they should"),
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
    Ok(write!(
        out,
        "{}",
        bench::apiserver(bench::Wanted { objects })?
    )?)
}

fn bench_gc(args: args::BenchGc, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let wanted = bench::gc::Wanted {
        workloads: args.workload,
        modes: args.mode,
        objects: args.objects.map(usize::try_from).transpose()?,
        workers: args.workers,
        budget: args.budget,
        run: args.run.into(),
    };
    Ok(write!(out, "{}", bench::gc::gc(&wanted)?)?)
}

fn bench_podgc(args: args::BenchPodgc, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let wanted = bench::podgc::Wanted {
        pods: args.pods.map(usize::try_from).transpose()?,
        run: args.run.into(),
    };
    Ok(write!(out, "{}", bench::podgc::podgc(&wanted)?)?)
}

fn bench_cron(args: args::BenchCron, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let wanted = bench::cron::Wanted {
        cron_jobs: args.cron_jobs.map(usize::try_from).transpose()?,
        workers: args.workers,
        run: args.run.into(),
    };
    Ok(write!(out, "{}", bench::cron::cron(&wanted)?)?)
}

fn bench_ttl(args: args::BenchTtl, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let wanted = bench::ttl::Wanted {
        jobs: args.jobs.map(usize::try_from).transpose()?,
        workers: args.workers,
        run: args.run.into(),
    };
    Ok(write!(out, "{}", bench::ttl::ttl(&wanted)?)?)
}

fn bench_gc_memory(args: &args::BenchGcMemory, out: &mut impl Write) -> Result<()> {
    interrupt::watch()?;
    let held = bench::gc::memory(args.objects, args.quick)?;
    let (each, count) = (held.bytes_per_object, held.count);
    writeln!(
        out,
        "{each:.0} B of resident memory for each of {count} objects in the graph"
    )?;
    Ok(())
}

fn prose(args: &args::Prose, out: &mut impl Write) -> Result<()> {
    let here = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let root = args.root.as_deref().unwrap_or(here);
    if args.baseline {
        return prose::baseline::lower(root);
    }
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
