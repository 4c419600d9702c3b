//! The harnesses of the process path: what runs the agent, and what its run says.

mod claude;
mod command;
mod env;
mod scripted;
mod trace_file;

use std::time::Duration;

use everdict_contracts::{BUILT_IN_HARNESSES, CaseJob, CommandTraceSpec, ErrorEvent, Fault, HarnessSpec};

use crate::context::CaseContext;
use crate::recorder::Recorder;
use crate::sandbox::{Ran, Sandbox};

use self::command::CommandPlan;

/// Standard error of a failed command in the trace: enough for the exception, not for the whole log.
const ERROR_TAIL_CHARS: usize = 2_000;

/// What drives the agent of a case, ready to run.
#[derive(Debug)]
pub(crate) enum Harness {
    Command(Box<CommandPlan>),
    ClaudeCode(claude::ClaudePlan),
    Scripted,
}

/// One drive of the agent.
pub(crate) struct Drive<'a> {
    pub(crate) sandbox: &'a Sandbox<'a>,
    pub(crate) recorder: &'a std::sync::Arc<Recorder>,
    pub(crate) task: &'a str,
    pub(crate) timeout: Duration,
}

impl Harness {
    /// Chooses and checks the harness of a job.
    ///
    /// # Errors
    /// `BAD_REQUEST` for an unknown harness, or a command that can't be rendered.
    pub(crate) fn plan(job: &CaseJob, run_id: &str, ctx: &CaseContext) -> Result<Self, Fault> {
        let id = match &job.harness_spec {
            Some(HarnessSpec::Command(spec)) => {
                return Ok(Self::Command(Box::new(CommandPlan::new(
                    spec,
                    &job.eval_case.task,
                    run_id,
                    ctx,
                )?)));
            }
            Some(HarnessSpec::Process(spec)) => spec.id.as_str(),
            Some(HarnessSpec::Service(_)) | None => job.harness.id.as_str(),
        };
        match id {
            "claude-code" => Ok(Self::ClaudeCode(claude::ClaudePlan::new(
                &job.eval_case.task,
                ctx,
            )?)),
            "scripted" => Ok(Self::Scripted),
            other => Err(Fault::bad_request(format!(
                "harness.id: `{other}` is no built-in harness ({}), and the job carries no spec for it",
                BUILT_IN_HARNESSES.join(", ")
            ))),
        }
    }

    /// Where and how the harness's trace is to be had.
    pub(crate) fn trace(&self) -> Option<&CommandTraceSpec> {
        match self {
            Self::Command(plan) => Some(plan.trace()),
            Self::ClaudeCode(_) | Self::Scripted => None,
        }
    }

    /// Runs the harness's own setup.
    ///
    /// # Errors
    /// `HARNESS_INSTALL_FAILED` for the first step that fails.
    pub(crate) async fn install(&self, sandbox: &Sandbox<'_>, limit: Duration) -> Result<(), Fault> {
        match self {
            Self::Command(plan) => plan.install(sandbox, limit).await,
            Self::ClaudeCode(_) | Self::Scripted => Ok(()),
        }
    }

    /// Runs the agent and records what it does.
    ///
    /// # Errors
    /// Only when there was no run at all: cancelled, or no shell could be started.
    pub(crate) async fn run(&self, drive: &Drive<'_>) -> Result<(), Fault> {
        match self {
            Self::Command(plan) => plan.run(drive).await,
            Self::ClaudeCode(plan) => plan.run(drive).await,
            Self::Scripted => scripted::run(drive).await,
        }
    }
}

/// The detail of a `command.exit` event. Keys beyond the first three are there only when they say something.
fn exit_detail(command: &str, ran: &Ran, duration_ms: u32) -> serde_json::Value {
    let mut detail =
        serde_json::json!({ "command": command, "exitCode": ran.exit_code, "durationMs": duration_ms });
    if ran.timed_out {
        detail["timedOut"] = true.into();
    }
    if let Some(signal) = ran.signal {
        detail["signal"] = signal.into();
    }
    if ran.killed_after_grace {
        detail["killedAfterGrace"] = true.into();
    }
    if ran.survivors > 0 {
        detail["leftoverProcesses"] = ran.survivors.into();
    }
    if ran.oom_kills > 0 {
        detail["oomKilledProcesses"] = ran.oom_kills.into();
    }
    detail
}

/// The trace event of a command that did not end well.
fn exit_error(ran: &Ran, limit: Duration) -> ErrorEvent {
    let tail = ran.stderr_tail(ERROR_TAIL_CHARS, limit);
    ErrorEvent {
        message: format!("command exit {}: {tail}", ran.exit_code),
    }
}

/// Whole milliseconds; a case that runs for more than 49 days has other problems.
pub(crate) fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
