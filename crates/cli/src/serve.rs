//! Runners in the foreground: shows what happens, and stops as the signals ask.

use everdict_app::{
    ContainerOptions, Engine, EngineSnapshot, Outcome, Problem, Result, RunnerEvent, RunnerPlan, RunnerState,
    RunnerView,
};
use serde_json::json;
use tokio::sync::broadcast;

use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Output, duration};
use crate::signals::{Signals, Stop};

/// Runs the planned runners until a signal stops them.
pub(crate) async fn run(
    context: &Context,
    plans: Vec<RunnerPlan>,
    containers: ContainerOptions,
) -> Result<Exit> {
    let mut signals = Signals::listen(context.settings.term_deadline)
        .map_err(|error| Problem::machine("can't listen for signals").because(error))?;
    let engine = Engine::start(plans, &context.env, containers)?;
    let narrator = Narrator::new(context.out, &engine);
    let cancelled = tokio::select! {
        ended = until_stopped(&engine, &mut signals, context.out) => ended,
        () = narrator.tell() => false,
    };
    let left = engine.snapshot().borrow().clone();
    context
        .out
        .event(&json!({"event": "stopped", "runners": left.runners}));
    if cancelled {
        return Ok(Exit::Interrupted);
    }
    context.out.say("Stopped");
    Ok(Exit::Ok)
}

/// Returns true when running cases were cancelled or left.
async fn until_stopped(engine: &Engine, signals: &mut Signals, out: Output) -> bool {
    let mut cut = false;
    loop {
        tokio::select! {
            biased;
            stop = signals.next() => {
                let active = engine.snapshot().borrow().active();
                match stop {
                    Stop::Drain => {
                        engine.drain();
                        announce_drain(out, active);
                    }
                    Stop::Cancel => {
                        cut = cut || active > 0;
                        engine.cancel();
                        out.event(&json!({"event": "cancelling", "active": active}));
                        out.say("Stopping what runs and cleaning up; once more: leave at once");
                    }
                    Stop::Leave => return true,
                }
            }
            () = engine.join() => return cut,
        }
    }
}

fn announce_drain(out: Output, active: usize) {
    out.event(&json!({"event": "draining", "active": active}));
    if active > 0 {
        out.say(format!("Finishing {active} running; once more: stop them"));
    }
}

/// Puts snapshots and events into lines.
struct Narrator {
    out: Output,
    snapshot: tokio::sync::watch::Receiver<EngineSnapshot>,
    events: Vec<broadcast::Receiver<RunnerEvent>>,
    said: Vec<String>,
}

impl Narrator {
    fn new(out: Output, engine: &Engine) -> Self {
        let snapshot = engine.snapshot();
        let said = vec![String::new(); snapshot.borrow().runners.len()];
        Self {
            out,
            snapshot,
            events: engine.events(),
            said,
        }
    }

    /// Goes on until dropped.
    async fn tell(mut self) {
        let events = std::mem::take(&mut self.events);
        let (sender, mut steps) = tokio::sync::mpsc::channel(64);
        let mut tasks = tokio::task::JoinSet::new();
        for receiver in events {
            tasks.spawn(forward(receiver, sender.clone()));
        }
        drop(sender);
        self.states();
        loop {
            tokio::select! {
                changed = self.snapshot.changed() => {
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                    self.states();
                }
                Some(step) = steps.recv() => self.step(&step),
            }
        }
    }

    fn states(&mut self) {
        let snapshot = self.snapshot.borrow_and_update().clone();
        for (view, said) in snapshot.runners.iter().zip(&mut self.said) {
            let words = state_words(view);
            if *said == words {
                continue;
            }
            self.out.event(&json!({
                "event": "state",
                "runner": view.label,
                "hubUrl": view.hub_url,
                "state": view.runner.state,
            }));
            self.out
                .say(format!("{} at {}: {words}", view.label, view.hub_url));
            *said = words;
        }
    }

    fn step(&self, event: &RunnerEvent) {
        match event {
            RunnerEvent::JobStarted(job) => {
                self.out.event(&json!({"event": "jobStarted", "job": job}));
                self.out.say(format!("▶ {} with {}", job.case_id, job.harness));
            }
            RunnerEvent::JobFinished(summary) => {
                self.out.event(&json!({"event": "jobFinished", "job": summary}));
                let failure = summary
                    .failure
                    .as_ref()
                    .map(|failure| format!(": {}", failure.message))
                    .unwrap_or_default();
                self.out.say(format!(
                    "■ {} {} after {}{failure}",
                    summary.case_id,
                    outcome_words(summary.outcome),
                    duration(summary.duration),
                ));
            }
            RunnerEvent::LogLine { .. } => {}
        }
    }
}

/// A lagging reader loses lines for people, never work.
async fn forward(mut from: broadcast::Receiver<RunnerEvent>, to: tokio::sync::mpsc::Sender<RunnerEvent>) {
    loop {
        match from.recv().await {
            Ok(RunnerEvent::LogLine { .. }) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Ok(event) => {
                if to.send(event).await.is_err() {
                    return;
                }
            }
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

fn state_words(view: &RunnerView) -> String {
    match &view.runner.state {
        RunnerState::Connecting => "Connecting".to_owned(),
        RunnerState::Idle => "Idle".to_owned(),
        RunnerState::Running => format!("Running {}", view.runner.active.len()),
        RunnerState::Offline { detail, .. } => format!("Can't reach the hub: {detail}"),
        RunnerState::Revoked { .. } => "Access revoked; pair again (everdict-runner pair)".to_owned(),
        RunnerState::Removed { .. } => "Removed by the hub; pair again (everdict-runner pair)".to_owned(),
        RunnerState::UpdateRequired { server_protocol } => match server_protocol {
            Some(protocol) => format!("The hub needs a newer runner (protocol {protocol})"),
            None => "The hub needs a newer runner".to_owned(),
        },
        RunnerState::Draining => "Finishing".to_owned(),
        RunnerState::Stopped => "Stopped".to_owned(),
    }
}

fn outcome_words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Accepted(_) => "reported",
        Outcome::FailedJob => "given back as failed",
        Outcome::Superseded { .. } => "reported by another",
        Outcome::Cancelled => "cancelled",
        Outcome::LeaseLost => "stopped, the lease was lost",
        Outcome::Undelivered => "could not be reported",
    }
}

/// How containers are run for these runners, from the settings; the caller changes what its flags say.
pub(crate) fn containers(context: &Context, plans: &[RunnerPlan]) -> ContainerOptions {
    let labels: Vec<&str> = plans.iter().map(|plan| plan.label.as_str()).collect();
    ContainerOptions::new(&context.paths, &context.settings, labels.join(", "))
}

/// Makes a plan from the settings; the caller changes what its flags say.
pub(crate) fn plan(
    context: &Context,
    label: String,
    hub: everdict_app::Url,
    token: secrecy::SecretString,
) -> RunnerPlan {
    let settings = &context.settings;
    RunnerPlan {
        label,
        hub,
        token,
        version: context
            .env
            .get("EVERDICT_RUNNER_VERSION")
            .filter(|version| !version.is_empty())
            .unwrap_or(env!("CARGO_PKG_VERSION"))
            .to_owned(),
        max_concurrent: settings.max_concurrent,
        wait: settings.wait,
        heartbeat: settings.heartbeat,
        poll_interval: settings.poll_interval,
        work_root: settings
            .work_root
            .clone()
            .unwrap_or_else(|| context.paths.work_root()),
        state_dir: context.paths.state_dir().to_owned(),
        switched_off: std::collections::BTreeSet::new(),
    }
}
