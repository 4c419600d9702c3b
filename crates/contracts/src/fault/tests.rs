use serde_json::json;

use super::*;

#[test]
fn every_code_is_classified_as_the_protocol_says() {
    use FailureClass::{Config, Harness, Infra};
    use FailureStage::{Collect, Dispatch, Grade, Install, Run};
    let table = [
        (ErrorCode::BadRequest, Run, Config, false),
        (ErrorCode::NotFound, Run, Config, false),
        (ErrorCode::Conflict, Run, Config, false),
        (ErrorCode::Cancelled, Run, Infra, false),
        (ErrorCode::DriverProvisionFailed, Dispatch, Infra, true),
        (ErrorCode::ComputeExecFailed, Run, Harness, false),
        (ErrorCode::DriverSnapshotFailed, Run, Infra, true),
        (ErrorCode::HarnessInstallFailed, Install, Harness, false),
        (ErrorCode::HarnessRunFailed, Run, Harness, false),
        (ErrorCode::GraderFailed, Grade, Harness, false),
        (ErrorCode::TraceCollectFailed, Collect, Infra, true),
        (ErrorCode::UpstreamMisconfigured, Run, Infra, false),
        (ErrorCode::UpstreamError, Run, Infra, true),
        (ErrorCode::RateLimited, Run, Infra, true),
        (ErrorCode::BudgetExceeded, Run, Config, false),
        (ErrorCode::Unauthenticated, Run, Config, false),
        (ErrorCode::Forbidden, Run, Config, false),
        (ErrorCode::NotConfigured, Run, Infra, true),
        (ErrorCode::Internal, Run, Infra, true),
    ];
    assert_eq!(table.map(|row| row.0), ErrorCode::ALL);
    for (code, stage, class, retryable) in table {
        let failure = Fault::new(code, "m").failure();
        assert_eq!(
            (failure.stage, failure.class, failure.retryable),
            (stage, class, retryable),
            "{code}"
        );
        assert_eq!(failure.code, code.as_str());
    }
}

#[test]
fn a_code_is_written_as_it_is_printed() {
    for code in ErrorCode::ALL {
        assert_eq!(serde_json::to_value(code).unwrap(), json!(code.to_string()));
    }
}

#[test]
fn running_out_of_memory_is_no_fault_of_the_harness() {
    let failure = Fault::new(ErrorCode::ComputeExecFailed, "killed")
        .with_signal(SIGNAL_OOM)
        .failure();
    assert_eq!(
        (failure.code.as_str(), failure.class, failure.retryable),
        ("OOM_KILLED", FailureClass::Infra, false)
    );
}

#[test]
fn a_failure_carries_the_evidence() {
    let mut fault = Fault::new(ErrorCode::UpstreamError, "gone").with_log_tail("last words");
    fault.extra.runner_id = Some("r-1".into());
    fault.extra.placement = Some(FailurePlacement {
        unit: Some("u".into()),
        ..FailurePlacement::default()
    });
    let failure = fault.failure();
    assert_eq!(failure.log_tail.as_deref(), Some("last words"));
    assert_eq!(failure.runner_id.as_deref(), Some("r-1"));
    assert_eq!(failure.placement.unwrap().unit.as_deref(), Some("u"));

    fault.code = ErrorCode::Cancelled;
    assert_eq!(fault.failure().runner_id, None, "whoever ran it did not fail it");
}

#[test]
fn the_cause_is_told_once_where_nothing_else_tells_it() {
    let cause = std::io::Error::other("disk full");
    let fault = Fault::internal("write the journal").caused_by(cause);
    assert_eq!(fault.to_string(), "write the journal");
    assert_eq!(fault.full_message(), "write the journal: disk full");
    assert_eq!(fault.failure().message, "write the journal: disk full");
}

#[test]
fn an_error_body_has_data_only_when_there_is_some() {
    let body = |fault: Fault| serde_json::to_value(fault.body()).unwrap();
    assert_eq!(
        body(Fault::not_found("no such run")),
        json!({"code": "NOT_FOUND", "message": "no such run"})
    );
    assert_eq!(
        body(Fault::not_found("no runner").with_data("runnerId", "r")),
        json!({"code": "NOT_FOUND", "message": "no runner", "data": {"runnerId": "r"}})
    );
}
