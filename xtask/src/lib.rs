//! What developers run: the oracle (a real Kubernetes control plane) and what asks it.

pub mod facts;
pub mod http;
pub mod interrupt;
pub mod probe;
pub mod real;
