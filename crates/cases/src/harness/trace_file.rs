//! A trace the harness wrote into a file: a JSON array or one event per line.

use everdict_contracts::{Fault, TraceEvent, decode};
use serde_json::Value;

use crate::sandbox::{FileRead, Sandbox};

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
pub(super) async fn read(sandbox: &Sandbox<'_>, path: &str) -> Result<TraceFile, Fault> {
    let remark = |remark| TraceFile {
        events: Vec::new(),
        remark: Some(remark),
    };
    let (bytes, cut) = match sandbox.read_file(path, MAX_BYTES).await? {
        FileRead::Bytes { bytes, cut } => (bytes, cut),
        FileRead::Missing => return Ok(remark(format!("there is no trace file `{path}`"))),
        FileRead::Unreadable(why) => {
            return Ok(remark(format!("the trace file `{path}` can't be read: {why}")));
        }
    };
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
