//! Runs as the HTTP API shows them. Stored JSON goes out as it is.

use everdict_store::{RunRow, RunStatus};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::clock;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct View<'a> {
    id: &'a str,
    tenant: &'a str,
    harness: Harness<'a>,
    case_id: &'a str,
    status: &'static str,
    created_by: &'a str,
    runtime: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    case_spec: Option<&'a RawValue>,
    kind: &'static str,
    class: &'a str,
    lifetime: &'static str,
    origin: Origin<'a>,
    placement: Placement<'a>,
    attach: [&'static str; 1],
    created_at: String,
    updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leased_by: Option<&'a str>,
    #[serde(skip_serializing_if = "is_zero")]
    requeues: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Error<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<&'a RawValue>,
}

#[derive(Debug, Serialize)]
struct Harness<'a> {
    id: &'a str,
    version: &'a str,
}

#[derive(Debug, Serialize)]
struct Origin<'a> {
    cause: &'static str,
    actor: &'a str,
}

#[derive(Debug, Serialize)]
struct Placement<'a> {
    r#where: &'static str,
    target: &'a str,
}

#[derive(Debug, Serialize)]
struct Error<'a> {
    code: &'a str,
    message: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    runs: Vec<View<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<&'a str>,
}

/// Prints one run in full.
pub(crate) fn run(row: &RunRow) -> Result<String, serde_json::Error> {
    serde_json::to_string(&view(row, true)?)
}

/// Prints a page of runs; case and result only on request, because they can be large.
pub(crate) fn page(rows: &[RunRow], next: Option<&str>, full: bool) -> Result<String, serde_json::Error> {
    let runs = rows.iter().map(|row| view(row, full)).collect::<Result<_, _>>()?;
    serde_json::to_string(&Page {
        runs,
        next_cursor: next,
    })
}

fn view(row: &RunRow, full: bool) -> Result<View<'_>, serde_json::Error> {
    Ok(View {
        id: &row.id,
        tenant: &row.workspace,
        harness: Harness {
            id: &row.harness_id,
            version: &row.harness_version,
        },
        case_id: &row.case_id,
        status: row.status.as_str(),
        created_by: &row.submitted_by,
        runtime: &row.runtime,
        case_spec: raw(Some(&row.case_spec).filter(|_| full))?,
        kind: "eval",
        class: &row.priority,
        lifetime: "task",
        origin: Origin {
            cause: "api",
            actor: &row.submitted_by,
        },
        placement: Placement {
            r#where: "runtime",
            target: &row.runtime,
        },
        attach: ["logs"],
        created_at: clock::iso(row.created_at),
        updated_at: clock::iso(row.updated_at),
        started_at: row.started_at.map(clock::iso),
        leased_by: row.leased_by.as_deref(),
        requeues: row.requeues,
        note: row.note.as_deref().filter(|_| row.status == RunStatus::Queued),
        error: row.error.as_ref().map(|(code, message)| Error { code, message }),
        result: raw(row.result.as_ref().filter(|_| full))?,
        usage: raw(row.usage.as_ref())?,
        batch_id: row.batch.as_deref(),
        verdict: row.verdict.as_deref(),
        // A number's text is its JSON.
        score: raw(row.score.as_ref())?,
    })
}

fn raw(text: Option<&String>) -> Result<Option<&RawValue>, serde_json::Error> {
    text.map(|text| serde_json::from_str(text)).transpose()
}

fn is_zero(count: &i64) -> bool {
    *count == 0
}
