//! Priorities: the rules of PriorityClasses, and what a class gives to a new Pod.
//!
//! Mirrors the admission plugin Priority and `scheduling/validation`, 1.36.

use std::sync::Arc;

use caretaker_machinery::status::{Status, StatusCause};
use serde_json::Value;

use super::validation::immutable_faults;
use super::{KindStrategy, ObjectAdmission, ObjectChange};
use crate::allocation::Allotment;
use crate::deletion::{self, DeleteDecision, ObjectDelete};
use crate::metadata::{self, ObjectTree, value_at};
use crate::server::ServerState;
use crate::store::{ListScope, ObjectKey, PageFilter, StoredObject};

/// The classes of the system, with their values.
const SYSTEM_CLASSES: [(&str, i64); 2] = [
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];
const SYSTEM_PREFIX: &str = "system-";
/// The highest value of other classes.
const VALUE_MAX: i64 = 1_000_000_000;
const POLICIES: [&str; 2] = ["PreemptLowerPriority", "Never"];
/// The stored bytes of a class that is the default contain this.
const IS_DEFAULT: &[u8] = br#""globalDefault":true"#;

/// The rules of PriorityClasses: they keep value and policy, one is the default, and those of the system stay.
#[derive(Debug)]
pub(super) struct PriorityClassStrategy;

/// What a Pod gets from its class.
struct PodPriority {
    /// Empty if there is no class.
    class: String,
    value: i64,
    policy: String,
}

// === impl PriorityClassStrategy ===

impl KindStrategy for PriorityClassStrategy {
    /// Refuses a second default.
    fn admit<'a>(
        &self,
        write: &ObjectAdmission<'a, '_>,
        class: &mut ObjectTree,
    ) -> Result<Option<Allotment<'a>>, Status> {
        let name = metadata::text(class, "name");
        if class.get("globalDefault") == Some(&Value::Bool(true)) {
            let mut others = default_classes(write.server);
            if let Some(other) = others.find(|other| other.key.name() != name) {
                let why = format!(
                    "PriorityClass {} is already marked as default. Only one default can exist",
                    other.key.name()
                );
                return Err(Status::forbidden(write.kind.resource_named(name), &why));
            }
        }
        Ok(None)
    }

    fn validate(&self, change: &ObjectChange<'_>) -> Vec<StatusCause> {
        let ObjectChange { new, old, .. } = *change;
        let mut causes = Vec::new();
        if let Some(old) = old {
            if old.get("value") != new.get("value") {
                let why = "may not be changed in an update.";
                causes.push(StatusCause::forbidden("value", why));
            }
            causes.extend(immutable_faults(&["/preemptionPolicy"], new, old));
            return causes;
        }
        let (name, value) = (metadata::text(new, "name"), value_at(new, "/value"));
        if name.starts_with(SYSTEM_PREFIX) {
            let known = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name);
            let error = match known {
                None => format!("{name} is not a known system priority class"),
                Some((_, wanted)) if value != wanted => {
                    format!("value of {name} PriorityClass must be {wanted}")
                }
                Some(_) => String::new(),
            };
            if !error.is_empty() {
                let why = format!(
                    "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {error}"
                );
                causes.push(StatusCause::forbidden("metadata.name", &why));
            }
        } else if value.as_i64() > Some(VALUE_MAX) {
            let why = format!("maximum allowed value of a user defined priority is {VALUE_MAX}");
            causes.push(StatusCause::forbidden("value", &why));
        }
        let policy = value_at(new, "/preemptionPolicy").as_str();
        if let Some(policy) = policy.filter(|policy| !POLICIES.contains(policy)) {
            causes.push(StatusCause::not_supported(
                "preemptionPolicy",
                policy,
                &POLICIES,
            ));
        }
        causes
    }

    fn decide_delete(&self, delete: &ObjectDelete<'_>) -> Result<DeleteDecision, Status> {
        let name = metadata::text(delete.object, "name");
        if SYSTEM_CLASSES.iter().any(|(known, _)| *known == name) {
            let why = "this is a system priority class and cannot be deleted";
            return Err(Status::forbidden(delete.kind.resource_named(name), why));
        }
        Ok(deletion::decide(delete))
    }
}

// === impl PodPriority ===

impl PodPriority {
    /// The priority of the class that the Pod names, or of the default class.
    fn find(server: &ServerState, named: &str) -> Option<Self> {
        if named.is_empty() {
            let lowest = default_classes(server)
                .map(|class| Self::of_class(&class))
                .min_by_key(|found| found.value);
            return Some(lowest.unwrap_or_else(|| Self::new("", 0)));
        }
        let kind = server.builtin("scheduling.k8s.io", "priorityclasses");
        let class = server
            .store
            .get(kind.resource, &ObjectKey::new(None, named));
        // A server without bootstrap objects knows the classes of the system, too.
        let system = || SYSTEM_CLASSES.iter().find(|(known, _)| *known == named);
        match class {
            Some(class) => Some(Self::of_class(&class)),
            None => system().map(|(name, value)| Self::new(name, *value)),
        }
    }

    fn new(class: &str, value: i64) -> Self {
        Self {
            class: class.into(),
            value,
            policy: POLICIES[0].into(),
        }
    }

    fn of_class(class: &StoredObject) -> Self {
        let tree = class.to_value();
        let policy = value_at(&tree, "/preemptionPolicy").as_str();
        Self {
            policy: policy.unwrap_or(POLICIES[0]).into(),
            ..Self::new(
                class.key.name(),
                value_at(&tree, "/value").as_i64().unwrap_or(0),
            )
        }
    }
}

/// Sets the priority of a new Pod, or returns why the Pod cannot have the one that it names.
pub(super) fn admit_pod(
    write: &ObjectAdmission<'_, '_>,
    pod: &mut ObjectTree,
) -> Result<(), Status> {
    let name = metadata::text(pod, "name").to_owned();
    let forbidden = |why: &str| Status::forbidden(write.kind.resource_named(&name), why);
    let Some(Value::Object(spec)) = pod.get_mut("spec") else {
        return Ok(());
    };
    let text = |field: &str| spec.get(field).and_then(Value::as_str).unwrap_or_default();
    let named = text("priorityClassName");
    let Some(found) = PodPriority::find(write.server, named) else {
        return Err(forbidden(&format!(
            "no PriorityClass with name {named} was found"
        )));
    };
    let PodPriority {
        class,
        value,
        policy,
    } = found;
    let computed = "must not be provided in pod spec; priority admission controller computed";
    let given = spec.get("priority").and_then(Value::as_i64);
    if let Some(given) = given.filter(|given| *given != value) {
        return Err(forbidden(&format!(
            "the integer value of priority ({given}) {computed} {value} from the given PriorityClass name"
        )));
    }
    let given = text("preemptionPolicy");
    if !given.is_empty() && given != policy {
        return Err(forbidden(&format!(
            "the string value of PreemptionPolicy ({given}) {computed} {policy} from the given PriorityClass name"
        )));
    }
    if !class.is_empty() {
        spec.insert("priorityClassName".into(), class.into());
    }
    spec.insert("priority".into(), value.into());
    spec.insert("preemptionPolicy".into(), policy.into());
    Ok(())
}

/// The classes that are marked as default; users who write at the same time can make more than one.
fn default_classes(server: &ServerState) -> impl Iterator<Item = Arc<StoredObject>> {
    let kind = server.builtin("scheduling.k8s.io", "priorityclasses");
    let is_default = |class: &StoredObject| {
        let mut windows = class.bytes.windows(IS_DEFAULT.len());
        // A description may contain the same text.
        windows.any(|window| window == IS_DEFAULT)
            && class.to_value().get("globalDefault") == Some(&Value::Bool(true))
    };
    let keep = PageFilter {
        matches: &is_default,
        limit: None,
    };
    let page = server
        .store
        .list(kind.resource, &ListScope::default(), None, &keep);
    page.map(|page| page.objects)
        .unwrap_or_default()
        .into_iter()
}
