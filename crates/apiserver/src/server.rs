//! The server: its state, its start, and the handling of a request.
//!
//! One handler serves all paths: it parses the path, finds the kind in the table, runs the verb, and writes the response
//! in the form that the client prefers. In-process callers and the listener call the same handler.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::task::{Context, Poll};

use caretaker_machinery::clock::Clock;
use caretaker_machinery::rng::Rng;
use caretaker_machinery::status::Status;
use http::request::Parts;
use http::{Method, Request, Response, header};
use hyper::body::Incoming;
use tower_service::Service;

use crate::allocation::NodePortPool;
use crate::body;
use crate::bootstrap;
use crate::discovery;
use crate::health;
use crate::identity::access::AccessAttributes;
use crate::identity::{UserIdentity, impersonation};
use crate::kinds::{KindTable, ServedKind};
use crate::listen::{AccessCheck, HttpSite, auth};
use crate::metrics::{RequestSeries, ServerMetrics};
use crate::negotiate::{AcceptHeader, ResponseFormat};
use crate::openapi;
use crate::request::{self, RequestPath, RequestQuery, ResourcePath};
use crate::respond::{self, ResponseBody};
use crate::store::ObjectStore;
use crate::strategy::{self, WorkloadSource};
use crate::tokens::check::{self, TokenVerdict};
use crate::tokens::{ServerCredentials, openid};
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
    credentials: OnceLock<ServerCredentials>,
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

/// The API as a tower service.
#[derive(Clone)]
pub struct ApiService {
    server: ApiServer,
    /// The caller; none if each request says who sends it.
    identity: Option<UserIdentity>,
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
                credentials: OnceLock::new(),
            }),
        };
        bootstrap::create_namespaces(&server.state);
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
            identity: Some(identity),
        }
    }

    /// Returns the API as the listener serves it: a request with a token is served for the owner of the token, one without
    /// credentials for an anonymous user.
    #[must_use]
    pub fn token_service(&self) -> ApiService {
        ApiService {
            server: self.clone(),
            identity: None,
        }
    }

    /// Gives the server its credentials. A server has them from its start, or never.
    #[must_use]
    pub fn with_credentials(self, credentials: ServerCredentials) -> Self {
        let given = self.state.credentials.set(credentials);
        assert!(given.is_ok(), "a server gets its credentials once");
        self
    }

    /// Returns the owner of a token; none if the token is not valid.
    fn owner(&self, token: &[u8]) -> Option<UserIdentity> {
        match check::check(&self.state, token, &check::own_audiences()) {
            TokenVerdict::Valid { identity, .. } => Some(identity),
            TokenVerdict::Refused(why) => {
                tracing::debug!(why, "refused a token");
                None
            }
            TokenVerdict::Unknown => None,
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
        let identity = match authorize(&parts, &path, &query, identity) {
            Ok(identity) => identity,
            Err(status) => {
                let mut response = respond::status(&status, accept.status());
                self.state.metrics.count(&labels, response.status());
                respond::add_common_headers(&mut response, self.state.clock.now());
                return response;
            }
        };
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
                self.serve_non_resource(&parts, &path, &query, &accept)
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
        parts: &Parts,
        path: &RequestPath,
        query: &RequestQuery,
        accept: &AcceptHeader<'_>,
    ) -> Response<ResponseBody> {
        // Like upstream, health has no methods.
        if let RequestPath::Health { endpoint, check } = path {
            return health::serve(endpoint, check.as_deref(), query);
        }
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            return respond::status(&Status::method_not_allowed(), accept.status());
        }
        let kinds = self.state.kinds();
        let etag = parts.headers.get(header::IF_NONE_MATCH);
        let etag = etag.and_then(|etag| etag.to_str().ok());
        match path {
            RequestPath::OpenId(document) => {
                let key = self.state.credentials().token_key.as_ref();
                openid::serve(*document, key, parts, accept)
            }
            RequestPath::Version => match accept.check_route(&["application/json"]) {
                Ok(()) => health::version(),
                Err(status) => respond::status(&status, accept.status()),
            },
            RequestPath::Metrics => respond::metrics(&self.state.metrics.render()),
            RequestPath::OpenApi(document) => openapi::serve(&kinds, document, query, accept, etag),
            RequestPath::Root => discovery::root(&kinds),
            RequestPath::Core
            | RequestPath::Groups
            | RequestPath::Group(_)
            | RequestPath::Resources { .. } => discovery::serve(&kinds, path, accept, etag),
            RequestPath::Health { .. } | RequestPath::Resource(_) | RequestPath::Unknown => {
                respond::not_found_page()
            }
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

    /// Returns the credentials that the server knows; none at all if it was given none.
    pub(crate) fn credentials(&self) -> &ServerCredentials {
        static NONE: ServerCredentials = ServerCredentials::NONE;
        self.credentials.get().unwrap_or(&NONE)
    }

    pub(crate) fn rng(&self) -> MutexGuard<'_, Rng> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn owner(&self, token: &[u8]) -> Option<UserIdentity> {
        Self::owner(self, token)
    }

    fn anonymous(&self) -> Option<UserIdentity> {
        Some(UserIdentity::anonymous())
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
        let identity = match &self.identity {
            Some(identity) => Ok(identity.clone()),
            None => auth::identify(&server, None, request.headers()),
        };
        Box::pin(async move {
            Ok(match identity {
                Ok(identity) => server.serve(identity, request).await,
                Err(status) => server.refuse(&status),
            })
        })
    }
}

/// Reports whether a `Connection` header asks for another protocol.
fn asks_for_upgrade(connection: Option<&str>) -> bool {
    let mut options = connection.unwrap_or_default().split(',');
    options.any(|option| option.trim().eq_ignore_ascii_case("upgrade"))
}

/// Returns the identity that a request is served for, if that may send the request.
fn authorize(
    parts: &Parts,
    path: &RequestPath,
    query: &RequestQuery,
    caller: UserIdentity,
) -> Result<UserIdentity, Status> {
    let text = request::decode(parts.uri.path());
    let attributes = AccessAttributes::of(&parts.method, path, &text, query);
    let identity = impersonation::apply(&parts.headers, caller, &attributes)?;
    attributes.check(&identity)?;
    Ok(identity)
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
