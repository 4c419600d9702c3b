//! What a runner can do, and what a job needs.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::case::{EnvSpec, Os, RepoSource, ResourceRequest};
use crate::harness::{HarnessSpec, ServiceHarness};
use crate::job::CaseJob;

/// One word of the vocabulary. The order is that of advertising.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    Git,
    Docker,
    Browser,
    ComputerUse,
    Topology,
    OsWindows,
    OsMacos,
    Gpu,
    Sandbox,
    CodexLogin,
    ClaudeLogin,
}

/// A word that is not in the vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown capability `{0}`, expected one of git, docker, browser, computer-use, topology, os-windows, os-macos, gpu, sandbox, codex-login, claude-login"
)]
pub struct UnknownCapability(pub String);

impl Capability {
    /// The whole vocabulary, in order.
    pub const ALL: [Self; 11] = [
        Self::Git,
        Self::Docker,
        Self::Browser,
        Self::ComputerUse,
        Self::Topology,
        Self::OsWindows,
        Self::OsMacos,
        Self::Gpu,
        Self::Sandbox,
        Self::CodexLogin,
        Self::ClaudeLogin,
    ];

    /// Returns the literal of the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::Docker => "docker",
            Self::Browser => "browser",
            Self::ComputerUse => "computer-use",
            Self::Topology => "topology",
            Self::OsWindows => "os-windows",
            Self::OsMacos => "os-macos",
            Self::Gpu => "gpu",
            Self::Sandbox => "sandbox",
            Self::CodexLogin => "codex-login",
            Self::ClaudeLogin => "claude-login",
        }
    }

    /// Tells whether a job may be kept from a runner that lacks it; the others only inform.
    pub fn is_functional(self) -> bool {
        !matches!(self, Self::Sandbox | Self::CodexLogin | Self::ClaudeLogin)
    }

    /// Keeps the known words, each once, in the order given.
    pub fn known<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<Self> {
        let mut seen = BTreeSet::new();
        words
            .into_iter()
            .filter_map(|word| word.parse().ok())
            .filter(|word| seen.insert(*word))
            .collect()
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Capability {
    type Err = UnknownCapability;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|known| known.as_str() == word)
            .ok_or_else(|| UnknownCapability(word.to_owned()))
    }
}

/// Returns what a runner must have for `job`; only the functional ones keep a job from a runner.
pub fn required_capabilities(job: &CaseJob) -> BTreeSet<Capability> {
    let mut needs = BTreeSet::new();
    let case = &job.eval_case;
    if case
        .placement
        .as_ref()
        .is_some_and(|placement| placement.isolation.is_some())
    {
        needs.insert(Capability::Sandbox);
    }
    if let Some(HarnessSpec::Service(service)) = &job.harness_spec {
        service_needs(service, &mut needs);
        return needs;
    }
    if case.image.is_some() {
        needs.insert(Capability::Docker);
    }
    match &case.env {
        EnvSpec::Repo(repo) if matches!(repo.source, RepoSource::Git { .. }) => {
            needs.insert(Capability::Git);
        }
        EnvSpec::Browser(_) => {
            needs.insert(Capability::Browser);
        }
        EnvSpec::OsUse(_) => {
            needs.insert(Capability::ComputerUse);
        }
        EnvSpec::Repo(_) | EnvSpec::Prompt(_) => {}
    }
    needs.extend(
        case.placement
            .as_ref()
            .and_then(|placement| placement.os)
            .and_then(os_need),
    );
    if let Some(HarnessSpec::Command(command)) = &job.harness_spec
        && wants_gpu(command.resources.as_ref())
    {
        needs.insert(Capability::Gpu);
    }
    needs
}

fn service_needs(harness: &ServiceHarness, needs: &mut BTreeSet<Capability>) {
    for service in &harness.services {
        if wants_gpu(service.resources.as_ref()) {
            needs.insert(Capability::Gpu);
        }
        if !service.on_host() {
            needs.insert(Capability::Docker);
        }
        needs.extend(
            service
                .requires
                .and_then(|requires| requires.os)
                .and_then(os_need),
        );
    }
}

fn wants_gpu(resources: Option<&ResourceRequest>) -> bool {
    resources
        .and_then(|resources| resources.gpu)
        .is_some_and(|count| count > 0)
}

fn os_need(os: Os) -> Option<Capability> {
    match os {
        Os::Windows => Some(Capability::OsWindows),
        Os::Macos => Some(Capability::OsMacos),
        Os::Linux => None,
    }
}

#[cfg(test)]
mod tests;
