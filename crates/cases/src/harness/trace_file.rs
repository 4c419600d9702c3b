//! A trace the harness wrote into a file: a JSON array or one event per line.

use std::fs::File;
use std::io::Read as _;

use everdict_contracts::{Fault, TraceEvent, decode};
use serde_json::Value;

use crate::sandbox::Sandbox;

/// What a trace file may weigh: with the rest of the result it has to fit the 16 MiB the control plane takes.
const MAX_BYTES: u64 = 8 << 20;

/// The events of a trace file, and what a reader should know about it.
#[derive(Debug, Default)]
pub(super) struct TraceFile {
    pub(super) events: Vec<TraceEvent>,
    pub(super) remark: Option<String>,
}

/// Reads the file at `path` of the sandbox. A file that isn't there is an empty trace.
///
/// # Errors
/// `BAD_REQUEST` when the path leads out of the sandbox.
pub(super) fn read(sandbox: &Sandbox<'_>, path: &str) -> Result<TraceFile, Fault> {
    let place = sandbox.locate(path)?;
    let mut bytes = Vec::new();
    // Looked at before it is opened: opening a pipe would wait for a writer that is dead by now.
    let read = std::fs::metadata(&place).and_then(|meta| {
        if !meta.is_file() {
            return Err(std::io::Error::other("not a regular file"));
        }
        File::open(&place)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)
    });
    if let Err(error) = read {
        let remark = match error.kind() {
            std::io::ErrorKind::NotFound => format!("there is no trace file `{path}`"),
            _ => format!("the trace file `{path}` can't be read: {error}"),
        };
        return Ok(TraceFile {
            events: Vec::new(),
            remark: Some(remark),
        });
    }
    let cut = bytes.len() as u64 > MAX_BYTES;
    bytes.truncate(usize::try_from(MAX_BYTES).unwrap_or(usize::MAX));
    let mut file = parse(&String::from_utf8_lossy(&bytes), path);
    if cut {
        let note = format!("the trace file `{path}` is longer than {MAX_BYTES} bytes; the rest was left out");
        file.remark = Some(
            file.remark
                .map_or(note.clone(), |remark| format!("{note}; {remark}")),
        );
    }
    Ok(file)
}

fn parse(text: &str, path: &str) -> TraceFile {
    let rows: Vec<Option<TraceEvent>> = match serde_json::from_str::<Vec<Value>>(text) {
        Ok(values) => values.into_iter().map(|value| decode(value).ok()).collect(),
        Err(_) => text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| decode(line).ok())
            .collect(),
    };
    let total = rows.len();
    let events: Vec<_> = rows.into_iter().flatten().collect();
    let skipped = total - events.len();
    let remark = (skipped > 0)
        .then(|| format!("{skipped} of {total} rows of `{path}` are no trace events and were left out"));
    TraceFile { events, remark }
}
