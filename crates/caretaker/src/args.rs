//! The command line as types: flags are parsed and checked here. The code that uses a flag decides what it does.
//!
//! - [`DemoFlags`], [`RunFlags`], [`UpFlags`]: the commands with controllers; the last two share [`ControllerFlags`].
//! - [`GraphFlags`], [`ExplainFlags`]: the read-only commands; both have [`ClusterFlags`].
//! - [`ScheduleCommand`]: the commands about cron schedules.
//! - `decision_flags`: flags that change decisions, shared by `run`, `up` and `explain`.
//! - [`ControllerSelection`]: the value of `--controllers`.
//! - `hints`: messages for common mistakes.
//! - `ignored`: flags of upstream's controller managers that are accepted and ignored.

mod controller_flags;
mod decision_flags;
mod hints;
mod ignored;
mod inspect;
mod leader_flags;
mod run;
mod schedule;
mod selection;
mod up;
mod values;

pub(crate) use self::controller_flags::{ControllerFlags, LogFormat};
pub(crate) use self::inspect::{ClusterFlags, ExplainFlags, GraphFlags, GraphFormat};
pub(crate) use self::run::RunFlags;
pub(crate) use self::schedule::{
    CronJobName, ListFormat, ScheduleCommand, ScheduleList, ScheduleNext, ScheduleRun,
};
pub(crate) use self::selection::{
    BATCH_CRON, BATCH_TTL, GARBAGE_COLLECTOR, POD_GC, VOLCANO_CRON, VOLCANO_TTL,
};
pub(crate) use self::up::{ListenAddress, OutputFormat, UpFlags};
pub(crate) use self::values::{ObjectArgument, ResourceName};

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};

use self::ignored::IgnoredFlags;

/// End-of-life controllers for Kubernetes objects, and an API server to try them on
#[derive(Debug, Parser)]
#[command(name = "caretaker", version, arg_required_else_help = true)]
pub(crate) struct CliArgs {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Args)]
pub(crate) struct DemoFlags {
    /// Keep the server running after the demo, until Ctrl-C
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Show the controllers at work on a built-in API server; takes half a minute
    Demo(DemoFlags),
    /// Start a Kubernetes API server in this process, for kubectl and for tests
    Up(Box<UpFlags>),
    /// Run the controllers against a cluster
    Run(Box<RunFlags>),
    /// Show owners and their dependents
    Graph(Box<GraphFlags>),
    /// Explain why an object exists, what blocks its deletion, and what each controller would do with it
    Explain(Box<ExplainFlags>),
    /// Print the CRDs of Volcano, for `kubectl apply -f -`
    Crds,
    /// Show the times of cron schedules and CronJobs, or run a CronJob now
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// Print the version
    Version,
}

/// Parses a command line, which begins with the program's name.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<CliArgs, clap::Error> {
    let sifted = IgnoredFlags::known().sift(arguments.collect());
    let sifted =
        sifted.map_err(|error| CliArgs::command().error(ErrorKind::InvalidValue, error))?;
    let warning = sifted.warning();
    let usage = |sentence| CliArgs::command().error(ErrorKind::InvalidValue, sentence);
    let mut args = CliArgs::try_parse_from(&sifted.kept)
        .map_err(|error| hints::hint(&sifted.kept, &error).map_or(error, usage))?;
    match &mut args.command {
        CliCommand::Run(run) => run.ignored = warning,
        CliCommand::Graph(graph) => drop(graph.object().map_err(usage)?),
        CliCommand::Explain(explain) => drop(explain.object().map_err(usage)?),
        _ => {}
    }
    Ok(args)
}

/// Prints what is wrong with the command line. Usage errors exit with 1, as in kubectl: 2 is reserved for `--exit-code`.
pub(crate) fn print_error(error: &clap::Error) -> ExitCode {
    // A closed terminal cannot show the error.
    let _ = error.print();
    ExitCode::from(u8::from(error.use_stderr()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_answered_with_the_line_that_works() {
        let said = |words: &[&str]| {
            let words = ["caretaker"].iter().chain(words).map(OsString::from);
            parse(words).unwrap_err().to_string()
        };
        for (words, line) in [
            (
                &["up", "kubectl", "get", "ns"][..],
                "caretaker up -- kubectl get ns",
            ),
            (
                &["up", "--clock-speed", "60", "sh", "-c", "kubectl get pods"],
                "caretaker up --clock-speed 60 -- sh -c 'kubectl get pods'",
            ),
            (
                &["schedule", "next", "30", "2", "*", "*", "*"],
                "caretaker schedule next '30 2 * * *'",
            ),
            (
                &["schedule", "next", "@every", "90m", "--count", "3"],
                "caretaker schedule next '@every 90m'",
            ),
            (
                &[
                    "schedule",
                    "next",
                    "0",
                    "0",
                    "Cargo.toml",
                    "src",
                    "docs",
                    "README.md",
                ],
                "caretaker schedule next '30 2 * * *'",
            ),
            (&["graph", "pods"], "pods/NAME"),
            (&["graph", "pod/a", "pod/b"], "give one object"),
            (&["explain", "web"], "web/NAME"),
        ] {
            let text = said(words);
            assert!(text.contains(line), "{words:?}: {text}");
        }
        assert!(said(&["up", "--listn", "a"]).contains("unexpected argument '--listn'"));
    }
}
