//! POST: a new object.

use std::sync::Arc;

use caretaker_machinery::status::{Cause, Named, Status};

use super::commit::{self, Mode, Outcome, Plan};
use super::decode::Decoded;
use super::{Ask, Reply, binding, decode, review};
use crate::deletion::dry_run_of;
use crate::kinds::Kind;
use crate::metadata::{self, Tree, check};
use crate::server::Inner;
use crate::store::{Key, Object, Premise};
use crate::strategy::{self, Part};

/// How many generated names are tried before the client has to try again.
const GENERATED_NAMES_MAX: usize = 8;

/// How a create came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Post,
    /// An update of what was not there.
    Put,
}

pub(super) async fn create(inner: &Inner, ask: &Ask) -> Result<Reply, Status> {
    let mode = Mode::dry_run(dry_run_of(&ask.query, "CreateOptions")?);
    strategy::check_options(&ask.query, "CreateOptions")?;
    if ask.kind.kind == "Binding" {
        return binding::create(inner, ask).await;
    }
    let Decoded {
        tree,
        warnings: heard,
    } = decode::object(&inner.kinds(), ask)?;
    if !ask.kind.allows("get") {
        return review::answer(ask, tree);
    }
    let (object, warnings) = create_tree(inner, ask, tree, mode, Origin::Post).await?;
    let reply = Reply::Object {
        code: 201,
        object,
        warnings,
    };
    Ok(reply.warned(heard))
}

/// Creates `tree` in the namespace of `ask`; an update of a missing object may end here, too.
pub(super) async fn create_tree(
    inner: &Inner,
    ask: &Ask,
    mut tree: Tree,
    mode: Mode,
    origin: Origin,
) -> Result<(Arc<Object>, Vec<String>), Status> {
    let kind = &ask.kind;
    place(ask, &mut tree)?;
    let revision = metadata::text(&tree, "resourceVersion").parse::<u64>();
    if revision.is_ok_and(|revision| revision > 0) && origin == Origin::Post {
        return Err(Status::unexplained(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    check_namespace(inner, ask, metadata::text(&tree, "name"))?;
    if kind
        .custom
        .as_ref()
        .is_some_and(|custom| custom.terminating)
    {
        let why = "create not allowed while custom resource definition is terminating";
        let name = metadata::text(&tree, "name");
        return Err(Status::forbidden(kind.resource_named(name), why));
    }
    let mut warnings = strategy::warnings(kind, &tree);
    warnings.extend(strategy::change_warnings(kind, None, &tree));
    warnings.extend(
        metadata::dedupe_owners(&mut tree).map(|uids| repeated_owners(Repeated::InBody, &uids)),
    );
    metadata::born(&mut tree, inner.clock.now(), &mut inner.rng());

    let prefix = metadata::text(&tree, "generateName").to_owned();
    let named = !metadata::text(&tree, "name").is_empty();
    let attempts = if prefix.is_empty() || named {
        1
    } else {
        GENERATED_NAMES_MAX
    };
    let mut taken = None;
    for _ in 0..attempts {
        let mut tree = tree.clone();
        if !named && !prefix.is_empty() {
            let name = metadata::generate_name(&prefix, &mut inner.rng());
            metadata::of(&mut tree).insert("name".into(), name.into());
        }
        // Only now: some kinds write their name into their spec.
        strategy::prepare_create(kind, &mut tree, &inner.kinds(), inner.clock.now());
        match insert(inner, ask, &tree, mode).await {
            Err(status) if status.is("AlreadyExists") => taken = Some(status),
            result => return Ok((result?, warnings)),
        }
    }
    let mut status = taken.expect("at least one attempt was made");
    if let (Some(details), false) = (&mut status.details, prefix.is_empty()) {
        details.retry_after_seconds = 1;
        status
            .message
            .push_str(", the server was not able to generate a unique name for the object");
    }
    Err(status)
}

async fn insert(inner: &Inner, ask: &Ask, tree: &Tree, mode: Mode) -> Result<Arc<Object>, Status> {
    let kind = &ask.kind;
    let name = metadata::text(tree, "name").to_owned();
    let mut causes = check::generate_name_faults(kind, tree);
    causes.extend(check::faults(kind, tree));
    causes.extend(strategy::faults(kind, Part::Main, tree, None));
    if !causes.is_empty() {
        return Err(Status::invalid(ask.kind.kind_named(&name), causes));
    }
    let key = ask.key_of(&name);
    let outcome = commit::commit(inner, kind, &key, mode, |current| match current {
        Some(current) => Err(exists(ask, &name, current)),
        None => Ok(Plan::Create(
            tree.clone(),
            check_namespace(inner, ask, &name)?,
        )),
    });
    match outcome.await? {
        Outcome::Stored(object) | Outcome::Removed(object) => Ok(object),
    }
}

fn exists(ask: &Ask, name: &str, current: &Object) -> Status {
    let mut status = Status::already_exists(ask.kind.resource_named(name));
    if metadata::is_deleting(&current.to_value()) {
        status.message.insert_str(0, "object is being deleted: ");
    }
    status
}

/// The namespace in the body must be the path's, or none.
pub(super) fn place(ask: &Ask, tree: &mut Tree) -> Result<(), Status> {
    if !ask.kind.namespaced {
        metadata::of(tree).remove("namespace");
        return Ok(());
    }
    let given = metadata::text(tree, "namespace");
    let expected = ask.namespace.as_deref().unwrap_or_default();
    if !given.is_empty() && given != expected {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    metadata::of(tree).insert("namespace".into(), expected.into());
    Ok(())
}

/// New objects need a namespace that exists and stays, until they are stored.
fn check_namespace(inner: &Inner, ask: &Ask, name: &str) -> Result<Option<Premise>, Status> {
    let Some(namespace) = ask.namespace.as_deref().filter(|_| ask.kind.namespaced) else {
        return Ok(None);
    };
    let kinds = inner.kinds();
    let namespaces: &Kind = kinds.get("", "v1", "namespaces").expect("a built-in kind");
    let Some(found) = inner
        .store
        .get(namespaces.resource, &Key::new(None, namespace))
    else {
        return Err(Status::not_found(Named {
            group: "",
            what: "namespaces",
            name: namespace,
        }));
    };
    if found.fields.get(0) != Some("Terminating") {
        return Ok(Some(Premise {
            resource: namespaces.resource,
            key: found.key.clone(),
            rev: found.rev,
        }));
    }
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let mut status = Status::forbidden(ask.kind.resource_named(name), &why);
    if let Some(details) = &mut status.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    Err(status)
}

/// Where repeated owners were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeated {
    InBody,
    /// In what a patch made of the object.
    AfterPatch,
}

/// What a client hears that names an owner twice.
pub(super) fn repeated_owners(found: Repeated, uids: &[String]) -> String {
    let found = match found {
        Repeated::InBody => "",
        Repeated::AfterPatch => " after mutating admission happens",
    };
    format!(
        ".metadata.ownerReferences contains duplicate entries{found}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        uids.join(", ")
    )
}
