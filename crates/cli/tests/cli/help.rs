use crate::support::Home;

#[test]
fn the_exit_code_table_is_printed_in_both_forms() {
    let home = Home::new();
    let words = home.run(&["help", "exit-codes"]).exits(0);
    for code in ["0 ", "1 ", "2 ", "3 ", "4 ", "5 ", "6 ", "130 "] {
        assert!(
            words.out.lines().any(|line| line.starts_with(code)),
            "{code}: {}",
            words.out
        );
    }
    let json = home.run(&["help", "exit-codes", "--json"]).exits(0).json();
    assert_eq!(json["exitCodes"].as_array().expect("a list").len(), 8);
}

#[test]
fn topics_and_commands_are_explained() {
    let home = Home::new();
    assert!(
        home.run(&["help", "environment"])
            .exits(0)
            .out
            .contains("EVERDICT_RUNNER_TOKEN")
    );
    assert!(
        home.run(&["help", "settings"])
            .exits(0)
            .out
            .contains("max_concurrent = 1")
    );
    assert!(home.run(&["help", "signals"]).exits(0).out.contains("SIGTERM"));
    assert!(
        home.run(&["help", "hub", "key", "create"])
            .exits(0)
            .out
            .contains("--workspace")
    );
    assert!(
        home.run(&["--version"])
            .exits(0)
            .out
            .starts_with("everdict-runner ")
    );
    home.run(&["help", "moon"]).exits(2);
}

#[test]
fn asking_for_help_touches_nothing() {
    let home = Home::new();
    home.run(&["help"]).exits(0);
    home.run(&["--help"]).exits(0);
    assert_eq!(std::fs::read_dir(home.path()).expect("home").count(), 0);
}
