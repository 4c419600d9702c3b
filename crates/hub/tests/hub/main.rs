//! The hub over real HTTP on loopback.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod access;
mod kit;
mod lease;
mod life;
mod logs;
mod oidc;
mod replicas;
mod runs;
mod shapes;
