//! The documents by which other programs check tokens: the issuer's configuration and its public key.
//!
//! Mirrors `pkg/routes/openidmetadata.go`, 1.36. The address of the keys is the one that the client used, because a server
//! may be reached by several.

use http::request::Parts;
use http::{HeaderValue, Response, header};
use serde_json::{Value, json};

use super::{ISSUER, TokenKey};
use crate::negotiate::AcceptHeader;
use crate::request::OpenIdDocument;
use crate::respond::{self, ResponseBody};

/// Serves a document; a server without a key has none.
pub(crate) fn serve(
    document: OpenIdDocument,
    key: Option<&TokenKey>,
    request: &Parts,
    accept: &AcceptHeader<'_>,
) -> Response<ResponseBody> {
    let Some(key) = key else {
        return respond::not_found_page();
    };
    let (media_type, content) = match document {
        OpenIdDocument::Configuration => ("application/json", configuration(host(request))),
        OpenIdDocument::Keys => ("application/jwk-set+json", key.key_set()),
    };
    if let Err(status) = accept.check_route(&[media_type]) {
        return respond::status(&status, accept.status());
    }
    let mut response = respond::document(media_type, &content);
    let public = HeaderValue::from_static("public, max-age=3600");
    response.headers_mut().insert(header::CACHE_CONTROL, public);
    response
}

/// Returns the host that the client used.
fn host(request: &Parts) -> &str {
    let header = request.headers.get(header::HOST);
    let header = header.and_then(|host| host.to_str().ok());
    let named = request.uri.authority().map(http::uri::Authority::as_str);
    named.or(header).unwrap_or("kubernetes.default.svc")
}

fn configuration(host: &str) -> Value {
    json!({
        "issuer": ISSUER,
        "jwks_uri": format!("https://{host}/openid/v1/jwks"),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    })
}
