//! What every trace backend can do.

use everdict_contracts::{Fault, TraceBackend, TraceEvent, TraceEvidence};
use futures_util::future::BoxFuture;

use crate::config::{TraceConfig, TraceLimits};
use crate::evidence;
use crate::fetch::{Budget, Client};
use crate::project::project;
use crate::sources::{Spans, langfuse, langsmith, mlflow, otel, phoenix};

/// How far a trace has come, by the backend's own word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceState {
    /// The backend doesn't know it, or not yet.
    Absent,
    /// It is still being written.
    Running,
    /// It is complete.
    Ended,
    /// It is there; the backend doesn't say whether it is complete.
    Unknown,
}

/// What one fetch brought.
#[derive(Debug, Clone, PartialEq)]
pub struct TracePull {
    /// In order of time; empty when there is no trace yet.
    pub events: Vec<TraceEvent>,
    /// What the mapping's evidence slots found.
    pub evidence: Option<TraceEvidence>,
    /// How far the trace has come.
    pub state: TraceState,
}

/// A trace backend.
pub trait TraceSource: Send + Sync {
    /// Which backend it is.
    fn kind(&self) -> TraceBackend;

    /// Reads the trace of a run, or what there is of it. Cancel safe.
    ///
    /// # Errors
    /// `UPSTREAM_MISCONFIGURED` when the credentials are refused; `TRACE_COLLECT_FAILED` when the backend can't be reached,
    /// is too slow, answers too much, something else, or nonsense.
    fn fetch<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<TracePull, Fault>>;
}

/// Makes the source that a configuration describes. Opens no connection.
///
/// # Errors
/// `BAD_REQUEST` naming the field: an address that is none, a credential that no header can hold, a project, experiment or
/// service that this kind of search needs.
pub fn source_for(config: &TraceConfig, limits: TraceLimits) -> Result<Box<dyn TraceSource>, Fault> {
    let backend = match config.kind {
        TraceBackend::Otel => Backend::Otel(otel::Otel::new(config)?),
        TraceBackend::Mlflow => Backend::Mlflow(mlflow::Mlflow::new(config)?),
        TraceBackend::Langfuse => Backend::Langfuse,
        TraceBackend::Langsmith => Backend::Langsmith,
        TraceBackend::Phoenix => Backend::Phoenix(phoenix::project(config)?),
    };
    let client = Client::new(config, limits)?;
    Ok(Box::new(Source {
        backend,
        client,
        config: config.clone(),
    }))
}

enum Backend {
    Otel(otel::Otel),
    Mlflow(mlflow::Mlflow),
    Langfuse,
    Langsmith,
    Phoenix(String),
}

struct Source {
    backend: Backend,
    client: Client,
    config: TraceConfig,
}

impl TraceSource for Source {
    fn kind(&self) -> TraceBackend {
        self.config.kind
    }

    fn fetch<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<TracePull, Fault>> {
        Box::pin(self.pull(key))
    }
}

impl Source {
    async fn pull(&self, key: &str) -> Result<TracePull, Fault> {
        let mut budget = Budget::new(self.client.limits());
        let Spans { mut spans, state } = match &self.backend {
            Backend::Otel(otel) => otel.fetch(&self.client, &mut budget, key).await?,
            Backend::Mlflow(mlflow) => mlflow.fetch(&self.client, &mut budget, key).await?,
            Backend::Langfuse => langfuse::fetch(&self.client, &mut budget, key).await?,
            Backend::Langsmith => langsmith::fetch(&self.client, &mut budget, key).await?,
            Backend::Phoenix(project) => phoenix::fetch(&self.client, &mut budget, project, key).await?,
        };
        spans.sort_by(|a, b| a.start_ms.total_cmp(&b.start_ms));
        let evidence = evidence::collect(&spans, &self.config.mapping, &self.client, &mut budget).await;
        let mut events = project(&spans, &self.config.mapping);
        if let Some(answer) = evidence
            .as_ref()
            .and_then(|evidence| evidence.final_answer.as_deref())
        {
            evidence::append_answer(&mut events, answer);
        }
        Ok(TracePull {
            events,
            evidence,
            state,
        })
    }
}
