//! What the hub knows, and the tools over it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::Fault;

/// One call as it arrived.
#[derive(Debug, Clone)]
pub struct Call {
    /// Tool name, or `initialize`.
    pub tool: String,
    /// The `arguments` (for `initialize`: the params).
    pub args: Value,
    /// The whole JSON-RPC params.
    pub params: Value,
    /// Session id of the call, empty for `initialize`.
    pub session: String,
    /// When it arrived.
    pub at: Instant,
}

/// One leased job.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The current epoch.
    pub epoch: u64,
    /// Cancel was requested.
    pub cancelled: bool,
    /// The job has its answer.
    pub done: bool,
    /// The accepted result.
    pub result: Option<Value>,
    /// The accepted `fail_job` message.
    pub failure: Option<String>,
    /// Accepted log lines.
    pub log: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) json_replies: bool,
    pub(super) revoked: bool,
    pub(super) update_required: bool,
    pub(super) paused: Option<String>,
    pub(super) lease_ttl: Option<Duration>,
    pub(super) sessions: HashSet<String>,
    pub(super) opened: usize,
    pub(super) deleted: usize,
    pub(super) faults: Vec<(String, Fault)>,
    pub(super) queue: VecDeque<(String, Value)>,
    pub(super) leases: HashMap<String, Lease>,
    pub(super) calls: Vec<Call>,
    pub(super) waiting: usize,
    pub(super) rejected: usize,
    /// Session and request id of the calls that the client has called off.
    pub(super) called_off: HashSet<(String, String)>,
    pub(super) deaf: bool,
    /// Every request is answered with this status.
    pub(super) outage: Option<u16>,
    pub(super) missed: usize,
}

#[derive(Debug, Default)]
pub(super) struct State {
    inner: Mutex<Inner>,
    /// Rings on every change, for tests that wait.
    pub(super) changed: Notify,
    /// Rings on every enqueue, for long polls.
    queued: Notify,
}

/// Counts a waiting poll for as long as its request lives.
struct Waiting<'a>(&'a State);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.edit(|inner| inner.waiting -= 1);
    }
}

impl State {
    pub(super) fn edit<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let out = change(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_waiters();
        out
    }

    pub(super) fn read<T>(&self, look: impl FnOnce(&Inner) -> T) -> T {
        look(&self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn edit_lease(&self, job_id: &str, change: impl FnOnce(&mut Lease)) {
        self.edit(|inner| {
            if let Some(lease) = inner.leases.get_mut(job_id) {
                change(lease);
            }
        });
    }

    pub(super) fn pause(&self, reason: Option<&str>) {
        self.edit(|inner| inner.paused = reason.map(str::to_owned));
        self.queued.notify_waiters();
    }

    pub(super) fn enqueue(&self, job: Value) -> String {
        let job_id = uuid::Uuid::new_v4().to_string();
        self.edit(|inner| inner.queue.push_back((job_id.clone(), job)));
        self.queued.notify_waiters();
        job_id
    }

    /// Ends a call that waits, as its client asks.
    pub(super) fn call_off(&self, session: &str, request: &Value) {
        self.edit(|inner| inner.called_off.insert((session.to_owned(), request.to_string())));
    }

    /// Waits until the client calls this call off.
    pub(super) async fn called_off(&self, session: &str, request: &Value) {
        let call = (session.to_owned(), request.to_string());
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.read(|inner| !inner.deaf && inner.called_off.contains(&call)) {
                return;
            }
            changed.await;
        }
    }

    /// Takes the first armed fault for `tool`.
    pub(super) fn strike(&self, tool: &str) -> Option<Fault> {
        self.edit(|inner| {
            let index = inner.faults.iter().position(|(armed, _)| armed == tool)?;
            Some(inner.faults.remove(index).1)
        })
    }

    /// Runs a tool. `Err` is the text of an `isError` result.
    pub(super) async fn tool(self: &Arc<Self>, name: &str, args: &Value) -> Result<Value, String> {
        if let Some(status) = args.get("status").and_then(Value::as_str)
            && status.encode_utf16().count() > 200
        {
            return Err(validation(name, "status: at most 200 characters"));
        }
        match name {
            "lease_job" => Ok(self.lease(args).await),
            "heartbeat_job" => Ok(self.heartbeat(args)),
            "submit_job_result" => self.submit(args),
            "fail_job" => Ok(self.fail(args)),
            "report_case_log" => self.log(args),
            "report_case_trace" => self.trace(args),
            other => Err(format!("MCP error -32602: Tool {other} not found")),
        }
    }

    async fn lease(&self, args: &Value) -> Value {
        if self.read(|inner| inner.update_required) {
            return json!({"job": null, "updateRequired": true, "serverProtocol": 3});
        }
        let wait = Duration::from_millis(args["wait_ms"].as_u64().unwrap_or(0));
        let deadline = tokio::time::Instant::now() + wait;
        self.edit(|inner| inner.waiting += 1);
        let _waiting = Waiting(self);
        loop {
            let mut queued = std::pin::pin!(self.queued.notified());
            queued.as_mut().enable();
            if let Some(reason) = self.read(|inner| inner.paused.clone()) {
                return json!({"job": null, "paused": reason});
            }
            if let Some(reply) = self.take_lease() {
                return reply;
            }
            if tokio::time::timeout_at(deadline, queued).await.is_err() {
                return json!({"job": null});
            }
        }
    }

    fn take_lease(&self) -> Option<Value> {
        self.edit(|inner| {
            let (job_id, job) = inner.queue.pop_front()?;
            let lease = inner.leases.entry(job_id.clone()).or_insert_with(|| Lease {
                epoch: 0,
                cancelled: false,
                done: false,
                result: None,
                failure: None,
                log: Vec::new(),
            });
            lease.epoch += 1;
            let mut reply = json!({
                "jobId": job_id,
                "job": job,
                "attempt": {"jobId": job_id, "leaseEpoch": lease.epoch},
            });
            if let Some(ttl) = inner.lease_ttl {
                reply["leaseTtlMs"] = json!(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
            }
            Some(reply)
        })
    }

    /// Whether the call quotes the current lease; a cancelled lease counts only for heartbeats.
    fn holds(&self, args: &Value, writing: bool) -> bool {
        let Some(job_id) = args["jobId"].as_str() else {
            return false;
        };
        self.read(|inner| {
            inner.leases.get(job_id).is_some_and(|lease| {
                !lease.done
                    && args["leaseEpoch"].as_u64() == Some(lease.epoch)
                    && !(writing && lease.cancelled)
            })
        })
    }

    fn heartbeat(&self, args: &Value) -> Value {
        let Some(job_id) = args["jobId"].as_str() else {
            return json!({"ok": true});
        };
        let held = self.holds(args, false);
        let cancelled = held && self.read(|inner| inner.leases.get(job_id).is_some_and(|l| l.cancelled));
        let mut reply = json!({"ok": true, "extended": held && !cancelled, "cancelled": cancelled});
        if let Some(reason) = self.read(|inner| inner.paused.clone()) {
            reply["paused"] = json!(reason);
        }
        reply
    }

    fn submit(&self, args: &Value) -> Result<Value, String> {
        let result = &args["result"];
        if args["leaseEpoch"].as_u64().is_none() {
            return Err(validation("submit_job_result", "leaseEpoch: Required"));
        }
        for field in ["caseId", "harness", "trace", "snapshot", "scores"] {
            if result.get(field).is_none() {
                return Err(validation(
                    "submit_job_result",
                    &format!("result.{field}: Required"),
                ));
            }
        }
        // A made-up rule that lets a test send a result which the schema refuses.
        let poisoned = |event: &Value| event["message"] == "refused by the schema";
        if result["trace"]
            .as_array()
            .is_some_and(|trace| trace.iter().any(poisoned))
        {
            return Err(validation("submit_job_result", "result.trace.0: Invalid input"));
        }
        Ok(self.settle(args, |lease| lease.result = Some(result.clone())))
    }

    fn fail(&self, args: &Value) -> Value {
        let message = args["message"].as_str().unwrap_or_default().to_owned();
        self.settle(args, |lease| lease.failure = Some(message))
    }

    fn settle(&self, args: &Value, answer: impl FnOnce(&mut Lease)) -> Value {
        let accepted = self.holds(args, true);
        let job_id = args["jobId"].as_str().unwrap_or_default();
        if accepted {
            self.edit_lease(job_id, |lease| {
                lease.done = true;
                answer(lease);
            });
        }
        json!({"jobId": job_id, "accepted": accepted})
    }

    fn log(&self, args: &Value) -> Result<Value, String> {
        let line = args["line"].as_str().unwrap_or_default();
        if line.encode_utf16().count() > 16_000 {
            return Err(validation("report_case_log", "line: at most 16000 characters"));
        }
        if !self.holds(args, true) {
            return Ok(refused_push());
        }
        let job_id = args["jobId"].as_str().unwrap_or_default();
        self.edit_lease(job_id, |lease| {
            lease.log.extend(line.split('\n').map(str::to_owned));
        });
        Ok(json!({"ok": true, "durable": true}))
    }

    fn trace(&self, args: &Value) -> Result<Value, String> {
        let count = args["events"].as_array().map_or(0, Vec::len);
        if !(1..=500).contains(&count) {
            return Err(validation("report_case_trace", "events: between 1 and 500"));
        }
        if !self.holds(args, true) {
            return Ok(refused_push());
        }
        Ok(json!({"ok": true}))
    }
}

fn refused_push() -> Value {
    json!({"ok": false, "durable": false, "reason": "the attempt token is not a current lease"})
}

fn validation(tool: &str, what: &str) -> String {
    format!("MCP error -32602: Input validation error: Invalid arguments for tool {tool}: {what}")
}
