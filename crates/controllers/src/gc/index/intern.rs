//! Reference-counted texts that many nodes and edges share: namespaces, and the types of references.
//!
//! A text is removed with its last user, so churn does not grow the table.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of a text. It is reused after the last user has released it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TextId(u32);

/// Texts by number and numbers by text.
#[derive(Debug, Default)]
pub(crate) struct TextInterner {
    texts: Vec<(Arc<str>, u32)>,
    ids: BTreeMap<Arc<str>, TextId>,
    free: Vec<TextId>,
}

// === impl TextInterner ===

impl TextInterner {
    /// Returns the number of a text and counts one more user.
    pub(crate) fn acquire(&mut self, text: &str) -> TextId {
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

    /// Counts one user less and removes the text with its last user.
    pub(crate) fn release(&mut self, id: TextId) {
        let (text, users) = &mut self.texts[id.index()];
        *users -= 1;
        if *users == 0 {
            self.ids.remove(text);
            *text = "".into();
            self.free.push(id);
        }
    }

    pub(crate) fn text(&self, id: TextId) -> &str {
        &self.texts[id.index()].0
    }

    /// The text at an index of the table; empty if the slot is free.
    pub(crate) fn text_at(&self, place: usize) -> &str {
        &self.texts[place].0
    }

    /// The number of a text that is in use.
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
    fn keeps_a_text_until_its_last_release() {
        let mut interner = TextInterner::default();
        let shop = interner.acquire("shop");
        assert_eq!(interner.acquire("shop"), shop);
        let lab = interner.acquire("lab");
        interner.release(shop);
        assert_eq!(interner.text(shop), "shop");
        interner.release(shop);
        assert_eq!(interner.find("shop"), None);
        assert_eq!(interner.acquire("new"), shop, "the place is used again");
        assert_eq!(interner.text(lab), "lab");
    }
}
