//! Discovery: the legacy documents and the aggregated one, with all groups, versions, resources and verbs.
//!
//! Pure functions of the kinds table, evaluated for each request, so a new kind is visible immediately. They mirror
//! upstream's `endpoints/discovery` (1.36), without the hash of the storage version, which only storage migration uses.

use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use caretaker_machinery::status::Status;

use crate::etag::{self, ETag};
use crate::kinds::{KindTable, ServedGroup, ServedKind, ServedSubresource, join_group};
use crate::negotiate::{AcceptHeader, MEDIA_TYPES, ResponseEncoding, ResponseFormat};
use crate::request::RequestPath;
use crate::respond::{self, ResponseBody};

/// Content types of the aggregated form. Without the parameters, clients read the response as the legacy form.
const AGGREGATED_JSON: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const AGGREGATED_YAML: &str =
    "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const AGGREGATED_PROTOBUF: &str =
    "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Paths outside of API groups, for the list of all paths.
const OTHER_PATHS: [&str; 15] = [
    "/.well-known/openid-configuration",
    "/api",
    "/apis",
    "/healthz",
    "/healthz/ping",
    "/livez",
    "/livez/ping",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/openid/v1/jwks",
    "/readyz",
    "/readyz/ping",
    "/version",
];

/// Serves `/api`, `/apis`, `/apis/GROUP` and the resource lists of versions.
pub(crate) fn serve(
    kinds: &KindTable,
    path: &RequestPath,
    accept: &AcceptHeader<'_>,
    etag: Option<&str>,
) -> Response<ResponseBody> {
    let is_core = |group: &&ServedGroup| group.name.is_empty();
    let groups = kinds.groups().iter();
    let document = match (path, accept.aggregated()) {
        (RequestPath::Core, Some(format)) => {
            return aggregated(kinds, groups.filter(is_core), format, etag);
        }
        (RequestPath::Groups, Some(format)) => {
            return aggregated(kinds, groups.filter(|group| !is_core(group)), format, etag);
        }
        (path, _) => legacy(kinds, path),
    };
    match (document, path) {
        (Some(document), _) => match format_of(kinds, path, accept) {
            Ok(format) => respond::value(200, &document, format),
            Err(status) => respond::status(&status, accept.status()),
        },
        // Upstream has a handler for each built-in group, so a missing version of one has another 404.
        (None, RequestPath::Resources { group, .. }) if kinds.is_builtin_group(group) => {
            respond::status(&Status::unknown_resource(), accept.status())
        }
        (None, _) => respond::not_found_page(),
    }
}

/// Returns the format of a legacy document. Groups, and versions of custom groups, have no route in upstream.
fn format_of(
    kinds: &KindTable,
    path: &RequestPath,
    accept: &AcceptHeader<'_>,
) -> Result<ResponseFormat, Status> {
    let has_route = match path {
        RequestPath::Core => true,
        RequestPath::Resources { group, .. } => kinds.is_builtin_group(group),
        _ => false,
    };
    if has_route {
        accept.check_route(&MEDIA_TYPES)?;
    }
    accept.document()
}

/// Returns the legacy document of a path; none if there is no such group or version.
fn legacy(kinds: &KindTable, path: &RequestPath) -> Option<Value> {
    match path {
        RequestPath::Core => Some(core_versions(kinds)),
        RequestPath::Groups => {
            let named = kinds.groups().iter().filter(|group| !group.name.is_empty());
            let groups: Vec<Value> = named.map(|group| group_entry(group).into()).collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        RequestPath::Group(name) => find_group(kinds, name).map(|group| {
            let mut document = group_entry(group);
            document.insert("kind".into(), "APIGroup".into());
            document.insert("apiVersion".into(), "v1".into());
            document.into()
        }),
        RequestPath::Resources { group, version } => resource_list(kinds, group, version),
        _ => None,
    }
}

/// Serves `/`: the list of all paths.
pub(crate) fn root(kinds: &KindTable) -> Response<ResponseBody> {
    let mut paths: Vec<String> = OTHER_PATHS.map(str::to_owned).into();
    for group in kinds.groups() {
        if !group.name.is_empty() {
            paths.push(format!("/apis/{}", group.name));
        }
        let versions = group.versions.iter();
        paths.extend(versions.map(|version| format!("/{}", path_of(&group.name, version))));
    }
    paths.sort();
    respond::value(
        200,
        &json!({ "paths": paths }),
        ResponseFormat::JSON.pretty(),
    )
}

/// The path of a group and version, without the leading slash.
pub(crate) fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

fn aggregated<'a>(
    kinds: &KindTable,
    groups: impl Iterator<Item = &'a ServedGroup>,
    format: ResponseFormat,
    etag: Option<&str>,
) -> Response<ResponseBody> {
    let items: Vec<Value> = groups.map(|group| aggregated_group(kinds, group)).collect();
    let document = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    });
    let tag = ETag::of(document.to_string().as_bytes());
    let mut response = if tag.matches(etag) {
        etag::empty(StatusCode::NOT_MODIFIED)
    } else {
        let mut response = respond::value(200, &document, format);
        let content_type = match format.encoding {
            ResponseEncoding::Json | ResponseEncoding::PrettyJson => AGGREGATED_JSON,
            ResponseEncoding::Yaml => AGGREGATED_YAML,
            ResponseEncoding::Protobuf => AGGREGATED_PROTOBUF,
        };
        let content_type = HeaderValue::from_static(content_type);
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type);
        response
    };
    tag.stamp(&mut response);
    let public = HeaderValue::from_static("public");
    response.headers_mut().insert(header::CACHE_CONTROL, public);
    response
}

fn aggregated_group(kinds: &KindTable, group: &ServedGroup) -> Value {
    let versions = group.versions.iter().map(|version| {
        let resources = kinds.of(&group.name, version);
        let resources: Vec<Value> = resources.map(|kind| aggregated_resource(kind)).collect();
        json!({"version": version, "resources": resources, "freshness": "Current"})
    });
    let versions: Vec<Value> = versions.collect();
    let metadata = if group.name.is_empty() {
        json!({})
    } else {
        json!({"name": group.name})
    };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(kind: &ServedKind) -> Value {
    // Custom kinds repeat the group and version of the document; built-in ones omit them.
    let own = match &kind.custom {
        Some(_) => (kind.group.as_str(), kind.version.as_str()),
        None => ("", ""),
    };
    let mut entry = json!({
        "resource": kind.plural,
        "responseKind": response_kind(own, &kind.kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.shown_verbs(),
    });
    let subresources = kind.subresources.iter().map(|part| {
        let gv = match part.version.as_str() {
            "" => own,
            version => (part.group.as_str(), version),
        };
        json!({
            "subresource": part.name,
            "responseKind": response_kind(gv, &part.kind),
            "verbs": part.verbs,
        })
    });
    let subresources: Vec<Value> = subresources.collect();
    set_list(&mut entry, "shortNames", &kind.short_names);
    set_list(&mut entry, "categories", &kind.categories);
    set_list(&mut entry, "subresources", &subresources);
    entry
}

fn response_kind((group, version): (&str, &str), kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

/// DEVIATION(server-address): the address is empty. A server in process has none, a server behind a listener may not know the
/// address that its clients use, and no client reads it.
fn core_versions(kinds: &KindTable) -> Value {
    let versions = find_group(kinds, "").map(|group| group.versions.as_slice());
    json!({
        "kind": "APIVersions",
        "versions": versions.unwrap_or_default(),
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
    })
}

fn group_entry(group: &ServedGroup) -> Map<String, Value> {
    let entry = |version: &String| {
        let group_version = join_group(&group.name, version);
        json!({"groupVersion": group_version, "version": version})
    };
    let versions: Vec<Value> = group.versions.iter().map(entry).collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    let mut map = Map::new();
    map.insert("name".into(), group.name.clone().into());
    map.insert("versions".into(), versions.into());
    map.insert("preferredVersion".into(), preferred);
    map
}

/// Resources, each followed by its subresources. The list of the core group has no `apiVersion`, for historical reasons.
fn resource_list(kinds: &KindTable, group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for kind in kinds.of(group, version) {
        resources.push(resource_entry(kind));
        let parts = kind.subresources.iter();
        resources.extend(parts.map(|part| subresource_entry(kind, part)));
    }
    if resources.is_empty() {
        return None;
    }
    let mut document = json!({
        "kind": "APIResourceList",
        "groupVersion": join_group(group, version),
        "resources": resources,
    });
    if !group.is_empty() {
        document["apiVersion"] = "v1".into();
    }
    Some(document)
}

fn resource_entry(kind: &ServedKind) -> Value {
    let mut entry = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": kind.shown_verbs(),
    });
    set_list(&mut entry, "shortNames", &kind.short_names);
    set_list(&mut entry, "categories", &kind.categories);
    entry
}

fn subresource_entry(kind: &ServedKind, part: &ServedSubresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", kind.plural, part.name),
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": part.kind,
        "verbs": part.verbs,
    });
    if !part.version.is_empty() {
        entry["group"] = part.group.clone().into();
        entry["version"] = part.version.clone().into();
    }
    entry
}

/// Like upstream, empty lists are omitted.
fn set_list<T: Clone + Into<Value>>(entry: &mut Value, name: &str, list: &[T]) {
    if !list.is_empty() {
        entry[name] = list.to_vec().into();
    }
}

fn find_group<'a>(kinds: &'a KindTable, name: &str) -> Option<&'a ServedGroup> {
    kinds.groups().iter().find(|group| group.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::CustomKind;

    const AGGREGATED: &str = AGGREGATED_JSON;
    const JSON: &str = "application/json";

    /// The built-in kinds and a custom one with two subresources.
    fn mk_kinds() -> KindTable {
        let mut kinds = KindTable::builtin();
        let mut widget = (**kinds.get("apps", "v1", "deployments").unwrap()).clone();
        widget.resource = kinds.allot();
        widget.group = "example.com".into();
        widget.kind = "Widget".into();
        widget.plural = "widgets".into();
        widget.singular = "widget".into();
        widget.short_names.clear();
        for part in &mut widget.subresources {
            part.kind = part.kind.replace("Deployment", "Widget");
        }
        widget.custom = Some(CustomKind::mk(&mut kinds, &Value::Null));
        kinds.insert(widget);
        kinds
    }

    fn mk_answer(path: &str, accept: &str) -> Response<ResponseBody> {
        let accept = AcceptHeader::parse(accept, false);
        serve(&mk_kinds(), &RequestPath::parse(path), &accept, None)
    }

    fn mk_document(path: &str, accept: &str) -> Value {
        let response = mk_answer(path, accept);
        assert_eq!(response.status(), 200, "{path}");
        serde_json::from_slice(&etag::body_of(response)).unwrap()
    }

    fn entry<'a>(list: &'a Value, key: &str, name: &str) -> &'a Value {
        let mut entries = list.as_array().unwrap().iter();
        entries.find(|entry| entry[key] == name).unwrap()
    }

    #[test]
    fn lists_groups_with_preferred_version() {
        let core = mk_document("/api", JSON);
        assert_eq!(core["kind"], "APIVersions");
        assert_eq!(core["versions"], json!(["v1"]));
        let groups = mk_document("/apis", JSON);
        let autoscaling = entry(&groups["groups"], "name", "autoscaling");
        assert_eq!(
            autoscaling["preferredVersion"]["groupVersion"],
            "autoscaling/v2"
        );
        assert_eq!(autoscaling["versions"][1]["version"], "v1");
        assert!(
            groups["groups"]
                .as_array()
                .unwrap()
                .iter()
                .all(|group| group["name"] != "")
        );
        let one = mk_document("/apis/example.com", JSON);
        assert_eq!(one["kind"], "APIGroup");
        assert_eq!(
            one["versions"],
            json!([{"groupVersion": "example.com/v1", "version": "v1"}])
        );
    }

    #[test]
    fn resource_list_contains_subresources() {
        let core = mk_document("/api/v1", JSON);
        assert!(core.get("apiVersion").is_none());
        let pods = entry(&core["resources"], "name", "pods");
        assert_eq!(pods["shortNames"], json!(["po"]));
        assert_eq!(pods["singularName"], "pod");
        let eviction = entry(&core["resources"], "name", "pods/eviction");
        assert_eq!(
            *eviction,
            json!({"name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy",
                "version": "v1", "kind": "Eviction", "verbs": ["create"]})
        );
        let apps = mk_document("/apis/apps/v1", JSON);
        assert_eq!(apps["apiVersion"], "v1");
        let revisions = entry(&apps["resources"], "name", "controllerrevisions");
        assert!(revisions.get("shortNames").is_none() && revisions.get("categories").is_none());
    }

    #[test]
    fn aggregated_form_has_its_content_type() {
        for path in ["/api", "/apis"] {
            let response = mk_answer(path, AGGREGATED);
            let headers = response.headers();
            assert_eq!(headers[header::CONTENT_TYPE], AGGREGATED_JSON, "{path}");
            assert_eq!(headers[header::CACHE_CONTROL], "public");
            assert_eq!(headers[header::VARY], "Accept");
        }
        let groups = mk_document("/apis", AGGREGATED);
        assert_eq!(groups["kind"], "APIGroupDiscoveryList");
        assert_eq!(
            mk_document("/api", AGGREGATED)["items"][0]["metadata"],
            json!({})
        );
    }

    #[test]
    fn only_custom_kinds_repeat_their_group_and_version() {
        let groups = mk_document("/apis", AGGREGATED);
        let resources = |group: &str| {
            let found = groups["items"].as_array().unwrap().iter();
            let group = found.filter(|item| item["metadata"]["name"] == group);
            group
                .map(|item| item["versions"][0]["resources"].clone())
                .next()
                .unwrap()
        };
        let own = json!({"group": "example.com", "version": "v1", "kind": "Widget"});
        let scale = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
        let widgets = entry(&resources("example.com"), "resource", "widgets").clone();
        assert_eq!(widgets["responseKind"], own);
        let parts = &widgets["subresources"];
        assert_eq!(entry(parts, "subresource", "status")["responseKind"], own);
        assert_eq!(entry(parts, "subresource", "scale")["responseKind"], scale);
        let builtin = json!({"group": "", "version": "", "kind": "Deployment"});
        let deployments = entry(&resources("apps"), "resource", "deployments").clone();
        assert_eq!(deployments["responseKind"], builtin);
        assert_eq!(deployments["scope"], "Namespaced");
    }

    #[test]
    fn matching_etag_returns_not_modified() {
        let accept = AcceptHeader::parse(AGGREGATED, false);
        let first = mk_answer("/apis", AGGREGATED);
        let tag = first.headers()[header::ETAG].to_str().unwrap().to_owned();
        let path = RequestPath::parse("/apis");
        let again = serve(&mk_kinds(), &path, &accept, Some(&tag));
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(again.headers()[header::ETAG], *tag);
        assert!(etag::body_of(again).is_empty());
        let changed = serve(&KindTable::builtin(), &path, &accept, Some(&tag));
        assert_eq!(changed.status(), 200);
    }

    #[test]
    fn unknown_paths_return_404_like_upstream() {
        let page = "text/plain; charset=utf-8";
        let cases = [
            ("/apis/nope", page),
            ("/apis/nope/v1", page),
            ("/apis/example.com/v9", page),
            ("/apis/apps/v9", "application/json"),
            ("/api/v9", "application/json"),
        ];
        for (path, content_type) in cases {
            let response = mk_answer(path, JSON);
            assert_eq!(response.status(), 404, "{path}");
            assert_eq!(
                response.headers()[header::CONTENT_TYPE],
                content_type,
                "{path}"
            );
        }
    }

    #[test]
    fn every_listed_path_is_served() {
        let listed: Value = serde_json::from_slice(&etag::body_of(root(&mk_kinds()))).unwrap();
        let paths: Vec<&str> = listed["paths"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert!(paths.is_sorted() && paths.contains(&"/apis/example.com/v1"));
        for path in paths {
            assert_ne!(RequestPath::parse(path), RequestPath::Unknown, "{path}");
        }
    }
}
