use crate::support::{Home, Ran};

const CASE: &str = r#"{"id": "one", "env": {"kind": "prompt"}, "task": "t"}"#;

#[test]
fn a_bad_settings_key_names_file_and_line() {
    let home = Home::new();
    let file = home.file("config/settings.toml", "[runner]\nmax_concurent = 2\n");
    let ran = home.run(&["status"]).exits(2);
    let place = format!("{}:2: unknown key runner.max_concurent", file.display());
    assert!(ran.err.contains(&place), "{}", ran.err);
    assert!(
        ran.err.contains("did you mean runner.max_concurrent?"),
        "{}",
        ran.err
    );
}

#[test]
fn every_bad_dataset_line_is_named_before_anything_is_sent() {
    let home = Home::new();
    let file = home.file("cases.jsonl", &format!("{CASE}\n{{\"id\": 7}}\nnot json\n"));
    // Nobody listens at the hub: an attempt to send would end with 4, not 2.
    let file = file.to_str().expect("UTF-8");
    let ran = home
        .run(&["submit", file, "--harness", "h@1", "--hub", "http://127.0.0.1:1"])
        .exits(2);
    assert!(ran.err.contains("cases.jsonl:2: case."), "{}", ran.err);
    assert!(ran.err.contains("cases.jsonl:3: not JSON"), "{}", ran.err);
}

#[test]
fn a_bad_harness_file_names_the_json_path() {
    let home = Home::new();
    let harness = home.file(
        "h.json",
        r#"{"kind": "command", "id": "h", "version": "1", "command": 7}"#,
    );
    let case = home.file("c.json", CASE);
    let (harness, case) = (harness.to_str().expect("UTF-8"), case.to_str().expect("UTF-8"));
    for args in [
        vec![
            "submit",
            case,
            "--harness-file",
            harness,
            "--hub",
            "http://127.0.0.1:1",
        ],
        vec!["harness", "push", harness, "--hub", "http://127.0.0.1:1"],
    ] {
        let ran = home.run(&args).exits(2);
        assert!(ran.err.contains("h.json: command"), "{}", ran.err);
    }
}

#[test]
fn an_error_in_json_form_is_one_document_with_class_and_fix() {
    let home = Home::new();
    let case = home.file("c.json", CASE);
    let case = case.to_str().expect("UTF-8");
    let args = [
        "submit",
        case,
        "--harness",
        "h@1",
        "--hub",
        "http://127.0.0.1:1",
        "--json",
    ];
    let error = home.run(&args).exits(4).json()["error"].clone();
    assert_eq!(error["class"], "hub_unreachable");
    assert_eq!(error["exitCode"], 4);
    assert!(
        error["fix"].as_str().expect("a fix").contains("hub is running"),
        "{error}"
    );
    let error = home.run(&["submit", "--json"]).exits(2).json()["error"].clone();
    assert_eq!(error["class"], "input");
    assert!(
        error["message"].as_str().expect("words").ends_with("<FILE>..."),
        "{error}"
    );
}

#[test]
fn what_is_not_paired_ends_with_3() {
    let home = Home::new();
    home.run(&["start"]).exits(3);
    home.run(&["unpair"]).exits(3);
    home.run(&["pair", "--hub", "http://127.0.0.1:1"]).exits(3);
    let ran = home.run(&["status"]).exits(0);
    assert!(ran.out.contains("Not paired"), "{}", ran.out);
}

#[test]
fn a_bad_token_or_label_pairs_nothing() {
    let home = Home::new();
    let store = ["--token-store", "file", "--hub", "http://127.0.0.1:1"];
    let bad_token = [&["pair", "--token", "ak_x"], &store[..]].concat();
    assert!(home.run(&bad_token).exits(2).err.contains("not a runner token"));
    let long = "x".repeat(81);
    let bad_label = [&["pair", "--token", "rnr_x", "--label", &long], &store[..]].concat();
    assert!(home.run(&bad_label).exits(2).err.contains("1 to 80 characters"));
    let unreachable = [&["pair", "--token", "rnr_x"], &store[..]].concat();
    home.run(&unreachable).exits(4);
    assert!(!home.path().join("state/runners.json").exists());
    let secrets = home.path().join("state/secrets");
    assert_eq!(std::fs::read_dir(secrets).map_or(0, Iterator::count), 0);
}

#[test]
fn a_database_with_its_password_in_the_arguments_is_refused() {
    let home = Home::new();
    for address in [
        "postgres://ann:hunter2@db/hub",
        "postgres://ann@db/hub?password=hunter2",
    ] {
        let ran = home.run(&["hub", "--database", address]).exits(2);
        assert!(ran.err.contains("EVERDICT_HUB_DATABASE_FILE"), "{}", ran.err);
        assert!(!ran.err.contains("hunter2"), "{}", ran.err);
    }
}

#[test]
fn an_unreachable_database_is_named_without_its_password() {
    let home = Home::new();
    let file = home.file("address", "postgres://ann:hunter2@127.0.0.1:9/hub\n");
    let mut command = home.command(&["hub", "--listen", "127.0.0.1:0"]);
    command.env("EVERDICT_HUB_DATABASE_FILE", &file);
    let ran = Ran::from(command.output().expect("the binary starts"));
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("hub of ann at 127.0.0.1:9"), "{}", ran.err);
    assert!(!ran.err.contains("hunter2"), "{}", ran.err);
}

#[test]
fn a_log_format_that_is_none_is_refused_with_the_choices() {
    let home = Home::new();
    let mut command = home.command(&["status"]);
    command.env("EVERDICT_LOG_FORMAT", "xml");
    let ran = Ran::from(command.output().expect("the binary starts")).exits(2);
    assert!(ran.err.contains("text or json"), "{}", ran.err);
}
