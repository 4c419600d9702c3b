//! Trace backends: finds the trace of a run, waits until it is complete, and reads it as trace events and evidence.
//!
//! The crate reads over HTTP and nothing else. It resolves no secrets, keeps no state, writes to no backend, and decides
//! nothing about the run: a trace that can't be had is a fault for the caller to degrade by.
//!
//! Invariants:
//! - Every request and every fetch has a deadline, a size limit and a bounded number of pages.
//! - "No trace yet" is not an error; an answer that isn't understood is one, never an empty trace.
//! - All backends become spans first and events second, so the same run reads the same from each of them.
//! - Credentials go to the backend's own origin only, and show in no message.
//! - Nothing is fetched from an address that the trace itself made up: references are followed to the backend and to the
//!   artifact address of the spec, and kept as text otherwise.

mod config;
mod evidence;
mod fetch;
pub mod ids;
mod project;
mod settle;
mod source;
mod sources;
mod span;
mod value;

pub use config::{TraceConfig, TraceLimits};
pub use project::project;
pub use settle::{SettlePolicy, TRACE_EMPTY, settle};
pub use source::{TracePull, TraceSource, TraceState, source_for};
pub use span::{DeclaredKind, SpanPoint, SpanRecord, SpanStatus};
