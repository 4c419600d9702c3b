use everdict_app::control::{
    AutostartState, CpuMeans, CpuShareView, KeyringState, MachineView, NoticesState, RunnerView, TodayView,
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
        seq: 1,
        version: "0.1.0".into(),
        machine: MachineView {
            name: "bench".into(),
            system: "Linux".into(),
            arch: "x86_64".into(),
            cpus: 8,
        },
        state,
        state_text: String::new(),
        cause: None,
        last_answer_at: Some("2026-01-01T11:59:56Z".into()),
        paused_until: None,
        runners: vec![runner("https://team.example")],
        capabilities: vec![
            capability("git", true, CapabilityState::Found),
            capability("docker", false, CapabilityState::OffByYou),
            capability("gpu", true, CapabilityState::NotFound),
            capability("os-macos", true, CapabilityState::Found),
        ],
        active: Vec::new(),
        today: TodayView::default(),
        keyring: KeyringState::Ok,
        tray_host: true,
        waiting: None,
        awake: false,
        asks: Vec::new(),
        hub_pause: None,
        cpu_share: CpuShareView {
            percent: 100,
            in_use: false,
            means: CpuMeans::Unlimited,
            text: String::new(),
        },
        settings_fault: None,
        autostart: AutostartState::Off,
        notices: NoticesState::Ok,
        update: None,
        deep_link: None,
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
    let model = TrayModel::new(snapshot, stage, &english(), NOW);
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
fn an_unpaired_machine_offers_to_pair_and_is_never_shown_as_ready() {
    let mut snapshot = snapshot(AppState::Unpaired);
    snapshot.runners.clear();
    snapshot.last_answer_at = None;
    insta::assert_snapshot!(shown(&snapshot, Stage::Working), @r"
    [Offline] Not paired
    (Not paired)
    --
    Open Everdict Runner
    Pair this machine…
    --
    Quit
    ");
}

#[test]
fn an_idle_machine_names_its_hub_and_the_age_of_the_answer() {
    insta::assert_snapshot!(shown(&snapshot(AppState::Idle), Stage::Working), @r"
    [Idle] Idle · team.example · just now
    (Idle · team.example · just now)
    --
    Open Everdict Runner
    Pause ▸
      1 hour
      4 hours
      Until I resume
    What may run here ▸
      ✓ Git repositories
      – Docker
    --
    Quit
    ");
}

#[test]
fn running_jobs_can_be_opened_and_stopped_and_quitting_asks() {
    let mut snapshot = snapshot(AppState::Running);
    snapshot.active = vec![job("17"), job("18")];
    insta::assert_snapshot!(shown(&snapshot, Stage::Working), @r"
    [Busy] Running 2 · team.example · just now
    (Running 2 · team.example · just now)
    Running: case-17 · 2 min ▸
      Open log
      Stop
    Running: case-18 · 2 min ▸
      Open log
      Stop
    --
    Open Everdict Runner
    Pause ▸
      1 hour
      4 hours
      Until I resume
    What may run here ▸
      ✓ Git repositories
      – Docker
    --
    Quit ▸
      After current job
      Stop now
    ");
}

#[test]
fn a_paused_machine_offers_to_resume() {
    let mut snapshot = snapshot(AppState::Paused);
    snapshot.paused_until = Some("resume".into());
    insta::assert_snapshot!(shown(&snapshot, Stage::Working), @r"
    [Paused] Paused
    (Paused)
    --
    Open Everdict Runner
    Resume
    What may run here ▸
      ✓ Git repositories
      – Docker
    --
    Quit
    ");
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
fn while_quitting_only_hurrying_is_left() {
    let mut snapshot = snapshot(AppState::Running);
    snapshot.active = vec![job("17")];
    insta::assert_snapshot!(shown(&snapshot, Stage::Leaving), @r"
    [Busy] Finishing before quitting
    (Finishing before quitting)
    Running: case-17 · 2 min ▸
      Open log
      Stop
    --
    Open Everdict Runner
    Stop now
    ");
}

#[test]
fn several_hubs_share_no_name_and_the_language_is_the_person_s() {
    let mut snapshot = snapshot(AppState::Idle);
    snapshot.runners.push(runner("http://127.0.0.1:8787"));
    let korean = Words::for_session(&HostEnv::from_pairs([("LANG", "ko_KR.UTF-8")]));
    let model = TrayModel::new(&snapshot, Stage::Working, &korean, NOW);
    assert_eq!(model.tooltip, "대기 중 · 방금");
}
