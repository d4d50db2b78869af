//! What all controllers share: observing the server, asking controllers for decisions, and sending their requests.
//!
//! - [`kind`]: the kinds that a server has, and how well each is known.
//! - [`record`]: objects as controllers see them.
//! - [`call`]: the requests that a decision can ask for, and their answers.
//! - [`controller`]: the trait that every controller implements.
//! - [`discovery`]: reads the kinds of a server.
//! - [`feed`]: the list and the watch of one kind.
//! - [`feed_set`]: one feed per kind, for all controllers of the process.
//! - [`queue`]: which keys are due.
//! - [`driver`]: asks one controller for decisions and sends their requests.
//! - [`effects`]: the only writer: a call becomes a request, and its response an answer.
//! - [`evidence`]: one record per write, with its reason.
//! - [`clients`]: connections to a cluster.
//! - [`events`]: writes Events.
//! - [`metrics`]: the metrics page.
//! - [`manager`]: starts controllers, and restarts them after a panic.

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
pub mod manager;
pub mod metrics;
pub mod queue;
pub mod record;
