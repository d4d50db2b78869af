//! The subresource `log`: the log of a container on a simulated Node.
//!
//! No container runs there. The log consists of the facts that the status of the Pod shows ([`lines`]); a log that is
//! followed gets a line when the status changes, and ends with the container. For a Pod on any other Node the answer is
//! that of the real server when the kubelet cannot be reached. Mirrors `registry/core/pod/rest/log.go` and the checks of
//! kubelet's `GetKubeletContainerLogs`, 1.36.

mod lines;
mod options;

use std::sync::Arc;

use bytes::Bytes;
use caretaker_machinery::status::Status;
use futures::Stream;
use http::{Response, StatusCode};
use tokio::sync::watch;

use self::lines::{ContainerRun, LogLine};
use self::options::LogOptions;
use super::connect::{KubeletAddress, container_of, kubelet_of, node_of};
use super::{ResourceRequest, VerbReply};
use crate::metadata::{self, ObjectTree, value_at};
use crate::respond::{self, ResponseBody};
use crate::server::ServerState;
use crate::store::{ObjectKey, ResourceId};

/// Nodes with this label are simulated. The label is that of the crate `simulator`, which this one does not know.
const SIMULATED: &str = "simulate.caretaker.dev/node";

/// A log that is followed.
struct FollowedLog {
    server: Arc<ServerState>,
    pods: ResourceId,
    key: ObjectKey,
    uid: String,
    container: String,
    options: LogOptions,
    changed: watch::Receiver<()>,
    /// The start of the run that is followed.
    run: ContainerRun,
    lines_sent: usize,
    bytes_left: Option<usize>,
    has_ended: bool,
}

pub(super) fn get(
    server: &Arc<ServerState>,
    request: &ResourceRequest,
) -> Result<VerbReply, Status> {
    let options = LogOptions::read(&request.query)?;
    options.check(request.name())?;
    let changed = server.store.subscribe(request.kind.resource);
    let pod = server.store.get(request.kind.resource, &request.key());
    let pod = pod.ok_or_else(|| request.not_found())?.to_value();
    let container = container_of(&pod, &options.container)?;
    let Some(node) = node_of(server, &pod)? else {
        return Ok(VerbReply::Response(no_content()));
    };
    if !is_simulated(&node) {
        let kubelet = kubelet_of(server, &pod)?;
        let refused = kubelet.map(|kubelet| unreachable(&kubelet, &pod, &container, &options));
        return Err(refused.unwrap_or_else(|| request.not_found()));
    }
    let run = ContainerRun::of(&pod, &container, options.previous)?;
    let lines = lines::of_run(&pod, &container, &run);
    let has_ended = run.has_ended() || !options.follow;
    let mut log = FollowedLog {
        server: server.clone(),
        pods: request.kind.resource,
        key: request.key(),
        uid: metadata::text(&pod, "uid").to_owned(),
        container,
        bytes_left: options.limit_bytes,
        changed,
        run,
        lines_sent: lines.len(),
        has_ended,
        options,
    };
    let lines = log.options.select(lines, server.clock.now());
    let first = log.take(&lines);
    let body = match log.has_ended {
        true => ResponseBody::from(first),
        false => ResponseBody::endless(log.into_stream(first)),
    };
    let response = respond::build(200, "text/plain", body);
    Ok(VerbReply::Response(response))
}

// === impl FollowedLog ===

impl FollowedLog {
    /// Formats lines, up to the limit of bytes, with which the log ends.
    fn take(&mut self, lines: &[LogLine]) -> String {
        let mut text: String = lines
            .iter()
            .map(|line| line.text(self.options.timestamps))
            .collect();
        if let Some(left) = &mut self.bytes_left {
            if text.len() >= *left {
                let end = (0..=*left).rev().find(|end| text.is_char_boundary(*end));
                text.truncate(end.unwrap_or(0));
                self.has_ended = true;
            }
            *left -= text.len().min(*left);
        }
        text
    }

    fn into_stream(self, first: String) -> impl Stream<Item = Bytes> + Send {
        futures::stream::unfold((self, Some(first)), |(mut log, first)| async move {
            let piece = match first {
                Some(first) => first,
                None => log.next().await?,
            };
            Some((Bytes::from(piece), (log, None)))
        })
    }

    /// Waits for further lines; none at the end.
    async fn next(&mut self) -> Option<String> {
        while !self.has_ended {
            if self.changed.changed().await.is_err() {
                return None;
            }
            let pod = self.server.store.get(self.pods, &self.key);
            let pod = pod.map(|pod| pod.to_value());
            let pod = pod.filter(|pod| metadata::text(pod, "uid") == self.uid)?;
            let run = self.run.now(&pod, &self.container);
            let lines = lines::of_run(&pod, &self.container, &run);
            self.has_ended = run.has_ended();
            if lines.len() > self.lines_sent {
                let new = &lines[self.lines_sent..];
                self.lines_sent = lines.len();
                return Some(self.take(new));
            }
        }
        None
    }
}

fn is_simulated(node: &ObjectTree) -> bool {
    let labels = value_at(node, "/metadata/labels");
    labels[SIMULATED] == "true"
}

/// Returns the error of a Node without a kubelet that answers.
fn unreachable(
    kubelet: &KubeletAddress,
    pod: &ObjectTree,
    container: &str,
    options: &LogOptions,
) -> Status {
    let (namespace, name) = (
        metadata::text(pod, "namespace"),
        metadata::text(pod, "name"),
    );
    let query = options.to_query();
    let mark = if query.is_empty() { "" } else { "?" };
    let (authority, why) = (kubelet.authority(), kubelet.unreachable());
    Status::unexplained(format!(
        "Get \"https://{authority}/containerLogs/{namespace}/{name}/{container}{mark}{query}\": {why}"
    ))
}

/// Makes the response of a Pod that is not bound to a Node.
fn no_content() -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
