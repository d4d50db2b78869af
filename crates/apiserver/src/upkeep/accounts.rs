//! Keeps ServiceAccount `default` and ConfigMap `kube-root-ca.crt` in every namespace.
//!
//! A new namespace has both before its create is answered; the task restores what is changed or deleted later. Mirrors
//! the controllers `serviceaccount` and `root-ca-certificate-publisher` of kube-controller-manager, 1.36.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::objects;
use crate::kinds::ServedKind;
use crate::metadata::{self, ObjectTree};
use crate::server::ServerState;
use crate::store::{ObjectKey, StoreRevision, StoredObject, WritePremise, WriteProposal};
use crate::strategy::account::DEFAULT_ACCOUNT;
use crate::verbs::write;

/// The ConfigMap with the certificate of the authority that signed the server's.
const ROOT_CA: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const ROOT_CA_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

/// Events that are read at once.
const AT_ONCE: usize = 1_000;

/// What the server needs to know for this task.
#[derive(Debug)]
pub(crate) struct AccountKeeper {
    /// The certificate in PEM; none for a server without TLS, which then keeps no ConfigMaps.
    pub(crate) root_ca: Option<String>,
}

/// A kind whose writes concern the task.
struct WatchedKind {
    kind: Arc<ServedKind>,
    /// The only object of a namespace that concerns it; none for the namespaces themselves.
    name: Option<&'static str>,
    changed: watch::Receiver<()>,
    cursor: StoreRevision,
}

pub(super) async fn run(inner: Weak<ServerState>) {
    let Some(server) = inner.upgrade() else {
        return;
    };
    let [mut namespaces, mut accounts, mut config_maps] = [
        ("namespaces", None),
        ("serviceaccounts", Some(DEFAULT_ACCOUNT)),
        ("configmaps", Some(ROOT_CA)),
    ]
    .map(|(resource, name)| WatchedKind::new(&server, resource, name));
    drop(server);
    loop {
        let Some(server) = inner.upgrade() else {
            return;
        };
        let mut touched = BTreeSet::new();
        for watched in [&mut namespaces, &mut accounts, &mut config_maps] {
            watched.collect_touched(&server, &mut touched);
        }
        for name in touched {
            let key = ObjectKey::new(None, &name);
            if let Some(namespace) = server.store.get(namespaces.kind.resource, &key) {
                keep(&server, &namespace);
            }
        }
        drop(server);
        let alive = tokio::select! {
            biased;
            changed = namespaces.changed.changed() => changed.is_ok(),
            changed = accounts.changed.changed() => changed.is_ok(),
            changed = config_maps.changed.changed() => changed.is_ok(),
        };
        if !alive {
            return;
        }
        tokio::time::sleep(super::SETTLE).await;
    }
}

// === impl WatchedKind ===

impl WatchedKind {
    fn new(server: &ServerState, resource: &'static str, name: Option<&'static str>) -> Self {
        let kind = server.builtin("", resource);
        Self {
            changed: server.store.subscribe(kind.resource),
            kind,
            name,
            cursor: StoreRevision(0),
        }
    }

    /// Adds the namespaces that the writes since the last call concern. A burst of other writes costs a comparison each;
    /// walking all namespaces after each of them would make the server slower with every namespace.
    fn collect_touched(&mut self, server: &ServerState, touched: &mut BTreeSet<String>) {
        self.changed.mark_unchanged();
        loop {
            let now = server.store.revision();
            let events = server
                .store
                .events_after(self.kind.resource, self.cursor, AT_ONCE);
            let Ok(batch) = events else {
                // The history begins later: look at every namespace.
                self.cursor = now;
                let namespaces = objects(server, &server.builtin("", "namespaces"), None);
                touched.extend(namespaces.iter().map(|object| object.key.name().to_owned()));
                return;
            };
            let keys = batch.events.iter().map(|event| &event.object.key);
            touched.extend(keys.filter_map(|key| match self.name {
                None => Some(key.name().to_owned()),
                Some(name) if key.name() == name => key.namespace().map(str::to_owned),
                Some(_) => None,
            }));
            self.cursor = batch.up_to;
            if batch.events.len() < AT_ONCE {
                return;
            }
        }
    }
}

/// Creates what a namespace lacks, unless the namespace is terminating or the server does not keep accounts.
pub(crate) fn keep(server: &ServerState, namespace: &StoredObject) {
    let Some(keeper) = &server.accounts else {
        return;
    };
    if namespace.fields.get(0) == Some("Terminating") {
        return;
    }
    let accounts = server.builtin("", "serviceaccounts");
    put(server, namespace, &accounts, DEFAULT_ACCOUNT, |found| {
        found.is_none().then(ObjectTree::new)
    });
    if let Some(ca) = &keeper.root_ca {
        let config_maps = server.builtin("", "configmaps");
        put(server, namespace, &config_maps, ROOT_CA, |found| {
            root_ca_config(ca, found)
        });
    }
}

/// The ConfigMap as it has to be; none if it is so.
fn root_ca_config(ca: &str, found: Option<&StoredObject>) -> Option<ObjectTree> {
    let data = json!({"ca.crt": ca});
    let mut tree = found.map(StoredObject::to_value).unwrap_or_default();
    let described = metadata::get(&tree, "annotations").is_some_and(|annotations| {
        annotations.get(DESCRIPTION).and_then(Value::as_str) == Some(ROOT_CA_DESCRIPTION)
    });
    if tree.get("data") == Some(&data) && described {
        return None;
    }
    let annotations = metadata::of(&mut tree)
        .entry("annotations")
        .or_insert_with(|| json!({}));
    annotations[DESCRIPTION] = ROOT_CA_DESCRIPTION.into();
    tree.insert("data".into(), data);
    Some(tree)
}

/// Writes what `wanted` makes of the object. A write that loses a race is left to the next round of the
/// task, which the winner of the race starts.
fn put(
    server: &ServerState,
    namespace: &StoredObject,
    kind: &ServedKind,
    name: &str,
    wanted: impl Fn(Option<&StoredObject>) -> Option<ObjectTree>,
) {
    let key = ObjectKey::new(Some(namespace.key.name()), name);
    let found = server.store.get(kind.resource, &key);
    let Some(mut tree) = wanted(found.as_deref()) else {
        return;
    };
    if found.is_none() {
        let metadata = metadata::of(&mut tree);
        metadata.insert("name".into(), name.into());
        metadata.insert("namespace".into(), namespace.key.name().into());
        metadata::set_create_fields(&mut tree, server.clock.now(), &mut server.rng());
    }
    let premise = WritePremise {
        resource: server.builtin("", "namespaces").resource,
        key: namespace.key.clone(),
        rev: namespace.rev,
    };
    let proposal = WriteProposal {
        resource: kind.resource,
        expected: found.map(|found| found.rev),
        new: Some(write::encode(kind, &key, &tree)),
        premise: Some(premise),
        key,
    };
    let _ = server.store.write(proposal);
}
