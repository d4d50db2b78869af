//! Impersonation: the `Impersonate-*` headers, by which a caller acts for another user.
//!
//! Mirrors `endpoints/filters/impersonation`, 1.36. Every caller with credentials may act for every user, because no RBAC
//! is enforced; a caller without credentials may not.

use std::collections::BTreeMap;

use caretaker_machinery::names;
use caretaker_machinery::status::{Status, quoted};
use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::access::{AccessAttributes, AccessTarget};
use super::{
    ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, UserIdentity, service_account_groups,
    service_account_namespace,
};

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA_PREFIX: &str = "impersonate-extra-";
/// The beginning of the user name of a Node.
const NODE_PREFIX: &str = "system:node:";

/// Returns the identity that a request is served for: the caller's, or the one that its headers name.
pub(crate) fn apply(
    headers: &HeaderMap,
    caller: UserIdentity,
    attributes: &AccessAttributes<'_>,
) -> Result<UserIdentity, Status> {
    let Some(wanted) = wanted(headers)? else {
        return Ok(caller);
    };
    let mode = ImpersonationMode::of(&wanted);
    if caller.is_anonymous() {
        return Err(mode.forbidden(&caller, &wanted, attributes));
    }
    Ok(complete(wanted))
}

/// The rule of upstream that decides about a wanted user. A refusal names it.
enum ImpersonationMode {
    Node,
    ServiceAccount,
    UserInfo,
    /// Nodes and ServiceAccounts with groups or extra fields of the caller's choice.
    Legacy,
}

// === impl ImpersonationMode ===

impl ImpersonationMode {
    fn of(wanted: &UserIdentity) -> Self {
        let only_name =
            wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let is_node = is_node(&wanted.user);
        let is_account = service_account_namespace(&wanted.user).is_some();
        match (is_node, is_account, only_name) {
            (true, _, true) => Self::Node,
            (_, true, true) => Self::ServiceAccount,
            (false, false, _) => Self::UserInfo,
            _ => Self::Legacy,
        }
    }

    fn forbidden(
        &self,
        caller: &UserIdentity,
        wanted: &UserIdentity,
        attributes: &AccessAttributes<'_>,
    ) -> Status {
        let mode = match self {
            Self::Node => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => return refuse_legacy(caller, wanted),
        };
        let verb = format!("impersonate-on:{mode}:{}", attributes.verb);
        let attributes = AccessAttributes {
            verb: verb.into(),
            target: attributes.target.clone(),
        };
        attributes.forbidden(caller)
    }
}

fn refuse_legacy(caller: &UserIdentity, wanted: &UserIdentity) -> Status {
    let namespace = service_account_namespace(&wanted.user).unwrap_or_default();
    let (resource, name) = match namespace {
        "" => ("users", wanted.user.as_str()),
        _ => (
            "serviceaccounts",
            wanted.user.rsplit(':').next().unwrap_or_default(),
        ),
    };
    let target = AccessTarget::Resource {
        group: "",
        resource,
        subresource: "",
        namespace,
        name,
    };
    let attributes = AccessAttributes {
        verb: "impersonate".into(),
        target,
    };
    attributes.forbidden(caller)
}

/// Reads the headers. None of them means that the caller acts for itself.
fn wanted(headers: &HeaderMap) -> Result<Option<UserIdentity>, Status> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            extra.entry(unescaped(key)).or_default().push(text(value));
        }
    }
    let wanted = UserIdentity {
        user: first(USER),
        uid: first(UID),
        groups: headers.get_all(GROUP).iter().map(text).collect(),
        extra,
    };
    if !wanted.user.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted == UserIdentity::default() {
        return Ok(None);
    }
    Err(Status::bad_request(format!(
        "requested {} without impersonating a user name",
        go_literal(&wanted)
    )))
}

/// Adds the groups that follow from the name.
fn complete(mut wanted: UserIdentity) -> UserIdentity {
    if wanted.groups.is_empty() {
        wanted.groups = match service_account_namespace(&wanted.user) {
            Some(namespace) => service_account_groups(namespace),
            None => Vec::new(),
        };
    }
    let group = if wanted.user == ANONYMOUS {
        UNAUTHENTICATED
    } else {
        AUTHENTICATED
    };
    let is_in = |name: &str| wanted.groups.iter().any(|known| known == name);
    if !is_in(group) && !is_in(UNAUTHENTICATED) {
        wanted.groups.push(group.to_owned());
    }
    wanted
}

fn is_node(user: &str) -> bool {
    let name = user.strip_prefix(NODE_PREFIX);
    name.is_some_and(|name| names::subdomain(name).is_empty())
}

/// Decodes the key of an extra field; one that is malformed stays as it is.
fn unescaped(key: &str) -> String {
    let is_escape = |rest: &str| {
        let digits = rest.get(..2).unwrap_or_default();
        digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    if key.split('%').skip(1).all(is_escape) {
        percent_decode_str(key).decode_utf8_lossy().into_owned()
    } else {
        key.to_owned()
    }
}

/// Writes a user as Go's `%#v` does, which upstream's message contains.
fn go_literal(user: &UserIdentity) -> String {
    let list = |values: &[String]| {
        let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
        format!("{{{}}}", values.join(", "))
    };
    let groups = match user.groups.as_slice() {
        [] => "[]string(nil)".to_owned(),
        groups => format!("[]string{}", list(groups)),
    };
    let extra: Vec<String> = user
        .extra
        .iter()
        .map(|(key, values)| format!("{}:[]string{}", quoted(key), list(values)))
        .collect();
    let extra = match extra.as_slice() {
        [] => "map[string][]string(nil)".to_owned(),
        extra => format!("map[string][]string{{{}}}", extra.join(", ")),
    };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{groups}, Extra:{extra}}}",
        quoted(&user.user),
        quoted(&user.uid)
    )
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn mk_headers(headers: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        map
    }

    fn applied(caller: UserIdentity, headers: &[(&str, &str)]) -> Result<UserIdentity, Status> {
        let attributes = AccessAttributes {
            verb: "get".into(),
            target: AccessTarget::Path("/api"),
        };
        apply(&mk_headers(headers), caller, &attributes)
    }

    #[test]
    fn groups_follow_from_the_name_unless_they_are_given() {
        let account = "system:serviceaccount:shop:web";
        let all = "system:serviceaccounts system:serviceaccounts:shop system:authenticated";
        let cases = [
            ("alice", vec![], "system:authenticated"),
            ("alice", vec!["dev", "ops"], "dev ops system:authenticated"),
            ("alice", vec![UNAUTHENTICATED], "system:unauthenticated"),
            ("alice", vec![AUTHENTICATED], "system:authenticated"),
            (ANONYMOUS, vec![], "system:unauthenticated"),
            (account, vec![], all),
            (account, vec!["dev"], "dev system:authenticated"),
            ("system:node:n1", vec![], "system:authenticated"),
            ("system:node:n1", vec!["dev"], "dev system:authenticated"),
        ];
        for (user, groups, expected) in cases {
            let mut headers = vec![(USER, user)];
            headers.extend(groups.into_iter().map(|group| (GROUP, group)));
            let applied = applied(UserIdentity::admin(), &headers).unwrap();
            assert_eq!(applied.user, user);
            assert_eq!(applied.groups.join(" "), expected, "{headers:?}");
        }
    }

    #[test]
    fn uid_and_extra_fields_are_taken_over() {
        let headers = [
            (USER, "alice"),
            (UID, "u"),
            ("impersonate-extra-acme.com%2Fproject", "a"),
            ("impersonate-extra-acme.com%2Fproject", "b"),
            ("impersonate-extra-bad%zz", "c"),
        ];
        let user = applied(UserIdentity::admin(), &headers).unwrap();
        assert_eq!(user.uid, "u");
        let keys: Vec<&str> = user.extra.keys().map(String::as_str).collect();
        assert_eq!(keys, ["acme.com/project", "bad%zz"]);
        assert_eq!(user.extra["acme.com/project"], ["a", "b"]);
    }

    #[test]
    fn a_user_name_is_required() {
        assert_eq!(
            applied(UserIdentity::admin(), &[]).unwrap(),
            UserIdentity::admin()
        );
        let cases: [(&[(&str, &str)], &str); 3] = [
            (
                &[(GROUP, "dev")],
                r#"&user.DefaultInfo{Name:"", UID:"", Groups:[]string{"dev"}, Extra:map[string][]string(nil)}"#,
            ),
            (
                &[(UID, "u")],
                r#"&user.DefaultInfo{Name:"", UID:"u", Groups:[]string(nil), Extra:map[string][]string(nil)}"#,
            ),
            (
                &[("impersonate-extra-a", "b")],
                r#"&user.DefaultInfo{Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string{"a":[]string{"b"}}}"#,
            ),
        ];
        for (headers, literal) in cases {
            let refused = applied(UserIdentity::admin(), headers).unwrap_err();
            let expected = format!("requested {literal} without impersonating a user name");
            assert_eq!((refused.code, refused.message), (400, expected));
        }
    }

    #[test]
    fn anonymous_callers_act_for_no_user() {
        let cases = [
            (
                "alice",
                r#"forbidden: User "system:anonymous" cannot impersonate-on:user-info:get path "/api""#,
            ),
            (
                "system:node:n",
                r#"forbidden: User "system:anonymous" cannot impersonate-on:arbitrary-node:get path "/api""#,
            ),
            (
                "system:serviceaccount:a:b",
                r#"forbidden: User "system:anonymous" cannot impersonate-on:serviceaccount:get path "/api""#,
            ),
        ];
        for (user, message) in cases {
            let refused = applied(UserIdentity::anonymous(), &[(USER, user)]).unwrap_err();
            assert_eq!((refused.code, refused.message.as_str()), (403, message));
        }
        let account = [(USER, "system:serviceaccount:a:b"), (GROUP, "dev")];
        let refused = applied(UserIdentity::anonymous(), &account).unwrap_err();
        let message = r#"serviceaccounts "b" is forbidden: User "system:anonymous" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "a""#;
        assert_eq!(refused.message, message);
    }
}
