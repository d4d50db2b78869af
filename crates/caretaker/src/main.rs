//! The binary `caretaker`: parses the command line and runs the command.

mod admin;
mod args;
mod commands;
mod controller_set;
mod demo;
mod instances;
mod output;
mod peers;
mod run;
mod up;
mod wiring;

use std::process::ExitCode;

use crate::args::{CliArgs, CliCommand};

/// Returns the memory of deleted objects to the system sooner than the C library's allocator. Without huge pages: with
/// them an idle process holds several times the memory it needs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let CliArgs { command } = match args::parse(std::env::args_os()) {
        Ok(args) => args,
        Err(error) => return args::print_error(&error),
    };
    let outcome = match command {
        CliCommand::Demo(args) => demo::run(&args),
        CliCommand::Run(args) => run::run(&args),
        CliCommand::Up(args) => up::run(&args),
        CliCommand::Graph(args) => commands::graph(&args),
        CliCommand::Explain(args) => commands::explain(&args),
        CliCommand::Crds => {
            commands::print(caretaker_simulator::volcano::DEFINITIONS).map(|()| ExitCode::SUCCESS)
        }
        CliCommand::Schedule(args) => commands::schedule(&args),
        CliCommand::Version => {
            let version = concat!("caretaker ", env!("CARGO_PKG_VERSION"), "\n");
            commands::print(version).map(|()| ExitCode::SUCCESS)
        }
    };
    outcome.unwrap_or_else(|error| {
        wiring::notice(&sentence(&error));
        ExitCode::FAILURE
    })
}

/// The error and its causes. A cause that the text already contains is not repeated.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_cause_is_printed_once() {
        let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let plain = Err::<(), _>(missing())
            .context("cannot read a")
            .unwrap_err();
        assert_eq!(sentence(&plain), "cannot read a: entity not found");
        let repeated = caretaker_apiserver::listen::ListenError::Io(missing());
        let text = sentence(&repeated.into());
        assert_eq!(text, "the socket cannot be used: entity not found");
    }
}
