//! The script of the demo: chapters of steps, read from `data/demo.json`. The runner performs them.

use std::collections::BTreeMap;

use kube::api::DeleteParams;
use serde::Deserialize;
use serde_json::Value;

const SCRIPT: &str = include_str!("../../data/demo.json");

#[derive(Debug, Deserialize)]
pub(crate) struct DemoChapter {
    pub(crate) title: String,
    /// Names in `--controllers`.
    pub(crate) controllers: String,
    pub(crate) namespace: String,
    /// Nodes, Pods and Jobs are simulated from this chapter on.
    pub(crate) simulated: bool,
    /// Manifests by the name that `create` uses. `owner` names an object that was created before.
    pub(crate) objects: BTreeMap<String, Vec<Value>>,
    pub(crate) steps: Vec<ChapterStep>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum ChapterStep {
    Heading(String),
    Say(Vec<String>),
    Create(String),
    /// Waits until the namespace holds this many objects.
    AwaitObjects(usize),
    /// Waits until the garbage collector's graph has all objects of the namespace. An owner that is deleted earlier may
    /// be gone before the collector sees its dependents.
    AwaitSync,
    ShowTree,
    /// Deletes an object as the printed command would.
    Delete {
        command: String,
        object: String,
        policy: DemoDeletePolicy,
    },
    /// Waits for these writes of the controllers and for the number of objects, then prints the writes.
    Expect {
        writes: Vec<ExpectedWrites>,
        objects_left: Option<usize>,
    },
}

/// Prefix of `Kind name`, rule id, and number of writes.
#[derive(Debug, Deserialize)]
pub(crate) struct ExpectedWrites(pub(crate) String, pub(crate) String, pub(crate) usize);

#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) enum DemoDeletePolicy {
    Background,
    Foreground,
    Orphan,
}

// === impl DemoDeletePolicy ===

impl DemoDeletePolicy {
    pub(crate) fn params(self) -> DeleteParams {
        match self {
            Self::Background => DeleteParams::background(),
            Self::Foreground => DeleteParams::foreground(),
            Self::Orphan => DeleteParams::orphan(),
        }
    }
}

pub(crate) fn chapters() -> Vec<DemoChapter> {
    serde_json::from_str(SCRIPT).expect("a test reads the script")
}
