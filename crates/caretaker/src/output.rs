//! What the program prints for people while it works.
//!
//! - [`narrate`]: what controllers did, a line for what belongs together.
//! - [`told`]: what the narrator is told of a record of evidence.

pub(crate) mod narrate;
pub(crate) mod told;
