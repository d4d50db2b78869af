//! Simulated Nodes, Pods and Jobs that only speak the API.
