//! The collector on a small world of its own: no server, no feeds, no time but what a test gives it.
//!
//! `world` is a model of a server and of watches that can lag; the other files are upstream's cases, named after the
//! tests of `garbagecollector_test.go` they restate, and what hostile input must not do.

mod attempt_to_delete_item;
mod conflicting_data;
mod deletion;
mod explain;
mod hostile;
mod process_event;
mod world;
