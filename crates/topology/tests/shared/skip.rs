//! Tests that can't run where they are.

use std::io::Write as _;

/// Reports one.
pub fn skip(test: &str, why: &str) {
    let line = format!("SKIPPED {test}: {why}\n");
    eprint!("{line}");
    #[expect(
        clippy::disallowed_methods,
        reason = "the test runner hands the path over in the environment"
    )]
    let path = std::env::var_os("EVERDICT_SKIP_LOG");
    if let Some(path) = path
        && let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path)
    {
        let _ = file.write_all(line.as_bytes());
    }
}
