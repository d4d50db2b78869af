//! Claims, volumes and classes of them: capacities, access modes and what belongs to what.

use super::*;

fn claim(name: &str, spec: Value) -> Value {
    let plain = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}});
    with(
        with(
            mk_object("v1", "PersistentVolumeClaim", name),
            json!({"spec": plain}),
        ),
        Value::from_iter([("spec", spec)]),
    )
}

pub(super) async fn columns_of_claims_and_their_classes(s: &mut Session) {
    nothing(s, &CLAIMS).await;
    let old =
        json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}});
    let bound = json!({"phase": "Bound", "accessModes": ["ReadOnlyMany", "ReadWriteOnce"], "capacity": {"storage": "2048Mi"}});
    let bound = |name: &str| {
        with(
            claim(name, json!({"volumeName": "v"})),
            json!({"status": bound}),
        )
    };
    let all = json!({"accessModes": ["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce"]});
    let objects = [
        claim("a-new", json!({})),
        bound("b-bound"),
        with(bound("c-all-modes"), json!({"status": all})),
        with(
            bound("d-once"),
            json!({"status": {"accessModes": ["ReadWriteOncePod", "ReadWriteOncePod"]}}),
        ),
        with(
            bound("e-no-capacity"),
            json!({"status": {"capacity": null}}),
        ),
        with(
            claim("f-lost", json!({"volumeName": "v"})),
            json!({"status": {"phase": "Lost"}}),
        ),
        claim("g-no-class", json!({"storageClassName": ""})),
        claim("h-unset-class", json!({"storageClassName": null})),
        with(claim("i-old-class", json!({"storageClassName": null})), old),
        claim("j-attributes", json!({"volumeAttributesClassName": "gold"})),
        claim("k-block", json!({"volumeMode": "Block"})),
        deleted(bound("l-terminates")),
        with(
            claim("m-not-bound", json!({})),
            json!({"status": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}}),
        ),
    ];
    shown(s, &CLAIMS, objects).await;
    classes(s).await;
}

/// A default class is for all claims that are made while it is there, so this is no case of its own.
async fn classes(s: &mut Session) {
    nothing(s, &STORAGE_CLASSES).await;
    let class = |name: &str, rest: Value| {
        let plain = with(
            mk_object("storage.k8s.io/v1", "StorageClass", name),
            json!({"provisioner": "example.com/p"}),
        );
        with(plain, rest)
    };
    let marked = |word: &str, how: &str| json!({"metadata": {"annotations": {format!("storageclass.{word}.io/is-default-class"): how}}});
    let objects = [
        class("a-new", json!({})),
        class(
            "b-own",
            json!({"reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": true}),
        ),
        class("c-default", marked("kubernetes", "true")),
        class("d-old-default", marked("beta.kubernetes", "true")),
        class("e-not-default", marked("kubernetes", "false")),
        class("f-not-to-expand", json!({"allowVolumeExpansion": false})),
    ];
    shown(s, &STORAGE_CLASSES, objects).await;
}

fn volume(name: &str, spec: Value) -> Value {
    let plain = json!({"accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "capacity": {"storage": "1024Mi"}, "hostPath": {"path": "/srv/x"}});
    with(
        with(
            mk_object("v1", "PersistentVolume", name),
            json!({"spec": plain}),
        ),
        Value::from_iter([("spec", spec)]),
    )
}

pub(super) async fn columns_of_volumes(s: &mut Session) {
    nothing(s, &VOLUMES).await;
    let old =
        json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}});
    let claimed = json!({"storageClassName": "fast", "persistentVolumeReclaimPolicy": "Delete",
        "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data"}});
    let csi = json!({"hostPath": null, "csi": {"driver": "example.com", "volumeHandle": "h"}, "volumeAttributesClassName": "gold"});
    let objects = [
        volume("a-new", json!({})),
        with(
            volume("b-bound", claimed.clone()),
            json!({"status": {"phase": "Bound"}}),
        ),
        with(
            volume("c-failed", json!({})),
            json!({"status": {"phase": "Failed", "reason": "Because", "message": "m"}}),
        ),
        with(volume("d-old-class", json!({})), old),
        volume("e-attributes", csi),
        volume("f-block", json!({"volumeMode": "Block"})),
        deleted(with(
            volume("g-terminates", claimed),
            json!({"status": {"phase": "Released"}}),
        )),
        volume("h-no-namespace", json!({"claimRef": {"name": "data"}})),
    ];
    shown(s, &VOLUMES, objects).await;
}
