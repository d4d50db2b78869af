//! The safety rules, checked on the server's own history, which controllers cannot forge.
//!
//! A checker knows what the controllers cannot: every version of every object, and which request made it. The rules are
//! S1 to S8 of `docs/safety.md`; a violation begins with the code of its rule. They are pure functions; the history is
//! read from the server at the end of a run.

mod history;
mod rules;

pub use history::{KnownKind, ObjectHistory, StoredObject};
pub use rules::violations;
