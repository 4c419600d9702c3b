//! What git tracks, and machine paths that must not be in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ToolResult;

/// Lists the files git tracks that are present in the working tree, relative to `root`.
pub(super) fn tracked_files(root: &Path) -> ToolResult<Vec<PathBuf>> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "-z"])
        .output()?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    Ok(output
        .stdout
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned()))
        .filter(|file| root.join(file).is_file())
        .collect())
}

/// Finds the checkout's own absolute path in tracked text: it means nothing on another machine.
pub(super) fn foreign_paths(root: &Path, files: &[PathBuf]) -> ToolResult<Vec<String>> {
    let needle = root.to_string_lossy().into_owned();
    let mut findings = Vec::new();
    for file in files {
        let Ok(text) = std::fs::read_to_string(root.join(file)) else {
            continue;
        };
        if let Some(index) = text.lines().position(|line| line.contains(&needle)) {
            findings.push(format!(
                "{}:{} names this checkout's path",
                file.display(),
                index + 1
            ));
        }
    }
    Ok(findings)
}
