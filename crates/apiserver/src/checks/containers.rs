//! Rules of containers that need more than one field: hooks and probes, the environment, mounts.
//!
//! Mirrors `validateContainerCommon` and what it calls in `core/validation`, 1.36.

use serde_json::Value;

use super::table::CheckFn;
use super::{Visit, formats, list, text};
use crate::metadata::ObjectTree;

pub(super) const CHECKS: &[(&str, CheckFn)] = &[
    ("container-hooks", hooks),
    ("env-source", env_source),
    ("env-from", env_from),
    ("field-ref", field_ref),
    ("resource-ref", resource_ref),
    ("http-headers", http_headers),
    ("target-port", target_port),
    ("sleep", sleep),
    ("mount", mount),
    ("device", device),
    ("resize-policy", resize_policy),
    ("restart-rule", restart_rule),
    ("security-context", security_context),
    ("requirements", super::resources::requirements),
];

const HOOKS: [&str; 4] = [
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
];
const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const VOLUME_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Hooks, probes and the restart policy. Containers that run before the others may have them only if they keep running.
fn hooks(v: &mut Visit<'_>) {
    let is_init = v.own_field() == "initContainers";
    if is_init {
        restart_policy(v);
        name_is_free(v);
    }
    if is_init && v.get("restartPolicy") != "Always" {
        for hook in HOOKS {
            if v.here().contains_key(hook) {
                let why = "may not be set for init containers without restartPolicy=Always";
                v.forbidden(hook, why);
            }
        }
        return;
    }
    v.each("lifecycle");
    for probe in &HOOKS[1..] {
        v.each(probe);
        let settings = v.get(probe);
        let path = |field: &str| format!("{probe}.{field}");
        match (*probe, settings.is_null()) {
            (_, true) => {}
            ("readinessProbe", _) => {
                let grace = &settings["terminationGracePeriodSeconds"];
                if !grace.is_null() {
                    let why = "must not be set for readinessProbes";
                    v.invalid(&path("terminationGracePeriodSeconds"), grace, why);
                }
            }
            _ => {
                let threshold = settings["successThreshold"].as_i64().unwrap_or(0);
                if threshold != 1 {
                    v.invalid(&path("successThreshold"), threshold, "must be 1");
                }
            }
        }
    }
    if !is_init {
        restart_policy(v);
    }
}

/// The name of a container that runs first differs from those of the others.
fn name_is_free(v: &mut Visit<'_>) {
    let name = v.get("name").as_str().unwrap_or_default();
    let others = v.parent("PodSpec").and_then(|spec| spec.get("containers"));
    let others = others.map(list).unwrap_or_default();
    if !name.is_empty() && others.iter().any(|other| text(other, "name") == name) {
        v.duplicate("name", name);
    }
}

fn restart_policy(v: &mut Visit<'_>) {
    let (policy, rules) = (v.get("restartPolicy"), list(v.get("restartPolicyRules")));
    match policy.as_str() {
        None if !rules.is_empty() => v.required(
            "restartPolicy",
            "must specify restartPolicy when restart rules are used",
        ),
        Some("Always" | "Never" | "OnFailure") | None => {}
        Some(other) => v.unsupported("restartPolicy", other, &["Always", "Never", "OnFailure"]),
    }
    if rules.len() > 20 {
        v.too_many("restartPolicyRules", rules.len(), 20);
    }
    v.each("restartPolicyRules");
}

/// A rule for the exit codes of a container.
fn restart_rule(v: &mut Visit<'_>) {
    if v.get("exitCodes").is_null() {
        v.required("exitCodes", "must be specified");
    }
}

/// The value of a variable comes from one source, or is given.
fn env_source(v: &mut Visit<'_>) {
    let sources = v.here().len();
    let value = v.parent("EnvVar").map(|variable| variable.get("value"));
    let has_value = value
        .flatten()
        .and_then(Value::as_str)
        .is_some_and(|value| !value.is_empty());
    let why = match sources {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if has_value => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    v.invalid("", "", why);
}

/// Each source of variables is one ConfigMap or one Secret.
fn env_from(v: &mut Visit<'_>) {
    v.each("envFrom");
    for source in list(v.get("envFrom")) {
        let has = |field: &str| usize::from(!source[field].is_null());
        match has("configMapRef") + has("secretRef") {
            0 => v.invalid(
                "envFrom",
                "",
                "must specify one of: `configMapRef` or `secretRef`",
            ),
            1 => {}
            _ => v.invalid(
                "envFrom",
                "",
                "may not have more than one field specified at a time",
            ),
        }
    }
}

/// A field of the Pod that a container gets as a variable or a file.
fn field_ref(v: &mut Visit<'_>) {
    let path = v.get("fieldPath").as_str().unwrap_or_default();
    if path.is_empty() {
        return v.required("fieldPath", "");
    }
    let in_volume = v.parent("EnvVar").is_none();
    if let Some((field, key)) = subscript(path) {
        let faults = match field {
            "metadata.annotations" => {
                caretaker_machinery::names::qualified_name(&key.to_lowercase())
            }
            "metadata.labels" => caretaker_machinery::names::qualified_name(key),
            _ => {
                let why = format!(
                    "error converting fieldPath: field label does not support subscript: {path}"
                );
                return v.invalid("fieldPath", path, &why);
            }
        };
        return v.invalid_all("", key, &faults);
    }
    let is_known = ENV_FIELDS.contains(&path)
        || VOLUME_FIELDS.contains(&path)
        || [
            "spec.restartPolicy",
            "spec.schedulerName",
            "status.phase",
            "spec.host",
        ]
        .contains(&path);
    if !is_known {
        let why = format!("error converting fieldPath: field label not supported: {path}");
        return v.invalid("fieldPath", path, &why);
    }
    let supported: &[&str] = if in_volume {
        &VOLUME_FIELDS
    } else {
        &ENV_FIELDS
    };
    if !supported.contains(&path) {
        v.unsupported("fieldPath", path, supported);
    }
}

/// Splits a path with a key, as in `metadata.labels['key']`.
fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['")
}

/// A resource of a container.
fn resource_ref(v: &mut Visit<'_>) {
    let in_volume = v.parent("EnvVar").is_none();
    let resource = v.get("resource").as_str().unwrap_or_default();
    let huge = ["limits.hugepages-", "requests.hugepages-"];
    if in_volume
        && v.get("containerName")
            .as_str()
            .unwrap_or_default()
            .is_empty()
    {
        v.required("containerName", "");
    } else if resource.is_empty() {
        v.required("resource", "");
    } else if !RESOURCES.contains(&resource) && !huge.iter().any(|p| resource.starts_with(p)) {
        v.unsupported("resource", resource, &RESOURCES);
    }
    let divisor = v.get("divisor").as_str().unwrap_or("0");
    let is_cpu = resource.ends_with(".cpu");
    let small = ["0", "1"].contains(&divisor);
    let units = [
        "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
    ];
    let is_unit = divisor
        .strip_prefix('1')
        .is_some_and(|unit| units.contains(&unit));
    let fits = small || if is_cpu { divisor == "1m" } else { is_unit };
    if fits || !RESOURCES.contains(&resource) {
        return;
    }
    let why = match resource.split_once('.').map_or("", |(_, name)| name) {
        "cpu" => "only divisor's values 1m and 1 are supported with the cpu resource",
        "memory" => {
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource"
        }
        _ => {
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the local ephemeral storage resource"
        }
    };
    v.invalid("divisor", resource, why);
}

fn http_headers(v: &mut Visit<'_>) {
    for header in list(v.get("httpHeaders")) {
        let name = text(header, "name");
        v.invalid_all("httpHeaders", name, &formats::header_name(name));
    }
}

/// A port by number or by name.
pub(super) fn target_port(v: &mut Visit<'_>) {
    port_or_name(v, "port");
}

/// Checks a port that is given by number or by name.
pub(super) fn port_or_name(v: &mut Visit<'_>, field: &str) {
    match v.get(field) {
        Value::String(name) => v.invalid_all(field, name, &formats::port_name(name)),
        number => {
            let number = number.as_i64().unwrap_or(0);
            if !(1..=65535).contains(&number) {
                v.invalid(field, number, "must be between 1 and 65535, inclusive");
            }
        }
    }
}

/// A hook does not sleep longer than the Pod may take to end.
fn sleep(v: &mut Visit<'_>) {
    let seconds = v.get("seconds").as_i64().unwrap_or(0);
    let grace = v
        .parent("PodSpec")
        .and_then(|spec| spec.get("terminationGracePeriodSeconds"));
    let Some(grace) = grace.and_then(Value::as_i64) else {
        return;
    };
    if !(0..=grace).contains(&seconds) {
        let why =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        v.invalid("", seconds, &why);
    }
}

/// Reports whether the Pod, or the StatefulSet around it, has a volume.
fn has_volume(v: &Visit<'_>, name: &str) -> bool {
    volume(v, name).is_some()
}

/// Returns the volume of this name; the claim for a template of one.
fn volume<'a>(v: &Visit<'a>, name: &str) -> Option<&'a Value> {
    let find = |owner: Option<&'a ObjectTree>, field: &str| {
        let volumes = owner.and_then(|owner| owner.get(field));
        let mut volumes = volumes.map(list).unwrap_or_default().iter();
        volumes.find(|volume| match field {
            "volumes" => text(volume, "name") == name,
            _ => text(&volume["metadata"], "name") == name,
        })
    };
    find(v.parent("PodSpec"), "volumes")
        .or_else(|| find(v.parent("StatefulSetSpec"), "volumeClaimTemplates"))
}

/// Upstream leaves out the index in the paths of some of these causes.
fn mount(v: &mut Visit<'_>) {
    let mounts = list(v.get("volumeMounts"));
    for (at, mount) in mounts.iter().enumerate() {
        let own = |field: &str| format!("volumeMounts[{at}].{field}");
        let (name, path) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            v.required(&own("name"), "");
        }
        if !has_volume(v, name) {
            v.not_found(&own("name"), name);
        }
        if path.is_empty() {
            v.required(&own("mountPath"), "");
        }
        if mounts[..at]
            .iter()
            .any(|other| text(other, "mountPath") == path)
        {
            v.invalid(&own("mountPath"), path, "must be unique");
        }
        let devices = list(v.get("volumeDevices"));
        if devices.iter().any(|device| text(device, "name") == name) {
            let why = "must not already exist in volumeDevices";
            v.invalid(&own("name"), name, why);
        }
        if devices
            .iter()
            .any(|device| text(device, "devicePath") == path)
        {
            let why = "must not already exist as a path in volumeDevices";
            v.invalid(&own("mountPath"), path, why);
        }
        let (below, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
        v.invalid_all(
            "volumeMounts.subPath",
            below,
            &formats::relative_path(below),
        );
        if !below.is_empty() && !expression.is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            v.invalid(&own("subPathExpr"), expression, why);
        }
        let faults = formats::relative_path(expression);
        v.invalid_all("volumeMounts.subPathExpr", expression, &faults);
        propagation(v, mount);
    }
}

fn propagation(v: &mut Visit<'_>, mount: &Value) {
    let field = "volumeMounts.mountPropagation";
    let mode = mount["mountPropagation"].as_str();
    match mode {
        None | Some("HostToContainer" | "None") => {}
        Some("Bidirectional") => {
            if v.get("securityContext")["privileged"] != true {
                let why =
                    "Bidirectional mount propagation is available only to privileged containers";
                v.forbidden(field, why);
            }
        }
        Some(other) => {
            v.unsupported(field, other, &["Bidirectional", "HostToContainer", "None"]);
        }
    }
    let field = "volumeMounts.recursiveReadOnly";
    match mount["recursiveReadOnly"].as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount["readOnly"] != true {
                v.forbidden(field, "may only be specified when readOnly is true");
            }
            if mode.is_some_and(|mode| mode != "None") {
                let why = "may only be specified when mountPropagation is None or not specified";
                v.forbidden(field, why);
            }
        }
        Some(other) => v.unsupported(field, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn device(v: &mut Visit<'_>) {
    let devices = list(v.get("volumeDevices"));
    for (at, device) in devices.iter().enumerate() {
        let own = |field: &str| format!("volumeDevices[{at}].{field}");
        let (name, path) = (text(device, "name"), text(device, "devicePath"));
        let earlier = &devices[..at];
        if name.is_empty() {
            v.required(&own("name"), "");
        } else if earlier.iter().any(|other| text(other, "name") == name) {
            v.invalid(&own("name"), name, "must be unique");
        }
        match volume(v, name) {
            None => v.not_found(&own("name"), name),
            Some(volume) => {
                let is_claim = ["persistentVolumeClaim", "ephemeral", "metadata"]
                    .iter()
                    .any(|field| !volume[*field].is_null());
                if !is_claim {
                    let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    v.invalid(&own("name"), name, why);
                }
            }
        }
        if path.is_empty() {
            v.required(&own("devicePath"), "");
        }
        if earlier
            .iter()
            .any(|other| text(other, "devicePath") == path)
        {
            v.invalid(&own("devicePath"), path, "must be unique");
        }
        if path.split('/').any(|part| part == "..") {
            let why = "can not contain backsteps ('..')";
            v.invalid(&own("devicePath"), path, why);
        }
    }
}

fn resize_policy(v: &mut Visit<'_>) {
    let policies = list(v.get("resizePolicy"));
    let pod = v
        .parent("PodSpec")
        .and_then(|spec| spec.get("restartPolicy"));
    let never = pod.is_some_and(|policy| policy == "Never");
    for (at, policy) in policies.iter().enumerate() {
        let (resource, restart) = (text(policy, "resourceName"), text(policy, "restartPolicy"));
        let same = |other: &Value| text(other, "resourceName") == resource;
        if policies[..at].iter().any(same) {
            v.duplicate(&format!("resizePolicy[{at}]"), resource);
        }
        match resource {
            "cpu" | "memory" => {}
            "" => v.required("resizePolicy", ""),
            other => v.unsupported("resizePolicy", other, &["cpu", "memory"]),
        }
        match restart {
            "NotRequired" | "RestartContainer" => {}
            "" => v.required("resizePolicy", ""),
            other => v.unsupported("resizePolicy", other, &["NotRequired", "RestartContainer"]),
        }
        if never && restart != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            v.invalid("resizePolicy", restart, why);
        }
    }
}

fn security_context(v: &mut Visit<'_>) {
    let spec = v.parent("PodSpec");
    let host_users = spec.and_then(|spec| spec.get("hostUsers")) != Some(&Value::Bool(false));
    if host_users && v.get("procMount") == "Unmasked" {
        let why = "`hostUsers` must be false to use `Unmasked`";
        v.invalid("procMount", "Unmasked", why);
    }
    v.each("seccompProfile");
    if v.get("allowPrivilegeEscalation") == false {
        if v.get("privileged") == true {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            v.invalid_struct("", why);
        }
        let added = &v.get("capabilities")["add"];
        if list(added).iter().any(|name| name == "CAP_SYS_ADMIN") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            v.invalid_struct("", why);
        }
    }
    v.each("appArmorProfile");
}
