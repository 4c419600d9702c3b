//! The sandbox as a grader sees it.

use std::collections::BTreeMap;
use std::time::Duration;

use everdict_contracts::Fault;
use futures_util::future::BoxFuture;

/// Runs grader commands where the agent's work still lies.
///
/// Implementations own the process tree of a command: when [`Compute::exec`] returns, or its future is dropped,
/// nothing of that tree goes on running.
pub trait Compute: Send + Sync {
    /// Runs one shell line to its end. A non-zero exit is an output, not an error.
    ///
    /// # Errors
    /// A [`Fault`] when the command could not be run at all: the sandbox is gone, the case was cancelled.
    fn exec(&self, exec: ComputeExec) -> BoxFuture<'_, Result<ComputeOutput, Fault>>;
}

/// One command for [`Compute::exec`].
#[derive(Debug, Clone)]
pub struct ComputeExec {
    /// A line for `/bin/sh -c`.
    pub command: String,
    /// Folder relative to the sandbox root; `None` is the case's working folder.
    pub cwd: Option<String>,
    /// Variables on top of the sandbox's own.
    pub env: BTreeMap<String, String>,
    /// Bytes for standard input; `None` gives an empty one.
    pub stdin: Option<Vec<u8>>,
    /// When to stop the command.
    pub timeout: Duration,
}

impl ComputeExec {
    /// A command in the case's working folder with nothing else said.
    pub(crate) fn new(command: impl Into<String>, timeout: Duration) -> Self {
        Self {
            command: command.into(),
            cwd: None,
            env: BTreeMap::new(),
            stdin: None,
            timeout,
        }
    }
}

/// What a command left behind.
#[derive(Debug, Clone, Default)]
pub struct ComputeOutput {
    /// Exit code; 124 for a command stopped by its time limit.
    pub exit_code: i32,
    /// Standard output, lossy UTF-8, possibly with its middle left out.
    pub stdout: String,
    /// Standard error, lossy UTF-8, possibly with its middle left out.
    pub stderr: String,
    /// The time limit stopped it.
    pub timed_out: bool,
}
