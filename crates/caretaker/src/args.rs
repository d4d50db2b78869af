//! The command line as types. What a flag means is decided where it is used, not here.

mod controllers;
mod up;

pub(crate) use self::controllers::Controllers;
pub(crate) use self::up::{Listen, Output, Up};

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Looks after the end of life of Kubernetes objects.
#[derive(Debug, Parser)]
#[command(name = "caretaker", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a Kubernetes API server in this process, for kubectl and for tests
    Up(Up),
    /// Print the version
    Version,
}

/// Says what is wrong with the command line. Usage errors exit with 1, as in kubectl: 2 is reserved for `--exit-code`.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    // Nothing can be done about a terminal that is gone.
    let _ = error.print();
    ExitCode::from(u8::from(error.use_stderr()))
}
