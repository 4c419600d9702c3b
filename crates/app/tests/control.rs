//! A window's actions on the real thing: the embedded hub, a runner and a real case, in a profile of the test's own.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everdict_app::control::{
    AppEvent, AppSnapshot, AppState, CapabilityState, Control, ControlOptions, JobOutcome, Leave,
    ScoreStatus, SettingValue, TokenPlace,
};
use everdict_app::{
    ContainerOptions, EnvSecrets, HubClient, HubHost, HubOptions, Paths, Registrations, SecretName, Settings,
    StoreKind, secrets,
};
use everdict_exec::HostEnv;

/// A case takes two seconds alone; two busy cores may need ten times that.
const DEADLINE: Duration = Duration::from_secs(40);

/// An engine that can't be there, so that no test talks to the machine's own; a port of the test's own.
const SETTINGS: &str =
    "[hub]\nlisten = \"127.0.0.1:0\"\n[topology]\nendpoint = \"unix:///nonexistent/docker.sock\"\n";

fn start(home: &Path, settings: &str) -> Control {
    let paths = Paths::under(home);
    let settings = Settings::parse("settings.toml", settings).unwrap();
    let mut containers = ContainerOptions::new(&paths, &settings, "test");
    containers.watchdog = None;
    // No bus, no battery: a test must not reach the keyring of whoever runs it, nor depend on their plug.
    let path = HostEnv::capture().get("PATH").unwrap_or_default().to_owned();
    let env = Arc::new(HostEnv::from_pairs([
        ("PATH", path.as_str()),
        ("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus"),
        ("EVERDICT_POWER_SUPPLY_ROOT", "/nonexistent"),
    ]));
    Control::start(ControlOptions {
        program: "a test",
        containers,
        secrets: EnvSecrets::from_env(&env),
        env,
        paths,
        settings,
        version: "0.0.0-test".to_owned(),
        tray_host: true,
        autostart: None,
    })
    .unwrap()
}

async fn until(control: &Control, what: &str, mut holds: impl FnMut(&AppSnapshot) -> bool) -> AppSnapshot {
    let mut watch = control.watch();
    let end = Instant::now() + DEADLINE;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match tokio::time::timeout(left, watch.next()).await {
            Ok(Some(AppEvent::Snapshot { snapshot, .. })) if holds(&snapshot) => return *snapshot,
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => panic!("timed out waiting for {what}: {:#?}", control.snapshot()),
        }
    }
}

async fn paired(control: &Control) -> AppSnapshot {
    control
        .pair_this_computer("bench", TokenPlace::File)
        .await
        .unwrap();
    until(control, "idle", |seen| seen.state == AppState::Idle).await
}

async fn sample(control: &Control) -> String {
    control.submit_sample().await.unwrap();
    let seen = until(control, "a job", |seen| !seen.active.is_empty()).await;
    seen.active[0].id.clone()
}

fn files_with(dir: &Path, needle: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, needle));
        } else if std::fs::read(&path)
            .unwrap_or_default()
            .windows(needle.len())
            .any(|part| part == needle)
        {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_click_pairs_runs_the_sample_and_unpairs_without_a_trace() {
    let home = tempfile::tempdir().unwrap();
    let control = start(home.path(), SETTINGS);
    assert_eq!(control.snapshot().state, AppState::Unpaired);
    let seen = paired(&control).await;
    let runner = &seen.runners[0];
    assert!(runner.embedded && runner.last_answer_at.is_some(), "{runner:?}");
    let again = control
        .pair_this_computer("bench", TokenPlace::File)
        .await
        .unwrap_err();
    assert_eq!(again.code(), "already_paired");

    let job = sample(&control).await;
    let mut log = control.follow_log(&job).unwrap();
    let mut lines = Vec::new();
    while let Some(batch) = log.next().await {
        assert_eq!((batch.gap, batch.first_seq), (None, lines.len() as u64));
        lines.extend(batch.lines.into_iter().map(|line| line.text));
    }
    assert!(
        lines.iter().any(|line| line.contains("the answer is 42")),
        "{lines:?}"
    );
    let seen = until(&control, "the end", |seen| {
        seen.active.is_empty() && seen.state == AppState::Idle
    })
    .await;
    assert_eq!(seen.today.passed, 1);
    let detail = control.job_result(&job).unwrap();
    assert_eq!(detail.job.outcome, Some(JobOutcome::Passed));
    assert!(
        detail
            .scores
            .iter()
            .any(|score| score.status == ScoreStatus::Measured && score.pass == Some(true))
    );
    assert!(detail.trace.unwrap().events > 0 && detail.raw.is_some());
    assert_eq!(control.jobs(10)[0].id, job);

    control.unpair(&seen.runners[0].id).await.unwrap();
    assert_eq!(control.snapshot().state, AppState::Unpaired);
    assert_eq!(files_with(home.path(), b"rnr_"), Vec::<String>::new());
    assert_eq!(files_with(home.path(), b"ak_"), Vec::<String>::new());
    let gone = control.submit_sample().await.unwrap_err();
    assert_eq!(gone.code(), "no_own_hub");
    control.leave(Leave::Now).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_machine_takes_nothing_also_after_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let control = start(home.path(), SETTINGS);
    paired(&control).await;
    control.pause(None).await.unwrap();
    control.set_capability("git", false).await.unwrap();
    assert_eq!(control.snapshot().state, AppState::Paused);
    control.submit_sample().await.unwrap();
    control.leave(Leave::AfterJobs).await;
    drop(control);

    let control = start(home.path(), SETTINGS);
    let seen = control.snapshot();
    assert_eq!(
        (seen.state, seen.paused_until.as_deref()),
        (AppState::Paused, Some("resume"))
    );
    let git = seen
        .capabilities
        .iter()
        .find(|found| found.name == "git")
        .unwrap();
    assert_eq!((git.on, git.state), (false, CapabilityState::OffByYou));
    control.resume().await.unwrap();
    until(&control, "the waiting case to pass", |seen| {
        seen.today.passed == 1
    })
    .await;
    let none = control.set_capability("teleport", true).await.unwrap_err();
    assert_eq!(none.code(), "capability_unknown");
    control.leave(Leave::AfterJobs).await;
}

/// C47.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_its_hub_removed_says_so_and_is_unpaired_without_the_hub() {
    let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hub = HubHost::start(&HubOptions {
        data_dir: elsewhere.path().to_owned(),
        database: None,
        listen: "127.0.0.1:0".parse().unwrap(),
        lease_ttl: None,
        oidc: None,
    })
    .await
    .unwrap();
    let key = hub.create_api_key("acme", "admin").await.unwrap();
    let control = start(home.path(), SETTINGS);
    control
        .pair_with_api_key(hub.url().as_str(), key.clone(), "bench", TokenPlace::File)
        .await
        .unwrap();
    let seen = until(&control, "idle", |seen| seen.state == AppState::Idle).await;
    let runner = seen.runners[0].id.clone();
    assert_eq!(
        control.reconnect("nobody").await.unwrap_err().code(),
        "runner_unknown"
    );
    let client = HubClient::new(hub.url().clone(), Some(key)).unwrap();
    client.revoke_runner(&runner.as_str().into()).await.unwrap();
    control.reconnect(&runner).await.unwrap();
    let seen = until(&control, "the removal to be told", |seen| {
        seen.cause.as_deref() == Some("removed")
    })
    .await;
    assert_eq!(seen.state, AppState::Attention);
    assert!(
        seen.state_text.starts_with("removed by the hub"),
        "{}",
        seen.state_text
    );
    hub.stop().await.unwrap();
    let refused = control.pair_again(&runner).await.unwrap_err();
    assert_eq!(refused.code(), "not_own_hub");
    control.unpair(&runner).await.unwrap();
    assert_eq!(control.snapshot().state, AppState::Unpaired);
    assert_eq!(files_with(home.path(), b"rnr_"), Vec::<String>::new());
    control.leave(Leave::Now).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn this_computer_is_paired_again_in_one_step_after_its_hub_lost_the_runner() {
    let home = tempfile::tempdir().unwrap();
    let control = start(home.path(), SETTINGS);
    let seen = paired(&control).await;
    let old = &seen.runners[0];
    let paths = Paths::under(home.path());
    let known = Registrations::at(paths.registrations_file()).list().unwrap();
    let hub = known[0].hub().unwrap();
    let store = secrets::open(StoreKind::File, &paths, &EnvSecrets::default());
    let key = store.get(&SecretName::api_key(&hub)).await.unwrap();
    let client = HubClient::new(hub, Some(key)).unwrap();
    client.revoke_runner(&old.id.as_str().into()).await.unwrap();
    control.reconnect(&old.id).await.unwrap();
    until(&control, "the removal to be told", |seen| {
        seen.cause.as_deref() == Some("removed")
    })
    .await;
    control.pair_again(&old.id).await.unwrap();
    let seen = until(&control, "idle", |seen| seen.state == AppState::Idle).await;
    let [new] = seen.runners.as_slice() else {
        panic!("one runner: {seen:#?}")
    };
    assert_eq!((new.label.as_str(), new.embedded), ("bench", true));
    assert_ne!(new.id, old.id);
    control.submit_sample().await.unwrap();
    until(&control, "the sample to pass", |seen| seen.today.passed == 1).await;
    control.leave(Leave::AfterJobs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_is_kept_as_a_file_and_notifications_follow_the_settings() {
    let home = tempfile::tempdir().unwrap();
    let control = start(home.path(), SETTINGS);
    let path = control
        .save_text("../case 1.log", "a line".to_owned())
        .await
        .unwrap();
    assert!(Path::new(&path).starts_with(home.path()), "{path}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a line");
    assert!(control.notifications().is_some());
    control
        .save_setting(
            "notifications.quiet_from",
            Some(&SettingValue::Text("22:00".to_owned())),
        )
        .await
        .unwrap();
    assert_eq!(control.notifications().map(|quiet| quiet.from), Some(22 * 60));
    let views = control
        .save_setting("notifications.show", Some(&SettingValue::Switch(false)))
        .await
        .unwrap();
    assert_eq!(control.notifications(), None);
    let shown = views
        .iter()
        .find(|view| view.key == "notifications.show")
        .unwrap();
    assert!(!shown.at_start, "it counts at once");
    control.leave(Leave::Now).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_program_takes_jobs_for_a_profile_and_the_next_waits_for_its_end() {
    let home = tempfile::tempdir().unwrap();
    let first = start(home.path(), SETTINGS);
    paired(&first).await;
    let second = start(home.path(), SETTINGS);
    let seen = second.snapshot();
    assert_eq!(
        (seen.state, seen.cause.as_deref()),
        (AppState::Attention, Some("already_running"))
    );
    let told = format!("a test (process {})", std::process::id());
    assert!(seen.state_text.starts_with(&told), "{}", seen.state_text);
    let refused = second
        .pair_with_token(
            "http://127.0.0.1:9",
            "rnr_0123456789abcdef0123",
            "x",
            TokenPlace::File,
        )
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "already_running");
    first.leave(Leave::Now).await;
    until(&second, "the profile to be taken over", |seen| {
        seen.state == AppState::Idle
    })
    .await;
    second.leave(Leave::Now).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_that_is_over_ends_by_itself() {
    let home = tempfile::tempdir().unwrap();
    let control = start(home.path(), SETTINGS);
    paired(&control).await;
    control.pause(Some(1)).await.unwrap();
    assert_eq!(control.snapshot().state, AppState::Paused);
    control.submit_sample().await.unwrap();
    until(&control, "the waiting case to pass", |seen| {
        seen.today.passed == 1
    })
    .await;
    control.leave(Leave::Now).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_job_can_be_stopped_and_counts_as_nothing() {
    let home = tempfile::tempdir().unwrap();
    let control = start(home.path(), SETTINGS);
    paired(&control).await;
    let job = sample(&control).await;
    let mut log = control.follow_log(&job).unwrap();
    assert!(log.next().await.is_some(), "it runs");
    control.stop_job(&job).unwrap();
    let seen = until(&control, "the end", |seen| seen.active.is_empty()).await;
    assert_eq!(
        control.job_result(&job).unwrap().job.outcome,
        Some(JobOutcome::Cancelled)
    );
    assert_eq!(
        (seen.today.passed, seen.today.failed, seen.today.infra),
        (0, 0, 0)
    );
    assert!(control.stop_job(&job).is_err() && control.job_result("nobody").is_err());
    control.leave(Leave::Now).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_place_for_the_token_nothing_is_left_behind() {
    let home = tempfile::tempdir().unwrap();
    let control = start(home.path(), SETTINGS);
    // A file where the folder of tokens should be: the store says yes, the write fails, at the last step of the pairing.
    std::fs::write(home.path().join("state/secrets"), "in the way").unwrap();
    let problem = control
        .pair_this_computer("bench", TokenPlace::File)
        .await
        .unwrap_err();
    assert!(problem.next_step().is_some(), "{}", problem.chain());
    let paths = Paths::under(home.path());
    assert_eq!(Registrations::at(paths.registrations_file()).list().unwrap(), []);
    assert!(!paths.hub_dir().exists(), "the hub's new database went with it");
    assert_eq!(control.snapshot().state, AppState::Unpaired);
    std::fs::remove_file(home.path().join("state/secrets")).unwrap();
    paired(&control).await;
    control.leave(Leave::Now).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_pairings_say_what_to_do_and_store_nothing() {
    let home = tempfile::tempdir().unwrap();
    let control = start(home.path(), SETTINGS);
    let place = TokenPlace::File;
    let dead = "http://127.0.0.1:9";
    for (hub, text, label, code) in [
        (dead, "<script>alert(1)</script>", "bench", "pairing_text"),
        (dead, "rnr_abc", "\u{1b}[31m", "input"),
        ("", "rnr_abc", "bench", "no_hub"),
        (dead, "rnr_abc", "bench", "hub_unreachable"),
        ("ftp://h", "rnr_abc", "bench", "input"),
        (
            "http://a.example",
            "everdict://pair?hub=http://b.example&token=rnr_abc",
            "bench",
            "two_hubs",
        ),
    ] {
        let problem = control
            .pair_with_token(hub, text, label, place)
            .await
            .unwrap_err();
        assert_eq!(problem.code(), code, "{text}: {}", problem.chain());
        assert!(problem.next_step().is_some(), "{text}");
    }
    let problem = control
        .pair_with_api_key(dead, "ak_abc".into(), "bench", place)
        .await
        .unwrap_err();
    assert_eq!(problem.code(), "hub_unreachable");
    assert_eq!(control.snapshot().state, AppState::Unpaired);
    assert_eq!(files_with(home.path(), b"_abc"), Vec::<String>::new());
    control.leave(Leave::Now).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_without_its_token_needs_the_person_and_can_still_be_unpaired() {
    let home = tempfile::tempdir().unwrap();
    let control = start(home.path(), SETTINGS);
    let seen = paired(&control).await;
    control.leave(Leave::Now).await;
    drop(control);
    std::fs::remove_dir_all(home.path().join("state/secrets")).unwrap();
    let control = start(home.path(), SETTINGS);
    let stuck = until(&control, "the problem", |seen| seen.state == AppState::Attention).await;
    assert!(!stuck.state_text.is_empty());
    control.unpair(&seen.runners[0].id).await.unwrap();
    assert_eq!(control.snapshot().state, AppState::Unpaired);
    control.leave(Leave::Now).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finishing_first_takes_no_more_jobs_and_is_a_pause_once_the_running_one_is_over() {
    let home = tempfile::tempdir().unwrap();
    let control = start(home.path(), SETTINGS);
    paired(&control).await;
    let job = sample(&control).await;
    control.finish_then_pause().await.unwrap();
    let seen = control.snapshot();
    // The sample may be over by now; while it runs the word is not "paused".
    if !seen.active.is_empty() {
        assert_eq!(
            (seen.state, seen.cause.as_deref()),
            (AppState::Running, Some("finishing"))
        );
    }
    assert_eq!(seen.paused_until.as_deref(), Some("resume"));
    until(&control, "the pause", |seen| {
        seen.state == AppState::Paused && seen.active.is_empty()
    })
    .await;
    assert_eq!(
        control.job_result(&job).unwrap().job.outcome,
        Some(JobOutcome::Passed)
    );
    control.submit_sample().await.unwrap();
    control.leave(Leave::AfterJobs).await;

    let again = start(home.path(), SETTINGS);
    until(&again, "the pause of before", |seen| {
        seen.state == AppState::Paused
    })
    .await;
    again.resume().await.unwrap();
    until(&again, "the job that waited", |seen| {
        !seen.active.is_empty() || seen.today.passed == 2
    })
    .await;
    again.leave(Leave::Now).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_only_fills_in_a_form_until_the_person_accepts_it() {
    let (hub_home, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let control = start(home.path(), SETTINGS);
    let hub = everdict_app::HubHost::start(&everdict_app::HubOptions {
        database: None,
        data_dir: hub_home.path().to_owned(),
        listen: "127.0.0.1:0".parse().unwrap(),
        lease_ttl: None,
        oidc: None,
    })
    .await
    .unwrap();
    let key = hub.create_api_key("default", "admin").await.unwrap();
    let client = everdict_app::HubClient::new(hub.url().clone(), Some(key)).unwrap();
    let body = serde_json::from_value(serde_json::json!({"label": "bench"})).unwrap();
    let token = client.pair_runner(&body).await.unwrap().token.expose().to_owned();

    control.open_link("everdict://pair?token=nonsense");
    let bad = control.snapshot().deep_link.unwrap();
    assert!(bad.problem.is_some_and(|problem| problem.fix.is_some()));
    assert_eq!(
        control
            .accept_link("bench", TokenPlace::File)
            .await
            .unwrap_err()
            .code(),
        "no_link"
    );
    control.dismiss_link();
    assert_eq!(control.snapshot().deep_link, None);

    control.open_link(&format!(
        "everdict://pair?hub={}&token={token}",
        everdict_app::hub_url::text(hub.url())
    ));
    let seen = control.snapshot();
    assert_eq!(
        seen.deep_link.unwrap().hub,
        everdict_app::hub_url::text(hub.url())
    );
    assert!(seen.runners.is_empty());
    assert_eq!(files_with(home.path(), token.as_bytes()), Vec::<String>::new());

    assert!(control.accept_link("", TokenPlace::File).await.is_err());
    assert!(
        control.snapshot().deep_link.is_some(),
        "a name that can't be used can be corrected"
    );
    control.accept_link("my desk", TokenPlace::File).await.unwrap();
    let seen = until(&control, "idle", |seen| seen.state == AppState::Idle).await;
    assert_eq!(
        (seen.runners[0].label.as_str(), seen.deep_link),
        ("my desk", None)
    );
    control.leave(Leave::Now).await;
    hub.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_home_with_spaces_umlauts_and_an_emoji_a_job_runs_and_its_log_is_read() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().join("J\u{f6}rg M\u{fc}ller \u{1f98a}");
    let control = start(&home, SETTINGS);
    paired(&control).await;
    let job = sample(&control).await;
    let mut log = control.follow_log(&job).unwrap();
    let mut lines = Vec::new();
    while let Some(batch) = log.next().await {
        lines.extend(batch.lines.into_iter().map(|line| line.text));
    }
    assert!(
        lines.iter().any(|line| line.contains("the answer is 42")),
        "{lines:?}"
    );
    until(&control, "the end", |seen| seen.today.passed == 1).await;
    assert!(home.join("cache/work").is_dir(), "it worked in there");
    control.leave(Leave::Now).await;
    let left: Vec<_> = std::fs::read_dir(home.join("cache/work"))
        .unwrap()
        .flatten()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
