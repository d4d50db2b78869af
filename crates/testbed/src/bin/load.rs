//! Puts a load on one API server and prints what a client saw of it, as one line of JSON. `cargo xtask bench` runs it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use caretaker_controllers::gc::GarbageCollector;
use caretaker_simulator::volcano;
use caretaker_testbed::load::{
    CascadeLoad, CreateLoad, DeleteLoad, FamilyLoad, GraphMemory, ListLoad, PodLoad, PodRemoval,
    TimedEvent, TimedLoad, WatchLoad,
};
use caretaker_testbed::suites::cron::{BATCH, JobDialect, VOLCANO};
use caretaker_testbed::target::Target;
use clap::{Args, Parser, Subcommand};
use serde_json::{Value, to_value};

/// The one the product has, so that memory measured here is memory there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Drives an API server.
#[derive(Parser)]
struct LoadCli {
    /// The server: the current context of this kubeconfig; not needed for what happens in this process
    kubeconfig: Option<PathBuf>,
    #[command(subcommand)]
    command: LoadCommand,
}

#[derive(Subcommand)]
enum LoadCommand {
    /// Create ConfigMaps of one kilobyte
    Create(CreateLoad),
    /// Delete ConfigMaps that `create` made
    Delete(CreateLoad),
    /// List all ConfigMaps of a namespace
    List(ListLoad),
    /// Create ConfigMaps while others watch, and wait until these have seen all of them
    Watch(WatchLoad),
    /// Create owners and dependents
    GcCreate(FamilyLoad),
    /// Delete the owners that `gc-create` made and wait until a collector has done its work
    GcRun(CascadeLoad),
    /// Make Pods that Pod GC has to remove
    PodsPlant(PodLoad),
    /// Wait until only `left` Pods are left
    PodsRun(PodRemoval),
    /// Define the kinds of Volcano
    VolcanoInstall,
    /// Make finished Jobs whose time comes, and wait until a controller has deleted them
    TtlRun {
        #[command(flatten)]
        timed: TimedArgs,
        /// Seconds from one Job's time to the next one's; 0 for all at once
        #[arg(long, default_value_t = 0)]
        apart: u32,
    },
    /// Make CronJobs whose slot comes in one minute, and wait until a controller has made their Jobs
    CronRun(TimedArgs),
    /// Feed the collector's graph in this process and say how much memory each object takes
    GraphMemory(GraphMemory),
}

/// Objects whose time comes.
#[derive(Args)]
struct TimedArgs {
    /// The namespace of the objects
    namespace: String,
    /// The number of objects
    #[arg(long)]
    count: usize,
    /// Volcano's instead of Kubernetes' own
    #[arg(long)]
    volcano: bool,
    /// How long making them may take, in seconds
    #[arg(long)]
    lead: u64,
    /// How many make them at once
    #[arg(long)]
    clients: usize,
    /// How long it may take after the last one's time, in seconds
    #[arg(long, default_value_t = 600)]
    within: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let LoadCli {
        kubeconfig,
        command,
    } = LoadCli::parse();
    println!("{}", run(kubeconfig, command).await?);
    Ok(())
}

async fn run(kubeconfig: Option<PathBuf>, command: LoadCommand) -> anyhow::Result<Value> {
    if let LoadCommand::GraphMemory(load) = command {
        return graph_memory(load);
    }
    let server = kubeconfig.context("which server? Name its kubeconfig first")?;
    Ok(match command {
        LoadCommand::Create(load) => to_value(load.run(&server).await?)?,
        LoadCommand::Delete(load) => to_value(DeleteLoad(load).run(&server).await?)?,
        LoadCommand::List(load) => to_value(load.run(&server).await?)?,
        LoadCommand::Watch(load) => to_value(load.run(&server).await?)?,
        LoadCommand::GcCreate(load) => to_value(load.run(&server).await?)?,
        LoadCommand::GcRun(load) => to_value(load.run(&server).await?)?,
        LoadCommand::PodsPlant(load) => to_value(load.plant(&server).await?)?,
        LoadCommand::PodsRun(load) => to_value(load.run(&server).await?)?,
        LoadCommand::VolcanoInstall => {
            volcano::install(Target::real(&server).await?.client()).await?;
            Value::Null
        }
        LoadCommand::TtlRun { timed, apart } => {
            let expiry = TimedEvent::JobExpiry { apart };
            to_value(timed.load(expiry).run(&server).await?)?
        }
        LoadCommand::CronRun(timed) => {
            to_value(timed.load(TimedEvent::CronTick).run(&server).await?)?
        }
        LoadCommand::GraphMemory(load) => graph_memory(load)?,
    })
}

/// Memory of the collector's index.
fn graph_memory(load: GraphMemory) -> anyhow::Result<Value> {
    let (held, collector) = load.run(GarbageCollector::new(1))?;
    // What is measured is what it holds, so it has to live until then.
    drop(collector);
    Ok(to_value(held)?)
}

// === impl TimedArgs ===

impl TimedArgs {
    fn dialect(&self) -> &'static JobDialect {
        match self.volcano {
            true => &VOLCANO,
            false => &BATCH,
        }
    }

    fn load(self, event: TimedEvent) -> TimedLoad {
        TimedLoad {
            event,
            dialect: self.dialect(),
            namespace: self.namespace,
            count: self.count,
            lead: Duration::from_secs(self.lead),
            clients: self.clients,
            within: Duration::from_secs(self.within),
        }
    }
}
