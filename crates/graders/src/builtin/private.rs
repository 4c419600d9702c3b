//! A folder for a grader's own files, which the agent has never seen.
//!
//! It is made when the agent's processes are gone, under a name that could not be known: whatever the agent may have put
//! in the way (a link to the member's home in place of a folder) is never followed.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::compute::{Compute, ComputeExec};
use crate::grader::GradeError;

/// Making a folder and writing a file take no time; a minute covers a cold, busy disk.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// A score is short. What is longer is no score.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Makes the folder, and returns its absolute path.
pub(super) async fn folder(compute: &dyn Compute) -> Result<String, GradeError> {
    let make = "umask 077; mktemp -d \"$PWD/grade-XXXXXXXXXXXX\" 2>/dev/null || mktemp -d";
    let mut exec = ComputeExec::new(make, WRITE_TIMEOUT);
    exec.cwd = Some(".".to_owned());
    let output = compute.exec(exec).await?;
    let path = output.stdout.trim();
    if output.exit_code != 0 || !path.starts_with('/') {
        let why = output.stderr.trim();
        return Err(GradeError::Failed(format!(
            "no folder could be made for the grader's files: {why}"
        )));
    }
    Ok(path.to_owned())
}

/// Writes one file in a folder of the grader's own, with the folders above it.
pub(super) async fn write(compute: &dyn Compute, path: &str, content: &[u8]) -> Result<(), GradeError> {
    let line = "umask 077; mkdir -p -- \"$(dirname -- \"$EVERDICT_FILE\")\" && cat > \"$EVERDICT_FILE\" && chmod 700 \"$EVERDICT_FILE\"";
    let mut exec = ComputeExec::new(line, WRITE_TIMEOUT);
    exec.env = BTreeMap::from([("EVERDICT_FILE".to_owned(), path.to_owned())]);
    exec.stdin = Some(content.to_vec());
    let output = compute.exec(exec).await?;
    if output.exit_code == 0 {
        return Ok(());
    }
    let why = output.stderr.trim();
    Err(GradeError::Failed(format!(
        "the grader's file {path} could not be written: {why}"
    )))
}

/// Reads a file that a grader's command was to write; `None` if there is none.
pub(super) async fn read(compute: &dyn Compute, path: &str) -> Result<Option<String>, GradeError> {
    let line = format!(
        "if [ -f \"$EVERDICT_FILE\" ] && [ ! -L \"$EVERDICT_FILE\" ]; then head -c {MAX_ANSWER_BYTES} \"$EVERDICT_FILE\"; else exit 3; fi"
    );
    let mut exec = ComputeExec::new(line, WRITE_TIMEOUT);
    exec.env = BTreeMap::from([("EVERDICT_FILE".to_owned(), path.to_owned())]);
    let output = compute.exec(exec).await?;
    match output.exit_code {
        0 => Ok(Some(output.stdout)),
        3 => Ok(None),
        code => Err(GradeError::Failed(format!(
            "{path} can't be read (exit {code}): {}",
            output.stderr.trim()
        ))),
    }
}

/// A word for a shell, whatever is in it.
pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
