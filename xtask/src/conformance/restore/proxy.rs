//! A proxy between `caretaker run` and the API server: holds lists back, refuses writes, and records every request.
//!
//! It speaks plain HTTP/1.1 to its client, one thread for each connection, and passes watches on line by line. A request
//! that the API server does not answer ends its connection, as it would without the proxy.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ureq::Body;
use ureq::http::Response;

use crate::http::{HttpCall, HttpClient};

/// The headers of one connection, which are not passed on.
const OF_CONNECTION: [&str; 6] = [
    "connection",
    "transfer-encoding",
    "content-length",
    "keep-alive",
    "host",
    "accept-encoding",
];
/// The largest part of a body that is passed on at once.
const PART_BYTES: usize = 64 * 1024;
/// The answer to a write that is refused. The client retries after a second.
const REFUSAL: &str =
    "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";

/// A running proxy. Its threads end with the process.
pub(super) struct RestoreProxy {
    port: u16,
    shared: Arc<ProxyShared>,
}

/// The requests that are held back or refused.
#[derive(Clone, Debug, Default)]
pub(super) struct ProxyRules {
    pub(super) held_lists: HeldLists,
    /// Deletes and patches of objects whose name begins with one of these are answered 429.
    pub(super) refused_writes: Vec<&'static str>,
}

/// The lists that wait until the rules change.
#[derive(Clone, Debug, Default)]
pub(super) enum HeldLists {
    #[default]
    Nothing,
    Everything,
    /// Of these resources.
    Of(Vec<String>),
}

/// A request that was answered.
#[derive(Clone, Debug)]
pub(super) struct SeenRequest {
    pub(super) at: Instant,
    method: String,
    pub(super) path: String,
    pub(super) status: u16,
    pub(super) class: RequestClass,
}

/// The part of the API that a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestClass {
    /// A page of a list of this resource over all namespaces.
    List(String),
    /// A watch of this resource over all namespaces.
    Watch(String),
    /// An object in a namespace, or anything else.
    Other,
}

struct ProxyShared {
    upstream: HttpClient,
    rules: Mutex<ProxyRules>,
    changed: Condvar,
    seen: Mutex<Vec<SeenRequest>>,
}

struct ProxiedRequest {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

// === impl SeenRequest ===

impl SeenRequest {
    /// Whether the client tried to delete or patch an object.
    pub(super) fn is_write(&self) -> bool {
        is_write(&self.method)
    }
}

// === impl RestoreProxy ===

impl RestoreProxy {
    /// Starts a proxy to a server on a free port.
    pub(super) fn start(upstream: HttpClient) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no free port on 127.0.0.1")?;
        let port = listener.local_addr().context("the proxy's port")?.port();
        let shared = Arc::new(ProxyShared {
            upstream,
            rules: Mutex::default(),
            changed: Condvar::new(),
            seen: Mutex::default(),
        });
        let server = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                // A connection that breaks is the client's to handle.
                thread::spawn(move || drop(server.serve(&stream)));
            }
        });
        Ok(Self { port, shared })
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Replaces the rules, also for requests that are held now.
    pub(super) fn set_rules(&self, rules: ProxyRules) {
        *lock(&self.shared.rules) = rules;
        self.shared.changed.notify_all();
    }

    /// The requests that were answered since a time, in the order of their answers.
    pub(super) fn seen_since(&self, since: Instant) -> Vec<SeenRequest> {
        let seen = lock(&self.shared.seen);
        let first = seen.partition_point(|request| request.at < since);
        seen[first..].to_vec()
    }

    /// The resources of which the client has opened a watch.
    pub(super) fn watched(&self) -> BTreeSet<String> {
        let seen = lock(&self.shared.seen);
        let watched = seen.iter().filter_map(|request| match &request.class {
            RequestClass::Watch(resource) if request.status == 200 => Some(resource.clone()),
            _ => None,
        });
        watched.collect()
    }

    /// The resources that the client has listed and then watched since a time.
    pub(super) fn relisted_since(&self, since: Instant) -> BTreeSet<String> {
        let (mut listed, mut followed) = (BTreeSet::new(), BTreeSet::new());
        for request in self.seen_since(since) {
            match request.class {
                RequestClass::List(resource) if request.status == 200 => {
                    listed.insert(resource);
                }
                RequestClass::Watch(resource)
                    if request.status == 200 && listed.contains(&resource) =>
                {
                    followed.insert(resource);
                }
                _ => {}
            }
        }
        followed
    }

    /// How long no request about an object of a namespace was answered; at most the time since `since`.
    pub(super) fn quiet_for(&self, namespace: &str, since: Instant) -> Duration {
        let infix = format!("/namespaces/{namespace}/");
        let seen = self.seen_since(since);
        let last = seen.iter().rfind(|request| request.path.contains(&infix));
        last.map_or(since, |request| request.at).elapsed()
    }
}

// === impl HeldLists ===

impl HeldLists {
    fn contains(&self, class: &RequestClass) -> bool {
        match (self, class) {
            (Self::Everything, RequestClass::List(_)) => true,
            (Self::Of(resources), RequestClass::List(resource)) => resources.contains(resource),
            _ => false,
        }
    }
}

// === impl RequestClass ===

impl RequestClass {
    fn of(method: &str, target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let resource = match parts.as_slice() {
            ["api", _, resource] | ["apis", _, _, resource] if method == "GET" => *resource,
            _ => return Self::Other,
        };
        let is_watch = query
            .split('&')
            .any(|part| matches!(part, "watch=1" | "watch=true"));
        match is_watch {
            true => Self::Watch(resource.to_owned()),
            // A look for another controller manager's Pods, not the list of a feed.
            false if query.contains("labelSelector=") => Self::Other,
            false => Self::List(resource.to_owned()),
        }
    }
}

// === impl ProxyShared ===

impl ProxyShared {
    fn serve(&self, stream: &TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let (mut reader, mut writer) = (BufReader::new(stream), stream);
        while let Some(request) = ProxiedRequest::read(&mut reader)? {
            self.answer(request, &mut writer)?;
        }
        Ok(())
    }

    fn answer(&self, request: ProxiedRequest, writer: &mut impl Write) -> Result<()> {
        let class = RequestClass::of(&request.method, &request.path);
        let refuses = self.wait_for_turn(&request, &class);
        let ProxiedRequest {
            method,
            path,
            headers,
            body,
        } = request;
        if refuses {
            self.record(&method, &path, 429, class);
            return Ok(writer.write_all(REFUSAL.as_bytes())?);
        }
        let call = HttpCall {
            method: &method,
            path: &path,
            headers,
            body,
            body_timeout: None,
        };
        let response = self.upstream.send(call)?;
        self.record(&method, &path, response.status().as_u16(), class);
        pass_on(response, writer)
    }

    /// Waits while the request is held. True: it is refused.
    fn wait_for_turn(&self, request: &ProxiedRequest, class: &RequestClass) -> bool {
        let rules = lock(&self.rules);
        let is_held = |rules: &mut ProxyRules| rules.held_lists.contains(class);
        let rules = self.changed.wait_while(rules, is_held);
        let rules = rules.unwrap_or_else(PoisonError::into_inner);
        let name = request.path.rsplit('/').next().unwrap_or_default();
        let mut refused = rules.refused_writes.iter();
        is_write(&request.method) && refused.any(|prefix| name.starts_with(prefix))
    }

    fn record(&self, method: &str, path: &str, status: u16, class: RequestClass) {
        let (method, path) = (method.to_owned(), path.to_owned());
        let mut seen = lock(&self.seen);
        // The time is taken under the lock, so that the requests are in its order.
        let at = Instant::now();
        seen.push(SeenRequest {
            at,
            method,
            path,
            status,
            class,
        });
    }
}

// === impl ProxiedRequest ===

impl ProxiedRequest {
    /// Reads a request; nothing at the end of the connection.
    fn read(reader: &mut impl BufRead) -> Result<Option<Self>> {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_ascii_whitespace();
        let (method, path) = words.next().zip(words.next()).context("no request line")?;
        let (method, path) = (method.to_owned(), path.to_owned());
        let (mut headers, mut length) = (Vec::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
            if name == "content-length" {
                length = value.parse().context("Content-Length is no number")?;
            }
            if !OF_CONNECTION.contains(&name.as_str()) {
                headers.push((name, value));
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        Ok(Some(Self {
            method,
            path,
            headers,
            body: (length > 0).then_some(body),
        }))
    }
}

/// Passes a response on, each part as it arrives.
fn pass_on(response: Response<Body>, writer: &mut impl Write) -> Result<()> {
    let (parts, body) = response.into_parts();
    let has_body = parts.status != 204 && parts.status != 304;
    let mut head = format!("HTTP/1.1 {} -\r\n", parts.status.as_u16());
    for (name, value) in &parts.headers {
        if !OF_CONNECTION.contains(&name.as_str()) {
            head.push_str(&format!("{name}: {}\r\n", value.to_str()?));
        }
    }
    if has_body {
        head.push_str("Transfer-Encoding: chunked\r\n");
    }
    writer.write_all(format!("{head}\r\n").as_bytes())?;
    if !has_body {
        return Ok(());
    }
    let (mut reader, mut part) = (body.into_reader(), vec![0; PART_BYTES]);
    loop {
        let length = reader.read(&mut part)?;
        let mut chunk = format!("{length:x}\r\n").into_bytes();
        chunk.extend_from_slice(&part[..length]);
        chunk.extend_from_slice(b"\r\n");
        writer.write_all(&chunk)?;
        if length == 0 {
            return Ok(());
        }
    }
}

fn is_write(method: &str) -> bool {
    matches!(method, "DELETE" | "PATCH")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_watches_of_all_namespaces_have_a_class() {
        let list = |resource: &str| RequestClass::List(resource.to_owned());
        let table = [
            ("GET", "/api/v1/pods?limit=500", list("pods")),
            ("GET", "/apis/apps/v1/replicasets", list("replicasets")),
            (
                "GET",
                "/api/v1/pods?labelSelector=app%3Da",
                RequestClass::Other,
            ),
            (
                "GET",
                "/api/v1/pods?watch=1&resourceVersion=7",
                RequestClass::Watch("pods".to_owned()),
            ),
            ("GET", "/api/v1", RequestClass::Other),
            ("GET", "/apis/apps/v1", RequestClass::Other),
            ("GET", "/api/v1/namespaces/a/pods", RequestClass::Other),
            ("DELETE", "/apis/apps/v1/replicasets", RequestClass::Other),
        ];
        for (method, path, class) in table {
            assert_eq!(RequestClass::of(method, path), class, "{method} {path}");
        }
    }

    #[test]
    fn a_request_is_read_without_the_headers_of_its_connection() {
        let text = "PATCH /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nAccept: b\r\n\r\n{}GET /b HTTP/1.1\r\n\r\n";
        let mut reader = text.as_bytes();
        let first = ProxiedRequest::read(&mut reader).unwrap().unwrap();
        assert_eq!(
            (first.method.as_str(), first.path.as_str()),
            ("PATCH", "/a")
        );
        assert_eq!(first.headers, [("accept".to_owned(), "b".to_owned())]);
        assert_eq!(first.body.as_deref(), Some(b"{}".as_slice()));
        assert_eq!(
            ProxiedRequest::read(&mut reader).unwrap().unwrap().path,
            "/b"
        );
        assert!(ProxiedRequest::read(&mut reader).unwrap().is_none());
    }
}
