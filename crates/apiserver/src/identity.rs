//! The caller of a request: its names, and the names of another user that it acts for.
//!
//! A [`UserIdentity`] comes from a token ([`tokens`](crate::tokens)), from the listener, or from an in-process caller;
//! [`impersonation`] may replace it. [`access`] decides what it may do, which is everything unless it is anonymous.
//! Mirrors `authentication/user` and `authentication/serviceaccount` of upstream's apiserver, 1.36.

pub(crate) mod access;
pub(crate) mod impersonation;

use std::collections::BTreeMap;

use caretaker_machinery::names;
use serde_json::{Map, Value};

/// The user of a request without credentials.
const ANONYMOUS: &str = "system:anonymous";
/// The group of every user who presented credentials.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of every user who did not.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group whose members may do everything, on any server.
const MASTERS: &str = "system:masters";
/// The group of all ServiceAccounts, and the beginning of the name of each namespace's.
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// The beginning of the user name of a ServiceAccount.
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// The caller. The server enforces no RBAC: only an anonymous caller is refused anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserIdentity {
    /// The user name.
    pub user: String,
    /// A name that is never given to another user; empty for users who are no objects.
    pub uid: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// More facts about the user, such as the Pod that a token belongs to.
    pub extra: BTreeMap<String, Vec<String>>,
}

// === impl UserIdentity ===

impl UserIdentity {
    /// Returns a user with credentials and without further groups.
    #[must_use]
    pub fn named(user: impl Into<String>) -> Self {
        Self {
            user: user.into(),
            groups: vec![AUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Returns the administrator, whose token is in the kubeconfig of a local server.
    #[must_use]
    pub fn admin() -> Self {
        Self {
            groups: vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()],
            ..Self::named("caretaker-admin")
        }
    }

    /// Returns the caller without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::named(ANONYMOUS)
        }
    }

    /// Returns a ServiceAccount that presented its token.
    pub(crate) fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        let mut groups = service_account_groups(namespace);
        groups.push(AUTHENTICATED.to_owned());
        Self {
            uid: uid.to_owned(),
            groups,
            ..Self::named(service_account_user(namespace, name))
        }
    }

    /// Reports whether the caller has no credentials, or acts for a user without them.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        let is_in = |name: &str| self.groups.iter().any(|group| group == name);
        (self.user == ANONYMOUS || is_in(UNAUTHENTICATED)) && !is_in(MASTERS)
    }

    /// Returns the user as reviews show it.
    pub(crate) fn to_value(&self) -> Value {
        let mut info = Map::new();
        let texts = [("username", &self.user), ("uid", &self.uid)];
        for (member, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            info.insert(member.into(), text.clone().into());
        }
        if !self.groups.is_empty() {
            info.insert("groups".into(), self.groups.clone().into());
        }
        if !self.extra.is_empty() {
            let extra = self.extra.iter();
            let extra = extra.map(|(key, values)| (key.clone(), values.clone().into()));
            info.insert("extra".into(), Value::Object(extra.collect()));
        }
        Value::Object(info)
    }
}

pub(crate) fn service_account_user(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

fn service_account_groups(namespace: &str) -> Vec<String> {
    let all = SERVICE_ACCOUNTS.to_owned();
    let own = format!("{SERVICE_ACCOUNTS}:{namespace}");
    vec![all, own]
}

/// Returns the namespace of a user name that a ServiceAccount can have.
fn service_account_namespace(user: &str) -> Option<&str> {
    let rest = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?;
    let (namespace, name) = rest.split_once(':')?;
    let is_fine = names::label(namespace).is_empty() && names::subdomain(name).is_empty();
    is_fine.then_some(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_users_without_credentials_are_anonymous() {
        let of = |user: &str, groups: &[&str]| UserIdentity {
            groups: groups.iter().map(ToString::to_string).collect(),
            ..UserIdentity::named(user)
        };
        let cases = [
            (UserIdentity::anonymous(), true),
            (UserIdentity::admin(), false),
            (UserIdentity::service_account("ns", "a", "u"), false),
            (of("alice", &[]), false),
            (of("alice", &[UNAUTHENTICATED]), true),
            (of(ANONYMOUS, &[]), true),
            (of(ANONYMOUS, &[MASTERS]), false),
        ];
        for (identity, expected) in cases {
            assert_eq!(identity.is_anonymous(), expected, "{identity:?}");
        }
    }

    #[test]
    fn reviews_show_what_is_known_of_a_user() {
        let account = UserIdentity::service_account("shop", "web", "u");
        let expected = json!({"username": "system:serviceaccount:shop:web", "uid": "u",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"]});
        assert_eq!(account.to_value(), expected);
        assert_eq!(UserIdentity::default().to_value(), json!({}));
    }
}
