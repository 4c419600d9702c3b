//! The wire types of lease protocol v2: jobs, results, harness specs, tool arguments and replies, the roster and runs.
//!
//! The crate reads and writes JSON and classifies errors. It does no I/O, knows no clock and starts no task.
//!
//! Invariants:
//! - [`decode`] names the place of a fault by its JSON path, also inside unions.
//! - Unknown keys are ignored, except in the few objects the protocol calls strict. `null` never stands for an absent
//!   field.
//! - What was decoded and is written again differs only by unknown keys left out and defaults filled in.
//! - Secrets don't show in `Debug`.

#![expect(
    missing_docs,
    reason = "fields and literals carry the protocol's own names; a comment stands where the name isn't enough"
)]

pub mod capability;
pub mod case;
mod decode;
pub mod disk;
pub mod failure;
pub mod fault;
pub mod harness;
pub mod ids;
pub mod job;
pub mod lease;
pub mod report;
pub mod result;
pub mod run;
pub mod runner;
pub mod score;
pub mod snapshot;
pub mod target;
pub mod trace;
pub mod track;
pub mod verdict;

pub use capability::{Capability, UnknownCapability, required_capabilities};
pub use case::*;
pub use decode::{DecodeError, DecodeErrorKind, JsonInput, decode};
pub use disk::{DiskSize, NoDiskSize};
pub use failure::{CaseFailure, FailureClass, FailurePlacement, FailureStage};
pub use fault::{ErrorBody, ErrorCode, Fault, FaultExtra, SIGNAL_OOM};
pub use harness::command::*;
pub use harness::dependency::*;
pub use harness::front_door::*;
pub use harness::mapping::{EvidenceKey, EvidencePick, EvidenceSlot, Pick, SpanAttrMapping};
pub use harness::service::*;
pub use harness::target::*;
pub use harness::template::*;
pub use harness::{
    BUILT_IN_HARNESSES, EnvMap, EnvValue, HarnessSpec, ModelBinding, ModelRef, ModelRefEnv, ProcessHarness,
    SecretRef, SecretScope, resolve,
};
pub use ids::{CaseId, CorrelationId, JobId, RunId, RunnerId, SecretText, Subject, WorkspaceId};
pub use job::*;
pub use lease::*;
pub use report::*;
pub use result::*;
pub use run::*;
pub use runner::*;
pub use score::*;
pub use snapshot::*;
pub use target::RuntimeTarget;
pub use trace::*;
pub use track::*;
pub use verdict::{Judged, Verdict, judge, judge_result, mean_score};

/// The generation of the lease protocol that this crate speaks. An older runner gets no jobs, a newer one does.
pub const PROTOCOL_VERSION: i64 = 2;

/// The era of evidence that results are written in.
pub const EVIDENCE_VERSION: i64 = 2;

/// The generation of the execution manifest that results carry.
pub const MANIFEST_VERSION: u64 = 2;

/// The longest status text, in UTF-16 code units: control planes refuse the whole call beyond it.
pub const MAX_STATUS_CHARS: usize = 200;

/// The most events of one `report_case_trace`: control planes refuse the whole batch beyond it.
pub const MAX_TRACE_BATCH: usize = 500;

/// The longest wait that `lease_job` takes, in milliseconds.
pub const MAX_WAIT_MS: u32 = 60_000;

/// How long a lease lasts without a renewal when the server doesn't say, in milliseconds: the value of the control
/// planes that never say.
pub const DEFAULT_LEASE_TTL_MS: u64 = 120_000;

/// Shortens a status to what every control plane takes, without splitting a character.
///
/// The limit counts UTF-16 code units, as the servers do, so a character outside the basic plane counts twice.
pub fn clip_status(text: &str) -> String {
    let mut units = 0;
    text.trim()
        .chars()
        .take_while(|c| {
            units += c.len_utf16();
            units <= MAX_STATUS_CHARS
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_clipped_by_utf16_units_between_characters() {
        assert_eq!(clip_status("  idle \n"), "idle");
        assert_eq!(clip_status(&"a".repeat(201)).len(), 200);
        assert_eq!(clip_status(&"é".repeat(300)).chars().count(), 200);
        let pairs = clip_status(&format!("a{}", "🦀".repeat(150)));
        assert_eq!(pairs.encode_utf16().count(), 199);
        assert_eq!(pairs.chars().count(), 100);
    }

    #[test]
    fn secrets_do_not_show() {
        let job: CaseJob = decode(include_str!("../fixtures/job_command.json")).unwrap();
        let shown = format!("{job:?}");
        assert!(shown.contains("[redacted]"));
        assert!(!shown.contains("made-up"), "{shown}");
    }
}
