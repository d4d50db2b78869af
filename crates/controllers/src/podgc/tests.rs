//! Pod GC on a small world of its own: no server, no feeds, no time but what a test gives it.
//!
//! `world` is a model of a server and of the driver; `gc_controller` restates upstream's `gc_controller_test.go`; the
//! others are what upstream never tested, what bad input must not do, and what a round costs.

mod cost;
mod gc_controller;
mod inputs;
mod lifecycle;
mod world;
