//! The decision whether a presented token is valid, and whose it is.
//!
//! The steps and their messages are those of upstream's `JWTTokenAuthenticator` and `Validator`, 1.36: issuer, key,
//! signature, audience, times, ServiceAccount, bound object. The content of a token is read only after its signature was
//! verified, the issuer excepted. All work is linear in the length of the token, which the size of headers and bodies
//! limits. A refusal never contains the token.
//! DEVIATION(token-cache): upstream caches accepted tokens for ten seconds.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use caretaker_machinery::status::{Status, quoted};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::claims::{BoundName, TokenClaims};
use super::{ISSUER, TokenKey};
use crate::identity::UserIdentity;
use crate::metadata::{self, ObjectTree};
use crate::server::ServerState;
use crate::store::ObjectKey;

/// The difference of clocks that is tolerated: a token is valid this much before and after its times.
const LEEWAY: SignedDuration = SignedDuration::from_mins(1);
/// The answer to a token whose bound object is gone.
const INVALIDATED: &str = "service account token has been invalidated";

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenVerdict {
    Valid {
        identity: UserIdentity,
        /// The audiences that the token has and the caller wants.
        audiences: Vec<String>,
    },
    /// A token of this server that is not valid, and why.
    Refused(String),
    /// Not a token of this server.
    Unknown,
}

/// Returns the audiences of a token for this server.
pub(crate) fn own_audiences() -> Vec<String> {
    vec![ISSUER.to_owned()]
}

/// Checks a token of a ServiceAccount, or the administrator's.
pub(crate) fn check(server: &ServerState, token: &[u8], audiences: &[String]) -> TokenVerdict {
    let credentials = server.credentials();
    if let Some(admin) = &credentials.admin_token
        && admin.matches(token)
    {
        // The administrator's token is for this server.
        let own = own_audiences();
        let common: Vec<String> = own
            .into_iter()
            .filter(|audience| audiences.contains(audience))
            .collect();
        return match common.as_slice() {
            [] => TokenVerdict::Unknown,
            _ => TokenVerdict::Valid {
                identity: UserIdentity::admin(),
                audiences: common,
            },
        };
    }
    let Some(key) = &credentials.token_key else {
        return TokenVerdict::Unknown;
    };
    let Some(claims) = signed_claims(key, token) else {
        return TokenVerdict::Unknown;
    };
    let checked = claims.and_then(|claims| {
        let common = claims.common_audiences(audiences);
        if common.is_empty() {
            let (own, wanted) = (quoted_list(&claims.aud), quoted_list(audiences));
            return Err(format!(
                "token audiences {own} is invalid for the target audiences {wanted}"
            ));
        }
        check_times(&claims, server.clock.now())?;
        let identity = check_objects(server, &claims)?;
        Ok((identity, common))
    });
    match checked {
        Ok((identity, audiences)) => TokenVerdict::Valid {
            identity,
            audiences,
        },
        Err(why) => TokenVerdict::Refused(why),
    }
}

/// Returns the claims of a token after its signature was verified; none if it is not a token of this issuer.
fn signed_claims(key: &TokenKey, token: &[u8]) -> Option<Result<TokenClaims, String>> {
    #[derive(Deserialize)]
    struct IssuerClaim {
        iss: String,
    }
    #[derive(Deserialize)]
    struct TokenHeader {
        #[serde(default)]
        alg: String,
        #[serde(default)]
        kid: String,
        /// Extensions that the reader has to know; none is known here.
        #[serde(default)]
        crit: Vec<String>,
    }
    let token = std::str::from_utf8(token).ok()?;
    let (signed, signature) = token.rsplit_once('.')?;
    let (header, payload) = signed.split_once('.')?;
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claim: IssuerClaim = serde_json::from_slice(&payload).ok()?;
    if claim.iss != ISSUER {
        return None;
    }
    let header = URL_SAFE_NO_PAD.decode(header).ok()?;
    let header: TokenHeader = serde_json::from_slice(&header).ok()?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    if !header.kid.is_empty() && header.kid != key.id {
        return Some(Err("invalid signature, no keys found".to_owned()));
    }
    // Only the algorithm of the key is accepted, whatever the token names.
    let is_signed = header.alg == "ES256"
        && header.crit.is_empty()
        && key.has_signed(signed.as_bytes(), &signature);
    if !is_signed {
        let why = "go-jose/go-jose: error in cryptographic primitive";
        return Some(Err(why.to_owned()));
    }
    let claims = serde_json::from_slice(&payload);
    Some(claims.map_err(|_| "service account token claims could not be read".to_owned()))
}

fn check_times(claims: &TokenClaims, now: Timestamp) -> Result<(), String> {
    let at = |second: i64| Timestamp::from_second(second).ok();
    let latest = now.saturating_add(LEEWAY).unwrap_or(Timestamp::MAX);
    let earliest = now.saturating_sub(LEEWAY).unwrap_or(Timestamp::MIN);
    // A time that no clock shows is not reached.
    let is_future = |second: i64| at(second).is_none_or(|at| latest < at);
    let why = if is_future(claims.nbf) {
        "service account token is not valid yet"
    } else if at(claims.exp).is_some_and(|at| earliest > at) {
        "service account token has expired"
    } else if is_future(claims.iat) {
        "service account token is issued in the future"
    } else {
        return Ok(());
    };
    Err(why.to_owned())
}

/// Checks that the ServiceAccount and the bound object still exist.
fn check_objects(server: &ServerState, claims: &TokenClaims) -> Result<UserIdentity, String> {
    let objects = &claims.objects;
    let namespace = objects.namespace.as_str();
    let lookup = BoundLookup {
        server,
        invalid_before: server
            .clock
            .now()
            .saturating_sub(LEEWAY)
            .unwrap_or(Timestamp::MIN),
    };
    lookup.check_account(namespace, &objects.serviceaccount)?;
    if let Some(secret) = &objects.secret {
        lookup.check_bound("secrets", namespace, secret)?;
    }
    let account = &objects.serviceaccount;
    let mut identity = UserIdentity::service_account(namespace, &account.name, &account.uid);
    let mut add = |key: &str, value: &str| {
        let key = format!("authentication.kubernetes.io/{key}");
        identity.extra.insert(key, vec![value.to_owned()]);
    };
    add("credential-id", &format!("JTI={}", claims.jti));
    if let Some(pod) = &objects.pod {
        lookup.check_bound("pods", namespace, pod)?;
        add("pod-name", &pod.name);
        add("pod-uid", &pod.uid);
    }
    if let Some(node) = &objects.node {
        // The Node of a Pod may be gone.
        if objects.pod.is_none() {
            lookup.check_bound("nodes", "", node)?;
        }
        add("node-name", &node.name);
        if !node.uid.is_empty() {
            add("node-uid", &node.uid);
        }
    }
    Ok(identity)
}

/// Looks up the objects of a token.
struct BoundLookup<'a> {
    server: &'a ServerState,
    /// An object that was deleted before this, and waits for finalizers, counts as gone.
    invalid_before: Timestamp,
}

// === impl BoundLookup ===

impl BoundLookup<'_> {
    fn check_account(&self, namespace: &str, account: &BoundName) -> Result<(), String> {
        let (name, claimed) = (&account.name, &account.uid);
        let Some(found) = self.find("serviceaccounts", namespace, name) else {
            let kind = self.server.builtin("", "serviceaccounts");
            return Err(Status::not_found(kind.resource_named(name)).message);
        };
        let uid = metadata::text(&found, "uid");
        if uid != claimed {
            return Err(format!(
                "service account UID ({uid}) does not match claim ({claimed})"
            ));
        }
        if self.is_gone(&found) {
            return Err(format!(
                "service account {namespace}/{name} has been deleted"
            ));
        }
        Ok(())
    }

    fn check_bound(&self, plural: &str, namespace: &str, bound: &BoundName) -> Result<(), String> {
        let Some(found) = self.find(plural, namespace, &bound.name) else {
            return Err(INVALIDATED.to_owned());
        };
        let (uid, claimed) = (metadata::text(&found, "uid"), &bound.uid);
        if uid != claimed {
            let kind = plural.trim_end_matches('s');
            return Err(format!(
                "{kind} UID ({uid}) does not match service account {kind} ref claim ({claimed})"
            ));
        }
        if self.is_gone(&found) {
            return Err(INVALIDATED.to_owned());
        }
        Ok(())
    }

    fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<ObjectTree> {
        let kind = self.server.builtin("", plural);
        let namespace = Some(namespace).filter(|_| kind.namespaced);
        let key = ObjectKey::new(namespace, name);
        let found = self.server.store.get(kind.resource, &key)?;
        Some(found.to_value())
    }

    fn is_gone(&self, object: &ObjectTree) -> bool {
        let deleted = metadata::text(object, "deletionTimestamp").parse::<Timestamp>();
        deleted.is_ok_and(|deleted| deleted < self.invalid_before)
    }
}

/// Writes texts as Go's `%q` writes a list.
fn quoted_list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(" "))
}
