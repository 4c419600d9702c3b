//! The built binary from outside: exit codes, words, JSON, and what it leaves behind.

#[path = "cli/bad_input.rs"]
mod bad_input;
#[path = "cli/drop_in.rs"]
mod drop_in;
#[path = "cli/going.rs"]
mod going;
#[path = "cli/help.rs"]
mod help;
#[cfg(target_os = "linux")]
#[path = "cli/keyring.rs"]
mod keyring;
#[path = "cli/machine.rs"]
mod machine;
#[path = "cli/main_loop.rs"]
mod main_loop;
#[cfg(target_os = "linux")]
#[path = "cli/stopping.rs"]
mod stopping;
#[path = "cli/support.rs"]
mod support;
#[path = "cli/ui.rs"]
mod ui;
