//! Volcano's CustomResourceDefinitions: as text for `kubectl apply -f -`, or installed on an API server that lacks them.
//!
//! DEVIATION(volcano-kinds): written for this program from the facts of Volcano's definitions. Templates of Pods and claims
//! are stored as they are, neither validated nor pruned, and CronJobs have printer columns.

use std::time::Duration;

use http::{Method, Request, header};
use kube::Client;
use serde_json::{Value, json};

/// The definitions as YAML documents.
pub const DEFINITIONS: &str = include_str!("../data/volcano.yaml");

/// Longest wait until a new definition is served, and the polling interval.
const SERVED_WAIT_MAX: Duration = Duration::from_secs(30);
const SERVED_LOOK: Duration = Duration::from_millis(50);

const DEFINITIONS_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const QUEUES_PATH: &str = "/apis/scheduling.volcano.sh/v1beta1/queues";

/// Volcano's kinds could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum VolcanoInstallError {
    /// The API server was not reached, or its response could not be read.
    #[error("create {what}: {source}")]
    Unreached {
        /// The object to create.
        what: &'static str,
        source: kube::Error,
    },
    /// The API server refused the object.
    #[error("create {what}: the API server returned {status}")]
    Refused {
        /// The object to create.
        what: &'static str,
        /// HTTP status of the response.
        status: u16,
    },
}

/// Installs the definitions and the Queues `root` and `default`. Existing objects are not changed.
///
/// # Errors
/// If the API server cannot be reached or refuses an object.
pub async fn install(client: &Client) -> Result<(), VolcanoInstallError> {
    for definition in DEFINITIONS.split("\n---\n") {
        let what = "a kind of Volcano";
        let status = post(
            client,
            what,
            DEFINITIONS_PATH,
            "application/yaml",
            definition,
        )
        .await?;
        expect(what, status)?;
    }
    for (name, spec) in [
        ("root", json!({"weight": 1, "reclaimable": false})),
        (
            "default",
            json!({"weight": 1, "reclaimable": true, "parent": "root"}),
        ),
    ] {
        install_queue(client, &queue(name, &spec)).await?;
    }
    Ok(())
}

fn queue(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec})
}

/// Waits until Queues are served, and creates one.
async fn install_queue(client: &Client, queue: &Value) -> Result<(), VolcanoInstallError> {
    let (what, mut waited) = ("a Queue of Volcano", Duration::ZERO);
    loop {
        let body = queue.to_string();
        let status = post(client, what, QUEUES_PATH, "application/json", &body).await?;
        if status != 404 || waited >= SERVED_WAIT_MAX {
            return expect(what, status);
        }
        tokio::time::sleep(SERVED_LOOK).await;
        waited += SERVED_LOOK;
    }
}

async fn post(
    client: &Client,
    what: &'static str,
    path: &str,
    content_type: &str,
    body: &str,
) -> Result<u16, VolcanoInstallError> {
    let unreached = |source| VolcanoInstallError::Unreached { what, source };
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::CONTENT_TYPE, content_type)
        .body(body.as_bytes().to_vec().into())
        .map_err(|error| unreached(kube::Error::HttpError(error)))?;
    let response = client.send(request).await.map_err(unreached)?;
    Ok(response.status().as_u16())
}

fn expect(what: &'static str, status: u16) -> Result<(), VolcanoInstallError> {
    match status {
        // 409: it exists already.
        200 | 201 | 409 => Ok(()),
        status => Err(VolcanoInstallError::Refused { what, status }),
    }
}
