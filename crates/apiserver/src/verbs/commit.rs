//! How a change gets into the store: prepared against what is there, proposed, and prepared again if somebody was faster.

use std::sync::Arc;

use caretaker_machinery::status::{Named, Status};

use crate::kinds::Kind;
use crate::metadata::Tree;
use crate::server::Inner;
use crate::store::{Draft, Key, Object, Premise, Proposal, Refused, Strings};
use crate::strategy;

/// How often a change is prepared again before the client has to. Forty clients patching one object at once all succeed.
const ATTEMPTS_MAX: usize = 256;

/// What a change wants to become of an object.
pub(crate) enum Plan {
    /// Leave it as it is.
    Keep,
    /// Write this.
    Put(Tree),
    /// Write this new object, as long as what it relies on is as it was judged.
    Create(Tree, Option<Premise>),
    /// Remove it; first write this last state, if there is one.
    Remove(Option<Tree>),
    /// Remove it because this change lets go of it. The answer shows the change under the revision it was made at.
    Finish(Tree),
}

/// What became of it.
pub(crate) enum Outcome {
    /// It is stored so, by this change or already before.
    Stored(Arc<Object>),
    /// It is gone; its last state.
    Removed(Arc<Object>),
}

/// Whether a change is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Yes.
    Real,
    /// Only tried: nothing is stored.
    DryRun,
}

// === impl Mode ===

impl Mode {
    pub(crate) fn dry_run(dry_run: bool) -> Self {
        if dry_run { Mode::DryRun } else { Mode::Real }
    }
}

/// Carries out what `plan` makes of the stored object, as often as it takes.
pub(crate) async fn commit(
    inner: &Inner,
    kind: &Kind,
    key: &Key,
    mode: Mode,
    mut plan: impl FnMut(Option<&Arc<Object>>) -> Result<Plan, Status>,
) -> Result<Outcome, Status> {
    for _ in 0..ATTEMPTS_MAX {
        let current = inner.store.get(kind.resource, key);
        let plan = plan(current.as_ref())?;
        match attempt(inner, kind, key, mode, current, plan).await {
            Ok(outcome) => {
                if mode == Mode::Real {
                    strategy::committed(inner, kind, key);
                }
                return Ok(outcome);
            }
            Err(Refused::Changed) => tokio::task::yield_now().await,
            Err(Refused::Journal(error)) => {
                return Err(Status::failure(500, "InternalError", error.to_string()));
            }
        }
    }
    let of = Named {
        group: &kind.group,
        what: &kind.plural,
        name: key.name(),
    };
    Err(Status::conflict(of, MODIFIED))
}

/// The end of the sentence with which a stale write is refused.
pub(crate) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

async fn attempt(
    inner: &Inner,
    kind: &Kind,
    key: &Key,
    mode: Mode,
    current: Option<Arc<Object>>,
    plan: Plan,
) -> Result<Outcome, Refused> {
    match (plan, current) {
        (Plan::Put(tree), current) => {
            let stored = put(inner, kind, key, mode, current, &tree, None).await?;
            Ok(Outcome::Stored(stored))
        }
        (Plan::Create(tree, premise), current) => {
            let stored = put(inner, kind, key, mode, current, &tree, premise).await?;
            Ok(Outcome::Stored(stored))
        }
        (Plan::Keep, Some(current)) => Ok(Outcome::Stored(current)),
        (Plan::Remove(last), Some(current)) => {
            let current = match last {
                Some(last) => put(inner, kind, key, mode, Some(current), &last, None).await?,
                None => current,
            };
            remove(inner, kind, mode, current)
                .await
                .map(Outcome::Removed)
        }
        (Plan::Finish(tree), Some(current)) => {
            let shown = draft(kind, key, &tree).commit(current.rev);
            remove(inner, kind, mode, current).await?;
            Ok(Outcome::Removed(Arc::new(shown)))
        }
        (_, None) => Err(Refused::Changed),
    }
}

async fn remove(
    inner: &Inner,
    kind: &Kind,
    mode: Mode,
    current: Arc<Object>,
) -> Result<Arc<Object>, Refused> {
    if mode == Mode::DryRun {
        return Ok(current);
    }
    let proposal = Proposal {
        resource: kind.resource,
        key: current.key.clone(),
        expected: Some(current.rev),
        new: None,
        premise: None,
    };
    inner.store.propose(proposal).await
}

/// Writes `tree` unless it says nothing new.
async fn put(
    inner: &Inner,
    kind: &Kind,
    key: &Key,
    mode: Mode,
    current: Option<Arc<Object>>,
    tree: &Tree,
    premise: Option<Premise>,
) -> Result<Arc<Object>, Refused> {
    let draft = draft(kind, key, tree);
    match current {
        Some(current) if current.same_as(&draft) => Ok(current),
        Some(current) if mode == Mode::DryRun => Ok(Arc::new(draft.commit(current.rev))),
        None if mode == Mode::DryRun => Ok(Arc::new(draft.unnumbered())),
        current => {
            let proposal = Proposal {
                resource: kind.resource,
                key: key.clone(),
                expected: current.map(|object| object.rev),
                new: Some(draft),
                premise,
            };
            inner.store.propose(proposal).await
        }
    }
}

/// Encodes a tree for the store.
pub(crate) fn draft(kind: &Kind, key: &Key, tree: &Tree) -> Draft {
    let fields: Vec<String> = kind
        .rules
        .fields
        .iter()
        .map(|field| field.read(tree))
        .collect();
    let fields: Strings = fields.iter().map(String::as_str).collect();
    let (schema, stored) = strategy::custom::to_stored(kind, tree);
    Draft::new(key.clone(), &stored, fields).under(schema)
}
