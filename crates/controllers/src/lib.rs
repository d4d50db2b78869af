//! The controllers and the runtime they share.
