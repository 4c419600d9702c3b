use everdict_app::control::{
    AskView, AutostartState, ConsentKind, InvitationView, NoticesState, RunnerView, UpdateView, WaitingView,
};
use everdict_exec::HostEnv;

use super::*;

/// 2026-01-01T12:00:00Z.
const NOW: i64 = 1_767_268_800;

fn english() -> Words {
    Words::for_session(&HostEnv::from_pairs([("LANG", "C")]))
}

fn runner(hub: &str) -> RunnerView {
    RunnerView {
        id: "r-1".into(),
        label: "bench".into(),
        hub: hub.into(),
        target: "self:r-1".into(),
        state: AppState::Idle,
        state_text: String::new(),
        cause: None,
        last_answer_at: None,
        active: 0,
        slots: 1,
        embedded: false,
    }
}

fn capability(name: &str, on: bool, state: CapabilityState) -> CapabilityView {
    CapabilityView {
        name: name.into(),
        on,
        state,
        reason: String::new(),
        fix: None,
    }
}

fn snapshot(state: AppState) -> AppSnapshot {
    AppSnapshot {
        state,
        last_answer_at: Some("2026-01-01T11:59:56Z".into()),
        runners: vec![runner("https://team.example")],
        capabilities: vec![
            capability("git", true, CapabilityState::Found),
            capability("docker", false, CapabilityState::OffByYou),
            capability("gpu", true, CapabilityState::NotFound),
            capability("os-macos", true, CapabilityState::Found),
        ],
        ..AppSnapshot::blank()
    }
}

fn job(id: &str) -> JobView {
    JobView {
        id: id.into(),
        case_id: format!("case-{id}"),
        harness: "h@1".into(),
        workspace: "default".into(),
        started_at: "2026-01-01T11:57:30Z".into(),
        ended_at: None,
        outcome: None,
        runner: "bench".into(),
        tokens: None,
        cost_usd: None,
    }
}

/// The menu as a person reads it.
fn shown(snapshot: &AppSnapshot, stage: Stage) -> String {
    shown_in(&english(), snapshot, stage)
}

fn shown_in(words: &Words, snapshot: &AppSnapshot, stage: Stage) -> String {
    let model = TrayModel::new(snapshot, stage, words, NOW);
    let mut text = format!("[{:?}] {}\n", model.glyph, model.tooltip);
    lines(&model.items, 0, &mut text);
    text
}

fn lines(items: &[Item], depth: usize, text: &mut String) {
    for item in items {
        text.push_str(&"  ".repeat(depth));
        match item {
            Item::Line(line) => text.push_str(&format!("({line})\n")),
            Item::Separator => text.push_str("--\n"),
            Item::Press(_, line) => text.push_str(&format!("{line}\n")),
            Item::Switch(_, line, on) => text.push_str(&format!("{} {line}\n", if *on { "✓" } else { "–" })),
            Item::More(line, items) => {
                text.push_str(&format!("{line} ▸\n"));
                lines(items, depth + 1, text);
            }
        }
    }
}

#[test]
fn a_pause_with_an_end_says_when_on_the_clock_on_the_wall() {
    let mut snapshot = snapshot(AppState::Paused);
    let end = "2026-01-01T14:30:00Z";
    snapshot.paused_until = Some(end.into());
    let model = TrayModel::new(&snapshot, Stage::Working, &english(), NOW);
    let time = time_of_day(end).unwrap();
    assert_eq!(model.tooltip, format!("Paused until {time}"));
}

#[test]
fn an_offline_machine_says_for_how_long() {
    let mut snapshot = snapshot(AppState::Offline);
    snapshot.last_answer_at = Some("2026-01-01T11:48:00Z".into());
    insta::assert_snapshot!(shown(&snapshot, Stage::Working).lines().next().unwrap(), @"[Offline] Can't reach team.example · 12 min ago");
    snapshot.last_answer_at = Some("2026-01-01T09:00:00Z".into());
    insta::assert_snapshot!(shown(&snapshot, Stage::Working).lines().next().unwrap(), @"[Offline] Can't reach team.example · 3 h ago");
}

#[test]
fn what_needs_the_person_is_said_in_full_but_not_wider_than_a_menu() {
    let mut snapshot = snapshot(AppState::Attention);
    snapshot.last_answer_at = None;
    snapshot.state_text = "access revoked; pair again".into();
    insta::assert_snapshot!(shown(&snapshot, Stage::Working).lines().next().unwrap(), @"[Attention] Needs you: access revoked; pair again");
    snapshot.state_text = "x\n".repeat(500);
    let model = TrayModel::new(&snapshot, Stage::Working, &english(), NOW);
    assert!(model.tooltip.chars().count() <= MAX_TEXT + 1 && !model.tooltip.contains('\n'));
}

#[test]
fn a_start_without_an_answer_yet_is_no_green_light() {
    let mut snapshot = snapshot(AppState::Starting);
    snapshot.last_answer_at = None;
    insta::assert_snapshot!(shown(&snapshot, Stage::Working).lines().next().unwrap(), @"[Offline] Starting");
}

#[test]
fn several_hubs_share_no_name_and_the_language_is_the_person_s() {
    let mut snapshot = snapshot(AppState::Idle);
    snapshot.runners.push(runner("http://127.0.0.1:8787"));
    let korean = Words::for_session(&HostEnv::from_pairs([("LANG", "ko_KR.UTF-8")]));
    let model = TrayModel::new(&snapshot, Stage::Working, &korean, NOW);
    assert_eq!(model.tooltip, "대기 중 · 방금");
}

fn offline(cause: &str) -> AppSnapshot {
    AppSnapshot {
        cause: Some(cause.into()),
        last_answer_at: Some("2026-01-01T11:48:00Z".into()),
        ..snapshot(AppState::Offline)
    }
}

fn attention(cause: &str, text: &str) -> AppSnapshot {
    AppSnapshot {
        cause: Some(cause.into()),
        state_text: text.into(),
        ..snapshot(AppState::Attention)
    }
}

fn waiting(state: AppState, reason: WaitingReason) -> AppSnapshot {
    AppSnapshot {
        waiting: Some(WaitingView {
            reason,
            text: "as the engine says it".into(),
            since: "2026-01-01T11:00:00Z".into(),
        }),
        ..snapshot(state)
    }
}

fn running(jobs: &[&str]) -> AppSnapshot {
    AppSnapshot {
        active: jobs.iter().map(|id| job(id)).collect(),
        ..snapshot(AppState::Running)
    }
}

fn updating(state: UpdateState) -> AppSnapshot {
    AppSnapshot {
        update: Some(UpdateView {
            state,
            version: "1.4.0".into(),
            text: String::new(),
        }),
        ..snapshot(AppState::Idle)
    }
}

fn held_states() -> Vec<(&'static str, AppSnapshot)> {
    let paused = |until: &str| AppSnapshot {
        paused_until: Some(until.into()),
        ..snapshot(AppState::Paused)
    };
    vec![
        ("paused for ever", paused("resume")),
        (
            "paused by the hub",
            AppSnapshot {
                hub_pause: Some("maintenance".into()),
                ..snapshot(AppState::Paused)
            },
        ),
        (
            "finishing, then paused",
            AppSnapshot {
                paused_until: Some("resume".into()),
                cause: Some("finishing".into()),
                ..running(&["17"])
            },
        ),
        (
            "waiting: battery",
            waiting(AppState::Waiting, WaitingReason::Battery),
        ),
        (
            "waiting: metered",
            waiting(AppState::Waiting, WaitingReason::Metered),
        ),
        ("waiting: hours", waiting(AppState::Waiting, WaitingReason::Hours)),
        ("waiting: disk", waiting(AppState::Waiting, WaitingReason::Disk)),
        (
            "waiting: in use",
            waiting(AppState::Waiting, WaitingReason::InUse),
        ),
        (
            "waiting with a job",
            AppSnapshot {
                waiting: waiting(AppState::Waiting, WaitingReason::Battery).waiting,
                ..running(&["17"])
            },
        ),
    ]
}

fn troubled_states() -> Vec<(&'static str, AppSnapshot)> {
    let causes = [
        "refused",
        "dns",
        "tls",
        "timeout",
        "reset",
        "http",
        "not_a_hub",
        "call_refused",
        "malformed",
        "network",
    ];
    let mut all: Vec<_> = causes.map(|cause| (cause, offline(cause))).into();
    all.extend([
        ("revoked", attention("revoked", "access revoked; pair again")),
        ("removed", attention("removed", "removed by the hub")),
        (
            "keyring locked",
            attention("keyring_locked", "the keyring is locked"),
        ),
        (
            "newer app needed",
            attention("update_required", "the hub needs a newer runner"),
        ),
        (
            "other trouble",
            attention("machine", "can't write runners.json: the disk is full"),
        ),
        (
            "consent",
            AppSnapshot {
                asks: vec![AskView {
                    id: "a-1".into(),
                    hub: "https://team.example".into(),
                    workspace: "acme".into(),
                    harness: "h@1".into(),
                    kind: ConsentKind::Command,
                    case_id: "case-17".into(),
                    expires_at: "2026-01-01T12:00:20Z".into(),
                }],
                ..snapshot(AppState::Idle)
            },
        ),
        ("update waits", updating(UpdateState::Waiting)),
        ("update ready", updating(UpdateState::Ready)),
        ("update failed", updating(UpdateState::Failed)),
        ("update rolled back", updating(UpdateState::RolledBack)),
        (
            "nobody shows notices",
            AppSnapshot {
                notices: NoticesState::Unavailable,
                ..snapshot(AppState::Idle)
            },
        ),
    ]);
    all
}

/// Every state that the tray can be in.
fn states() -> Vec<(&'static str, AppSnapshot, Stage)> {
    let unpaired = AppSnapshot {
        runners: Vec::new(),
        last_answer_at: None,
        ..snapshot(AppState::Unpaired)
    };
    let starting = AppSnapshot {
        last_answer_at: None,
        ..snapshot(AppState::Starting)
    };
    let autostart = AppSnapshot {
        autostart: AutostartState::On,
        ..snapshot(AppState::Idle)
    };
    let link = AppSnapshot {
        deep_link: Some(InvitationView {
            hub: "https://team.example".into(),
            label: "bench".into(),
            text: String::new(),
            problem: None,
        }),
        ..unpaired.clone()
    };
    let mut all = vec![
        ("unpaired", unpaired),
        ("a link waits", link),
        ("starting", starting),
        ("idle", snapshot(AppState::Idle)),
        ("starts at login", autostart),
        ("running one", running(&["17"])),
        ("running three", running(&["17", "18", "19"])),
    ];
    all.extend(held_states());
    all.extend(troubled_states());
    let mut all: Vec<_> = all
        .into_iter()
        .map(|(name, snapshot)| (name, snapshot, Stage::Working))
        .collect();
    all.push(("leaving", running(&["17"]), Stage::Leaving));
    all
}

fn every_state(locale: &str) -> String {
    let words = Words::for_session(&HostEnv::from_pairs([("LANG", locale)]));
    let all = states()
        .into_iter()
        .map(|(name, snapshot, stage)| format!("# {name}\n{}\n", shown_in(&words, &snapshot, stage)));
    all.collect()
}

#[test]
fn every_state_has_its_menu_in_english() {
    insta::assert_snapshot!("every_state_en", every_state("C"));
}

#[test]
fn every_state_has_its_menu_in_korean() {
    let korean = every_state("ko_KR.UTF-8");
    for english in [
        "Running",
        "Waiting",
        "Needs you:",
        "Start at",
        "notifications",
        "Quit",
    ] {
        assert!(!korean.contains(english), "{english}");
    }
    insta::assert_snapshot!("every_state_ko", korean);
}
