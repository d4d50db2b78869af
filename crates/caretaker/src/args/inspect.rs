//! The flags of the read-only commands `caretaker graph` and `caretaker explain`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::decision_flags::{RetentionFlags, ZoneFlag};
use super::values::{ObjectArgument, VerbosityFlags};

/// Selects the cluster and the namespace, as in kubectl.
#[derive(Debug, Args)]
pub(crate) struct ClusterFlags {
    /// Path of the kubeconfig [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// Name of a running `caretaker up` of this machine, instead of a kubeconfig [default: the only one, if there is no
    /// kubeconfig]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["kubeconfig", "context"])]
    pub(crate) name: Option<String>,

    /// Namespace [default: that of the context]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct GraphFlags {
    /// Object to start from, like deployment/web or deployment web [default: all objects with owners or dependents]
    #[arg(value_name = "TYPE/NAME", id = "object")]
    words: Vec<String>,

    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,

    /// Show all namespaces, not only one
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "object"])]
    pub(crate) all_namespaces: bool,

    /// Show owners only
    #[arg(long, conflicts_with = "down", requires = "object")]
    pub(crate) up: bool,

    /// Show dependents only
    #[arg(long, requires = "object")]
    pub(crate) down: bool,

    /// Format of the output
    #[arg(short, long, value_name = "FORMAT", default_value = "tree")]
    pub(crate) output: GraphFormat,

    #[command(flatten)]
    pub(crate) verbosity: VerbosityFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainFlags {
    /// Object, like deployment/web or deployment web
    #[arg(value_name = "TYPE/NAME", required = true)]
    words: Vec<String>,

    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,

    /// Kubeconfig of the admin server of a running caretaker, to show its last failures about the object [default: those
    /// of this user's processes for this cluster]
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_kubeconfig: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) zone: ZoneFlag,

    #[command(flatten)]
    pub(crate) retention: RetentionFlags,

    /// Print JSON instead of text
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<super::up::OutputFormat>,

    #[command(flatten)]
    pub(crate) verbosity: VerbosityFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    Tree,
    Json,
    Dot,
}

// === impl GraphFlags ===

impl GraphFlags {
    /// The object to start from.
    pub(crate) fn object(&self) -> Result<Option<ObjectArgument>, String> {
        ObjectArgument::of(&self.words)
    }
}

// === impl ExplainFlags ===

impl ExplainFlags {
    pub(crate) fn object(&self) -> Result<ObjectArgument, String> {
        let object = ObjectArgument::of(&self.words)?;
        object.ok_or_else(|| "give an object, like deployment/web".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::{Parser, Subcommand};

    use super::*;

    #[derive(Debug, Parser)]
    struct Wrapped {
        #[command(subcommand)]
        command: Which,
    }

    #[derive(Debug, Subcommand)]
    enum Which {
        Graph(GraphFlags),
        Explain(ExplainFlags),
    }

    fn parse(line: &str) -> Result<Which, clap::Error> {
        let arguments = line.split_whitespace();
        Wrapped::try_parse_from(arguments).map(|wrapped| wrapped.command)
    }

    #[test]
    fn graph_takes_an_object_and_a_direction() {
        let Ok(Which::Graph(graph)) = parse("caretaker graph deploy/web -n shop --up -o dot")
        else {
            panic!("not parsed");
        };
        assert_eq!(graph.object().unwrap().unwrap().kind, "deploy");
        assert_eq!(graph.cluster.namespace.as_deref(), Some("shop"));
        assert!(graph.up && !graph.down && !graph.all_namespaces);
        assert_eq!(graph.output, GraphFormat::Dot);
        for line in [
            "caretaker graph",
            "caretaker graph -A",
            "caretaker graph -o json",
        ] {
            assert!(matches!(parse(line), Ok(Which::Graph(_))), "{line}");
        }
        for line in [
            "caretaker graph --up",
            "caretaker graph --name a --kubeconfig b",
            "caretaker graph pod/a --up --down",
            "caretaker graph -A -n shop",
            "caretaker graph -o yaml",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn explain_takes_one_object() {
        let Ok(Which::Explain(explain)) = parse("caretaker explain pod/a --context=b -o json -v")
        else {
            panic!("not parsed");
        };
        assert_eq!(explain.object().unwrap().name, "a");
        assert_eq!(explain.cluster.context.as_deref(), Some("b"));
        assert!(explain.output.is_some());
        assert_eq!(explain.verbosity.level(), 1);
        assert!(parse("caretaker explain").is_err());
    }
}
