//! Definitions of custom kinds: what is accepted, how kinds come to be served, how they go.
//!
//! No rules of schemas here: every schema keeps unknown fields and demands nothing.

use http::Method;
use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Answer, Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(crd_create_fills_in_names_and_is_established, Crds),
    api_case!(crd_with_a_bad_name_is_422, Crds),
    api_case!(crd_without_schema_or_versions_is_422, Crds),
    api_case!(crd_with_names_that_are_taken_is_not_accepted, Crds),
    api_case!(crd_put_needs_a_resource_version, Crds),
    api_case!(crd_appears_in_discovery, Crds),
    api_case!(crd_of_cluster_scope, Crds),
    api_case!(crd_of_several_versions, Crds),
    api_case!(crd_version_that_is_not_served_is_404, Crds),
    api_case!(crd_that_goes_takes_its_objects_along, Crds),
    api_case!(
        crd_that_goes_waits_for_held_objects_and_refuses_new_ones,
        Crds
    ),
];

pub(super) fn group(s: &Session) -> String {
    format!("{}.example.com", s.ns())
}

pub(super) fn gadgets(s: &Session) -> Resource {
    Resource::custom(&group(s), "v1", "gadgets", Scope::Namespaced)
}

fn is_established(answer: &Answer) -> bool {
    let conditions = answer.body["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// Makes a definition without writing it down and waits until its objects are served.
pub(super) async fn define(s: &mut Session, definition: &Value) {
    s.quietly(Ask::post(CRDS.everywhere(), definition)).await;
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    s.until(&format!("{}/{name}", CRDS.everywhere()), is_established)
        .await;
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let scope = if spec["scope"] == "Cluster" {
        Scope::Cluster
    } else {
        Scope::Namespaced
    };
    let resource = Resource::custom(
        &text(&spec["group"]),
        &text(&spec["versions"][0]["name"]),
        &text(&spec["names"]["plural"]),
        scope,
    );
    s.until(&resource.everywhere(), |answer| answer.status == 200)
        .await;
}

pub(super) async fn define_gadgets(s: &mut Session) -> (Resource, String) {
    let group = group(s);
    define(s, &mk_crd(&group)).await;
    (gadgets(s), group)
}

/// A definition without what a server fills in at its own pace: the version, and the times of its conditions.
fn settled(definition: &Value) -> Value {
    with(
        definition.clone(),
        json!({"metadata": {"resourceVersion": null}}),
    )
}

async fn crd_create_fills_in_names_and_is_established(s: &mut Session) {
    let group = group(s);
    let without_status = |body: &Value| with(settled(body), json!({"status": null}));
    s.ask(Ask::post(CRDS.everywhere(), &mk_crd(&group)).viewed(without_status))
        .await;
    let path = format!("{}/gadgets.{group}", CRDS.everywhere());
    s.until(&path, is_established).await;
    s.ask(Ask::get(&path).viewed(settled)).await;
    s.ask(Ask::get(format!("{path}/status")).viewed(settled))
        .await;
    s.note("exists")
        .ask(Ask::post(CRDS.everywhere(), &mk_crd(&group)))
        .await;
}

async fn crd_with_a_bad_name_is_422(s: &mut Session) {
    let group = group(s);
    let named = |name: &str| with(mk_crd(&group), json!({"metadata": {"name": name}}));
    s.post(&CRDS, named("gadgets")).await;
    s.post(&CRDS, named(&format!("widgets.{group}"))).await;
    let changes = json!({"metadata": {"name": "gadgets.nodot"}});
    s.note("a group without a dot")
        .post(&CRDS, with(mk_crd("nodot"), changes))
        .await;
    s.note("no kind")
        .post(
            &CRDS,
            with(mk_crd(&group), json!({"spec": {"names": {"kind": null}}})),
        )
        .await;
    s.note("a bad plural").post(&CRDS, with(mk_crd(&group), json!({"metadata": {"name": format!("Gadgets.{group}")}, "spec": {"names": {"plural": "Gadgets"}}}))).await;
    let object = with(mk_crd(&group), json!({"spec": {"scope": "Everywhere"}}));
    s.note("a scope that is none").post(&CRDS, object).await;
}

async fn crd_without_schema_or_versions_is_422(s: &mut Session) {
    let group = group(s);
    let versions = |versions: Value| with(mk_crd(&group), json!({"spec": {"versions": versions}}));
    let version = mk_crd(&group)["spec"]["versions"][0].clone();
    for (note, object) in [
        (
            "no schema",
            versions(json!([with(version.clone(), json!({"schema": null}))])),
        ),
        ("no versions", versions(json!([]))),
        (
            "no storage version",
            versions(json!([with(version.clone(), json!({"storage": false}))])),
        ),
        (
            "two storage versions",
            versions(json!([
                version.clone(),
                with(version.clone(), json!({"name": "v2"}))
            ])),
        ),
        (
            "the same version twice",
            versions(json!([
                version.clone(),
                with(version.clone(), json!({"storage": false}))
            ])),
        ),
    ] {
        s.note(note).post(&CRDS, object).await;
    }
    let schema = |schema: Value| {
        versions(json!([with(
            version.clone(),
            json!({"schema": {"openAPIV3Schema": schema}})
        )]))
    };
    s.note("a root that is no object")
        .post(&CRDS, schema(json!({"type": "string"})))
        .await;
    s.note("a property without a type")
        .post(
            &CRDS,
            schema(json!({"type": "object", "properties": {"spec": {"description": "x"}}})),
        )
        .await;
}

async fn crd_with_names_that_are_taken_is_not_accepted(s: &mut Session) {
    let (_, group) = define_gadgets(s).await;
    let other = with(
        mk_crd(&group),
        json!({"metadata": {"name": format!("widgets.{group}")}, "spec": {"names": {"plural": "widgets", "kind": "Gadget"}}}),
    );
    s.quietly(Ask::post(CRDS.everywhere(), &other)).await;
    let path = format!("{}/widgets.{group}", CRDS.everywhere());
    s.until(&path, |answer| {
        answer.body["status"]["conditions"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
    })
    .await;
    s.ask(Ask::get(path).viewed(|body| body["status"].clone()))
        .await;
    s.get_path(format!("/apis/{group}/v1/widgets")).await;
}

async fn crd_put_needs_a_resource_version(s: &mut Session) {
    let (_, group) = define_gadgets(s).await;
    let name = format!("gadgets.{group}");
    s.put(&CRDS, &name, mk_crd(&group)).await;
    let path = format!("{}/{name}", CRDS.everywhere());
    let current = s.quietly(Ask::get(&path)).await.body;
    s.ask(
        Ask::put(
            &path,
            &with(current, json!({"spec": {"names": {"shortNames": ["gd"]}}})),
        )
        .viewed(|body| json!([body["metadata"]["generation"], body["spec"]["names"]])),
    )
    .await;
    s.strategic_patch(&CRDS, "missing.example.com", json!({}))
        .await;
    let scope = json!({"spec": {"scope": "Cluster"}});
    s.note("the scope stays")
        .ask(Ask::merge_patch(path, &scope))
        .await;
}

async fn crd_appears_in_discovery(s: &mut Session) {
    let group = group(s);
    s.note("before").get_path(format!("/apis/{group}")).await;
    let names = json!({"shortNames": ["gd"], "categories": ["all"], "singular": "gizmo", "listKind": "GizmoList"});
    define(s, &with(mk_crd(&group), json!({"spec": {"names": names}}))).await;
    s.get_path(format!("/apis/{group}")).await;
    s.get_path(format!("/apis/{group}/v1")).await;
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let document = s.quietly(Ask::get("/apis").accept(aggregated)).await.body;
    let mine = document["items"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|item| item["metadata"]["name"] == group.as_str());
    s.record(json!({"request": "aggregated", "body": mine}));
    s.list(&gadgets(s), "").await;
}

async fn crd_of_cluster_scope(s: &mut Session) {
    let group = group(s);
    define(
        s,
        &with(mk_crd(&group), json!({"spec": {"scope": "Cluster"}})),
    )
    .await;
    let cluster = Resource::custom(&group, "v1", "gadgets", Scope::Cluster);
    s.post(&cluster, mk_gadget(&group, "a")).await;
    s.get(&cluster, "a").await;
    s.list(&cluster, "").await;
    let ns = s.ns().to_owned();
    s.note("not in a namespace")
        .get_path(format!("/apis/{group}/v1/namespaces/{ns}/gadgets"))
        .await;
    s.delete(&cluster, "a").await;
}

/// Defines Gadgets of version v1 and of others like it, each with changes.
async fn define_versions(s: &mut Session, others: &[Value]) {
    let definition = mk_crd(&group(s));
    let v1 = &definition["spec"]["versions"][0];
    let mut versions = vec![v1.clone()];
    versions.extend(
        others
            .iter()
            .map(|changes| with(v1.clone(), changes.clone())),
    );
    let versions = json!({"spec": {"versions": versions}});
    define(s, &with(definition, versions)).await;
}

async fn crd_of_several_versions(s: &mut Session) {
    let group = group(s);
    let v2beta1 = json!({"name": "v2beta1", "storage": false});
    define_versions(s, &[v2beta1, json!({"name": "v2", "storage": false})]).await;
    let (v1, v2) = (
        gadgets(s),
        Resource::custom(&group, "v2", "gadgets", Scope::Namespaced),
    );
    s.get_path(format!("/apis/{group}")).await;
    s.post(&v1, mk_gadget(&group, "a")).await;
    s.note("the same object in the other version")
        .get(&v2, "a")
        .await;
    s.list(&v2, "").await;
    s.note("the version of the body counts too")
        .post(&v2, mk_gadget(&group, "b"))
        .await;
    s.merge_patch(&v2, "a", json!({"spec": {"size": 2}})).await;
    s.get(&v1, "a").await;
    let mut watch = s.watch(&v2, "").await;
    s.take(&mut watch, 1).await;
}

async fn crd_version_that_is_not_served_is_404(s: &mut Session) {
    let group = group(s);
    define_versions(
        s,
        &[json!({"name": "v2", "storage": false, "served": false})],
    )
    .await;
    s.get_path(format!("/apis/{group}/v2/gadgets")).await;
    s.get_path(format!("/apis/{group}/v9/gadgets")).await;
    s.get_path(format!("/apis/{group}/v1/widgets")).await;
    s.get_path(format!("/apis/{group}")).await;
}

async fn crd_that_goes_takes_its_objects_along(s: &mut Session) {
    let (gadgets, group) = define_gadgets(s).await;
    s.post(&gadgets, mk_gadget(&group, "a")).await;
    let mut watch = s.watch(&gadgets, "").await;
    s.take(&mut watch, 1).await;
    let path = format!("{}/gadgets.{group}", CRDS.everywhere());
    s.ask(
        Ask::new(Method::DELETE, &path)
            .viewed(|body| json!([body["kind"], body["metadata"]["name"]])),
    )
    .await;
    s.until(&path, |answer| answer.status == 404).await;
    s.note("gone").get_path(path).await;
    s.until(&gadgets.everywhere(), |answer| answer.status == 404)
        .await;
    s.list(&gadgets, "").await;
    let events = s.take_quietly(&mut watch, 1).await;
    s.record(json!({"read": "the watch, whether or not it has ended", "events": events}));
    s.note("comes back empty");
    define(s, &mk_crd(&group)).await;
    s.list(&gadgets, "").await;
}

async fn crd_that_goes_waits_for_held_objects_and_refuses_new_ones(s: &mut Session) {
    let (gadgets, group) = define_gadgets(s).await;
    let held = with(
        mk_gadget(&group, "a"),
        json!({"metadata": {"finalizers": ["example.com/hold"]}}),
    );
    s.post(&gadgets, held).await;
    let path = format!("{}/gadgets.{group}", CRDS.everywhere());
    s.quietly(Ask::new(Method::DELETE, &path)).await;
    s.until(&s.item(&gadgets, "a"), |answer| {
        !answer.body["metadata"]["deletionTimestamp"].is_null()
    })
    .await;
    s.ask(Ask::get(&path).viewed(|body| {
        let conditions = body["status"]["conditions"].as_array().into_iter().flatten();
        let terminating: Vec<&Value> = conditions.filter(|condition| condition["type"] == "Terminating").map(|condition| &condition["status"]).collect();
        json!({"finalizers": body["metadata"]["finalizers"], "Terminating": terminating, "graceful": body["metadata"]["deletionGracePeriodSeconds"]})
    })).await;
    s.post(&gadgets, mk_gadget(&group, "b")).await;
    s.get(&gadgets, "a").await;
    s.merge_patch(&gadgets, "a", json!({"spec": {"size": 2}}))
        .await;
    s.merge_patch(&gadgets, "a", json!({"metadata": {"finalizers": null}}))
        .await;
    s.until(&path, |answer| answer.status == 404).await;
    s.note("gone").get_path(path).await;
}
