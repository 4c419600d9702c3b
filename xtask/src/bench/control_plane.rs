//! The management side of a control plane, as the benchmark needs it: pair, submit, read runs.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::ToolResult;

/// Longest wait for one run; a benchmark that needs more is broken, not slow.
const RUN_DEADLINE: Duration = Duration::from_secs(60);
/// Pause between two looks at one run whose times are taken from its record: it only delays the next sample.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The same while a whole queue drains: looking must not compete with what is measured.
const GLANCE_EVERY: Duration = Duration::from_millis(20);

#[derive(Clone)]
pub(super) struct ControlPlane {
    http: reqwest::Client,
    base: String,
    key: Option<String>,
}

/// One finished run, in milliseconds.
pub(super) struct Sample {
    /// From just before POST /runs to the start of the job's process.
    pub(super) pickup_ms: f64,
    /// What hub and runner add after the process started: (finished − started) minus the child's own time.
    pub(super) overhead_ms: f64,
}

impl ControlPlane {
    pub(super) fn new(base: &str, key: Option<&str>) -> ToolResult<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(30))
            .build()?;
        Ok(Self {
            http,
            base: base.trim_end_matches('/').to_owned(),
            key: key.map(ToOwned::to_owned),
        })
    }

    async fn call(&self, method: reqwest::Method, path: &str, body: Option<Value>) -> ToolResult<Value> {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await?;
        let status = response.status();
        let text = response.text().await?;
        if !status.is_success() {
            return Err(format!("{path}: {status}: {text}").into());
        }
        if text.is_empty() {
            Ok(Value::Null)
        } else {
            Ok(serde_json::from_str(&text)?)
        }
    }

    /// Pairs a runner; returns its id and its token.
    pub(super) async fn pair(&self) -> ToolResult<(String, String)> {
        let body = json!({"label": "bench", "capabilities": ["git"]});
        let reply = self.call(reqwest::Method::POST, "/runners", Some(body)).await?;
        let id = reply["runner"]["id"]
            .as_str()
            .ok_or("pairing reply has no runner.id")?;
        let token = reply["token"].as_str().ok_or("pairing reply has no token")?;
        Ok((id.to_owned(), token.to_owned()))
    }

    pub(super) async fn unpair(&self, id: &str) -> ToolResult<()> {
        self.call(reqwest::Method::DELETE, &format!("/runners/{id}"), None)
            .await
            .map(drop)
    }

    /// When the hub last heard the runner, in epoch milliseconds.
    pub(super) async fn last_seen_ms(&self, id: &str) -> ToolResult<Option<f64>> {
        let roster = self.call(reqwest::Method::GET, "/runners", None).await?;
        let row = roster["runners"]
            .as_array()
            .and_then(|rows| rows.iter().find(|row| row["id"] == id));
        Ok(row
            .and_then(|row| row["lastSeenAt"].as_str())
            .and_then(parse_iso_ms))
    }

    /// Submits one case whose command does nothing; returns the run id.
    pub(super) async fn submit(&self, runner: &str, case: &str) -> ToolResult<String> {
        let body = json!({
            "harness": {"id": "bench-true", "version": "1.0.0"},
            "harnessSpec": {"kind": "command", "id": "bench-true", "version": "1.0.0", "command": "true"},
            "case": {
                "id": case,
                "env": {"kind": "prompt"},
                "task": "do nothing",
                "graders": [{"id": "steps"}],
                "timeoutSec": 60,
                "placement": {"target": format!("self:{runner}")},
            },
        });
        let reply = self.call(reqwest::Method::POST, "/runs", Some(body)).await?;
        reply["id"]
            .as_str()
            .map(ToOwned::to_owned)
            .ok_or_else(|| "POST /runs reply has no id".into())
    }

    /// Waits until the run has ended and returns its record.
    pub(super) async fn finished(&self, run: &str) -> ToolResult<Value> {
        self.finished_looking_every(run, LOOK_EVERY).await
    }

    /// The same for the last run of a queue.
    pub(super) async fn drained(&self, run: &str) -> ToolResult<Value> {
        self.finished_looking_every(run, GLANCE_EVERY).await
    }

    async fn finished_looking_every(&self, run: &str, pause: Duration) -> ToolResult<Value> {
        let deadline = Instant::now() + RUN_DEADLINE;
        loop {
            let record = self
                .call(reqwest::Method::GET, &format!("/runs/{run}"), None)
                .await?;
            match record["status"].as_str() {
                Some("succeeded") => return Ok(record),
                Some("failed") => return Err(format!("run {run} failed: {record}").into()),
                _ if Instant::now() > deadline => {
                    return Err(format!("run {run} did not end: {record}").into());
                }
                _ => tokio::time::sleep(pause).await,
            }
        }
    }

    /// Submits one case, waits for its end, and takes the times from the record.
    pub(super) async fn measured_run(&self, runner: &str, case: &str) -> ToolResult<Sample> {
        let submitted_ms = now_ms();
        let run = self.submit(runner, case).await?;
        let record = self.finished(&run).await?;
        let trace = record["result"]["trace"]
            .as_array()
            .ok_or("result has no trace")?;
        let exit = trace
            .iter()
            .find(|event| event["kind"] == "env_action" && event["action"] == "command.exit")
            .ok_or("trace has no command.exit event")?;
        let started_ms = exit["t"].as_f64().ok_or("command.exit has no t")?;
        let child_ms = exit["durationMs"]
            .as_f64()
            .or(exit["detail"]["durationMs"].as_f64())
            .unwrap_or(0.0);
        let finished_ms = record["finishedAt"]
            .as_str()
            .or_else(|| record["updatedAt"].as_str())
            .and_then(parse_iso_ms)
            .ok_or("record has neither finishedAt nor updatedAt")?;
        Ok(Sample {
            pickup_ms: started_ms - submitted_ms,
            overhead_ms: (finished_ms - started_ms - child_ms).max(0.0),
        })
    }
}

/// Now, in epoch milliseconds with the fraction.
pub(super) fn now_ms() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64() * 1000.0)
}

/// Parses `YYYY-MM-DDTHH:MM:SS[.fraction]Z` to epoch milliseconds.
fn parse_iso_ms(text: &str) -> Option<f64> {
    let (date, time) = text.trim_end_matches('Z').split_once('T')?;
    let mut date = date.split('-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let mut time = time.split(':');
    let (hour, minute) = (
        time.next()?.parse::<f64>().ok()?,
        time.next()?.parse::<f64>().ok()?,
    );
    let second = time.next()?.parse::<f64>().ok()?;
    // Days since 1970-01-01 in the proleptic Gregorian calendar, with years starting in March.
    let (y, m) = if month <= 2 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let era = y.div_euclid(400);
    let year_of_era = y - era * 400;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + (153 * m + 2) / 5 + day - 1;
    let days = era * 146_097 + day_of_era - 719_468;
    Some((days as f64 * 86_400.0 + hour * 3600.0 + minute * 60.0 + second) * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iso_times_parse_to_epoch_milliseconds() {
        assert_eq!(parse_iso_ms("1970-01-01T00:00:00Z"), Some(0.0));
        assert_eq!(
            parse_iso_ms("2026-11-29T11:42:50.300Z"),
            Some(1_795_952_570_300.0)
        );
        assert_eq!(parse_iso_ms("soon"), None);
    }
}
