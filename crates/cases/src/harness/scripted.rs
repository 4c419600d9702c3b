//! The built-in `scripted` harness: a fixed plan, to try a runner without a model.

use std::sync::Arc;

use everdict_contracts::{Fault, Message, Role, ToolCall, ToolResult};
use jiff::Timestamp;

use super::Drive;
use crate::recorder::event_at;
use crate::sandbox::{Line, WORK};

/// The whole plan.
const STEP: &str = "echo hello > out.txt";

const STEP_ID: &str = "step-0";

pub(super) async fn run(drive: &Drive<'_>) -> Result<(), Fault> {
    let recorder = Arc::clone(drive.recorder);
    recorder.now(Message {
        role: Role::User,
        text: drive.task.to_owned(),
    });
    let mut call = event_at(
        Timestamp::now(),
        ToolCall {
            id: STEP_ID.to_owned(),
            name: "bash".to_owned(),
            args: Some(serde_json::json!({ "cmd": STEP })),
        },
    );
    call.span_id = Some(STEP_ID.to_owned());
    recorder.record(call);
    let sandbox = drive.sandbox;
    let line = Line {
        command: STEP,
        cwd: WORK,
        env: &sandbox.env,
        stdin: None,
        timeout: drive.timeout,
    };
    let ran = sandbox.run(line, Some(sandbox.live())).await?;
    let mut result = event_at(
        Timestamp::now(),
        ToolResult {
            id: STEP_ID.to_owned(),
            ok: ran.exit_code == 0,
            output: format!("{}{}", ran.stdout.text(), ran.stderr.text()),
        },
    );
    result.parent_id = Some(STEP_ID.to_owned());
    recorder.record(result);
    recorder.now(Message {
        role: Role::Assistant,
        text: "done".to_owned(),
    });
    Ok(())
}
