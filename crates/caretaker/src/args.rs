//! The command line as types. What a flag means is decided where it is used, not here.
//!
//! - [`Demo`], [`Run`], [`Up`]: the flags of the commands that work, with [`Work`] in the last two.
//! - [`Graph`], [`Explain`]: the flags of the commands that look, with [`Place`] in both.
//! - [`Schedule`]: the flags of the commands about cron schedules.
//! - `settings`: what decisions depend on, in all of these.
//! - [`Controllers`] reads `--controllers`.
//! - `foreign`: flags of the original controller managers that are accepted and ignored.

mod controllers;
mod demo;
mod foreign;
mod objects;
mod run;
mod schedule;
mod settings;
mod up;
mod values;
mod work;

pub(crate) use self::controllers::{
    BATCH_CRON, BATCH_TTL, Controllers, GARBAGE_COLLECTOR, POD_GC, VOLCANO_CRON, VOLCANO_TTL,
};
pub(crate) use self::demo::Demo;
pub(crate) use self::objects::{Drawing, Explain, Graph, Place};
pub(crate) use self::run::Run;
pub(crate) use self::schedule::{
    CronJobName, Listing, Schedule, ScheduleList, ScheduleNext, ScheduleRun,
};
pub(crate) use self::up::{Listen, Output, Up};
pub(crate) use self::values::{ObjectName, ResourceName};
pub(crate) use self::work::Work;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use self::foreign::ForeignFlags;

/// Looks after the end of life of Kubernetes objects.
#[derive(Debug, Parser)]
#[command(name = "caretaker", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See what the controllers do: a story on a server of its own, told in less than a minute
    Demo(Demo),
    /// Start a Kubernetes API server in this process, for kubectl and for tests
    Up(Box<Up>),
    /// Run the controllers against a cluster
    Run(Box<Run>),
    /// Show what hangs on what: owners and their dependents
    Graph(Box<Graph>),
    /// Say why an object lives, what holds up its end, and what garbage collection would do with it
    Explain(Box<Explain>),
    /// Print the definitions of Volcano's kinds, for `kubectl apply -f -`
    Crds,
    /// Cron schedules and CronJobs: when they are due, and one run now
    #[command(subcommand)]
    Schedule(Schedule),
    /// Print the version
    Version,
}

/// Reads a whole command line, the program's name included. With it comes the sentence about flags of the originals that
/// were ignored, if there were any.
pub(crate) fn parse(
    arguments: impl Iterator<Item = OsString>,
) -> Result<(Args, Option<String>), clap::Error> {
    let sifted = ForeignFlags::known().sift(arguments.collect());
    let sifted =
        sifted.map_err(|message| Args::command().error(ErrorKind::InvalidValue, message))?;
    let warning = sifted.warning();
    Ok((Args::try_parse_from(sifted.kept)?, warning))
}

/// Says what is wrong with the command line. Usage errors exit with 1, as in kubectl: 2 is reserved for `--exit-code`.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    // Nothing can be done about a terminal that is gone.
    let _ = error.print();
    ExitCode::from(u8::from(error.use_stderr()))
}
