//! POST: a new object, or a review, which is answered and not stored.
//!
//! An update of an object that does not exist inserts it here, too.

use std::sync::Arc;

use caretaker_machinery::status::{Status, StatusCause};

use super::decode::{self, DecodedBody, set_namespace};
use super::write::{OwnerSource, WritePlan, WriteRequest, WriteTarget};
use super::{ResourceRequest, VerbReply, binding, review};
use crate::metadata::{self, ObjectTree};
use crate::server::ServerState;
use crate::store::{ObjectKey, StoredObject, WritePremise};
use crate::strategy::{self, ObjectPart, WriteContext};

/// Most generated names that the server tries before the client has to try again.
const GENERATED_NAMES_MAX: usize = 8;

/// The verb that inserts an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InsertOrigin {
    Create,
    Update,
}

pub(super) async fn create(
    server: &ServerState,
    request: &ResourceRequest,
) -> Result<VerbReply, Status> {
    if request.kind.kind == "Binding" {
        return binding::create(server, request).await;
    }
    let write = WriteRequest::new(server, request, ObjectPart::Main, "CreateOptions")?;
    let decoded = decode::decode_body(&server.kinds(), request)?;
    if request.kind.allows("get") {
        write.insert(decoded, InsertOrigin::Create).await
    } else {
        review::answer(server, request, decoded)
    }
}

// === impl WriteRequest ===

impl WriteRequest<'_> {
    /// Inserts a decoded object; if it has only a prefix for its name, under a name that is free.
    pub(super) async fn insert(
        mut self,
        decoded: DecodedBody,
        origin: InsertOrigin,
    ) -> Result<VerbReply, Status> {
        let kind = &self.request.kind;
        let DecodedBody { mut tree, warnings } = decoded;
        set_namespace(self.request, &mut tree)?;
        let revision = metadata::text(&tree, "resourceVersion").parse::<u64>();
        if revision.is_ok_and(|revision| revision > 0) && origin == InsertOrigin::Create {
            return Err(Status::unexplained(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let name = metadata::text(&tree, "name");
        self.namespace_premise(name)?;
        let custom = kind.custom.as_ref();
        if custom.is_some_and(|custom| custom.terminating) {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(kind.resource_named(name), why));
        }
        self.warnings = warnings;
        self.warn_about_changes(None, &mut tree, OwnerSource::Body);
        metadata::set_create_fields(&mut tree, self.server.clock.now(), &mut self.server.rng());

        let prefix = metadata::text(&tree, "generateName").to_owned();
        let generates_name = !prefix.is_empty() && metadata::text(&tree, "name").is_empty();
        let mut attempts_left = GENERATED_NAMES_MAX;
        if !generates_name {
            let object = self.try_insert(tree).await;
            let object = object.map_err(|status| match status.is("AlreadyExists") {
                true if !prefix.is_empty() => no_unique_name(status),
                _ => status,
            })?;
            return Ok(self.reply(201, object));
        }
        loop {
            let mut tree = tree.clone();
            let name = metadata::generate_name(&prefix, &mut self.server.rng());
            metadata::of(&mut tree).insert("name".into(), name.into());
            attempts_left -= 1;
            match self.try_insert(tree).await {
                Ok(object) => return Ok(self.reply(201, object)),
                Err(status) if !status.is("AlreadyExists") => return Err(status),
                Err(_) if attempts_left > 0 => {}
                Err(status) => return Err(no_unique_name(status)),
            }
        }
    }

    async fn try_insert(&self, mut tree: ObjectTree) -> Result<Arc<StoredObject>, Status> {
        let kind = &self.request.kind;
        // Not before the name is final: some kinds write it into their spec.
        let now = self.server.clock.now();
        let kinds = &*self.server.kinds();
        let context = WriteContext {
            kinds,
            now,
            user: Some(&self.request.identity),
        };
        strategy::prepare_create(kind, &mut tree, context);
        let allotment = self.admit(&mut tree, None)?;
        self.validate(&tree, None)?;
        // Shared by the attempts to write it.
        let tree = Arc::new(tree);
        let name = metadata::text(&tree, "name");
        let target = WriteTarget {
            server: self.server,
            kind,
            key: &self.request.key_of(name),
            mode: self.mode,
        };
        let outcome = target.commit(|current| match current {
            Some(current) => Err(already_exists(self.request, name, current)),
            None => {
                let premise = self.namespace_premise(name)?;
                Ok(WritePlan::Create(tree.clone(), premise))
            }
        });
        let object = outcome.await?.into_object();
        if let Some(allotment) = allotment {
            allotment.commit();
        }
        Ok(object)
    }

    /// Checks that the namespace of a new object exists and is not terminating. The store checks the premise again when it
    /// takes the object.
    pub(super) fn namespace_premise(&self, name: &str) -> Result<Option<WritePremise>, Status> {
        let kind = &self.request.kind;
        let namespace = self.request.namespace.as_deref();
        let Some(namespace) = namespace.filter(|_| kind.namespaced) else {
            return Ok(None);
        };
        let namespaces = self.server.builtin("", "namespaces");
        let resource = namespaces.resource;
        let key = ObjectKey::new(None, namespace);
        let Some(found) = self.server.store.get(resource, &key) else {
            return Err(Status::not_found(namespaces.resource_named(namespace)));
        };
        if found.fields.get(0) != Some("Terminating") {
            return Ok(Some(WritePremise {
                resource,
                key,
                rev: found.rev,
            }));
        }
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut status = Status::forbidden(kind.resource_named(name), &why);
        if let Some(details) = &mut status.details {
            let message = format!("namespace {namespace} is being terminated");
            let cause = StatusCause::new("NamespaceTerminating", "metadata.namespace", message);
            details.causes.push(cause);
        }
        Err(status)
    }
}

fn already_exists(request: &ResourceRequest, name: &str, current: &StoredObject) -> Status {
    let mut status = Status::already_exists(request.kind.resource_named(name));
    if metadata::is_deleting(&current.to_value()) {
        status.message.insert_str(0, "object is being deleted: ");
    }
    status
}

/// Asks a client that sent a prefix to try again.
fn no_unique_name(mut status: Status) -> Status {
    if let Some(details) = &mut status.details {
        details.retry_after_seconds = 1;
        status
            .message
            .push_str(", the server was not able to generate a unique name for the object");
    }
    status
}
