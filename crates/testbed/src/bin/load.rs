//! Puts a load on one API server and prints what a client saw of it, as one line of JSON. `cargo xtask bench` runs it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use caretaker_controllers::gc::GarbageCollector;
use caretaker_simulator::volcano;
use caretaker_testbed::load::{
    Cascade, Creates, Deletes, Family, Fanout, GraphMemory, List, Plant, Pods, Policy, Removal,
    Shape, TimedEvent, TimedLoad,
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
struct Cli {
    /// The server: the current context of this kubeconfig; not needed for what happens in this process
    kubeconfig: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create ConfigMaps of one kilobyte
    Create(Many),
    /// Delete ConfigMaps that `create` made
    Delete(Many),
    /// List all ConfigMaps of a namespace
    List {
        /// The namespace of the ConfigMaps
        namespace: String,
        /// The number of lists
        #[arg(long)]
        times: usize,
    },
    /// Create ConfigMaps while others watch, and wait until these have seen all of them
    Watch {
        /// Where, and what is created; the namespace must be empty
        #[command(flatten)]
        many: Many,
        /// How many watch
        #[arg(long)]
        watchers: usize,
    },
    /// Create owners and dependents
    GcCreate {
        #[command(flatten)]
        kin: Kin,
        /// How many create at once
        #[arg(long)]
        clients: usize,
    },
    /// Delete the owners that `gc-create` made and wait until a collector has done its work
    GcRun {
        #[command(flatten)]
        kin: Kin,
        /// What becomes of the dependents
        #[arg(long)]
        policy: Policy,
        /// How long it may take, in seconds
        #[arg(long, default_value_t = 600)]
        within: u64,
    },
    /// Make Pods that Pod GC has to remove
    PodsPlant(Planted),
    /// Wait until only `left` Pods are left
    PodsRun(Awaited),
    /// Define the kinds of Volcano
    VolcanoInstall,
    /// Make finished Jobs whose time comes, and wait until a controller has deleted them
    TtlRun {
        #[command(flatten)]
        timed: Timed,
        /// Seconds from one Job's time to the next one's; 0 for all at once
        #[arg(long, default_value_t = 0)]
        apart: u32,
    },
    /// Make CronJobs whose slot comes in one minute, and wait until a controller has made their Jobs
    CronRun(Timed),
    /// Feed the collector's graph in this process and say how much memory each object takes
    GraphMemory {
        /// How many objects
        #[arg(long)]
        objects: u64,
    },
}

/// Pods to make.
#[derive(Args)]
struct Planted {
    /// The namespace of the objects
    namespace: String,
    /// The number of objects
    #[arg(long)]
    pods: usize,
    /// The Node that they run on and that does not exist; without one they have terminated
    #[arg(long)]
    node: Option<String>,
    /// How many make them at once
    #[arg(long)]
    clients: usize,
}

/// Pods to wait for.
#[derive(Args)]
struct Awaited {
    /// The namespace of the objects
    namespace: String,
    /// How many stay
    #[arg(long)]
    left: usize,
    /// How long it may take, in seconds
    #[arg(long, default_value_t = 600)]
    within: u64,
}

/// Objects whose time comes.
#[derive(Args)]
struct Timed {
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

/// ConfigMaps of a namespace.
#[derive(Args)]
struct Many {
    /// The namespace of the objects
    namespace: String,
    /// The number of the first one, from which its name is made
    #[arg(long, default_value_t = 0)]
    first: usize,
    /// How many clients at once
    #[arg(long)]
    clients: usize,
    /// How many in all
    #[arg(long)]
    count: usize,
}

/// Owners and dependents.
#[derive(Args)]
struct Kin {
    /// The namespace of the objects
    namespace: String,
    /// How they hang together
    #[arg(long)]
    shape: Shape,
    /// How many owners
    #[arg(long)]
    owners: usize,
    /// How many dependents each of them has
    #[arg(long)]
    dependents: usize,
}

// === impl Many ===

impl Many {
    fn creates(self) -> Creates {
        Creates {
            namespace: self.namespace,
            first: self.first,
            clients: self.clients,
            count: self.count,
        }
    }
}

// === impl Kin ===

impl Kin {
    fn family(self) -> Family {
        Family {
            namespace: self.namespace,
            shape: self.shape,
            owners: self.owners,
            dependents: self.dependents,
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Cli {
        kubeconfig,
        command,
    } = Cli::parse();
    println!("{}", run(kubeconfig, command).await?);
    Ok(())
}

async fn run(kubeconfig: Option<PathBuf>, command: Command) -> anyhow::Result<Value> {
    if let Command::GraphMemory { objects } = command {
        return graph_memory(objects);
    }
    let server = kubeconfig.context("which server? Name its kubeconfig first")?;
    Ok(match command {
        Command::Create(many) => to_value(many.creates().run(&server).await?)?,
        Command::Delete(many) => to_value(Deletes(many.creates()).run(&server).await?)?,
        Command::List { namespace, times } => {
            to_value(List { namespace, times }.run(&server).await?)?
        }
        Command::Watch { many, watchers } => {
            let creates = many.creates();
            to_value(Fanout { watchers, creates }.run(&server).await?)?
        }
        Command::GcCreate { kin, clients } => {
            let family = kin.family();
            to_value(Plant { family, clients }.run(&server).await?)?
        }
        Command::GcRun {
            kin,
            policy,
            within,
        } => {
            let cascade = Cascade {
                family: kin.family(),
                policy,
                within: Duration::from_secs(within),
            };
            to_value(cascade.run(&server).await?)?
        }
        Command::PodsPlant(planted) => to_value(planted.pods().plant(&server).await?)?,
        Command::PodsRun(awaited) => to_value(awaited.removal().run(&server).await?)?,
        Command::VolcanoInstall => {
            volcano::install(Target::real(&server).await?.client()).await?;
            Value::Null
        }
        Command::TtlRun { timed, apart } => {
            let expiry = TimedEvent::JobExpiry { apart };
            to_value(timed.load(expiry).run(&server).await?)?
        }
        Command::CronRun(timed) => to_value(timed.load(TimedEvent::CronTick).run(&server).await?)?,
        Command::GraphMemory { objects } => graph_memory(objects)?,
    })
}

/// Memory of the collector's index.
fn graph_memory(objects: u64) -> anyhow::Result<Value> {
    let (held, collector) = GraphMemory { objects }.run(GarbageCollector::new(1))?;
    // What is measured is what it holds, so it has to live until then.
    drop(collector);
    Ok(to_value(held)?)
}

// === impl Planted ===

impl Planted {
    fn pods(self) -> Pods {
        Pods {
            namespace: self.namespace,
            pods: self.pods,
            node: self.node,
            clients: self.clients,
        }
    }
}

// === impl Awaited ===

impl Awaited {
    fn removal(self) -> Removal {
        Removal {
            namespace: self.namespace,
            left: self.left,
            within: Duration::from_secs(self.within),
        }
    }
}

// === impl Timed ===

impl Timed {
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
