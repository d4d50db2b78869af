//! The binary `caretaker`: reads the command line and runs what it names.

mod args;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args::Args { command } = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => return args::refuse(&error),
    };
    match command {
        args::Command::Version => println!("caretaker {}", env!("CARGO_PKG_VERSION")),
    }
    ExitCode::SUCCESS
}
