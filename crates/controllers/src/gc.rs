//! The garbage collector over the ownership graph of all kinds.
