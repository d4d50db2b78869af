//! The server: its state, its start, and the handling of a request.
//!
//! One handler serves all paths: it parses the path, finds the kind in the table, runs the verb, and writes the response
//! in the form that the client prefers. In-process callers and the listener call the same handler.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll};

use caretaker_machinery::clock::Clock;
use caretaker_machinery::rng::Rng;
use caretaker_machinery::status::Status;
use http::{Method, Request, Response, header};
use hyper::body::Incoming;
use tower_service::Service;

use crate::allocation::NodePortPool;
use crate::body;
use crate::bootstrap;
use crate::discovery;
use crate::health;
use crate::kinds::{KindTable, ServedKind};
use crate::listen::{AccessCheck, HttpSite};
use crate::metrics::{RequestSeries, ServerMetrics};
use crate::negotiate::{AcceptHeader, ResponseFormat};
use crate::openapi;
use crate::request::{RequestPath, RequestQuery, ResourcePath};
use crate::respond::{self, ResponseBody};
use crate::store::ObjectStore;
use crate::strategy::{self, WorkloadSource};
use crate::upkeep::{self, accounts::AccountKeeper};
use crate::verbs::{self, ResourceRequest};

/// An embedded Kubernetes API server. Clones are the same server.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) state: Arc<ServerState>,
}

/// The state that all requests share.
pub(crate) struct ServerState {
    pub(crate) store: ObjectStore,
    pub(crate) clock: Clock,
    pub(crate) metrics: ServerMetrics,
    pub(crate) node_ports: Mutex<NodePortPool>,
    /// None if the server keeps no ServiceAccounts.
    pub(crate) accounts: Option<AccountKeeper>,
    kinds: RwLock<Arc<KindTable>>,
    rng: Mutex<Rng>,
    warns_of_idle_workloads: AtomicBool,
}

/// The caller. The server enforces no authorization; the name is for logs and `kubectl auth whoami`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserIdentity {
    /// The user name.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
}

/// The tasks that the server runs. All are on by default; a test turns one off to let another program do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpkeepTasks {
    /// Empty terminating namespaces and finish them.
    pub namespaces: bool,
    /// Remove the objects of a custom kind whose definition is being deleted.
    pub crds: bool,
    /// Let events expire.
    pub events: bool,
}

/// What a server has from the start and does by itself. The default is for tests: the tasks run, and the only objects are
/// the default namespaces.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    pub upkeep: UpkeepTasks,
    /// Create the objects that kube-apiserver creates at its start: Service `kubernetes`, roles and bindings,
    /// PriorityClasses, APIServices and those of Priority and Fairness. Holds the address at which clients reach the server.
    pub bootstrap: Option<SocketAddr>,
    /// Keep a ServiceAccount `default` and a ConfigMap `kube-root-ca.crt` in every namespace, and give Pods the account
    /// that they name. Upstream's controller manager does this, not kube-apiserver.
    pub accounts: Option<AccountOptions>,
}

/// What ServiceAccounts need.
#[derive(Debug, Clone, Default)]
pub struct AccountOptions {
    /// The certificate of the server's authority in PEM; none for plain HTTP, where no ConfigMap is kept.
    pub root_ca: Option<String>,
}

/// The API as a tower service for one caller.
#[derive(Clone)]
pub struct ApiService {
    server: ApiServer,
    identity: UserIdentity,
}

// === impl ApiServer ===

impl ApiServer {
    /// Starts a server that keeps its objects in memory. Must be called inside a tokio runtime, which runs its tasks.
    #[must_use]
    pub fn ephemeral(clock: Clock, rng: Rng) -> Self {
        Self::ephemeral_with(clock, rng, UpkeepTasks::default())
    }

    /// Starts a server that runs only some of its tasks.
    #[must_use]
    pub fn ephemeral_with(clock: Clock, rng: Rng, upkeep: UpkeepTasks) -> Self {
        let options = ServerOptions {
            upkeep,
            ..ServerOptions::default()
        };
        Self::start(clock, rng, options)
    }

    /// Starts a server with these objects and tasks.
    #[must_use]
    pub fn start(clock: Clock, rng: Rng, options: ServerOptions) -> Self {
        let accounts = options
            .accounts
            .map(|AccountOptions { root_ca }| AccountKeeper { root_ca });
        let server = Self {
            state: Arc::new(ServerState {
                store: ObjectStore::default(),
                clock,
                metrics: ServerMetrics::default(),
                node_ports: Mutex::default(),
                accounts,
                kinds: RwLock::new(Arc::new(KindTable::builtin())),
                rng: Mutex::new(rng),
                warns_of_idle_workloads: AtomicBool::new(false),
            }),
        };
        upkeep::create_default_namespaces(&server.state);
        if let Some(address) = options.bootstrap {
            bootstrap::create(&server.state, address);
        }
        upkeep::start(&server.state, options.upkeep);
        server
    }

    /// From now on, who creates a Pod or another workload is warned that nothing acts on it.
    pub fn warn_of_idle_workloads(&self) {
        let warns = &self.state.warns_of_idle_workloads;
        warns.store(true, Ordering::Relaxed);
    }

    /// Returns the API as one caller sees it, for `kube::Client::new`.
    #[must_use]
    pub fn service(&self, identity: UserIdentity) -> ApiService {
        ApiService {
            server: self.clone(),
            identity,
        }
    }

    /// Serves one request.
    pub(crate) async fn serve<B>(
        &self,
        identity: UserIdentity,
        request: Request<B>,
    ) -> Response<ResponseBody>
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
        let query = RequestQuery::parse(parts.uri.query().unwrap_or_default());
        let pretty = wants_pretty(&query, header(header::USER_AGENT).unwrap_or_default());
        let accept = AcceptHeader::parse(header(header::ACCEPT).unwrap_or_default(), pretty);
        let mut labels = RequestSeries::of(&parts.method);

        let path = RequestPath::parse(parts.uri.path());
        let mut response = match path {
            RequestPath::Resource(path) => {
                let content_type = header(header::CONTENT_TYPE).unwrap_or_default().to_owned();
                let head = RequestHead {
                    method: parts.method.clone(),
                    path,
                    query,
                    content_type,
                    identity,
                    upgrades: asks_for_upgrade(header(header::CONNECTION)),
                };
                self.serve_resource(head, &accept, body, &mut labels).await
            }
            path => {
                labels.endpoint(&path);
                let etag = header(header::IF_NONE_MATCH);
                self.serve_non_resource(&parts.method, &path, &query, &accept, etag)
            }
        };
        self.state.metrics.count(&labels, response.status());
        if parts.method == Method::HEAD {
            *response.body_mut() = ResponseBody::empty();
        }
        respond::add_common_headers(&mut response, self.state.clock.now());
        response
    }

    /// Serves the paths below a group and version.
    async fn serve_resource<B>(
        &self,
        head: RequestHead,
        accept: &AcceptHeader<'_>,
        body: B,
        labels: &mut RequestSeries,
    ) -> Response<ResponseBody>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let kinds = self.state.kinds();
        let path = &head.path;
        let Some(kind) = kinds.get(&path.group, &path.version, &path.resource) else {
            let known = kinds.is_builtin_group(&path.group);
            return if known {
                respond::status(&Status::unknown_resource(), accept.status())
            } else {
                respond::not_found_page()
            };
        };
        let request = ResourceRequest {
            kind: kind.clone(),
            namespace: head.path.namespace,
            name: head.path.name,
            subresource: head.path.subresource,
            legacy_watch: head.path.watch,
            method: head.method,
            query: head.query,
            content_type: head.content_type,
            identity: head.identity,
            format: accept.status(),
            upgrades: head.upgrades,
            body: match body::collect(body).await {
                Ok(body) => body,
                Err(status) => return respond::status(&status, accept.status()),
            },
        };
        let deprecation = strategy::deprecation(kind);
        let mut response = verbs::serve(&self.state, request, accept, labels).await;
        respond::add_warnings(&mut response, deprecation.as_slice());
        response
    }

    /// Serves discovery, OpenAPI documents, metrics and health.
    fn serve_non_resource(
        &self,
        method: &Method,
        path: &RequestPath,
        query: &RequestQuery,
        accept: &AcceptHeader<'_>,
        etag: Option<&str>,
    ) -> Response<ResponseBody> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return respond::status(&Status::method_not_allowed(), accept.status());
        }
        let kinds = self.state.kinds();
        match path {
            RequestPath::Health { endpoint, check } => {
                health::serve(endpoint, check.as_deref(), query)
            }
            RequestPath::Version => match accept.check_route(&["application/json"]) {
                Ok(()) => health::version(),
                Err(status) => respond::status(&status, accept.status()),
            },
            RequestPath::Metrics => respond::metrics(&self.state.metrics.render()),
            RequestPath::OpenApi(document) => {
                openapi::serve(&kinds, document.as_deref(), query, etag)
            }
            RequestPath::Root => discovery::root(&kinds),
            RequestPath::Core
            | RequestPath::Groups
            | RequestPath::Group(_)
            | RequestPath::Resources { .. } => discovery::serve(&kinds, path, accept, etag),
            RequestPath::Resource(_) | RequestPath::Unknown => respond::not_found_page(),
        }
    }
}

/// A request for a resource without its body, before the kind is known.
struct RequestHead {
    method: Method,
    path: ResourcePath,
    query: RequestQuery,
    content_type: String,
    identity: UserIdentity,
    upgrades: bool,
}

// === impl ServerState ===

impl ServerState {
    pub(crate) fn workloads(&self) -> WorkloadSource {
        match self.warns_of_idle_workloads.load(Ordering::Relaxed) {
            true => WorkloadSource::None,
            false => WorkloadSource::Some,
        }
    }

    /// Returns the present table of kinds.
    pub(crate) fn kinds(&self) -> Arc<KindTable> {
        self.kinds
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Changes the table of kinds. Running requests keep the table that they began with.
    pub(crate) fn change_kinds(&self, change: impl FnOnce(&mut KindTable)) {
        let mut kinds = self.kinds.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut kinds));
    }

    /// Returns the row of a built-in kind.
    pub(crate) fn builtin(&self, group: &str, plural: &str) -> Arc<ServedKind> {
        let kinds = self.kinds();
        let kind = kinds.get(group, "v1", plural);
        kind.expect("a built-in kind").clone()
    }

    pub(crate) fn rng(&self) -> MutexGuard<'_, Rng> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl UserIdentity ===

impl UserIdentity {
    /// Returns the administrator, who is the only user of a local server.
    #[must_use]
    pub fn admin() -> Self {
        Self {
            user: "caretaker-admin".into(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
        }
    }
}

// === impl UpkeepTasks ===

impl Default for UpkeepTasks {
    fn default() -> Self {
        Self {
            namespaces: true,
            crds: true,
            events: true,
        }
    }
}

// === impl Site for ApiServer ===

impl HttpSite for ApiServer {
    fn access_check(&self, _path: &str) -> AccessCheck {
        AccessCheck::Guarded
    }

    async fn serve(
        &self,
        identity: Option<UserIdentity>,
        request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        match identity {
            Some(identity) => Self::serve(self, identity, request).await,
            None => self.refuse(&Status::failure(401, "Unauthorized", "Unauthorized")),
        }
    }

    fn refuse(&self, status: &Status) -> Response<ResponseBody> {
        let mut response = respond::status(status, ResponseFormat::JSON);
        respond::add_common_headers(&mut response, self.state.clock.now());
        response
    }
}

// === impl ApiService ===

impl<B> Service<Request<B>> for ApiService
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.server.clone();
        let identity = self.identity.clone();
        Box::pin(async move { Ok(server.serve(identity, request).await) })
    }
}

/// Reports whether a `Connection` header asks for another protocol.
fn asks_for_upgrade(connection: Option<&str>) -> bool {
    let mut options = connection.unwrap_or_default().split(',');
    options.any(|option| option.trim().eq_ignore_ascii_case("upgrade"))
}

/// Reports whether the client gets indented JSON: terminals and browsers do, as upstream.
fn wants_pretty(query: &RequestQuery, user_agent: &str) -> bool {
    match query.get("pretty") {
        Some(_) => query.flag("pretty"),
        None => ["curl", "Wget", "Mozilla"]
            .iter()
            .any(|agent| user_agent.starts_with(agent)),
    }
}
