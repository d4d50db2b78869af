//! The API suite: what any client of a Kubernetes API server can see of requests, watches, conflicts and deletes.
//!
//! The answers of the real server are frozen under `data/api`, one file per theme; the embedded server has to give the
//! same ones. Every case checks one fact about the real server, or a small group of them.

mod bootstrap;
mod collection;
mod columns;
mod crd;
mod create;
mod cronjobs;
mod custom;
mod delete;
mod discovery;
mod eviction;
mod hostile;
mod identity;
mod list;
mod namespace;
mod node_access;
mod owners;
mod parts;
mod patch;
mod paths;
mod priorities;
mod reviews;
mod scale;
mod schema;
mod services;
mod strategic;
mod table;
mod tokens;
mod update;
mod validation;
mod watch;
mod workloads;

use super::{CaseSuite, CaseTheme};
use crate::case::TestCase;

/// The suite; its cases run without controllers.
pub static SUITE: CaseSuite = CaseSuite {
    name: "api",
    controllers: &[],
    themes: &[
        theme("paths", paths::CASES),
        theme("discovery", discovery::CASES),
        theme("create", create::CASES),
        theme("update", update::CASES),
        theme("validation", validation::CASES),
        theme("patch", patch::CASES),
        theme("strategic", strategic::CASES),
        theme("owners", owners::CASES),
        theme("delete", delete::CASES),
        theme("collection", collection::CASES),
        theme("namespace", namespace::CASES),
        theme("list", list::CASES),
        theme("watch", watch::CASES),
        theme("table", table::CASES),
        theme("columns", columns::CASES),
        theme("hostile", hostile::CASES),
        theme("crd", crd::CASES),
        theme("custom", custom::CASES),
        theme("schema", schema::CASES),
        theme("workloads", workloads::CASES),
        theme("cronjobs", cronjobs::CASES),
        theme("scale", scale::CASES),
        theme("eviction", eviction::CASES),
        theme("parts", parts::CASES),
        theme("node_access", node_access::CASES),
        theme("services", services::CASES),
        theme("priorities", priorities::CASES),
        theme("bootstrap", bootstrap::CASES),
        theme("identity", identity::CASES),
        theme("tokens", tokens::CASES),
        theme("reviews", reviews::CASES),
    ],
};

const fn theme(name: &'static str, cases: &'static [TestCase]) -> CaseTheme {
    CaseTheme { name, cases }
}
