//! The embedded control plane: runners pair with it, jobs are submitted to it, runners lease them and
//! send results back.
//!
//! It speaks lease protocol v2 over an MCP endpoint of its own (`/mcp`, see
//! `docs/adr/0002-own-mcp-endpoint.md`) and a small HTTP API. It refuses to run jobs, to open a port
//! beyond loopback unless told to, and to answer anybody without a credential, except for `/healthz`,
//! the discovery document and the two routes that lead to a credential (`/auth/…`).
//!
//! Invariants:
//! - A lease is in the store before the runner hears of it, so that it outlives the hub's process.
//! - A job is handed only to a call that can still be answered; if the answer cannot be delivered, the
//!   job is available again at once.
//! - A result counts once, from the current lease only.
//! - Whoever may not see a run or a runner is told that there is none.

mod api;
mod auth;
mod clock;
mod config;
mod desk;
mod dispatch;
mod error;
mod fs_requests;
mod hub;
mod jobs;
mod live;
mod mcp;
mod metrics;
mod oidc;
mod pairing;
mod peers;
mod queue;
mod report;
mod roster;
mod run_view;
mod shared;
mod targets;

pub use auth::Role;
pub use config::HubConfig;
pub use error::HubError;
pub use everdict_store::backup;
pub use hub::{Hub, NewApiKey};
pub use oidc::OidcConfig;
