//! The built-in `claude-code` harness: the `claude` command line in its streaming mode.

mod stream;

use std::sync::{Arc, Mutex, PoisonError};

use everdict_contracts::{EnvAction, ErrorEvent, Fault};
use everdict_exec::{OutputSink, Stream};
use jiff::Timestamp;

use self::stream::StreamParser;
use super::{Drive, ERROR_TAIL_CHARS, env, exit_detail, millis};
use crate::context::{CaseContext, Progress};
use crate::recorder::{Recorder, event_at};
use crate::sandbox::{Line, WORK, with_env};
use crate::template::{Rendered, Values, render};

/// Found on the PATH of the sandbox, which is the host's.
const COMMAND: &str =
    "claude -p {{task}} --output-format stream-json --verbose --dangerously-skip-permissions";

/// A run of `claude`, ready to start.
#[derive(Debug)]
pub(crate) struct ClaudePlan {
    rendered: Rendered,
    env: Vec<(String, String)>,
}

impl ClaudePlan {
    pub(super) fn new(task: &str, ctx: &CaseContext) -> Result<Self, Fault> {
        let rendered = render(COMMAND, &Values::new(task, "", "", None))?;
        let mut env = env::model_auth(&ctx.host_env);
        // Lets it skip its permission questions also where the runner is root: the scratch directory is its sandbox.
        env.push(("IS_SANDBOX".to_owned(), "1".to_owned()));
        Ok(Self { rendered, env })
    }

    pub(super) async fn run(&self, drive: &Drive<'_>) -> Result<(), Fault> {
        let sandbox = drive.sandbox;
        let env = with_env(&sandbox.env, self.env.iter().chain(&self.rendered.env).cloned());
        let command = self.rendered.command.as_str();
        let line = Line {
            command,
            cwd: WORK,
            env: &env,
            stdin: None,
            timeout: drive.timeout,
        };
        let sink = Arc::new(ClaudeSink {
            parser: Mutex::default(),
            recorder: Arc::clone(drive.recorder),
            progress: Arc::clone(&sandbox.ctx.progress),
        });
        let started = Timestamp::now();
        let ran = sandbox.run(line, Some(sink)).await?;
        if ran.timed_out {
            let duration = millis(ran.duration);
            let detail = Some(exit_detail(&self.rendered.shown, &ran, duration));
            let mut exit = event_at(
                started,
                EnvAction {
                    action: "command.exit".to_owned(),
                    detail,
                },
            );
            exit.duration_ms = Some(duration.into());
            drive.recorder.record(exit);
        }
        if ran.exit_code != 0 {
            let said = ran.stderr_tail(ERROR_TAIL_CHARS, drive.timeout);
            let message = if said.is_empty() {
                format!("claude exit {}", ran.exit_code)
            } else {
                said
            };
            drive.recorder.now(ErrorEvent { message });
        }
        Ok(())
    }
}

/// Turns what `claude` prints into trace events and readable log lines while it runs.
struct ClaudeSink {
    parser: Mutex<StreamParser>,
    recorder: Arc<Recorder>,
    progress: Arc<dyn Progress>,
}

impl OutputSink for ClaudeSink {
    fn line(&self, stream: Stream, line: &str) {
        if stream == Stream::Stderr {
            self.progress.log(line);
            return;
        }
        let step = self
            .parser
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .line(line);
        for line in step.log {
            self.progress.log(&line);
        }
        for event in step.events {
            self.recorder.record(event);
        }
    }
}
