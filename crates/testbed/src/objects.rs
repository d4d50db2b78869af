//! The resources and objects of cases: paths as constants, objects from `mk_*` builders.
//!
//! Builders give the least the server accepts; a case adds the rest with [`with`].

use std::borrow::Cow;

use serde_json::{Value, json};

/// A resource and where its collection is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    root: Cow<'static, str>,
    plural: Cow<'static, str>,
    scope: Scope,
}

/// Whether objects of a resource live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// Beside the namespaces.
    Cluster,
}

macro_rules! resources {
    ($($scope:ident { $($name:ident = $root:literal $plural:literal;)* })*) => {
        $($(
            #[doc = concat!("`", $root, "/", $plural, "`")]
            pub const $name: Resource = Resource {
                root: Cow::Borrowed($root),
                plural: Cow::Borrowed($plural),
                scope: Scope::$scope,
            };
        )*)*
        /// Every resource of which cases may leave objects.
        pub const RESOURCES: &[Resource] = &[$($($name),*),*];
    };
}

resources! {
    Namespaced {
        CONFIG_MAPS = "/api/v1" "configmaps";
        SECRETS = "/api/v1" "secrets";
        SERVICE_ACCOUNTS = "/api/v1" "serviceaccounts";
        SERVICES = "/api/v1" "services";
        ENDPOINTS = "/api/v1" "endpoints";
        PODS = "/api/v1" "pods";
        CLAIMS = "/api/v1" "persistentvolumeclaims";
        REPLICATION_CONTROLLERS = "/api/v1" "replicationcontrollers";
        LIMIT_RANGES = "/api/v1" "limitranges";
        QUOTAS = "/api/v1" "resourcequotas";
        EVENTS = "/api/v1" "events";
        DEPLOYMENTS = "/apis/apps/v1" "deployments";
        REPLICA_SETS = "/apis/apps/v1" "replicasets";
        STATEFUL_SETS = "/apis/apps/v1" "statefulsets";
        DAEMON_SETS = "/apis/apps/v1" "daemonsets";
        CONTROLLER_REVISIONS = "/apis/apps/v1" "controllerrevisions";
        JOBS = "/apis/batch/v1" "jobs";
        CRON_JOBS = "/apis/batch/v1" "cronjobs";
        LEASES = "/apis/coordination.k8s.io/v1" "leases";
        DISRUPTION_BUDGETS = "/apis/policy/v1" "poddisruptionbudgets";
        ROLE_BINDINGS = "/apis/rbac.authorization.k8s.io/v1" "rolebindings";
        ROLES = "/apis/rbac.authorization.k8s.io/v1" "roles";
        INGRESSES = "/apis/networking.k8s.io/v1" "ingresses";
        VOLCANO_JOBS = "/apis/batch.volcano.sh/v1alpha1" "jobs";
        VOLCANO_CRON_JOBS = "/apis/batch.volcano.sh/v1alpha1" "cronjobs";
        POD_GROUPS = "/apis/scheduling.volcano.sh/v1beta1" "podgroups";
        COMMANDS = "/apis/bus.volcano.sh/v1alpha1" "commands";
    }
    Cluster {
        CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1" "clusterroles";
        CLUSTER_ROLE_BINDINGS = "/apis/rbac.authorization.k8s.io/v1" "clusterrolebindings";
        API_SERVICES = "/apis/apiregistration.k8s.io/v1" "apiservices";
        IP_ADDRESSES = "/apis/networking.k8s.io/v1" "ipaddresses";
        SERVICE_CIDRS = "/apis/networking.k8s.io/v1" "servicecidrs";
        PRIORITY_LEVELS = "/apis/flowcontrol.apiserver.k8s.io/v1" "prioritylevelconfigurations";
        FLOW_SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1" "flowschemas";
        PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1" "priorityclasses";
        VOLUMES = "/api/v1" "persistentvolumes";
        STORAGE_CLASSES = "/apis/storage.k8s.io/v1" "storageclasses";
        NODES = "/api/v1" "nodes";
        CRDS = "/apis/apiextensions.k8s.io/v1" "customresourcedefinitions";
        SIGNING_REQUESTS = "/apis/certificates.k8s.io/v1" "certificatesigningrequests";
        NAMESPACES = "/api/v1" "namespaces";
    }
}

// === impl Resource ===

impl Resource {
    /// A custom resource, served under `group/version`.
    pub fn custom(group: &str, version: &str, plural: &str, scope: Scope) -> Self {
        Self {
            root: format!("/apis/{group}/{version}").into(),
            plural: plural.to_owned().into(),
            scope,
        }
    }

    /// Its group and its name in the plural.
    pub fn name(&self) -> (&str, &str) {
        let group = self.root.strip_prefix("/apis/").unwrap_or_default();
        (group.split('/').next().unwrap_or_default(), &self.plural)
    }

    /// Where objects of this resource live.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The path of the collection, in `ns` if it is namespaced.
    pub fn collection(&self, ns: &str) -> String {
        match self.scope {
            Scope::Namespaced => format!("{}/namespaces/{ns}/{}", self.root, self.plural),
            Scope::Cluster => self.everywhere(),
        }
    }

    /// The path of the collection over all namespaces.
    pub fn everywhere(&self) -> String {
        format!("{}/{}", self.root, self.plural)
    }
}

/// `object` with `changes` merged in, as a JSON merge patch would.
pub fn with(mut object: Value, changes: Value) -> Value {
    match (&mut object, changes) {
        (Value::Object(map), Value::Object(changes)) => {
            for (key, change) in changes {
                if change.is_null() {
                    map.remove(&key);
                } else {
                    let old = map.remove(&key).unwrap_or_default();
                    map.insert(key, with(old, change));
                }
            }
            object
        }
        (_, changes) => changes,
    }
}

/// An object of any kind with nothing but a name.
pub fn mk_object(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
}

/// A ConfigMap with one key, `k: v`.
pub fn mk_config_map(name: &str) -> Value {
    with(
        mk_object("v1", "ConfigMap", name),
        json!({"data": {"k": "v"}}),
    )
}

/// A ConfigMap with labels.
pub fn mk_labelled(name: &str, labels: Value) -> Value {
    let mut object = mk_config_map(name);
    object["metadata"]["labels"] = labels;
    object
}

/// A ConfigMap that a finalizer holds.
pub fn mk_held(name: &str) -> Value {
    with(
        mk_config_map(name),
        json!({"metadata": {"finalizers": ["example.com/hold"]}}),
    )
}

/// A reference to an owner that does not exist.
pub fn mk_owner(name: &str, number: u32) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": format!("00000000-0000-0000-0000-{number:012}")})
}

/// A Pod that no node has.
pub fn mk_pod(name: &str) -> Value {
    with(mk_object("v1", "Pod", name), json!({"spec": mk_pod_spec()}))
}

/// A Pod on a node.
pub fn mk_bound_pod(name: &str) -> Value {
    with(mk_pod(name), json!({"spec": {"nodeName": "node-1"}}))
}

/// The spec of a Pod with one container.
pub fn mk_pod_spec() -> Value {
    json!({"containers": [{"name": "c", "image": "i"}]})
}

/// A workload of `apps/v1` with selector and template.
pub fn mk_workload(kind: &str, name: &str) -> Value {
    let spec = json!({"selector": {"matchLabels": {"app": "a"}}, "template": {"metadata": {"labels": {"app": "a"}}, "spec": mk_pod_spec()}});
    with(mk_object("apps/v1", kind, name), json!({ "spec": spec }))
}

pub fn mk_deployment(name: &str) -> Value {
    mk_workload("Deployment", name)
}

pub fn mk_job(name: &str) -> Value {
    let spec = with(mk_pod_spec(), json!({"restartPolicy": "Never"}));
    with(
        mk_object("batch/v1", "Job", name),
        json!({"spec": {"template": {"spec": spec}}}),
    )
}

/// A Job of Volcano with one task of two Pods.
pub fn mk_volcano_job(name: &str) -> Value {
    let template = json!({"spec": mk_job("x")["spec"]["template"]["spec"]});
    let task = json!({"name": "t", "replicas": 2, "template": template});
    with(
        mk_object("batch.volcano.sh/v1alpha1", "Job", name),
        json!({"spec": {"minAvailable": 2, "tasks": [task]}}),
    )
}

pub fn mk_cron_job(name: &str) -> Value {
    let job = json!({"spec": mk_job("x")["spec"]});
    with(
        mk_object("batch/v1", "CronJob", name),
        json!({"spec": {"schedule": "* * * * *", "jobTemplate": job}}),
    )
}

pub fn mk_lease(name: &str) -> Value {
    with(
        mk_object("coordination.k8s.io/v1", "Lease", name),
        json!({"spec": {"holderIdentity": "me"}}),
    )
}

/// A Service without cluster address.
pub fn mk_service(name: &str) -> Value {
    with(
        mk_object("v1", "Service", name),
        json!({"spec": {"type": "ClusterIP", "clusterIP": "None", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}}),
    )
}

/// An Event about a Pod that does not exist.
pub fn mk_event(name: &str, ns: &str) -> Value {
    let about = json!({"apiVersion": "v1", "kind": "Pod", "namespace": ns, "name": "p"});
    with(
        mk_object("v1", "Event", name),
        json!({"involvedObject": about, "reason": "Because", "message": "m", "type": "Normal"}),
    )
}

pub fn mk_namespace(name: &str) -> Value {
    mk_object("v1", "Namespace", name)
}

/// A CustomResourceDefinition of Gadgets in `group`: version v1, namespaced, status subresource, schema without rules.
pub fn mk_crd(group: &str) -> Value {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": free}});
    let names = json!({"plural": "gadgets", "kind": "Gadget"});
    let spec =
        json!({"group": group, "scope": "Namespaced", "names": names, "versions": [version]});
    with(
        mk_object(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            &format!("gadgets.{group}"),
        ),
        json!({ "spec": spec }),
    )
}

/// A Gadget of `group`.
pub fn mk_gadget(group: &str, name: &str) -> Value {
    with(
        mk_object(&format!("{group}/v1"), "Gadget", name),
        json!({"spec": {"size": 1}}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_merges_maps_replaces_the_rest_and_removes_nulls() {
        let got = with(
            json!({"a": {"b": 1, "c": 2}, "l": [1]}),
            json!({"a": {"b": null, "d": 3}, "l": [2]}),
        );
        assert_eq!(got, json!({"a": {"c": 2, "d": 3}, "l": [2]}));
    }

    #[test]
    fn collections_have_the_namespace_in_the_path_only_where_there_is_one() {
        assert_eq!(JOBS.collection("n"), "/apis/batch/v1/namespaces/n/jobs");
        assert_eq!(NODES.collection("n"), "/api/v1/nodes");
        assert_eq!(JOBS.everywhere(), "/apis/batch/v1/jobs");
    }
}
