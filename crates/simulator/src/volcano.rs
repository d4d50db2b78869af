//! The kinds of Volcano: as text for `kubectl apply -f -`, and installed on a server that lacks them.
//!
//! DEVIATION(volcano-kinds): written for this program after the facts of Volcano's own definitions. Templates of Pods and
//! claims are kept as they are, unchecked, and CronJobs have printer columns.

use std::time::Duration;

use http::{Method, Request, header};
use kube::Client;
use serde_json::{Value, json};

/// The definitions, as YAML.
pub const DEFINITIONS: &str = include_str!("../data/volcano.yaml");

/// How long a definition may take until its objects are served, and how often that is looked at.
const SERVED_WAIT_MAX: Duration = Duration::from_secs(30);
const SERVED_LOOK: Duration = Duration::from_millis(50);

const DEFINITIONS_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const QUEUES_PATH: &str = "/apis/scheduling.volcano.sh/v1beta1/queues";

/// Why the kinds could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The server was not reached, or did not answer readably.
    #[error("{what}: {source}")]
    Unreached {
        /// What was to be made.
        what: &'static str,
        /// Why it was not.
        source: kube::Error,
    },
    /// The server refused.
    #[error("{what}: {status}")]
    Refused {
        /// What was to be made.
        what: &'static str,
        /// The HTTP status.
        status: u16,
    },
}

/// Installs the kinds and the Queues `root` and `default`; what is there already is left as it is.
///
/// # Errors
/// The server cannot be reached, or refuses them.
pub async fn install(client: &Client) -> Result<(), InstallError> {
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

/// Waits until Queues are served, and makes one.
async fn install_queue(client: &Client, queue: &Value) -> Result<(), InstallError> {
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
) -> Result<u16, InstallError> {
    let unreached = |source| InstallError::Unreached { what, source };
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::CONTENT_TYPE, content_type)
        .body(body.as_bytes().to_vec().into())
        .map_err(|error| unreached(kube::Error::HttpError(error)))?;
    let response = client.send(request).await.map_err(unreached)?;
    Ok(response.status().as_u16())
}

fn expect(what: &'static str, status: u16) -> Result<(), InstallError> {
    match status {
        // Somebody has made it already.
        200 | 201 | 409 => Ok(()),
        status => Err(InstallError::Refused { what, status }),
    }
}
