//! Protocol buffers: a reader of fields, and Kubernetes objects as messages.
//!
//! [`ProtoFields`] is for callers that know the meaning of the few fields they read. [`decode`] and [`encode`] convert
//! whole objects from and to JSON by a [`TypeTable`](crate::types::TypeTable). [`ProtoEnvelope`] is the wrapper that
//! Kubernetes puts around an object, and [`watch_frame`] makes the events of a watch.

mod decode;
mod encode;
mod envelope;
mod fields;
#[cfg(test)]
mod tests;
mod wire;

pub use decode::{DEPTH_MAX, VALUES_MAX, decode};
pub use encode::encode;
pub use envelope::{MAGIC, ProtoEnvelope, push_message, watch_frame};
pub use fields::{MalformedProto, ProtoFields, ProtoValue};
pub use wire::ProtoError;
