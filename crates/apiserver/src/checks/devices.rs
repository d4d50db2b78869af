//! Rules of claims, classes and slices of devices that need more than one field.
//!
//! Mirrors `resource/validation`, 1.36. Expressions in CEL are not compiled.

use caretaker_machinery::names::{label, qualified_name, subdomain};
use serde_json::Value;

use super::table::CheckFn;
use super::{Visit, list, resources, text};

pub(super) const CHECKS: &[(&str, CheckFn)] = &[
    ("device-claim", device_claim),
    ("device-request", device_request),
    ("device-count", device_count),
    ("device-constraint", device_constraint),
    ("device-requests", device_requests),
    ("claim-metadata", claim_metadata),
    ("extended-resource", extended_resource),
    ("resource-slice", resource_slice),
    ("slice-devices", slice_devices),
];

const NOT_A_REQUEST: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
const NOT_QUALIFIED: &str =
    "a fully qualified name must be a domain and a name separated by a slash";
const C_IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
/// Most bytes of the name of a pool.
const POOL_NAME_BYTES_MAX: usize = 253;
/// Fields of a template's metadata that only the server sets on objects, as messages call them.
const SERVER_FIELDS: [(&str, &str); 11] = [
    ("name", "name"),
    ("generateName", "generateName"),
    ("namespace", "namespace"),
    ("selfLink", "selfLink"),
    ("uid", "uID"),
    ("resourceVersion", "resourceVersion"),
    ("generation", "generation"),
    ("creationTimestamp", "creationTimestamp"),
    ("deletionTimestamp", "deletionTimestamp"),
    ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
    ("ownerReferences", "ownerReferences"),
];

fn device_claim(v: &mut Visit<'_>) {
    v.each("requests");
    let requests = list(v.get("requests"));
    for (at, request) in requests.iter().enumerate() {
        let name = text(request, "name");
        if requests[..at]
            .iter()
            .any(|other| text(other, "name") == name)
        {
            v.duplicate(&format!("requests[{at}]"), name);
        }
    }
    v.each("constraints");
    v.each("config");
}

/// A request is for one kind of device, or for the first of several that is available.
fn device_request(v: &mut Visit<'_>) {
    let name = v.get("name").as_str().unwrap_or_default();
    v.invalid_all("name", name, &label(name));
    let one = "exactly one of `exactly` or `firstAvailable` is required";
    let is_exact = !v.get("exactly").is_null();
    match (is_exact, list(v.get("firstAvailable")).is_empty()) {
        (false, true) => v.required("", one),
        (true, false) => {
            let why = format!("{one}, but multiple fields are set");
            v.invalid("", Value::Null, &why);
        }
        (true, true) => v.each("exactly"),
        (false, false) => v.each("firstAvailable"),
    }
}

fn device_count(v: &mut Visit<'_>) {
    let mode = v.get("allocationMode").as_str().unwrap_or_default();
    let count = v.get("count").as_i64().unwrap_or(0);
    match mode {
        "ExactCount" if count <= 0 => v.invalid("count", count, "must be greater than zero"),
        "ExactCount" | "All" => {}
        other => v.unsupported("allocationMode", other, &["All", "ExactCount"]),
    }
}

fn device_constraint(v: &mut Visit<'_>) {
    device_requests(v);
    let fields = ["matchAttribute", "distinctAttribute"];
    if fields.iter().all(|field| v.get(field).is_null()) {
        // In upstream's words, which are those for too many.
        let why = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
        v.required("", why);
    }
    for field in fields {
        if let Some(name) = v.get(field).as_str() {
            qualified(v, field, name);
        }
    }
}

/// Checks a name with its domain.
fn qualified(v: &mut Visit<'_>, field: &str, name: &str) {
    let (domain, own) = match name.split_once('/') {
        Some((domain, own)) => (Some(domain), own),
        None => (None, name),
    };
    if let Some(domain) = domain {
        v.invalid_all(field, domain, &subdomain(domain));
    }
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_identifier =
        own.starts_with(starts) && own.chars().all(|c| starts(c) || c.is_ascii_digit());
    if own.is_empty() {
        v.required(field, "name required");
    } else if !is_identifier {
        v.invalid(field, own, C_IDENTIFIER);
    }
    if domain.is_none() {
        v.invalid(field, name, NOT_QUALIFIED);
    }
}

/// Names of requests stand for requests of the same claim.
fn device_requests(v: &mut Visit<'_>) {
    let claim = v.parent("DeviceClaim");
    let known = claim.and_then(|claim| claim.get("requests"));
    let known = known.map(list).unwrap_or_default();
    let is_known = |name: &str| {
        let (request, part) = name.split_once('/').unwrap_or((name, ""));
        let mut found = known.iter().filter(|known| text(known, "name") == request);
        found.any(|request| {
            let parts = list(&request["firstAvailable"]);
            part.is_empty() || parts.iter().any(|known| text(known, "name") == part)
        })
    };
    let names = list(v.get("requests"));
    for (at, name) in names.iter().enumerate() {
        let path = format!("requests[{at}]");
        let text = name.as_str().unwrap_or_default();
        for part in text.split('/') {
            v.invalid_all(&path, part, &label(part));
        }
        if !is_known(text) {
            v.invalid(&path, text, NOT_A_REQUEST);
        }
        if names[..at].contains(name) {
            v.duplicate(&path, text);
        }
    }
}

/// Claims get labels and annotations from their template, and nothing else.
fn claim_metadata(v: &mut Visit<'_>) {
    let metadata = v.get("metadata");
    for (field, shown) in SERVER_FIELDS {
        if metadata.get(field).is_some_and(|value| !value.is_null()) {
            v.forbidden(&format!("metadata.{shown}"), "cannot be set");
        }
    }
    if !list(&metadata["finalizers"]).is_empty() {
        v.forbidden("metadata.finalizers", "cannot be set");
    }
    v.check_labels("metadata.labels", &metadata["labels"]);
    for key in metadata["annotations"].as_object().into_iter().flatten() {
        v.invalid_all("metadata.annotations", key.0, &qualified_name(key.0));
    }
}

fn extended_resource(v: &mut Visit<'_>) {
    if let Some(name) = v.get("extendedResourceName").as_str()
        && !resources::is_extended(name)
    {
        let why = "must be a valid extended resource name";
        v.invalid("extendedResourceName", name, why);
    }
}

/// The devices of a slice are reached from one Node, from selected ones or from all.
fn resource_slice(v: &mut Visit<'_>) {
    let pool = v.get("pool");
    pool_name(v, text(pool, "name"));
    let number = |field: &str| pool[field].as_i64().unwrap_or(0);
    let (count, generation) = (number("resourceSliceCount"), number("generation"));
    if count <= 0 {
        v.invalid(
            "pool.resourceSliceCount",
            count,
            "must be greater than zero",
        );
    }
    if generation < 0 {
        let why = "must be greater than or equal to zero";
        v.invalid("pool.generation", generation, why);
    }
    if let Some(node) = v.get("nodeName").as_str() {
        v.invalid_all("nodeName", node, &subdomain(node));
    }
    for field in ["allNodes", "perDeviceNodeSelection"] {
        if v.get(field) == false {
            v.invalid(field, false, "must be either unset or set to true");
        }
    }
    let fields = [
        "nodeName",
        "nodeSelector",
        "allNodes",
        "perDeviceNodeSelection",
    ];
    let is_set = |field: &&&str| !v.get(field).is_null() && v.get(field) != false;
    let set = fields.iter().filter(is_set);
    let set: Vec<String> = set.map(|field| format!("`{field}`")).collect();
    let one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match set.len() {
        0 => v.required("", one),
        1 => {}
        _ => {
            let why = format!("{one}, but multiple fields are set");
            v.invalid("", format!("{{{}}}", set.join(", ")), &why);
        }
    }
}

fn pool_name(v: &mut Visit<'_>, name: &str) {
    if name.is_empty() {
        return v.required("pool.name", "");
    }
    if name.len() > POOL_NAME_BYTES_MAX {
        v.too_long("pool.name", POOL_NAME_BYTES_MAX);
    }
    for part in name.split('/') {
        v.invalid_all("pool.name", part, &subdomain(part));
    }
}

fn slice_devices(v: &mut Visit<'_>) {
    let devices = list(v.get("devices"));
    for (at, device) in devices.iter().enumerate() {
        let name = text(device, "name");
        v.invalid_all(&format!("devices[{at}].name"), name, &label(name));
        if devices[..at]
            .iter()
            .any(|other| text(other, "name") == name)
        {
            v.duplicate(&format!("devices[{at}]"), name);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::strategy::validation::tests::found;

    #[test]
    fn claims_name_their_own_requests() {
        let exact = json!({"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1});
        let claim = |requests: Value, constraints: Value| json!({"spec": {"devices": {"requests": requests, "constraints": constraints}}});
        let one = json!([{"name": "r", "exactly": exact}]);
        let by = |name: &str| json!([{"requests": [name], "matchAttribute": "a.io/model"}]);
        let cases = [
            (claim(one.clone(), by("r")), vec![]),
            (
                claim(one.clone(), by("q")),
                vec![format!(
                    "spec.devices.constraints[0].requests[0]: Invalid value: \"q\": {NOT_A_REQUEST}"
                )],
            ),
            (
                claim(json!([{"name": "r"}]), json!([])),
                vec!["spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required".into()],
            ),
            (
                claim(one, json!([{"matchAttribute": "model"}])),
                vec![format!(
                    "spec.devices.constraints[0].matchAttribute: Invalid value: \"model\": {NOT_QUALIFIED}"
                )],
            ),
        ];
        for (claim, expected) in cases {
            assert_eq!(
                found("resource.k8s.io/v1", "ResourceClaim", claim, None),
                expected
            );
        }
    }

    #[test]
    fn slices_belong_to_nodes_in_one_way() {
        let slice = |change: &Value| {
            let mut spec =
                json!({"driver": "d.io", "pool": {"name": "p", "resourceSliceCount": 1}});
            for (field, value) in change.as_object().unwrap() {
                spec[field] = value.clone();
            }
            json!({"spec": spec})
        };
        let find = |change| found("resource.k8s.io/v1", "ResourceSlice", slice(&change), None);
        assert!(find(json!({"nodeName": "n"})).is_empty());
        assert_eq!(find(json!({})).len(), 1);
        let both = find(json!({"nodeName": "n", "allNodes": true})).join("");
        assert!(both.contains("\"{`nodeName`, `allNodes`}\""), "{both}");
    }
}
