//! House rules that the compiler cannot check.

mod budget;
mod direction;
mod tree;

use std::path::PathBuf;

use crate::ToolResult;

/// Runs every check and lists all findings at once, so that one run shows all there is to mend.
///
/// # Errors
/// When a rule is broken, or when cargo or git cannot be asked.
pub(crate) fn run() -> ToolResult<()> {
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec()?;
    let root = PathBuf::from(metadata.workspace_root.as_std_path());
    let mut findings = direction::check(&metadata);
    let sources = tree::tracked_files(&root)?;
    let (hard, soft) = budget::check(&root, &sources)?;
    findings.extend(hard);
    findings.extend(tree::foreign_paths(&root, &sources)?);

    for note in &soft {
        eprintln!("note: {note}");
    }
    if findings.is_empty() {
        println!(
            "lint: {} crates, {} files: direction and budgets hold",
            metadata.packages.len(),
            sources.len()
        );
        return Ok(());
    }
    for finding in &findings {
        eprintln!("error: {finding}");
    }
    Err(format!("{} house rule(s) broken", findings.len()).into())
}
