//! What a person tells the runners of this machine to do.

use std::str::FromStr as _;

use everdict_contracts::Capability;
use jiff::Timestamp;

use super::hold::Hold;
use super::{Control, unknown_job};
use crate::problem::{Problem, Result};

impl Control {
    /// Takes no new jobs for so many seconds; without a number until [`Control::resume`]. Running jobs go on.
    ///
    /// # Errors
    /// A problem about this machine when the wish can't be kept for the next start; it holds for this one.
    pub async fn pause(&self, seconds: Option<u64>) -> Result<()> {
        self.hold_back(Hold::new(seconds, Timestamp::now())).await
    }

    /// Takes no new jobs from now on; paused until [`Control::resume`] once the running ones are over.
    ///
    /// # Errors
    /// As [`Control::pause`].
    pub async fn finish_then_pause(&self) -> Result<()> {
        self.hold_back(Hold::AfterJobs).await
    }

    async fn hold_back(&self, hold: Hold) -> Result<()> {
        let kept = self.room.choose(|choices| choices.hold = hold);
        self.room.apply_hold(&*self.room.crew.lock().await);
        kept
    }

    /// Takes jobs again, and tries again to start the runners that could not be.
    ///
    /// # Errors
    /// As [`Control::pause`].
    pub async fn resume(&self) -> Result<()> {
        let kept = self.room.choose(|choices| choices.hold = Hold::None);
        let mut crew = self.room.crew.lock().await;
        self.room.apply_hold(&crew);
        self.room.forget_stuck(&mut crew);
        self.room.reconcile(&mut crew).await;
        kept
    }

    /// Offers a capability, or stops offering it, from the next lease on.
    ///
    /// # Errors
    /// Input when there is no such capability; about this machine as [`Control::pause`].
    pub async fn set_capability(&self, name: &str, on: bool) -> Result<()> {
        let capability = Capability::from_str(name).map_err(|error| {
            Problem::input("this capability is not known here")
                .because(error)
                .coded("capability_unknown")
        })?;
        let room = &self.room;
        let kept = room.choose(|choices| {
            if on {
                choices.switched_off.remove(&capability);
            } else {
                choices.switched_off.insert(capability);
            }
        });
        let off = room.desk().choices.switched_off.clone();
        room.switched_off.send_replace(off.clone());
        for member in &room.crew.lock().await.members {
            if let Some(handle) = &member.handle {
                handle.switch_off(off.clone());
            }
        }
        room.look_at_capabilities();
        kept
    }

    /// Drops a runner's connection to its hub and makes a new one at once, without waiting for a back-off; one that could
    /// not be started is tried again. Running jobs go on.
    ///
    /// # Errors
    /// Input when there is no such runner.
    pub async fn reconnect(&self, runner_id: &str) -> Result<()> {
        let mut crew = self.room.crew.lock().await;
        let index = crew
            .members
            .iter()
            .position(|member| member.registration.runner_id.as_str() == runner_id);
        let Some(index) = index else {
            return Err(super::pair::unknown_runner());
        };
        match &crew.members[index].handle {
            Some(handle) => handle.woke(),
            None => {
                crew.members.remove(index);
                self.room.start_hub(&mut crew).await;
                self.room.reconcile(&mut crew).await;
            }
        }
        Ok(())
    }

    /// Stops a running job; its hub is told that the case was cancelled.
    ///
    /// # Errors
    /// Input when no such job runs.
    pub fn stop_job(&self, id: &str) -> Result<()> {
        let desk = self.room.desk();
        let key = desk
            .live
            .iter()
            .find(|live| live.job.id == id)
            .map(|live| &live.key);
        match key {
            Some(key) if self.room.works.stop(key) => Ok(()),
            _ => Err(unknown_job()),
        }
    }
}
