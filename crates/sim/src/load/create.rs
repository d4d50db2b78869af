//! Creating many ConfigMaps of about one kilobyte with a number of clients at once.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures::future::try_join_all;
use http::Method;
use kube::Client;
use tokio::time::Instant;

use super::{Measured, Started, connected, namespace, send};

/// Bytes of an object as it is sent: what a small ConfigMap of an operator has.
const OBJECT_BYTES: usize = 1000;

/// ConfigMaps to create in one namespace, which is made when it is missing.
#[derive(Clone, Debug)]
pub struct Creates {
    /// The namespace.
    pub namespace: String,
    /// The number of the first one, from which its name is made.
    pub first: usize,
    /// How many clients at once.
    pub clients: usize,
    /// How many objects in all.
    pub count: usize,
}

// === impl Creates ===

impl Creates {
    /// Creates them.
    pub async fn run(&self, kubeconfig: &Path) -> anyhow::Result<Measured> {
        let clients = connected(kubeconfig, self.clients).await?;
        self.run_with(&clients).await
    }

    /// Creates them with clients that are connected.
    pub(super) async fn run_with(&self, clients: &[Client]) -> anyhow::Result<Measured> {
        if let Some(first) = clients.first() {
            namespace(first, &self.namespace).await?;
        }
        let (next, latencies) = (
            Cell::new(self.first),
            RefCell::new(Vec::with_capacity(self.count)),
        );
        let started = Started::now();
        try_join_all(
            clients
                .iter()
                .map(|client| self.keep_creating(client, &next, &latencies)),
        )
        .await?;
        let latencies = latencies.into_inner();
        Ok(started.measured(latencies.len(), OBJECT_BYTES, latencies))
    }

    /// One client: takes the next number and creates that object, as long as there are any.
    async fn keep_creating(
        &self,
        client: &Client,
        next: &Cell<usize>,
        latencies: &RefCell<Vec<Duration>>,
    ) -> anyhow::Result<()> {
        let path = format!("/api/v1/namespaces/{}/configmaps", self.namespace);
        while next.get() < self.first + self.count {
            let number = next.replace(next.get() + 1);
            let body = object(&format!("load-{number:06}"));
            let sent = Instant::now();
            send(client, Method::POST, &path, body).await?;
            latencies.borrow_mut().push(sent.elapsed());
        }
        Ok(())
    }
}

fn object(name: &str) -> Bytes {
    let head = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"text":""#
    );
    let tail = r#""}}"#;
    let text = "x".repeat(OBJECT_BYTES.saturating_sub(head.len() + tail.len()));
    (head + &text + tail).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn an_object_is_a_config_map_of_the_size_it_is_said_to_have() {
        for name in ["a", "load-000001"] {
            let body = object(name);
            assert_eq!(body.len(), OBJECT_BYTES);
            let value: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(
                (&value["kind"], &value["metadata"]["name"]),
                (&"ConfigMap".into(), &name.into())
            );
        }
    }
}
