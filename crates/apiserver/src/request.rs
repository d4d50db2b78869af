//! Parses the path and the query of a request.
//! Paths follow upstream's `requestinfo.go` (1.36): everything below a group and version is
//! `[namespaces/NS/]RESOURCE[/NAME[/SUBRESOURCE]]`, and `namespaces` is a resource too.

mod options;

use std::num::{IntErrorKind, ParseIntError};

use caretaker_machinery::status::{Status, quoted};
use percent_encoding::percent_decode_str;

pub(crate) use options::{ListOptions, RevisionMatch, check_dry_run, invalid_options};

/// The endpoint or resource that a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestPath {
    /// The list of all paths, at `/`.
    Root,
    /// `/healthz`, `/livez`, `/readyz`, and one check below them.
    Health {
        endpoint: String,
        check: Option<String>,
    },
    /// The version of the server, at `/version`.
    Version,
    /// Metrics in the Prometheus text format, at `/metrics`.
    Metrics,
    /// `/api`: versions of the core group.
    Core,
    /// `/apis`: all other groups.
    Groups,
    /// The versions of one group, at `/apis/GROUP`.
    Group(String),
    /// The resources of one version, at `/api/v1` or `/apis/GROUP/VERSION`.
    Resources {
        group: String,
        version: String,
    },
    /// What clients need to verify the tokens of ServiceAccounts.
    OpenId(OpenIdDocument),
    /// `/openapi/v3` and the documents of its index.
    OpenApi(OpenApiDocument),
    /// A collection or an object.
    Resource(ResourcePath),
    Unknown,
}

/// The OpenAPI documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OpenApiDocument {
    /// The only document of version 2.
    Swagger,
    /// The index of version 3.
    Index,
    /// A document of that index.
    Document(String),
}

/// The documents about the issuer of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenIdDocument {
    /// Issuer and address of the keys, at `/.well-known/openid-configuration`.
    Configuration,
    /// The public keys, at `/openid/v1/jwks`.
    Keys,
}

/// A collection, an object, or a subresource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) resource: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// The old form `/api/v1/watch/…`.
    pub(crate) watch: bool,
}

/// The decoded parameters of a query, in order.
#[derive(Debug, Clone, Default)]
pub struct RequestQuery(Vec<(String, String)>);

// === impl RequestPath ===

impl RequestPath {
    pub(crate) fn parse(path: &str) -> Self {
        // Decoded as a whole, so that an escaped slash is a slash, as upstream.
        let path = decode(path);
        let trimmed = path.strip_prefix('/').unwrap_or(&path);
        // As upstream, "//x" is unknown, and one slash at the end is ignored.
        let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
        let parts: Vec<&str> = trimmed.split('/').collect();
        match parts.as_slice() {
            [""] => RequestPath::Root,
            [endpoint @ ("healthz" | "livez" | "readyz"), check @ ..] if check.len() < 2 => {
                RequestPath::Health {
                    endpoint: (*endpoint).to_owned(),
                    check: check.first().map(|check| (*check).to_owned()),
                }
            }
            ["version"] => RequestPath::Version,
            ["metrics"] => RequestPath::Metrics,
            [".well-known", "openid-configuration"] => {
                RequestPath::OpenId(OpenIdDocument::Configuration)
            }
            ["openid", "v1", "jwks"] => RequestPath::OpenId(OpenIdDocument::Keys),
            ["openapi", "v2"] => RequestPath::OpenApi(OpenApiDocument::Swagger),
            ["openapi", "v3"] => RequestPath::OpenApi(OpenApiDocument::Index),
            ["openapi", "v3", rest @ ..] => {
                RequestPath::OpenApi(OpenApiDocument::Document(rest.join("/")))
            }
            ["api"] => RequestPath::Core,
            ["api", version] => RequestPath::resources("", version),
            ["api", version, rest @ ..] => RequestPath::resource("", version, rest),
            ["apis"] => RequestPath::Groups,
            ["apis", group] => RequestPath::Group((*group).to_owned()),
            ["apis", group, version] => RequestPath::resources(group, version),
            ["apis", group, version, rest @ ..] => RequestPath::resource(group, version, rest),
            _ => RequestPath::Unknown,
        }
    }

    fn resources(group: &str, version: &str) -> Self {
        RequestPath::Resources {
            group: group.to_owned(),
            version: version.to_owned(),
        }
    }

    fn resource(group: &str, version: &str, rest: &[&str]) -> Self {
        let (watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        let (namespace, rest) = match rest {
            ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let (resource, name, subresource) = match rest {
            [resource] => (resource, None, None),
            [resource, name] => (resource, Some(*name), None),
            // Longer paths belong to a proxy; the subresource decides.
            [resource, name, subresource, ..] => (resource, Some(*name), Some(*subresource)),
            [] => return RequestPath::Unknown,
        };
        RequestPath::Resource(ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.map(str::to_owned),
            resource: (*resource).to_owned(),
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
            watch,
        })
    }
}

// === impl RequestQuery ===

impl RequestQuery {
    /// Parses the part of a URL after the question mark.
    #[must_use]
    pub fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode_form(key), decode_form(value))
                })
                .collect(),
        )
    }

    /// Returns the first value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// Absent, `0` and `false` are false; anything else is true, `maybe` included, as upstream.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.tristate(key).unwrap_or(false)
    }

    /// Returns all values of a key.
    #[must_use]
    pub fn all(&self, key: &str) -> Vec<&str> {
        let values = self.0.iter().filter(|(name, _)| name == key);
        values.map(|(_, value)| value.as_str()).collect()
    }

    fn tristate(&self, key: &str) -> Option<bool> {
        self.get(key)
            .map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    pub(crate) fn integer(&self, key: &str) -> Result<Option<i64>, Status> {
        match self.get(key) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|error: ParseIntError| {
                let why = match error.kind() {
                    IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                    _ => "invalid syntax",
                };
                Status::bad_request(format!("strconv.ParseInt: parsing {}: {why}", quoted(text)))
            }),
        }
    }
}

/// Percent-decodes; invalid text becomes replacement characters, which match no path.
pub(crate) fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn decode_form(text: &str) -> String {
    decode(&text.replace('+', " "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mk_path(path: &str) -> ResourcePath {
        match RequestPath::parse(path) {
            RequestPath::Resource(path) => path,
            other => panic!("{path} is {other:?}"),
        }
    }

    #[test]
    fn parses_collections_objects_and_subresources() {
        let pods = mk_path("/api/v1/namespaces/shop/pods/web/status");
        assert_eq!(pods.namespace.as_deref(), Some("shop"));
        assert_eq!(
            (pods.resource.as_str(), pods.name.as_deref()),
            ("pods", Some("web"))
        );
        assert_eq!(pods.subresource.as_deref(), Some("status"));

        let namespace = mk_path("/api/v1/namespaces/shop");
        assert_eq!(
            (namespace.resource.as_str(), namespace.namespace),
            ("namespaces", None)
        );
        let finalize = mk_path("/api/v1/namespaces/shop/finalize");
        assert_eq!(
            (finalize.resource.as_str(), finalize.name.as_deref()),
            ("namespaces", Some("shop"))
        );
        let jobs = mk_path("/apis/batch/v1/jobs/");
        assert_eq!(
            (jobs.group.as_str(), jobs.resource.as_str(), jobs.name),
            ("batch", "jobs", None)
        );
        assert!(mk_path("/api/v1/watch/namespaces/shop/pods").watch);
    }

    #[test]
    fn parses_other_endpoints_and_unknown_paths() {
        assert_eq!(RequestPath::parse("/"), RequestPath::Root);
        assert_eq!(RequestPath::parse("/apis"), RequestPath::Groups);
        assert_eq!(
            RequestPath::parse("/api/v1"),
            RequestPath::resources("", "v1")
        );
        assert_eq!(
            RequestPath::parse("/openapi/v3/apis/batch/v1"),
            RequestPath::OpenApi(OpenApiDocument::Document("apis/batch/v1".into()))
        );
        for nowhere in ["/nope", "//api/v1", "/healthz/a/b", "/version/x"] {
            assert_eq!(
                RequestPath::parse(nowhere),
                RequestPath::Unknown,
                "{nowhere}"
            );
        }
    }

    #[test]
    fn queries_are_forgiving_where_upstream_is() {
        let query = RequestQuery::parse(
            "?&limit=5&labelSelector=a%3Db%2Cc+in+%28d%29&watch=maybe".trim_start_matches('?'),
        );
        assert_eq!(query.get("limit"), Some("5"));
        assert_eq!(query.get("labelSelector"), Some("a=b,c in (d)"));
        assert!(query.flag("watch") && !query.flag("absent"));
        assert!(
            !RequestQuery::parse("watch=False").flag("watch")
                && !RequestQuery::parse("watch=0").flag("watch")
        );
        assert_eq!(
            RequestQuery::parse("limit=-3")
                .list_options()
                .unwrap()
                .limit,
            None
        );
        assert_eq!(
            RequestQuery::parse("limit=x")
                .list_options()
                .unwrap_err()
                .code,
            400
        );
    }

    proptest! {
        #[test]
        fn any_path_and_query_is_parsed_without_harm(path in "(/|%|[a-z0-9.]|%2[fF]|%00|\\PC){0,40}", query in "(&|=|%|[a-zA-Z]|\\PC){0,40}") {
            // No text panics, and no part of a resource path contains a slash.
            if let RequestPath::Resource(path) = RequestPath::parse(&path) {
                prop_assert!(!path.resource.contains('/'));
                prop_assert!(path.name.is_none_or(|name| !name.contains('/')));
            }
            let options = RequestQuery::parse(&query).list_options();
            prop_assert!(options.is_ok() || options.is_err_and(|status| status.code >= 400));
        }

        #[test]
        fn paths_of_objects_say_what_they_are(
            ns in "[a-z0-9-]{1,10}", resource in "[a-z]{1,10}", name in "[a-z0-9.-]{1,10}", part in proptest::option::of("[a-z]{1,8}")
        ) {
            let tail = part.as_ref().map(|part| format!("/{part}")).unwrap_or_default();
            let path = mk_path(&format!("/apis/g.io/v1/namespaces/{ns}/{resource}/{name}{tail}"));
            prop_assert_eq!(path.namespace, Some(ns));
            prop_assert_eq!(path.resource, resource);
            prop_assert_eq!(path.name, Some(name));
            prop_assert_eq!(path.subresource, part);
        }
    }
}
