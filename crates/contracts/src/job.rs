//! The job that a lease carries.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::case::EvalCase;
use crate::decode::fields::{non_empty, opt, opt_count, opt_text};
use crate::harness::{HarnessSpec, ModelBinding};
use crate::ids::{CorrelationId, SecretText, Subject, WorkspaceId};
use crate::result::ProvisionedWorldProof;

/// One case with everything a runner needs to run it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseJob {
    pub eval_case: EvalCase,
    /// The identity that results carry as `id@version`.
    pub harness: HarnessRef,
    /// Absent for the harnesses built into every runner.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub harness_spec: Option<HarnessSpec>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub model_pins: Option<ModelPins>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub tenant: Option<WorkspaceId>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub submitted_by: Option<Subject>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub meter_usage: Option<bool>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeConfig>,
    /// For graders only; the agent never sees it.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub judge_auth: Option<JudgeAuth>,
    /// Bearer for cloning the case's repository.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub repo_token: Option<SecretText>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub registry_auths: Option<Vec<RegistryAuth>>,
    /// The first of [`Self::registry_auths`], for readers that know only one.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub registry_auth: Option<RegistryAuth>,
    /// Image by service name, for this dispatch only.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub image_pins: Option<BTreeMap<String, String>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub run_id: Option<CorrelationId>,
    #[serde(default, with = "opt_count", skip_serializing_if = "Option::is_none")]
    pub recording_generation: Option<u64>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub world_proof: Option<ProvisionedWorldProof>,
    /// `<runId>#g<generation>`.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub attempt_id: Option<String>,
    #[serde(default, with = "opt_count", skip_serializing_if = "Option::is_none")]
    pub driver_epoch: Option<u64>,
    #[serde(default, with = "opt_count", skip_serializing_if = "Option::is_none")]
    pub trial: Option<u64>,
}

impl CaseJob {
    /// Starts a job with only the required parts.
    pub fn new(eval_case: EvalCase, harness: HarnessRef) -> Self {
        Self {
            eval_case,
            harness,
            harness_spec: None,
            model_pins: None,
            tenant: None,
            submitted_by: None,
            meter_usage: None,
            judge: None,
            judge_auth: None,
            repo_token: None,
            registry_auths: None,
            registry_auth: None,
            image_pins: None,
            priority: None,
            batch_id: None,
            run_id: None,
            recording_generation: None,
            world_proof: None,
            attempt_id: None,
            driver_epoch: None,
            trial: None,
        }
    }

    /// Returns the pull credentials, from whichever of the two fields carries them.
    pub fn pull_credentials(&self) -> &[RegistryAuth] {
        match (&self.registry_auths, &self.registry_auth) {
            (Some(all), _) => all,
            (None, Some(one)) => std::slice::from_ref(one),
            (None, None) => &[],
        }
    }
}

/// A harness by name and version.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HarnessRef {
    pub id: String,
    /// May be empty here, unlike in a harness spec.
    pub version: String,
}

impl HarnessRef {
    pub fn new(id: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            version: version.into(),
        }
    }
}

/// Prints `id@version`, the form in which results name their harness.
impl std::fmt::Display for HarnessRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.id, self.version)
    }
}

/// Digests of pinned model documents; a runner passes them by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelPins {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub service_models: Option<BTreeMap<String, String>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub judge_run: Option<String>,
}

/// The model that judges, when a grader asks for one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgeConfig {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub provider: Option<JudgeProvider>,
    pub model: ModelBinding,
}

/// Whose API a judge speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JudgeProvider {
    Openai,
    Anthropic,
}

/// Credentials of the judging model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JudgeAuth {
    pub api_key: SecretText,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
}

/// Pull credentials for one image registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryAuth {
    #[serde(deserialize_with = "non_empty")]
    pub host: String,
    #[serde(default, with = "opt_text", skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    #[serde(deserialize_with = "non_empty")]
    pub password: SecretText,
}

/// The queue class of a job; `batch` when absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    Interactive,
    Batch,
}
