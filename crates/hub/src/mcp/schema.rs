//! What `tools/list` says.

use serde_json::{Value, json};

use crate::auth::Principal;

/// Lists the tools that a caller may use: a runner leases and reports, a key manages its runners.
pub(crate) fn tools(principal: &Principal) -> Value {
    let tools = match principal {
        Principal::Runner { .. } => runner_tools(),
        Principal::Key { .. } => key_tools(),
    };
    json!({ "tools": tools })
}

fn tool(name: &str, about: &str, properties: &Value, required: &[&str]) -> Value {
    json!({
        "name": name,
        "description": about,
        "inputSchema": { "type": "object", "properties": properties, "required": required },
    })
}

#[expect(
    clippy::too_many_lines,
    reason = "a table: one entry per tool, nothing to decide"
)]
fn runner_tools() -> Vec<Value> {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "array", "items": text });
    let level = json!({ "enum": ["info", "warn", "error"] });
    let epoch = json!({ "type": "integer", "minimum": 1 });
    let object = json!({ "type": "object" });
    let events = json!({ "type": "array", "items": object, "minItems": 1, "maxItems": 500 });
    let wait = json!({ "type": "integer", "minimum": 0, "maximum": 60_000 });
    let push = |field: &str, kind: &Value| json!({ "jobId": text, "leaseEpoch": epoch, field: kind });
    vec![
        tool(
            "lease_job",
            "Leases the next job, waiting up to wait_ms for one.",
            &json!({
                "wait_ms": wait, "capabilities": texts, "os": text, "version": text,
                "protocol": { "type": "integer" }, "status": text, "statusLevel": level,
            }),
            &[],
        ),
        tool(
            "heartbeat_job",
            "Renews a lease and says whether the job was cancelled.",
            &json!({
                "jobId": text, "leaseEpoch": epoch, "capabilities": texts, "status": text, "statusLevel": level,
            }),
            &[],
        ),
        tool(
            "submit_job_result",
            "Hands in the result of a leased job.",
            &json!({ "jobId": text, "leaseEpoch": epoch, "result": object }),
            &["jobId", "leaseEpoch", "result"],
        ),
        tool(
            "fail_job",
            "Says that a leased job cannot be done.",
            &json!({ "jobId": text, "leaseEpoch": epoch, "message": text }),
            &["jobId", "leaseEpoch", "message"],
        ),
        tool(
            "report_case_log",
            "Appends to the log of a leased job.",
            &push("line", &text),
            &["line"],
        ),
        tool(
            "report_case_screen",
            "Shows the screen of a leased job.",
            &push("frame", &text),
            &["frame"],
        ),
        tool(
            "report_case_trace",
            "Shows trace events of a leased job.",
            &push("events", &events),
            &["events"],
        ),
        tool(
            "report_case_track",
            "Records one entry of a leased job.",
            &push("item", &object),
            &["item"],
        ),
        tool(
            "poll_case_fs_requests",
            "Fetches what somebody wants to see of a leased job's folder.",
            &json!({ "jobId": text, "leaseEpoch": epoch }),
            &["jobId", "leaseEpoch"],
        ),
        tool(
            "answer_case_fs_request",
            "Answers one look into a leased job's folder.",
            &json!({ "jobId": text, "leaseEpoch": epoch, "requestId": text, "result": object }),
            &["jobId", "leaseEpoch", "requestId", "result"],
        ),
    ]
}

fn key_tools() -> Vec<Value> {
    let text = json!({ "type": "string" });
    let names: Vec<_> = everdict_contracts::Capability::ALL
        .iter()
        .map(|one| one.as_str())
        .collect();
    vec![
        tool("list_runners", "Lists your runners.", &json!({}), &[]),
        tool(
            "pair_runner",
            "Pairs a runner; its token is shown once.",
            &json!({
                "label": { "type": "string", "minLength": 1, "maxLength": 80 },
                "os": { "type": "string", "minLength": 1, "maxLength": 40 },
                "capabilities": { "type": "array", "items": { "enum": names } },
            }),
            &["label"],
        ),
        tool(
            "revoke_runner",
            "Revokes one of your runners.",
            &json!({ "id": text }),
            &["id"],
        ),
    ]
}
