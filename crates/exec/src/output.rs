//! What a child prints: live lines for a sink, and a bounded capture for whoever reads it afterwards.

mod capture;
mod lines;
mod pump;

pub use capture::{CaptureLimits, Captured};
pub use lines::MAX_LINE_CHARS;
pub use pump::StreamTap;
pub(crate) use pump::{StreamPump, feed};

use crate::ProcessId;

/// One of a child's two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Receives what a child does while it runs. Called on the task that drives the launch, so it must not block.
pub trait OutputSink: Send + Sync {
    /// One line without its end, at most [`MAX_LINE_CHARS`] long; a longer one arrives in pieces.
    fn line(&self, stream: Stream, line: &str);

    /// The process exists now. Called once, before any line; a journal writes the identity down here.
    fn started(&self, _process: ProcessId) {}
}
