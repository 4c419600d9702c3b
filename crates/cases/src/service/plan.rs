//! Everything about a service case that can be known, and be wrong, before anything is created.

mod checks;

pub(crate) use checks::service as service_exists;

use std::time::Duration;

use everdict_contracts::{
    CaseJob, Completion, EvalCase, ExecutionManifest, Fault, FrontDoorSpec, GraderSpec, ServiceHarness,
    StoreFixture,
};
use everdict_graders::{Gradebook, PlannedGrader};
use everdict_topology::egress::CaseNetwork;
use everdict_topology::plan::apply_pins;
use everdict_topology::stores::{self, StoreQuery};
use everdict_traces::{TraceConfig, TraceLimits, TraceSource, source_for};
use reqwest::Method;

use super::acquire::SessionPlan;
use super::call::Call;
use super::interpolate::Vars;
use super::multipart::Part;
use super::request;
use super::wiring;
use crate::context::CaseContext;
use crate::span::own_run_id;
use crate::{case, world};

/// What a case without graders is measured by; set by the protocol.
const DEFAULT_GRADERS: [&str; 3] = ["steps", "cost", "latency"];

/// A front door with its calls read.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) spec: FrontDoorSpec,
    pub(crate) submit: Call,
    /// For completion by poll.
    pub(crate) status: Option<Call>,
}

/// A service case that may run.
pub(crate) struct ServicePlan {
    /// With the job's image pins, which are part of its version.
    pub(crate) spec: ServiceHarness,
    /// With the graders that it is really measured by.
    pub(crate) case: EvalCase,
    pub(crate) manifest: ExecutionManifest,
    pub(crate) run_id: String,
    /// What the topology may reach.
    pub(crate) network: CaseNetwork,
    pub(crate) vars: Vars,
    pub(crate) door: Door,
    /// For a target that a service hands out.
    pub(crate) session: Option<SessionPlan>,
    pub(crate) files: Vec<Part>,
    pub(crate) per_run: Vec<String>,
    pub(crate) gradebook: Gradebook,
    /// For the agent.
    pub(crate) timeout: Duration,
    /// The fault of a source that can't be is one of the trace, unless the drive depends on it.
    pub(crate) source: Result<Box<dyn TraceSource>, Fault>,
}

impl ServicePlan {
    pub(crate) fn new(
        job: &CaseJob,
        spec: &ServiceHarness,
        runtime: &str,
        ctx: &CaseContext,
    ) -> Result<Self, Fault> {
        let spec = match &job.image_pins {
            Some(pins) => apply_pins(spec, pins)?,
            None => spec.clone(),
        };
        let manifest = world::admit_service(&job.eval_case, runtime)?;
        let network = CaseNetwork::of_case(&job.eval_case)?;
        let run_id = job.run_id.as_ref().map_or_else(own_run_id, ToString::to_string);
        let case = with_graders(&job.eval_case);
        let planned = graders(&case, &spec, &run_id)?;
        let timeout = case::agent_timeout(case.timeout_sec, &ctx.host_env)?;
        let vars = wiring::vocabulary(&spec, &run_id, &case.task);
        let door = Door::new(&spec.front_door)?;
        checks::front_door(&spec)?;
        let session = SessionPlan::of(&spec)?;
        checks::names(&spec, &vars)?;
        checks::delivery(&spec)?;
        fixtures(&spec, case.fixtures.as_deref().unwrap_or_default(), &run_id)?;
        let request = spec.front_door.request.clone().unwrap_or_default();
        request::headers(&request, &vars)?;
        let files = request::files(&request, &case.env)?;
        let source = source_for(
            &TraceConfig::from_spec(&spec.trace_source, None),
            TraceLimits::default(),
        );
        if let (Some(Completion::Trace(_)), Err(fault)) = (&spec.front_door.completion, &source) {
            return Err(fault.clone());
        }
        Ok(Self {
            per_run: checks::per_run(&spec),
            gradebook: Gradebook::new(planned),
            spec,
            case,
            manifest,
            run_id,
            network,
            vars,
            door,
            session,
            files,
            timeout,
            source,
        })
    }

    /// `id@version` as results name it.
    pub(crate) fn harness(&self) -> String {
        format!("{}@{}", self.spec.id, self.spec.version)
    }

    /// What the case puts into its stores.
    pub(crate) fn fixtures(&self) -> &[StoreFixture] {
        self.case.fixtures.as_deref().unwrap_or_default()
    }

    /// The mode of completion, by its name.
    pub(crate) fn completion(&self) -> &'static str {
        match &self.door.spec.completion {
            None | Some(Completion::Sync(_)) => "sync",
            Some(Completion::Poll(_)) => "poll",
            Some(Completion::Stream(_)) => "stream",
            Some(Completion::Callback(_)) => "callback",
            Some(Completion::Trace(_)) => "trace",
        }
    }
}

impl Door {
    pub(crate) fn new(spec: &FrontDoorSpec) -> Result<Self, Fault> {
        let submit = Call::parse(&spec.submit, Method::POST, "harnessSpec.frontDoor.submit")?;
        let status = match &spec.completion {
            Some(Completion::Poll(mode)) => {
                let field = "harnessSpec.frontDoor.completion.statusPath";
                Some(Call::parse(&mode.status_path, Method::GET, field)?)
            }
            _ => None,
        };
        Ok(Self {
            spec: spec.clone(),
            submit,
            status,
        })
    }
}

fn with_graders(case: &EvalCase) -> EvalCase {
    let mut case = case.clone();
    if case.graders.is_empty() {
        let spec = |id: &str| GraderSpec {
            id: id.to_owned(),
            ..GraderSpec::default()
        };
        case.graders = DEFAULT_GRADERS.map(spec).into();
    }
    case
}

/// Plans the graders, and refuses those that could only fail after the agent has run.
fn graders(case: &EvalCase, spec: &ServiceHarness, run_id: &str) -> Result<Vec<PlannedGrader>, Fault> {
    let planned = everdict_graders::plan(case)?;
    for (index, grader) in planned.iter().enumerate() {
        if grader.needs() == everdict_graders::Needs::Compute {
            return Err(Fault::bad_request(format!(
                "evalCase.graders[{index}].id: `{}` runs a command in the case's sandbox, and a service case has none; \
                 grade it by its page, its stores, its answer or its trace",
                grader.spec().id
            )));
        }
        if let Some(query) = grader.state_query() {
            let query = StoreQuery {
                store: query.store,
                role: query.role,
                query: query.query,
                path: query.path,
            };
            stores::read(spec, run_id, &query)?;
        }
    }
    Ok(planned)
}

fn fixtures(spec: &ServiceHarness, fixtures: &[StoreFixture], run_id: &str) -> Result<(), Fault> {
    for seed in stores::plan_seeds(spec, fixtures, run_id)? {
        seed.exec()?;
    }
    Ok(())
}
