//! Where the rest of a trace comes from when the harness exports it elsewhere.

use everdict_contracts::{
    CaseFailure, Collect, CommandTraceSpec, ErrorCode, ErrorEvent, Fault, PlainTrace, TraceBackend,
    TraceEvent, TraceRef,
};
use jiff::Timestamp;

use crate::recorder::event_at;

/// How the collection went.
#[derive(Debug)]
pub(super) enum Collected {
    /// The trace is whole.
    Sealed,
    /// The control plane pulls the rest.
    Deferred { reference: TraceRef },
    /// The rest could not be had; it can still be pulled from where it is.
    Failed {
        reference: TraceRef,
        failure: CaseFailure,
    },
}

/// Completes `trace` by the declared source.
///
/// A source that can't be read is recorded as one error event, and never fails the work that was done.
pub(super) fn collect(
    spec: Option<&CommandTraceSpec>,
    run_id: &str,
    trace: &mut Vec<TraceEvent>,
) -> Collected {
    let Some((reference, mode)) = spec.and_then(|spec| reference(spec, run_id)) else {
        return Collected::Sealed;
    };
    match mode {
        Collect::ControlPlane => Collected::Deferred { reference },
        Collect::Job => {
            let fault = Fault::new(
                ErrorCode::TraceCollectFailed,
                format!(
                    "trace fetch failed: this runner has no client for {:?} traces",
                    reference.kind
                ),
            );
            trace.push(event_at(
                Timestamp::now(),
                ErrorEvent {
                    message: fault.message.clone(),
                },
            ));
            Collected::Failed {
                reference,
                failure: fault.failure(),
            }
        }
    }
}

/// Where the trace of a run can be read, and who is to read it; `None` when it is complete as it stands.
///
/// The credential itself stays out: the control plane has it under the name that is carried.
fn reference(spec: &CommandTraceSpec, run_id: &str) -> Option<(TraceRef, Collect)> {
    let bare = |kind, endpoint: &str, auth_secret: &Option<String>| TraceRef {
        kind,
        endpoint: endpoint.to_owned(),
        run_id: run_id.to_owned(),
        auth_secret: auth_secret.clone(),
        correlate: None,
        experiment: None,
        project: None,
        service: None,
        mapping: None,
    };
    let plain = |kind, spec: &PlainTrace| (bare(kind, &spec.endpoint, &spec.auth_secret), spec.collect);
    Some(match spec {
        CommandTraceSpec::None(_) | CommandTraceSpec::File(_) => return None,
        CommandTraceSpec::Otel(spec) => {
            let mut reference = bare(TraceBackend::Otel, &spec.endpoint, &spec.auth_secret);
            reference.correlate = Some(spec.correlate);
            reference.service.clone_from(&spec.service);
            reference.mapping.clone_from(&spec.mapping);
            (reference, spec.collect)
        }
        CommandTraceSpec::Mlflow(spec) => {
            let mut reference = bare(TraceBackend::Mlflow, &spec.endpoint, &spec.auth_secret);
            reference.correlate = Some(spec.correlate);
            reference.experiment.clone_from(&spec.experiment);
            reference.mapping.clone_from(&spec.mapping);
            (reference, spec.collect)
        }
        CommandTraceSpec::Langfuse(spec) => plain(TraceBackend::Langfuse, spec),
        CommandTraceSpec::Langsmith(spec) => plain(TraceBackend::Langsmith, spec),
        CommandTraceSpec::Phoenix(spec) => {
            let mut reference = bare(TraceBackend::Phoenix, &spec.endpoint, &spec.auth_secret);
            reference.project = Some(spec.project.clone());
            (reference, spec.collect)
        }
    })
}
