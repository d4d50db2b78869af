//! The server as a value: what it holds, how it is started, and how a request goes through it.
//!
//! One catch-all handler: the path is parsed, the kind looked up in the table, the verb's module asked, the answer
//! written in the form the client prefers. In-process callers and the listener go through the same door.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll};

use caretaker_machinery::clock::Clock;
use caretaker_machinery::rng::Rng;
use caretaker_machinery::status::Status;
use http::{Method, Request, Response, header};
use tower_service::Service;

use crate::body;
use crate::discovery;
use crate::health;
use crate::kinds::Kinds;
use crate::metrics::{Labels, Metrics};
use crate::negotiate::Format;
use crate::openapi;
use crate::request::{Path, Query, ResourcePath};
use crate::respond::{self, Body};
use crate::store::{Memory, Store};
use crate::strategy;
use crate::upkeep;
use crate::verbs::{self, Ask};

/// An embedded Kubernetes API server. Clones are the same server.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) inner: Arc<Inner>,
}

/// What all requests share.
pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    kinds: RwLock<Arc<Kinds>>,
    rng: Mutex<Rng>,
}

/// Who is asking. Nothing is forbidden to anyone who may ask at all; the name is for logs and `kubectl auth whoami`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user name.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
}

/// What the server does by itself. All of it is on unless a test wants to watch another program do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upkeep {
    /// Empty terminating namespaces and finish them.
    pub namespaces: bool,
    /// Remove the objects of a custom kind whose definition is being deleted.
    pub crds: bool,
    /// Let events expire.
    pub events: bool,
}

/// The API as a tower service for one caller.
#[derive(Clone)]
pub struct ApiService {
    server: ApiServer,
    identity: Identity,
}

// === impl ApiServer ===

impl ApiServer {
    /// A server whose objects live in memory and end with it. Must be called inside a tokio runtime, which runs its
    /// upkeep.
    #[must_use]
    pub fn ephemeral(clock: Clock, rng: Rng) -> Self {
        Self::ephemeral_with(clock, rng, Upkeep::default())
    }

    /// The same with some of the upkeep switched off.
    #[must_use]
    pub fn ephemeral_with(clock: Clock, rng: Rng, upkeep: Upkeep) -> Self {
        let server = Self {
            inner: Arc::new(Inner {
                store: Store::new(Box::new(Memory)),
                clock,
                metrics: Metrics::default(),
                kinds: RwLock::new(Arc::new(Kinds::builtin())),
                rng: Mutex::new(rng),
            }),
        };
        upkeep::start(&server.inner, upkeep);
        server
    }

    /// The API for one caller: give it to `kube::Client::new`.
    #[must_use]
    pub fn service(&self, identity: Identity) -> ApiService {
        ApiService {
            server: self.clone(),
            identity,
        }
    }

    /// Answers one request.
    pub(crate) async fn answer<B>(&self, identity: Identity, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let header = |name| {
            parts
                .headers
                .get(name)
                .and_then(|value: &http::HeaderValue| value.to_str().ok())
        };
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let pretty = wants_pretty(&query, header(header::USER_AGENT).unwrap_or_default());
        let format = Format::choose(header(header::ACCEPT).unwrap_or_default());
        let format = format.map(|format| if pretty { format.pretty() } else { format });
        let mut labels = Labels::of(&parts.method);

        let path = Path::parse(parts.uri.path());
        let mut response = match path {
            Path::Resource(path) => {
                let content_type = header(header::CONTENT_TYPE).unwrap_or_default().to_owned();
                let asked = Asked {
                    method: parts.method.clone(),
                    path,
                    query,
                    content_type,
                    identity,
                };
                self.resource(asked, format, body, &mut labels).await
            }
            path => {
                labels.endpoint(&path);
                let etag = header(header::IF_NONE_MATCH);
                self.elsewhere(&parts.method, &path, &query, format, etag)
            }
        };
        self.inner.metrics.count(&labels, response.status());
        if parts.method == Method::HEAD {
            *response.body_mut() = Body::empty();
        }
        respond::stamp(&mut response, self.inner.clock.now());
        response
    }

    /// Everything under a group and version.
    async fn resource<B>(
        &self,
        asked: Asked,
        format: Result<Format, Status>,
        body: B,
        labels: &mut Labels,
    ) -> Response<Body>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let format = match format {
            Ok(format) => format,
            Err(status) => return respond::status(&status, Format::JSON.pretty()),
        };
        let kinds = self.inner.kinds();
        let path = &asked.path;
        let Some(kind) = kinds.get(&path.group, &path.version, &path.resource) else {
            let known = kinds.is_builtin_group(&path.group);
            return if known {
                respond::status(&Status::unknown_resource(), format)
            } else {
                respond::not_found_page()
            };
        };
        let ask = Ask {
            kind: kind.clone(),
            namespace: asked.path.namespace,
            name: asked.path.name,
            subresource: asked.path.subresource,
            legacy_watch: asked.path.watch,
            method: asked.method,
            query: asked.query,
            content_type: asked.content_type,
            identity: asked.identity,
            format,
            body: match body::collect(body).await {
                Ok(body) => body,
                Err(status) => return respond::status(&status, format),
            },
        };
        let deprecation = strategy::deprecation(kind);
        let mut response = verbs::answer(&self.inner, ask, labels).await;
        respond::warn(&mut response, deprecation.as_slice());
        response
    }

    /// Discovery, documents and health: what needs no object.
    fn elsewhere(
        &self,
        method: &Method,
        path: &Path,
        query: &Query,
        format: Result<Format, Status>,
        etag: Option<&str>,
    ) -> Response<Body> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return respond::status(&Status::method_not_allowed(), Format::JSON);
        }
        let kinds = self.inner.kinds();
        match path {
            Path::Health { endpoint, check } => health::answer(endpoint, check.as_deref(), query),
            Path::Version => health::version(),
            Path::Metrics => respond::metrics(&self.inner.metrics.render()),
            Path::OpenApi(document) => openapi::answer(&kinds, document.as_deref(), query, etag),
            Path::Root => discovery::root(&kinds),
            Path::Core | Path::Groups | Path::Group(_) | Path::Resources { .. } => match format {
                Ok(format) => discovery::answer(&kinds, path, format, etag),
                Err(status) => respond::status(&status, Format::JSON.pretty()),
            },
            Path::Resource(_) | Path::Unknown => respond::not_found_page(),
        }
    }
}

/// A request for a resource, before its kind is known.
struct Asked {
    method: Method,
    path: ResourcePath,
    query: Query,
    content_type: String,
    identity: Identity,
}

// === impl Inner ===

impl Inner {
    /// The kinds as they are now.
    pub(crate) fn kinds(&self) -> Arc<Kinds> {
        self.kinds
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Changes the table of kinds. Requests under way keep the view they began with.
    pub(crate) fn change_kinds(&self, change: impl FnOnce(&mut Kinds)) {
        let mut kinds = self.kinds.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut kinds));
    }

    pub(crate) fn rng(&self) -> MutexGuard<'_, Rng> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Identity ===

impl Identity {
    /// The user that owns a local server.
    #[must_use]
    pub fn admin() -> Self {
        Self {
            user: "caretaker-admin".into(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
        }
    }
}

// === impl Upkeep ===

impl Default for Upkeep {
    fn default() -> Self {
        Self {
            namespaces: true,
            crds: true,
            events: true,
        }
    }
}

// === impl ApiService ===

impl<B> Service<Request<B>> for ApiService
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.server.clone();
        let identity = self.identity.clone();
        Box::pin(async move { Ok(server.answer(identity, request).await) })
    }
}

/// People at a terminal or in a browser get indented JSON, as upstream.
fn wants_pretty(query: &Query, user_agent: &str) -> bool {
    match query.get("pretty") {
        Some(_) => query.flag("pretty"),
        None => ["curl", "Wget", "Mozilla"]
            .iter()
            .any(|agent| user_agent.starts_with(agent)),
    }
}
