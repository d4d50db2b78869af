//! The runtime of all controllers: observes the server, asks controllers for decisions, and sends their requests.
//!
//! - [`kind`]: the kinds that a server has, and the state of each feed.
//! - [`record`]: objects as controllers see them.
//! - [`call`]: the requests that a decision can ask for, and their answers.
//! - [`controller`]: the trait that every controller implements.
//! - [`discovery`]: reads the kinds of a server.
//! - [`feed`]: the list and the watch of one kind.
//! - [`feed_set`]: one feed per kind, for all controllers of the process.
//! - [`queue`]: the keys that are due, or wait.
//! - [`driver`]: asks one controller for decisions and sends their requests.
//! - [`effects`]: sends every request of a decision: a call becomes a request, and its response an answer.
//! - [`evidence`]: one record per write, with its reason.
//! - `bounded_map`: a map that forgets the oldest entry first.
//! - `report_interval`: when lasting trouble is logged again.
//! - [`clients`]: connections to a cluster.
//! - [`events`]: writes Events.
//! - [`lease`]: leader election, which decides which of several replicas writes.
//! - [`metrics`]: the metrics page.
//! - [`manager`]: starts controllers, and restarts them after a panic.

pub(crate) mod bounded_map;
pub mod call;
pub mod clients;
pub mod controller;
pub mod discovery;
pub mod driver;
pub mod effects;
pub mod events;
pub mod evidence;
pub mod feed;
pub mod feed_set;
pub mod kind;
pub mod lease;
pub mod manager;
pub mod metrics;
pub mod queue;
pub mod record;
pub(crate) mod report_interval;
