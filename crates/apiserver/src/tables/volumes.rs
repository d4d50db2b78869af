//! Cells of claims, volumes, storage classes, ConfigMaps and Secrets. Mirrors the printer of kube-apiserver 1.36.

use serde_json::Value;

use super::cells::{items, text};

/// The annotation for the class of volumes and claims, used before there was a field.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// The annotations of the default class.
const DEFAULT_CLASS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
/// Access modes and their short names in display order.
const ACCESS_MODES: [(&str, &str); 4] = [
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];

/// The number of entries in these maps.
pub(super) fn entries(object: &Value, fields: &[&str]) -> Value {
    let maps = fields.iter().filter_map(|field| object[*field].as_object());
    maps.flatten().count().into()
}

/// The phase of a volume or claim.
pub(super) fn status(object: &Value) -> Value {
    if object["metadata"]["deletionTimestamp"].is_null() {
        text(&object["status"]["phase"]).into()
    } else {
        "Terminating".into()
    }
}

/// The class of a volume or claim.
pub(super) fn class(object: &Value) -> Value {
    match &object["metadata"]["annotations"][CLASS] {
        Value::String(old) => old.as_str().into(),
        _ => text(&object["spec"]["storageClassName"]).into(),
    }
}

/// The capacity of a claim; empty before it has a volume.
pub(super) fn claim_capacity(claim: &Value) -> Value {
    if !has_volume(claim) {
        return "".into();
    }
    match text(&claim["status"]["capacity"]["storage"]) {
        "" => "0".into(),
        capacity => capacity.into(),
    }
}

/// The access modes of a claim; empty before it has a volume.
pub(super) fn claim_access_modes(claim: &Value) -> Value {
    if has_volume(claim) {
        access_modes(&claim["status"])
    } else {
        "".into()
    }
}

/// Access modes without duplicates.
pub(super) fn access_modes(of: &Value) -> Value {
    let has = |mode: &str| items(&of["accessModes"]).any(|has| has == mode);
    let modes = ACCESS_MODES.iter().filter(|(mode, _)| has(mode));
    let modes: Vec<&str> = modes.map(|(_, short)| *short).collect();
    modes.join(",").into()
}

/// The claim of a volume.
pub(super) fn claim(volume: &Value) -> Value {
    let claim = &volume["spec"]["claimRef"];
    if claim.is_object() {
        format!("{}/{}", text(&claim["namespace"]), text(&claim["name"])).into()
    } else {
        "".into()
    }
}

/// The name of a class, marked if it is the default.
pub(super) fn class_name(class: &Value) -> Value {
    let name = text(&class["metadata"]["name"]);
    let annotations = &class["metadata"]["annotations"];
    if DEFAULT_CLASS
        .iter()
        .any(|mark| annotations[*mark] == "true")
    {
        format!("{name} (default)").into()
    } else {
        name.into()
    }
}

fn has_volume(claim: &Value) -> bool {
    !text(&claim["spec"]["volumeName"]).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn claim_shows_volume_facts_once_bound() {
        let status = json!({"phase": "Bound", "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "capacity": {"storage": "2Gi"}});
        let claim = |volume: &str, status: &Value| json!({"spec": {"volumeName": volume}, "status": status});
        let cases = [
            (claim("", &status), ["", ""]),
            (claim("v", &status), ["2Gi", "RWO,RWX"]),
            (claim("v", &json!({})), ["0", ""]),
        ];
        for (claim, [capacity, modes]) in cases {
            assert_eq!(claim_capacity(&claim), capacity, "{claim}");
            assert_eq!(claim_access_modes(&claim), modes, "{claim}");
        }
    }

    #[test]
    fn shows_phase_claim_and_class() {
        let time = "2026-01-01T00:00:00Z";
        let bound = json!({"status": {"phase": "Bound"}});
        assert_eq!(status(&bound), "Bound");
        let deleted =
            json!({"metadata": {"deletionTimestamp": time}, "status": {"phase": "Bound"}});
        assert_eq!(status(&deleted), "Terminating");
        let claimed = json!({"spec": {"claimRef": {"namespace": "n", "name": "c"}, "storageClassName": "new"}});
        assert_eq!(claim(&claimed), "n/c");
        assert_eq!(claim(&bound), "");
        assert_eq!(class(&claimed), "new");
        assert_eq!(class(&bound), "");
        let old = json!({"metadata": {"annotations": {CLASS: "old"}}, "spec": {"storageClassName": "new"}});
        assert_eq!(class(&old), "old");
    }

    #[test]
    fn default_class_is_marked() {
        let class = |mark: &str, value: &str| json!({"metadata": {"name": "c", "annotations": {mark: value}}});
        for mark in DEFAULT_CLASS {
            assert_eq!(class_name(&class(mark, "true")), "c (default)");
            assert_eq!(class_name(&class(mark, "false")), "c");
        }
    }

    #[test]
    fn counts_entries_of_all_maps() {
        let map = json!({"data": {"a": "1"}, "binaryData": {"b": "", "c": ""}});
        assert_eq!(entries(&map, &["data", "binaryData"]), 3);
        assert_eq!(entries(&json!({}), &["data"]), 0);
    }
}
