//! MLflow 3: a trace by its id, or by a tag within an experiment.

use everdict_contracts::{Correlate, Fault};
use serde_json::{Value, json};

use super::{Spans, otlp};
use crate::config::TraceConfig;
use crate::fetch::{Budget, Client, failed};
use crate::source::TraceState;
use crate::value::{field, list, text_field, unwrapped};

const API: [&str; 4] = ["api", "3.0", "mlflow", "traces"];

pub(crate) enum Mlflow {
    ById,
    ByTag { experiment: String, tag: String },
}

impl Mlflow {
    pub(crate) fn new(config: &TraceConfig) -> Result<Self, Fault> {
        if config.correlate == Correlate::Id {
            return Ok(Self::ById);
        }
        if config.tag.contains('`') {
            return Err(Fault::bad_request(
                "`traceSource.correlateTag` may not contain a backtick",
            ));
        }
        let experiment = config
            .project
            .clone()
            .filter(|id| !id.is_empty())
            .ok_or_else(|| {
                Fault::bad_request("`traceSource.project`: a search by tag needs MLflow's experiment id")
            })?;
        Ok(Self::ByTag {
            experiment,
            tag: config.tag.clone(),
        })
    }

    pub(crate) async fn fetch(
        &self,
        client: &Client,
        budget: &mut Budget,
        key: &str,
    ) -> Result<Spans, Fault> {
        let found = match self {
            Self::ById => Some(key.to_owned()),
            Self::ByTag { experiment, tag } => search(client, budget, experiment, tag, key).await?,
        };
        let Some(id) = found else {
            return Ok(Spans::absent());
        };
        let [api, version, mlflow, traces] = API;
        let url = client.url(&[api, version, mlflow, traces, "get"], &[("trace_id", &id)]);
        let Some(body) = client.get(budget, url).await? else {
            return Ok(Spans::absent());
        };
        let Some(trace) = field(&body, &["trace"]) else {
            return Err(failed("MLflow answered what isn't a trace"));
        };
        let mut spans = otlp::spans(trace);
        for span in &mut spans {
            // MLflow's own attributes are JSON in text.
            for (key, value) in &mut span.attributes {
                if key.starts_with("mlflow.") {
                    *value = from_json(value);
                }
            }
        }
        let info = field(trace, &["trace_info", "info"]).unwrap_or(&Value::Null);
        let state = match text_field(info, &["state", "status"]).as_deref() {
            Some("OK" | "ERROR") => TraceState::Ended,
            Some("IN_PROGRESS" | "PENDING") => TraceState::Running,
            _ => return Ok(Spans::found(spans)),
        };
        Ok(Spans { spans, state })
    }
}

/// Takes text for the JSON that it is: quoted text as well as objects and lists.
fn from_json(value: &Value) -> Value {
    match value.as_str() {
        Some(text) if text.starts_with('"') => serde_json::from_str(text).unwrap_or_else(|_| value.clone()),
        _ => unwrapped(value),
    }
}

/// Looks for the trace by tag, then by metadata, which is where some clients put what others make a tag.
async fn search(
    client: &Client,
    budget: &mut Budget,
    experiment: &str,
    tag: &str,
    key: &str,
) -> Result<Option<String>, Fault> {
    let by_tag = search_in(client, budget, experiment, &filter("tags", tag, key)).await?;
    if by_tag.is_some() {
        return Ok(by_tag);
    }
    match search_in(client, budget, experiment, &filter("request_metadata", tag, key)).await {
        Ok(found) => Ok(found),
        Err(error) => {
            // Older servers don't know the field; the search by tag has answered already.
            tracing::debug!(%error, "no search by metadata");
            Ok(None)
        }
    }
}

fn filter(field: &str, tag: &str, key: &str) -> String {
    format!("{field}.`{tag}` = '{}'", key.replace('\'', "''"))
}

async fn search_in(
    client: &Client,
    budget: &mut Budget,
    experiment: &str,
    filter: &str,
) -> Result<Option<String>, Fault> {
    let [api, version, mlflow, traces] = API;
    let url = client.url(&[api, version, mlflow, traces, "search"], &[]);
    let location =
        json!({ "type": "MLFLOW_EXPERIMENT", "mlflow_experiment": { "experiment_id": experiment } });
    let body = json!({ "locations": [location], "filter": filter, "max_results": 1 });
    let Some(answer) = client.post(budget, url, &body).await? else {
        return Ok(None);
    };
    let Some(first) = list(&answer, &["traces"]).first() else {
        return Ok(None);
    };
    let info = field(first, &["trace_info", "info"]).unwrap_or(first);
    Ok(text_field(info, &["trace_id", "request_id"]))
}
