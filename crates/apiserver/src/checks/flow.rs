//! Rules of FlowSchemas and PriorityLevelConfigurations that need more than one field.
//!
//! Mirrors `flowcontrol/validation`, 1.36. The server does not limit requests by them.

use caretaker_machinery::names::{label, subdomain};
use serde_json::Value;

use super::table::CheckFn;
use super::{Visit, list};

pub(super) const CHECKS: &[(&str, CheckFn)] = &[
    ("flow-precedence", flow_precedence),
    ("flow-distinguisher", flow_distinguisher),
    ("flow-rule", flow_rule),
    ("flow-subject", flow_subject),
    ("flow-verbs", flow_verbs),
    ("flow-resources", flow_resources),
    ("flow-urls", flow_urls),
    ("priority-level", priority_level),
    ("limit-response", limit_response),
    ("queuing", queuing),
];

/// The name of the schema and of the level that are never limited.
const EXEMPT: &str = "exempt";
/// Largest precedence of a schema.
const PRECEDENCE_MAX: i64 = 10_000;
/// Most queues of a level.
const QUEUES_MAX: i64 = 10_000_000;
/// Most bits of a hash that choose the queues of a flow.
const ENTROPY_BITS_MAX: f64 = 60.0;
const VERBS: [&str; 9] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];
/// The kinds of subjects, each with the field of its name.
const SUBJECTS: [(&str, &str); 3] = [
    ("Group", "group"),
    ("ServiceAccount", "serviceAccount"),
    ("User", "user"),
];

fn flow_precedence(v: &mut Visit<'_>) {
    let precedence = v.get("matchingPrecedence").as_i64().unwrap_or(0);
    let field = "matchingPrecedence";
    if precedence <= 0 {
        v.invalid(field, precedence, "must be a positive value");
    }
    if precedence > PRECEDENCE_MAX {
        let why = format!("must not be greater than {PRECEDENCE_MAX}");
        v.invalid(field, precedence, &why);
    }
    if precedence == 1 && object_name(v) != EXEMPT {
        let why = "only the schema named 'exempt' may have matchingPrecedence 1";
        v.invalid(field, precedence, why);
    }
}

fn flow_distinguisher(v: &mut Visit<'_>) {
    let kinds = ["ByNamespace", "ByUser"];
    if !kinds.contains(&text_of(v, "type")) {
        let shown = v.shown("");
        v.unsupported_shown("type", &shown, &kinds);
    }
}

fn flow_rule(v: &mut Visit<'_>) {
    if list(v.get("subjects")).is_empty() {
        v.required("subjects", "subjects must contain at least one value");
    }
    v.each("subjects");
    let is_empty = |field| list(v.get(field)).is_empty();
    if is_empty("resourceRules") && is_empty("nonResourceRules") {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        v.required("", why);
    }
    v.each("resourceRules");
    v.each("nonResourceRules");
}

/// A subject is named by the field of its kind, and by no other.
fn flow_subject(v: &mut Visit<'_>) {
    let kind = text_of(v, "kind");
    let Some((_, own)) = SUBJECTS.iter().find(|(known, _)| *known == kind) else {
        return v.unsupported("kind", kind, &SUBJECTS.map(|(known, _)| known));
    };
    let subject = v.get(own);
    if subject.is_null() {
        let why = format!("{own} is required when subject kind is '{kind}'");
        v.required(own, &why);
    } else if kind == "ServiceAccount" {
        account(v, subject);
    } else if super::text(subject, "name").is_empty() {
        v.required(&format!("{own}.name"), "");
    }
    for (other, field) in ["user", "serviceAccount", "group"].map(|field| (kind_of(field), field)) {
        if other != kind && !v.get(field).is_null() {
            let why = format!("{field} is forbidden when subject kind is not '{other}'");
            v.forbidden(field, &why);
        }
    }
}

fn kind_of(field: &str) -> &'static str {
    let row = SUBJECTS.iter().find(|(_, known)| *known == field);
    row.map_or("", |(kind, _)| kind)
}

fn account(v: &mut Visit<'_>, account: &Value) {
    match super::text(account, "name") {
        "" => v.required("serviceAccount.name", ""),
        "*" => {}
        name => v.invalid_all("serviceAccount.name", name, &subdomain(name)),
    }
    match super::text(account, "namespace") {
        "" => {
            let why = "must specify namespace for service account";
            v.required("serviceAccount.namespace", why);
        }
        namespace => v.invalid_all("serviceAccount.namespace", namespace, &label(namespace)),
    }
}

fn flow_verbs(v: &mut Visit<'_>) {
    let verbs = v.get("verbs");
    let is_known = |verb: &Value| VERBS.contains(&verb.as_str().unwrap_or_default());
    if list(verbs).is_empty() {
        v.required("verbs", "verbs must contain at least one value");
    } else if has_wildcard(verbs) {
        alone(v, "verbs", "verbs");
    } else if !list(verbs).iter().all(is_known) {
        v.unsupported_value("verbs", verbs, &VERBS);
    }
}

fn flow_resources(v: &mut Visit<'_>) {
    for (field, what, one) in [
        ("apiGroups", "api groups", "api group"),
        ("resources", "resources", "resource"),
    ] {
        if list(v.get(field)).is_empty() {
            let why = format!("resource rules must supply at least one {one}");
            v.required(field, &why);
        }
        alone(v, field, what);
    }
    let namespaces = v.get("namespaces");
    if list(namespaces).is_empty() && v.get("clusterScope") != true {
        let why = "resource rules that are not cluster scoped must supply at least one namespace";
        return v.required("namespaces", why);
    }
    if has_wildcard(namespaces) {
        return alone(v, "namespaces", "namespaces");
    }
    for (at, namespace) in list(namespaces).iter().enumerate() {
        let namespace = namespace.as_str().unwrap_or_default();
        for fault in label(namespace) {
            let why = format!("each member of this list must be '*' or a DNS-1123 label; {fault}");
            v.invalid(&format!("namespaces[{at}]"), namespace, &why);
        }
    }
}

fn flow_urls(v: &mut Visit<'_>) {
    let urls = v.get("nonResourceURLs");
    if list(urls).is_empty() {
        let why = "nonResourceURLs must contain at least one value";
        return v.required("nonResourceURLs", why);
    }
    if has_wildcard(urls) {
        return alone(v, "nonResourceURLs", "non-resource URLs");
    }
    for (at, url) in list(urls).iter().enumerate() {
        let url = url.as_str().unwrap_or_default();
        if let Some(why) = url_fault(url) {
            v.invalid(&format!("nonResourceURLs[{at}]"), url, why);
        }
    }
}

fn url_fault(url: &str) -> Option<&'static str> {
    let wildcards = url.matches('*').count();
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        url if !url.starts_with('/') => Some("must start with slash"),
        url if url.contains(' ') => Some("must not contain white-space"),
        url if url.contains("//") => Some("must not contain double slash"),
        url if wildcards > 1 || (wildcards == 1 && !url.ends_with("/*")) => {
            Some("wildcard can only do suffix matching")
        }
        _ => None,
    }
}

/// A level is limited or exempt.
fn priority_level(v: &mut Visit<'_>) {
    let kind = text_of(v, "type");
    if (object_name(v) == EXEMPT) != (kind == "Exempt") {
        let why = "type must be 'Exempt' if and only if `name` is 'exempt'";
        v.invalid("type", kind, why);
    }
    let has = |field: &str| !v.get(field).is_null();
    match kind {
        "Exempt" if has("limited") => {
            v.forbidden("limited", "must be nil if the type is not Limited");
        }
        "Exempt" => {}
        "Limited" => {
            if has("exempt") {
                v.forbidden("exempt", "must be nil if the type is Limited");
            }
            if v.get("limited").is_null() {
                v.required("limited", "must not be empty when type is Limited");
            }
            v.each("limited");
        }
        "" => v.required("type", ""),
        kind => v.unsupported("type", kind, &["Exempt", "Limited"]),
    }
}

fn limit_response(v: &mut Visit<'_>) {
    let has_queues = !v.get("queuing").is_null();
    match text_of(v, "type") {
        "Reject" if has_queues => {
            let why = "must be nil if limited.limitResponse.type is not Limited";
            v.forbidden("queuing", why);
        }
        "Reject" => {}
        "Queue" if has_queues => v.each("queuing"),
        "Queue" => {
            let why = "must not be empty if limited.limitResponse.type is Limited";
            v.required("queuing", why);
        }
        "" => v.required("type", ""),
        kind => v.unsupported("type", kind, &["Queue", "Reject"]),
    }
}

fn queuing(v: &mut Visit<'_>) {
    let number = |field: &str| v.get(field).as_i64().unwrap_or(0);
    let (length, queues, hand) = (
        number("queueLengthLimit"),
        number("queues"),
        number("handSize"),
    );
    if length <= 0 {
        v.invalid("queueLengthLimit", length, "must be positive");
    }
    if queues <= 0 {
        v.invalid("queues", queues, "must be positive");
    } else if queues > QUEUES_MAX {
        let why = format!("must not be greater than {QUEUES_MAX}");
        v.invalid("queues", queues, &why);
    }
    // Both are 32-bit numbers.
    let bits = ((queues as f64).log2() * hand as f64).ceil();
    if hand <= 0 {
        v.invalid("handSize", hand, "must be positive");
    } else if hand > queues {
        let why = format!("should not be greater than queues ({queues})");
        v.invalid("handSize", hand, &why);
    } else if bits > ENTROPY_BITS_MAX {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {ENTROPY_BITS_MAX}"
        );
        v.invalid("handSize", hand, &why);
    }
}

/// A wildcard makes other items pointless.
fn alone(v: &mut Visit<'_>, field: &str, what: &str) {
    let items = v.get(field);
    if has_wildcard(items) && list(items).len() > 1 {
        let why = format!("if '*' is present, must not specify other {what}");
        v.invalid(field, items, &why);
    }
}

fn has_wildcard(items: &Value) -> bool {
    list(items).iter().any(|item| item == "*")
}

fn text_of<'a>(v: &Visit<'a>, field: &str) -> &'a str {
    v.get(field).as_str().unwrap_or_default()
}

fn object_name<'a>(v: &Visit<'a>) -> &'a str {
    crate::metadata::text(v.new, "name")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::strategy::validation::tests::found;

    #[test]
    fn subjects_have_the_name_of_their_kind() {
        let rule = |subject: Value| json!({"subjects": [subject], "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["/healthz/*"]}]});
        let schema = |rule: Value| {
            json!({"metadata": {"name": "a"}, "spec": {"matchingPrecedence": 5,
                "priorityLevelConfiguration": {"name": "p"}, "rules": [rule]}})
        };
        let cases = [
            (json!({"kind": "User", "user": {"name": "u"}}), None),
            (
                json!({"kind": "User"}),
                Some("user: Required value: user is required when subject kind is 'User'"),
            ),
            (
                json!({"kind": "Group", "group": {"name": "g"}, "user": {"name": "u"}}),
                Some("user: Forbidden: user is forbidden when subject kind is not 'User'"),
            ),
            (
                json!({"kind": "X"}),
                Some(
                    "kind: Unsupported value: \"X\": supported values: \"Group\", \"ServiceAccount\", \"User\"",
                ),
            ),
        ];
        for (subject, why) in cases {
            let group = "flowcontrol.apiserver.k8s.io/v1";
            let causes = found(group, "FlowSchema", schema(rule(subject)), None);
            let expected = why.map(|why| format!("spec.rules[0].subjects[0].{why}"));
            assert_eq!(causes, Vec::from_iter(expected));
        }
    }

    #[test]
    fn hands_of_queues_fit() {
        let level = |queues: i64, hand: i64| {
            json!({"metadata": {"name": "a"}, "spec": {"type": "Limited", "limited": {"limitResponse":
                {"type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 1}}}}})
        };
        let find = |queues, hand| {
            let group = "flowcontrol.apiserver.k8s.io/v1";
            let causes = found(
                group,
                "PriorityLevelConfiguration",
                level(queues, hand),
                None,
            );
            causes.join("; ")
        };
        let at = "spec.limited.limitResponse.queuing.handSize: Invalid value:";
        assert_eq!(find(8, 2), "");
        assert_eq!(
            find(8, 9),
            format!("{at} 9: should not be greater than queues (8)")
        );
        let why = "required entropy bits of deckSize 10000000 and handSize 3 should not be greater than 60";
        assert_eq!(find(10_000_000, 3), format!("{at} 3: {why}"));
    }
}
