//! Asks a running caretaker for its last failed requests about an object.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use caretaker_controllers::runtime::clients::{ClientEnvironment, ClusterChoice, ClusterClients};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::output::explained::ReportedFailure;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// More than the failures about one object and its owners need.
const PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Owners that are asked about. An object may have ten thousand.
pub(super) const OWNERS_MAX: usize = 20;

/// The last failures about `objects`, from the admin server of this kubeconfig.
pub(super) async fn ask(kubeconfig: &Path, objects: &[String]) -> Result<Vec<ReportedFailure>> {
    let choice = ClusterChoice {
        kubeconfig: Some(kubeconfig.to_owned()),
        context: None,
        environment: ClientEnvironment::read(),
        seed: crate::wiring::rng()?.u64(),
    };
    let clients = ClusterClients::find(&choice, &crate::wiring::clock()).await?;
    let parameters = objects.iter().map(|object| {
        let object = utf8_percent_encode(object, NON_ALPHANUMERIC);
        format!("object={object}")
    });
    let parameters: Vec<String> = parameters.collect();
    let path = format!("/debug/failures?{}", parameters.join("&"));
    let server = clients.server();
    let answer = tokio::time::timeout(REQUEST_TIMEOUT, fetch(&clients, &path)).await;
    answer
        .context("no answer in time")
        .flatten()
        .with_context(|| format!("the admin server {server} cannot be asked"))
}

async fn fetch(clients: &ClusterClients, path: &str) -> Result<Vec<ReportedFailure>> {
    let request = http::Request::get(path).body(Body::empty())?;
    let response = clients.requests().send(request).await?;
    let status = response.status();
    if !status.is_success() {
        bail!("it answered {status}");
    }
    let body = Limited::new(response.into_body(), PAGE_BYTES_MAX).collect();
    let body = body.await.map_err(|error| anyhow::anyhow!(error))?;
    Ok(serde_json::from_slice(&body.to_bytes())?)
}
