//! One case of a dataset: where it runs, what is asked, how it is graded.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::decode::fields::{opt, opt_min1, positive};
use crate::decode::{DecodeError, carry, checked, from_value, tagged, unexpected};
use crate::disk::DiskSize;
use crate::ids::CaseId;

/// The time a case gets when it names none, in seconds; set by the protocol.
pub const DEFAULT_TIMEOUT_SEC: u64 = 1800;

fn default_timeout_sec() -> u64 {
    DEFAULT_TIMEOUT_SEC
}

/// One case to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalCase {
    pub id: CaseId,
    pub env: EnvSpec,
    pub task: String,
    /// Reference answer.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub milestones: Option<Vec<Milestone>>,
    #[serde(default)]
    pub graders: Vec<GraderSpec>,
    /// Container image to run the case in.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub fixtures: Option<Vec<StoreFixture>>,
    /// Seconds for the whole case, graders included.
    #[serde(default = "default_timeout_sec", deserialize_with = "positive")]
    pub timeout_sec: u64,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequest>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkPolicy>,
}

/// The world a case starts from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EnvSpec {
    Repo(RepoEnv),
    Browser(BrowserEnv),
    Prompt(PromptEnv),
    OsUse(OsUseEnv),
}

tagged!(EnvSpec by "kind" { "repo" => Repo, "browser" => Browser, "prompt" => Prompt, "os-use" => OsUse });

/// A working tree, optionally prepared by shell commands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RepoEnv {
    pub source: RepoSource,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub setup: Option<Vec<String>>,
}

/// A browser page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BrowserEnv {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub start_url: Option<String>,
}

/// Nothing but text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptEnv {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

/// A graphical desktop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OsUseEnv {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub display: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub setup: Option<Vec<String>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub screenshot_cmd: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub screenshot_path: Option<String>,
}

/// Where the working tree comes from. The wire has no discriminator: the first form that fits wins, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RepoSource {
    Git {
        /// An absolute URL; the `git@host:path` short form is not one.
        git: String,
        #[serde(rename = "ref")]
        git_ref: String,
        #[serde(rename = "connectionId", skip_serializing_if = "Option::is_none")]
        connection_id: Option<String>,
    },
    /// File contents by path relative to the tree.
    Files { files: BTreeMap<String, String> },
    /// A folder on the runner's machine.
    Path { path: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GitForm {
    #[serde(deserialize_with = "absolute_url")]
    git: String,
    r#ref: String,
    #[serde(default, with = "opt")]
    connection_id: Option<String>,
}

#[derive(Deserialize)]
struct FilesForm {
    files: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct PathForm {
    path: String,
}

impl<'de> Deserialize<'de> for RepoSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let Value::Object(object) = &value else {
            return Err(D::Error::invalid_type(
                unexpected(&value),
                &"an object with `git`, `files` or `path`",
            ));
        };
        // The fault worth telling is that of the first form the author had in mind, which its key gives away.
        let mut first_fault = None;
        let mut keep = |error| {
            first_fault.get_or_insert(error);
        };
        if object.contains_key("git") {
            match from_value::<GitForm>(value.clone()) {
                Ok(form) => {
                    return Ok(Self::Git {
                        git: form.git,
                        git_ref: form.r#ref,
                        connection_id: form.connection_id,
                    });
                }
                Err(error) => keep(error),
            }
        }
        if object.contains_key("files") {
            match from_value::<FilesForm>(value.clone()) {
                Ok(form) => return Ok(Self::Files { files: form.files }),
                Err(error) => keep(error),
            }
        }
        if object.contains_key("path") {
            match from_value::<PathForm>(value.clone()) {
                Ok(form) => return Ok(Self::Path { path: form.path }),
                Err(error) => keep(error),
            }
        }
        Err(first_fault.map_or_else(
            || D::Error::custom("expected an object with `git` and `ref`, `files`, or `path`"),
            |error| carry(&error),
        ))
    }
}

fn absolute_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if is_absolute_url(&text) {
        Ok(text)
    } else {
        Err(D::Error::invalid_value(
            serde::de::Unexpected::Str(&text),
            &"an absolute URL such as https://host/path",
        ))
    }
}

/// Tells whether `text` has a scheme and, for the web schemes, a host.
pub fn is_absolute_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let mut letters = scheme.chars();
    if !letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        || !letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    {
        return false;
    }
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" | "ftp" | "ws" | "wss" => {
            let host = rest
                .trim_start_matches(['/', '\\'])
                .split(['/', '?', '#'])
                .next()
                .unwrap_or("");
            let host = host.rsplit('@').next().unwrap_or("");
            !host.is_empty() && !host.starts_with(':') && !host.contains(char::is_whitespace)
        }
        _ => true,
    }
}

/// A step that a grader may check for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Milestone {
    pub id: String,
    pub description: String,
}

/// A grader by id and what it is told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GraderSpec {
    pub id: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub authority: Option<MetricAuthority>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub direction: Option<MetricDirection>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Vec<MetricSpec>>,
}

/// What one of a grader's metrics means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSpec {
    #[serde(deserialize_with = "crate::decode::fields::non_empty")]
    pub id: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub authority: Option<MetricAuthority>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub direction: Option<MetricDirection>,
}

/// How much a metric may decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricAuthority {
    GroundTruth,
    Objective,
    Judge,
    Observational,
}

/// Which way a metric gets better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricDirection {
    HigherIsBetter,
    LowerIsBetter,
    Neutral,
}

/// Data put into a store before the case starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreFixture {
    pub store: StoreKind,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    pub seed: Seed,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub format: Option<SeedFormat>,
}

/// The stores a topology can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    Postgres,
    Redis,
    Minio,
}

/// The text of a seed, or where it is; the first form that fits wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Seed {
    Inline { inline: String },
    Ref { r#ref: String },
}

impl<'de> Deserialize<'de> for Seed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Map::<String, Value>::deserialize(deserializer)?;
        match (object.get("inline"), object.get("ref")) {
            (Some(Value::String(inline)), _) => Ok(Self::Inline {
                inline: inline.clone(),
            }),
            (_, Some(Value::String(place))) => Ok(Self::Ref { r#ref: place.clone() }),
            _ => Err(D::Error::custom(
                "expected an object with text under `inline` or `ref`",
            )),
        }
    }
}

/// How a seed is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeedFormat {
    Sql,
    RedisCmds,
    Objects,
}

/// Where a case may run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub os: Option<Os>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
}

/// The operating systems of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Os {
    Linux,
    Windows,
    Macos,
}

/// What a case or service wants of the machine. CPU in thousandths of a core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRequest {
    #[serde(default, with = "opt_min1", skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u64>,
    #[serde(default, with = "opt_min1", skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    #[serde(default, with = "opt_min1", skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u64>,
    /// Free disk that it needs when it begins.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskSize>,
}

/// What a case may reach over the network. Hosts are listed with [`NetworkMode::Allowlist`] only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct NetworkPolicy {
    pub mode: NetworkMode,
    #[serde(default)]
    pub allowed_hosts: Vec<String>,
}

checked!(NetworkPolicy);

impl NetworkPolicy {
    fn check(&self) -> Result<(), DecodeError> {
        if let Some(index) = self.allowed_hosts.iter().position(String::is_empty) {
            return Err(DecodeError::invalid(
                format!("allowedHosts[{index}]"),
                "expected text that is not empty",
            ));
        }
        if self.mode != NetworkMode::Allowlist && !self.allowed_hosts.is_empty() {
            return Err(DecodeError::invalid(
                "allowedHosts",
                "hosts may be listed only with mode `allowlist`",
            ));
        }
        Ok(())
    }
}

/// The shapes of a [`NetworkPolicy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    Public,
    None,
    Allowlist,
}
