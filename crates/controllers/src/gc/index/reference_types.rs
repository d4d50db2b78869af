//! The `apiVersion` and `kind` pairs that references use, each resolved once per catalog instead of once per reference.

use crate::runtime::kind::{KindCatalog, KindId};

use super::intern::{TextId, TextInterner};

/// The types of references, and the kind that each of them resolves to in the current catalog.
#[derive(Debug, Default)]
pub(crate) struct ReferenceTypes {
    texts: TextInterner,
    /// Indexed by the number of the text.
    resolved: Vec<Option<KindId>>,
}

/// Separates apiVersion and kind. No apiVersion or kind that resolves contains it.
const SEPARATOR: char = '\n';

// === impl ReferenceTypes ===

impl ReferenceTypes {
    /// Returns the number of a type and counts one more user.
    pub(crate) fn acquire(
        &mut self,
        catalog: &KindCatalog,
        api_version: &str,
        kind: &str,
    ) -> TextId {
        let id = self
            .texts
            .acquire(&format!("{api_version}{SEPARATOR}{kind}"));
        if self.resolved.len() <= id.index() {
            self.resolved.resize(id.index() + 1, None);
        }
        self.resolved[id.index()] = catalog.resolve(api_version, kind);
        id
    }

    pub(crate) fn release(&mut self, id: TextId) {
        self.texts.release(id);
    }

    /// The kind that the type resolves to, if it is served.
    pub(crate) fn kind(&self, id: TextId) -> Option<KindId> {
        self.resolved[id.index()]
    }

    /// apiVersion and kind as the reference has them.
    pub(crate) fn text(&self, id: TextId) -> (&str, &str) {
        let text = self.texts.text(id);
        text.split_once(SEPARATOR).unwrap_or((text, ""))
    }

    /// Resolves all types again, with a new catalog. Returns whether one of them now stands for another kind, or for a
    /// kind with another scope.
    pub(crate) fn resolve(&mut self, before: &KindCatalog, catalog: &KindCatalog) -> bool {
        let scope = |catalog: &KindCatalog, kind| catalog.get(kind).map(|kind| kind.scope);
        let mut has_changed = false;
        for place in 0..self.resolved.len() {
            let (api_version, kind) = {
                let text = self.texts.text_at(place);
                text.split_once(SEPARATOR).unwrap_or((text, ""))
            };
            let kind = catalog.resolve(api_version, kind);
            let known = std::mem::replace(&mut self.resolved[place], kind);
            has_changed |= known != kind
                || kind.is_some_and(|kind| scope(before, kind) != scope(catalog, kind));
        }
        has_changed
    }
}
