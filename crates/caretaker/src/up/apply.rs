//! Creates the objects of manifests through the API of the server, before it says that it is ready.
//!
//! Requests are those of `kubectl create --validate=strict`; an object that exists is merged with its manifest. The first
//! refusal ends the start: a server with half of its manifests would only fail later.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use http::{HeaderMap, Method, Request, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::manifests::ManifestObject;
use crate::wiring::notice;

/// Longest wait until a definition is served, and the polling interval.
const SERVED_WAIT_MAX: Duration = Duration::from_secs(30);
const SERVED_LOOK: Duration = Duration::from_millis(5);

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Applies the objects of manifests in order, through the server's own client.
struct ManifestApplier {
    client: kube::Client,
    /// The resources of each API version that was asked for.
    known: BTreeMap<String, Vec<ServedResource>>,
    /// Warnings that were printed; the server repeats them for each object.
    warned: BTreeSet<String>,
}

#[derive(Debug, Clone)]
struct ServedResource {
    kind: String,
    name: String,
    is_namespaced: bool,
}

/// An answer of the server.
struct ServerAnswer {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

/// Creates the objects in their order.
pub(super) async fn apply(client: kube::Client, objects: &[ManifestObject]) -> Result<()> {
    let mut applier = ManifestApplier {
        client,
        known: BTreeMap::new(),
        warned: BTreeSet::new(),
    };
    for object in objects {
        applier.create(object).await?;
        if object.is_definition() {
            applier.wait_until_served(object).await?;
        }
    }
    Ok(())
}

// === impl ManifestApplier ===

impl ManifestApplier {
    async fn create(&mut self, object: &ManifestObject) -> Result<()> {
        let all = self.collection(object).await?;
        let path = format!("{all}?fieldValidation=Strict");
        let mut answer = self
            .send(Method::POST, &path, JSON, Some(&object.object))
            .await?;
        if answer.status == 409 && answer.body["reason"] == "AlreadyExists" {
            let path = format!("{all}/{}?fieldValidation=Strict", escaped(&object.name));
            answer = self
                .send(Method::PATCH, &path, MERGE_PATCH, Some(&object.object))
                .await?;
        }
        for warning in answer.warnings() {
            if self.warned.insert(warning.clone()) {
                notice(&format!("{object}: {warning}"));
            }
        }
        match answer.status {
            200..300 => Ok(()),
            _ => bail!("{object}: {}", answer.refusal()),
        }
    }

    /// A definition whose names are taken is stored and never served.
    async fn wait_until_served(&self, definition: &ManifestObject) -> Result<()> {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let path = format!("{path}/{}", escaped(&definition.name));
        let mut waited = Duration::ZERO;
        loop {
            let answer = self.send(Method::GET, &path, JSON, None).await?;
            let condition = |name: &str| {
                let all = answer.body["status"]["conditions"].as_array();
                all.and_then(|all| all.iter().find(|condition| condition["type"] == name))
            };
            if condition("Established").is_some_and(|found| found["status"] == "True") {
                return Ok(());
            }
            let conflict = condition("NamesAccepted").filter(|found| found["status"] == "False");
            if let Some(conflict) = conflict {
                let why = conflict["message"].as_str().unwrap_or_default();
                bail!("{definition}: its names are not accepted: {why}");
            }
            if waited >= SERVED_WAIT_MAX {
                bail!(
                    "{definition}: not served within {} s",
                    SERVED_WAIT_MAX.as_secs()
                );
            }
            tokio::time::sleep(SERVED_LOOK).await;
            waited += SERVED_LOOK;
        }
    }

    /// The path of all objects of the kind, in the object's namespace.
    async fn collection(&mut self, object: &ManifestObject) -> Result<String> {
        let version = &object.api_version;
        let root = match version.contains('/') {
            true => format!("/apis/{version}"),
            false => format!("/api/{version}"),
        };
        let find = |known: &BTreeMap<String, Vec<ServedResource>>| {
            let mut resources = known.get(version)?.iter();
            resources
                .find(|resource| resource.kind == object.kind)
                .cloned()
        };
        let mut found = find(&self.known);
        if found.is_none() {
            // A definition may have come since the version was listed.
            let listed = self.resources(&root).await?;
            self.known.insert(version.clone(), listed);
            found = find(&self.known);
        }
        let Some(resource) = found else {
            bail!(
                "{object}: no matches for kind {:?} in version {version:?}: give its CustomResourceDefinition with --crds or -f",
                object.kind
            );
        };
        let namespace = match object.namespace.as_str() {
            _ if !resource.is_namespaced => String::new(),
            "" => "/namespaces/default".to_owned(),
            namespace => format!("/namespaces/{}", escaped(namespace)),
        };
        Ok(format!("{root}{namespace}/{}", resource.name))
    }

    /// The resources of an API version, without subresources; none if the version is not served.
    async fn resources(&self, root: &str) -> Result<Vec<ServedResource>> {
        let answer = self.send(Method::GET, root, JSON, None).await?;
        let listed = answer.body["resources"].as_array();
        let resources = listed.into_iter().flatten().filter_map(|resource| {
            let name = resource["name"].as_str()?;
            (!name.contains('/')).then(|| ServedResource {
                kind: resource["kind"].as_str().unwrap_or_default().to_owned(),
                name: name.to_owned(),
                is_namespaced: resource["namespaced"] == true,
            })
        });
        Ok(resources.collect())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<&Map<String, Value>>,
    ) -> Result<ServerAnswer> {
        let bytes = body.map(serde_json::to_vec).transpose()?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, JSON)
            .header(header::CONTENT_TYPE, content_type)
            .body(Body::from(bytes.unwrap_or_default()))
            .with_context(|| format!("{path} is no path"))?;
        let (parts, body) = self.client.send(request).await?.into_parts();
        let bytes = body.collect().await?.to_bytes();
        Ok(ServerAnswer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
        })
    }
}

// === impl ServerAnswer ===

impl ServerAnswer {
    /// `the server answered 422 Invalid: …`.
    fn refusal(&self) -> String {
        let text = |field: &str| self.body[field].as_str().unwrap_or_default();
        let (status, reason, message) = (self.status, text("reason"), text("message"));
        format!("the server answered {status} {reason}: {message}")
    }

    /// The texts of the `Warning` headers: `299 - "text"`.
    fn warnings(&self) -> Vec<String> {
        let all = self.headers.get_all(header::WARNING).into_iter();
        let texts = all.filter_map(|value| {
            let (_, quoted) = value.to_str().ok()?.split_once('"')?;
            let text = quoted.strip_suffix('"').unwrap_or(quoted);
            Some(text.replace("\\\"", "\"").replace("\\\\", "\\"))
        });
        texts.collect()
    }
}

/// Percent-encodes a part of a path.
fn escaped(text: &str) -> String {
    const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(text, ENCODED).to_string()
}
