use crate::support::Home;

#[test]
fn a_folder_that_can_t_be_written_is_a_sentence_with_the_fix() {
    let home = Home::new();
    // A file where a folder should be: permission bits don't bind root.
    let file = home.file("file", "");
    let mut command = home.command(&["runner", "--api-url", "http://127.0.0.1:1"]);
    command
        .env("EVERDICT_HOME", file.join("below"))
        .env("EVERDICT_RUNNER_TOKEN", "rnr_abc");
    let ran = crate::support::Ran::from(command.output().expect("starts")).exits(6);
    assert!(
        ran.err.contains("a part of the path is a file, not a folder"),
        "{}",
        ran.err
    );
    assert!(
        ran.err
            .contains("next: give this user write access, or set EVERDICT_HOME"),
        "{}",
        ran.err
    );
}

#[cfg(target_os = "linux")]
#[test]
fn no_keyring_is_said_and_nothing_falls_back() {
    let home = Home::new();
    let mut command = home.command(&["pair", "--token", "rnr_x", "--hub", "http://127.0.0.1:1"]);
    command
        .env(
            "DBUS_SESSION_BUS_ADDRESS",
            format!("unix:path={}/none", home.path().display()),
        )
        .env("XDG_RUNTIME_DIR", home.path());
    let ran = crate::support::Ran::from(command.output().expect("starts")).exits(6);
    assert!(ran.err.contains("this machine offers no keyring"), "{}", ran.err);
    assert!(ran.err.contains("--token-store file"), "{}", ran.err);
    assert!(ran.err.contains("EVERDICT_RUNNER_TOKEN"), "{}", ran.err);
    assert!(!home.path().join("state/secrets").exists());
}

#[test]
fn doctor_lists_each_check_with_a_fix_for_each_that_fails() {
    let home = Home::new();
    let ran = home
        .run(&["doctor", "--json", "--hub", "http://127.0.0.1:1"])
        .exits(1);
    let report = ran.json();
    let checks = report["checks"].as_array().expect("a list");
    let find = |id: &str| {
        checks
            .iter()
            .find(|check| check["id"] == id)
            .expect("the check is there")
    };
    for id in ["folders", "disk", "path", "git", "docker", "keyring"] {
        find(id);
    }
    assert_eq!(find("hub:127.0.0.1:1")["state"], "fail");
    assert_eq!(report["ok"], false);
    for check in checks.iter().filter(|check| check["state"] == "fail") {
        assert!(check["fix"].is_string(), "{check}");
    }
}

#[test]
fn doctor_lists_every_place_where_an_engine_was_looked_for() {
    let home = Home::new();
    home.file(
        "config/settings.toml",
        "[topology]\nendpoint = \"unix:///nonexistent/docker.sock\"\n",
    );
    let report = home
        .run(&["doctor", "--json", "--hub", "http://127.0.0.1:1"])
        .json();
    let containers = &report["containers"];
    assert!(containers["endpoint"].is_null(), "{containers}");
    let first = &containers["candidates"][0];
    assert_eq!(first["source"], "topology.endpoint in settings.toml");
    assert_eq!(first["state"], "absent");
    assert_eq!(containers["ours"]["lost"], serde_json::json!([]));
    let checks = report["checks"].as_array().expect("a list");
    let docker = checks
        .iter()
        .find(|check| check["id"] == "docker")
        .expect("a check");
    assert_eq!(docker["state"], "warn");
    assert!(docker["fix"].is_string(), "{docker}");
}

#[test]
fn gc_without_an_engine_says_where_it_looked() {
    let home = Home::new();
    home.file(
        "config/settings.toml",
        "[topology]\nendpoint = \"unix:///nonexistent/docker.sock\"\n",
    );
    let ran = home.run(&["gc", "--dry-run", "--json"]).exits(6);
    let error = &ran.json()["error"];
    assert_eq!(error["class"], "machine");
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|text| text.contains("/nonexistent/docker.sock")),
        "{error}"
    );
    assert!(
        error["fix"].as_str().is_some_and(|text| text.contains("doctor")),
        "{error}"
    );
}

#[test]
fn the_watchdog_s_word_is_not_for_people() {
    let home = Home::new();
    let ran = home.run(&["__watchdog", "by", "hand"]).exits(2);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
    assert!(!home.run(&["--help"]).exits(0).out.contains("watchdog"));
}
