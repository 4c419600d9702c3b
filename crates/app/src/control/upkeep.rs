//! Looking after this machine from a window: checks with fixes, what takes room, clean-up, the own log and a report.

mod disk;
mod mask;
mod report;

use everdict_contracts::Capability;

use super::Control;
use super::view::{CheckGroup, CheckMark, CheckView, CleanView, DiskView};
use crate::doctor::{Check, CheckState, Patient};
use crate::own_log;
use crate::problem::Result;

/// More lines than this nobody reads in a window.
const MAX_LOG_LINES: usize = 2000;

impl Control {
    /// Checks this machine and the way to each hub. Takes as long as the slowest of them.
    ///
    /// # Errors
    /// A problem about this machine when it can't be told who is paired.
    pub async fn doctor(&self) -> Result<Vec<CheckView>> {
        let options = &self.room.options;
        let registrations = self.room.registrations.list()?;
        let patient = Patient {
            env: &options.env,
            secrets: &options.secrets,
            paths: &options.paths,
            settings: &options.settings,
            registrations: &registrations,
            hubs: Vec::new(),
        };
        let found = patient.examine().await;
        let docker_off = self
            .room
            .desk()
            .choices
            .switched_off
            .contains(&Capability::Docker);
        let mut checks: Vec<CheckView> = found.checks.into_iter().map(view).collect();
        if docker_off {
            // What the person switched off is no fault, whatever it is like.
            checks.retain(|check| check.group != CheckGroup::Docker || check.id == "docker");
            for check in checks.iter_mut().filter(|check| check.id == "docker") {
                check.state = CheckMark::Off;
                check.fix = None;
            }
        }
        Ok(checks)
    }

    /// Tells what of ours takes room here.
    ///
    /// # Errors
    /// A problem about this machine: damaged files, or an engine that stops answering.
    pub async fn disk(&self) -> Result<DiskView> {
        disk::measure(&self.room).await
    }

    /// Removes what [`Control::disk`] lists as going, of one category; looks anew before it does.
    ///
    /// # Errors
    /// Input when there is no such category or nothing of it goes, else as [`Control::disk`].
    pub async fn clean(&self, category: &str) -> Result<CleanView> {
        disk::clean(&self.room, category).await
    }

    /// Reads the last lines of the program's own log, oldest first.
    #[must_use]
    pub fn own_log(&self, lines: usize) -> Vec<String> {
        own_log::tail(&self.room.options.paths.log_dir(), lines.min(MAX_LOG_LINES))
    }

    /// Writes what somebody who helps needs to know, without tokens, names of people, of this machine or of hubs.
    ///
    /// # Errors
    /// As [`Control::doctor`].
    pub async fn report(&self) -> Result<String> {
        let checks = self.doctor().await?;
        let log = self.own_log(report::LOG_LINES);
        let registrations = self.room.registrations.list()?;
        let text = report::text(&self.snapshot(), &checks, &log);
        Ok(mask::Mask::new(&self.room.options.env, &registrations).cover(&text))
    }
}

fn view(check: Check) -> CheckView {
    let group = match check
        .id
        .split_once(':')
        .map_or(check.id.as_str(), |(kind, _)| kind)
    {
        "docker" | "docker-disk" | "docker-leftovers" => CheckGroup::Docker,
        "keyring" => CheckGroup::Secrets,
        "hub" | "clock" => CheckGroup::Hub,
        "runner" => CheckGroup::Runner,
        _ => CheckGroup::Machine,
    };
    CheckView {
        group,
        state: match check.state {
            CheckState::Ok => CheckMark::Ok,
            CheckState::Warn => CheckMark::Warn,
            CheckState::Fail => CheckMark::Fail,
        },
        id: check.id,
        title: check.what,
        detail: check.why,
        fix: check.fix,
    }
}
