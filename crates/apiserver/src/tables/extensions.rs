//! Columns of admission policies, flow control, CSI, dynamic resources and the rest of the kinds that
//! extend a cluster. Mirrors the printer of kube-apiserver 1.36.

use serde_json::Value;

use super::builtin::{AGE, NAME, UNSET, flag, number, text};
use super::cells::{self, NONE, items, text as string};
use super::columns::CellSource::{Age, NameOf, Of, Text};
use super::columns::{TableColumn, UNDEFINED};
use super::policies;

pub(super) const COMPONENT_STATUSES: &[TableColumn] = &[
    NAME,
    text("Status", Text("/status", "")),
    text("Message", Text("/message", "")),
    text("Error", Text("/error", "")),
];

pub(super) const POD_TEMPLATES: &[TableColumn] = &[
    NAME,
    text("Containers", Of(|of| containers(of, "name"))),
    text("Images", Of(|of| containers(of, "image"))),
    text(
        "Pod Labels",
        Of(|of| cells::labels(&of["template"]["metadata"]["labels"]).into()),
    ),
];

pub(super) const REVISIONS: &[TableColumn] = &[
    NAME,
    text("Controller", Of(controller)),
    text(
        "Revision",
        Of(|of| of["revision"].as_i64().unwrap_or(0).into()),
    ),
    AGE,
];

/// As upstream, the age has a cell and no definition.
pub(super) const IP_ADDRESSES: &[TableColumn] =
    &[NAME, text("ParentRef", Of(parent)), text(UNDEFINED, Age)];

pub(super) const SERVICE_CIDRS: &[TableColumn] = &[
    NAME,
    text("CIDRs", Of(|of| listed(&of["spec"]["cidrs"]))),
    AGE,
];

pub(super) const CSI_DRIVERS: &[TableColumn] = &[
    NAME,
    flag(
        "AttachRequired",
        Of(|of| (of["spec"]["attachRequired"] != false).into()),
    ),
    flag("PodInfoOnMount", Of(|of| is(&of["spec"]["podInfoOnMount"]))),
    flag(
        "StorageCapacity",
        Of(|of| is(&of["spec"]["storageCapacity"])),
    ),
    text("TokenRequests", Of(audiences)),
    flag(
        "RequiresRepublish",
        Of(|of| is(&of["spec"]["requiresRepublish"])),
    ),
    text("Modes", Of(modes)),
    AGE,
];

pub(super) const CSI_NODES: &[TableColumn] = &[
    NAME,
    number("Drivers", Of(|of| policies::count(&of["spec"], "drivers"))),
    AGE,
];

pub(super) const VOLUME_ATTACHMENTS: &[TableColumn] = &[
    NAME,
    text(
        "Attacher",
        NameOf(|of| string(&of["spec"]["attacher"]).into()),
    ),
    text("PV", Text("/spec/source/persistentVolumeName", "")),
    text("Node", Text("/spec/nodeName", "")),
    flag("Attached", Of(|of| is(&of["status"]["attached"]))),
    AGE,
];

pub(super) const ATTRIBUTES_CLASSES: &[TableColumn] =
    &[NAME, text("DriverName", Text("/driverName", "")), AGE];

pub(super) const MUTATING_POLICIES: &[TableColumn] = &[
    NAME,
    number(
        "Mutations",
        Of(|of| policies::count(&of["spec"], "mutations")),
    ),
    text("ParamKind", Of(param_kind)),
    AGE,
];

pub(super) const VALIDATING_POLICIES: &[TableColumn] = &[
    NAME,
    number(
        "Validations",
        Of(|of| policies::count(&of["spec"], "validations")),
    ),
    text("ParamKind", Of(param_kind)),
    AGE,
];

pub(super) const POLICY_BINDINGS: &[TableColumn] = &[
    NAME,
    text("PolicyName", Text("/spec/policyName", "")),
    text("ParamRef", Of(param_ref)),
    AGE,
];

pub(super) const RESOURCE_CLAIMS: &[TableColumn] = &[NAME, text("State", Of(claim_state)), AGE];

pub(super) const RESOURCE_SLICES: &[TableColumn] = &[
    NAME,
    text("Node", Text("/spec/nodeName", "")),
    text("Driver", Text("/spec/driver", "")),
    text("Pool", Text("/spec/pool/name", "")),
    AGE,
];

pub(super) const FLOW_SCHEMAS: &[TableColumn] = &[
    NAME,
    text(
        "PriorityLevel",
        Text("/spec/priorityLevelConfiguration/name", ""),
    ),
    text(
        "MatchingPrecedence",
        Of(|of| {
            of["spec"]["matchingPrecedence"]
                .as_i64()
                .unwrap_or(0)
                .into()
        }),
    ),
    text(
        "DistinguisherMethod",
        Text("/spec/distinguisherMethod/type", NONE),
    ),
    AGE,
    text("MissingPL", Of(missing_level)),
];

pub(super) const PRIORITY_LEVELS: &[TableColumn] = &[
    NAME,
    text("Type", Text("/spec/type", "")),
    text(
        "NominalConcurrencyShares",
        Of(|of| present(&of["spec"]["limited"]["nominalConcurrencyShares"])),
    ),
    text("Queues", Of(|of| queuing(of, "queues"))),
    text("HandSize", Of(|of| queuing(of, "handSize"))),
    text("QueueLengthLimit", Of(|of| queuing(of, "queueLengthLimit"))),
    AGE,
];

fn containers(template: &Value, field: &str) -> Value {
    let containers = items(&template["template"]["spec"]["containers"]);
    let values: Vec<&str> = containers.map(|of| string(&of[field])).collect();
    values.join(",").into()
}

/// The owner that controls a revision, as a resource argument.
fn controller(of: &Value) -> Value {
    let mut owners = items(&of["metadata"]["ownerReferences"]);
    let Some(owner) = owners.find(|owner| owner["controller"] == true) else {
        return NONE.into();
    };
    let kind = string(&owner["kind"]).to_lowercase();
    let name = string(&owner["name"]);
    match string(&owner["apiVersion"]).split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}").into(),
        None => format!("{kind}/{name}").into(),
    }
}

/// The object that an address belongs to: resource with its group, namespace and name.
fn parent(of: &Value) -> Value {
    let parent = &of["spec"]["parentRef"];
    if parent.is_null() {
        return NONE.into();
    }
    let part = |name: &str| string(&parent[name]);
    let resource = match part("group") {
        "" => part("resource").to_owned(),
        group => format!("{}.{group}", part("resource")),
    };
    match part("namespace") {
        "" => format!("{resource}/{}", part("name")).into(),
        namespace => format!("{resource}/{namespace}/{}", part("name")).into(),
    }
}

fn modes(of: &Value) -> Value {
    match listed(&of["spec"]["volumeLifecycleModes"]) {
        Value::String(none) if none.is_empty() => NONE.into(),
        modes => modes,
    }
}

fn audiences(of: &Value) -> Value {
    let requests = &of["spec"]["tokenRequests"];
    if items(requests).next().is_none() {
        return UNSET.into();
    }
    let audiences: Vec<&str> = items(requests).map(|of| string(&of["audience"])).collect();
    audiences.join(",").into()
}

fn param_kind(of: &Value) -> Value {
    let kind = &of["spec"]["paramKind"];
    match kind {
        Value::Object(_) => {
            format!("{}/{}", string(&kind["apiVersion"]), string(&kind["kind"])).into()
        }
        _ => UNSET.into(),
    }
}

/// The parameters of a binding: by name, or by labels in Go's notation.
fn param_ref(of: &Value) -> Value {
    let reference = &of["spec"]["paramRef"];
    if !reference.is_object() {
        return UNSET.into();
    }
    if !string(&reference["name"]).is_empty() {
        let namespace = match string(&reference["namespace"]) {
            "" => "*",
            namespace => namespace,
        };
        return format!("{namespace}/{}", string(&reference["name"])).into();
    }
    let labels = reference["selector"]["matchLabels"].as_object();
    let labels = labels.into_iter().flatten();
    let labels = labels.map(|(name, value)| format!("{name}: {},", string(value)));
    let labels: String = labels.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{}},}}"
    )
    .into()
}

fn claim_state(of: &Value) -> Value {
    let mut states = Vec::new();
    if of["metadata"]["deletionTimestamp"].is_string() {
        states.push("deleted");
    }
    if of["status"]["allocation"].is_object() {
        states.push("allocated");
        if items(&of["status"]["reservedFor"]).next().is_some() {
            states.push("reserved");
        }
    } else if states.is_empty() {
        states.push("pending");
    }
    states.join(",").into()
}

fn missing_level(of: &Value) -> Value {
    let mut conditions = items(&of["status"]["conditions"]);
    let found = conditions.find(|condition| condition["type"] == "Dangling");
    match found {
        Some(condition) => condition["status"].clone(),
        None => "?".into(),
    }
}

fn queuing(of: &Value, field: &str) -> Value {
    present(&of["spec"]["limited"]["limitResponse"]["queuing"][field])
}

fn present(value: &Value) -> Value {
    match value {
        Value::Null => NONE.into(),
        value => value.clone(),
    }
}

fn listed(list: &Value) -> Value {
    let values: Vec<&str> = items(list).map(string).collect();
    values.join(",").into()
}

fn is(value: &Value) -> Value {
    (*value == true).into()
}
