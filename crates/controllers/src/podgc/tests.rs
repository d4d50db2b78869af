//! Tests of Pod GC in a [`TestWorld`](crate::test_world::TestWorld): a scripted server, watches that can lag, and a clock
//! that the test sets.
//!
//! `gc_controller` restates upstream's `gc_controller_test.go`; `lifecycle` tests rounds, quarantine, conflicts and
//! gates; `inputs` has the inputs of `docs/inputs.md`; `cost` counts decisions and requests.

mod cost;
mod gc_controller;
mod inputs;
mod lifecycle;
mod world;
