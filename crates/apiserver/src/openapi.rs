//! OpenAPI v3: an index, and one document per group and version.
//!
//! The documents contain what kubectl needs before it writes: operations with their kind, and the `fieldValidation` and
//! `dryRun` parameters of writes.
//! DEVIATION(openapi): they contain no schemas, so `kubectl explain` shows nothing, and there is no version 2.
//! Strategic merge patch is accepted but not advertised: a client that finds it here computes patches from schemas.
//! Addresses, redirects and headers are those of upstream's `handler3` (1.36).

use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use crate::discovery::path_of;
use crate::etag::{self, ETag};
use crate::kinds::{KindTable, ServedKind};
use crate::negotiate::ResponseFormat;
use crate::request::RequestQuery;
use crate::respond::{self, ResponseBody};

/// One operation on a path: its verb in discovery, its method, its query parameters with their types, and the content types
/// of its body, which are empty if there is no body.
struct PathOperation(
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
);

const OBJECT: &[&str] = &["application/json", "application/yaml"];
const PATCH: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
];

const LIST_OPTIONS: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const WRITE_OPTIONS: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
];
const DELETE_OPTIONS: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const DELETE_COLLECTION_OPTIONS: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("fieldSelector", "string"),
    ("gracePeriodSeconds", "integer"),
    ("labelSelector", "string"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

const LIST: PathOperation = PathOperation("list", "get", LIST_OPTIONS, &[]);
const CREATE: PathOperation = PathOperation("create", "post", WRITE_OPTIONS, OBJECT);
const DELETE_COLLECTION: PathOperation = PathOperation(
    "deletecollection",
    "delete",
    DELETE_COLLECTION_OPTIONS,
    OBJECT,
);
const GET: PathOperation = PathOperation("get", "get", &[], &[]);
const UPDATE: PathOperation = PathOperation("update", "put", WRITE_OPTIONS, OBJECT);
const PATCH_OBJECT: PathOperation = PathOperation("patch", "patch", WRITE_OPTIONS, PATCH);
const DELETE: PathOperation = PathOperation("delete", "delete", DELETE_OPTIONS, OBJECT);

/// Operations on a collection, an object and a subresource. The kind's verbs decide which of them exist.
const AT_COLLECTION: [PathOperation; 3] = [LIST, CREATE, DELETE_COLLECTION];
const AT_OBJECT: [PathOperation; 4] = [GET, UPDATE, PATCH_OBJECT, DELETE];
const AT_PART: [PathOperation; 5] = [GET, CREATE, UPDATE, PATCH_OBJECT, DELETE];

/// Serves `/openapi/v3` and the documents of its index.
pub(crate) fn serve(
    kinds: &KindTable,
    document: Option<&str>,
    query: &RequestQuery,
    etag: Option<&str>,
) -> Response<ResponseBody> {
    let Some(path) = document else {
        return index(kinds);
    };
    let Some(document) = document_at(kinds, path) else {
        return etag::empty(StatusCode::NOT_FOUND);
    };
    let tag = tag_of(&document);
    let hash = query.get("hash").filter(|hash| !hash.is_empty());
    let mut response = if hash.is_some_and(|hash| hash != tag.hash()) {
        let mut response = etag::empty(StatusCode::MOVED_PERMANENTLY);
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        if let Ok(location) = HeaderValue::from_str(&address(path, &tag)) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        response
    } else {
        let mut response = if tag.matches(etag) {
            etag::empty(StatusCode::NOT_MODIFIED)
        } else {
            respond::value(200, &document, ResponseFormat::JSON)
        };
        if hash.is_some() {
            let forever = HeaderValue::from_static("public, immutable");
            response
                .headers_mut()
                .insert(header::CACHE_CONTROL, forever);
        }
        response
    };
    tag.stamp(&mut response);
    response
}

/// The index. Like upstream, its content type is plain text although it is JSON.
fn index(kinds: &KindTable) -> Response<ResponseBody> {
    let mut paths = Map::new();
    for group in kinds.groups() {
        for version in &group.versions {
            let path = path_of(&group.name, version);
            let tag = tag_of(&document_of(kinds, &group.name, version));
            let entry = json!({"serverRelativeURL": address(&path, &tag)});
            paths.insert(path, entry);
        }
    }
    respond::text(&json!({ "paths": paths }).to_string())
}

fn address(path: &str, tag: &ETag) -> String {
    format!("/openapi/v3/{path}?hash={}", tag.hash())
}

/// Hashes the content, not the kinds table: clients cache a document forever under its hash, and a newer server may
/// generate another document for the same kinds.
fn tag_of(document: &Value) -> ETag {
    ETag::of(document.to_string().as_bytes())
}

/// The document for a path of the index.
fn document_at(kinds: &KindTable, path: &str) -> Option<Value> {
    let (group, version) = kinds.groups().iter().find_map(|group| {
        let mut versions = group.versions.iter();
        let version = versions.find(|version| path_of(&group.name, version) == path)?;
        Some((&group.name, version))
    })?;
    Some(document_of(kinds, group, version))
}

fn document_of(kinds: &KindTable, group: &str, version: &str) -> Value {
    let mut paths = Map::new();
    let base = format!("/{}", path_of(group, version));
    for kind in kinds.of(group, version) {
        add_paths(&mut paths, &base, kind);
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Caretaker", "version": version},
        "paths": paths,
        "components": {"schemas": {}},
    })
}

/// Adds the paths of a kind. Like upstream, the list over all namespaces has a separate path.
fn add_paths(paths: &mut Map<String, Value>, base: &str, kind: &ServedKind) {
    let plural = &kind.plural;
    let own = (
        kind.group.as_str(),
        kind.version.as_str(),
        kind.kind.as_str(),
    );
    let (collection, scope): (_, &[&str]) = if kind.namespaced {
        let all = format!("{base}/{plural}");
        add_path(paths, all, &[LIST], &kind.verbs, own, &[]);
        let collection = format!("{base}/namespaces/{{namespace}}/{plural}");
        (collection, &["name", "namespace"])
    } else {
        (format!("{base}/{plural}"), &["name"])
    };
    let object = format!("{collection}/{{name}}");
    for part in &kind.subresources {
        let of = match part.version.as_str() {
            "" => (
                kind.group.as_str(),
                kind.version.as_str(),
                part.kind.as_str(),
            ),
            version => (part.group.as_str(), version, part.kind.as_str()),
        };
        let path = format!("{object}/{}", part.name);
        add_path(paths, path, &AT_PART, &part.verbs, of, scope);
    }
    add_path(paths, object, &AT_OBJECT, &kind.verbs, own, scope);
    add_path(
        paths,
        collection,
        &AT_COLLECTION,
        &kind.verbs,
        own,
        &scope[1..],
    );
}

fn add_path(
    paths: &mut Map<String, Value>,
    path: String,
    operations: &[PathOperation],
    verbs: &[String],
    (group, version, kind): (&str, &str, &str),
    in_path: &[&str],
) {
    let mut item = Map::new();
    let is_served = |operation: &&PathOperation| verbs.iter().any(|verb| verb == operation.0);
    for operation in operations.iter().filter(is_served) {
        let mut entry = operation.to_value();
        entry["x-kubernetes-group-version-kind"] =
            json!({"group": group, "version": version, "kind": kind});
        item.insert(operation.1.into(), entry);
    }
    if item.is_empty() {
        return;
    }
    if !in_path.is_empty() {
        let parameters = in_path.iter().map(|name| parameter("path", name, "string"));
        item.insert("parameters".into(), parameters.collect());
    }
    paths.insert(path, item.into());
}

fn parameter(place: &str, name: &str, of_type: &str) -> Value {
    json!({"name": name, "in": place, "required": place == "path", "schema": {"type": of_type}})
}

// === impl PathOperation ===

impl PathOperation {
    fn to_value(&self) -> Value {
        let Self(_, _, parameters, body) = self;
        let parameters: Value = parameters
            .iter()
            .map(|(name, of_type)| parameter("query", name, of_type))
            .collect();
        let mut entry = json!({
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
        });
        if !body.is_empty() {
            let types = body.iter().map(|name| ((*name).to_owned(), json!({})));
            let content: Map<String, Value> = types.collect();
            entry["requestBody"] = json!({ "content": content });
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etag::body_of;

    fn mk_answer(document: Option<&str>, query: &str) -> Response<ResponseBody> {
        serve(
            &KindTable::builtin(),
            document,
            &RequestQuery::parse(query),
            None,
        )
    }

    fn mk_json(response: Response<ResponseBody>) -> Value {
        assert_eq!(response.status(), 200);
        serde_json::from_slice(&body_of(response)).unwrap()
    }

    #[test]
    fn index_links_are_cacheable() {
        let index = mk_json(mk_answer(None, ""));
        let paths = index["paths"].as_object().unwrap();
        assert!(paths.contains_key("api/v1") && paths.contains_key("apis/apps/v1"));
        for (path, entry) in paths {
            let address = entry["serverRelativeURL"].as_str().unwrap();
            let (prefix, query) = address.split_once('?').unwrap();
            assert_eq!(prefix, format!("/openapi/v3/{path}"));
            let response = mk_answer(Some(path), query);
            assert_eq!(response.status(), 200, "{path}");
            assert_eq!(
                response.headers()[header::CACHE_CONTROL],
                "public, immutable"
            );
            let tag = response.headers()[header::ETAG].to_str().unwrap();
            assert_eq!(query, format!("hash={}", tag.trim_matches('"')));
        }
    }

    #[test]
    fn old_hash_redirects_to_the_current_one() {
        let moved = mk_answer(Some("api/v1"), "hash=abc");
        assert_eq!(moved.status(), StatusCode::MOVED_PERMANENTLY);
        let index = mk_json(mk_answer(None, ""));
        assert_eq!(
            index["paths"]["api/v1"]["serverRelativeURL"],
            moved.headers()[header::LOCATION].to_str().unwrap()
        );
        assert_eq!(mk_answer(Some("apis/nope/v1"), "").status(), 404);
        let plain = mk_answer(Some("api/v1"), "");
        assert!(plain.headers().get(header::CACHE_CONTROL).is_none());
    }

    #[test]
    fn matching_etag_returns_not_modified() {
        let first = mk_answer(Some("api/v1"), "");
        let tag = first.headers()[header::ETAG].to_str().unwrap();
        let again = serve(
            &KindTable::builtin(),
            Some("api/v1"),
            &RequestQuery::default(),
            Some(tag),
        );
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        assert!(body_of(again).is_empty());
    }

    #[test]
    fn writes_have_kind_and_validation_parameters() {
        let kinds = KindTable::builtin();
        let mut patches = 0;
        for group in kinds.groups() {
            for version in &group.versions {
                let document = document_of(&kinds, &group.name, version);
                for (path, item) in document["paths"].as_object().unwrap() {
                    for method in ["post", "put", "patch"] {
                        let Some(operation) = item.get(method) else {
                            continue;
                        };
                        patches += usize::from(method == "patch");
                        assert!(operation["x-kubernetes-group-version-kind"]["kind"].is_string());
                        let parameters = operation["parameters"].as_array().unwrap();
                        for name in ["fieldValidation", "dryRun"] {
                            let named = parameters.iter().any(|entry| entry["name"] == name);
                            assert!(named, "{path} {method} {name}");
                        }
                    }
                }
            }
        }
        let patchable = kinds.iter().filter(|kind| kind.allows("patch")).count();
        assert!(patches >= patchable, "{patches} of {patchable}");
    }

    #[test]
    fn paths_follow_scope_and_verbs() {
        let core = document_of(&KindTable::builtin(), "", "v1");
        let methods = |path: &str| -> Vec<&str> {
            let item = core["paths"][path].as_object();
            item.into_iter()
                .flatten()
                .map(|(method, _)| method.as_str())
                .collect()
        };
        let cases: [(&str, &[&str]); 7] = [
            ("/api/v1/configmaps", &["get"]),
            (
                "/api/v1/namespaces/{namespace}/configmaps",
                &["delete", "get", "parameters", "post"],
            ),
            (
                "/api/v1/namespaces/{namespace}/configmaps/{name}",
                &["delete", "get", "parameters", "patch", "put"],
            ),
            ("/api/v1/namespaces/{name}/finalize", &["parameters", "put"]),
            ("/api/v1/nodes", &["delete", "get", "post"]),
            (
                "/api/v1/namespaces/{namespace}/pods/{name}/eviction",
                &["parameters", "post"],
            ),
            ("/api/v1/bindings", &[]),
        ];
        for (path, expected) in cases {
            assert_eq!(methods(path), expected, "{path}");
        }
        let eviction =
            &core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]["post"];
        assert_eq!(
            eviction["x-kubernetes-group-version-kind"]["group"],
            "policy"
        );
        let patch = &core["paths"]["/api/v1/nodes/{name}"]["patch"]["requestBody"]["content"];
        assert!(
            patch
                .get("application/strategic-merge-patch+json")
                .is_none()
        );
    }
}
