//! Creates a case's namespace and deletes what the case has left.
//!
//! A real server serves many runs and has no namespace controller, so objects that stay would disturb the next run.
//! Everything is deleted by name here, finalizers first. An embedded server serves one case and needs no cleanup.

use http::Method;
use serde_json::{Value, json};

use crate::objects::{CRDS, NAMESPACES, RESOURCES, Resource, Scope, mk_namespace};
use crate::session::{Ask, Session};
use crate::target::Server;

/// Creates the namespace, after a cleanup if an interrupted run has left it.
pub(crate) async fn create_namespace(session: &Session) {
    let create = || Ask::post(NAMESPACES.everywhere(), &mk_namespace(session.ns()));
    if session.quietly(create()).await.status == 409 {
        clean_up(session).await;
        session.quietly(create()).await;
    }
}

/// Deletes the namespace and all objects whose name or namespace contains its name.
pub(crate) async fn clean_up(session: &Session) {
    if session.server() == Server::Embedded {
        return;
    }
    let namespaces = named_after(session, &NAMESPACES).await;
    for definition in named_after(session, &CRDS).await {
        delete_custom_objects(session, &definition).await;
        remove(session, &CRDS.everywhere(), &definition).await;
    }
    for resource in RESOURCES.iter().filter(|r| r.scope() == Scope::Namespaced) {
        for ns in &namespaces {
            let path = resource.collection(text(ns, "name"));
            for object in items(session, &path).await {
                remove(session, &path, &object).await;
            }
        }
    }
    for resource in RESOURCES
        .iter()
        .filter(|r| r.scope() == Scope::Cluster && **r != CRDS && **r != NAMESPACES)
    {
        for object in named_after(session, resource).await {
            remove(session, &resource.everywhere(), &object).await;
        }
    }
    for ns in &namespaces {
        let name = text(ns, "name");
        remove(session, &NAMESPACES.everywhere(), ns).await;
        let path = format!("{}/{name}/finalize", NAMESPACES.everywhere());
        session.quietly(Ask::put(path, &mk_namespace(name))).await;
    }
}

async fn delete_custom_objects(session: &Session, definition: &Value) {
    let (spec, group) = (
        &definition["spec"],
        definition["spec"]["group"].as_str().unwrap_or_default(),
    );
    let plural = spec["names"]["plural"].as_str().unwrap_or_default();
    let version = spec["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|v| v["storage"] == true);
    let version = version.and_then(|v| v["name"].as_str()).unwrap_or_default();
    let scope = if spec["scope"] == "Cluster" {
        Scope::Cluster
    } else {
        Scope::Namespaced
    };
    let resource = Resource::custom(group, version, plural, scope);
    for object in items(session, &resource.everywhere()).await {
        remove(
            session,
            &resource.collection(text(&object, "namespace")),
            &object,
        )
        .await;
    }
}

async fn remove(session: &Session, collection: &str, object: &Value) {
    let path = format!("{collection}/{}", text(object, "name"));
    if object["metadata"]["finalizers"].is_array() && collection != CRDS.everywhere() {
        let patch = json!({"metadata": {"finalizers": null}});
        session.quietly(Ask::merge_patch(&path, &patch)).await;
    }
    let options = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
    session
        .quietly(Ask::new(Method::DELETE, path).json(&options))
        .await;
}

async fn named_after(session: &Session, resource: &Resource) -> Vec<Value> {
    let mut items = items(session, &resource.everywhere()).await;
    items.retain(|object| text(object, "name").contains(session.ns()));
    items
}

async fn items(session: &Session, path: &str) -> Vec<Value> {
    let list = session.quietly(Ask::get(path)).await;
    list.body["items"].as_array().cloned().unwrap_or_default()
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or_default()
}
