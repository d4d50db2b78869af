//! The API suite: what any client of a Kubernetes API server can see of requests, watches, conflicts and deletes.
//!
//! The answers of the real server are frozen under `data/api`, one file per theme; the embedded server has to give the
//! same ones. Every scenario is one check of the facts collected about the real server, or a small group of them.

mod collection;
mod columns;
mod crd;
mod create;
mod cronjobs;
mod custom;
mod delete;
mod discovery;
mod hostile;
mod list;
mod namespace;
mod owners;
mod patch;
mod paths;
mod schema;
mod strategic;
mod table;
mod update;
mod watch;
mod workloads;

use super::Theme;

/// The themes of the suite.
pub const THEMES: &[Theme] = &[
    Theme {
        name: "paths",
        scenarios: paths::SCENARIOS,
    },
    Theme {
        name: "discovery",
        scenarios: discovery::SCENARIOS,
    },
    Theme {
        name: "create",
        scenarios: create::SCENARIOS,
    },
    Theme {
        name: "update",
        scenarios: update::SCENARIOS,
    },
    Theme {
        name: "patch",
        scenarios: patch::SCENARIOS,
    },
    Theme {
        name: "strategic",
        scenarios: strategic::SCENARIOS,
    },
    Theme {
        name: "owners",
        scenarios: owners::SCENARIOS,
    },
    Theme {
        name: "delete",
        scenarios: delete::SCENARIOS,
    },
    Theme {
        name: "collection",
        scenarios: collection::SCENARIOS,
    },
    Theme {
        name: "namespace",
        scenarios: namespace::SCENARIOS,
    },
    Theme {
        name: "list",
        scenarios: list::SCENARIOS,
    },
    Theme {
        name: "watch",
        scenarios: watch::SCENARIOS,
    },
    Theme {
        name: "table",
        scenarios: table::SCENARIOS,
    },
    Theme {
        name: "columns",
        scenarios: columns::SCENARIOS,
    },
    Theme {
        name: "hostile",
        scenarios: hostile::SCENARIOS,
    },
    Theme {
        name: "crd",
        scenarios: crd::SCENARIOS,
    },
    Theme {
        name: "custom",
        scenarios: custom::SCENARIOS,
    },
    Theme {
        name: "schema",
        scenarios: schema::SCENARIOS,
    },
    Theme {
        name: "workloads",
        scenarios: workloads::SCENARIOS,
    },
    Theme {
        name: "cronjobs",
        scenarios: cronjobs::SCENARIOS,
    },
];
