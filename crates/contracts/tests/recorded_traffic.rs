//! Reads recorded traffic of an existing control plane and its runner, where such recordings are at hand.
//!
//! Every message that this crate has a type for is decoded and written again; what comes out must be what came in,
//! but for the keys that `tally` lists. The folder is named by `EVERDICT_WIRE_DIR`, or found beside the workspace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use everdict_contracts::{
    AcceptedReply, CaseJob, ErrorBody, FailArgs, FsAnswerArgs, FsAnswerReply, FsPollArgs, FsPollReply,
    HarnessInstance, HarnessSpec, HarnessTemplate, HeartbeatArgs, HeartbeatReply, LeaseArgs, LeaseReply, Me,
    PairBody, PairedRunner, PushReply, ReportLogArgs, ReportScreenArgs, ReportTraceArgs, ReportTrackArgs,
    RevokedReply, RunLogs, RunRecord, RunRequest, RunnerList, SubmitArgs, decode, resolve,
};
use serde_json::Value;
use tally::Tally;

#[path = "recorded_traffic/tally.rs"]
mod tally;

/// How many messages of each sort the recordings hold, arguments and replies of a tool taken together. A reader that passes messages by falls below.
const FLOORS: &[(&str, usize)] = &[
    ("answer_case_fs_request", 2),
    ("error body", 11),
    ("fail_job", 8),
    ("harness instance", 3),
    ("harness template", 3),
    ("heartbeat_job", 84),
    ("job", 48),
    ("lease_job arguments", 74),
    ("lease_job reply", 74),
    ("me", 3),
    ("pairing", 82),
    ("poll_case_fs_requests", 34),
    ("refused arguments", 11),
    ("report_case_log", 176),
    ("report_case_screen", 2),
    ("report_case_trace", 48),
    ("resolved harness", 2),
    ("revoke_runner reply", 2),
    ("roster", 19),
    ("run logs", 2),
    ("run record", 737),
    ("run request", 73),
    ("submit_job_result", 100),
];

/// One line of a recording that says what was asked, with the answer when it came.
struct Exchange {
    method: String,
    path: String,
    body: Value,
    status: u64,
    answer: Value,
}

fn exchanges(file: &Path) -> Vec<Exchange> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut requests = BTreeMap::new();
    let mut statuses = BTreeMap::new();
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let entry: Value = serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("{}:{}: {error}", file.display(), number + 1));
        let id = entry["id"].to_string();
        match entry["kind"].as_str() {
            Some("req") => {
                requests.insert(id, entry);
            }
            Some("res") => {
                statuses.insert(id, entry["status"].as_u64().unwrap_or_default());
            }
            Some(kind @ ("sse" | "end")) => {
                let answer = if kind == "sse" {
                    entry["frame"]["data"].clone()
                } else {
                    entry["body"].clone()
                };
                let Some(request) = requests.get(&id) else {
                    continue;
                };
                found.push(Exchange {
                    method: request["method"].as_str().unwrap_or_default().to_owned(),
                    path: request["path"].as_str().unwrap_or_default().to_owned(),
                    body: request["body"].clone(),
                    status: statuses.get(&id).copied().unwrap_or_default(),
                    answer,
                });
            }
            _ => {}
        }
    }
    found
}

/// Why a control plane refused a call that this crate takes on purpose: long texts are clipped, not refused.
fn is_clamped(arguments: &Value) -> bool {
    arguments["status"]
        .as_str()
        .is_some_and(|status| status.len() > everdict_contracts::MAX_STATUS_CHARS)
}

fn tool_call(tally: &mut Tally, exchange: &Exchange) {
    let Some(tool) = exchange.body["params"]["name"].as_str() else {
        return;
    };
    let arguments = &exchange.body["params"]["arguments"];
    let result = &exchange.answer["result"];
    let Some(text) = result["content"][0]["text"].as_str() else {
        return;
    };
    if result["isError"] == Value::Bool(true) {
        if text.starts_with("MCP error -32602: Input validation error") && !is_clamped(arguments) {
            refused_call(tally, tool, arguments);
        }
        return;
    }
    let reply: Value = serde_json::from_str(text).expect("a tool's text is JSON");
    match tool {
        "lease_job" => {
            tally.round_trip::<LeaseArgs>("lease_job arguments", arguments);
            let lease = tally.round_trip::<LeaseReply>("lease_job reply", &reply);
            if let Some(LeaseReply::Leased(lease)) = lease {
                tally.round_trip::<CaseJob>("job", &lease.job);
            }
        }
        "submit_job_result" => {
            tally.call::<SubmitArgs, AcceptedReply>("submit_job_result", arguments, &reply);
        }
        "fail_job" => tally.call::<FailArgs, AcceptedReply>("fail_job", arguments, &reply),
        "heartbeat_job" => tally.call::<HeartbeatArgs, HeartbeatReply>("heartbeat_job", arguments, &reply),
        "report_case_log" => tally.call::<ReportLogArgs, PushReply>("report_case_log", arguments, &reply),
        "report_case_screen" => {
            tally.call::<ReportScreenArgs, PushReply>("report_case_screen", arguments, &reply);
        }
        "report_case_trace" => {
            tally.call::<ReportTraceArgs, PushReply>("report_case_trace", arguments, &reply);
        }
        "poll_case_fs_requests" => {
            tally.call::<FsPollArgs, FsPollReply>("poll_case_fs_requests", arguments, &reply);
        }
        "answer_case_fs_request" => {
            tally.call::<FsAnswerArgs, FsAnswerReply>("answer_case_fs_request", arguments, &reply);
        }
        "pair_runner" => tally.call::<PairBody, PairedRunner>("pairing", arguments, &reply),
        "list_runners" => drop(tally.round_trip::<RunnerList>("roster", &reply)),
        "revoke_runner" => drop(tally.round_trip::<RevokedReply>("revoke_runner reply", &reply)),
        "cancel_run" => drop(tally.round_trip::<RunRecord>("run record", &reply)),
        other => panic!("no type for the reply of tool {other}"),
    }
}

fn refused_call(tally: &mut Tally, tool: &str, arguments: &Value) {
    const SORT: &str = "refused arguments";
    match tool {
        "lease_job" => tally.refused::<LeaseArgs>(SORT, arguments),
        "submit_job_result" => tally.refused::<SubmitArgs>(SORT, arguments),
        "fail_job" => tally.refused::<FailArgs>(SORT, arguments),
        "report_case_trace" => tally.refused::<ReportTraceArgs>(SORT, arguments),
        "report_case_track" => tally.refused::<ReportTrackArgs>(SORT, arguments),
        "pair_runner" => tally.refused::<PairBody>(SORT, arguments),
        other => panic!("no type for the arguments of tool {other}"),
    }
}

fn http_call(tally: &mut Tally, exchange: &Exchange, registry: &mut Registry) {
    let Exchange {
        method,
        path,
        body,
        status,
        answer,
    } = exchange;
    let path = path.split('?').next().unwrap_or_default();
    if answer.is_null() || !answer.is_object() || answer.as_object().is_some_and(serde_json::Map::is_empty) {
        return;
    }
    if *status >= 400 {
        if answer.get("code").is_some() {
            tally.round_trip::<ErrorBody>("error body", answer);
        }
        return;
    }
    match (
        method.as_str(),
        path.trim_start_matches('/')
            .split('/')
            .collect::<Vec<_>>()
            .as_slice(),
    ) {
        ("POST", ["runners"] | ["workspace", "runners"]) => {
            tally.call::<PairBody, PairedRunner>("pairing", body, answer);
        }
        ("GET", ["runners"] | ["workspace", "runners", ..]) => {
            tally.round_trip::<RunnerList>("roster", answer);
        }
        ("GET", ["me"]) => {
            tally.round_trip::<Me>("me", answer);
        }
        ("POST", ["runs"]) => {
            tally.round_trip::<RunRequest>("run request", body);
            tally.round_trip::<RunRecord>("run record", answer);
        }
        ("GET", ["runs", _]) | ("POST", ["runs", _, "cancel"]) => {
            tally.round_trip::<RunRecord>("run record", answer);
        }
        ("GET", ["runs", _, "logs"]) => {
            tally.round_trip::<RunLogs>("run logs", answer);
        }
        ("POST", ["harness-templates"]) => registry
            .templates
            .extend(tally.round_trip("harness template", body)),
        ("POST", ["harnesses"]) => registry
            .instances
            .extend(tally.round_trip("harness instance", body)),
        _ => {}
    }
}

/// What a recording registered, to be resolved and compared with what was leased.
#[derive(Default)]
struct Registry {
    templates: Vec<HarnessTemplate>,
    instances: Vec<HarnessInstance>,
}

impl Registry {
    fn check(&self, leased: &[HarnessSpec], tally: &mut Tally) {
        for instance in &self.instances {
            let Some(template) = self
                .templates
                .iter()
                .find(|template| template.reference() == instance.template)
            else {
                continue;
            };
            let resolved = match resolve(template, instance) {
                Ok(resolved) => resolved,
                Err(fault) => {
                    tally.faults.insert(format!("resolve: {fault}"));
                    continue;
                }
            };
            for spec in leased
                .iter()
                .filter(|spec| spec.id() == instance.id && spec.version() == instance.version)
            {
                tally.count("resolved harness");
                if *spec != resolved {
                    tally
                        .faults
                        .insert(format!("resolved {resolved:?} but leased {spec:?}"));
                }
            }
        }
    }
}

fn leased_spec(exchange: &Exchange) -> Option<HarnessSpec> {
    let text = exchange.answer["result"]["content"][0]["text"].as_str()?;
    let reply: Value = serde_json::from_str(text).ok()?;
    decode(&reply["job"]["harnessSpec"]).ok()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test has no captured environment to be handed"
)]
fn recordings() -> PathBuf {
    std::env::var_os("EVERDICT_WIRE_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/wire"),
        PathBuf::from,
    )
}

#[test]
fn recorded_messages_survive_a_round_trip() {
    let folder = recordings();
    if !folder.is_dir() {
        eprintln!(
            "SKIPPED recorded_messages_survive_a_round_trip: no recorded traffic at {}",
            folder.display()
        );
        return;
    }
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder can be read")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    let mut tally = Tally::default();
    for file in &files {
        let mut registry = Registry::default();
        let mut leased = Vec::new();
        for exchange in exchanges(file) {
            if exchange.path == "/mcp" {
                tool_call(&mut tally, &exchange);
                leased.extend(leased_spec(&exchange));
            } else {
                http_call(&mut tally, &exchange, &mut registry);
            }
        }
        registry.check(&leased, &mut tally);
    }
    let faults: Vec<_> = tally.faults.iter().cloned().collect();
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
    for (sort, floor) in FLOORS {
        let count = tally.counts.get(sort).copied().unwrap_or_default();
        assert!(
            count >= *floor,
            "read {count} of {sort}, expected at least {floor}"
        );
    }
}
