//! Hermetic fakes for tests. Each fake is a real server over simulated state, with faults that a test
//! switches on by name; nothing here reaches beyond loopback.

#[cfg(unix)]
pub mod fake_engine;
pub mod identity_provider;
#[cfg(unix)]
pub mod postgres;
pub mod registry;
pub mod scripted_hub;
pub mod update_feed;

#[cfg(unix)]
pub use fake_engine::FakeEngine;
pub use identity_provider::IdentityProvider;
#[cfg(unix)]
pub use postgres::Postgres;
pub use registry::{Registry, RegistryImage};
pub use scripted_hub::{Call, Fault, Lease, ScriptedHub};
pub use update_feed::{Signer, UpdateFeed};
