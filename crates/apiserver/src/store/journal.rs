//! Where writes are kept before anyone sees them.
//!
//! The store hands over what it is about to publish; only when `append` has returned is it published. An error is final
//! for that write and the store stays as it was.

use std::fmt;

use super::{Event, ResourceId};

/// One write, numbered and ready to be kept.
#[expect(
    dead_code,
    reason = "the memory journal keeps nothing; a durable one reads every field"
)]
pub(crate) struct Write<'a> {
    pub(crate) resource: ResourceId,
    pub(crate) event: &'a Event,
}

/// Keeps writes.
pub(crate) trait Journal: Send {
    /// Returns when `writes` survive whatever this journal promises to survive.
    fn append(&mut self, writes: &[Write<'_>]) -> Result<(), JournalError>;
}

/// Why a write could not be kept.
#[derive(Debug)]
pub(crate) struct JournalError(String);

/// Keeps nothing: the process is all there is.
pub(crate) struct Memory;

impl Journal for Memory {
    fn append(&mut self, _writes: &[Write<'_>]) -> Result<(), JournalError> {
        Ok(())
    }
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
