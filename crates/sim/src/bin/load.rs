//! Puts a load on one API server and prints what a client saw of it, as one line of JSON. `cargo xtask bench` runs it.

use std::path::PathBuf;

use caretaker_sim::load::{Creates, Fanout, List};
use clap::{Parser, Subcommand};

/// Drives an API server.
#[derive(Parser)]
struct Cli {
    /// The server: the current context of this kubeconfig
    kubeconfig: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create ConfigMaps of one kilobyte
    Create {
        /// Where
        namespace: String,
        /// The number of the first one, from which its name is made
        #[arg(long, default_value_t = 0)]
        first: usize,
        /// How many at once
        #[arg(long)]
        clients: usize,
        /// How many in all
        #[arg(long)]
        count: usize,
    },
    /// List all ConfigMaps of a namespace
    List {
        /// Which
        namespace: String,
        /// How often
        #[arg(long)]
        times: usize,
    },
    /// Create ConfigMaps while others watch, and wait until these have seen all of them
    Watch {
        /// Where; it must be empty
        namespace: String,
        /// How many watch
        #[arg(long)]
        watchers: usize,
        /// How many create at once
        #[arg(long)]
        clients: usize,
        /// How many are created in all
        #[arg(long)]
        count: usize,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Cli {
        kubeconfig,
        command,
    } = Cli::parse();
    let measured = match command {
        Command::Create {
            namespace,
            first,
            clients,
            count,
        } => {
            Creates {
                namespace,
                first,
                clients,
                count,
            }
            .run(&kubeconfig)
            .await
        }
        Command::List { namespace, times } => List { namespace, times }.run(&kubeconfig).await,
        Command::Watch {
            namespace,
            watchers,
            clients,
            count,
        } => {
            let creates = Creates {
                namespace,
                first: 0,
                clients,
                count,
            };
            Fanout { watchers, creates }.run(&kubeconfig).await
        }
    };
    println!("{}", serde_json::to_string(&measured?)?);
    Ok(())
}
