//! The write pipeline that all verbs share: from a decoded object to the stored one.
//!
//! Its steps are: decode ([`decode`](super::decode)), name and namespace, resourceVersion, prepare, validate, commit,
//! reply. A verb makes a [`WriteRequest`] and adds the steps that only it has; a new object goes through
//! [`insert`](WriteRequest::insert) in [`create`](super::create). A commit is optimistic: the change is planned against the stored object, and planned
//! again if another write came first.

use std::sync::Arc;

use caretaker_machinery::status::{Status, StatusCause};

use super::decode::{DecodedBody, set_namespace};
use super::read::parse_revision;
use super::{ResourceRequest, VerbReply};
use crate::allocation::Allotment;
use crate::checks;
use crate::kinds::ServedKind;
use crate::metadata::{self, ObjectTree, check};
use crate::server::ServerState;
use crate::store::{
    ObjectDraft, ObjectKey, PackedStrings, StaleProposal, StoredObject, WritePremise, WriteProposal,
};
use crate::strategy::{self, ObjectAdmission, ObjectChange, ObjectPart, WriteContext, convert};

/// Most attempts at a commit before the client gets a conflict. Forty clients that patch one object at once all succeed.
const ATTEMPTS_MAX: usize = 256;

/// The end of the message of a conflict with another write.
const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// A request to write one object, on its way through the pipeline.
pub(super) struct WriteRequest<'a> {
    pub(super) server: &'a ServerState,
    pub(super) request: &'a ResourceRequest,
    pub(super) part: ObjectPart,
    pub(super) mode: WriteMode,
    /// What the last attempt at an update took for the object.
    allotment: Option<Allotment<'a>>,
    /// Warnings for the client; each attempt at an update sets them anew.
    pub(super) warnings: Vec<String>,
}

/// Whether a change is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteMode {
    Real,
    DryRun,
}

/// The stored object that a change is about.
pub(crate) struct WriteTarget<'a> {
    pub(crate) server: &'a ServerState,
    pub(crate) kind: &'a ServedKind,
    pub(crate) key: &'a ObjectKey,
    pub(crate) mode: WriteMode,
}

/// What a change does to the stored object.
pub(crate) enum WritePlan {
    /// Leaves it as it is.
    Keep,
    Put(ObjectTree),
    /// Writes a new object, as long as the object that it relies on has not changed.
    Create(Arc<ObjectTree>, Option<WritePremise>),
    /// Removes it; first writes this last state, if there is one.
    Remove(Option<ObjectTree>),
    /// Removes it because this change removes its last finalizer. The reply shows the change under the revision that it was
    /// made at.
    Finish(ObjectTree),
}

/// The object after a change.
pub(crate) enum WriteOutcome {
    /// It is stored, by this change or already before.
    Stored(Arc<StoredObject>),
    /// It is removed; this is its last state.
    Removed(Arc<StoredObject>),
}

/// The place of duplicate owner references, which the warning names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnerSource {
    Body,
    PatchedObject,
}

// === impl WriteRequest ===

impl<'a> WriteRequest<'a> {
    /// Reads the options of the write; `options` is their kind, which errors name.
    pub(super) fn new(
        server: &'a ServerState,
        request: &'a ResourceRequest,
        part: ObjectPart,
        options: &str,
    ) -> Result<Self, Status> {
        Ok(Self {
            server,
            request,
            part,
            mode: WriteMode::dry_run(request.query.write_options(options)?.dry_run),
            allotment: None,
            warnings: Vec::new(),
        })
    }

    /// Checks that name and namespace in the object are those of the path, and sets the namespace if it is absent.
    pub(super) fn match_path(&self, tree: &mut ObjectTree) -> Result<(), Status> {
        set_namespace(self.request, tree)?;
        let (given, expected) = (metadata::text(tree, "name"), self.request.name());
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
        Ok(())
    }

    /// Updates the stored object. `plan` gets the stored tree, and runs again at each attempt.
    pub(super) async fn update(
        mut self,
        mut plan: impl FnMut(&mut Self, &ObjectTree) -> Result<WritePlan, Status>,
    ) -> Result<VerbReply, Status> {
        let (request, key) = (self.request, self.request.key());
        let target = WriteTarget {
            server: self.server,
            kind: &request.kind,
            key: &key,
            mode: self.mode,
        };
        let outcome = target.commit(|current| {
            let current = current.ok_or_else(|| request.not_found())?;
            plan(&mut self, &convert::current(&request.kind, current))
        });
        let object = outcome.await?.into_object();
        if let Some(allotment) = self.allotment.take() {
            allotment.commit();
        }
        Ok(self.reply(200, object))
    }

    /// Plans the replacement of `old` by a decoded object. Every change of a stored object goes through here.
    pub(super) fn plan_update(
        &mut self,
        old: &ObjectTree,
        decoded: DecodedBody,
        owners: OwnerSource,
    ) -> Result<WritePlan, Status> {
        let kind = &self.request.kind;
        let DecodedBody {
            tree: mut new,
            warnings,
        } = decoded;
        self.check_version(old, &new)?;
        self.warnings = warnings;
        metadata::carry_over(old, &mut new);
        let (kinds, now) = (&*self.server.kinds(), self.server.clock.now());
        let context = WriteContext {
            kinds,
            now,
            user: Some(&self.request.identity),
        };
        strategy::prepare_update(kind, self.part, old, &mut new, context);
        if self.part == ObjectPart::Main {
            // What an earlier attempt took is given back first.
            self.allotment = None;
            self.allotment = self.admit(&mut new, Some(old))?;
        }
        self.warn_about_changes(Some(old), &mut new, owners);
        self.validate(&new, Some(old))?;
        Ok(WritePlan::update(kind, new))
    }

    /// Completes an object that is about to be written by what the server knows. The caller commits the allotment after
    /// the write.
    pub(super) fn admit(
        &self,
        new: &mut ObjectTree,
        old: Option<&ObjectTree>,
    ) -> Result<Option<Allotment<'a>>, Status> {
        let kind = &self.request.kind;
        let write = ObjectAdmission {
            server: self.server,
            kind,
            mode: self.mode,
            old,
        };
        kind.strategy.admit(&write, new)
    }

    /// Collects the warnings about a change, in the order of upstream, and drops repeated owner references.
    pub(super) fn warn_about_changes(
        &mut self,
        old: Option<&ObjectTree>,
        new: &mut ObjectTree,
        owners: OwnerSource,
    ) {
        let kind = &self.request.kind;
        let repeated = metadata::dedupe_owners(new).map(|uids| owners.warning(&uids));
        let workloads = self.server.workloads();
        let general = strategy::general_warnings(kind, workloads, old, new);
        let special = kind.strategy.warnings(old, new);
        for warning in repeated.into_iter().chain(general).chain(special) {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }

    pub(super) fn validate(
        &self,
        new: &ObjectTree,
        old: Option<&ObjectTree>,
    ) -> Result<(), Status> {
        let kind = &self.request.kind;
        let mut causes = old.map_or_else(Vec::new, |old| check::update_faults(old, new));
        causes.extend(check::generate_name_faults(kind, new));
        causes.extend(check::faults(kind, new));
        let change = ObjectChange {
            kind,
            part: self.part,
            new,
            old,
        };
        causes.extend(checks::faults(&change));
        causes.extend(kind.strategy.validate(&change));
        if causes.is_empty() {
            return Ok(());
        }
        let name = match old {
            Some(_) => self.request.name(),
            None => metadata::text(new, "name"),
        };
        Err(Status::invalid(kind.kind_named(name), causes))
    }

    /// A write that names a revision is refused if the stored object has another one.
    fn check_version(&self, old: &ObjectTree, new: &ObjectTree) -> Result<(), Status> {
        let kind = &self.request.kind;
        let named = kind.resource_named(self.request.name());
        let given = metadata::text(new, "resourceVersion");
        if given.is_empty() || given == "0" {
            if !kind.rules.versioned && kind.custom.is_none() {
                return Ok(());
            }
            let why = "must be specified for an update";
            let cause = StatusCause::invalid("metadata.resourceVersion", 0, why);
            return Err(Status::invalid(named, vec![cause]));
        }
        let wanted = parse_revision(given).map_err(|status| {
            // Upstream gives no reason here, and only the end of the message.
            let at = status.message.find("strconv").unwrap_or(0);
            Status::unexplained(&status.message[at..])
        })?;
        // Compared as numbers, because leading zeros do not count.
        let found = parse_revision(metadata::text(old, "resourceVersion"));
        if wanted.0 > 0 && !found.is_ok_and(|found| found == wanted) {
            return Err(Status::conflict(named, MODIFIED));
        }
        Ok(())
    }

    pub(super) fn reply(self, code: u16, object: Arc<StoredObject>) -> VerbReply {
        VerbReply::Object {
            code,
            object,
            warnings: self.warnings,
        }
    }
}

// === impl WriteTarget ===

impl WriteTarget<'_> {
    /// Plans a change of the stored object and carries it out. Plans again if another write came first.
    pub(crate) async fn commit(
        &self,
        mut plan: impl FnMut(Option<&Arc<StoredObject>>) -> Result<WritePlan, Status>,
    ) -> Result<WriteOutcome, Status> {
        for _ in 0..ATTEMPTS_MAX {
            let current = self.server.store.get(self.kind.resource, self.key);
            let plan = plan(current.as_ref())?;
            match self.carry_out(plan, current) {
                Ok(outcome) => {
                    if self.mode == WriteMode::Real {
                        let strategy = self.kind.strategy;
                        strategy.after_commit(self.server, self.kind, self.key);
                    }
                    return Ok(outcome);
                }
                Err(StaleProposal) => tokio::task::yield_now().await,
            }
        }
        let named = self.kind.resource_named(self.key.name());
        Err(Status::conflict(named, MODIFIED))
    }

    fn carry_out(
        &self,
        plan: WritePlan,
        current: Option<Arc<StoredObject>>,
    ) -> Result<WriteOutcome, StaleProposal> {
        use WriteOutcome::{Removed, Stored};
        match (plan, current) {
            (WritePlan::Put(tree), current) => self.put(&tree, current, None).map(Stored),
            (WritePlan::Create(tree, premise), current) => {
                self.put(&tree, current, premise).map(Stored)
            }
            (WritePlan::Keep, Some(current)) => Ok(Stored(current)),
            (WritePlan::Remove(last), Some(current)) => {
                let current = match last {
                    Some(last) => self.put(&last, Some(current), None)?,
                    None => current,
                };
                self.remove(current).map(Removed)
            }
            (WritePlan::Finish(tree), Some(current)) => {
                let shown = encode(self.kind, self.key, &tree).commit(current.rev);
                self.remove(current)?;
                Ok(Removed(Arc::new(shown)))
            }
            (_, None) => Err(StaleProposal),
        }
    }

    /// Writes `tree` unless it equals the stored object.
    fn put(
        &self,
        tree: &ObjectTree,
        current: Option<Arc<StoredObject>>,
        premise: Option<WritePremise>,
    ) -> Result<Arc<StoredObject>, StaleProposal> {
        let draft = encode(self.kind, self.key, tree);
        match current {
            Some(current) if current.same_as(&draft) => Ok(current),
            Some(current) if self.mode == WriteMode::DryRun => {
                Ok(Arc::new(draft.commit(current.rev)))
            }
            None if self.mode == WriteMode::DryRun => Ok(Arc::new(draft.unnumbered())),
            current => self.server.store.write(WriteProposal {
                resource: self.kind.resource,
                key: self.key.clone(),
                expected: current.map(|object| object.rev),
                new: Some(draft),
                premise,
            }),
        }
    }

    fn remove(&self, current: Arc<StoredObject>) -> Result<Arc<StoredObject>, StaleProposal> {
        if self.mode == WriteMode::DryRun {
            return Ok(current);
        }
        let removed = self.server.store.write(WriteProposal {
            resource: self.kind.resource,
            key: current.key.clone(),
            expected: Some(current.rev),
            new: None,
            premise: None,
        })?;
        self.kind.strategy.removed(self.server, &removed);
        Ok(removed)
    }
}

// === impl WritePlan ===

impl WritePlan {
    /// Writes a changed object, or removes it if the change ends its deletion.
    pub(crate) fn update(kind: &ServedKind, tree: ObjectTree) -> Self {
        if strategy::is_finished(kind, &tree) {
            WritePlan::Finish(tree)
        } else {
            WritePlan::Put(tree)
        }
    }
}

// === impl WriteMode ===

impl WriteMode {
    pub(super) fn dry_run(dry_run: bool) -> Self {
        if dry_run {
            WriteMode::DryRun
        } else {
            WriteMode::Real
        }
    }
}

// === impl WriteOutcome ===

impl WriteOutcome {
    pub(super) fn into_object(self) -> Arc<StoredObject> {
        match self {
            WriteOutcome::Stored(object) | WriteOutcome::Removed(object) => object,
        }
    }
}

// === impl OwnerSource ===

impl OwnerSource {
    fn warning(self, uids: &[String]) -> String {
        let found = match self {
            OwnerSource::Body => "",
            OwnerSource::PatchedObject => " after mutating admission happens",
        };
        format!(
            ".metadata.ownerReferences contains duplicate entries{found}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            uids.join(", ")
        )
    }
}

/// Encodes a tree for the store.
pub(crate) fn encode(kind: &ServedKind, key: &ObjectKey, tree: &ObjectTree) -> ObjectDraft {
    let fields = kind.rules.fields.iter();
    let fields: Vec<String> = fields.map(|field| field.read(tree)).collect();
    let fields: PackedStrings = fields.iter().map(String::as_str).collect();
    let (schema, stored) = strategy::custom::to_stored(kind, tree);
    ObjectDraft::new(key.clone(), &stored, fields).under(schema)
}
