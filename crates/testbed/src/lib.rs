//! Suites, checkers and load drivers; never a dependency of the product.
//!
//! - [`target`]: the server under test and how to reach it.
//! - [`session`]: one scenario's conversation with it, written down exchange by exchange.
//! - [`watching`]: watches of a conversation.
//! - [`objects`]: the resources and objects scenarios work with.
//! - [`normalise`]: makes two servers' transcripts comparable.
//! - [`transcript`]: how transcripts are kept as files.
//! - [`compare`]: what differs between two transcripts, and which differences are allowed.
//! - [`suites`]: the scenarios, as tables.
//! - [`collector`]: the garbage collector a suite is played with.
//! - [`wire`]: what stands between a client and the server, writes down what passes and can do harm.
//! - [`checkers`]: whether what happened was allowed to happen, from the server's own history.
//! - [`crash`]: controllers that die at every request.
//! - [`chaos`]: controllers that are lied to, at random.
//! - [`schemas`]: random schemas and objects for two servers.
//! - [`script`]: random scripts for a collector, and what must come of them.
//! - [`load`]: many requests, and what a client sees of them.

pub mod chaos;
pub mod checkers;
pub mod collector;
pub mod compare;
pub mod crash;
pub mod load;
pub mod normalise;
pub mod objects;
pub mod schemas;
pub mod script;
pub mod session;
pub mod suites;
pub mod target;
pub mod transcript;
pub mod watching;
pub mod wire;
