//! DELETE of an object or of a collection.
//!
//! The strategy of the kind decides what a delete does ([`deletion`](crate::deletion) for most); this carries it out. The
//! server's own tasks delete objects by [`delete_object`], too.

use caretaker_machinery::status::Status;

use super::write::{WriteMode, WriteOutcome, WritePlan, WriteTarget};
use super::{ResourceRequest, VerbReply, read};
use crate::deletion::{DeleteDecision, DeleteOptions, ObjectDelete};
use crate::kinds::{DefaultPolicy, ServedKind};
use crate::metadata::{self, ObjectTree};
use crate::server::ServerState;
use crate::store::ObjectKey;
use crate::strategy::convert;

pub(super) async fn delete(
    server: &ServerState,
    request: &ResourceRequest,
) -> Result<VerbReply, Status> {
    let kind = &request.kind;
    let options = DeleteOptions::read(&request.content_type, &request.body, &request.query)?;
    let warnings = policy_warning(kind, &options).into_iter().collect();
    let outcome = delete_object(server, kind, &request.key(), &options).await?;
    Ok(match outcome {
        WriteOutcome::Stored(object) => VerbReply::Object {
            // Upstream answers 202 if the deprecated form of the policy leaves the object waiting.
            code: match options.orphan_dependents {
                Some(false) => 202,
                _ => 200,
            },
            object,
            warnings,
        },
        WriteOutcome::Removed(object) if kind.rules.returns_object => VerbReply::Object {
            code: 200,
            object,
            warnings,
        },
        WriteOutcome::Removed(object) => VerbReply::Status {
            status: Status::deleted(
                kind.resource_named(request.name()),
                metadata::text(&object.to_value(), "uid"),
            ),
            warnings,
        },
    })
}

/// Deletes every object of a list, one by one. Not atomic, as upstream.
pub(super) async fn delete_collection(
    server: &ServerState,
    request: &ResourceRequest,
) -> Result<VerbReply, Status> {
    let list_options = request.query.list_options()?;
    let options = DeleteOptions::read(&request.content_type, &request.body, &request.query)?;
    let (page, meta) = read::list_page(server, request, &list_options).await?;
    for object in &page.objects {
        match delete_object(server, &request.kind, &object.key, &options).await {
            // Another client deleted it after the list.
            Err(status) if status.is("NotFound") => {}
            result => {
                result?;
            }
        }
    }
    Ok(VerbReply::List { page, meta })
}

/// Deletes the object under `key`.
pub(crate) async fn delete_object(
    server: &ServerState,
    kind: &ServedKind,
    key: &ObjectKey,
    options: &DeleteOptions,
) -> Result<WriteOutcome, Status> {
    let now = server.clock.now();
    let target = WriteTarget {
        server,
        kind,
        key,
        mode: WriteMode::dry_run(options.dry_run),
    };
    let delete = target.commit(|current| {
        let current = current.ok_or_else(|| Status::not_found(kind.resource_named(key.name())))?;
        let object = convert::current(kind, current);
        // Checked at each attempt: another object may have taken this one's place.
        check_preconditions(kind, key.name(), &object, options)?;
        let delete = ObjectDelete {
            kind,
            object: &object,
            options,
            now,
        };
        Ok(match kind.strategy.decide_delete(&delete)? {
            DeleteDecision::Pending => WritePlan::Keep,
            DeleteDecision::Keep(changed) => WritePlan::Put(changed),
            DeleteDecision::Remove(last) => WritePlan::Remove(last),
        })
    });
    delete.await
}

pub(super) fn check_preconditions(
    kind: &ServedKind,
    name: &str,
    object: &ObjectTree,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let checks = [
        ("UID", &options.uid, "uid", "deleted and then recreated"),
        (
            "ResourceVersion",
            &options.revision,
            "resourceVersion",
            "modified",
        ),
    ];
    for (field, wanted, path, guess) in checks {
        let found = metadata::text(object, path);
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
            if kind.rules.storage_words {
                let why = failed_precondition((field, wanted, found));
                return Err(Status::conflict(kind.resource_named(name), &why));
            }
            let why = format!(
                "the {field} in the precondition ({wanted}) does not match the {field} in record ({found}). The object might have been {guess}"
            );
            return Err(Status::conflict(kind.kind_named(name), &why));
        }
    }
    Ok(())
}

/// Returns how the storage reports a precondition that does not hold: the field, the wanted and the found value.
fn failed_precondition((field, wanted, found): (&str, &str, &str)) -> String {
    format!(
        "Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
    )
}

/// Returns the same as an error of the storage, which names the key of the object; in dry runs without its root.
pub(super) fn storage_error(mode: WriteMode, key: &str, failed: (&str, &str, &str)) -> String {
    let failed = failed_precondition(failed);
    let root = match mode {
        WriteMode::Real => "/registry",
        WriteMode::DryRun => "",
    };
    format!(
        "StorageError: invalid object, Code: 4, Key: {root}/{key}, ResourceVersion: 0, AdditionalErrorMsg: {failed}"
    )
}

/// Warns about the delete of a Job without a policy, which orphans its Pods.
fn policy_warning(kind: &ServedKind, options: &DeleteOptions) -> Option<String> {
    let has_policy = options.policy.is_some() || options.orphan_dependents.is_some();
    let is_job = kind.group == "batch" && kind.rules.policy == DefaultPolicy::Orphan;
    (is_job && !has_policy).then(|| {
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"
            .to_owned()
    })
}
