//! Selectors: which objects of a list or watch a caller wants.
//!
//! Both kinds arrive as text in the query and are parsed once per request. They follow kube-apiserver 1.36
//! (`labels/selector.go` and `fields/selector.go` of apimachinery), wording of faults included, because that is what
//! people see in the 400. Which fields a kind offers is data of the server, not decided here.
//!
//! DEVIATION(selector-length): text beyond [`SELECTOR_BYTES_MAX`] is refused; upstream is only bounded by the size of a URL.

mod field;
mod label;

pub use field::{FieldOp, FieldRequirement, FieldSelector};
pub use label::LabelSelector;

/// Longest selector in bytes. Far above what a client sends, low enough that parsing and matching stay cheap.
pub const SELECTOR_BYTES_MAX: usize = 64 * 1024;

/// Why a selector cannot be understood. A client sees it as 400 BadRequest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The text is longer than [`SELECTOR_BYTES_MAX`].
    #[error("selector of {0} bytes is too long, at most {SELECTOR_BYTES_MAX} bytes are accepted")]
    TooLong(usize),
    /// One requirement of a label selector is broken.
    #[error("unable to parse requirement: {0}")]
    Requirement(String),
    /// The text between requirements of a label selector is broken.
    #[error("{0}")]
    Label(String),
    /// A field selector is broken.
    #[error("{0}")]
    Field(String),
}

/// The fault of text that is too long to look at.
fn check_length(text: &str) -> Result<(), SelectorError> {
    if text.len() > SELECTOR_BYTES_MAX {
        return Err(SelectorError::TooLong(text.len()));
    }
    Ok(())
}
