use std::time::Duration;

use everdict_contracts::{CaseFailure, ErrorCode, FailureClass, FailureStage, JobId, RunnerId};
use everdict_runner_core::attempt::Form;
use everdict_runner_core::capabilities::CapabilityReport;
use everdict_runner_core::{Counters, OfflineCause};

use super::super::detail::Parts;
use super::super::hold::Hold;
use super::*;
use crate::secrets::StoreKind;
use everdict_contracts::Judged;

fn desk(dir: &std::path::Path) -> Desk {
    let frame = Frame {
        version: "0.1.0".to_owned(),
        machine: MachineView {
            name: "bench".to_owned(),
            system: "Linux".to_owned(),
            arch: "x86_64".to_owned(),
            cpus: 8,
            ..MachineView::default()
        },
        tray_host: true,
        keyring: KeyringState::Ok,
    };
    Desk::new(frame, Choices::default(), History::load(dir, Timestamp::now()))
}

fn registration(id: &str) -> Registration {
    Registration {
        runner_id: RunnerId::from(id),
        label: format!("label-{id}"),
        hub_url: "http://127.0.0.1:8787".to_owned(),
        owner: "key:default".to_owned(),
        workspace: "default".to_owned(),
        store: StoreKind::File,
        paired_at: "2026-01-01T00:00:00Z".to_owned(),
    }
}

fn seat(id: &str, runner: SeatState) -> Seat {
    Seat {
        registration: registration(id),
        embedded: true,
        slots: 1,
        runner,
    }
}

fn running(state: RunnerState) -> SeatState {
    SeatState::Started(RunnerSnapshot {
        state,
        active: Vec::new(),
        last_answer: None,
        hub_pause: None,
        capabilities: CapabilityReport::default(),
        counters: Counters::default(),
        note: None,
    })
}

fn offline() -> SeatState {
    running(RunnerState::Offline {
        cause: OfflineCause::Refused,
        detail: "nothing listens there".to_owned(),
    })
}

fn revoked() -> SeatState {
    running(RunnerState::Revoked {
        reason: "gone".to_owned(),
    })
}

fn active(id: &str) -> ActiveJob {
    ActiveJob {
        job_id: JobId::from(id),
        lease_epoch: 1,
        case_id: "case".into(),
        harness: "h@1".to_owned(),
        run_id: None,
        started: Timestamp::now(),
        stopping: None,
    }
}

fn summary(outcome: Outcome, failure: Option<CaseFailure>) -> JobSummary {
    JobSummary {
        job_id: JobId::from("j"),
        case_id: "case".into(),
        run_id: None,
        outcome,
        duration: Duration::from_secs(1),
        scores: Vec::new(),
        failure,
    }
}

fn failure(code: &str, class: FailureClass) -> CaseFailure {
    CaseFailure {
        stage: FailureStage::Run,
        class,
        code: code.to_owned(),
        message: "why".to_owned(),
        retryable: false,
        runner_id: None,
        placement: None,
        log_tail: None,
    }
}

#[test]
fn what_needs_the_person_comes_before_what_works() {
    let dir = tempfile::tempdir().unwrap();
    let state = |seats: Vec<SeatState>, hold| {
        let mut desk = desk(dir.path());
        desk.choices.hold = hold;
        desk.seats = seats
            .into_iter()
            .enumerate()
            .map(|(n, runner)| seat(&n.to_string(), runner))
            .collect();
        desk.snapshot(Timestamp::now()).state
    };
    let idle = || running(RunnerState::Idle);
    let busy = || running(RunnerState::Running);
    assert_eq!(state(vec![], Hold::None), AppState::Unpaired);
    assert_eq!(state(vec![SeatState::Waiting], Hold::None), AppState::Starting);
    assert_eq!(state(vec![idle(), busy()], Hold::None), AppState::Running);
    assert_eq!(state(vec![offline(), idle()], Hold::None), AppState::Idle);
    assert_eq!(state(vec![offline()], Hold::None), AppState::Offline);
    assert_eq!(state(vec![busy()], Hold::UntilResumed), AppState::Paused);
    assert_eq!(state(vec![offline()], Hold::UntilResumed), AppState::Paused);
    assert_eq!(
        state(vec![idle(), revoked()], Hold::UntilResumed),
        AppState::Attention
    );
}

#[test]
fn the_cause_stands_beside_the_word() {
    let dir = tempfile::tempdir().unwrap();
    let mut desk = desk(dir.path());
    desk.seats = vec![seat("a", offline())];
    assert_eq!(
        desk.snapshot(Timestamp::now()).state_text,
        "nothing listens there"
    );
    desk.trouble = Some(Failure {
        code: "machine".to_owned(),
        message: "the port is taken".to_owned(),
        fix: None,
    });
    let snapshot = desk.snapshot(Timestamp::now());
    assert_eq!(
        (snapshot.state, snapshot.state_text.as_str()),
        (AppState::Attention, "the port is taken")
    );
}

#[test]
fn every_event_has_the_next_number_and_no_change_makes_none() {
    let dir = tempfile::tempdir().unwrap();
    let mut desk = desk(dir.path());
    let now = Timestamp::now();
    let Some(AppEvent::Snapshot { seq: 1, .. }) = desk.changes(now) else {
        panic!("the first look is a change");
    };
    assert_eq!(desk.changes(now), None);
    let Some(AppEvent::Job { seq: 2, job }) = desk.begin(&active("j"), &registration("a")) else {
        panic!("a job began");
    };
    assert_eq!((job.id.as_str(), job.outcome), ("j", None));
    assert_eq!(desk.begin(&active("j"), &registration("a")), None);
    let Some(AppEvent::Snapshot { seq: 3, snapshot }) = desk.changes(now) else {
        panic!("the list of jobs changed");
    };
    assert_eq!((snapshot.seq, snapshot.active.len()), (3, 1));
    let end = End {
        summary: Some(&summary(Outcome::Cancelled, None)),
        ending: None,
    };
    assert!(matches!(
        desk.end("j", end, now),
        Some(AppEvent::Job { seq: 4, .. })
    ));
    assert_eq!(desk.snapshot(now).seq, 4);
}

#[test]
fn each_way_to_end_has_its_own_outcome() {
    let judged = |verdict| {
        Some(Ending {
            judged: Judged {
                verdict,
                reason: None,
            },
            failure: None,
            parts: Parts::default(),
            handed_back: false,
        })
    };
    let accepted = Outcome::Accepted(Form::Result);
    let cancelled = failure(ErrorCode::Cancelled.as_str(), FailureClass::Infra);
    let infra = failure("UPSTREAM", FailureClass::Infra);
    for (outcome, failure, ending, wanted) in [
        (accepted, None, judged(Verdict::Pass), JobOutcome::Passed),
        (accepted, None, judged(Verdict::Fail), JobOutcome::Failed),
        (accepted, None, judged(Verdict::Timeout), JobOutcome::TimedOut),
        (
            accepted,
            None,
            judged(Verdict::Unmeasured),
            JobOutcome::Unmeasured,
        ),
        (accepted, Some(infra), None, JobOutcome::Infra),
        (accepted, Some(cancelled), None, JobOutcome::Cancelled),
        (
            Outcome::Cancelled,
            None,
            judged(Verdict::Pass),
            JobOutcome::Cancelled,
        ),
        (
            Outcome::LeaseLost,
            None,
            judged(Verdict::Pass),
            JobOutcome::HandedBack,
        ),
    ] {
        let summary = summary(outcome, failure);
        let end = End {
            summary: Some(&summary),
            ending,
        };
        assert_eq!(end.outcome(), wanted, "{summary:?}");
    }
    let missed = End {
        summary: None,
        ending: None,
    };
    assert_eq!(missed.outcome(), JobOutcome::HandedBack);
}

#[test]
fn a_capability_says_whose_decision_it_is_and_what_would_help() {
    let dir = tempfile::tempdir().unwrap();
    let mut desk = desk(dir.path());
    desk.choices.switched_off = [Capability::Git].into();
    let found = |capability, offer| CapabilityStatus {
        capability,
        offer,
        reason: "seen".to_owned(),
    };
    desk.capabilities = vec![
        found(Capability::Git, Offer::SwitchedOff),
        found(Capability::Docker, Offer::Absent),
        found(Capability::Gpu, Offer::Offered),
    ];
    let views = desk.snapshot(Timestamp::now()).capabilities;
    assert_eq!((views[0].on, views[0].state), (false, CapabilityState::OffByYou));
    assert_eq!((views[1].on, views[1].state), (true, CapabilityState::NotFound));
    assert!(views[1].fix.is_some());
    assert_eq!((views[2].state, &views[2].fix), (CapabilityState::Found, &None));
}
