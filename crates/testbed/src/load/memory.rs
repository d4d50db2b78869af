//! How much memory a controller's index takes for each object, measured in this process.
//!
//! Records go in as a feed would hand them on and are dropped right after, so that what stays is what the controller
//! keeps. The figure is resident memory, as an operator sees it, with the allocator of the binary that runs this; it
//! includes what hash tables and allocators hold in reserve.

use std::fs;
use std::sync::Arc;

use anyhow::Context as _;
use caretaker_controllers::runtime::controller::{Controller, ObservedChange, WakeList};
use caretaker_controllers::runtime::kind::{
    ApiKind, KindCatalog, KindId, KindScope, KindState, KindVerbs,
};
use caretaker_controllers::runtime::record::{
    ObjectRecord, OwnerRef, RecordBody, RecordMeta, Revision, Uid,
};
use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

/// Dependents of one owner: what a Deployment of middling size has.
const FAN: u64 = 20;
/// Namespaces over which the objects are spread.
const NAMESPACES: u64 = 100;
/// The one time there is in this measurement.
const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Objects to be held: Pods with the owners they belong to.
#[derive(Args, Clone, Copy, Debug)]
pub struct GraphMemory {
    /// How many objects
    #[arg(long)]
    pub objects: u64,
}

/// What holding them came to.
#[derive(Debug, Serialize)]
pub struct MemorySummary {
    /// How many objects.
    pub count: u64,
    /// Resident memory of this process before, in bytes.
    pub before_bytes: u64,
    /// Resident memory of this process with all objects held, in bytes.
    pub after_bytes: u64,
    /// What was added, for each object, in bytes.
    pub bytes_per_object: f64,
}

// === impl GraphMemory ===

impl GraphMemory {
    /// Feeds a controller and answers with it, so that what it holds outlives the second look at the memory.
    pub fn run<C: Controller>(&self, mut controller: C) -> anyhow::Result<(MemorySummary, C)> {
        let mut wake = WakeList::default();
        let mut observe = |change: &ObservedChange| {
            controller.observe(change, NOW, &mut wake);
            wake.drain().for_each(drop);
        };
        let catalog = KindCatalog::default().with([deployments(), pods()]);
        observe(&ObservedChange::Catalog(Arc::new(catalog)));
        let before_bytes = resident_bytes()?;
        for number in 0..self.objects {
            observe(&ObservedChange::Applied(Arc::new(record(number))));
        }
        for kind in [KindId(0), KindId(1)] {
            observe(&ObservedChange::Kind(kind, KindState::Synced));
        }
        let after_bytes = resident_bytes()?;
        let added = after_bytes.saturating_sub(before_bytes) as f64;
        let held = MemorySummary {
            count: self.objects,
            before_bytes,
            after_bytes,
            bytes_per_object: added / self.objects.max(1) as f64,
        };
        Ok((held, controller))
    }
}

fn deployments() -> ApiKind {
    kind("apps", "Deployment", "deployments")
}

fn pods() -> ApiKind {
    kind("", "Pod", "pods")
}

fn kind(group: &str, kind: &str, resource: &str) -> ApiKind {
    ApiKind {
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        resource: resource.into(),
        scope: KindScope::Namespaced,
        verbs: KindVerbs {
            get: true,
            list: true,
            watch: true,
            delete: true,
        },
        versions: vec!["v1".into()],
        aliases: Vec::new(),
    }
}

/// Object `number`: an owner, or one of the [`FAN`] that follow it and belong to it.
fn record(number: u64) -> ObjectRecord {
    let owner = number - number % (FAN + 1);
    let owner_name = format!("web-{owner:x}");
    let is_owner = owner == number;
    let reference = OwnerRef {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        name: owner_name.as_str().into(),
        uid: uid(owner),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    ObjectRecord {
        kind: KindId(u16::from(!is_owner)),
        meta: RecordMeta {
            name: if is_owner {
                owner_name.into()
            } else {
                format!("{owner_name}-7d9c5bd6b4-{number:05x}").into()
            },
            namespace: format!("team-{}", owner % NAMESPACES).into(),
            uid: uid(number),
            revision: Revision::Number(1000 + number),
            owners: (!is_owner).then_some(reference).into_iter().collect(),
            ..RecordMeta::default()
        },
        body: RecordBody::None,
    }
}

/// A UUID made from a number; the multiplier spreads neighbours over the whole range, as random ones are.
fn uid(number: u64) -> Uid {
    let spread = (u128::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    Uid::Uuid(spread.to_be_bytes())
}

/// `VmRSS` of this process.
fn resident_bytes() -> anyhow::Result<u64> {
    let status =
        fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB"));
    let kibibytes = kibibytes.and_then(|number| number.trim().parse::<u64>().ok());
    Ok(kibibytes.context("/proc/self/status has no VmRSS")? * 1024)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use caretaker_controllers::runtime::controller::{
        AnsweredCall, DecisionReason, EventNote, NextStep, Verdict,
    };

    use super::*;

    /// Keeps a kilobyte for each object.
    #[derive(Default)]
    struct Hoarder(BTreeMap<Uid, (Box<[u8]>, Option<Uid>)>);

    #[derive(Clone)]
    struct Never;

    impl std::fmt::Display for Never {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            Ok(())
        }
    }

    impl DecisionReason for Never {
        fn rule(&self) -> &'static str {
            "Never"
        }
    }

    impl Controller for Hoarder {
        type Key = u64;
        type Reason = Never;

        fn name(&self) -> &'static str {
            "hoarder"
        }

        fn observe(&mut self, change: &ObservedChange, _: Timestamp, wake: &mut WakeList<u64>) {
            if let ObservedChange::Applied(record) = change {
                let owner = record.meta.owners.first().map(|owner| owner.uid.clone());
                let kept = vec![1; 1024].into_boxed_slice();
                self.0.insert(record.meta.uid.clone(), (kept, owner));
                wake.now(0);
            }
        }

        fn decide(&self, _: &u64, _: Timestamp) -> Verdict<u64, Never> {
            Verdict {
                next: NextStep::Rest,
                because: Never,
                notes: Vec::new(),
            }
        }

        fn answered(&mut self, _: AnsweredCall<'_, u64>) -> Vec<EventNote> {
            Vec::new()
        }

        fn keys(&self, _: &ObjectRecord) -> Vec<u64> {
            Vec::new()
        }
    }

    #[test]
    fn measures_kept_objects_whose_references_all_resolve() {
        let memory = GraphMemory { objects: 21_000 };
        let (held, hoarder) = memory.run(Hoarder::default()).unwrap();
        assert!(held.bytes_per_object > 500.0, "{held:?}");
        assert_eq!(hoarder.0.len(), 21_000);
        let owners: Vec<_> = hoarder
            .0
            .values()
            .filter_map(|(_, owner)| owner.as_ref())
            .collect();
        assert_eq!(owners.len(), 20_000);
        assert!(owners.iter().all(|owner| hoarder.0.contains_key(*owner)));
    }
}
