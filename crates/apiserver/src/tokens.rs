//! Tokens of ServiceAccounts: they are signed here, and recognised here.
//!
//! A token is a JSON Web Token, signed with ES256 by the key of this server. [`claims`] has its content, [`check`] the
//! rules by which a presented token is accepted, [`openid`] the documents by which others can check one. Nothing is stored: a token is valid as long as its signature, its times,
//! its ServiceAccount and the object that it is bound to are. Mirrors `pkg/serviceaccount`, 1.36.

pub(crate) mod check;
pub(crate) mod claims;
pub(crate) mod openid;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    UnparsedPublicKey,
};
use serde_json::{Value, json};

use crate::listen::BearerToken;

/// The issuer of all tokens, and their audience unless the client names another: the name by which Pods reach a server.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// The bytes that precede a point of the curve P-256 in the DER encoding of a public key.
const P256_SPKI_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The bytes of a coordinate of the curve P-256.
const COORDINATE_BYTES: usize = 32;

/// The key that signs the tokens of ServiceAccounts.
pub struct TokenKey {
    pair: EcdsaKeyPair,
    /// The name of the key in the tokens: a hash of its public half.
    id: String,
}

/// The credentials that a server knows.
#[derive(Debug)]
pub struct ServerCredentials {
    /// The key for the tokens of ServiceAccounts. Without one there are no such tokens.
    pub token_key: Option<TokenKey>,
    /// The administrator's token, which a TokenReview recognises. The listener checks it by itself.
    pub admin_token: Option<BearerToken>,
}

/// The key is not one of the curve P-256 in PKCS#8 form.
#[derive(Debug, thiserror::Error)]
#[error("the key for tokens cannot be used: {0}")]
pub struct TokenKeyError(String);

// === impl ServerCredentials ===

impl ServerCredentials {
    /// The credentials of a server that was given none.
    pub(crate) const NONE: Self = Self {
        token_key: None,
        admin_token: None,
    };
}

// === impl TokenKey ===

impl TokenKey {
    /// Reads a P-256 key in PKCS#8 form. The key must come from the operating system's random source.
    ///
    /// # Errors
    /// If it is another key, or in another form.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, TokenKeyError> {
        let signing = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair = EcdsaKeyPair::from_pkcs8(signing, der, &SystemRandom::new());
        let pair = pair.map_err(|error| TokenKeyError(error.to_string()))?;
        let public = [&P256_SPKI_PREFIX[..], pair.public_key().as_ref()].concat();
        let id = URL_SAFE_NO_PAD.encode(digest(&SHA256, &public));
        Ok(Self { pair, id })
    }

    /// Signs claims. The signature is the one value of this crate that no seed determines: its nonce must be secret.
    fn sign(&self, claims: &Value) -> Option<String> {
        let header = json!({"alg": "ES256", "kid": self.id}).to_string();
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let signed = format!("{}.{}", part(&header), part(&claims.to_string()));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = URL_SAFE_NO_PAD.encode(signature.ok()?.as_ref());
        Some(format!("{signed}.{signature}"))
    }

    fn has_signed(&self, signed: &[u8], signature: &[u8]) -> bool {
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key());
        public.verify(signed, signature).is_ok()
    }

    /// Returns the public half as a JSON Web Key Set, at `/openid/v1/jwks`.
    pub(crate) fn key_set(&self) -> Value {
        // An uncompressed point: a tag, then both coordinates.
        let point = self.pair.public_key().as_ref();
        let coordinates = point.get(1..).unwrap_or_default();
        let (x, y) = coordinates.split_at(COORDINATE_BYTES.min(coordinates.len()));
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({"keys": [{"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256",
            "x": text(x), "y": text(y)}]})
    }
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenKey({})", self.id)
    }
}
