//! OpenAPI: version 3 with an index and one document per group and version, and version 2 as one document.
//!
//! Documents are rendered from tables when they are requested, as JSON or as protobuf; only the hashes of built-in groups
//! are kept. Addresses, redirects and headers are those of upstream's `handler` and `handler3` (1.36).

mod gnostic;
mod paths;
mod schemas;
mod swagger;

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use crate::discovery::path_of;
use crate::etag::{self, ETag};
use crate::kinds::KindTable;
use crate::negotiate::AcceptHeader;
use crate::request::{OpenApiDocument, RequestQuery};
use crate::respond::{self, ResponseBody};
use paths::PathWriter;

/// The version of Kubernetes, as documents state it.
const VERSION: &str = "1.36";
const JSON: &str = "application/json";
/// The media types of protobuf: what clients send, and what is answered.
const PROTOBUF_V2: [&str; 2] = [
    "com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "com.github.proto-openapi.spec.v2.v1.0+protobuf",
];
const PROTOBUF_V3: [&str; 2] = [
    "com.github.proto-openapi.spec.v3@v1.0+protobuf",
    "com.github.proto-openapi.spec.v3.v1.0+protobuf",
];
const ANSWER_V2: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const ANSWER_V3: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

/// Serves `/openapi/v2`, `/openapi/v3` and the documents of its index.
pub(crate) fn serve(
    kinds: &KindTable,
    document: &OpenApiDocument,
    query: &RequestQuery,
    accept: &AcceptHeader<'_>,
    etag: Option<&str>,
) -> Response<ResponseBody> {
    match document {
        OpenApiDocument::Swagger => serve_swagger(kinds, accept, etag),
        OpenApiDocument::Index if etag == Some("*") => etag::empty(StatusCode::NOT_MODIFIED),
        OpenApiDocument::Index => index(kinds),
        OpenApiDocument::Document(path) => serve_document(kinds, path, query, accept, etag),
    }
}

fn serve_document(
    kinds: &KindTable,
    path: &str,
    query: &RequestQuery,
    accept: &AcceptHeader<'_>,
    etag: Option<&str>,
) -> Response<ResponseBody> {
    let Some(document) = document_at(kinds, path) else {
        return etag::empty(StatusCode::NOT_FOUND);
    };
    let Some(protobuf) = accept.openapi(&PROTOBUF_V3) else {
        return vary(etag::empty(StatusCode::NOT_ACCEPTABLE), "Accept");
    };
    let tag = tag_of(&document);
    let hash = query.get("hash").filter(|hash| !hash.is_empty());
    let mut response = if hash.is_some_and(|hash| hash != tag.hash()) {
        let mut response = etag::empty(StatusCode::MOVED_PERMANENTLY);
        let json = HeaderValue::from_static(JSON);
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        if let Ok(location) = HeaderValue::from_str(&address(path, &tag)) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        response
    } else {
        let mut response = if tag.matches_any(etag) {
            etag::empty(StatusCode::NOT_MODIFIED)
        } else if protobuf {
            respond::bytes(ANSWER_V3, gnostic::encode_v3(&document))
        } else {
            respond::document(JSON, &document)
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

fn serve_swagger(
    kinds: &KindTable,
    accept: &AcceptHeader<'_>,
    etag: Option<&str>,
) -> Response<ResponseBody> {
    let Some(protobuf) = accept.openapi(&PROTOBUF_V2) else {
        return vary(etag::empty(StatusCode::NOT_ACCEPTABLE), "Accept-Encoding");
    };
    let document = swagger_of(kinds);
    let tag = tag_of(&document);
    let mut response = if tag.matches_any(etag) {
        etag::empty(StatusCode::NOT_MODIFIED)
    } else if protobuf {
        respond::bytes(ANSWER_V2, gnostic::encode_v2(&document))
    } else {
        respond::document(JSON, &document)
    };
    tag.stamp(&mut response);
    vary(response, "Accept-Encoding")
}

fn vary(mut response: Response<ResponseBody>, by: &'static str) -> Response<ResponseBody> {
    let by = HeaderValue::from_static(by);
    response.headers_mut().insert(header::VARY, by);
    response
}

/// The index. Like upstream, its content type is plain text although it is JSON.
fn index(kinds: &KindTable) -> Response<ResponseBody> {
    let mut paths = Map::new();
    for path in all_paths(kinds) {
        if let Some(tag) = tag_at(kinds, &path) {
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

/// The hash of a document. Those of built-in groups do not change, and are computed once.
fn tag_at(kinds: &KindTable, path: &str) -> Option<ETag> {
    static BUILT_IN: LazyLock<Mutex<BTreeMap<String, ETag>>> = LazyLock::new(Mutex::default);
    let group = path
        .strip_prefix("apis/")
        .map(|path| path.split('/').next());
    let group = group.flatten().unwrap_or_default();
    if !kinds.is_builtin_group(group) {
        return document_at(kinds, path).map(|document| tag_of(&document));
    }
    let known = BUILT_IN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(tag) = known.get(path) {
        return Some(tag.clone());
    }
    drop(known);
    let tag = tag_of(&document_at(kinds, path)?);
    let mut known = BUILT_IN.lock().unwrap_or_else(PoisonError::into_inner);
    known.insert(path.to_owned(), tag.clone());
    Some(tag)
}

/// The paths of all documents: of groups and versions, of built-in groups, and of the rest of discovery.
fn all_paths(kinds: &KindTable) -> Vec<String> {
    let others = paths::OTHERS.iter().map(|(path, ..)| (*path).to_owned());
    let mut all: Vec<String> = others.collect();
    for group in kinds.groups() {
        if !group.name.is_empty() && kinds.is_builtin_group(&group.name) {
            all.push(format!("apis/{}", group.name));
        }
        let versions = group.versions.iter();
        all.extend(versions.map(|version| path_of(&group.name, version)));
    }
    all
}

/// The document for a path of the index.
fn document_at(kinds: &KindTable, path: &str) -> Option<Value> {
    let (paths, types) = if let Some(other) = paths::other(path) {
        other
    } else if let Some(group) = group_of(kinds, path) {
        paths::group(group)
    } else {
        let (group, version) = kinds.groups().iter().find_map(|group| {
            let mut versions = group.versions.iter();
            let version = versions.find(|version| path_of(&group.name, version) == path)?;
            Some((group.name.as_str(), version.as_str()))
        })?;
        return Some(document_of(kinds, group, version));
    };
    let mut components = Map::new();
    if !types.is_empty() {
        let schemas = schemas::components(types, ("", "v1"));
        components.insert("schemas".into(), schemas.into());
    }
    Some(with_security(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": paths,
        "components": components,
    })))
}

/// The built-in group that a path is about.
fn group_of<'a>(kinds: &KindTable, path: &'a str) -> Option<&'a str> {
    let group = path.strip_prefix("apis/")?;
    let is_group = !group.is_empty() && !group.contains('/') && kinds.is_builtin_group(group);
    is_group.then_some(group)
}

fn document_of(kinds: &KindTable, group: &str, version: &str) -> Value {
    let builtin = kinds.is_builtin_group(group);
    let mut writer = PathWriter::new(group, version);
    if builtin {
        writer.add_root();
    }
    let mut custom = Map::new();
    for kind in kinds.of(group, version) {
        writer.add(kind);
        if let Some(definition) = &kind.custom {
            let of_list = [schemas::LIST_META, schemas::OBJECT_META];
            writer.types.extend(of_list.map(str::to_owned));
            custom.extend(schemas::custom(kind, definition.schema.source()));
        }
    }
    let mut components = schemas::components(writer.types, (group, version));
    components.extend(custom);
    let (title, stated) = match builtin {
        true => ("Kubernetes", VERSION),
        false => ("Kubernetes CRD Swagger", "v0.1.0"),
    };
    let document = json!({
        "openapi": "3.0.0",
        "info": {"title": title, "version": stated},
        "paths": writer.paths,
        "components": {"schemas": components},
    });
    match builtin {
        true => with_security(document),
        false => document,
    }
}

fn with_security(mut document: Value) -> Value {
    document["components"]["securitySchemes"] =
        json!({"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}});
    document
}

/// All documents as one of version 2.
fn swagger_of(kinds: &KindTable) -> Value {
    let mut merged = swagger::empty(VERSION);
    for path in all_paths(kinds) {
        if let Some(document) = document_at(kinds, &path) {
            swagger::merge(&mut merged, document);
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etag::body_of;

    fn mk_answer(document: Option<&str>, query: &str) -> Response<ResponseBody> {
        mk_tagged(document, query, None)
    }

    fn mk_tagged(
        document: Option<&str>,
        query: &str,
        etag: Option<&str>,
    ) -> Response<ResponseBody> {
        let document = match document {
            Some(path) => OpenApiDocument::Document(path.to_owned()),
            None => OpenApiDocument::Index,
        };
        let kinds = KindTable::builtin();
        let accept = AcceptHeader::parse("", false);
        serve(
            &kinds,
            &document,
            &RequestQuery::parse(query),
            &accept,
            etag,
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
        let again = mk_tagged(Some("api/v1"), "", Some(tag));
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
                        if operation["x-kubernetes-action"] == "connect" {
                            continue;
                        }
                        patches += usize::from(method == "patch");
                        assert!(operation["x-kubernetes-group-version-kind"]["kind"].is_string());
                        for name in ["fieldValidation", "dryRun"] {
                            let named = [operation, item].iter().any(|place| {
                                let list = place["parameters"].as_array();
                                list.into_iter()
                                    .flatten()
                                    .any(|entry| entry["name"] == name)
                            });
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
            ("/api/v1/configmaps", &["get", "parameters"]),
            (
                "/api/v1/namespaces/{namespace}/configmaps",
                &["delete", "get", "parameters", "post"],
            ),
            (
                "/api/v1/namespaces/{namespace}/configmaps/{name}",
                &["delete", "get", "parameters", "patch", "put"],
            ),
            ("/api/v1/namespaces/{name}/finalize", &["parameters", "put"]),
            ("/api/v1/watch/nodes/{name}", &["get", "parameters"]),
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
        assert_eq!(eviction["operationId"], "createCoreV1NamespacedPodEviction");
    }

    #[test]
    fn every_reference_of_a_document_is_defined() {
        let kinds = KindTable::builtin();
        let documents = all_paths(&kinds).into_iter().map(|path| {
            let document = document_at(&kinds, &path).unwrap();
            (
                path,
                "#/components/schemas/",
                document["components"]["schemas"].clone(),
                document,
            )
        });
        let swagger = swagger_of(&kinds);
        let swagger = (
            String::new(),
            "#/definitions/",
            swagger["definitions"].clone(),
            swagger,
        );
        for (path, prefix, defined, document) in documents.chain([swagger]) {
            let text = document.to_string();
            for target in text.split("\"$ref\":\"").skip(1) {
                let target = target.split('"').next().unwrap();
                let name = target.strip_prefix(prefix).unwrap();
                assert!(defined.get(name).is_some(), "{path}: {name}");
            }
        }
    }
}
