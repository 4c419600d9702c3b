//! The size budget: a file one can read in a sitting.

use std::path::{Path, PathBuf};

use crate::ToolResult;

/// Above this a file is worth splitting; named as a note.
const SOFT_LINES: usize = 400;
/// Above this nobody keeps the file in their head: an error.
const HARD_LINES: usize = 700;

/// Returns (errors, notes).
pub(super) fn check(root: &Path, files: &[PathBuf]) -> ToolResult<(Vec<String>, Vec<String>)> {
    let (mut hard, mut soft) = (Vec::new(), Vec::new());
    for file in files {
        let extension = file.extension().and_then(|e| e.to_str()).unwrap_or_default();
        if !matches!(extension, "rs" | "ts" | "svelte") {
            continue;
        }
        // Nobody reads or edits what another program writes.
        if file.components().any(|part| part.as_os_str() == "generated") {
            continue;
        }
        let lines = std::fs::read_to_string(root.join(file))?.lines().count();
        let shown = file.display();
        if lines > HARD_LINES {
            hard.push(format!(
                "{shown} has {lines} lines; the hard limit is {HARD_LINES}"
            ));
        } else if lines > SOFT_LINES {
            soft.push(format!("{shown} has {lines} lines; aim at {SOFT_LINES}"));
        }
        // Shared test support has to be a mod.rs: cargo takes every other file in `tests/` for a test of its own.
        let test_support = file.components().any(|part| part.as_os_str() == "tests");
        if !test_support && file.file_name().is_some_and(|name| name == "mod.rs") {
            hard.push(format!("{shown}: use `foo.rs` + `foo/`, not mod.rs"));
        }
    }
    Ok((hard, soft))
}
