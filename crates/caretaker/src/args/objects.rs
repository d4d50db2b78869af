//! The flags of the commands that look at objects and change nothing: `caretaker graph` and `caretaker explain`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::settings::{Limits, Zone};
use super::values::{ObjectName, Verbosity};

/// Where the objects are, as in kubectl.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The kubeconfig [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// The namespace [default: the context's]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Graph {
    /// The object to begin with, like deployment/web [default: everything that owns or is owned]
    #[arg(value_name = "TYPE/NAME")]
    pub(crate) object: Option<ObjectName>,

    #[command(flatten)]
    pub(crate) place: Place,

    /// All namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "object"])]
    pub(crate) all_namespaces: bool,

    /// Only owners: what this object hangs on
    #[arg(long, conflicts_with = "down", requires = "object")]
    pub(crate) up: bool,

    /// Only dependents: what hangs on this object
    #[arg(long, requires = "object")]
    pub(crate) down: bool,

    /// How it is drawn
    #[arg(short, long, value_name = "FORMAT", default_value = "tree")]
    pub(crate) output: Drawing,

    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The object, like deployment/web
    #[arg(value_name = "TYPE/NAME")]
    pub(crate) object: ObjectName,

    #[command(flatten)]
    pub(crate) place: Place,

    #[command(flatten)]
    pub(crate) zone: Zone,

    #[command(flatten)]
    pub(crate) limits: Limits,

    /// Print JSON instead of sentences
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<super::up::Output>,

    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

/// The forms of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Drawing {
    Tree,
    Json,
    Dot,
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
        Graph(Graph),
        Explain(Explain),
    }

    fn parse(line: &str) -> Result<Which, clap::Error> {
        let arguments = line.split_whitespace();
        Wrapped::try_parse_from(arguments).map(|wrapped| wrapped.command)
    }

    #[test]
    fn a_graph_may_begin_anywhere_and_go_in_one_direction() {
        let Ok(Which::Graph(graph)) = parse("caretaker graph deploy/web -n shop --up -o dot")
        else {
            panic!("not read");
        };
        assert_eq!(graph.object.unwrap().kind, "deploy");
        assert_eq!(graph.place.namespace.as_deref(), Some("shop"));
        assert!(graph.up && !graph.down && !graph.all_namespaces);
        assert_eq!(graph.output, Drawing::Dot);
        for line in [
            "caretaker graph",
            "caretaker graph -A",
            "caretaker graph -o json",
        ] {
            assert!(matches!(parse(line), Ok(Which::Graph(_))), "{line}");
        }
        for line in [
            "caretaker graph web",
            "caretaker graph --up",
            "caretaker graph pod/a --up --down",
            "caretaker graph -A -n shop",
            "caretaker graph -o yaml",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn an_explanation_is_about_one_object() {
        let Ok(Which::Explain(explain)) = parse("caretaker explain pod/a --context=b -o json -v")
        else {
            panic!("not read");
        };
        assert_eq!(explain.object.name, "a");
        assert_eq!(explain.place.context.as_deref(), Some("b"));
        assert!(explain.output.is_some());
        assert_eq!(explain.verbosity.level(), 1);
        assert!(parse("caretaker explain").is_err());
    }
}
