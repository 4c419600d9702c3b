//! One case on a topology of services: prepared, driven through its front door, observed, graded.
//!
//! A case goes through these phases, each under the case's token and a deadline of its own. Whatever was made for the
//! case alone is given back on every way out; the topology stays for the next one.

mod acquire;
mod aftermath;
mod call;
mod docker;
mod drive;
mod events;
mod evidence;
mod explain;
mod http;
mod interpolate;
mod live;
mod logs;
mod marks;
mod multipart;
mod observe;
mod patience;
mod plan;
pub mod port;
mod recording;
mod rendezvous;
mod request;
mod run;
mod select;
mod verdict;
mod wiring;

pub use docker::DockerTopologies;
pub use port::{CallbackHost, CaseBrowser, TopologyPort, TopologyUse};

use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{CaseJob, CaseResult, Fault, ServiceHarness};
use everdict_topology::runtime::CaseScope;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::http::Http;
use self::logs::CaseLogs;
use self::marks::Marks;
use self::patience::Patience;
use self::plan::ServicePlan;
use self::run::Stage;
use crate::context::CaseContext;

/// Images, deployment, seeds and the target together: several GB over a home line, and some minutes of start-up.
const PREPARE_LIMIT: Duration = Duration::from_secs(2_700);

/// Emptying the run's part of the stores when the case is over. It isn't waited for any longer: the next run with the same
/// id empties it first.
const CLEAN_LIMIT: Duration = Duration::from_secs(30);

/// Runs cases on topologies.
pub(crate) struct ServiceTopologyBackend<'a> {
    port: &'a dyn TopologyPort,
    ctx: &'a CaseContext,
}

impl<'a> ServiceTopologyBackend<'a> {
    pub(crate) fn new(port: &'a dyn TopologyPort, ctx: &'a CaseContext) -> Self {
        Self { port, ctx }
    }

    /// Runs one case to its result.
    ///
    /// # Errors
    /// See [`crate::run_leased_job`].
    pub(crate) async fn run(&self, job: &CaseJob, spec: &ServiceHarness) -> Result<CaseResult, Fault> {
        let ctx = self.ctx;
        ctx.still_wanted()?;
        let mut plan = ServicePlan::new(job, spec, self.port.id(), ctx)?;
        let http = Http::new()?;
        let mut marks = Marks::new(Arc::clone(&ctx.progress));
        say_what_is_missing(job, &plan, ctx);
        let mut logs = CaseLogs::begin();
        let prepare = Patience::new(&ctx.cancel, PREPARE_LIMIT);
        let scope = scope(job, &plan, ctx);
        let topology = prepare
            .wait(self.port.ensure(&plan.spec, &until(&scope, &prepare)))
            .await;
        let topology = topology.map_err(|stop| stop.fault("starting the topology", prepare_code()))??;
        marks.mark("topology_ready", ready_words(&plan, &marks));
        logs.skip_what_is_there(topology.as_ref(), &plan.spec, &prepare)
            .await;
        let shown = live::Members {
            topology: topology.as_ref(),
            names: logs::members(&plan.spec),
            from_start: logs.are_all_its_own(),
            progress: ctx.progress.as_ref(),
        };
        let graded = {
            let graded = async {
                let stage = Stage {
                    plan: &plan,
                    http: &http,
                    ctx,
                    topology: topology.as_ref(),
                    scope: &scope,
                    logs: &logs,
                };
                let work = stage.work(&prepare, &mut marks).await?;
                verdict::grade(&mut plan, topology.as_ref(), &scope, ctx, work).await
            };
            tokio::select! {
                biased;
                graded = graded => graded,
                // Never ends: it is there for as long as the case is.
                never = shown.show() => match never {},
            }
        };
        let afterwards = Patience::new(&CancellationToken::new(), CLEAN_LIMIT);
        let result = match graded {
            Ok(work) => {
                let late = aftermath::roster_and_logs(topology.as_ref(), &logs, &marks, &afterwards).await;
                Ok(verdict::assemble(plan, work, marks, late))
            }
            Err(fault) => Err(fault),
        };
        self.clean(topology.as_ref(), spec, &scope, &afterwards).await;
        drop(topology);
        result
    }

    /// Empties the run's part of the stores; not to be cancelled, and never a reason to lose a result.
    async fn clean(
        &self,
        topology: &dyn TopologyUse,
        spec: &ServiceHarness,
        scope: &CaseScope,
        patience: &Patience,
    ) {
        if !everdict_topology::stores::has_slices(spec) {
            return;
        }
        let scope = until(scope, patience);
        let why = match patience.wait(topology.drop_slices(&scope)).await {
            Ok(Ok(())) => return,
            Ok(Err(fault)) => fault.full_message(),
            Err(_) => format!("it took longer than {} s", CLEAN_LIMIT.as_secs()),
        };
        self.ctx.progress.log(&format!(
            "[everdict] the run's data stays in the stores until the run is repeated: {why}"
        ));
    }
}

fn prepare_code() -> everdict_contracts::ErrorCode {
    everdict_contracts::ErrorCode::DriverProvisionFailed
}

/// Names what the job asks for, this runner does not do, and the result stands without.
fn say_what_is_missing(job: &CaseJob, plan: &ServicePlan, ctx: &CaseContext) {
    let say = |what: &str| ctx.progress.log(&format!("[everdict] {what}"));
    if job.meter_usage == Some(true) {
        say("the job asks for metered model usage, which this runner does not meter");
    }
    if let Some(isolation) = job
        .eval_case
        .placement
        .as_ref()
        .and_then(|placement| placement.isolation.as_deref())
    {
        say(&format!(
            "the case asks for `{isolation}` isolation; a topology has that of containers"
        ));
    }
    if let Some(name) = &plan.spec.trace_source.auth_secret {
        say(&format!(
            "the trace source names the secret `{name}`, which this runner can't resolve: it is asked without"
        ));
    }
    if plan.door.spec.trace_inline.is_none() {
        let source = &plan.spec.trace_source;
        for address in [Some(&source.endpoint), source.artifact_base_url.as_ref()]
            .into_iter()
            .flatten()
        {
            let url = reqwest::Url::parse(address).ok();
            if let Some(host) = url.as_ref().and_then(reqwest::Url::host_str) {
                say(&format!(
                    "the trace is fetched from {host}, which the harness names as its trace source"
                ));
            }
        }
    }
}

fn scope(job: &CaseJob, plan: &ServicePlan, ctx: &CaseContext) -> CaseScope {
    let progress = Arc::clone(&ctx.progress);
    CaseScope {
        tenant: job
            .tenant
            .as_ref()
            .map_or_else(|| "default".to_owned(), ToString::to_string),
        run_id: plan.run_id.clone(),
        attempt: Uuid::now_v7().simple().to_string(),
        progress: Arc::new(move |line| progress.log(line)),
        cancel: ctx.cancel.clone(),
        deadline: None,
        // The plan's spec has the pins in it.
        pins: std::collections::BTreeMap::new(),
        credentials: job.pull_credentials().to_vec(),
        network: plan.network.clone(),
    }
}

/// The scope as far as one phase goes.
fn until(scope: &CaseScope, patience: &Patience) -> CaseScope {
    CaseScope {
        cancel: patience.token().clone(),
        deadline: Some(patience.end()),
        ..scope.clone()
    }
}

fn ready_words(plan: &ServicePlan, marks: &Marks) -> String {
    let services: Vec<&str> = plan
        .spec
        .services
        .iter()
        .map(|service| service.name.as_str())
        .collect();
    let mut stores: Vec<&str> = Vec::new();
    for dependency in &plan.spec.dependencies {
        let name = everdict_topology::stores::kind_name(dependency.store);
        let external = dependency.isolate_by == everdict_contracts::IsolateBy::External;
        if !external && !stores.contains(&name) {
            stores.push(name);
        }
    }
    let mut words = format!(
        "topology {} is ready after {}ms: {}",
        plan.harness(),
        marks.elapsed_ms(),
        services.join(", ")
    );
    if !stores.is_empty() {
        words.push_str(&format!("; {}", stores.join(", ")));
    }
    words
}
