//! The command harness: any program, by a shell line.

use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{
    CommandHarness, CommandTraceSpec, EnvAction, ErrorCode, Fault, LogEvent, Message, ModelBinding,
    OutputStream, Role, TraceEventKind,
};
use jiff::Timestamp;

use super::{Drive, env, exit_detail, exit_error, millis, trace_file};
use crate::context::CaseContext;
use crate::recorder::{Recorder, event_at};
use crate::sandbox::{Line, Ran, Sandbox, WORK, with_env};
use crate::span::traceparent;
use crate::template::{Rendered, Values, render};

/// Standard output kept in the trace: it may be the agent's answer, so it gets room for a long one.
const STDOUT_TAIL_CHARS: usize = 32_000;

/// Standard error kept in the trace: diagnostics, of which the end matters.
const STDERR_TAIL_CHARS: usize = 16_000;

/// A setup step's output in its failure: a screenful of an installer's last words.
const SETUP_TAIL_CHARS: usize = 2_000;

/// A command harness with its command rendered and its environment resolved.
#[derive(Debug)]
pub(crate) struct CommandPlan {
    setup: Vec<String>,
    cwd: String,
    rendered: Rendered,
    env: Vec<(String, String)>,
    trace: CommandTraceSpec,
}

impl CommandPlan {
    pub(super) fn new(
        spec: &CommandHarness,
        task: &str,
        run_id: &str,
        ctx: &CaseContext,
    ) -> Result<Self, Fault> {
        let model = spec.model.as_ref().map(ModelBinding::name).unwrap_or_default();
        let rendered = render(&spec.command, &Values::new(task, model, run_id, &spec.params))?;
        if let Some(index) = spec.setup.iter().position(|step| step.contains('\0')) {
            return Err(Fault::bad_request(format!(
                "harnessSpec.setup[{index}]: must not contain a NUL character"
            )));
        }
        let mut env = env::model_auth(&ctx.host_env);
        env.extend(env::declared(spec)?);
        env.push(("EVERDICT_RUN_ID".to_owned(), run_id.to_owned()));
        if !matches!(spec.trace, CommandTraceSpec::None(_)) {
            env.push((
                "OTEL_RESOURCE_ATTRIBUTES".to_owned(),
                format!("everdict.run_id={run_id}"),
            ));
        }
        env.push(("TRACEPARENT".to_owned(), traceparent(run_id)));
        let cwd = spec.work_dir.clone().unwrap_or_else(|| WORK.to_owned());
        Ok(Self {
            setup: spec.setup.clone(),
            cwd,
            rendered,
            env,
            trace: spec.trace.clone(),
        })
    }

    pub(super) fn trace(&self) -> &CommandTraceSpec {
        &self.trace
    }

    pub(super) async fn install(&self, sandbox: &Sandbox<'_>, limit: Duration) -> Result<(), Fault> {
        if self.setup.is_empty() {
            return Ok(());
        }
        let env = with_env(&sandbox.env, self.env.iter().cloned());
        for (index, step) in self.setup.iter().enumerate() {
            let line = Line {
                command: step,
                cwd: &self.cwd,
                env: &env,
                stdin: None,
                timeout: limit,
            };
            setup_step(sandbox, line, &format!("harnessSpec.setup[{index}]")).await?;
        }
        Ok(())
    }

    pub(super) async fn run(&self, drive: &Drive<'_>) -> Result<(), Fault> {
        let sandbox = drive.sandbox;
        let variables = self.env.iter().chain(&self.rendered.env).cloned();
        let env = with_env(&sandbox.env, variables);
        let command = self.rendered.command.as_str();
        let line = Line {
            command,
            cwd: &self.cwd,
            env: &env,
            stdin: None,
            timeout: drive.timeout,
        };
        let started = Timestamp::now();
        let ran = sandbox.run(line, Some(sandbox.live())).await?;
        let duration = millis(ran.duration);
        let mut exit = event_at(
            started,
            EnvAction {
                action: "command.exit".to_owned(),
                detail: Some(exit_detail(&self.rendered.shown, &ran, duration)),
            },
        );
        exit.duration_ms = Some(duration.into());
        drive.recorder.record(exit);
        if ran.exit_code != 0 {
            drive.recorder.now(exit_error(&ran, drive.timeout));
        }
        let answered = self.read_trace_file(sandbox, drive.recorder).await?;
        self.record_output(&ran, drive, answered);
        Ok(())
    }

    /// Records the trace the command wrote; says whether the agent's answer is in it.
    async fn read_trace_file(&self, sandbox: &Sandbox<'_>, recorder: &Arc<Recorder>) -> Result<bool, Fault> {
        let CommandTraceSpec::File(file) = &self.trace else {
            return Ok(false);
        };
        let path = &file.path;
        let path = if path.starts_with('/') {
            path.clone()
        } else {
            format!("{}/{path}", self.cwd)
        };
        let file = trace_file::read(sandbox, &path).await?;
        let answered = file.events.iter().any(|event| {
            matches!(
                event.kind,
                TraceEventKind::Message(Message {
                    role: Role::Assistant,
                    ..
                })
            )
        });
        for event in file.events {
            recorder.record(event);
        }
        if let Some(remark) = file.remark {
            recorder.remark(&remark);
        }
        Ok(answered)
    }

    fn record_output(&self, ran: &Ran, drive: &Drive<'_>, answered: bool) {
        let stdout = ran.stdout_tail(STDOUT_TAIL_CHARS);
        if !stdout.is_empty() {
            let is_answer = match self.trace {
                CommandTraceSpec::None(_) => true,
                CommandTraceSpec::File(_) => !answered,
                _ => false,
            };
            if is_answer {
                drive.recorder.now(Message {
                    role: Role::Assistant,
                    text: stdout,
                });
            } else {
                drive.recorder.now(LogEvent {
                    stream: OutputStream::Stdout,
                    text: stdout,
                });
            }
        }
        let stderr = ran.stderr_tail(STDERR_TAIL_CHARS, drive.timeout);
        if !stderr.is_empty() {
            drive.recorder.now(LogEvent {
                stream: OutputStream::Stderr,
                text: stderr,
            });
        }
    }
}

/// Runs one setup step; a failing one names its place and the end of what it said.
///
/// # Errors
/// `HARNESS_INSTALL_FAILED`.
async fn setup_step(sandbox: &Sandbox<'_>, line: Line<'_>, place: &str) -> Result<(), Fault> {
    let (command, limit) = (line.command.to_owned(), line.timeout);
    let ran = sandbox.run(line, Some(sandbox.live())).await?;
    if ran.exit_code == 0 {
        return Ok(());
    }
    let said = match ran.stderr_tail(SETUP_TAIL_CHARS, limit) {
        text if text.is_empty() => ran.stdout_tail(SETUP_TAIL_CHARS),
        text => text,
    };
    let message = format!(
        "setup failed (exit {}) at {place}: {command}\n{said}",
        ran.exit_code
    );
    let fault = Fault::new(ErrorCode::HarnessInstallFailed, message);
    Err(if said.is_empty() {
        fault
    } else {
        fault.with_log_tail(said)
    })
}
