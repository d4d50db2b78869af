//! What all controllers share: how they come to know things, are asked for decisions, and how these are carried out.
//!
//! - [`kind`]: the kinds a server has, and what is known about each.
//! - [`record`]: objects as controllers see them.
//! - [`call`]: the requests a decision can ask for, and their answers.
//! - [`controller`]: what a controller is.
//! - [`discovery`]: asks a server for its kinds.
//! - [`feed`]: the list and the watch of one kind.
//! - [`feeds`]: one feed per kind, for all controllers of the process.
//! - [`queue`]: which keys are due.
//! - [`driver`]: asks one controller for decisions and has them carried out.
//! - [`effects`]: the only writer: a call becomes a request, its response an answer.
//! - [`evidence`]: what was done and why, for the log and for people.
//! - [`clients`]: how a cluster is reached.
//! - [`events`]: what users of an object are told.
//! - [`metrics`]: what is counted.
//! - [`manager`]: starts controllers, and starts them again.

pub mod call;
pub mod clients;
pub mod controller;
pub mod discovery;
pub mod driver;
pub mod effects;
pub mod events;
pub mod evidence;
pub mod feed;
pub mod feeds;
pub mod kind;
pub mod manager;
pub mod metrics;
pub mod queue;
pub mod record;
