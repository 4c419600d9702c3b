use std::io;
use std::path::PathBuf;

use everdict_contracts::{ErrorCode, Fault};

/// Says why a process, a scratch directory or a path could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecError {
    /// No directory of the child's PATH holds the program.
    #[error("find `{program}` in PATH")]
    ProgramNotFound {
        /// As given in the launch.
        program: String,
    },
    /// The working directory is missing or not a directory.
    #[error("enter working directory {}", path.display())]
    WorkDir {
        /// As given in the launch.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused to start the program.
    #[error("start `{program}`")]
    Spawn {
        /// The resolved program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// The process runs, but its end can't be observed.
    #[error("watch `{program}`")]
    Watch {
        /// The resolved program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// A scratch directory could not be created or read.
    #[error("{action} {}", path.display())]
    Scratch {
        /// A verb, for example `create`.
        action: &'static str,
        /// The path it was tried on.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A path leads out of the directory it must stay in.
    #[error("use path `{path}`: {reason}")]
    Escapes {
        /// As given.
        path: String,
        /// Which rule it breaks.
        reason: &'static str,
    },
}

impl ExecError {
    /// The code under which this error is reported to the hub.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Escapes { .. } => ErrorCode::BadRequest,
            Self::Scratch { .. } => ErrorCode::DriverProvisionFailed,
            Self::ProgramNotFound { .. } | Self::WorkDir { .. } | Self::Spawn { .. } | Self::Watch { .. } => {
                ErrorCode::ComputeExecFailed
            }
        }
    }
}

impl From<ExecError> for Fault {
    fn from(error: ExecError) -> Self {
        Self::new(error.code(), format!("failed to {error}")).caused_by(error)
    }
}
