//! What developers run: the oracle (a real Kubernetes control plane), what asks it, and what sets ours beside it.

pub mod bench;
mod cargo;
pub mod conformance;
pub mod facts;
pub mod http;
pub mod interrupt;
pub mod probe;
pub mod prose;
pub mod real;
