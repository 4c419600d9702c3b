//! The trace of a drive: from the answer itself, or from a backend. A trace that can't be had is one error in it.

use everdict_contracts::{Correlate, ErrorEvent, Fault, TraceEvent, TraceEvidence, TraceInline, decode};
use everdict_traces::{SettlePolicy, TraceSource, settle};
use jiff::Timestamp;
use serde_json::Value;

use super::select::at;
use crate::recorder::event_at;

/// What became of the trace.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) events: Vec<TraceEvent>,
    pub(crate) extracted: Option<TraceEvidence>,
    /// The id of the trace at its backend.
    pub(crate) source_trace_id: Option<String>,
}

impl Evidence {
    fn failed(what: &str, fault: &Fault) -> Self {
        let message = format!("trace {what} failed: {}", fault.full_message());
        let event = event_at(Timestamp::now(), ErrorEvent { message });
        Self {
            events: vec![event],
            ..Self::default()
        }
    }

    /// The trace that came with the answer.
    pub(crate) fn inline(spec: &TraceInline, response: Option<&Value>) -> Self {
        let path = spec.path.as_deref().unwrap_or_default();
        let found = response.and_then(|response| at(response, path));
        let events = match found {
            None => Err(Fault::bad_request(format!("the answer has nothing at `{path}`"))),
            Some(value) => decode::<Vec<TraceEvent>>(value.clone()).map_err(Fault::from),
        };
        match events {
            Ok(events) => Self {
                events,
                ..Self::default()
            },
            Err(fault) => Self::failed("extract", &fault),
        }
    }

    /// The trace that the backend has, once it has come to rest. Cancel safe.
    pub(crate) async fn fetched(
        source: &Result<Box<dyn TraceSource>, Fault>,
        key: &str,
        by: Correlate,
    ) -> Self {
        let source = match source {
            Ok(source) => source,
            Err(fault) => return Self::failed("fetch", fault),
        };
        match settle(source.as_ref(), key, &SettlePolicy::default()).await {
            Ok(pull) => {
                let came = pull.events.iter().any(|event| !is_machinery(event));
                Self {
                    events: pull.events,
                    extracted: pull.evidence,
                    // A tag is no id.
                    source_trace_id: (came && by == Correlate::Id).then(|| key.to_owned()),
                }
            }
            Err(fault) => Self::failed("fetch", &fault),
        }
    }
}

fn is_machinery(event: &TraceEvent) -> bool {
    matches!(event.kind, everdict_contracts::TraceEventKind::Infra(_))
}

#[cfg(test)]
mod tests {
    use everdict_contracts::TraceEventKind;
    use serde_json::json;

    use super::*;

    fn inline(path: Option<&str>, response: Option<&Value>) -> Vec<TraceEvent> {
        let spec = TraceInline {
            path: path.map(str::to_owned),
        };
        Evidence::inline(&spec, response).events
    }

    #[test]
    fn a_trace_in_the_answer_is_read_where_the_harness_says() {
        let events = json!([{ "t": 1, "kind": "message", "role": "assistant", "text": "hi" }]);
        assert_eq!(
            inline(Some("run.trace"), Some(&json!({ "run": { "trace": events } }))).len(),
            1
        );
        assert_eq!(inline(None, Some(&events)).len(), 1);
        assert_eq!(inline(None, Some(&json!([]))), []);
    }

    /// One error, with its time, so that whoever reads the trace sees that it is not whole.
    #[test]
    fn a_trace_that_is_none_becomes_one_error_with_a_time() {
        for response in [
            None,
            Some(json!({})),
            Some(json!({ "trace": [{ "t": 1, "kind": "nonsense" }] })),
            Some(json!({ "trace": {} })),
        ] {
            let events = inline(Some("trace"), response.as_ref());
            assert_eq!(events.len(), 1);
            assert!(events[0].at.is_some() && events[0].t > 1e12, "{events:?}");
            match &events[0].kind {
                TraceEventKind::Error(error) => {
                    assert!(error.message.starts_with("trace extract failed: "), "{error:?}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
