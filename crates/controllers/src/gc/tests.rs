//! Tests of the collector in a [`TestWorld`](crate::test_world::TestWorld): a scripted server, watches that can lag, and
//! a clock that the test sets.
//!
//! `attempt_to_delete_item`, `conflicting_data` and `process_event` restate the tests of `garbagecollector_test.go`;
//! `hostile` has the hostile inputs of `docs/inputs.md`.

mod attempt_to_delete_item;
mod conflicting_data;
mod deletion;
mod explain;
mod hostile;
mod late_answers;
mod process_event;
mod removed_kinds;
mod rings;
mod world;
