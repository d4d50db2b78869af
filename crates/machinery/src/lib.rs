//! Rules of Kubernetes objects without I/O, shared by the server and the controllers.
//!
//! - [`clock`]: domain time as a value: the wall clock, or one that is started, sped up and moved by hand.
//! - [`cron`]: cron schedules, their slots and time zones.
//! - [`names`]: what names, label keys and label values may look like.
//! - [`patch`]: JSON patch, merge patch and strategic merge patch.
//! - [`proto`]: reads protocol buffers.
//! - [`quantity`]: amounts of resources and their canonical form.
//! - [`rng`]: randomness as a seeded value.
//! - [`schema`]: structural schemas of custom kinds: what is kept, filled in and refused.
//! - [`selector`]: label and field selectors.
//! - [`status`]: how the API says what went wrong.

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
