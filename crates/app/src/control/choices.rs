//! What the person chose with switches, kept over restarts.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use everdict_contracts::Capability;
use serde::{Deserialize, Serialize};

use super::hold::Hold;
use crate::private_file;
use crate::problem::Result;

/// The choices themselves. A key that a newer version wrote is ignored, one that is missing has its default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Choices {
    /// Whether new jobs are held back.
    pub(super) hold: Hold,
    /// Capabilities that aren't offered.
    pub(super) switched_off: BTreeSet<Capability>,
    /// Where the embedded hub listens; `None` when this machine has none.
    pub(super) hub: Option<SocketAddr>,
}

/// The file of the choices.
#[derive(Debug)]
pub(super) struct ChoicesFile(PathBuf);

impl ChoicesFile {
    pub(super) fn in_dir(state_dir: &Path) -> Self {
        Self(state_dir.join("choices.json"))
    }

    /// Reads the choices. A file that can't be read counts as paused until resumed: nothing runs here against a wish
    /// that can't be known.
    pub(super) fn load(&self) -> Choices {
        let read = private_file::read(&self.0).map(|bytes| match bytes {
            None => Some(Choices::default()),
            Some(bytes) => serde_json::from_slice(&bytes).ok(),
        });
        if let Ok(Some(choices)) = read {
            return choices;
        }
        tracing::warn!(file = %self.0.display(), "the choices can't be read; paused until resumed");
        Choices {
            hold: Hold::UntilResumed,
            ..Choices::default()
        }
    }

    pub(super) fn save(&self, choices: &Choices) -> Result<()> {
        if let Some(dir) = self.0.parent() {
            private_file::prepare_dir(dir)?;
        }
        let mut text = serde_json::to_vec_pretty(choices).expect("BUG: choices are plain data");
        text.push(b'\n');
        private_file::write(&self.0, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_outlive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let file = ChoicesFile::in_dir(dir.path());
        assert_eq!(file.load(), Choices::default());
        let chosen = Choices {
            hold: Hold::UntilResumed,
            switched_off: [Capability::Docker, Capability::ClaudeLogin].into(),
            hub: Some("127.0.0.1:8787".parse().unwrap()),
        };
        file.save(&chosen).unwrap();
        assert_eq!(ChoicesFile::in_dir(dir.path()).load(), chosen);
    }

    #[test]
    fn choices_that_can_t_be_read_hold_jobs_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = ChoicesFile::in_dir(dir.path());
        private_file::write(&dir.path().join("choices.json"), b"{nonsense").unwrap();
        assert_eq!(file.load().hold, Hold::UntilResumed);
    }
}
