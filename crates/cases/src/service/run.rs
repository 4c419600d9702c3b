//! A case while its topology stands, up to the point where it can be graded.

use std::time::Duration;

use everdict_contracts::{
    Acquire, EnvSnapshot, ErrorCode, ErrorEvent, Fault, InfraEvent, InfraScope, TraceEvent,
};
use everdict_topology::runtime::CaseScope;
use everdict_topology::stores;
use jiff::Timestamp;

use super::acquire::{SessionDesk, Target};
use super::drive::{Drive, End, Outcome};
use super::evidence::Evidence;
use super::http::Http;
use super::interpolate::{self, Vars};
use super::logs::CaseLogs;
use super::marks::Marks;
use super::observe::{Observation, Observer};
use super::patience::Patience;
use super::plan::ServicePlan;
use super::port::TopologyUse;
use super::recording::Recording;
use super::rendezvous::Rendezvous;
use super::request;
use super::until;
use super::wiring::CALLBACK_URL;
use crate::context::CaseContext;
use crate::recorder::event_at;

/// Trace and snapshot together: 15 s for the trace to come to rest, 25 s for the page, twice over for a busy machine.
const OBSERVE_LIMIT: Duration = Duration::from_secs(80);

/// How much longer than a drive the way to the listener stays open when nobody is left to close it.
const CALLBACK_SLACK: Duration = Duration::from_secs(60);

/// A case on its topology.
pub(crate) struct Stage<'a> {
    pub(crate) plan: &'a ServicePlan,
    pub(crate) http: &'a Http,
    pub(crate) ctx: &'a CaseContext,
    pub(crate) topology: &'a dyn TopologyUse,
    pub(crate) scope: &'a CaseScope,
    pub(crate) logs: &'a CaseLogs,
}

/// What there is to grade.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) evidence: Evidence,
    pub(crate) snapshot: EnvSnapshot,
    /// What is to be known about the target, for the trace.
    pub(crate) notes: Vec<TraceEvent>,
    /// When the drive began.
    pub(crate) t0: Timestamp,
}

impl Stage<'_> {
    /// Prepares, drives and observes. The target is given back on every way out.
    pub(crate) async fn work(&self, prepare: &Patience, marks: &mut Marks) -> Result<Work, Fault> {
        let desk = SessionDesk {
            http: self.http,
            endpoints: self.topology.endpoints(),
            vars: &self.plan.vars,
            patience: prepare,
        };
        if let Some(session) = &self.plan.session {
            desk.park(session).await?;
        }
        self.seed(prepare, marks).await?;
        let mut notes = Vec::new();
        let target = self.acquire(&desk, prepare, marks, &mut notes).await?;
        let worked = self.drive_and_observe(target.as_ref(), prepare, marks).await;
        self.release(target, marks).await;
        let (evidence, observation, t0) = worked?;
        for missing in observation.missing {
            notes.push(event_at(Timestamp::now(), ErrorEvent { message: missing }));
        }
        Ok(Work {
            evidence,
            snapshot: observation.snapshot,
            notes,
            t0,
        })
    }

    /// The run's part of each store is emptied first: the same run may have been here before.
    async fn seed(&self, prepare: &Patience, marks: &mut Marks) -> Result<(), Fault> {
        if !stores::has_slices(&self.plan.spec) {
            return Ok(());
        }
        let scope = until(self.scope, prepare);
        let late = |stop: super::patience::Stop| stop.fault("preparing the stores", ErrorCode::UpstreamError);
        let begun = marks.elapsed_ms();
        prepare
            .wait(self.topology.drop_slices(&scope))
            .await
            .map_err(late)??;
        let took = marks.elapsed_ms().saturating_sub(begun);
        marks.mark(
            "stores_reset",
            format!("the run's part of the stores is empty, after {took} ms"),
        );
        let fixtures = self.plan.fixtures();
        if fixtures.is_empty() {
            return Ok(());
        }
        prepare
            .wait(self.topology.seed_fixtures(&scope, fixtures))
            .await
            .map_err(late)??;
        marks.mark(
            "fixtures_seeded",
            format!("{} fixtures are in the stores", fixtures.len()),
        );
        Ok(())
    }

    async fn acquire(
        &self,
        desk: &SessionDesk<'_>,
        prepare: &Patience,
        marks: &mut Marks,
        notes: &mut Vec<TraceEvent>,
    ) -> Result<Option<Target>, Fault> {
        let Some(spec) = &self.plan.spec.target else {
            return Ok(None);
        };
        let target = match (&spec.acquire, &self.plan.session) {
            (Some(Acquire::Service(_)), Some(session)) => Target::Session(desk.open(session).await?),
            _ => {
                let scope = until(self.scope, prepare);
                let browser = prepare.wait(self.topology.provision_browser(&scope)).await;
                let late = |stop: super::patience::Stop| {
                    stop.fault("starting the browser", ErrorCode::DriverProvisionFailed)
                };
                Target::Browser(browser.map_err(late)??)
            }
        };
        if let (Target::Session(_), Some(base)) = (&target, target.cdp_base()) {
            self.ctx.progress.log(&format!(
                "[everdict] the session is watched at {base}, which its service names"
            ));
        }
        let names: Vec<String> = target.coordinates().into_keys().collect();
        marks.mark(
            "target_acquired",
            format!("the target is there: {}", names.join(", ")),
        );
        let hidden = self
            .plan
            .session
            .as_ref()
            .is_some_and(super::acquire::SessionPlan::is_observable);
        if hidden && target.cdp_base().is_none() {
            let words = "the session has no DevTools address where the harness says that it has one";
            notes.push(marks.event(InfraEvent {
                event: Some("target_unobservable".to_owned()),
                ..InfraEvent::new(InfraScope::Placement, words)
            }));
        }
        if let Some(profile) = &spec.profile {
            let words =
                format!("the browser starts without the profile `{profile}`: this runner keeps no profiles");
            marks.mark("profile_not_injected", words);
        }
        Ok(Some(target))
    }

    async fn release(&self, target: Option<Target>, marks: &mut Marks) {
        let begun = marks.elapsed_ms();
        let words = match target {
            None => "there was no target to give back".to_owned(),
            Some(target) => match target.release(self.http, &self.plan.vars).await {
                Ok(()) => format!("the target was given back in {}ms", marks.elapsed_ms() - begun),
                Err(why) => format!("the target was not given back: {why}"),
            },
        };
        marks.mark("target_released", words);
    }

    async fn drive_and_observe(
        &self,
        target: Option<&Target>,
        prepare: &Patience,
        marks: &mut Marks,
    ) -> Result<(Evidence, Observation, Timestamp), Fault> {
        let cdp_base = target.and_then(Target::cdp_base);
        let recording = Recording::start(cdp_base, &self.ctx.progress, prepare).await;
        let base = self.front_door()?;
        let mut vars = self.plan.vars.clone();
        vars.extend(target.map(Target::coordinates).unwrap_or_default());
        let rendezvous = self.listen(&mut vars).await?;
        let port = rendezvous.as_ref().map(Rendezvous::port);
        let t0 = Timestamp::now();
        let outcome = self.drive(base, &vars, rendezvous, marks).await;
        if let Some(port) = port {
            self.topology.close_to_callbacks(self.scope, port).await;
        }
        let outcome = outcome?;
        let console = recording.stop().await;
        let patience = Patience::new(&self.ctx.cancel, OBSERVE_LIMIT);
        let evidence = self.collect(&outcome, &vars, &patience).await?;
        let observer = Observer {
            http: self.http,
            progress: self.ctx.progress.as_ref(),
            endpoints: self.topology.endpoints(),
            base,
            vars: &vars,
            patience: &patience,
            response: outcome.response.as_ref(),
            extracted: evidence.extracted.as_ref(),
        };
        let delivery = self
            .plan
            .spec
            .target
            .as_ref()
            .and_then(|target| target.delivery.as_ref());
        let observed = observer.observe(delivery, target, console).await;
        let observed = match observed {
            Ok(observed) => observed,
            Err(fault) => return Err(self.explained(fault).await),
        };
        Ok((evidence, observed, t0))
    }

    fn front_door(&self) -> Result<&str, Fault> {
        let name = &self.plan.door.spec.service;
        let base = self.topology.endpoints().get(name).map(String::as_str);
        base.ok_or_else(|| {
            Fault::new(
                ErrorCode::HarnessRunFailed,
                format!("the topology has no address for its front door `{name}`"),
            )
        })
    }

    /// Listens for the topology's call, where its end is told by one, and adds the address to the variables.
    async fn listen(&self, vars: &mut Vars) -> Result<Option<Rendezvous>, Fault> {
        if self.plan.completion() != "callback" {
            return Ok(None);
        }
        let host = self.topology.callback_host().await.ok_or_else(|| {
            let words = "harnessSpec.frontDoor.completion: the containers of this runtime can't call this machine back; \
                         choose another mode of completion";
            Fault::new(ErrorCode::HarnessRunFailed, words)
        })?;
        let rendezvous = Rendezvous::listen(&host).await?;
        let limit = self.plan.timeout + CALLBACK_SLACK;
        self.topology
            .open_to_callbacks(self.scope, rendezvous.port(), limit)
            .await?;
        vars.insert(CALLBACK_URL.to_owned(), rendezvous.url().to_owned());
        Ok(Some(rendezvous))
    }

    async fn drive(
        &self,
        base: &str,
        vars: &Vars,
        rendezvous: Option<Rendezvous>,
        marks: &mut Marks,
    ) -> Result<Outcome, Fault> {
        let plan = self.plan;
        let request = plan.door.spec.request.clone().unwrap_or_default();
        let fields = request::fields(&request, &plan.per_run, vars);
        let content = request::content(&request, &fields, &plan.files, vars)?;
        let patience = Patience::new(&self.ctx.cancel, plan.timeout);
        let source = match (plan.completion(), &plan.source) {
            ("trace", Ok(source)) => Some((source.as_ref(), self.trace_key(&plan.run_id, vars))),
            _ => None,
        };
        let words = format!(
            "the case goes to {}: {} (completion by {}, budget {}s)",
            plan.door.spec.service,
            plan.door.submit,
            plan.completion(),
            plan.timeout.as_secs()
        );
        marks.mark("drive_submitted", words);
        let begun = marks.elapsed_ms();
        let drive = Drive {
            http: self.http,
            door: &plan.door,
            base,
            vars,
            content,
            patience: &patience,
            run_id: &plan.run_id,
            rendezvous,
            source,
        };
        let driven = tokio::select! {
            biased;
            driven = drive.run() => driven,
            // A member that has died doesn't answer any more: waiting would only cost the budget.
            fault = self.topology.broken() => Err(fault),
        };
        match driven {
            Ok(outcome) => self.ended(outcome, begun, marks).await,
            Err(fault) => Err(self.explained(fault).await),
        }
    }

    /// Marks how the drive ended; one that never said that it was done is a failure.
    async fn ended(&self, outcome: Outcome, begun: u32, marks: &mut Marks) -> Result<Outcome, Fault> {
        let took = marks.elapsed_ms() - begun;
        match &outcome.end {
            End::Done => marks.mark(
                "drive_completed",
                format!("the front door was done after {took}ms"),
            ),
            End::Failed => {
                marks.mark(
                    "drive_completed",
                    format!("the front door said after {took}ms that it failed"),
                );
            }
            End::TimedOut { limit, last } => {
                let limit = limit.as_millis();
                let words =
                    format!("completion-timeout: the front door was not done within {limit}ms; {last}");
                return Err(self.out_of_time(words, None, marks).await);
            }
            End::OutOfBudget => {
                let budget = self.plan.timeout.as_secs();
                let words =
                    format!("completion-timeout: the front door was not done within the case's {budget}s");
                return Err(self.out_of_time(words, Some(budget), marks).await);
            }
        }
        Ok(outcome)
    }

    /// The key of the run's trace: the harness' own template, or the id that the run goes by.
    fn trace_key(&self, correlation: &str, vars: &Vars) -> String {
        match &self.plan.door.spec.context_id {
            Some(template) => interpolate::text(template, vars),
            None => correlation.to_owned(),
        }
    }

    async fn collect(&self, outcome: &Outcome, vars: &Vars, patience: &Patience) -> Result<Evidence, Fault> {
        if let Some(inline) = &self.plan.door.spec.trace_inline {
            return Ok(Evidence::inline(inline, outcome.response.as_ref()));
        }
        let key = self.trace_key(&outcome.correlation, vars);
        let by = self.plan.spec.trace_source.correlate.unwrap_or_default();
        let fetched = patience
            .wait(Evidence::fetched(&self.plan.source, &key, by))
            .await;
        fetched.map_err(|stop| stop.fault("the trace", ErrorCode::TraceCollectFailed))
    }
}
