//! The ServiceAccount of a new Pod: its name, its pull secrets, and the volume with its token.
//!
//! Only a server that keeps accounts ([`accounts`](crate::upkeep::accounts)) does this; kube-apiserver alone has none to
//! give. Mirrors the admission plugin ServiceAccount, 1.36.

use caretaker_machinery::names;
use caretaker_machinery::status::Status;
use serde_json::{Value, json};

use super::ObjectAdmission;
use crate::metadata::{self, ObjectTree, value_at};
use crate::store::ObjectKey;

/// The account of Pods that name none.
pub(crate) const DEFAULT_ACCOUNT: &str = "default";
/// Where containers find the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME_PREFIX: &str = "kube-api-access-";
/// Characters of the random end of the volume's name.
const SUFFIX_CHARS: usize = 5;
/// The time after which a token expires: an hour and a few seconds, by which upstream recognises it.
const TOKEN_SECS: u32 = 3_607;
/// Marks the Pod that a kubelet made from a file, which has no account.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Completes a new Pod by what its account says.
pub(super) fn admit_pod(
    write: &ObjectAdmission<'_, '_>,
    pod: &mut ObjectTree,
) -> Result<(), Status> {
    let server = write.server;
    let annotations = metadata::get(pod, "annotations");
    let is_mirror = annotations.is_some_and(|annotations| annotations.get(MIRROR).is_some());
    if server.accounts.is_none() || is_mirror {
        return Ok(());
    }
    let (namespace, pod_name) = (
        metadata::text(pod, "namespace").to_owned(),
        metadata::text(pod, "name").to_owned(),
    );
    let Some(Value::Object(spec)) = pod.get_mut("spec") else {
        return Ok(());
    };
    let named = spec.get("serviceAccountName").and_then(Value::as_str);
    let named = named.filter(|name| !name.is_empty());
    let name = named.unwrap_or(DEFAULT_ACCOUNT).to_owned();
    let kind = server.builtin("", "serviceaccounts");
    let key = ObjectKey::new(Some(&namespace), &name);
    let Some(account) = server.store.get(kind.resource, &key) else {
        let why = format!(
            "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
        );
        return Err(Status::forbidden(
            write.kind.resource_named(&pod_name),
            &why,
        ));
    };
    let account = account.to_value();
    spec.insert("serviceAccountName".into(), name.as_str().into());
    spec.insert("serviceAccount".into(), name.into());
    let secrets = spec.get("imagePullSecrets").and_then(Value::as_array);
    if secrets.is_none_or(Vec::is_empty) {
        metadata::set(
            spec,
            "imagePullSecrets",
            account.get("imagePullSecrets").cloned(),
        );
    }
    let field = "automountServiceAccountToken";
    let own = spec.get(field).and_then(Value::as_bool);
    let wanted = own.or(value_at(&account, &format!("/{field}")).as_bool());
    if wanted.unwrap_or(true) {
        let suffix = names::suffix(SUFFIX_CHARS, &mut server.rng());
        mount_token(spec, &format!("{VOLUME_PREFIX}{suffix}"));
    }
    Ok(())
}

/// Adds the volume with token, certificate and namespace to all containers that mount nothing at its path.
fn mount_token(spec: &mut ObjectTree, volume: &str) {
    let volumes = spec.get("volumes").and_then(Value::as_array);
    let known = volumes.into_iter().flatten().find_map(|volume| {
        let name = volume["name"].as_str()?;
        name.starts_with(VOLUME_PREFIX).then(|| name.to_owned())
    });
    let name = known.clone().unwrap_or_else(|| volume.to_owned());
    let mut used = false;
    for field in ["initContainers", "containers"] {
        let containers = spec.get_mut(field).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let Some(container) = container.as_object_mut() else {
                continue;
            };
            let mounts = container.entry("volumeMounts").or_insert_with(|| json!([]));
            let Some(mounts) = mounts.as_array_mut() else {
                continue;
            };
            if !mounts.iter().any(|mount| mount["mountPath"] == MOUNT_PATH) {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH}));
                used = true;
            }
        }
    }
    if !used || known.is_some() {
        return;
    }
    let token = json!({"serviceAccountToken": {"expirationSeconds": TOKEN_SECS, "path": "token"}});
    let items = json!([{"key": "ca.crt", "path": "ca.crt"}]);
    let ca = json!({"configMap": {"name": "kube-root-ca.crt", "items": items}});
    let field = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    let items = json!([{"path": "namespace", "fieldRef": field}]);
    let namespace = json!({"downwardAPI": {"items": items}});
    let source = json!({"defaultMode": 420, "sources": [token, ca, namespace]});
    let volumes = spec.entry("volumes").or_insert_with(|| json!([]));
    if let Some(volumes) = volumes.as_array_mut() {
        volumes.push(json!({"name": name, "projected": source}));
    }
}
