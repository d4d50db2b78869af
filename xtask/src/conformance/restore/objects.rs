//! The objects of a restore: families of owners and dependents of several kinds, and the users' requests about them.
//!
//! An object is compared with what it was when the store was saved: its uid, its references, and that it is not being
//! deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::http::{HttpCall, HttpClient, read_text};
use crate::interrupt;
use crate::real::POLL;

pub(super) const NAMESPACE: &str = "restore";
/// The group of the custom kinds.
const GROUP: &str = "restore.example.com";
/// Attempts of a request. A connection from before a restart of the server breaks at its next use.
const ATTEMPTS: usize = 3;

/// A kind, and the least spec that the server accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct KindRow {
    root: &'static str,
    pub(super) plural: &'static str,
    kind: &'static str,
    fields: fn() -> Value,
}

pub(super) const OWNERS: [KindRow; 3] = [
    KindRow {
        root: "/apis/apps/v1",
        plural: "replicasets",
        kind: "ReplicaSet",
        fields: workload,
    },
    KindRow {
        root: "/apis/apps/v1",
        plural: "statefulsets",
        kind: "StatefulSet",
        fields: workload,
    },
    KindRow {
        root: "/apis/restore.example.com/v1",
        plural: "gadgets",
        kind: "Gadget",
        fields: || json!({}),
    },
];

pub(super) const DEPENDENTS: [KindRow; 3] = [
    KindRow {
        root: "/api/v1",
        plural: "pods",
        kind: "Pod",
        fields: || json!({"spec": pod_spec()}),
    },
    CONFIG_MAP,
    KindRow {
        root: "/api/v1",
        plural: "secrets",
        kind: "Secret",
        fields: || json!({}),
    },
];

pub(super) const CONFIG_MAP: KindRow = KindRow {
    root: "/api/v1",
    plural: "configmaps",
    kind: "ConfigMap",
    fields: || json!({}),
};

/// The custom kind whose definition is deleted before the store is saved.
pub(super) const RELIC: KindRow = KindRow {
    root: "/apis/restore.example.com/v1",
    plural: "relics",
    kind: "Relic",
    fields: || json!({}),
};

pub(super) const CRON_JOB: KindRow = KindRow {
    root: "/apis/batch/v1",
    plural: "cronjobs",
    kind: "CronJob",
    fields: || {
        let spec = json!({"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"});
        let template = json!({"spec": {"template": {"spec": spec}}});
        json!({"spec": {"schedule": "* * * * *", "jobTemplate": template}})
    },
};

/// An object as it was created.
#[derive(Clone, Debug)]
pub(super) struct MadeObject {
    pub(super) row: KindRow,
    pub(super) name: String,
    pub(super) uid: String,
    references: Value,
}

/// An owner and its dependents.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) owner: MadeObject,
    /// The `propagationPolicy` with which the owner is deleted after the store was saved.
    pub(super) policy: &'static str,
    pub(super) dependents: Vec<MadeObject>,
}

/// The users of the cluster.
pub(super) struct ClusterUsers {
    client: HttpClient,
}

/// The fate of objects that should be as they were made.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectLosses {
    pub(super) all: usize,
    /// Objects that are gone or being deleted, by resource.
    pub(super) deleted: BTreeMap<&'static str, usize>,
    /// Objects with other references.
    pub(super) changed: usize,
}

// === impl KindRow ===

impl KindRow {
    fn collection(self) -> String {
        format!("{}/namespaces/{NAMESPACE}/{}", self.root, self.plural)
    }

    fn api_version(self) -> &'static str {
        let root = self.root.strip_prefix("/apis/");
        root.unwrap_or("v1")
    }
}

// === impl MadeObject ===

impl MadeObject {
    pub(super) fn path(&self) -> String {
        format!("{}/{}", self.row.collection(), self.name)
    }

    fn reference(&self) -> Value {
        json!({"apiVersion": self.row.api_version(), "kind": self.row.kind, "name": self.name, "uid": self.uid,
            "blockOwnerDeletion": true})
    }
}

// === impl ObjectLosses ===

impl ObjectLosses {
    pub(super) fn is_none(&self) -> bool {
        self.deleted.is_empty() && self.changed == 0
    }
}

impl fmt::Display for ObjectLosses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deleted: usize = self.deleted.values().sum();
        write!(f, "{deleted} of {} deleted", self.all)?;
        for (resource, count) in &self.deleted {
            write!(f, ", {count} {resource}")?;
        }
        match self.changed {
            0 => Ok(()),
            changed => write!(f, "; {changed} have other references"),
        }
    }
}

// === impl ClusterUsers ===

impl ClusterUsers {
    pub(super) fn new(client: HttpClient) -> Self {
        Self { client }
    }

    /// Creates the namespace and the custom kinds.
    pub(super) fn prepare(&self) -> Result<()> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        self.send("POST", "/api/v1/namespaces", Some(&namespace), &[201])?;
        for row in [OWNERS[2], RELIC] {
            let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            let version = json!({"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": free}});
            let names = json!({"plural": row.plural, "kind": row.kind});
            let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{}.{GROUP}", row.plural)},
                "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}});
            self.send("POST", DEFINITIONS, Some(&definition), &[201])?;
            let is_served = || Ok(self.status_of(&row.collection())? == 200);
            until(&format!("{} are served", row.plural), is_served)?;
        }
        Ok(())
    }

    /// Deletes the definition of the relics and waits until it is gone.
    pub(super) fn delete_relic_kind(&self) -> Result<()> {
        let path = format!("{DEFINITIONS}/{}.{GROUP}", RELIC.plural);
        self.send("DELETE", &path, None, &[200])?;
        let is_gone = || Ok(self.status_of(&path)? == 404);
        until("the definition of relics is gone", is_gone)
    }

    pub(super) fn create(
        &self,
        row: KindRow,
        name: &str,
        owner: Option<&Value>,
    ) -> Result<MadeObject> {
        let mut object = (row.fields)();
        object["apiVersion"] = row.api_version().into();
        object["kind"] = row.kind.into();
        object["metadata"] =
            json!({"name": name, "ownerReferences": owner.into_iter().collect::<Vec<_>>()});
        let made = self.send("POST", &row.collection(), Some(&object), &[201])?;
        let uid = made["metadata"]["uid"].as_str().context("no uid")?;
        Ok(MadeObject {
            row,
            name: name.to_owned(),
            uid: uid.to_owned(),
            references: made["metadata"]["ownerReferences"].clone(),
        })
    }

    /// Creates an owner with `each` dependents of each kind; all names begin with `prefix`.
    pub(super) fn create_family(
        &self,
        prefix: &str,
        row: KindRow,
        policy: &'static str,
        each: usize,
    ) -> Result<Family> {
        let owner = self.create(row, &format!("{prefix}-{}", row.plural), None)?;
        let reference = owner.reference();
        let mut dependents = Vec::new();
        for kind in DEPENDENTS {
            for number in 0..each {
                let name = format!("{prefix}-{}-{number}", row.plural);
                dependents.push(self.create(kind, &name, Some(&reference))?);
            }
        }
        Ok(Family {
            owner,
            policy,
            dependents,
        })
    }

    /// Creates an object whose owner never existed.
    pub(super) fn create_garbage(&self, row: KindRow, name: &str) -> Result<MadeObject> {
        let uid = "00000000-0000-4000-8000-000000000001";
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "never", "uid": uid});
        self.create(row, name, Some(&owner))
    }

    pub(super) fn delete(&self, object: &MadeObject, policy: &str) -> Result<()> {
        let options = json!({"propagationPolicy": policy, "preconditions": {"uid": object.uid}});
        self.send("DELETE", &object.path(), Some(&options), &[200, 202])?;
        Ok(())
    }

    pub(super) fn get(&self, object: &MadeObject) -> Result<Value> {
        self.send("GET", &object.path(), None, &[200])
    }

    /// The uids of those of the objects that exist.
    pub(super) fn existing<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a MadeObject>,
    ) -> Result<Vec<(&'a MadeObject, Value)>> {
        let mut lists: BTreeMap<&str, BTreeMap<String, Value>> = BTreeMap::new();
        let mut found = Vec::new();
        for object in objects {
            let list = match lists.get(object.row.plural) {
                Some(list) => list,
                None => {
                    let list = self.list(object.row)?;
                    lists.entry(object.row.plural).or_insert(list)
                }
            };
            if let Some(current) = list.get(&object.uid) {
                found.push((object, current.clone()));
            }
        }
        Ok(found)
    }

    fn list(&self, row: KindRow) -> Result<BTreeMap<String, Value>> {
        let list = self.send("GET", &row.collection(), None, &[200, 404])?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let by_uid = |item: Value| Some((item["metadata"]["uid"].as_str()?.to_owned(), item));
        Ok(items.into_iter().filter_map(by_uid).collect())
    }

    /// Compares objects with what they were when they were made.
    pub(super) fn losses<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a MadeObject> + Clone,
    ) -> Result<ObjectLosses> {
        let mut losses = ObjectLosses::default();
        let mut living = BTreeSet::new();
        for (object, current) in self.existing(objects.clone())? {
            let meta = &current["metadata"];
            if meta["deletionTimestamp"].is_null() {
                living.insert(&object.uid);
                losses.changed += usize::from(meta["ownerReferences"] != object.references);
            }
        }
        for object in objects {
            losses.all += 1;
            if !living.contains(&object.uid) {
                *losses.deleted.entry(object.row.plural).or_default() += 1;
            }
        }
        Ok(losses)
    }

    fn status_of(&self, path: &str) -> Result<u16> {
        let call = HttpCall {
            method: "GET",
            path,
            ..HttpCall::default()
        };
        Ok(self.client.send(call)?.status().as_u16())
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>, good: &[u16]) -> Result<Value> {
        for attempt in 1.. {
            let call = HttpCall {
                method,
                path,
                headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
                body: body.map(|body| body.to_string().into_bytes()),
                body_timeout: None,
            };
            let mut answer = match self.client.send(call) {
                Err(_) if attempt < ATTEMPTS => continue,
                answer => answer?,
            };
            let (status, text) = (answer.status().as_u16(), read_text(&mut answer)?);
            if !good.contains(&status) {
                bail!("{method} {path} was answered {status}: {text}");
            }
            return serde_json::from_str(&text).context("the answer is not JSON");
        }
        bail!("{method} {path} was not answered")
    }
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The longest wait: a watch that is silent after a plain restore is noticed after three minutes.
const WITHIN: Duration = Duration::from_secs(400);

/// Waits until a condition holds.
pub(super) fn until(what: &str, condition: impl FnMut() -> Result<bool>) -> Result<()> {
    match wait_for(WITHIN, condition)? {
        true => Ok(()),
        false => bail!("not within {} s: {what}", WITHIN.as_secs()),
    }
}

/// Waits until a condition holds; false if it does not within this time.
pub(super) fn wait_for(
    within: Duration,
    mut condition: impl FnMut() -> Result<bool>,
) -> Result<bool> {
    let deadline = Instant::now() + within;
    loop {
        interrupt::check()?;
        if condition()? {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        thread::sleep(POLL * 2);
    }
}

fn pod_spec() -> Value {
    json!({"containers": [{"name": "c", "image": "i"}]})
}

fn workload() -> Value {
    let labels = json!({"app": "a"});
    let template = json!({"metadata": {"labels": labels}, "spec": pod_spec()});
    json!({"spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_paths_and_versions() {
        assert_eq!(
            CONFIG_MAP.collection(),
            "/api/v1/namespaces/restore/configmaps"
        );
        assert_eq!(CONFIG_MAP.api_version(), "v1");
        assert_eq!(OWNERS[0].api_version(), "apps/v1");
        assert_eq!(RELIC.api_version(), format!("{GROUP}/v1"));
    }
}
