//! An embedded Kubernetes API server as one tower service.
