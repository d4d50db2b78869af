//! Finds the verb that serves a request, and makes the response of its reply.
//!
//! Each verb is a module without HTTP: it gets a [`ResourceRequest`] and returns a [`VerbReply`] or a
//! `Status`. The row of a kind lists the verbs that it allows. A subresource is either a part of the object, which takes
//! the way of all updates, or has a module of its own.

mod binding;
mod connect;
mod create;
mod decode;
pub(crate) mod delete;
mod eviction;
mod log;
pub(crate) mod read;
mod review;
mod scale;
mod token;
mod update;
mod watch;
pub(crate) mod write;

use std::sync::Arc;

use bytes::Bytes;
use caretaker_machinery::names::NameRule;
use caretaker_machinery::status::{Status, StatusDetails, quoted};
use http::{Method, Response};

use crate::identity::UserIdentity;
use crate::kinds::ServedKind;
use crate::metrics::RequestSeries;
use crate::negotiate::{AcceptHeader, ResourceEndpoint, ResponseForm, ResponseFormat};
use crate::request::RequestQuery;
use crate::respond::{self, ListHeader, ResponseBody};
use crate::server::ServerState;
use crate::store::{ObjectKey, ObjectPage, StoredObject};
use crate::strategy::ObjectPart;
use crate::tables::{self, IncludeObject};

/// A request for a resource whose kind is known.
#[derive(Clone)]
pub(crate) struct ResourceRequest {
    pub(crate) kind: Arc<ServedKind>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    pub(crate) legacy_watch: bool,
    pub(crate) method: Method,
    pub(crate) query: RequestQuery,
    pub(crate) content_type: String,
    pub(crate) identity: UserIdentity,
    /// The format of the reply; an error is written in the one that the header names for it.
    pub(crate) format: ResponseFormat,
    /// The client asks for another protocol on this connection.
    pub(crate) upgrades: bool,
    pub(crate) body: Bytes,
}

/// The result of a verb.
pub(crate) enum VerbReply {
    Object {
        code: u16,
        object: Arc<StoredObject>,
        warnings: Vec<String>,
    },
    /// An object of another kind that shows a part of the stored one.
    View {
        kind: Arc<ServedKind>,
        object: Arc<StoredObject>,
        warnings: Vec<String>,
    },
    List {
        page: ObjectPage,
        meta: ListHeader,
    },
    /// The success of a delete, a binding or an eviction.
    Status {
        status: Status,
        warnings: Vec<String>,
    },
    /// A watch, a review or a log.
    Response(Response<ResponseBody>),
}

/// The verbs, with their names in discovery and in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ApiVerb {
    Create,
    Get,
    List,
    Watch,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

/// Serves a request for a resource.
pub(crate) async fn serve(
    server: &Arc<ServerState>,
    mut request: ResourceRequest,
    accept: &AcceptHeader<'_>,
    labels: &mut RequestSeries,
) -> Response<ResponseBody> {
    let Some(verb) = ApiVerb::of(&request) else {
        let custom = request.kind.custom.is_some();
        return if request.has_no_route() {
            respond::status(&Status::unknown_resource(), accept.status())
        } else if custom && request.namespace.is_some() && !request.kind.namespaced {
            respond::not_found_page()
        } else {
            respond::status(&no_such_verb(&request), accept.status())
        };
    };
    request.set_labels(labels, verb);
    let endpoint = match request.subresource.as_deref() {
        Some("log") => ResourceEndpoint::Log,
        Some(part) if connect::serves(part) => ResourceEndpoint::Connection,
        _ => verb.endpoint(),
    };
    let subresource = request.subresource.as_deref();
    let response = match accept.resource(&request.kind, subresource, endpoint) {
        Ok(format) => {
            request.format = format;
            answer(server, &request, verb).await
        }
        Err(status) => Err(status),
    };
    response.unwrap_or_else(|status| respond::status(&status, accept.status()))
}

async fn answer(
    server: &Arc<ServerState>,
    request: &ResourceRequest,
    verb: ApiVerb,
) -> Result<Response<ResponseBody>, Status> {
    request.check(verb)?;
    let reply = run(server, request, verb).await?;
    request.render(reply, server).await
}

async fn run(
    server: &Arc<ServerState>,
    request: &ResourceRequest,
    verb: ApiVerb,
) -> Result<VerbReply, Status> {
    let part = match request.subresource.as_deref() {
        None => ObjectPart::Main,
        Some("status") => ObjectPart::Status,
        Some("finalize") => ObjectPart::Finalize,
        Some("approval") => ObjectPart::Approval,
        Some("ephemeralcontainers") => ObjectPart::EphemeralContainers,
        Some("resize") => ObjectPart::Resize,
        Some("binding") => return binding::create(server, request).await,
        Some("eviction") => return eviction::create(server, request).await,
        Some("log") => return log::get(server, request),
        Some("scale") => return scale::serve(server, request, verb).await,
        Some(part) if connect::serves(part) => return Err(connect::refuse(server, request, part)),
        Some("token") => return token::create(server, request),
        Some(other) => {
            // An absent object is reported first.
            read::get(server, request).await?;
            return Err(not_implemented(request, other));
        }
    };
    match verb {
        ApiVerb::Create => create::create(server, request).await,
        ApiVerb::Get => read::get(server, request).await,
        ApiVerb::List => read::list(server, request).await,
        ApiVerb::Watch => watch::watch(server, request).await,
        ApiVerb::Update => update::update(server, request, part).await,
        ApiVerb::Patch => update::patch(server, request, part).await,
        ApiVerb::Delete => delete::delete(server, request).await,
        ApiVerb::DeleteCollection => delete::delete_collection(server, request).await,
    }
}

// === impl ApiVerb ===

impl ApiVerb {
    /// Returns none if the path does not take the method.
    fn of(request: &ResourceRequest) -> Option<Self> {
        let one = request.name.is_some();
        let verb = match (&request.method, one) {
            (&Method::GET, _) if request.legacy_watch => ApiVerb::Watch,
            (&Method::GET, true) => ApiVerb::Get,
            (&Method::GET, false) if request.query.flag("watch") => ApiVerb::Watch,
            (&Method::GET, false) => ApiVerb::List,
            (&Method::POST, one) if one == request.subresource.is_some() => ApiVerb::Create,
            (&Method::PUT, true) => ApiVerb::Update,
            (&Method::PATCH, true) => ApiVerb::Patch,
            (&Method::DELETE, true) => ApiVerb::Delete,
            (&Method::DELETE, false) => ApiVerb::DeleteCollection,
            _ => return None,
        };
        let (name, _) = verb.names();
        let allowed = match &request.subresource {
            None => request.kind.allows(name),
            Some(subresource) => {
                let part = request.kind.subresource(subresource)?;
                part.verbs.iter().any(|known| known == name)
            }
        };
        // A collection over all namespaces can only be read.
        let in_scope = match (request.kind.namespaced, &request.namespace) {
            (true, None) => matches!(verb, ApiVerb::List | ApiVerb::Watch) && !one,
            (true, Some(_)) | (false, None) => true,
            (false, Some(_)) => false,
        };
        (allowed && in_scope).then_some(verb)
    }

    fn endpoint(self) -> ResourceEndpoint {
        match self {
            ApiVerb::List => ResourceEndpoint::List,
            ApiVerb::Watch => ResourceEndpoint::Watch,
            _ => ResourceEndpoint::Objects,
        }
    }

    /// Returns the names in discovery and in metrics.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            ApiVerb::Create => ("create", "POST"),
            ApiVerb::Get => ("get", "GET"),
            ApiVerb::List => ("list", "LIST"),
            ApiVerb::Watch => ("watch", "WATCH"),
            ApiVerb::Update => ("update", "PUT"),
            ApiVerb::Patch => ("patch", "PATCH"),
            ApiVerb::Delete => ("delete", "DELETE"),
            ApiVerb::DeleteCollection => ("deletecollection", "DELETECOLLECTION"),
        }
    }
}

// === impl ResourceRequest ===

impl ResourceRequest {
    /// Returns the key of the object that the path names.
    pub(crate) fn key(&self) -> ObjectKey {
        self.key_of(self.name())
    }

    pub(crate) fn key_of(&self, name: &str) -> ObjectKey {
        let namespace = self.namespace.as_deref().filter(|_| self.kind.namespaced);
        ObjectKey::new(namespace, name)
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn not_found(&self) -> Status {
        Status::not_found(self.kind.resource_named(self.name()))
    }

    /// Reports whether upstream serves no method at this path: a kind that can only be created has no paths of objects
    /// and none outside its scope.
    fn has_no_route(&self) -> bool {
        let is_only_created = matches!(self.kind.verbs.as_slice(), [verb] if verb == "create");
        let is_in_scope = self.kind.namespaced == self.namespace.is_some();
        is_only_created && (self.name.is_some() || !is_in_scope)
    }

    /// Refuses names that cannot be part of a path.
    fn check_name(&self) -> Result<(), Status> {
        let faults = NameRule::PathSegment.faults(self.name());
        match faults.first() {
            Some(fault) => {
                let message = format!("Name parameter invalid: {}: {fault}", quoted(self.name()));
                Err(Status::bad_request(message))
            }
            None => Ok(()),
        }
    }

    /// Checks the name, and that the reply can have the form that the client accepts.
    fn check(&self, verb: ApiVerb) -> Result<(), Status> {
        self.check_name()?;
        let is_list = matches!(verb, ApiVerb::List | ApiVerb::DeleteCollection);
        let (form, article) = match (self.format.form, is_list) {
            (ResponseForm::Metadata(_), true) => ("PartialObjectMetadata", "a list"),
            // A watch shows single objects although the client accepts a list.
            (ResponseForm::MetadataList(_), false) if verb == ApiVerb::Watch => return Ok(()),
            (ResponseForm::MetadataList(_), false) => ("PartialObjectMetadataList", "not a list"),
            _ => return Ok(()),
        };
        let (package, kind) = match (&self.kind.custom, is_list) {
            (Some(_), true) => ("unstructured", "UnstructuredList"),
            (Some(_), false) => ("unstructured", "Unstructured"),
            (None, true) => (self.kind.package(), self.kind.list_kind.as_str()),
            (None, false) => (self.kind.package(), self.kind.kind.as_str()),
        };
        let message = format!(
            "you requested {form}, but the requested object is {article} (*{package}.{kind})"
        );
        Err(Status::failure(406, "NotAcceptable", message))
    }

    fn set_labels(&self, labels: &mut RequestSeries, verb: ApiVerb) {
        let scope = match (&self.name, &self.namespace) {
            (Some(_), _) => "resource",
            (None, Some(_)) => "namespace",
            (None, None) if verb == ApiVerb::Create => "resource",
            (None, None) => "cluster",
        };
        let dry_run = self.query.get("dryRun").is_some();
        let (_, verb) = verb.names();
        let subresource = self.subresource.as_deref();
        labels.resource(&self.kind, subresource, scope, verb, dry_run);
    }

    /// Returns how tables show objects.
    pub(crate) fn tables(&self, server: &ServerState) -> Result<tables::TableContext, Status> {
        let include = match self.format.form {
            ResponseForm::Table(_) => IncludeObject::parse(self.query.get("includeObject"))?,
            _ => IncludeObject::Metadata,
        };
        Ok(tables::TableContext {
            include,
            now: server.clock.now(),
        })
    }

    async fn render(
        &self,
        reply: VerbReply,
        server: &ServerState,
    ) -> Result<Response<ResponseBody>, Status> {
        let tables = self.tables(server)?;
        let (mut response, warnings) = match reply {
            VerbReply::Object {
                code,
                object,
                warnings,
            } => {
                let response = respond::object(code, &self.kind, &object, self.format, &tables);
                (response, warnings)
            }
            VerbReply::View {
                kind,
                object,
                warnings,
            } => {
                let response = respond::object(200, &kind, &object, self.format, &tables);
                (response, warnings)
            }
            VerbReply::List { page, meta } => {
                let kind = self.kind.clone();
                let response = respond::list(kind, page, &meta, self.format, &tables);
                (response.await, Vec::new())
            }
            VerbReply::Status { status, warnings } => {
                (respond::status(&status, self.format), warnings)
            }
            VerbReply::Response(response) => (response, Vec::new()),
        };
        respond::add_warnings(&mut response, &warnings);
        Ok(response)
    }
}

/// Returns the status of a method that the path does not take.
fn no_such_verb(request: &ResourceRequest) -> Status {
    let wrong_scope = request.namespace.is_some() && !request.kind.namespaced
        || request.namespace.is_none() && request.kind.namespaced && request.name.is_some();
    let unknown_part = request
        .subresource
        .as_ref()
        .is_some_and(|part| request.kind.subresource(part).is_none());
    if unknown_part && request.kind.custom.is_some() {
        request.not_found()
    } else if wrong_scope || unknown_part {
        Status::unknown_resource()
    } else if request.kind.custom.is_some() && request.subresource.is_some() {
        let action = match request.method {
            Method::POST => "create",
            _ => "delete",
        };
        Status::unsupported(action, request.kind.resource_named(""))
    } else {
        Status::method_not_allowed()
    }
}

/// A subresource that discovery lists and that has no module here.
fn not_implemented(request: &ResourceRequest, subresource: &str) -> Status {
    let message = format!(
        "{}/{subresource} is not available: this server does not serve it",
        request.kind.plural
    );
    Status::failure(501, "NotImplemented", message).with(StatusDetails::default())
}
