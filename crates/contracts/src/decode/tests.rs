use serde_json::json;

use super::*;
use crate::{CaseJob, CaseResult, LeaseArgs, LeaseReply, PairBody, ReportTrackArgs, SubmitArgs};

pub(super) const JOB: &str = include_str!("../../fixtures/job_command.json");
pub(super) const TOPOLOGY: &str = include_str!("../../fixtures/job_service.json");
pub(super) const RESULT: &str = include_str!("../../fixtures/result_full.json");

/// Decodes a document in which the value at `pointer` was replaced, or its key removed.
fn spoilt<T: DeserializeOwned + fmt::Debug>(
    document: &str,
    pointer: &str,
    value: Option<Value>,
) -> DecodeError {
    let mut json: Value = serde_json::from_str(document).unwrap();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = json
        .pointer_mut(parent)
        .unwrap_or_else(|| panic!("nothing at {pointer}"));
    match (parent, value) {
        (Value::Object(object), Some(value)) => {
            object.insert(name.to_owned(), value);
        }
        (Value::Object(object), None) => {
            object
                .remove(name)
                .unwrap_or_else(|| panic!("nothing at {pointer}"));
        }
        (Value::Array(items), Some(value)) => items[name.parse::<usize>().unwrap()] = value,
        _ => panic!("can't spoil {pointer}"),
    }
    decode::<T>(json).unwrap_err()
}

fn put(pointer: &str, value: Value) -> DecodeError {
    spoilt::<CaseJob>(JOB, pointer, Some(value))
}

fn put_topology(pointer: &str, value: Value) -> DecodeError {
    spoilt::<CaseJob>(TOPOLOGY, &format!("/harnessSpec{pointer}"), Some(value))
}

#[test]
fn a_fault_names_its_place_in_plain_structs() {
    let error = put("/evalCase/graders/1/id", json!(7));
    assert_eq!(error.path, "evalCase.graders[1].id");
    assert_eq!(error.message, "invalid type: integer `7`, expected a string");
    assert_eq!(
        error.to_string(),
        "evalCase.graders[1].id: invalid type: integer `7`, expected a string"
    );
}

#[test]
fn a_missing_field_names_itself_not_its_parent() {
    let error = spoilt::<CaseJob>(JOB, "/evalCase/task", None);
    assert_eq!(
        (error.path.as_str(), error.kind),
        ("evalCase.task", DecodeErrorKind::MissingField)
    );
    let error = spoilt::<CaseJob>(JOB, "/harnessSpec/command", None);
    assert_eq!(
        (error.path.as_str(), error.kind),
        ("harnessSpec.command", DecodeErrorKind::MissingField)
    );
}

#[test]
fn a_fault_names_its_place_inside_unions() {
    assert_eq!(put("/harnessSpec/setup/0", json!(1)).path, "harnessSpec.setup[0]");
    assert_eq!(
        put("/harnessSpec/trace/endpoint", json!(1)).path,
        "harnessSpec.trace.endpoint"
    );
    assert_eq!(
        put("/evalCase/env/source/git", json!("git@h:r")).path,
        "evalCase.env.source.git"
    );
    assert_eq!(
        put("/evalCase/env/source/ref", json!(1)).path,
        "evalCase.env.source.ref"
    );
    assert_eq!(
        put("/harnessSpec/trace/mapping/finalAnswer/1/pick", json!("middle")).path,
        "harnessSpec.trace.mapping.finalAnswer[1].pick"
    );
    assert_eq!(
        put_topology("/target/acquire/capacity/scale/min", json!(9)).path,
        "harnessSpec.target.acquire.capacity.scale.min"
    );
    assert_eq!(
        put_topology("/frontDoor/completion/done", json!({"field": "f"})).path,
        "harnessSpec.frontDoor.completion.done"
    );
    let error = spoilt::<CaseResult>(RESULT, "/trace/3/id", Some(json!(null)));
    assert_eq!(error.path, "trace[3].id");
    let error = spoilt::<CaseResult>(RESULT, "/trace/1/cost/inputTokens", Some(json!(-1)));
    assert_eq!(error.path, "trace[1].cost.inputTokens");
    let error = spoilt::<CaseResult>(RESULT, "/scores/0/traceEvents/0/stream", Some(json!("stdin")));
    assert_eq!(error.path, "scores[0].traceEvents[0].stream");
    let error = decode::<ReportTrackArgs>(json!({"item": {"track": "nav", "entry": {"t": 1}}})).unwrap_err();
    assert_eq!(error.path, "item.entry.url");
}

#[test]
fn a_fault_of_a_call_is_found_under_its_argument() {
    let result: Value = serde_json::from_str(RESULT).unwrap();
    let mut call = json!({"jobId": "j", "leaseEpoch": 0, "result": result});
    assert_eq!(decode::<SubmitArgs>(&call).unwrap_err().path, "leaseEpoch");
    call["leaseEpoch"] = json!(1);
    call["result"]["snapshot"]["changedFiles"] = json!([false]);
    assert_eq!(
        decode::<SubmitArgs>(&call).unwrap_err().path,
        "result.snapshot.changedFiles[0]"
    );
    call["result"]["snapshot"] = json!({"kind": "prompt"});
    call.as_object_mut().unwrap().remove("leaseEpoch");
    assert_eq!(decode::<SubmitArgs>(&call).unwrap_err().path, "leaseEpoch");
}

#[test]
fn keys_that_are_no_words_are_quoted_in_a_path() {
    let error = put("/evalCase/env/source", json!({"files": {"a `b`.txt": 1}}));
    assert_eq!(error.path, r#"evalCase.env.source.files["a \u0060b\u0060.txt"]"#);
    let error = put("/harnessSpec/env/A.B", json!({"secretRef": ""}));
    assert_eq!(error.path, r#"harnessSpec.env["A.B"].secretRef"#);
}

#[test]
fn an_unknown_discriminator_lists_the_known_ones() {
    let error = put("/evalCase/env/kind", json!("vm"));
    assert_eq!(
        (error.path.as_str(), error.kind),
        ("evalCase.env.kind", DecodeErrorKind::UnknownDiscriminator)
    );
    assert_eq!(
        error.message,
        "unknown discriminator `vm`, expected one of `repo`, `browser`, `prompt`, `os-use`"
    );
    let error = spoilt::<CaseResult>(RESULT, "/trace/0/kind", None);
    assert_eq!(
        (error.path.as_str(), error.kind),
        ("trace[0].kind", DecodeErrorKind::UnknownDiscriminator)
    );
}

#[test]
fn an_unknown_literal_lists_the_known_ones() {
    let error = put("/priority", json!("urgent"));
    assert_eq!(
        error.message,
        "unknown variant `urgent`, expected `interactive` or `batch`"
    );
}

#[test]
fn null_never_stands_for_an_absent_field() {
    for pointer in [
        "/evalCase/image",
        "/harnessSpec",
        "/tenant",
        "/trial",
        "/registryAuths",
        "/harnessSpec/workDir",
    ] {
        let error = put(pointer, Value::Null);
        assert_eq!(format!("/{}", error.path.replace('.', "/")), pointer, "{error}");
    }
}

#[test]
fn unknown_keys_are_ignored_but_for_the_strict_objects() {
    let mut job: Value = serde_json::from_str(TOPOLOGY).unwrap();
    for pointer in [
        "",
        "/evalCase",
        "/harnessSpec",
        "/harnessSpec/services/0",
        "/harnessSpec/frontDoor/completion",
    ] {
        job.pointer_mut(pointer).unwrap()["later"] = json!({"x": [1]});
    }
    decode::<CaseJob>(job).unwrap();
    for strict in [
        "/services/0/requires",
        "/services/0/exec",
        "/services/1/exec/provision",
        "/services/1/exec/artifact",
        "/services/1/exec/artifact/headers/Authorization",
        "/services/0/wiring/0",
        "/dependencies/0/inject/0",
        "/dependencies/0/storeConfig",
        "/frontDoor/request/files/0",
        "/frontDoor/traceInline",
    ] {
        let error = put_topology(&format!("{strict}/later"), json!(1));
        assert_eq!(error.kind, DecodeErrorKind::UnknownKey, "{strict}: {error}");
        assert_eq!(
            depth(&error.path),
            strict.matches('/').count() + 2,
            "{strict}: {error}"
        );
        assert!(
            error.path.ends_with(".later") && error.message.starts_with("unknown key, expected"),
            "{error}"
        );
    }
    assert_eq!(
        put("/harnessSpec/model/later", json!(1)).kind,
        DecodeErrorKind::UnknownKey
    );
    assert_eq!(
        put("/harnessSpec/model/env/later", json!(1)).kind,
        DecodeErrorKind::UnknownKey
    );
}

#[test]
fn bounds_and_cross_field_rules_hold() {
    assert_eq!(put("/evalCase/timeoutSec", json!(0)).path, "evalCase.timeoutSec");
    assert_eq!(
        put("/evalCase/resources/cpu", json!(1.5)).path,
        "evalCase.resources.cpu"
    );
    assert_eq!(put("/recordingGeneration", json!(-1)).path, "recordingGeneration");
    assert_eq!(put("/harnessSpec/version", json!("")).path, "harnessSpec.version");
    assert_eq!(
        put("/registryAuth/password", json!("")).path,
        "registryAuth.password"
    );
    assert_eq!(
        put("/evalCase/network/mode", json!("public")).path,
        "evalCase.network.allowedHosts"
    );
    assert_eq!(
        put("/evalCase/network/allowedHosts/0", json!("")).path,
        "evalCase.network.allowedHosts[0]"
    );
    assert_eq!(
        put_topology("/services/1/image", json!("i")).path,
        "harnessSpec.services[1].image"
    );
    assert_eq!(
        put_topology("/services/1/exec/command", json!([])).path,
        "harnessSpec.services[1].exec.command"
    );
    assert_eq!(
        put_topology("/services/0", json!({"name": "a"})).path,
        "harnessSpec.services[0].image"
    );
    assert_eq!(
        put_topology("/services/1/exec/artifact/checksum", json!("md5:00")).path,
        "harnessSpec.services[1].exec.artifact.checksum"
    );
    assert_eq!(
        put_topology("/dependencies/0/isolateBy", json!("external")).path,
        "harnessSpec.dependencies[0].inject"
    );
    let error = put_topology("/dependencies/0/inject/0/template", json!("{bucket}"));
    assert_eq!(error.path, "harnessSpec.dependencies[0].inject[0].template");
    assert_eq!(
        put_topology("/frontDoor/completion", json!({"mode": "trace"})).path,
        "harnessSpec.frontDoor.correlate"
    );
    assert_eq!(
        decode::<LeaseArgs>(json!({"wait_ms": 60_001})).unwrap_err().path,
        "wait_ms"
    );
    let error = decode::<PairBody>(json!({"label": "x", "capabilities": ["git", "repo"]})).unwrap_err();
    assert_eq!(error.path, "capabilities[1]");
    assert_eq!(
        decode::<PairBody>(json!({"label": "x".repeat(81)}))
            .unwrap_err()
            .path,
        "label"
    );
}

#[test]
fn version_skew_is_told_from_plain_mistakes() {
    assert!(
        put("/evalCase/env/kind", json!("vm")).is_version_skew(),
        "an unknown discriminator"
    );
    assert!(
        put_topology("/services/0/requires/later", json!(1)).is_version_skew(),
        "an unknown key"
    );
    assert!(
        put("/harnessSpec/setup/0", json!(1)).is_version_skew(),
        "anything in the harness"
    );
    assert!(
        put("/harnessSpec", json!(1)).is_version_skew(),
        "the harness itself"
    );
    assert!(
        put("/priority", json!("urgent")).is_version_skew(),
        "the top level"
    );
    assert!(
        decode::<CaseJob>("[]").unwrap_err().is_version_skew(),
        "the document"
    );
    assert!(
        !put("/evalCase/task", json!(1)).is_version_skew(),
        "a plain mistake"
    );
    assert!(
        !put("/harness/id", json!(1)).is_version_skew(),
        "a plain mistake in a sibling of the spec"
    );
}

#[test]
fn text_that_is_no_json_is_refused_with_its_line() {
    let error = decode::<CaseJob>("{\n  nope").unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::Syntax);
    assert!(
        error.to_string().starts_with("(root): not valid JSON: ") && error.message.contains("line 2"),
        "{error}"
    );
}

#[test]
fn a_job_that_cannot_be_read_keeps_its_token() {
    let reply: LeaseReply =
        decode(json!({"jobId": "j", "job": {"evalCase": 1}, "attempt": {"jobId": "j", "leaseEpoch": 4}}))
            .unwrap();
    let LeaseReply::Leased(lease) = reply else {
        panic!("{reply:?}")
    };
    assert_eq!(lease.attempt.as_ref().unwrap().lease_epoch, 4);
    assert_eq!(lease.case_job().unwrap_err().path, "evalCase");
    assert_eq!(lease.ttl_ms(), 120_000);
}
