//! A runner against a scripted hub, with a case that the test writes.

use std::sync::Arc;
use std::time::Duration;

use everdict_cases::CaseContext;
use everdict_contracts::{CaseJob, CaseResult, EnvSnapshot, Fault, Score};
use everdict_exec::HostEnv;
use everdict_runner_core::session::install_crypto;
use everdict_runner_core::{Executor, Runner, RunnerConfig, RunnerHandle, RunnerSnapshot};
use everdict_testkit::ScriptedHub;
use secrecy::SecretString;
use serde_json::{Value, json};

pub struct World {
    pub hub: ScriptedHub,
    dir: tempfile::TempDir,
    config: RunnerConfig,
}

impl World {
    pub async fn new() -> Self {
        install_crypto();
        let hub = ScriptedHub::start().await;
        let dir = tempfile::tempdir().unwrap();
        let mut config = RunnerConfig::new(
            hub.url(),
            SecretString::from(ScriptedHub::TOKEN),
            "0.1.0",
            Arc::new(HostEnv::default()),
            dir.path(),
        );
        config.hostname = "testbox".to_owned();
        config.poll_interval_ms = 20;
        Self { hub, dir, config }
    }

    pub fn work_root(&self) -> &std::path::Path {
        self.dir.path()
    }

    pub fn start(&self, executor: Executor) -> RunnerHandle {
        self.start_as(executor, |_| {})
    }

    pub fn start_as(&self, executor: Executor, change: impl FnOnce(&mut RunnerConfig)) -> RunnerHandle {
        let mut config = self.config.clone();
        change(&mut config);
        Runner::start_with(config, executor).unwrap()
    }
}

/// A case as an async function.
pub fn case<F, R>(run: F) -> Executor
where
    F: Fn(Arc<CaseJob>, CaseContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<CaseResult, Fault>> + Send + 'static,
{
    Arc::new(move |job, context| Box::pin(run(job, context)))
}

/// A case that passes at once.
pub fn passing() -> Executor {
    case(|job, _| async move { Ok(pass(&job)) })
}

/// A case that runs until it is stopped.
pub fn endless() -> Executor {
    case(|_, context| async move {
        context.cancel.cancelled().await;
        Err(Fault::cancelled("the run was cancelled"))
    })
}

pub fn pass(job: &CaseJob) -> CaseResult {
    let mut result = CaseResult::new(job.eval_case.id.clone(), "h@1.0.0", EnvSnapshot::prompt("out"));
    result.scores = vec![Score::verdict("g", "pass", true)];
    result
}

pub fn job(id: &str) -> Value {
    json!({
        "evalCase": {"id": id, "env": {"kind": "prompt"}, "task": "t", "graders": [{"id": "steps"}]},
        "harness": {"id": "h", "version": "1.0.0"},
        "runId": format!("evd-run-{id}"),
    })
}

/// Waits until the snapshot fits.
pub async fn until(
    handle: &RunnerHandle,
    what: &str,
    fits: impl FnMut(&RunnerSnapshot) -> bool,
) -> RunnerSnapshot {
    let mut snapshot = handle.snapshot();
    let waited = tokio::time::timeout(Duration::from_secs(10), snapshot.wait_for(fits)).await;
    match waited {
        Ok(Ok(found)) => found.clone(),
        Ok(Err(_)) => panic!("the runner ended before {what}"),
        Err(_) => panic!(
            "waited in vain until {what}: {:#?}",
            handle.snapshot().borrow().clone()
        ),
    }
}

/// Stops the runner and waits for its end.
pub async fn end(handle: RunnerHandle) {
    handle.drain();
    tokio::time::timeout(Duration::from_secs(10), handle.join())
        .await
        .expect("a drained runner ends");
}

/// Whether the hub has a result for the job.
pub fn accepted(hub: &ScriptedHub, job_id: &str) -> bool {
    hub.lease(job_id).is_some_and(|lease| lease.result.is_some())
}
