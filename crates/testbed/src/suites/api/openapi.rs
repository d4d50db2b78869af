//! OpenAPI documents without their descriptions, which differ: those of a whole group, and of a custom kind in both
//! versions. Server-side apply is left out too.

use serde_json::{Value, json};

use super::crd::{define, group};
use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(openapi_of_a_group_has_paths_and_schemas),
    api_case!(openapi_outside_of_groups),
    api_case!(openapi_of_version_2_has_definitions),
    api_case!(openapi_encodings_are_negotiated),
    api_case!(openapi_of_a_custom_kind, Crds),
];

/// The document without descriptions and server-side apply.
fn plain(document: &Value) -> Value {
    match document {
        Value::Object(map) => {
            let kept = map.iter().filter(|(name, value)| {
                let is_text = *name == "description" && value.is_string();
                !is_text && *name != "application/apply-patch+yaml"
            });
            let kept = kept.map(|(name, value)| (name.clone(), plain(value)));
            Value::Object(kept.collect())
        }
        Value::Array(list) => {
            let kept = list.iter().filter(|item| item["name"] != "force");
            kept.map(plain).collect()
        }
        other => other.clone(),
    }
}

async fn openapi_of_a_group_has_paths_and_schemas(s: &mut Session) {
    let path = "/openapi/v3/apis/scheduling.k8s.io/v1";
    s.ask(Ask::get(path).viewed(plain)).await;
    let schemas = |document: &Value| {
        let schemas = &document["components"]["schemas"];
        let names = [
            "io.k8s.api.core.v1.Container",
            "io.k8s.api.core.v1.PodSpec",
            "io.k8s.api.apps.v1.Deployment",
            "io.k8s.api.apps.v1.DeploymentSpec",
            "io.k8s.apimachinery.pkg.api.resource.Quantity",
            "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
            "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
        ];
        let schemas = names.map(|name| (name.to_owned(), plain(&schemas[name])));
        Value::Object(schemas.into_iter().collect())
    };
    s.ask(Ask::get("/openapi/v3/apis/apps/v1").viewed(schemas))
        .await;
    let paths = |document: &Value| {
        let paths = document["paths"].as_object().into_iter().flatten();
        let ids = paths.map(|(path, item)| {
            let operations = item.as_object().into_iter().flatten();
            let ids = operations.map(|(method, it)| (method.clone(), it["operationId"].clone()));
            (path.clone(), Value::Object(ids.collect()))
        });
        Value::Object(ids.collect())
    };
    s.ask(Ask::get("/openapi/v3/api/v1").viewed(paths)).await;
}

async fn openapi_outside_of_groups(s: &mut Session) {
    for path in ["api", "apis/apps", "openid/v1/jwks", "version"] {
        let path = format!("/openapi/v3/{path}");
        s.ask(Ask::get(path).viewed(plain)).await;
    }
}

async fn openapi_of_version_2_has_definitions(s: &mut Session) {
    let view = |document: &Value| {
        let names = [
            "io.k8s.api.apps.v1.DeploymentSpec",
            "io.k8s.api.coordination.v1.Lease",
            "io.k8s.api.core.v1.ServicePort",
            "io.k8s.apimachinery.pkg.api.resource.Quantity",
            "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        ];
        let definitions = names.map(|name| {
            let definition = plain(&document["definitions"][name]);
            (name.to_owned(), definition)
        });
        let lease =
            &document["paths"]["/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"];
        json!({
            "swagger": document["swagger"],
            "definitions": Value::Object(definitions.into_iter().collect()),
            "get": plain(&lease["get"]),
            "answers": plain(&lease["patch"]["responses"]),
        })
    };
    s.ask(Ask::get("/openapi/v2").viewed(view)).await;
}

async fn openapi_encodings_are_negotiated(s: &mut Session) {
    let nothing = |_: &Value| Value::Null;
    for (path, protobuf) in [
        (
            "/openapi/v2",
            "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
        ),
        (
            "/openapi/v3/apis/apps/v1",
            "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
        ),
    ] {
        let both = format!("{protobuf}, application/json");
        for accept in ["*/*", protobuf, &both, "application/yaml", "text/html"] {
            let ask = Ask::get(path).accept(accept).viewed(nothing);
            s.ask(ask.showing(&["vary"])).await;
        }
        let ask = Ask::get(path).header("if-none-match", "*").viewed(nothing);
        s.ask(ask).await;
    }
    s.get_path("/openapi/v2/x").await;
}

async fn openapi_of_a_custom_kind(s: &mut Session) {
    let group = group(s);
    let schema = json!({
        "type": "object",
        "description": "A gadget.",
        "required": ["spec"],
        "properties": {
            "spec": {"type": "object", "required": ["size"], "properties": {
                "size": {"type": "integer", "format": "int32", "minimum": 1, "default": 3, "description": "How big."},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}},
                "any": {"x-kubernetes-preserve-unknown-fields": true},
                "port": {"x-kubernetes-int-or-string": true},
                "none": {"type": "string", "nullable": true},
                "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
                "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
                "map": {"type": "object", "additionalProperties": {"type": "string", "enum": ["a", "b"]}},
                "one": {"type": "number", "oneOf": [{"minimum": 3}, {"maximum": 1}]},
            }},
        },
    });
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}});
    let versions = json!([
        {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}},
        {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": open}},
        {"name": "v3", "served": false, "storage": false, "schema": {"openAPIV3Schema": open}},
    ]);
    let crd = with(mk_crd(&group), json!({"spec": {"versions": versions}}));
    define(s, &crd).await;
    let published = {
        let definition = format!("{}.Gadget", reversed(&group, "v2"));
        move |document: &Value| document["definitions"].get(&definition).is_some()
    };
    s.until_answer(
        "the custom kind in OpenAPI",
        || Ask::get("/openapi/v2"),
        |answer| published(&answer.body),
    )
    .await;
    let view = |document: &Value| {
        let custom = |place: &Value| {
            let all = place.as_object().into_iter().flatten();
            let own = all.filter(|(name, _)| name.contains("example"));
            let own = own.map(|(name, value)| (name.clone(), plain(value)));
            Value::Object(own.collect())
        };
        json!({
            "info": document["info"],
            "paths": document["paths"].as_object().map(|paths| {
                let own = paths.keys().filter(|path| path.contains("example.com"));
                own.cloned().collect::<Vec<_>>()
            }),
            "schemas": custom(&document["components"]["schemas"]),
            "definitions": custom(&document["definitions"]),
        })
    };
    for version in ["v1", "v2", "v3"] {
        let path = format!("/openapi/v3/apis/{group}/{version}");
        s.ask(Ask::get(path).viewed(view)).await;
    }
    s.ask(Ask::get("/openapi/v2").viewed(view)).await;
    let item = format!("{}/gadgets.{group}", CRDS.everywhere());
    s.quietly(Ask::new(http::Method::DELETE, item)).await;
    s.until_answer(
        "OpenAPI without the custom kind",
        || Ask::get("/openapi/v2"),
        |answer| answer.status == 200 && !published(&answer.body),
    )
    .await;
    s.get_path(&format!("/openapi/v3/apis/{group}/v1")).await;
}

/// The beginning of the names of a group's types.
fn reversed(group: &str, version: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').collect();
    parts.reverse();
    format!("{}.{version}", parts.join("."))
}
