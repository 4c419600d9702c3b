//! Service topologies on the local container engine: stores, services and a browser per case.
//!
//! The crate is the only one that names bollard. It never runs a program on the host.

#![expect(missing_docs, reason = "fields carry the protocol's own names; a comment stands where the name isn't enough")]

pub mod digest;
pub mod engine;
pub mod labels;
pub mod names;
pub mod plan;
pub mod stores;
