//! PUT: an object as it shall be from now on; and the rules every changed object goes through, however it was changed.

use caretaker_machinery::status::{Cause, Status};

use super::commit::{self, MODIFIED, Mode, Outcome, Plan};
use super::create::{Origin, Repeated};
use super::decode::Decoded;
use super::list::parse_revision;
use super::{Ask, Reply, create, decode};
use crate::deletion::dry_run_of;
use crate::metadata::{self, Tree, check};
use crate::server::Inner;
use crate::strategy::{self, Part, convert};

pub(super) async fn update(inner: &Inner, ask: &Ask) -> Result<Reply, Status> {
    let mode = Mode::dry_run(dry_run_of(&ask.query, "UpdateOptions")?);
    strategy::check_options(&ask.query, "UpdateOptions")?;
    put(inner, ask, Part::Main, mode).await
}

/// Replaces one part of an object by what the body says of it.
pub(super) async fn put(inner: &Inner, ask: &Ask, part: Part, mode: Mode) -> Result<Reply, Status> {
    let Decoded { tree, warnings } = decode::object(&inner.kinds(), ask)?;
    let reply = replace(inner, ask, named(ask, tree)?, part, mode).await?;
    Ok(reply.warned(warnings))
}

async fn replace(
    inner: &Inner,
    ask: &Ask,
    mut tree: Tree,
    part: Part,
    mode: Mode,
) -> Result<Reply, Status> {
    create::place(ask, &mut tree)?;
    let missing = inner.store.get(ask.kind.resource, &ask.key()).is_none();
    if missing && ask.kind.rules.upsert && part == Part::Main {
        let uid = metadata::text(&tree, "uid");
        if !uid.is_empty() {
            return Err(wrong_uid(ask, uid, ""));
        }
        let (object, warnings) = create::create_tree(inner, ask, tree, mode, Origin::Put).await?;
        return Ok(Reply::Object {
            code: 201,
            object,
            warnings,
        });
    }
    let mut warnings = strategy::warnings(&ask.kind, &tree);
    let key = ask.key();
    let outcome = commit::commit(inner, &ask.kind, &key, mode, |current| {
        let current = current.ok_or_else(|| ask.not_found())?;
        let old = convert::current(&ask.kind, current);
        check_identity(ask, &old, &tree)?;
        check_version(ask, &old, &tree)?;
        change(
            inner,
            ask,
            &old,
            tree.clone(),
            part,
            Repeated::InBody,
            &mut warnings,
        )
    });
    Ok(reply(outcome.await?, warnings))
}

/// What becomes of an object that is about to look like `new`. The one way every change goes: PUT, PATCH, any part.
pub(super) fn change(
    inner: &Inner,
    ask: &Ask,
    old: &Tree,
    mut new: Tree,
    part: Part,
    repeated: Repeated,
    warnings: &mut Vec<String>,
) -> Result<Plan, Status> {
    let kind = &ask.kind;
    metadata::carry_over(old, &mut new);
    strategy::prepare_update(kind, part, old, &mut new, &inner.kinds(), inner.clock.now());
    if let Some(uids) = metadata::dedupe_owners(&mut new) {
        let warning = create::repeated_owners(repeated, &uids);
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    for warning in strategy::change_warnings(kind, Some(old), &new) {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    let mut causes = check::update_faults(old, &new);
    causes.extend(check::faults(kind, &new));
    causes.extend(strategy::faults(kind, part, &new, Some(old)));
    if !causes.is_empty() {
        return Err(Status::invalid(ask.kind.kind_named(ask.name()), causes));
    }
    if strategy::is_finished(kind, &new) {
        return Ok(Plan::Finish(new));
    }
    Ok(Plan::Put(new))
}

/// The answer to a change.
pub(super) fn reply(outcome: Outcome, warnings: Vec<String>) -> Reply {
    let object = match outcome {
        Outcome::Stored(object) | Outcome::Removed(object) => object,
    };
    Reply::Object {
        code: 200,
        object,
        warnings,
    }
}

/// The name in the body must be the path's.
pub(super) fn named(ask: &Ask, tree: Tree) -> Result<Tree, Status> {
    let (given, expected) = (metadata::text(&tree, "name"), ask.name());
    if given.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({expected} based on URL) was undeterminable: name must be provided"
        )));
    }
    if given != expected {
        return Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({expected})"
        )));
    }
    Ok(tree)
}

fn check_identity(ask: &Ask, old: &Tree, new: &Tree) -> Result<(), Status> {
    let (given, found) = (metadata::text(new, "uid"), metadata::text(old, "uid"));
    if given.is_empty() || given == found {
        return Ok(());
    }
    Err(wrong_uid(ask, given, found))
}

fn wrong_uid(ask: &Ask, given: &str, found: &str) -> Status {
    let kind = &ask.kind;
    let group = if kind.custom.is_some() {
        format!("{}/", kind.group)
    } else {
        String::new()
    };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, UID in object meta: {found}",
        kind.plural,
        ask.key().as_str(),
    );
    Status::conflict(ask.kind.resource_named(ask.name()), &why)
}

/// A write that names a revision is meant for that revision only.
pub(super) fn check_version(ask: &Ask, old: &Tree, new: &Tree) -> Result<(), Status> {
    let given = metadata::text(new, "resourceVersion");
    if given.is_empty() || given == "0" {
        let needed = ask.kind.rules.versioned || ask.kind.custom.is_some();
        if needed {
            let cause = Cause::invalid(
                "metadata.resourceVersion",
                0,
                "must be specified for an update",
            );
            return Err(Status::invalid(
                ask.kind.resource_named(ask.name()),
                vec![cause],
            ));
        }
        return Ok(());
    }
    let asked = parse_revision(given).map_err(|status| {
        // Upstream did not think of this case: no reason, and only the end of the sentence.
        let at = status.message.find("strconv").unwrap_or(0);
        Status::unexplained(&status.message[at..])
    })?;
    // Compared as numbers: leading zeros mean nothing.
    let found = parse_revision(metadata::text(old, "resourceVersion"));
    if asked.0 > 0 && !found.is_ok_and(|found| found == asked) {
        return Err(Status::conflict(
            ask.kind.resource_named(ask.name()),
            MODIFIED,
        ));
    }
    Ok(())
}
