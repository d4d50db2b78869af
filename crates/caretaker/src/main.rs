//! The binary `caretaker`: reads the command line and runs what it names.

mod args;
mod up;
mod wiring;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};

/// Returns memory of deleted objects to the system sooner than the C library's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let Args { command } = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return args::refuse(&error),
    };
    let outcome = match command {
        Command::Up(args) => up::run(&args),
        Command::Version => {
            println!("caretaker {}", env!("CARGO_PKG_VERSION"));
            Ok(ExitCode::SUCCESS)
        }
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("caretaker: {error:#}");
        ExitCode::FAILURE
    })
}
