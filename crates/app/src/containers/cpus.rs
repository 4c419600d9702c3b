//! The share of the CPUs that containers may use.
//!
//! All containers of this process get the same CPUs, the ones that programs of jobs get too, so that the share is one for
//! everything together. Their own limits, which their specs ask for, stay as they are.

use std::collections::HashMap;

use everdict_topology::engine::{Engine, RunState};
use everdict_topology::labels::{INSTALL, OWNER_PID};

use super::Containers;

/// What containers were told, by their id.
#[derive(Debug, Default)]
pub(super) struct Told(HashMap<String, u8>);

impl Containers {
    /// Tells the containers of this process how many percent of the CPUs they may use together; 100 lifts it. Returns
    /// false when the engine can't keep that. Costs one request, and one for each container that doesn't know yet.
    pub(crate) async fn share_cpus(&self, percent: u8) -> bool {
        let mut told = self.room.told.lock().await;
        if percent >= 100 && told.0.is_empty() {
            return true;
        }
        let (engine, cpus) = {
            let opened = self.room.opened.lock().await;
            let Some(opened) = &*opened else { return true };
            (opened.runtime().engine().clone(), opened.cpus())
        };
        match told
            .tell(&engine, &self.room.identity.install, cpus, percent)
            .await
        {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "containers are not limited to their share of the cpus");
                false
            }
        }
    }
}

impl Told {
    async fn tell(
        &mut self,
        engine: &Engine,
        install: &str,
        cpus: u64,
        percent: u8,
    ) -> Result<(), everdict_topology::engine::EngineError> {
        let ours = [
            format!("{INSTALL}={install}"),
            format!("{OWNER_PID}={}", std::process::id()),
        ];
        let rows = engine.list_containers(&ours).await?;
        let living = |id: &String| {
            rows.iter()
                .any(|row| row.id == *id && row.state != RunState::Ended)
        };
        self.0.retain(|id, _| living(id));
        let list = list(cpus, percent);
        for row in rows.iter().filter(|row| row.state != RunState::Ended) {
            let known = self.0.get(&row.id).copied().unwrap_or(100);
            if known == percent {
                continue;
            }
            engine.set_cpus(&row.id, &list).await?;
            if percent >= 100 {
                self.0.remove(&row.id);
            } else {
                self.0.insert(row.id.clone(), percent);
            }
        }
        Ok(())
    }
}

/// The last so many of the CPUs, as the kernel lists them; one at least.
fn list(cpus: u64, percent: u8) -> String {
    let cpus = cpus.max(1);
    let count = (cpus * u64::from(percent.min(100)) / 100).max(1);
    format!("{}-{}", cpus - count, cpus - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_the_last_cpus_rounded_down_and_one_at_least() {
        assert_eq!(list(8, 50), "4-7");
        assert_eq!(list(8, 55), "4-7");
        assert_eq!(list(8, 100), "0-7");
        assert_eq!(list(2, 1), "1-1");
        assert_eq!(list(0, 50), "0-0");
    }
}
