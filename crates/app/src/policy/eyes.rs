//! What the machine looks like now: the real readers behind [`super::Seen`].

use std::path::{Path, PathBuf};

use everdict_exec::HostEnv;
use jiff::Timestamp;

use super::bus::SystemBus;
use super::{Seen, power};

/// Another folder for the power supplies; for tests.
const POWER_ROOT_VAR: &str = "EVERDICT_POWER_SUPPLY_ROOT";
/// Where the system bus is, by the D-Bus specification.
const BUS_VAR: &str = "DBUS_SYSTEM_BUS_ADDRESS";

/// The readers.
#[derive(Debug)]
pub(crate) struct Eyes {
    power_root: PathBuf,
    work_root: PathBuf,
    pub(crate) bus: SystemBus,
}

impl Eyes {
    pub(crate) fn new(env: &HostEnv, work_root: PathBuf) -> Self {
        let given = |name: &str| env.get(name).filter(|value| !value.is_empty());
        Self {
            power_root: given(POWER_ROOT_VAR).unwrap_or(power::ROOT).into(),
            work_root,
            bus: SystemBus::new(given(BUS_VAR).map(str::to_owned)),
        }
    }

    /// Looks at everything once; takes a few milliseconds, and a few seconds where a service hangs.
    pub(crate) async fn look(&self) -> Seen {
        let (metered, in_use) = tokio::join!(self.bus.metered(), self.bus.in_use());
        Seen {
            power: power::read(&self.power_root),
            metered,
            in_use,
            disk_free: free(&self.work_root),
            local: crate::control::local_time(Timestamp::now()),
        }
    }
}

/// Free bytes of the disk that `path` lies on, or will lie on once it is made.
fn free(path: &Path) -> Option<u64> {
    let there = path.ancestors().find(|part| part.exists())?;
    let stat = rustix::fs::statvfs(there).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_that_of_the_disk_a_folder_will_lie_on() {
        let dir = tempfile::tempdir().unwrap();
        let here = free(dir.path()).unwrap();
        let later = free(&dir.path().join("not/made/yet")).unwrap();
        assert!(here > 0 && here.abs_diff(later) < 1_000_000_000);
    }
}
