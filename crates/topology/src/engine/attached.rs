use std::pin::Pin;

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::ExecConfig;
use futures_util::Stream;
use tokio::io::AsyncWrite;

use super::{CREATE_LIMIT, Engine, EngineError, EngineErrorKind, READ_LIMIT};

const OPERATION: &str = "run a command in a container";

/// A command that runs in a container, with its output as it comes.
pub(crate) struct AttachedExec {
    pub(crate) id: String,
    pub(crate) output: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
    /// Closing it is the end of the command's input.
    pub(crate) input: Pin<Box<dyn AsyncWrite + Send>>,
}

/// Whether a command in a container still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExecState {
    Running,
    /// Its main process has ended with this code; others may still hold its output open.
    Ended(i64),
}

impl Engine {
    /// Starts a command and stays attached to it. Dropping the result leaves the command running.
    ///
    /// # Errors
    /// [`EngineErrorKind::Conflict`] when the container isn't running.
    pub(crate) async fn exec_attached(
        &self,
        container: &str,
        argv: Vec<String>,
        env: Vec<String>,
        with_input: bool,
    ) -> Result<AttachedExec, EngineError> {
        let config = ExecConfig {
            cmd: Some(argv),
            env: Some(env),
            // Every image has it; the image's own directory may be gone by now.
            working_dir: Some("/".to_owned()),
            attach_stdin: Some(with_input),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            ..ExecConfig::default()
        };
        let created = self
            .call(
                OPERATION,
                CREATE_LIMIT,
                self.docker.create_exec(container, config),
            )
            .await?;
        let started = self.docker.start_exec(&created.id, None::<StartExecOptions>);
        match self.call(OPERATION, CREATE_LIMIT, started).await? {
            StartExecResults::Attached { output, input } => Ok(AttachedExec {
                id: created.id,
                output,
                input,
            }),
            StartExecResults::Detached => Err(EngineError::new(
                EngineErrorKind::Other,
                OPERATION,
                "the daemon gave no output",
            )),
        }
    }

    /// Asks whether a command still runs.
    ///
    /// # Errors
    /// [`EngineErrorKind::NotFound`] when the daemon has forgotten it, as it does when the container ends.
    pub(crate) async fn exec_state(&self, exec: &str) -> Result<ExecState, EngineError> {
        let view = self
            .call(OPERATION, READ_LIMIT, self.docker.inspect_exec(exec))
            .await?;
        Ok(match (view.running, view.exit_code) {
            (Some(false), Some(code)) => ExecState::Ended(code),
            _ => ExecState::Running,
        })
    }
}
