//! Rules of Kubernetes objects without I/O, shared by the server and the controllers.
//!
//! - [`clock`]: domain time as a value: the wall clock, or one that is started, sped up and moved by hand.
//! - [`rng`]: randomness as a seeded value.

pub mod clock;
pub mod rng;
