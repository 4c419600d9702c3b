//! Where a trace is to be found, and how much of a backend's time and talk is put up with.

use std::collections::BTreeMap;
use std::time::Duration;

use everdict_contracts::{
    CommandTraceSpec, Correlate, SecretText, SpanAttrMapping, TraceBackend, TraceSourceSpec,
};

/// The tag that marks a trace as a run's when a spec names none; set by the protocol.
const DEFAULT_TAG: &str = "everdict.run_id";

/// Everything needed to read traces from one backend. Credentials don't show.
#[derive(Debug, Clone)]
pub struct TraceConfig {
    /// Which backend.
    pub kind: TraceBackend,
    /// Its address.
    pub endpoint: String,
    /// The credential, sent verbatim under the header that the backend expects.
    pub auth: Option<SecretText>,
    /// The name of a credential that the spec asks for; shown when the backend turns a request down.
    pub auth_secret: Option<String>,
    /// Further headers, for the backends that take any.
    pub headers: BTreeMap<String, SecretText>,
    /// By the trace's id or by a tag.
    pub correlate: Correlate,
    /// The tag.
    pub tag: String,
    /// The service that an OpenTelemetry backend is asked for by tag.
    pub service: Option<String>,
    /// The project, or MLflow's experiment id.
    pub project: Option<String>,
    /// Which attributes hold what.
    pub mapping: SpanAttrMapping,
    /// What references without a host are relative to.
    pub artifact_base_url: Option<String>,
}

impl TraceConfig {
    /// Starts a configuration with only an address.
    pub fn new(kind: TraceBackend, endpoint: impl Into<String>) -> Self {
        Self {
            kind,
            endpoint: endpoint.into(),
            auth: None,
            auth_secret: None,
            headers: BTreeMap::new(),
            correlate: Correlate::Id,
            tag: DEFAULT_TAG.to_owned(),
            service: None,
            project: None,
            mapping: SpanAttrMapping::default(),
            artifact_base_url: None,
        }
    }

    /// Reads the trace source of a service harness; `auth` is what its `authSecret` names, where that is known.
    pub fn from_spec(spec: &TraceSourceSpec, auth: Option<SecretText>) -> Self {
        Self {
            auth,
            auth_secret: spec.auth_secret.clone(),
            correlate: spec.correlate.unwrap_or_default(),
            tag: spec
                .correlate_tag
                .clone()
                .unwrap_or_else(|| DEFAULT_TAG.to_owned()),
            service: spec.service.clone(),
            project: spec.project.clone(),
            mapping: spec.mapping.clone().unwrap_or_default(),
            artifact_base_url: spec.artifact_base_url.clone(),
            ..Self::new(spec.kind, &spec.endpoint)
        }
    }

    /// Reads the trace of a command harness; `None` when it is none of a backend. Who collects is for the caller to heed.
    pub fn from_command(spec: &CommandTraceSpec) -> Option<Self> {
        Some(match spec {
            CommandTraceSpec::None(_) | CommandTraceSpec::File(_) => return None,
            CommandTraceSpec::Otel(otel) => Self {
                auth: otel.auth.clone(),
                auth_secret: otel.auth_secret.clone(),
                correlate: otel.correlate,
                service: otel.service.clone(),
                mapping: otel.mapping.clone().unwrap_or_default(),
                ..Self::new(TraceBackend::Otel, &otel.endpoint)
            },
            CommandTraceSpec::Mlflow(mlflow) => Self {
                auth: mlflow.auth.clone(),
                auth_secret: mlflow.auth_secret.clone(),
                correlate: mlflow.correlate,
                project: mlflow.experiment.clone(),
                mapping: mlflow.mapping.clone().unwrap_or_default(),
                ..Self::new(TraceBackend::Mlflow, &mlflow.endpoint)
            },
            CommandTraceSpec::Langfuse(plain) => Self {
                auth: plain.auth.clone(),
                auth_secret: plain.auth_secret.clone(),
                ..Self::new(TraceBackend::Langfuse, &plain.endpoint)
            },
            CommandTraceSpec::Langsmith(plain) => Self {
                auth: plain.auth.clone(),
                auth_secret: plain.auth_secret.clone(),
                ..Self::new(TraceBackend::Langsmith, &plain.endpoint)
            },
            CommandTraceSpec::Phoenix(phoenix) => Self {
                auth: phoenix.auth.clone(),
                auth_secret: phoenix.auth_secret.clone(),
                project: Some(phoenix.project.clone()),
                ..Self::new(TraceBackend::Phoenix, &phoenix.endpoint)
            },
        })
    }
}

/// Bounds of one fetch.
#[derive(Debug, Clone, Copy)]
pub struct TraceLimits {
    /// Time for one request.
    pub request: Duration,
    /// Time for all requests of a fetch together, references included.
    pub total: Duration,
    /// Bytes of all answers of a fetch together.
    pub bytes: usize,
    /// Pages of a paged answer.
    pub pages: usize,
}

impl Default for TraceLimits {
    fn default() -> Self {
        Self {
            // A backend that searches by tag in a cold store needs seconds, not more.
            request: Duration::from_secs(10),
            // Three slow requests: search, second search, get.
            total: Duration::from_secs(30),
            // The largest traces seen are a few MiB; the rest is room for pictures in attributes.
            bytes: 32 * 1024 * 1024,
            // A hundred spans each at the least.
            pages: 100,
        }
    }
}
