//! Rules of CertificateSigningRequests: who asks, and which conditions may be set through which subresource.
//!
//! `approval` sets the conditions Approved and Denied, `status` the certificate and the other conditions; neither can be
//! taken back. Mirrors `registry/certificates/certificates/strategy.go` and `certificates/validation`, 1.36.
//! DEVIATION(validation): the request must be PEM of the right type; what it contains, and its signature, are not checked.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use caretaker_machinery::status::StatusCause;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{KindStrategy, ObjectChange, ObjectPart, WriteContext};
use crate::metadata::{self, ObjectTree, value_at};

/// The rules of CertificateSigningRequests.
#[derive(Debug)]
pub(super) struct SigningRequestStrategy;

/// Conditions that only `approval` sets.
const APPROVAL: [&str; 2] = ["Approved", "Denied"];
/// Conditions that are true or absent, and stay.
const LASTING: [&str; 3] = ["Approved", "Denied", "Failed"];
const EXCLUSIVE: &str = "Approved and Denied conditions are mutually exclusive";
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
/// Shortest duration of a certificate.
const EXPIRATION_SECS_MIN: i64 = 600;
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

// === impl SigningRequestStrategy ===

impl KindStrategy for SigningRequestStrategy {
    fn prepare_create(&self, object: &mut ObjectTree, context: WriteContext<'_>) {
        let Some(Value::Object(spec)) = object.get_mut("spec") else {
            return;
        };
        for field in ["username", "uid", "groups", "extra"] {
            spec.remove(field);
        }
        if let Some(user) = context.user {
            spec.insert("username".into(), user.user.clone().into());
            spec.insert("groups".into(), json!(user.groups));
        }
    }

    fn prepare_update(&self, old: &ObjectTree, new: &mut ObjectTree, _: WriteContext<'_>) {
        metadata::set(new, "spec", old.get("spec").cloned());
    }

    fn prepare_status(&self, old: &ObjectTree, new: &mut ObjectTree, context: WriteContext<'_>) {
        let mut conditions = conditions(new).to_vec();
        for of in APPROVAL {
            preserve(&mut conditions, self::conditions(old), of);
        }
        set_conditions(new, conditions, old, context.now);
    }

    fn prepare_part(
        &self,
        part: ObjectPart,
        old: &ObjectTree,
        new: &mut ObjectTree,
        context: WriteContext<'_>,
    ) {
        if part != ObjectPart::Approval {
            return;
        }
        let conditions = conditions(new).to_vec();
        for field in ["spec", "status"] {
            metadata::set(new, field, old.get(field).cloned());
        }
        set_conditions(new, conditions, old, context.now);
    }

    fn validate(&self, change: &ObjectChange<'_>) -> Vec<StatusCause> {
        let ObjectChange { new, old, part, .. } = *change;
        let mut causes = match old {
            None => spec_faults(value_at(new, "/spec")),
            Some(_) => Vec::new(),
        };
        causes.extend(condition_faults(conditions(new), old.map(conditions)));
        causes.extend(certificate_fault(new, old));
        if let Some(old) = old {
            causes.extend(change_faults(new, old, part));
        }
        causes
    }
}

/// Returns why the spec of a new request is refused.
fn spec_faults(spec: &Value) -> Vec<StatusCause> {
    let text = |field: &str| spec[field].as_str().unwrap_or_default();
    let mut causes = Vec::new();
    let request = STANDARD.decode(text("request")).unwrap_or_default();
    if block_type(&request).as_deref() != Some("CERTIFICATE REQUEST") {
        let why = "PEM block type must be CERTIFICATE REQUEST";
        causes.push(StatusCause::invalid("spec.request", text("request"), why));
    }
    let usages = metadata::strings(&spec["usages"]);
    if usages.is_empty() {
        causes.push(StatusCause::required("spec.usages", ""));
    }
    for (index, usage) in usages.iter().enumerate() {
        let field = format!("spec.usages[{index}]");
        if !USAGES.contains(&usage.as_str()) {
            causes.push(StatusCause::not_supported(field, usage, &USAGES));
        } else if usages[..index].contains(usage) {
            causes.push(StatusCause::duplicate(field, usage));
        }
    }
    let field = "spec.signerName";
    match text("signerName") {
        "" => causes.push(StatusCause::required(field, "")),
        LEGACY_SIGNER => {
            let why = "the legacy signerName is not allowed via this API version";
            causes.push(StatusCause::invalid(field, LEGACY_SIGNER, why));
        }
        name if !name.contains('/') => {
            let why =
                "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            causes.push(StatusCause::invalid(field, name, why));
        }
        _ => {}
    }
    if let Some(secs) = spec["expirationSeconds"]
        .as_i64()
        .filter(|secs| *secs < EXPIRATION_SECS_MIN)
    {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        causes.push(StatusCause::invalid("spec.expirationSeconds", secs, why));
    }
    causes
}

/// Returns why the conditions of an object are refused. What is wrong in the stored ones may stay.
fn condition_faults(new: &[Value], old: Option<&[Value]>) -> Vec<StatusCause> {
    let stored = old.unwrap_or_default();
    let both = APPROVAL.iter().all(|of| count(stored, of) > 0);
    let mut causes = Vec::new();
    for (index, condition) in new.iter().enumerate() {
        let at = format!("status.conditions[{index}]");
        let of = kind(condition);
        if of.is_empty() && count(stored, "") == 0 {
            causes.push(StatusCause::required(format!("{at}.type"), ""));
        }
        let supported: &[&str] = match LASTING.contains(&of) {
            true => &["True"],
            false => &["False", "True", "Unknown"],
        };
        let status = condition["status"].as_str().unwrap_or_default();
        let field = format!("{at}.status");
        if status.is_empty() {
            causes.push(StatusCause::required(field, ""));
        } else if !supported.contains(&status) {
            causes.push(StatusCause::not_supported(field, status, supported));
        }
        let before = &new[..index];
        let excluded = APPROVAL.contains(&of)
            && APPROVAL
                .iter()
                .any(|other| *other != of && count(before, other) > 0);
        if excluded && !both {
            causes.push(StatusCause::invalid("status.conditions", of, EXCLUSIVE));
        }
        let repeated = |list: &[Value]| count(list, of) > 1;
        if count(before, of) > 0 && !repeated(stored) {
            causes.push(StatusCause::duplicate(format!("{at}.type"), of));
        }
    }
    causes
}

/// Refuses a new certificate that is none.
fn certificate_fault(new: &ObjectTree, old: Option<&ObjectTree>) -> Option<StatusCause> {
    let text = certificate(new);
    if text.is_empty() || old.is_some_and(|old| certificate(old) == text) {
        return None;
    }
    let bytes = STANDARD.decode(text).unwrap_or_default();
    let why = match block_type(&bytes).as_deref() {
        Some("CERTIFICATE") => return None,
        Some(other) => format!("only CERTIFICATE PEM blocks are allowed, found {other:?}"),
        None => "must contain at least one CERTIFICATE PEM block".to_owned(),
    };
    let shown = "<certificate data>";
    Some(StatusCause::invalid("status.certificate", shown, &why))
}

/// Returns why a change is refused: conditions and certificates are not taken back, and each has its subresource.
fn change_faults(new: &ObjectTree, old: &ObjectTree, part: ObjectPart) -> Vec<StatusCause> {
    let counts = |of: &str| (count(conditions(old), of), count(conditions(new), of));
    let mut causes = Vec::new();
    let mut refuse = |why: String| causes.push(StatusCause::forbidden("status.conditions", &why));
    for of in LASTING {
        if matches!(counts(of), (was, now) if now < was) {
            refuse(format!("updates may not remove a condition of type {of:?}"));
        }
    }
    for of in APPROVAL {
        if matches!(counts(of), (was, now) if now > was) && part != ObjectPart::Approval {
            refuse(format!("updates may not add a condition of type {of:?}"));
        }
    }
    if certificate(new) != certificate(old) && !certificate(old).is_empty() {
        let why = "updates may not modify existing certificate content";
        causes.push(StatusCause::forbidden("status.certificate", why));
    }
    causes
}

/// Keeps the stored conditions of a type if a write has as many of them.
fn preserve(conditions: &mut [Value], old: &[Value], of: &str) {
    if count(conditions, of) != count(old, of) {
        return;
    }
    let olds = old.iter().filter(|condition| kind(condition) == of);
    let news = conditions
        .iter_mut()
        .filter(|condition| kind(condition) == of);
    for (new, old) in news.zip(olds) {
        new.clone_from(old);
    }
}

/// Sets conditions, with the times that they lack.
fn set_conditions(new: &mut ObjectTree, mut list: Vec<Value>, old: &ObjectTree, now: Timestamp) {
    let now = metadata::time(now);
    let lacks =
        |condition: &Value, field: &str| condition[field].as_str().is_none_or(str::is_empty);
    for condition in &mut list {
        if lacks(condition, "lastUpdateTime") {
            condition["lastUpdateTime"] = now.as_str().into();
        }
        if lacks(condition, "lastTransitionTime") {
            let mut known = conditions(old).iter();
            let same = known.find(|known| {
                kind(known) == kind(condition)
                    && known["status"] == condition["status"]
                    && !lacks(known, "lastTransitionTime")
            });
            let since = same.map_or(now.as_str().into(), |same| {
                same["lastTransitionTime"].clone()
            });
            condition["lastTransitionTime"] = since;
        }
    }
    let status = new.entry("status").or_insert_with(|| json!({}));
    if let Value::Object(status) = status {
        let list = (!list.is_empty()).then(|| list.into());
        metadata::set(status, "conditions", list);
    }
}

fn conditions(object: &ObjectTree) -> &[Value] {
    let list = value_at(object, "/status/conditions").as_array();
    list.map(Vec::as_slice).unwrap_or_default()
}

fn count(conditions: &[Value], of: &str) -> usize {
    conditions
        .iter()
        .filter(|condition| kind(condition) == of)
        .count()
}

fn kind(condition: &Value) -> &str {
    condition["type"].as_str().unwrap_or_default()
}

fn certificate(object: &ObjectTree) -> &str {
    value_at(object, "/status/certificate")
        .as_str()
        .unwrap_or_default()
}

/// Returns the type of the first block in PEM, if it is complete.
fn block_type(pem: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(pem);
    let (_, begin) = text.split_once("-----BEGIN ")?;
    let (of, rest) = begin.split_once("-----")?;
    let is_complete = rest.contains(&format!("-----END {of}-----"));
    is_complete.then(|| of.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::mk_tree;

    fn mk_request(conditions: &Value) -> ObjectTree {
        mk_tree(&json!({"spec": {}, "status": {"conditions": conditions}}))
    }

    fn mk_condition(of: &str, status: &str) -> Value {
        json!({"type": of, "status": status, "lastUpdateTime": "T", "lastTransitionTime": "T"})
    }

    fn shown(causes: &[StatusCause]) -> Vec<String> {
        let show = |cause: &StatusCause| format!("{}: {}", cause.field, cause.message);
        causes.iter().map(show).collect()
    }

    #[test]
    fn conditions_are_complete_unique_and_exclusive() {
        let approved = || mk_condition("Approved", "True");
        let cases = [
            (
                json!([approved(), mk_condition("Other", "Unknown")]),
                vec![],
            ),
            (
                json!([mk_condition("Approved", "False")]),
                vec![
                    "status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\"",
                ],
            ),
            (
                json!([mk_condition("", "")]),
                vec![
                    "status.conditions[0].type: Required value",
                    "status.conditions[0].status: Required value",
                ],
            ),
            (
                json!([approved(), mk_condition("Denied", "True")]),
                vec![
                    "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
                ],
            ),
            (
                json!([approved(), approved()]),
                vec!["status.conditions[1].type: Duplicate value: \"Approved\""],
            ),
        ];
        for (list, expected) in cases {
            let causes = condition_faults(list.as_array().unwrap(), None);
            assert_eq!(shown(&causes), expected, "{list}");
        }
    }

    #[test]
    fn each_subresource_changes_its_own_part() {
        let approved = || json!([mk_condition("Approved", "True")]);
        let remove =
            "status.conditions: Forbidden: updates may not remove a condition of type \"Approved\"";
        let add =
            "status.conditions: Forbidden: updates may not add a condition of type \"Approved\"";
        let cases = [
            (json!([]), approved(), ObjectPart::Approval, vec![]),
            (json!([]), approved(), ObjectPart::Status, vec![add]),
            (approved(), json!([]), ObjectPart::Approval, vec![remove]),
            (approved(), json!([]), ObjectPart::Status, vec![remove]),
            (approved(), approved(), ObjectPart::Status, vec![]),
        ];
        for (old, new, part, expected) in cases {
            let causes = change_faults(&mk_request(&new), &mk_request(&old), part);
            assert_eq!(shown(&causes), expected, "{part:?}");
        }
    }

    #[test]
    fn status_keeps_the_approval_and_new_conditions_get_times() {
        let old = mk_request(&json!([mk_condition("Approved", "True")]));
        let mut list = vec![
            json!({"type": "Approved", "status": "True", "reason": "changed"}),
            json!({"type": "Failed", "status": "True"}),
        ];
        preserve(&mut list, conditions(&old), "Approved");
        let mut new = mk_request(&json!([]));
        set_conditions(
            &mut new,
            list,
            &old,
            "2026-01-01T00:00:00Z".parse().unwrap(),
        );
        let now = "2026-01-01T00:00:00Z";
        assert_eq!(
            new["status"]["conditions"],
            json!([mk_condition("Approved", "True"), {"type": "Failed", "status": "True",
                "lastUpdateTime": now, "lastTransitionTime": now}])
        );
    }

    #[test]
    fn a_new_request_names_its_signer_and_usages() {
        let pem = STANDARD
            .encode("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n");
        let spec =
            json!({"request": pem, "signerName": "example.com/s", "usages": ["client auth"]});
        assert!(spec_faults(&spec).is_empty());
        let cases = [
            ("request", json!("aGk="), "spec.request"),
            ("signerName", json!(""), "spec.signerName"),
            ("signerName", json!("x"), "spec.signerName"),
            ("usages", json!([]), "spec.usages"),
            ("usages", json!(["x"]), "spec.usages[0]"),
            ("expirationSeconds", json!(5), "spec.expirationSeconds"),
        ];
        for (field, value, expected) in cases {
            let mut spec = spec.clone();
            spec[field] = value;
            let causes = spec_faults(&spec);
            assert_eq!(causes.len(), 1, "{field}");
            assert_eq!(causes[0].field, expected);
        }
    }
}
