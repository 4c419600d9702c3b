//! Where everything of ours lies on this machine.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use everdict_exec::HostEnv;

use crate::private_file;
use crate::problem::{Problem, Result};

/// The environment variable that puts every folder under one path (tests, demo, portable use).
pub const HOME_VAR: &str = "EVERDICT_HOME";

const APP_DIR: &str = "everdict-runner";

/// The folders of this installation. Nothing is created until [`Paths::prepare`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    config: PathBuf,
    data: PathBuf,
    state: PathBuf,
    cache: PathBuf,
}

impl Paths {
    /// Resolves the folders from `EVERDICT_HOME`, else from the platform's conventions.
    ///
    /// # Errors
    /// A problem about this machine when neither names a home.
    pub fn from_env(env: &HostEnv) -> Result<Self> {
        if let Some(home) = env.get(HOME_VAR).filter(|home| !home.is_empty()) {
            let home = std::path::absolute(home)
                .map_err(|error| Problem::input(format!("{HOME_VAR} is not a usable path")).because(error))?;
            return Ok(Self::under(&home));
        }
        let base = etcetera::base_strategy::choose_native_strategy().map_err(|error| {
            Problem::machine("can't find this user's home folder")
                .fix(format!("set HOME, or set {HOME_VAR} to a folder of your choice"))
                .because(error)
        })?;
        let data = base.data_dir().join(APP_DIR);
        Ok(Self {
            config: base.config_dir().join(APP_DIR),
            state: base
                .state_dir()
                .map_or_else(|| data.join("state"), |dir| dir.join(APP_DIR)),
            cache: base.cache_dir().join(APP_DIR),
            data,
        })
    }

    /// Puts all folders under `home`.
    #[must_use]
    pub fn under(home: &Path) -> Self {
        Self {
            config: home.join("config"),
            data: home.join("data"),
            state: home.join("state"),
            cache: home.join("cache"),
        }
    }

    /// Creates the folders for the owner alone and proves that they can be written.
    ///
    /// # Errors
    /// A problem about this machine that names the folder and the fix.
    pub fn prepare(&self) -> Result<()> {
        for dir in [&self.config, &self.data, &self.state, &self.cache] {
            private_file::prepare_dir(dir)?;
        }
        Ok(())
    }

    /// Returns the person's settings file.
    #[must_use]
    pub fn settings_file(&self) -> PathBuf {
        self.config.join("settings.toml")
    }

    /// Returns the list of paired runners.
    #[must_use]
    pub fn registrations_file(&self) -> PathBuf {
        self.state.join("runners.json")
    }

    /// Returns the folder of the `file` secret store.
    #[must_use]
    pub fn secrets_dir(&self) -> PathBuf {
        self.state.join("secrets")
    }

    /// Returns the folder for the journal, outbox and history.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.state
    }

    /// Returns the folder of the program's own log.
    #[must_use]
    pub fn log_dir(&self) -> PathBuf {
        self.state.join("logs")
    }

    /// Returns the folder of the embedded hub's database.
    #[must_use]
    pub fn hub_dir(&self) -> PathBuf {
        self.data.join("hub")
    }

    /// Returns the folder of what the person keeps and has no folder of their own for.
    #[must_use]
    pub fn saved_dir(&self) -> PathBuf {
        self.data.join("saved")
    }

    /// Returns the folder of everything that lasts: the embedded hub's database above all.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.data
    }

    /// Returns the folder under which each case gets its scratch directory.
    #[must_use]
    pub fn work_root(&self) -> PathBuf {
        self.cache.join("work")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_variable_moves_every_folder() {
        let dir = tempfile::tempdir().unwrap();
        let env = HostEnv::from_pairs([(HOME_VAR, dir.path().to_str().unwrap())]);
        let paths = Paths::from_env(&env).unwrap();
        paths.prepare().unwrap();
        for path in [
            paths.settings_file(),
            paths.registrations_file(),
            paths.hub_dir(),
            paths.work_root(),
            paths.secrets_dir(),
        ] {
            assert!(path.starts_with(dir.path()), "{}", path.display());
        }
    }
}
