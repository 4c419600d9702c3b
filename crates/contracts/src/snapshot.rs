//! The state a case left behind.

use serde::{Deserialize, Serialize};

use crate::decode::fields::opt;
use crate::decode::tagged;

/// What was there when the case ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EnvSnapshot {
    Repo(RepoSnapshot),
    Browser(BrowserSnapshot),
    Prompt(PromptSnapshot),
    OsUse(OsUseSnapshot),
}

tagged!(EnvSnapshot by "kind" { "repo" => Repo, "browser" => Browser, "prompt" => Prompt, "os-use" => OsUse });

impl EnvSnapshot {
    /// Makes the snapshot of a case that produced text, or nothing.
    pub fn prompt(output: impl Into<String>) -> Self {
        Self::Prompt(PromptSnapshot {
            output: output.into(),
        })
    }
}

/// How a working tree differs from its baseline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepoSnapshot {
    pub diff: String,
    pub changed_files: Vec<String>,
    pub head_sha: String,
}

/// A page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BrowserSnapshot {
    pub url: String,
    pub dom: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub dom_ref: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub screenshot_ref: Option<String>,
    /// Base64.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<String>,
    #[serde(default)]
    pub console: Vec<String>,
}

/// Text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptSnapshot {
    #[serde(default)]
    pub output: String,
}

/// A desktop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OsUseSnapshot {
    #[serde(default)]
    pub screenshot_ref: String,
    /// PNG in base64.
    #[serde(default)]
    pub screenshot: String,
    #[serde(default)]
    pub windows: Vec<String>,
}
