//! Service cases over a real front door on the loopback, on a place for topologies that only keeps count.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod callback;
mod door;
mod drive;
mod lifecycle;
mod observe;
mod poll;
mod refusals;
mod stage;
mod stream;
mod target;
mod trace;

use everdict_contracts::{CaseResult, InfraEvent, TraceEventKind};
use serde_json::{Value, json};

/// A service job with one service and an inline trace; `change` is merged over it, objects key by key.
fn job(change: Value) -> Value {
    let mut job = json!({
        "evalCase": {
            "id": "case-1", "env": { "kind": "prompt" }, "task": "buy \"milk\"", "timeoutSec": 20,
            "graders": [{ "id": "steps" }],
        },
        "harness": { "id": "svc", "version": "1.0.0" },
        "harnessSpec": {
            "kind": "service", "id": "svc", "version": "1.0.0",
            "services": [{ "name": "web", "image": "example/web:1", "port": 8080 }],
            "frontDoor": { "service": "web", "submit": "POST /runs", "traceInline": { "path": "trace" } },
            "traceSource": { "kind": "otel", "endpoint": "http://127.0.0.1:1" },
        },
        "runId": "r1",
    });
    merge(&mut job, change);
    job
}

/// The same with another front door.
fn front_door(change: Value) -> Value {
    job(json!({ "harnessSpec": { "frontDoor": change } }))
}

fn merge(into: &mut Value, change: Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                if value.is_null() {
                    into.remove(&key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, change) => *into = change,
    }
}

fn infra(result: &CaseResult) -> Vec<&InfraEvent> {
    let events = result.trace.iter().filter_map(|event| match &event.kind {
        TraceEventKind::Infra(infra) => Some(infra),
        _ => None,
    });
    events.collect()
}

fn marks(result: &CaseResult) -> Vec<&str> {
    infra(result)
        .into_iter()
        .filter_map(|infra| infra.event.as_deref())
        .collect()
}

fn errors(result: &CaseResult) -> Vec<&str> {
    let events = result.trace.iter().filter_map(|event| match &event.kind {
        TraceEventKind::Error(error) => Some(error.message.as_str()),
        _ => None,
    });
    events.collect()
}
