//! The binary `caretaker`: reads the command line and runs what it names.

mod admin;
mod args;
mod commands;
mod crew;
mod demo;
mod output;
mod peers;
mod run;
mod up;
mod wiring;

use std::process::ExitCode;

use crate::args::{Args, Command};

/// Returns memory of deleted objects to the system sooner than the C library's. Without huge pages: a quiet process would
/// hold several times what it needs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let (Args { command }, warning) = match args::parse(std::env::args_os()) {
        Ok(read) => read,
        Err(error) => return args::refuse(&error),
    };
    if let Some(warning) = warning {
        eprintln!("caretaker: {warning}");
    }
    let outcome = match command {
        Command::Demo(args) => demo::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Up(args) => up::run(&args),
        Command::Graph(args) => commands::graph(&args),
        Command::Explain(args) => commands::explain(&args),
        Command::Crds => {
            commands::print(caretaker_simulator::volcano::DEFINITIONS).map(|()| ExitCode::SUCCESS)
        }
        Command::Schedule(args) => commands::schedule(&args),
        Command::Version => {
            let version = concat!("caretaker ", env!("CARGO_PKG_VERSION"), "\n");
            commands::print(version).map(|()| ExitCode::SUCCESS)
        }
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("caretaker: {error:#}");
        ExitCode::FAILURE
    })
}
