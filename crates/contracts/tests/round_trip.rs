//! Fixtures that use every field survive a round trip; short ones show which defaults are filled in.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use everdict_contracts::{
    Acquire, CaseJob, CaseResult, CommandTraceSpec, Completion, Delivery, EnvSnapshot, EnvSpec, FsAnswer,
    HarnessInstance, HarnessTemplate, ImageProvenance, LeaseReply, RepoSource, RunRecord, TraceEvent,
    TrackEntry, decode, resolve,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn fixture(name: &str) -> Value {
    let path = format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn survives<T: DeserializeOwned + Serialize>(value: &Value) {
    let typed: T = decode(value).unwrap_or_else(|error| panic!("{error} in {value}"));
    assert_eq!(&serde_json::to_value(&typed).expect("it can be written"), value);
}

#[track_caller]
fn written<T: DeserializeOwned + Serialize>(value: &Value) -> Value {
    let typed: T = decode(value).unwrap_or_else(|error| panic!("{error} in {value}"));
    serde_json::to_value(&typed).expect("it can be written")
}

#[test]
fn jobs_survive_a_round_trip() {
    survives::<CaseJob>(&fixture("job_command.json"));
    survives::<CaseJob>(&fixture("job_service.json"));
}

#[test]
fn results_survive_a_round_trip_to_the_byte() {
    let result = fixture("result_full.json");
    survives::<CaseResult>(&result);
    let typed: CaseResult = decode(&result).unwrap();
    let text = serde_json::to_string(&typed).unwrap();
    let again: CaseResult = decode(&text).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
    assert!(text.contains(r#""t":0,"#), "integral times stay integers: {text}");
}

#[test]
fn recording_entries_survive_a_round_trip() {
    survives::<Vec<TrackEntry>>(&fixture("tracks.json"));
}

#[test]
fn every_variant_of_the_small_unions_survives_a_round_trip() {
    let trace_base = |kind: &str| json!({"kind": kind, "endpoint": "e", "collect": "job"});
    let mut phoenix = trace_base("phoenix");
    phoenix["project"] = json!("p");
    let mut mlflow = trace_base("mlflow");
    mlflow["correlate"] = json!("id");
    mlflow["experiment"] = json!("x");
    for value in [
        json!({"kind": "none"}),
        json!({"kind": "file", "path": "t.json"}),
        mlflow,
        trace_base("langfuse"),
        trace_base("langsmith"),
        phoenix,
    ] {
        survives::<CommandTraceSpec>(&value);
    }
    for value in [
        json!({"kind": "prompt", "context": "c"}),
        json!({"kind": "browser"}),
        json!({"kind": "os-use", "display": ":1", "setup": ["a"], "screenshotCmd": "c", "screenshotPath": "/p"}),
        json!({"kind": "repo", "source": {"files": {"a/b.txt": "hi"}}}),
        json!({"kind": "repo", "source": {"path": "/srv/tree"}, "setup": []}),
    ] {
        survives::<EnvSpec>(&value);
    }
    for value in [
        json!({"kind": "browser", "url": "u", "dom": "d", "domRef": "r", "screenshotRef": "s", "screenshot": "b", "console": ["c"]}),
        json!({"kind": "prompt", "output": "o"}),
        json!({"kind": "os-use", "screenshotRef": "r", "screenshot": "s", "windows": ["w"]}),
    ] {
        survives::<EnvSnapshot>(&value);
    }
    for value in [
        json!({"mode": "reference"}),
        json!({"mode": "egress", "sink": "s"}),
        json!({"mode": "trace"}),
    ] {
        survives::<Delivery>(&value);
    }
    survives::<Acquire>(&json!({"mode": "provision"}));
    for value in [
        json!({"mode": "sync", "timeoutMs": 5}),
        json!({"mode": "stream", "done": {"field": "f", "equals": 1}, "timeoutMs": 5}),
        json!({"mode": "callback", "timeoutMs": 5}),
        json!({"mode": "trace", "intervalMs": 1, "timeoutMs": 5}),
    ] {
        survives::<Completion>(&value);
    }
    survives::<ImageProvenance>(&json!({"kind": "none"}));
    for value in [
        json!({"kind": "fsTree"}),
        json!({"kind": "fsTree", "tree": {"files": [{"path": "a", "status": "added"}, {"path": "b"}], "truncated": true}}),
        json!({"kind": "fsFile", "file": {"path": "a", "size": 3, "binary": false, "truncated": false, "content": "abc", "diff": ""}}),
    ] {
        survives::<FsAnswer>(&value);
    }
}

#[test]
fn lease_replies_survive_a_round_trip() {
    let job = fixture("job_service.json");
    for value in [
        json!({"job": null}),
        json!({"job": null, "updateRequired": true, "serverProtocol": 2}),
        json!({"jobId": "j", "job": job, "attempt": {"jobId": "j", "leaseEpoch": 1}, "leaseTtlMs": 3000}),
        json!({"jobId": "j", "job": {"anything": [1.5]}}),
    ] {
        survives::<LeaseReply>(&value);
    }
}

#[test]
fn run_records_survive_a_round_trip() {
    survives::<RunRecord>(&json!({
        "id": "run-1", "tenant": "lab", "harness": {"id": "h", "version": "1"}, "caseId": "c",
        "status": "failed", "createdBy": "u-1", "runtime": "self", "kind": "eval", "class": "interactive",
        "lifetime": "task", "origin": {"cause": "api", "actor": "u-1"},
        "placement": {"where": "runtime", "target": "self"}, "attach": ["logs"],
        "createdAt": "2026-02-03T04:05:06.000Z", "updatedAt": "2026-02-03T04:05:07.000Z",
        "usage": {"promptTokens": 1, "completionTokens": 2, "totalTokens": 3, "usd": 0, "calls": 1},
        "error": {"code": "CANCELLED", "message": "stopped"},
        "liveTrace": {"kind": "otel", "endpoint": "e", "runId": "r"}
    }));
}

#[test]
fn a_short_job_is_filled_with_the_protocols_defaults() {
    let job = json!({
        "evalCase": {"id": "c", "env": {"kind": "prompt"}, "task": "t", "network": {"mode": "none"}, "later": 1},
        "harness": {"id": "h", "version": "1"},
        "harnessSpec": {"kind": "command", "id": "h", "version": "1", "command": "true", "liveScreen": {"captureCmd": "c"}},
        "addedLater": {"x": 1}
    });
    insta::assert_json_snapshot!(written::<CaseJob>(&job));
}

#[test]
fn a_short_topology_is_filled_with_the_protocols_defaults() {
    let mut job = fixture("job_service.json");
    job["harnessSpec"] = json!({
        "kind": "service", "id": "h", "version": "1",
        "services": [{"name": "api", "image": "i", "readiness": {}}],
        "dependencies": [{"store": "redis", "role": "r", "isolateBy": "schema", "inject": [{"env": "URL"}]}],
        "target": {
            "kind": "browser", "engine": "chromium",
            "acquire": {"mode": "service", "service": "api", "open": "POST /s", "coordinates": {},
                        "wait": {}, "ready": {"poll": "GET /r"}}
        },
        "frontDoor": {"service": "api", "submit": "POST /runs", "completion": {"mode": "trace"}},
        "traceSource": {"kind": "phoenix", "endpoint": "e"}
    });
    insta::assert_json_snapshot!(written::<CaseJob>(&job)["harnessSpec"]);
}

#[test]
fn an_instance_fills_its_template() {
    let template: HarnessTemplate = decode(fixture("template_service.json")).unwrap();
    let instance: HarnessInstance = decode(fixture("instance_service.json")).unwrap();
    insta::assert_json_snapshot!(resolve(&template, &instance).unwrap());
}

#[test]
fn the_first_form_that_fits_a_source_wins() {
    let source = |value: Value| decode::<RepoSource>(&value).unwrap();
    let both = source(json!({"git": "https://g.example/r", "ref": "main", "files": {}}));
    assert!(matches!(both, RepoSource::Git { .. }), "{both:?}");
    let fallen = source(json!({"git": "git@g.example:r", "ref": "main", "path": "/srv/r"}));
    assert_eq!(
        fallen,
        RepoSource::Path {
            path: "/srv/r".into()
        }
    );
}

#[test]
fn integral_floats_count_as_integers_and_fractions_do_not() {
    let epoch =
        |number: &str| decode::<TraceEvent>(&*format!(r#"{{"t":{number},"kind":"error","message":"m"}}"#));
    let event = epoch("1770091506000.0").unwrap();
    assert_eq!(
        serde_json::to_string(&event).unwrap(),
        r#"{"t":1770091506000,"kind":"error","message":"m"}"#
    );
    let job = |timeout: Value| {
        decode::<CaseJob>(&json!({
            "evalCase": {"id": "c", "env": {"kind": "prompt"}, "task": "t", "timeoutSec": timeout},
            "harness": {"id": "h", "version": ""}
        }))
    };
    assert_eq!(job(json!(600.0)).unwrap().eval_case.timeout_sec, 600);
    let error = job(json!(0.5)).unwrap_err();
    assert_eq!(error.path, "evalCase.timeoutSec");
}
