//! The columns of built-in kinds as data.
//!
//! Names, types, priorities and cells are those of kube-apiserver 1.36.3; the suite `api` of `testbed` compares them (theme
//! `columns`). Cells that need more than one field are functions, in one file per group of kinds.
//!
//! Kinds that are not listed show name and age.

use serde_json::Value;

use super::cells::NONE;
use super::columns::CellSource::{Age, At, CreatedAt, Name, NameOf, Number, Of, Text};
use super::columns::{CellSource, TableColumn};
use super::{events, extensions, nodes, pods, policies, services, volumes, workloads};
use crate::kinds::ServedKind;
use crate::store::StoredObject;

const UNKNOWN: &str = "<unknown>";
pub(super) const UNSET: &str = "<unset>";

/// The columns of a built-in kind.
pub(super) fn columns(kind: &ServedKind) -> &'static [TableColumn] {
    let mut rows = KINDS.iter();
    let row = rows.find(|(group, plural, _)| *group == kind.group && *plural == kind.plural);
    row.map_or(NAME_AND_AGE, |(_, _, columns)| columns)
}

/// The conditions of a row.
pub(super) fn conditions(kind: &ServedKind, tree: &Value) -> Option<Value> {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => pods::conditions(tree),
        _ => None,
    }
}

/// Sorts the rows of kinds whose order is not that of their names: FlowSchemas match in the order of their precedence.
pub(super) fn sort(kind: &ServedKind, objects: &mut [&StoredObject]) {
    if (kind.group.as_str(), kind.plural.as_str())
        == ("flowcontrol.apiserver.k8s.io", "flowschemas")
    {
        objects.sort_by_cached_key(|object| {
            let precedence = object.to_value()["spec"]["matchingPrecedence"].as_i64();
            precedence.unwrap_or_default()
        });
    }
}

/// Group, plural and columns of the kinds that show more than name and age.
const KINDS: [(&str, &str, &[TableColumn]); 58] = [
    ("", "componentstatuses", extensions::COMPONENT_STATUSES),
    ("", "podtemplates", extensions::POD_TEMPLATES),
    ("apps", "controllerrevisions", extensions::REVISIONS),
    ("networking.k8s.io", "ipaddresses", extensions::IP_ADDRESSES),
    (
        "networking.k8s.io",
        "servicecidrs",
        extensions::SERVICE_CIDRS,
    ),
    ("storage.k8s.io", "csidrivers", extensions::CSI_DRIVERS),
    ("storage.k8s.io", "csinodes", extensions::CSI_NODES),
    (
        "storage.k8s.io",
        "volumeattachments",
        extensions::VOLUME_ATTACHMENTS,
    ),
    (
        "storage.k8s.io",
        "volumeattributesclasses",
        extensions::ATTRIBUTES_CLASSES,
    ),
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicies",
        extensions::MUTATING_POLICIES,
    ),
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings",
        extensions::POLICY_BINDINGS,
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
        extensions::VALIDATING_POLICIES,
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
        extensions::POLICY_BINDINGS,
    ),
    (
        "resource.k8s.io",
        "resourceclaims",
        extensions::RESOURCE_CLAIMS,
    ),
    (
        "resource.k8s.io",
        "resourceslices",
        extensions::RESOURCE_SLICES,
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "flowschemas",
        extensions::FLOW_SCHEMAS,
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations",
        extensions::PRIORITY_LEVELS,
    ),
    ("", "configmaps", CONFIG_MAPS),
    ("", "endpoints", ENDPOINTS),
    ("", "events", EVENTS),
    ("", "limitranges", NAME_AND_CREATION),
    ("", "namespaces", NAMESPACES),
    ("", "nodes", NODES),
    ("", "persistentvolumeclaims", CLAIMS),
    ("", "persistentvolumes", VOLUMES),
    ("", "pods", PODS),
    ("", "replicationcontrollers", REPLICATION_CONTROLLERS),
    ("", "resourcequotas", QUOTAS),
    ("", "secrets", SECRETS),
    ("", "services", SERVICES),
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        WEBHOOKS,
    ),
    (
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        WEBHOOKS,
    ),
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        NAME_AND_CREATION,
    ),
    ("apiregistration.k8s.io", "apiservices", API_SERVICES),
    ("apps", "daemonsets", DAEMON_SETS),
    ("apps", "deployments", DEPLOYMENTS),
    ("apps", "replicasets", REPLICA_SETS),
    ("apps", "statefulsets", STATEFUL_SETS),
    ("autoscaling", "horizontalpodautoscalers", AUTOSCALERS),
    ("autoscaling", "scale", SCALES),
    ("batch", "cronjobs", CRON_JOBS),
    ("batch", "jobs", JOBS),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        CERTIFICATE_REQUESTS,
    ),
    ("coordination.k8s.io", "leases", LEASES),
    ("discovery.k8s.io", "endpointslices", ENDPOINT_SLICES),
    ("events.k8s.io", "events", EVENTS),
    ("networking.k8s.io", "ingressclasses", INGRESS_CLASSES),
    ("networking.k8s.io", "ingresses", INGRESSES),
    ("networking.k8s.io", "networkpolicies", NETWORK_POLICIES),
    ("node.k8s.io", "runtimeclasses", RUNTIME_CLASSES),
    ("policy", "poddisruptionbudgets", BUDGETS),
    ("rbac.authorization.k8s.io", "clusterrolebindings", BINDINGS),
    (
        "rbac.authorization.k8s.io",
        "clusterroles",
        NAME_AND_CREATION,
    ),
    ("rbac.authorization.k8s.io", "rolebindings", BINDINGS),
    ("rbac.authorization.k8s.io", "roles", NAME_AND_CREATION),
    ("scheduling.k8s.io", "priorityclasses", PRIORITY_CLASSES),
    ("storage.k8s.io", "csistoragecapacities", NAME_AND_CREATION),
    ("storage.k8s.io", "storageclasses", STORAGE_CLASSES),
];

pub(super) const NAME: TableColumn = text("Name", Name);
pub(super) const AGE: TableColumn = text("Age", Age);
const NAME_AND_AGE: &[TableColumn] = &[NAME, AGE];
/// Columns of kinds that upstream has no printer for.
const NAME_AND_CREATION: &[TableColumn] =
    &[NAME, TableColumn::new("Created At", "date", CreatedAt)];

const CONFIG_MAPS: &[TableColumn] = &[
    NAME,
    text(
        "Data",
        Of(|map| volumes::entries(map, &["data", "binaryData"])),
    ),
    AGE,
];

const SECRETS: &[TableColumn] = &[
    NAME,
    text("Type", Text("/type", "")),
    text("Data", Of(|secret| volumes::entries(secret, &["data"]))),
    AGE,
];

const LEASES: &[TableColumn] = &[NAME, text("Holder", Text("/spec/holderIdentity", "")), AGE];

const NAMESPACES: &[TableColumn] = &[NAME, text("Status", Text("/status/phase", "")), AGE];

const PRIORITY_CLASSES: &[TableColumn] = &[
    NAME,
    number("Value", Number("/value")),
    flag(
        "Global-Default",
        Of(|class| (class["globalDefault"] == true).into()),
    ),
    AGE,
    text("PreemptionPolicy", Text("/preemptionPolicy", "")),
];

const EVENTS: &[TableColumn] = &[
    text("Last Seen", At(events::last_seen)),
    text("Type", Text("/type", "")),
    text("Reason", Text("/reason", "")),
    text("Object", Of(events::object)),
    wide("Subobject", Text("/involvedObject/fieldPath", "")),
    wide("Source", Of(events::source)),
    text("Message", Of(events::message)),
    wide("First Seen", At(events::first_seen)),
    wide("Count", Of(events::count)),
    wide("Name", Name),
];

const PODS: &[TableColumn] = &[
    NAME,
    text("Ready", Of(pods::ready)),
    text("Status", Of(pods::status)),
    text("Restarts", At(pods::restarts)),
    AGE,
    wide("IP", Text("/status/podIP", NONE)),
    wide("Node", Text("/spec/nodeName", NONE)),
    wide("Nominated Node", Text("/status/nominatedNodeName", NONE)),
    wide("Readiness Gates", Of(pods::readiness_gates)),
];

const SCALES: &[TableColumn] = &[
    NAME,
    number("Desired", Number("/spec/replicas")),
    number("Available", Number("/status/replicas")),
    AGE,
];

const JOBS: &[TableColumn] = &[
    NAME,
    text("Status", Of(workloads::job_status)),
    text("Completions", Of(workloads::completions)),
    text("Duration", At(workloads::duration)),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const CRON_JOBS: &[TableColumn] = &[
    NAME,
    text("Schedule", Text("/spec/schedule", "")),
    text("Timezone", Text("/spec/timeZone", NONE)),
    flag("Suspend", Of(workloads::suspend)),
    number("Active", Of(workloads::active)),
    text("Last Schedule", At(workloads::last_schedule)),
    AGE,
    wide(
        "Containers",
        Of(|cron| workloads::containers(&cron["spec"]["jobTemplate"], "name")),
    ),
    wide(
        "Images",
        Of(|cron| workloads::containers(&cron["spec"]["jobTemplate"], "image")),
    ),
    wide(
        "Selector",
        Of(|cron| workloads::selector(&cron["spec"]["jobTemplate"])),
    ),
];

/// Wide columns of workloads: containers, images, selector.
const CONTAINERS: TableColumn = wide("Containers", Of(|of| workloads::containers(of, "name")));
const IMAGES: TableColumn = wide("Images", Of(|of| workloads::containers(of, "image")));
const SELECTOR: TableColumn = wide("Selector", Of(workloads::selector));

const REPLICA_SETS: &[TableColumn] = &[
    NAME,
    number("Desired", Number("/spec/replicas")),
    number("Current", Number("/status/replicas")),
    number("Ready", Number("/status/readyReplicas")),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const REPLICATION_CONTROLLERS: &[TableColumn] = &[
    NAME,
    number("Desired", Number("/spec/replicas")),
    number("Current", Number("/status/replicas")),
    number("Ready", Number("/status/readyReplicas")),
    AGE,
    CONTAINERS,
    IMAGES,
    wide("Selector", Of(services::selector)),
];

const DEPLOYMENTS: &[TableColumn] = &[
    NAME,
    text("Ready", Of(workloads::ready)),
    text("Up-to-date", Number("/status/updatedReplicas")),
    text("Available", Number("/status/availableReplicas")),
    AGE,
    CONTAINERS,
    IMAGES,
    wide("Selector", Of(workloads::plain_selector)),
];

const STATEFUL_SETS: &[TableColumn] = &[
    NAME,
    text("Ready", Of(workloads::ready)),
    AGE,
    CONTAINERS,
    IMAGES,
];

const DAEMON_SETS: &[TableColumn] = &[
    NAME,
    number("Desired", Number("/status/desiredNumberScheduled")),
    number("Current", Number("/status/currentNumberScheduled")),
    number("Ready", Number("/status/numberReady")),
    number("Up-to-date", Number("/status/updatedNumberScheduled")),
    number("Available", Number("/status/numberAvailable")),
    text("Node Selector", Of(workloads::node_selector)),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const NODES: &[TableColumn] = &[
    NAME,
    text("Status", Of(nodes::status)),
    text("Roles", Of(nodes::roles)),
    AGE,
    text("Version", Text("/status/nodeInfo/kubeletVersion", "")),
    wide("Internal-IP", Of(|node| nodes::address(node, "InternalIP"))),
    wide("External-IP", Of(|node| nodes::address(node, "ExternalIP"))),
    wide("OS-Image", Text("/status/nodeInfo/osImage", UNKNOWN)),
    wide("Kernel-Version", Of(nodes::kernel)),
    wide(
        "Container-Runtime",
        Text("/status/nodeInfo/containerRuntimeVersion", UNKNOWN),
    ),
];

const SERVICES: &[TableColumn] = &[
    NAME,
    text("Type", Text("/spec/type", "")),
    text("Cluster-IP", Text("/spec/clusterIP", NONE)),
    text("External-IP", Of(services::external)),
    text("Port(s)", Of(services::ports)),
    AGE,
    wide("Selector", Of(services::selector)),
];

const ENDPOINTS: &[TableColumn] = &[NAME, text("Endpoints", Of(services::endpoints)), AGE];

const ATTRIBUTES_CLASS: TableColumn = text(
    "VolumeAttributesClass",
    Text("/spec/volumeAttributesClassName", UNSET),
);
const VOLUME_MODE: TableColumn = wide("VolumeMode", Text("/spec/volumeMode", UNSET));

const CLAIMS: &[TableColumn] = &[
    NAME,
    text("Status", Of(volumes::status)),
    text("Volume", Text("/spec/volumeName", "")),
    text("Capacity", Of(volumes::claim_capacity)),
    text("Access Modes", Of(volumes::claim_access_modes)),
    text("StorageClass", Of(volumes::class)),
    ATTRIBUTES_CLASS,
    AGE,
    VOLUME_MODE,
];

const VOLUMES: &[TableColumn] = &[
    NAME,
    text("Capacity", Text("/spec/capacity/storage", "0")),
    text(
        "Access Modes",
        Of(|volume| volumes::access_modes(&volume["spec"])),
    ),
    text(
        "Reclaim Policy",
        Text("/spec/persistentVolumeReclaimPolicy", ""),
    ),
    text("Status", Of(volumes::status)),
    text("Claim", Of(volumes::claim)),
    text("StorageClass", Of(volumes::class)),
    ATTRIBUTES_CLASS,
    text("Reason", Text("/status/reason", "")),
    AGE,
    VOLUME_MODE,
];

const STORAGE_CLASSES: &[TableColumn] = &[
    text("Name", NameOf(volumes::class_name)),
    text("Provisioner", Text("/provisioner", "")),
    text("ReclaimPolicy", Text("/reclaimPolicy", "Delete")),
    text("VolumeBindingMode", Text("/volumeBindingMode", "Immediate")),
    text(
        "AllowVolumeExpansion",
        Of(|class| (class["allowVolumeExpansion"] == true).into()),
    ),
    AGE,
];

const BINDINGS: &[TableColumn] = &[
    NAME,
    text("Role", Of(policies::role)),
    AGE,
    wide("Users", Of(policies::users)),
    wide("Groups", Of(policies::groups)),
    wide("ServiceAccounts", Of(policies::accounts)),
];

const INGRESSES: &[TableColumn] = &[
    NAME,
    text("Class", Text("/spec/ingressClassName", NONE)),
    text("Hosts", Of(policies::hosts)),
    text("Address", Of(policies::addresses)),
    text("Ports", Of(policies::ingress_ports)),
    AGE,
];

const INGRESS_CLASSES: &[TableColumn] = &[
    text("Name", NameOf(services::class_name)),
    text("Controller", Text("/spec/controller", "")),
    text("Parameters", Of(services::class_parameters)),
    AGE,
];

const API_SERVICES: &[TableColumn] = &[
    NAME,
    text("Service", Of(services::api_backend)),
    text("Available", Of(services::api_available)),
    AGE,
];

const NETWORK_POLICIES: &[TableColumn] = &[
    NAME,
    text(
        "Pod-Selector",
        Of(|policy| workloads::selected(&policy["spec"]["podSelector"])),
    ),
    AGE,
];

const RUNTIME_CLASSES: &[TableColumn] = &[NAME, text("Handler", Text("/handler", "")), AGE];

const BUDGETS: &[TableColumn] = &[
    NAME,
    text(
        "Min Available",
        Of(|budget| policies::share(budget, "minAvailable")),
    ),
    text(
        "Max Unavailable",
        Of(|budget| policies::share(budget, "maxUnavailable")),
    ),
    number("Allowed Disruptions", Number("/status/disruptionsAllowed")),
    AGE,
];

const QUOTAS: &[TableColumn] = &[
    NAME,
    text("Request", Of(|quota| policies::amounts(quota, false))),
    text("Limit", Of(|quota| policies::amounts(quota, true))),
    AGE,
];

const AUTOSCALERS: &[TableColumn] = &[
    NAME,
    text("Reference", Of(policies::reference)),
    text("Targets", Of(policies::metrics)),
    text("MinPods", Of(policies::fewest)),
    text("MaxPods", Number("/spec/maxReplicas")),
    text("Replicas", Number("/status/currentReplicas")),
    AGE,
];

const CERTIFICATE_REQUESTS: &[TableColumn] = &[
    NAME,
    AGE,
    text("SignerName", Text("/spec/signerName", NONE)),
    text("Requestor", Text("/spec/username", "")),
    text("RequestedDuration", Of(policies::requested_duration)),
    text("Condition", Of(policies::decision)),
];

const ENDPOINT_SLICES: &[TableColumn] = &[
    NAME,
    text("AddressType", Text("/addressType", "")),
    text("Ports", Of(policies::slice_ports)),
    text("Endpoints", Of(policies::slice_endpoints)),
    AGE,
];

const WEBHOOKS: &[TableColumn] = &[
    NAME,
    number("Webhooks", Of(|of| policies::count(of, "webhooks"))),
    AGE,
];

pub(super) const fn text(name: &'static str, cell: CellSource) -> TableColumn {
    TableColumn::new(name, "string", cell)
}

pub(super) const fn number(name: &'static str, cell: CellSource) -> TableColumn {
    TableColumn::new(name, "integer", cell)
}

pub(super) const fn flag(name: &'static str, cell: CellSource) -> TableColumn {
    TableColumn::new(name, "boolean", cell)
}

const fn wide(name: &'static str, cell: CellSource) -> TableColumn {
    TableColumn::wide(name, cell)
}
