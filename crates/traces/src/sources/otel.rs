//! OpenTelemetry backends with Jaeger's query interface, whose bodies are Jaeger's own or OTLP/JSON.

use everdict_contracts::{Correlate, Fault};
use serde_json::{Map, Value, json};

use super::{Spans, otlp};
use crate::config::TraceConfig;
use crate::fetch::{Budget, Client, failed};
use crate::span::{SpanPoint, SpanRecord, SpanStatus};
use crate::value::{list, number, show, text_field};

pub(crate) enum Otel {
    ById,
    ByTag { service: String, tag: String },
}

impl Otel {
    pub(crate) fn new(config: &TraceConfig) -> Result<Self, Fault> {
        Ok(match config.correlate {
            Correlate::Id => Self::ById,
            Correlate::Tag => Self::ByTag {
                service: config
                    .service
                    .clone()
                    .filter(|name| !name.is_empty())
                    .ok_or_else(|| {
                        Fault::bad_request(
                            "`traceSource.service`: a search by tag needs the name of the service",
                        )
                    })?,
                tag: config.tag.clone(),
            },
        })
    }

    pub(crate) async fn fetch(
        &self,
        client: &Client,
        budget: &mut Budget,
        key: &str,
    ) -> Result<Spans, Fault> {
        let url = match self {
            Self::ById => client.url(&["api", "traces", key], &[]),
            Self::ByTag { service, tag } => {
                let tags = json!({ tag: key }).to_string();
                client.url(
                    &["api", "traces"],
                    &[("service", service), ("tags", &tags), ("limit", "1")],
                )
            }
        };
        let Some(body) = client.get(budget, url).await? else {
            return Ok(Spans::absent());
        };
        if !body.is_object() {
            return Err(failed("the OpenTelemetry backend answered what isn't a trace"));
        }
        let spans = if body.get("data").is_some() {
            jaeger(&body)
        } else {
            otlp::spans(&body)
        };
        Ok(Spans::found(spans))
    }
}

/// Reads Jaeger's own form: times in microseconds, typed tags, parents among references.
fn jaeger(body: &Value) -> Vec<SpanRecord> {
    let traces = list(body, &["data"]);
    let read = |trace: &Value| {
        let process = |raw: &Value| process(trace, raw);
        let spans = list(trace, &["spans"])
            .iter()
            .filter_map(|raw| jaeger_span(raw, process(raw)));
        spans.collect::<Vec<_>>()
    };
    traces.iter().flat_map(read).collect()
}

fn process(trace: &Value, span: &Value) -> Map<String, Value> {
    let own = span.get("process");
    let id = text_field(span, &["processID"]);
    let shared = id.and_then(|id| trace.get("processes")?.get(id));
    let Some(process) = own.or(shared) else {
        return Map::new();
    };
    let mut tags = tags(list(process, &["tags"]));
    if let Some(name) = text_field(process, &["serviceName"]) {
        tags.insert("service.name".to_owned(), name.into());
    }
    tags
}

fn jaeger_span(raw: &Value, process: Map<String, Value>) -> Option<SpanRecord> {
    let start = number(raw.get("startTime")?)? / 1e3;
    let duration = raw.get("duration").and_then(number).unwrap_or(0.0) / 1e3;
    let name = text_field(raw, &["operationName"]).unwrap_or_default();
    let mut span = SpanRecord::new(text_field(raw, &["spanID"])?, name, start, start + duration);
    span.parent = parent(raw);
    span.attributes = process;
    span.attributes.extend(tags(list(raw, &["tags"])));
    span.status = status(&span.attributes);
    span.points = list(raw, &["logs"])
        .iter()
        .map(|log| {
            let mut attributes = tags(list(log, &["fields"]));
            let name = attributes
                .remove("event")
                .map(|name| show(&name))
                .unwrap_or_default();
            let at_ms = log.get("timestamp").and_then(number).map_or(start, |at| at / 1e3);
            SpanPoint {
                at_ms,
                name,
                attributes,
            }
        })
        .collect();
    Some(span)
}

/// The span that this one is a child of, or else follows from, within the same trace.
fn parent(raw: &Value) -> Option<String> {
    let trace = text_field(raw, &["traceID"]);
    let references = list(raw, &["references"]);
    let mut at_home = references.iter().filter(|reference| {
        let theirs = text_field(reference, &["traceID"]);
        theirs.is_none() || trace.is_none() || theirs == trace
    });
    let first = at_home.clone().next();
    let child_of =
        at_home.find(|reference| text_field(reference, &["refType"]).as_deref() == Some("CHILD_OF"));
    child_of
        .or(first)
        .and_then(|reference| text_field(reference, &["spanID"]))
        .or_else(|| text_field(raw, &["parentSpanID"]))
}

fn tags(list: &[Value]) -> Map<String, Value> {
    list.iter()
        .filter_map(|tag| Some((text_field(tag, &["key"])?, tag.get("value")?.clone())))
        .collect()
}

fn status(tags: &Map<String, Value>) -> SpanStatus {
    let code = tags.get("otel.status_code").map(show).unwrap_or_default();
    let error = tags
        .get("error")
        .is_some_and(|flag| flag == &Value::Bool(true) || flag == "true");
    if code.eq_ignore_ascii_case("error") || error {
        SpanStatus::Error(
            tags.get("otel.status_description")
                .map(show)
                .filter(|text| !text.is_empty()),
        )
    } else if code.eq_ignore_ascii_case("ok") {
        SpanStatus::Ok
    } else {
        SpanStatus::Unset
    }
}
