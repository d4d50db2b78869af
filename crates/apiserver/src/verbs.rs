//! From a request to its verb, and from the verb's reply to an answer.
//!
//! Each verb is a module that knows nothing of HTTP: it gets an [`Ask`] and returns a [`Reply`] or a `Status`. What may
//! be asked of a kind stands in its row.

mod binding;
mod collection;
pub(crate) mod commit;
mod create;
mod decode;
pub(crate) mod delete;
mod get;
pub(crate) mod list;
mod patch;
mod review;
mod subresource;
mod update;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use caretaker_machinery::names::NameRule;
use caretaker_machinery::status::{Status, quoted};
use http::{Method, Response};
use serde_json::Value;

use crate::kinds::Kind;
use crate::metrics::Labels;
use crate::negotiate::{Form, Format};
use crate::request::Query;
use crate::respond::{self, Body, ListMeta};
use crate::server::{Identity, Inner};
use crate::store::{Key, Object, Page};
use crate::tables::{self, Include};

/// A request for a resource whose kind is known.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) kind: Arc<Kind>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    pub(crate) legacy_watch: bool,
    pub(crate) method: Method,
    pub(crate) query: Query,
    pub(crate) content_type: String,
    pub(crate) identity: Identity,
    pub(crate) format: Format,
    pub(crate) body: Bytes,
}

/// What a verb answers.
pub(crate) enum Reply {
    /// An object, as stored or as it would be.
    Object {
        code: u16,
        object: Arc<Object>,
        warnings: Vec<String>,
    },
    /// A page of a list.
    List { page: Page, meta: ListMeta },
    /// The object is gone.
    Done {
        status: Status,
        warnings: Vec<String>,
    },
    /// A tree that is not stored.
    Value { code: u16, value: Value },
    /// An endless answer.
    Watch(Response<Body>),
}

// === impl Reply ===

impl Reply {
    /// The same answer with more to hear about it, before the rest.
    fn warned(mut self, mut more: Vec<String>) -> Self {
        if let Reply::Object { warnings, .. } = &mut self {
            more.append(warnings);
            *warnings = more;
        }
        self
    }
}

/// The verbs, by their names in discovery and in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Create,
    Get,
    List,
    Watch,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

/// Answers a request for a resource.
pub(crate) async fn answer(inner: &Arc<Inner>, ask: Ask, labels: &mut Labels) -> Response<Body> {
    let format = ask.format;
    let Some(verb) = Verb::of(&ask) else {
        let custom = ask.kind.custom.is_some();
        return if custom && ask.namespace.is_some() && !ask.kind.namespaced {
            respond::not_found_page()
        } else {
            respond::status(&refusal(&ask), format)
        };
    };
    ask.label(labels, verb);
    let reply = match ask.check(verb) {
        Err(status) => Err(status),
        Ok(()) if ask.subresource.is_some() => subresource::answer(inner, &ask).await,
        Ok(()) => match verb {
            Verb::Create => create::create(inner, &ask).await,
            Verb::Get => get::get(inner, &ask).await,
            Verb::List => list::list(inner, &ask).await,
            Verb::Watch => watch::watch(inner, &ask).await,
            Verb::Update => update::update(inner, &ask).await,
            Verb::Patch => patch::patch(inner, &ask).await,
            Verb::Delete => delete::delete(inner, &ask).await,
            Verb::DeleteCollection => collection::delete(inner, &ask).await,
        },
    };
    let rendered = reply.and_then(|reply| ask.render(reply, inner));
    rendered.unwrap_or_else(|status| respond::status(&status, format))
}

// === impl Verb ===

impl Verb {
    /// None: no such method there.
    fn of(ask: &Ask) -> Option<Self> {
        let one = ask.name.is_some();
        let verb = match (&ask.method, one) {
            (&Method::GET, _) if ask.legacy_watch => Verb::Watch,
            (&Method::GET, true) => Verb::Get,
            (&Method::GET, false) if ask.query.flag("watch") => Verb::Watch,
            (&Method::GET, false) => Verb::List,
            (&Method::POST, one) if one == ask.subresource.is_some() => Verb::Create,
            (&Method::PUT, true) => Verb::Update,
            (&Method::PATCH, true) => Verb::Patch,
            (&Method::DELETE, true) => Verb::Delete,
            (&Method::DELETE, false) => Verb::DeleteCollection,
            _ => return None,
        };
        let name = verb.name();
        let allowed = match &ask.subresource {
            None => ask.kind.allows(name),
            Some(subresource) => {
                let part = ask.kind.subresource(subresource)?;
                part.verbs.iter().any(|known| known == name)
            }
        };
        // A collection of all namespaces can only be read.
        let in_scope = match (ask.kind.namespaced, &ask.namespace) {
            (true, None) => matches!(verb, Verb::List | Verb::Watch) && !one,
            (true, Some(_)) | (false, None) => true,
            (false, Some(_)) => false,
        };
        (allowed && in_scope).then_some(verb)
    }

    fn name(self) -> &'static str {
        match self {
            Verb::Create => "create",
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        }
    }

    fn metric(self) -> &'static str {
        match self {
            Verb::Create => "POST",
            Verb::Get => "GET",
            Verb::List => "LIST",
            Verb::Watch => "WATCH",
            Verb::Update => "PUT",
            Verb::Patch => "PATCH",
            Verb::Delete => "DELETE",
            Verb::DeleteCollection => "DELETECOLLECTION",
        }
    }
}

// === impl Ask ===

impl Ask {
    /// The key of the object the path names.
    pub(crate) fn key(&self) -> Key {
        self.key_of(self.name.as_deref().unwrap_or_default())
    }

    pub(crate) fn key_of(&self, name: &str) -> Key {
        let namespace = self.namespace.as_deref().filter(|_| self.kind.namespaced);
        Key::new(namespace, name)
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn not_found(&self) -> Status {
        Status::not_found(self.kind.resource_named(self.name()))
    }

    /// Names that cannot be part of a path are nobody's.
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

    /// Whether the answer can have the form that is asked for.
    fn check(&self, verb: Verb) -> Result<(), Status> {
        self.check_name()?;
        let is_list = matches!(verb, Verb::List | Verb::DeleteCollection);
        let (form, article) = match (self.format.form, is_list) {
            (Form::Metadata, true) => ("PartialObjectMetadata", "a list"),
            // A watch of a list's form shows single objects all the same.
            (Form::MetadataList, false) if verb == Verb::Watch => return Ok(()),
            (Form::MetadataList, false) => ("PartialObjectMetadataList", "not a list"),
            _ => return Ok(()),
        };
        let kind = if is_list {
            &self.kind.list_kind
        } else {
            &self.kind.kind
        };
        let package = match (&self.kind.custom, self.kind.group.split('.').next()) {
            (Some(_), _) => "unstructured",
            (None, Some("") | None) => "core",
            (None, Some(package)) => package,
        };
        let kind = match (&self.kind.custom, is_list) {
            (None, _) => kind.as_str(),
            (Some(_), true) => "UnstructuredList",
            (Some(_), false) => "Unstructured",
        };
        let message = format!(
            "you requested {form}, but the requested object is {article} (*{package}.{kind})"
        );
        Err(Status::failure(406, "NotAcceptable", message))
    }

    fn label(&self, labels: &mut Labels, verb: Verb) {
        let scope = match (&self.name, &self.namespace) {
            (Some(_), _) => "resource",
            (None, Some(_)) => "namespace",
            (None, None) if verb == Verb::Create => "resource",
            (None, None) => "cluster",
        };
        let dry_run = self.query.get("dryRun").is_some();
        labels.resource(
            &self.kind,
            self.subresource.as_deref(),
            scope,
            verb.metric(),
            dry_run,
        );
    }

    /// How objects are shown in tables.
    pub(crate) fn tables(&self, inner: &Inner) -> Result<tables::Context, Status> {
        let include = match self.format.form {
            Form::Table(_) => Include::parse(self.query.get("includeObject"))?,
            _ => Include::Metadata,
        };
        Ok(tables::Context {
            include,
            now: inner.clock.now(),
        })
    }

    fn render(&self, reply: Reply, inner: &Inner) -> Result<Response<Body>, Status> {
        let tables = self.tables(inner)?;
        let (mut response, warnings) = match reply {
            Reply::Object {
                code,
                object,
                warnings,
            } => (
                respond::object(code, &self.kind, &object, self.format, &tables),
                warnings,
            ),
            Reply::List { page, meta } => {
                let response = respond::list(self.kind.clone(), page, &meta, self.format, &tables);
                (response, Vec::new())
            }
            Reply::Done { status, warnings } => (respond::status(&status, self.format), warnings),
            Reply::Value { code, value } => (respond::value(code, &value, self.format), Vec::new()),
            Reply::Watch(response) => (response, Vec::new()),
        };
        respond::warn(&mut response, &warnings);
        Ok(response)
    }
}

/// Why a path and method lead to no verb.
fn refusal(ask: &Ask) -> Status {
    let wrong_scope = ask.namespace.is_some() && !ask.kind.namespaced
        || ask.namespace.is_none() && ask.kind.namespaced && ask.name.is_some();
    let unknown_part = ask
        .subresource
        .as_ref()
        .is_some_and(|part| ask.kind.subresource(part).is_none());
    if unknown_part && ask.kind.custom.is_some() {
        ask.not_found()
    } else if wrong_scope || unknown_part {
        Status::unknown_resource()
    } else {
        Status::method_not_allowed()
    }
}
