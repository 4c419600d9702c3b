//! Hub, pairing, runner and submission as separate processes.

use serde_json::json;

use crate::going::{Going, hub, pair, run_body, with_key};
use crate::support::{Home, Ran};

#[test]
fn a_dataset_runs_to_its_verdicts_and_the_exit_code_says_whether_they_are_wanted() {
    let home = Home::new();
    let hub = hub(&home);
    pair(&home, &hub);
    let mut runner = Going::start(&home, &["start", "-c", "2"], &[]);
    let lines = [
        run_body("good", "echo 42", "pass"),
        run_body("bad", "echo 41", "fail"),
    ]
    .join("\n");
    let file = home.file("set.jsonl", &lines);
    let file = file.to_str().expect("UTF-8");
    let report = with_key(&home, &hub, &["submit", file, "--wait", "--json"])
        .exits(0)
        .json();
    assert_eq!(report["ok"], true);
    assert_eq!(report["results"][0]["verdict"], "pass");
    assert_eq!(report["results"][1]["verdict"], "fail");
    assert_eq!(report["results"][0]["provenance"]["ranOn"], "self-hosted");

    let wrong = home.file("wrong.json", &run_body("surprise", "echo 41", "pass"));
    let wrong = wrong.to_str().expect("UTF-8");
    let words = with_key(&home, &hub, &["submit", wrong, "--wait"]).exits(1);
    assert!(
        words.out.contains("Failed") && words.out.contains("Passed, not this"),
        "{}",
        words.out
    );

    let runs = with_key(&home, &hub, &["runs", "--json"]).exits(0).json();
    let first = &runs["runs"][0];
    assert_eq!(first["result"]["verdict"], "fail", "{runs}");
    let id = first["runId"].as_str().expect("an id");
    let log = with_key(&home, &hub, &["logs", id]).exits(0);
    assert!(log.out.contains("41"), "{}", log.out);
    let followed = with_key(&home, &hub, &["logs", "-f", id]).exits(0);
    assert!(followed.out.contains("41"), "{}", followed.out);

    let status = with_key(&home, &hub, &["status", "--json"]).exits(0).json();
    assert!(
        status["runners"][0]["atHub"]["lastSeenAt"].is_string(),
        "{status}"
    );
    runner.signal(libc::SIGTERM);
    assert_eq!(runner.exit_code(), Some(0));
}

/// Case C52: what a job can see of this machine holds no token.
#[cfg(target_os = "linux")]
#[test]
fn a_job_that_looks_around_finds_no_token() {
    let home = Home::new();
    let hub = hub(&home);
    let args = ["pair", "--token-store", "env", "--label", "lab", "--json"];
    let paired = with_key(&home, &hub, &args).exits(0).json();
    let token = paired["token"]
        .as_str()
        .expect("the env store shows it once")
        .to_owned();
    let argv = ["runner", "--pair", &token, "--api-url", &hub.url];
    let _runner = Going::start(&home, &argv, &[("EVERDICT_RUNNER_TOKEN", &token)]);
    let look = "env; cat /proc/$PPID/environ | tr '\\0' '\\n'; ps auxww; cat /proc/*/cmdline | tr '\\0' ' '; echo 42";
    let file = home.file("look.json", &run_body("look", look, "pass"));
    let file = file.to_str().expect("UTF-8");
    with_key(&home, &hub, &["submit", file, "--wait", "--json"]).exits(0);
    let runs = with_key(&home, &hub, &["runs", "--json"]).exits(0).json();
    let id = runs["runs"][0]["runId"].as_str().expect("an id");
    let log = with_key(&home, &hub, &["logs", id]).exits(0).out;
    assert!(log.contains("PATH="), "it did look: {log}");
    assert!(!log.contains(&token), "{log}");
    assert!(!runs.to_string().contains(&token));
}

#[test]
fn unpairing_works_while_the_hub_is_away() {
    let home = Home::new();
    let hub = hub(&home);
    pair(&home, &hub);
    let (url, key) = (hub.url.clone(), hub.key.clone());
    drop(hub);
    let mut command = home.command(&["unpair", "--json"]);
    command.env("EVERDICT_API_KEY", key).env("EVERDICT_API_URL", url);
    let report = Ran::from(command.output().expect("starts")).exits(0).json();
    assert_eq!(report["unpaired"][0]["atHub"], "failed");
    assert_eq!(
        std::fs::read_dir(home.path().join("state/secrets"))
            .expect("folder")
            .count(),
        0
    );
    home.run(&["start"]).exits(3);
}

#[test]
fn a_wrong_key_and_an_unknown_run_have_their_own_codes() {
    let home = Home::new();
    let hub = hub(&home);
    let mut command = home.command(&["runs", "--hub", &hub.url]);
    command.env("EVERDICT_API_KEY", "ak_wrong");
    let ran = Ran::from(command.output().expect("starts")).exits(5);
    assert!(ran.err.contains("doesn't accept this credential"), "{}", ran.err);
    with_key(&home, &hub, &["logs", "nope"]).exits(2);
    with_key(&home, &hub, &["cancel", "nope"]).exits(2);
}

#[test]
fn a_port_in_use_is_a_sentence_with_the_fix() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = taken.local_addr().expect("bound").to_string();
    let ran = home.run(&["hub", "--listen", &address]).exits(6);
    assert!(ran.err.contains("is in use at 127.0.0.1"), "{}", ran.err);
    assert!(
        ran.err.contains("choose another port with --listen"),
        "{}",
        ran.err
    );
}

#[test]
fn a_data_folder_that_can_t_be_written_is_a_sentence_with_the_fix() {
    let home = Home::new();
    let file = home.file("file", "");
    let below = file.join("hub");
    let below = below.to_str().expect("UTF-8");
    let ran = home
        .run(&["hub", "--listen", "127.0.0.1:0", "--data-dir", below])
        .exits(6);
    assert!(
        ran.err.contains("can't write") && ran.err.contains("next: "),
        "{}",
        ran.err
    );
}

#[test]
fn one_data_folder_serves_one_hub() {
    let home = Home::new();
    let mut hub = hub(&home);
    let ran = home.run(&["hub", "--listen", "127.0.0.1:0"]).exits(6);
    assert!(ran.err.contains("another hub is using it"), "{}", ran.err);
    hub.going.signal(libc::SIGTERM);
    assert_eq!(hub.going.exit_code(), Some(0));
    let made = home.run(&[
        "hub",
        "key",
        "create",
        "--workspace",
        "w",
        "--role",
        "viewer",
        "--json",
    ]);
    assert!(
        made.exits(0).json()["apiKey"]
            .as_str()
            .expect("a key")
            .starts_with("ak_")
    );
    home.run(&["hub", "key", "create", "--role", "king"]).exits(2);
    home.run(&["hub", "key", "create", "--workspace", "a b"]).exits(2);
}

#[test]
fn a_harness_is_stored_once_per_version() {
    let home = Home::new();
    let hub = hub(&home);
    let spec = |command: &str| json!({"kind": "command", "id": "h", "version": "1", "command": command});
    let file = home.file("h.json", &spec("echo 42").to_string());
    let file = file.to_str().expect("UTF-8");
    with_key(&home, &hub, &["harness", "push", file]).exits(0);
    with_key(&home, &hub, &["harness", "push", file]).exits(0);
    home.file("h.json", &spec("echo 43").to_string());
    let ran = with_key(&home, &hub, &["harness", "push", file]).exits(1);
    assert!(ran.err.contains("new version"), "{}", ran.err);
}

/// Runs the demo with a temporary folder of its own; gives out its verdicts.
fn demo(home: &Home) -> Vec<String> {
    let tmp = home.path().join("tmp");
    std::fs::create_dir(&tmp).expect("folder");
    let mut command = home.command(&["demo", "--json"]);
    command.env("TMPDIR", &tmp);
    let report = Ran::from(command.output().expect("starts")).exits(0).json();
    assert_eq!(report["ok"], true, "{report}");
    assert_eq!(std::fs::read_dir(&tmp).expect("folder").count(), 0);
    let results = report["results"].as_array().expect("results").iter();
    results
        .filter_map(|row| row["verdict"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn the_demo_ends_with_four_verdicts_and_leaves_nothing() {
    let home = Home::new();
    home.file(
        "config/settings.toml",
        "[topology]\nendpoint = \"unix:///nonexistent/docker.sock\"\n",
    );
    assert_eq!(demo(&home), ["pass", "fail", "pass", "timeout"]);
    let own: Vec<_> = std::fs::read_dir(home.path()).expect("home").collect();
    assert_eq!(
        own.len(),
        2,
        "only the settings and the temporary folder of this test: {own:?}"
    );
}

#[test]
fn without_docker_one_line_says_why_a_case_is_left_out() {
    let home = Home::new();
    home.file(
        "config/settings.toml",
        "[topology]\nendpoint = \"unix:///nonexistent/docker.sock\"\n",
    );
    let ran = home.run(&["demo"]).exits(0);
    let lines: Vec<&str> = ran
        .out
        .lines()
        .filter(|line| line.starts_with("Left out"))
        .collect();
    assert_eq!(lines.len(), 1, "{}", ran.out);
    assert!(lines[0].contains("/nonexistent/docker.sock"), "{}", lines[0]);
}

#[test]
fn with_docker_the_demo_adds_a_service_case_that_passes() {
    let home = Home::new();
    let report = home
        .run(&["doctor", "--json", "--hub", "http://127.0.0.1:1"])
        .json();
    let endpoint = &report["containers"]["endpoint"]["address"];
    let front_door = std::path::Path::new("/var/run/docker.sock");
    if endpoint.as_str() != Some("unix:///var/run/docker.sock") || !front_door.exists() {
        return crate::support::skip(
            "demo_service_case",
            "no Docker daemon answers at the usual socket",
        );
    }
    let verdicts = demo(&home);
    if verdicts.len() == 4 {
        return crate::support::skip(
            "demo_service_case",
            "the images are missing; cargo xtask images builds them",
        );
    }
    assert_eq!(verdicts, ["pass", "fail", "pass", "timeout", "pass"]);
}
