//! Keeps this machine's own terms: looks at the machine and at the settings file, and holds jobs back, hands them back, keeps
//! the system awake and sets the share of the CPUs as the policy rules.

use std::sync::Arc;
use std::time::Duration;

use everdict_exec::CpuShare;
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::room::Room;
use super::view::{CpuMeans, CpuShareView, Failure, WaitingView};
use crate::policy::awake::Awake;
use crate::policy::eyes::Eyes;
use crate::policy::slept::{SleepClock, since_boot};
use crate::policy::{Policy, Power, Ruling, words};
use crate::settings::{Settings, SettingsFile};

/// How old a look may be. Somebody who comes back to their machine gets it back within 10 s, and a runner that woke up is
/// back at its hub within as much.
const LOOK_EVERY: Duration = Duration::from_secs(4);

/// What the terms come to, as the desk shows it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Held {
    /// Before the first look nothing is taken: it might be against the terms.
    pub(super) looked: bool,
    pub(super) waiting: Option<WaitingView>,
    pub(super) awake: bool,
    pub(super) cpu_share: CpuShareView,
    pub(super) settings_fault: Option<Failure>,
}

impl Default for Held {
    fn default() -> Self {
        Self {
            looked: false,
            waiting: None,
            awake: false,
            cpu_share: CpuShareView {
                percent: 100,
                in_use: false,
                means: CpuMeans::Unlimited,
                text: "all CPUs may be used".to_owned(),
            },
            settings_fault: None,
        }
    }
}

impl Held {
    /// Whether no new job is taken.
    pub(super) fn holds(&self) -> bool {
        !self.looked || self.waiting.is_some()
    }

    /// Takes in a ruling; what goes on for the same reasons keeps its beginning.
    fn rule(&mut self, ruling: &Ruling, now: Timestamp) {
        self.looked = true;
        let Some(reason) = ruling.reasons.first().copied() else {
            self.waiting = None;
            return;
        };
        let text = ruling
            .reasons
            .iter()
            .map(|reason| words(*reason))
            .collect::<Vec<_>>()
            .join(", ");
        let since = match &self.waiting {
            Some(waiting) => waiting.since.clone(),
            None => now.to_string(),
        };
        self.waiting = Some(WaitingView { reason, text, since });
    }
}

/// Keeps the terms until the control ends.
pub(super) async fn keep(room: Arc<Room>) {
    let mut keeper = Keeper {
        eyes: Eyes::new(&room.options.env, room.work_root()),
        policy: Policy::default(),
        awake: Awake::default(),
        clock: SleepClock::start(),
        file: SettingsFile::known(room.options.paths.settings_file()),
        room,
    };
    keeper.check_settings();
    keeper.look().await;
    let (room, bus) = (Arc::clone(&keeper.room), keeper.eyes.bus.clone());
    let woken = Notify::new();
    // A listener of its own: a subscription that is made anew with every look would miss what comes in between.
    let listen = async {
        loop {
            bus.woken().await;
            woken.notify_one();
        }
    };
    let keep_on = async {
        let mut next = Instant::now() + LOOK_EVERY;
        loop {
            tokio::select! {
                biased;
                () = woken.notified() => keeper.woke("the system says so").await,
                () = room.nudge.notified() => {}
                () = tokio::time::sleep_until(next) => next = Instant::now() + LOOK_EVERY,
            }
            keeper.look().await;
        }
    };
    tokio::select! {
        biased;
        () = room.stop.cancelled() => {}
        () = listen => {}
        () = keep_on => {}
    }
    // Running jobs are waited for without the terms: the person has asked for the end.
    keeper.finish().await;
}

struct Keeper {
    room: Arc<Room>,
    eyes: Eyes,
    policy: Policy,
    awake: Awake,
    clock: SleepClock,
    file: SettingsFile,
}

impl Keeper {
    async fn look(&mut self) {
        if self.clock.slept().is_some() {
            self.woke("its clocks differ").await;
        }
        self.read_settings().await;
        let seen = self.eyes.look().await;
        let terms = self.room.settings().terms.clone();
        let ruling = self.policy.rule(since_boot(), &seen, &terms);
        let runs = !self.room.desk().live.is_empty();
        let wanted = terms.keep_awake && runs && seen.power == Power::Mains;
        let awake = self.awake.hold(wanted, &self.eyes.bus).await;
        let percent = if ruling.in_use {
            terms.cpu_in_use
        } else {
            terms.cpu_idle
        };
        let share = self.room.share_cpus(percent, ruling.in_use, runs).await;
        let held_before = self.room.desk().held.holds();
        self.room.change(|desk| {
            desk.held.rule(&ruling, Timestamp::now());
            desk.held.awake = awake;
            desk.held.cpu_share = share;
        });
        if self.room.desk().held.holds() != held_before {
            self.room.apply_hold(&*self.room.crew.lock().await);
        }
        if ruling.hand_back {
            self.room.works.hand_back_all("this machine went on battery");
        }
    }

    /// A file that was nonsense from the start is told of too; what the control was started with stays in force.
    fn check_settings(&self) {
        if let Err(problem) = Settings::load(self.file.path()) {
            self.room
                .change(|desk| desk.held.settings_fault = Some(Failure::from(problem)));
        }
    }

    /// Takes over what the file says now. Nonsense is shown, and what was in force stays.
    async fn read_settings(&mut self) {
        let Some(read) = self.file.read_if_changed() else {
            return;
        };
        match read {
            Ok(settings) => {
                self.room.change(|desk| desk.held.settings_fault = None);
                self.room.apply_settings(settings).await;
            }
            Err(problem) => {
                tracing::warn!(file = %self.file.path().display(), problem = %problem.chain(), "settings kept as they were");
                self.room
                    .change(|desk| desk.held.settings_fault = Some(Failure::from(problem)));
            }
        }
    }

    /// What waits for an answer from before the sleep would wait for nothing.
    async fn woke(&mut self, how: &str) {
        tracing::info!(how, "this machine slept and is awake again");
        // The same sleep is told twice, by the system and by the clocks.
        let _ = self.clock.slept();
        let crew = self.room.crew.lock().await;
        for handle in crew.members.iter().filter_map(|member| member.handle.as_ref()) {
            handle.woke();
        }
    }

    /// Keeps only what the last jobs need: the system awake until they have ended.
    async fn finish(&mut self) {
        while self.awake.is_held() && !self.room.desk().live.is_empty() {
            tokio::select! {
                () = self.room.nudge.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
        self.awake.hold(false, &self.eyes.bus).await;
        self.room.change(|desk| desk.held.awake = false);
    }
}

impl Room {
    /// Keeps jobs to their share, programs and containers.
    async fn share_cpus(&self, percent: u8, in_use: bool, runs: bool) -> CpuShareView {
        // A walk over the processes, where something changed.
        let programs = tokio::task::spawn_blocking(move || everdict_exec::share_cpus(percent));
        let containers = async {
            if runs {
                self.containers.share_cpus(percent).await
            } else {
                true
            }
        };
        let (programs, containers) = tokio::join!(programs, containers);
        let programs = programs.expect("BUG: nothing in there panics");
        let (means, text) = share_words(percent, programs, containers);
        CpuShareView {
            percent,
            in_use,
            means,
            text,
        }
    }

    pub(super) fn settings(&self) -> Arc<Settings> {
        let settings = self
            .settings
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        Arc::clone(&settings)
    }

    /// Puts settings in force as far as that goes without a new start.
    pub(super) async fn apply_settings(&self, settings: Settings) {
        let slots = settings.max_concurrent;
        let before = {
            let mut now = self
                .settings
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            std::mem::replace(&mut *now, Arc::new(settings))
        };
        if before.max_concurrent == slots {
            return;
        }
        let crew = self.crew.lock().await;
        for handle in crew.members.iter().filter_map(|member| member.handle.as_ref()) {
            handle.resize(slots);
        }
        self.change(|desk| desk.seats.iter_mut().for_each(|seat| seat.slots = slots));
    }
}

/// By which means a share is kept, and what that means exactly.
fn share_words(percent: u8, programs: CpuShare, containers: bool) -> (CpuMeans, String) {
    if percent >= 100 {
        return (CpuMeans::Unlimited, "all CPUs may be used".to_owned());
    }
    if !programs.kept {
        let text = "this system can't limit programs; containers are limited".to_owned();
        return (CpuMeans::None, text);
    }
    let CpuShare { allowed, of, .. } = programs;
    let mut text = format!("jobs may use {allowed} of {of} CPUs");
    if allowed * 100 > of * usize::from(percent) {
        text.push_str(", the least that there is");
    }
    if !containers {
        text.push_str("; the container engine can't limit its containers");
    }
    (CpuMeans::Affinity, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::WaitingReason;

    #[test]
    fn a_share_says_what_it_really_comes_to() {
        let words = |percent, allowed, of, kept, containers| {
            share_words(percent, CpuShare { allowed, of, kept }, containers).1
        };
        assert_eq!(words(100, 8, 8, true, true), "all CPUs may be used");
        assert_eq!(words(50, 4, 8, true, true), "jobs may use 4 of 8 CPUs");
        assert_eq!(
            words(10, 1, 2, true, true),
            "jobs may use 1 of 2 CPUs, the least that there is"
        );
        assert_eq!(
            words(50, 4, 8, true, false),
            "jobs may use 4 of 8 CPUs; the container engine can't limit its containers"
        );
        assert!(words(50, 8, 8, false, true).starts_with("this system can't"));
    }

    #[test]
    fn a_wait_keeps_its_beginning_while_its_reasons_change() {
        let mut held = Held::default();
        assert!(held.holds(), "nothing is taken before the first look");
        held.rule(&Ruling::default(), Timestamp::UNIX_EPOCH);
        assert!(!held.holds());
        let mut ruling = Ruling {
            reasons: vec![WaitingReason::Battery],
            ..Ruling::default()
        };
        held.rule(&ruling, Timestamp::from_second(10).unwrap());
        ruling.reasons.insert(0, WaitingReason::Disk);
        held.rule(&ruling, Timestamp::from_second(20).unwrap());
        let waiting = held.waiting.clone().unwrap();
        assert_eq!(waiting.reason, WaitingReason::Disk);
        assert_eq!(waiting.text, "disk low, on battery");
        assert_eq!(waiting.since, "1970-01-01T00:00:10Z");
        held.rule(&Ruling::default(), Timestamp::from_second(30).unwrap());
        assert_eq!(held.waiting, None);
    }
}
