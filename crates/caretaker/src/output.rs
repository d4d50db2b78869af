//! What the program prints for people while it works.
//!
//! - [`narrate`]: what controllers did, a line for what belongs together.

pub(crate) mod narrate;
