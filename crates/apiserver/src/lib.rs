//! An embedded Kubernetes API server as one tower service.
//!
//! ```
//! use caretaker_apiserver::{ApiServer, UserIdentity};
//! use caretaker_machinery::clock::{Clock, REAL_TIME};
//! use caretaker_machinery::rng::Rng;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::api::{Api, DeleteParams, PostParams};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // No sockets, no files: a server in this process, on a clock and with a seed of your choice.
//! let clock = Clock::driven("2026-03-01T12:00:00Z".parse()?, REAL_TIME);
//! let server = ApiServer::ephemeral(clock, Rng::seeded(7));
//! let client = kube::Client::new(server.service(UserIdentity::admin()), "default");
//!
//! let config_maps: Api<ConfigMap> = Api::default_namespaced(client);
//! let mut greeting = ConfigMap::default();
//! greeting.metadata.generate_name = Some("greeting-".into());
//! let created = config_maps.create(&PostParams::default(), &greeting).await?;
//! let name = created.metadata.name.ok_or("the server names it")?;
//! assert_eq!(created.metadata.resource_version.as_deref(), Some("6"));
//!
//! config_maps.delete(&name, &DeleteParams::default()).await?;
//! assert!(config_maps.get_opt(&name).await?.is_none());
//! # Ok(())
//! # }
//! ```
//!
//! A request goes through `server`, which parses it (`request`, `negotiate`, `body`, `protobuf`), finds its kind (`kinds`) and calls a
//! verb (`verbs`, with `metadata`, `deletion`, `strategy`, `allocation`). The verb reads and writes the `store`. `respond`, `tables` and
//! `watching` write the response. `identity` says who the caller is and what it may do,
//! `tokens` issues and checks tokens. `discovery`, `openapi`, `health` and `metrics` serve the other paths; `upkeep` runs the
//! background tasks.

mod allocation;
mod body;
mod bootstrap;
mod checks;
mod deletion;
mod discovery;
mod etag;
mod fields;
mod health;
mod identity;
mod kinds;
pub mod listen;
mod metadata;
mod metrics;
mod negotiate;
mod openapi;
pub mod protobuf;
mod request;
mod respond;
mod scale;
mod schemas;
mod server;
mod store;
mod strategy;
mod tables;
mod tokens;
pub mod types;
mod upkeep;
mod verbs;
mod watching;

pub use identity::UserIdentity;
pub use respond::ResponseBody;
pub use server::{AccountOptions, ApiServer, ApiService, ServerOptions, UpkeepTasks};
pub use tokens::{ServerCredentials, TokenKey, TokenKeyError};
