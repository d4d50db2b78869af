//! Test cases, checkers and load drivers; never a dependency of the product.
//!
//! - [`case`]: a test case and its one runner; [`suites`]: the tables of cases.
//! - [`environment`]: everything a case works with; [`fixtures`], [`objects`]: what it creates.
//! - [`target`]: the server under test; [`controllers`]: the controllers that run beside it.
//! - [`session`], [`watching`]: recorded requests and watches of an API case.
//! - [`normalise`], [`transcript`], [`compare`]: make two servers' transcripts comparable, store and compare them.
//! - [`wire`]: a transport that records requests and injects faults.
//! - [`checkers`]: the safety rules, judged by the server's history and the recorded requests.
//! - [`crash`]: controllers that crash at every request.
//! - [`ownership`]: random ownership scripts and the model of their ends; [`chaos`]: the same under faults.
//! - [`faults`]: random ownership with real processes behind a faulty proxy, and its own model.
//! - [`schemas`]: random schemas and objects for two servers.
//! - [`validation`]: built-in objects with random changes for two servers.
//! - [`kube_steps`]: everyday steps of the Rust client.
//! - [`samples`]: upstream's samples of objects in JSON and in protobuf.
//! - [`load`]: load drivers for benchmarks.

pub mod case;
pub mod chaos;
pub mod checkers;
pub mod compare;
pub mod controllers;
pub mod crash;
pub mod environment;
pub mod faults;
pub mod fixtures;
pub mod kube_steps;
pub mod load;
pub mod normalise;
pub mod objects;
pub mod ownership;
pub mod samples;
pub mod schemas;
pub mod session;
pub mod suites;
pub mod target;
pub mod transcript;
pub mod validation;
pub mod watching;
pub mod wire;
