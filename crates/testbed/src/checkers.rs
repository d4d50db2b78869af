//! Whether what happened was allowed to happen: rules over the server's own history, which nobody can lie about.
//!
//! A checker knows what the controllers cannot: every version of every object, and which request made it. The rules are
//! S1 to S4 of the fault catalogue, restated for the collector: owners, identity, orphans, finalizers; and S8, for Pod GC. They are pure; the
//! history is read from the server when everything is over.

mod history;
mod rules;

pub use history::{History, Known, Stored};
pub use rules::violations;
