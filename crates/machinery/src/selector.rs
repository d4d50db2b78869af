//! Label and field selectors of list and watch requests, and label selectors in objects.
//!
//! The API server parses them once per request. They follow kube-apiserver 1.36 (`labels/selector.go` and
//! `fields/selector.go` of apimachinery), including the error messages, which users see in the 400. The API server has the
//! table of the fields that each kind offers.
//!
//! DEVIATION(selector-length): selectors longer than [`SELECTOR_BYTES_MAX`] are refused; upstream is bounded only by the size
//! of a URL.

mod field;
mod label;

pub use field::{FieldOp, FieldRequirement, FieldSelector};
pub use label::LabelSelector;

/// Longest selector in bytes: far longer than clients send, short enough that parsing and matching stay cheap.
pub const SELECTOR_BYTES_MAX: usize = 64 * 1024;

/// A selector cannot be parsed. The client receives it as 400 BadRequest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The text is longer than [`SELECTOR_BYTES_MAX`].
    #[error("selector of {0} bytes is too long, at most {SELECTOR_BYTES_MAX} bytes are accepted")]
    TooLong(usize),
    /// One requirement of a label selector is malformed.
    #[error("unable to parse requirement: {0}")]
    Requirement(String),
    /// The text between two requirements of a label selector is malformed.
    #[error("{0}")]
    Label(String),
    /// A field selector is malformed.
    #[error("{0}")]
    Field(String),
}

/// Refuses a text that is too long to parse.
fn check_length(text: &str) -> Result<(), SelectorError> {
    if text.len() > SELECTOR_BYTES_MAX {
        return Err(SelectorError::TooLong(text.len()));
    }
    Ok(())
}
