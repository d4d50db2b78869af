//! The `apiVersion` and `kind` pairs that references use, each resolved once per catalog instead of once per reference.

use crate::runtime::kind::{KindCatalog, KindId};

use super::intern::{Interner, TextId};

/// Types of references, and what they stand for in the current catalog.
#[derive(Debug, Default)]
pub(crate) struct Types {
    texts: Interner,
    /// By the text's place.
    resolved: Vec<Option<KindId>>,
}

/// What separates the two parts: no apiVersion or kind that resolves contains it.
const SEPARATOR: char = '\n';

// === impl Types ===

impl Types {
    /// The number of a type, with one more user.
    pub(crate) fn take(&mut self, catalog: &KindCatalog, api_version: &str, kind: &str) -> TextId {
        let id = self.texts.take(&format!("{api_version}{SEPARATOR}{kind}"));
        if self.resolved.len() <= id.index() {
            self.resolved.resize(id.index() + 1, None);
        }
        self.resolved[id.index()] = catalog.resolve(api_version, kind);
        id
    }

    /// One user less.
    pub(crate) fn give_back(&mut self, id: TextId) {
        self.texts.give_back(id);
    }

    /// The kind it stands for, if it is served.
    pub(crate) fn kind(&self, id: TextId) -> Option<KindId> {
        self.resolved[id.index()]
    }

    /// apiVersion and kind, as written.
    pub(crate) fn text(&self, id: TextId) -> (&str, &str) {
        let text = self.texts.text(id);
        text.split_once(SEPARATOR).unwrap_or((text, ""))
    }

    /// Looks all of them up again.
    pub(crate) fn resolve(&mut self, catalog: &KindCatalog) {
        for place in 0..self.resolved.len() {
            let (api_version, kind) = {
                let text = self.texts.text_at(place);
                text.split_once(SEPARATOR).unwrap_or((text, ""))
            };
            let kind = catalog.resolve(api_version, kind);
            self.resolved[place] = kind;
        }
    }
}
