//! What a runner sends back for a case.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::case::{NetworkPolicy, Os, ResourceRequest};
use crate::decode::fields::{non_empty, non_empty_list, num, opt, opt_count, opt_int, opt_min1, opt_text};
use crate::decode::tagged;
use crate::failure::CaseFailure;
use crate::harness::command::Correlate;
use crate::harness::mapping::SpanAttrMapping;
use crate::harness::service::TraceBackend;
use crate::ids::CaseId;
use crate::score::Score;
use crate::snapshot::EnvSnapshot;
use crate::trace::TraceEvent;

/// The graded outcome of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseResult {
    pub case_id: CaseId,
    /// `id@version`.
    pub harness: String,
    /// Era of the evidence; 1 when absent.
    #[serde(default, with = "opt_int", skip_serializing_if = "Option::is_none")]
    pub evidence_version: Option<i64>,
    #[serde(default, with = "opt_count", skip_serializing_if = "Option::is_none")]
    pub trial: Option<u64>,
    pub trace: Vec<TraceEvent>,
    /// The producer vouches that the trace is whole.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub trace_sealed: Option<bool>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub judgments_sealed: Option<bool>,
    /// The instant that `t` of the trace counts from, ISO 8601.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub trace_t0: Option<String>,
    pub snapshot: EnvSnapshot,
    pub scores: Vec<Score>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub failure: Option<CaseFailure>,
    /// Stamped by the control plane; what a runner sends is replaced.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub provenance: Option<CaseProvenance>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionManifest>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub trace_ref: Option<TraceRef>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub evidence: Option<TraceEvidence>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub verifier: Option<VerifierReceipt>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub source_trace_id: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub recording_ref: Option<RecordingRef>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub env_deltas: Option<Vec<EnvDelta>>,
}

impl CaseResult {
    /// Starts a result of the current evidence era with only the required parts.
    pub fn new(case_id: CaseId, harness: impl Into<String>, snapshot: EnvSnapshot) -> Self {
        Self {
            case_id,
            harness: harness.into(),
            evidence_version: Some(crate::EVIDENCE_VERSION),
            trial: None,
            trace: Vec::new(),
            trace_sealed: None,
            judgments_sealed: None,
            trace_t0: None,
            snapshot,
            scores: Vec::new(),
            failure: None,
            provenance: None,
            execution: None,
            trace_ref: None,
            evidence: None,
            verifier: None,
            source_trace_id: None,
            recording_ref: None,
            env_deltas: None,
        }
    }
}

/// Who ran a case, as the control plane knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseProvenance {
    pub ran_on: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub runner: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub attestation: Option<Attestation>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub billed_models: Option<Vec<BilledModel>>,
}

/// How far a result may be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attestation {
    Managed,
    SelfReported,
}

/// A model whose calls were billed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BilledModel {
    pub id: String,
    pub model: String,
}

/// The world a case really ran in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionManifest {
    pub os: Os,
    pub os_resolved: OsResolved,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Evidence era 1 only; later eras use [`Self::image_provenance`].
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    #[serde(default, with = "opt_min1", skip_serializing_if = "Option::is_none")]
    pub manifest_version: Option<u64>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub image_provenance: Option<ImageProvenance>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub world: Option<ProvisionedWorldProof>,
}

/// Whether the case named its operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OsResolved {
    Declared,
    Defaulted,
}

/// Which images a case ran in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ImageProvenance {
    None(NoImages),
    Resolved(ResolvedImages),
    Unresolved(UnresolvedImages),
}

tagged!(ImageProvenance by "kind" { "none" => None, "resolved" => Resolved, "unresolved" => Unresolved });

/// No image was involved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoImages {}

/// Every image is known by digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedImages {
    #[serde(deserialize_with = "non_empty_list")]
    pub images: Vec<ResolvedImage>,
    pub by: ResolvedBy,
}

/// An image with its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedImage {
    pub r#ref: String,
    pub digest: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

/// Who told the digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResolvedBy {
    Ref,
    Driver,
    Orchestrator,
    Runtime,
}

/// Some image is known by name only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnresolvedImages {
    #[serde(deserialize_with = "non_empty_list")]
    pub images: Vec<UnresolvedImage>,
    pub reason: UnresolvedReason,
    pub detail: String,
}

/// An image by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnresolvedImage {
    pub r#ref: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

/// Why a digest is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnresolvedReason {
    InspectFailed,
    NoRegistryDigest,
    LaneCannotReport,
    Partial,
    LegacyEra,
}

/// What a managed placement enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProvisionedWorldProof {
    pub os: Os,
    pub enforced_by: Enforcer,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequest>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkPolicy>,
    #[serde(default, with = "opt_text", skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
}

/// Who enforced a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Enforcer {
    K8s,
    Nomad,
    Docker,
}

/// Where the control plane can fetch the trace itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceRef {
    pub kind: TraceBackend,
    pub endpoint: String,
    pub run_id: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub auth_secret: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub correlate: Option<Correlate>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub experiment: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub mapping: Option<SpanAttrMapping>,
}

/// Evidence that was read out of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceEvidence {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub final_answer: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub dom: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub screenshot_ref: Option<String>,
    /// Base64.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub screenshot_media_type: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub custom: Option<BTreeMap<String, String>>,
}

/// A managed lane's receipt for grading work; no runner makes one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifierReceipt {
    #[serde(deserialize_with = "non_empty")]
    pub plan_digest: String,
    #[serde(deserialize_with = "non_empty")]
    pub workspace_digest: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub work: Option<RuntimeWorkRef>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub image_provenance: Option<ImageProvenance>,
    pub scores: Vec<Score>,
    #[serde(deserialize_with = "non_empty")]
    pub score_digest: String,
    pub complete: bool,
}

/// Names a piece of work on a managed runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeWorkRef {
    pub tenant: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub runtime_id: Option<String>,
    pub run_id: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub attempt_id: Option<String>,
    pub external_job_id: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub verifier: Option<VerifierWork>,
}

/// What a verifier was asked to check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifierWork {
    pub plan_digest: String,
    pub workspace_digest: String,
    pub case_id: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub agent_result_digest: Option<String>,
}

/// Where a recording is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingRef {
    pub r#ref: String,
}

/// How the world had changed at one moment of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvDelta {
    /// Wall clock, milliseconds since the epoch.
    #[serde(serialize_with = "num")]
    pub t: f64,
    pub kind: EnvDeltaKind,
    pub text: String,
}

/// What an [`EnvDelta`] is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnvDeltaKind {
    RepoDiff,
}
