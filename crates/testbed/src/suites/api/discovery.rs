//! Discovery and OpenAPI: how clients learn what a server serves. Documents are large, so views of them are compared.

use serde_json::{Map, Value, json};

use crate::case::{TestCase, api_case};
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(discovery_of_the_core_versions),
    api_case!(discovery_of_the_groups),
    api_case!(discovery_of_one_group),
    api_case!(discovery_of_the_core_resources),
    api_case!(discovery_of_the_resources_of_every_stable_group),
    api_case!(discovery_aggregated_echoes_its_media_type),
    api_case!(discovery_aggregated_lists_every_resource),
    api_case!(discovery_aggregated_core),
    api_case!(discovery_by_etag_is_304),
    api_case!(discovery_of_the_old_aggregated_version_falls_back),
    api_case!(discovery_of_an_unknown_form_is_406),
    api_case!(discovery_of_what_is_not_there_is_404),
    api_case!(openapi_index_names_every_group_version),
    api_case!(openapi_of_a_wrong_hash_redirects),
    api_case!(openapi_patch_operations_say_what_kubectl_needs),
];

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const AGGREGATED_OLD: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// The stable group-versions of built-in kinds.
const STABLE: &[&str] = &[
    "admissionregistration.k8s.io/v1",
    "apiextensions.k8s.io/v1",
    "apiregistration.k8s.io/v1",
    "apps/v1",
    "authentication.k8s.io/v1",
    "authorization.k8s.io/v1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "certificates.k8s.io/v1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "events.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1",
    "networking.k8s.io/v1",
    "node.k8s.io/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
    "resource.k8s.io/v1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1",
];

fn texts(value: &Value) -> String {
    let texts: Vec<&str> = value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    texts.join(",")
}

/// An APIResourceList as one line per resource, in the order it has.
fn resource_lines(list: &Value) -> Value {
    let lines = list["resources"].as_array().into_iter().flatten().map(|r| {
        let (short, categories) = (texts(&r["shortNames"]), texts(&r["categories"]));
        let elsewhere = if r["version"].is_null() {
            String::new()
        } else {
            format!(" of {}/{}", r["group"], r["version"])
        };
        let scope = if r["namespaced"] == true {
            "namespaced"
        } else {
            "cluster"
        };
        format!(
            "{} {} {} {scope} {} [{short}] [{categories}]{elsewhere}",
            r["name"],
            r["singularName"],
            r["kind"],
            texts(&r["verbs"])
        )
        .replace('"', "")
    });
    let lines: Vec<String> = lines.collect();
    json!({"kind": list["kind"], "apiVersion": list["apiVersion"], "groupVersion": list["groupVersion"], "resources": lines})
}

/// Whether a group is one of Kubernetes' own; others come and go while cases run.
fn is_built_in(group: &str) -> bool {
    group.is_empty()
        || STABLE.iter().any(|version| {
            version
                .split_once('/')
                .is_some_and(|(name, _)| name == group)
        })
}

fn groups(list: &Value) -> Value {
    let all = list["groups"].as_array().into_iter().flatten();
    let groups: Vec<&Value> = all
        .filter(|group| is_built_in(group["name"].as_str().unwrap_or_default()))
        .collect();
    json!({"kind": list["kind"], "apiVersion": list["apiVersion"], "groups": groups})
}

/// An APIGroupDiscoveryList as one line per resource and subresource.
fn aggregated_lines(list: &Value) -> Value {
    let mut lines = Map::new();
    for group in list["items"].as_array().into_iter().flatten() {
        let name = group["metadata"]["name"].as_str().unwrap_or_default();
        if !is_built_in(name) {
            continue;
        }
        for version in group["versions"].as_array().into_iter().flatten() {
            let key =
                format!("{name}/{} {}", version["version"], version["freshness"]).replace('"', "");
            let resources = version["resources"]
                .as_array()
                .into_iter()
                .flatten()
                .map(aggregated_line);
            lines.insert(key, resources.collect());
        }
    }
    json!({"kind": list["kind"], "apiVersion": list["apiVersion"], "metadata": list["metadata"], "items": lines})
}

fn aggregated_line(r: &Value) -> Value {
    let kind = |r: &Value| {
        format!(
            "{}/{}/{}",
            r["responseKind"]["group"], r["responseKind"]["version"], r["responseKind"]["kind"]
        )
    };
    let below = r["subresources"].as_array().into_iter().flatten();
    let below: Vec<String> = below
        .map(|sub| {
            format!(
                "{} {} {}",
                sub["subresource"],
                kind(sub),
                texts(&sub["verbs"])
            )
        })
        .collect();
    let (short, categories) = (texts(&r["shortNames"]), texts(&r["categories"]));
    let line = format!(
        "{} {} {} {} {} [{short}] [{categories}] {below:?}",
        r["resource"],
        r["singularResource"],
        kind(r),
        r["scope"],
        texts(&r["verbs"])
    );
    line.replace(['"', '\\'], "").into()
}

/// The names of the groups of an aggregated document, in their order.
fn group_names(list: &Value) -> Value {
    let names = list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|group| group["metadata"]["name"].as_str().unwrap_or_default());
    names
        .filter(|name| is_built_in(name))
        .map(Value::from)
        .collect()
}

async fn discovery_of_the_core_versions(s: &mut Session) {
    s.get_path("/api").await;
}

async fn discovery_of_the_groups(s: &mut Session) {
    s.ask(Ask::get("/apis").viewed(groups)).await;
}

async fn discovery_of_one_group(s: &mut Session) {
    s.get_path("/apis/apps").await;
    s.get_path("/apis/autoscaling").await;
    s.get_path("/apis/apiextensions.k8s.io/").await;
}

async fn discovery_of_the_core_resources(s: &mut Session) {
    s.ask(Ask::get("/api/v1").viewed(resource_lines)).await;
    s.note("one of them whole")
        .ask(Ask::get("/api/v1").viewed(|list| {
            let all = list["resources"].as_array().into_iter().flatten();
            all.filter(|r| r["kind"] == "ConfigMap").cloned().collect()
        }))
        .await;
}

async fn discovery_of_the_resources_of_every_stable_group(s: &mut Session) {
    for version in STABLE {
        s.ask(Ask::get(format!("/apis/{version}")).viewed(resource_lines))
            .await;
    }
}

async fn discovery_aggregated_echoes_its_media_type(s: &mut Session) {
    for path in ["/api", "/apis"] {
        s.ask(
            Ask::get(path)
                .accept(AGGREGATED)
                .viewed(group_names)
                .showing(&["vary", "cache-control"]),
        )
        .await;
    }
    s.note("as kubectl asks");
    let accept = format!("{AGGREGATED},{AGGREGATED_OLD},application/json");
    s.ask(Ask::get("/api").accept(&accept).viewed(group_names))
        .await;
    s.note("in another order of parameters");
    s.ask(
        Ask::get("/api")
            .accept("application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io")
            .viewed(group_names),
    )
    .await;
}

async fn discovery_aggregated_lists_every_resource(s: &mut Session) {
    s.ask(
        Ask::get("/apis")
            .accept(AGGREGATED)
            .viewed(aggregated_lines),
    )
    .await;
}

async fn discovery_aggregated_core(s: &mut Session) {
    s.ask(Ask::get("/api").accept(AGGREGATED).viewed(aggregated_lines))
        .await;
}

async fn discovery_by_etag_is_304(s: &mut Session) {
    let ask = Ask::get("/api")
        .accept(AGGREGATED)
        .viewed(group_names)
        .showing(&["etag"]);
    let first = s.ask(ask).await;
    let etag = first.headers.get("etag").cloned().unwrap_or_default();
    let again = s
        .quietly(
            Ask::get("/api")
                .accept(AGGREGATED)
                .header("if-none-match", &etag),
        )
        .await;
    s.record(json!({"request": "with If-None-Match of that", "status": again.status, "body": again.body}));
    s.ask(
        Ask::get("/api")
            .accept(AGGREGATED)
            .header("if-none-match", "\"other\"")
            .viewed(group_names),
    )
    .await;
}

async fn discovery_of_the_old_aggregated_version_falls_back(s: &mut Session) {
    s.ask(Ask::get("/api").accept(&format!("{AGGREGATED_OLD},application/json")))
        .await;
    s.ask(
        Ask::get("/apis")
            .accept(&format!("{AGGREGATED_OLD},application/json"))
            .viewed(groups),
    )
    .await;
}

async fn discovery_of_an_unknown_form_is_406(s: &mut Session) {
    s.ask(
        Ask::get("/api")
            .accept("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList"),
    )
    .await;
    s.ask(Ask::get("/apis").accept("text/xml")).await;
    s.ask(Ask::get("/api/v1").accept("text/xml")).await;
}

async fn discovery_of_what_is_not_there_is_404(s: &mut Session) {
    s.get_path("/apis/nope.io").await;
    s.get_path("/apis/nope.io/v1").await;
    s.get_path("/apis/apps/v9").await;
}

async fn openapi_index_names_every_group_version(s: &mut Session) {
    let names = |index: &Value| {
        let paths = index["paths"].as_object().into_iter().flatten();
        let stable = |name: &str| {
            name == "api/v1"
                || STABLE
                    .iter()
                    .any(|version| name == format!("apis/{version}"))
        };
        paths
            .filter(|(name, _)| stable(name))
            .map(|(name, path)| (name.clone(), path.clone()))
            .collect::<Map<_, _>>()
            .into()
    };
    s.ask(Ask::get("/openapi/v3").viewed(names)).await;
}

async fn openapi_of_a_wrong_hash_redirects(s: &mut Session) {
    s.ask(
        Ask::get("/openapi/v3/api/v1?hash=00")
            .viewed(|_| json!(null))
            .showing(&["cache-control"]),
    )
    .await;
    s.get_path("/openapi/v3/apis/nope.io/v1").await;
}

async fn openapi_patch_operations_say_what_kubectl_needs(s: &mut Session) {
    let needs = |document: &Value| {
        let paths = document["paths"].as_object().into_iter().flatten();
        let mut seen = Map::new();
        for (path, operations) in
            paths.filter(|(path, _)| path.ends_with("/{name}") && !path.contains("/watch/"))
        {
            let patch = &operations["patch"];
            let both = [&operations["parameters"], &patch["parameters"]];
            let parameters = both.into_iter().filter_map(Value::as_array).flatten();
            let parameters: Vec<&str> = parameters
                .filter_map(|p| p["name"].as_str())
                .filter(|name| ["fieldValidation", "dryRun"].contains(name))
                .collect();
            seen.insert(
                path.clone(),
                json!({"kind": patch["x-kubernetes-group-version-kind"], "parameters": parameters}),
            );
        }
        json!({"openapi": "3", "patch": seen})
    };
    s.ask(Ask::get("/openapi/v3/api/v1").viewed(needs)).await;
    s.ask(Ask::get("/openapi/v3/apis/apps/v1").viewed(needs))
        .await;
}
