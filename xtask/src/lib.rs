//! Developer tools: the oracle (a real Kubernetes control plane), conformance runs, fault runs and benchmarks against it, and the
//! figures of the repository's prose.

pub mod bench;
mod cargo;
pub mod conformance;
mod embedded;
pub mod facts;
pub mod faults;
pub mod http;
pub mod interrupt;
pub mod picture;
pub mod probe;
pub mod prose;
pub mod real;
