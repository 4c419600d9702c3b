//! Who may call what is written in several places; these tests keep them the same.

use std::collections::BTreeSet;

use everdict_app::control::calls::{CALLS, STREAMS};

const COMMANDS: &str = include_str!("../commands.rs");
const PERMISSIONS: &str = include_str!("../permissions/app.toml");
const CAPABILITY: &str = include_str!("../capabilities/main.json");
const PAGE: &str = include_str!("../../ui/src/host/methods.ts");

/// Ends a subscription, and says that the page shows something: no calls of the contract.
const BEYOND_THE_CONTRACT: [&str; 2] = ["painted", "unwatch"];

fn registered() -> BTreeSet<String> {
    let list = COMMANDS.split("generate_handler![").nth(1).unwrap();
    let list = list.split(']').next().unwrap();
    list.split(',')
        .filter_map(|entry| entry.trim().rsplit("::").next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

fn permitted() -> Vec<String> {
    let lists = PERMISSIONS.split("commands.allow = [").skip(1);
    lists
        .flat_map(|list| list.split(']').next().unwrap().split(','))
        .map(|name| name.trim().trim_matches('"').to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

fn called_by_the_page() -> BTreeSet<String> {
    let names = PAGE.split("command: \"").skip(1);
    names
        .map(|rest| rest.split('"').next().unwrap().to_owned())
        .collect()
}

/// The engine's table, and what only a window has.
fn answered() -> BTreeSet<String> {
    let calls = CALLS.iter().map(|call| call.name.to_owned());
    registered().into_iter().chain(calls).collect()
}

#[test]
fn every_command_is_registered_and_permitted_once() {
    let written: BTreeSet<String> = COMMANDS
        .split("#[tauri::command]\npub async fn ")
        .skip(1)
        .map(|rest| rest.split(['(', '<']).next().unwrap().to_owned())
        .collect();
    let (registered, permitted) = (registered(), permitted());
    assert_eq!(written, registered);
    assert_eq!(permitted.iter().cloned().collect::<BTreeSet<_>>(), answered());
    assert_eq!(
        permitted.len(),
        CALLS.len() + registered.len(),
        "a command is permitted, or answered, twice"
    );
}

#[test]
fn a_window_follows_what_a_browser_follows() {
    let registered = registered();
    for stream in STREAMS {
        assert!(registered.contains(*stream), "{stream}");
    }
}

#[test]
fn the_window_has_every_permission_and_none_of_tauri_s_own() {
    let defined: BTreeSet<&str> = PERMISSIONS
        .split("identifier = \"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    let capability: serde_json::Value = serde_json::from_str(CAPABILITY).unwrap();
    let granted = capability["permissions"].as_array().unwrap();
    let granted: BTreeSet<&str> = granted.iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(granted, defined);
    assert_eq!(capability["windows"], serde_json::json!(["main"]));
    assert!(capability.get("remote").is_none());
}

#[test]
fn the_page_can_reach_every_command() {
    let beyond = BEYOND_THE_CONTRACT.map(str::to_owned).into();
    let unreachable: Vec<String> = answered()
        .difference(&called_by_the_page())
        .filter(|name| !BTreeSet::contains(&beyond, *name))
        .cloned()
        .collect();
    assert_eq!(unreachable, Vec::<String>::new());
}
