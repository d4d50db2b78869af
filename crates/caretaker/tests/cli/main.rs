//! The binary from outside: what it prints, how it ends, and what kubectl makes of it.

mod child;
mod flags;
mod http;
mod kubectl;
mod process;
mod up;
