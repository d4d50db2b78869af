//! The claims of a token: who it is for, until when, and which objects it depends on.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ISSUER, TokenKey};
use crate::identity::service_account_user;

/// The claims, with the names that they have in a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenClaims {
    #[serde(default)]
    pub(crate) aud: Vec<String>,
    pub(crate) exp: i64,
    pub(crate) iat: i64,
    pub(crate) iss: String,
    pub(crate) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(crate) objects: TokenObjects,
    pub(crate) nbf: i64,
    pub(crate) sub: String,
}

/// The objects that a token depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenObjects {
    pub(crate) namespace: String,
    /// The Node of a token for itself, or of its Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<BoundName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<BoundName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<BoundName>,
    pub(crate) serviceaccount: BoundName,
    /// The end that the client asked for, if the token lives longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) warnafter: Option<i64>,
}

/// An object that a token depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BoundName {
    pub(crate) name: String,
    /// Empty for the Node of a Pod that does not exist.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
}

/// The times of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenTimes {
    pub(crate) now: Timestamp,
    pub(crate) lifetime_secs: i64,
    pub(crate) warn_after_secs: Option<i64>,
}

// === impl TokenClaims ===

impl TokenClaims {
    pub(crate) fn new(
        mut objects: TokenObjects,
        audiences: Vec<String>,
        times: TokenTimes,
        jti: String,
    ) -> Self {
        let now = times.now.as_second();
        objects.warnafter = times.warn_after_secs.map(|secs| now.saturating_add(secs));
        Self {
            aud: audiences,
            exp: now.saturating_add(times.lifetime_secs),
            iat: now,
            iss: ISSUER.to_owned(),
            jti,
            nbf: now,
            sub: service_account_user(&objects.namespace, &objects.serviceaccount.name),
            objects,
        }
    }

    /// Signs the claims; none if the operating system has no randomness.
    pub(crate) fn sign(&self, key: &TokenKey) -> Option<String> {
        key.sign(&serde_json::to_value(self).ok()?)
    }

    /// Returns the wanted audiences that the token has.
    pub(crate) fn common_audiences(&self, wanted: &[String]) -> Vec<String> {
        let own: BTreeSet<&String> = self.aud.iter().collect();
        let common = wanted.iter().filter(|audience| own.contains(audience));
        common.cloned().collect()
    }
}
