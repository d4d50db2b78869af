//! Texts that many nodes and edges share, kept once and counted: namespaces, and the types of references.
//!
//! A text nobody uses any more is forgotten, so that churn leaves nothing behind.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A text's place. Reused after its last user gave it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TextId(u32);

/// Texts by number and numbers by text.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    texts: Vec<(Arc<str>, u32)>,
    ids: BTreeMap<Arc<str>, TextId>,
    free: Vec<TextId>,
}

// === impl Interner ===

impl Interner {
    /// The number of a text, with one more user.
    pub(crate) fn take(&mut self, text: &str) -> TextId {
        if let Some(id) = self.ids.get(text) {
            self.texts[id.index()].1 += 1;
            return *id;
        }
        let entry = (Arc::<str>::from(text), 1);
        let shared = entry.0.clone();
        let id = match self.free.pop() {
            Some(id) => {
                self.texts[id.index()] = entry;
                id
            }
            None => {
                self.texts.push(entry);
                let place = self.texts.len() - 1;
                TextId(u32::try_from(place).expect("fewer texts than objects"))
            }
        };
        self.ids.insert(shared, id);
        id
    }

    /// One user less.
    pub(crate) fn give_back(&mut self, id: TextId) {
        let (text, users) = &mut self.texts[id.index()];
        *users -= 1;
        if *users == 0 {
            self.ids.remove(text);
            *text = "".into();
            self.free.push(id);
        }
    }

    /// The text of a number.
    pub(crate) fn text(&self, id: TextId) -> &str {
        &self.texts[id.index()].0
    }

    /// The text at a place; empty if nobody uses it.
    pub(crate) fn text_at(&self, place: usize) -> &str {
        &self.texts[place].0
    }

    /// The number of a text that somebody uses.
    #[cfg(test)]
    pub(crate) fn find(&self, text: &str) -> Option<TextId> {
        self.ids.get(text).copied()
    }
}

// === impl TextId ===

impl TextId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_lives_as_long_as_it_is_used() {
        let mut interner = Interner::default();
        let shop = interner.take("shop");
        assert_eq!(interner.take("shop"), shop);
        let lab = interner.take("lab");
        interner.give_back(shop);
        assert_eq!(interner.text(shop), "shop");
        interner.give_back(shop);
        assert_eq!(interner.find("shop"), None);
        assert_eq!(interner.take("new"), shop, "the place is used again");
        assert_eq!(interner.text(lab), "lab");
    }
}
