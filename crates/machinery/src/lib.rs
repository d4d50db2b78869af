//! Pure rules about Kubernetes objects, shared by the API server and the controllers. No I/O.
//!
//! - [`clock`]: time as a value: the wall clock, or a clock that a test or demo starts, speeds up and moves.
//! - [`cron`]: cron schedules, their schedule times and time zones.
//! - [`names`]: validation of names, label keys and label values.
//! - [`patch`]: JSON patch, merge patch and strategic merge patch.
//! - [`proto`]: protocol buffers: readers, and objects as messages and back.
//! - [`quantity`]: resource quantities and their canonical form.
//! - [`rng`]: randomness as a seeded value.
//! - [`schema`]: structural schemas of custom resources: pruning, defaulting and validation.
//! - [`selector`]: label and field selectors.
//! - [`status`]: the `Status` object that reports API errors.
//! - [`types`]: the fields of built-in kinds in JSON and in protobuf.

pub mod clock;
pub mod cron;
pub mod names;
pub mod patch;
pub mod proto;
pub mod quantity;
pub mod rng;
pub mod schema;
pub mod selector;
pub mod status;
pub mod types;
