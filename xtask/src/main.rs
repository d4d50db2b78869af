//! The binary behind `cargo xtask`: parses the command line and runs the command.

mod args;
mod commands;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args::XtaskArgs { command } = match args::XtaskArgs::try_parse() {
        Ok(args) => args,
        Err(error) => return args::refuse(&error),
    };
    let mut out = io::stdout().lock();
    let done = commands::run(command, &mut out).and_then(|()| Ok(out.flush()?));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe early, as in `… | head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .root_cause()
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
