use std::time::Duration;

use bollard::container::LogOutput;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::ExecConfig;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::{CREATE_LIMIT, Engine, EngineError, READ_LIMIT};

/// How much of each output stream is kept; the rest is counted and dropped.
const OUTPUT_CAP: usize = 1024 * 1024;

/// What a command reads from its standard input.
pub enum ExecInput {
    /// Nothing; the command sees the end at once.
    Empty,
    /// These bytes.
    Bytes(Vec<u8>),
    /// A stream of pieces; an error ends the input early and fails the call.
    Stream(BoxStream<'static, std::io::Result<Bytes>>),
}

/// A command to run in a running container.
pub struct ExecRequest {
    /// Program and arguments; no shell is involved.
    pub argv: Vec<String>,
    /// Variables beside those of the container.
    pub env: Vec<(String, String)>,
    /// `None` is the container's own user.
    pub user: Option<String>,
    /// `None` is the image's own directory.
    pub workdir: Option<String>,
    /// Standard input.
    pub input: ExecInput,
    /// For the whole command. The API can't kill it: a caller that must be sure wraps it in `timeout`.
    pub limit: Duration,
}

impl ExecRequest {
    /// A command without input.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>, limit: Duration) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            user: None,
            workdir: None,
            input: ExecInput::Empty,
            limit,
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecOutcome {
    /// 126 or 127 also stand for a program that isn't there: the API tells no difference.
    pub exit_code: i64,
    /// The first mebibyte of it.
    pub stdout: Vec<u8>,
    /// The first mebibyte of it.
    pub stderr: Vec<u8>,
    /// Bytes of both streams that were dropped.
    pub left_out: u64,
}

impl ExecOutcome {
    /// Tells whether the command exited with 0.
    pub fn success(&self) -> bool {
        self.exit_code == 0
    }

    fn keep(&mut self, piece: LogOutput) {
        let (kept, message) = match piece {
            LogOutput::StdErr { message } => (&mut self.stderr, message),
            LogOutput::StdOut { message } | LogOutput::Console { message } => (&mut self.stdout, message),
            LogOutput::StdIn { .. } => return,
        };
        let room = OUTPUT_CAP.saturating_sub(kept.len()).min(message.len());
        kept.extend_from_slice(&message[..room]);
        self.left_out += (message.len() - room) as u64;
    }
}

impl Engine {
    /// Runs a command in a running container to its end. Dropping the future leaves the command running.
    ///
    /// # Errors
    /// [`super::EngineErrorKind::Conflict`] when the container isn't running, [`super::EngineErrorKind::TimedOut`]
    /// when the command is still running at its limit. A command that fails is an outcome.
    pub async fn exec(&self, container: &str, request: ExecRequest) -> Result<ExecOutcome, EngineError> {
        const OPERATION: &str = "run a command in a container";
        let ExecRequest {
            argv,
            env,
            user,
            workdir,
            input,
            limit,
        } = request;
        let config = ExecConfig {
            cmd: Some(argv),
            env: Some(
                env.into_iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect(),
            ),
            user,
            working_dir: workdir,
            attach_stdin: Some(!matches!(input, ExecInput::Empty)),
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
        let started = self.call(OPERATION, CREATE_LIMIT, started).await?;
        let mut outcome = ExecOutcome::default();
        if let StartExecResults::Attached { output, input: stdin } = started {
            let both = async {
                let (read, written) = tokio::join!(drain(output, &mut outcome), feed(stdin, input));
                read.and(written)
            };
            self.call(OPERATION, limit, both).await?;
        }
        let ended = self
            .call(OPERATION, READ_LIMIT, self.docker.inspect_exec(&created.id))
            .await?;
        outcome.exit_code = ended.exit_code.unwrap_or(-1);
        Ok(outcome)
    }
}

async fn drain(
    mut output: impl futures_util::Stream<Item = Result<LogOutput, bollard::errors::Error>> + Unpin,
    outcome: &mut ExecOutcome,
) -> Result<(), bollard::errors::Error> {
    while let Some(piece) = output.next().await {
        outcome.keep(piece?);
    }
    Ok(())
}

/// Writes the input and closes it. A command that ends without reading everything is no error here.
async fn feed(mut stdin: impl AsyncWrite + Unpin, input: ExecInput) -> Result<(), bollard::errors::Error> {
    let mut pieces = match input {
        ExecInput::Empty => futures_util::stream::empty().boxed(),
        ExecInput::Bytes(bytes) => futures_util::stream::iter([Ok(Bytes::from(bytes))]).boxed(),
        ExecInput::Stream(stream) => stream,
    };
    while let Some(piece) = pieces.next().await {
        if stdin.write_all(&piece?).await.is_err() {
            return Ok(());
        }
    }
    let _ = stdin.shutdown().await;
    Ok(())
}
