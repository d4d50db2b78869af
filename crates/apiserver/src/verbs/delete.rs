//! DELETE of one object: the options are read, [`deletion`](crate::deletion) decides, this carries it out.

use caretaker_machinery::status::Status;

use super::commit::{self, Mode, Outcome, Plan};
use super::{Ask, Reply};
use crate::deletion::{Decision, DeleteOptions};
use crate::kinds::{DefaultPolicy, Kind};
use crate::metadata::{self, Tree};
use crate::server::Inner;
use crate::store::Key;
use crate::strategy::{self, convert};

pub(super) async fn delete(inner: &Inner, ask: &Ask) -> Result<Reply, Status> {
    let options = DeleteOptions::read(&ask.content_type, &ask.body, &ask.query)?;
    let warnings = warnings(ask, &options);
    let reply = match delete_one(inner, &ask.kind, &ask.key(), &options).await? {
        Outcome::Stored(object) => Reply::Object {
            // Upstream's way of saying that the old form of the policy left the object waiting.
            code: if options.orphan_dependents == Some(false) {
                202
            } else {
                200
            },
            object,
            warnings,
        },
        Outcome::Removed(object) if ask.kind.rules.returns_object => Reply::Object {
            code: 200,
            object,
            warnings,
        },
        Outcome::Removed(object) => Reply::Done {
            status: Status::deleted(
                ask.kind.resource_named(ask.name()),
                metadata::text(&object.to_value(), "uid"),
            ),
            warnings,
        },
    };
    Ok(reply)
}

/// Deletes the object under `key`.
pub(crate) async fn delete_one(
    inner: &Inner,
    kind: &Kind,
    key: &Key,
    options: &DeleteOptions,
) -> Result<Outcome, Status> {
    let now = inner.clock.now();
    let mode = Mode::dry_run(options.dry_run);
    commit::commit(inner, kind, key, mode, |current| {
        let current = current.ok_or_else(|| Status::not_found(kind.resource_named(key.name())))?;
        let object = convert::current(kind, current);
        // Also when the delete is prepared again: what took the object's place is not what was meant.
        check_preconditions(kind, key.name(), &object, options)?;
        Ok(
            match strategy::decide_delete(kind, &object, options, now)? {
                Decision::Pending => Plan::Keep,
                Decision::Keep(changed) => Plan::Put(changed),
                Decision::Remove(last) => Plan::Remove(last),
            },
        )
    })
    .await
}

fn check_preconditions(
    kind: &Kind,
    name: &str,
    object: &Tree,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let checks = [
        ("UID", &options.uid, metadata::text(object, "uid")),
        (
            "ResourceVersion",
            &options.revision,
            metadata::text(object, "resourceVersion"),
        ),
    ];
    for (what, wanted, found) in checks {
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
            return Err(strategy::precondition_failed(
                kind, name, what, wanted, found,
            ));
        }
    }
    Ok(())
}

/// Deleting a Job without a policy surprises people: its Pods stay.
fn warnings(ask: &Ask, options: &DeleteOptions) -> Vec<String> {
    let silent = options.policy.is_none() && options.orphan_dependents.is_none();
    let is_job = ask.kind.group == "batch" && ask.kind.rules.policy == DefaultPolicy::Orphan;
    if silent && is_job {
        vec![
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"
                .into(),
        ]
    } else {
        Vec::new()
    }
}
