//! Waiting for a trace.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everdict_contracts::{ErrorCode, TraceBackend, TraceEventKind};
use everdict_traces::{SettlePolicy, TRACE_EMPTY, settle};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{Backend, Reply};

fn quick() -> SettlePolicy {
    SettlePolicy {
        interval: Duration::from_millis(10),
        cap: Duration::from_secs(5),
        ..SettlePolicy::default()
    }
}

fn spans(count: usize) -> Value {
    let span = |n: usize| json!({ "spanId": n.to_string(), "name": "s", "startTimeUnixNano": "1" });
    json!({ "spans": (0..count).map(span).collect::<Vec<_>>() })
}

#[tokio::test]
async fn a_growing_trace_is_waited_for() {
    let script = [0, 1, 3, 3, 0, 5, 5, 5, 9];
    let backend = Backend::start(move |n, _| Reply::Json(spans(script[n.min(8)]))).await;
    let pull = settle(&*backend.source(TraceBackend::Otel), "t1", &quick())
        .await
        .unwrap();
    assert_eq!(pull.events.len(), 5);
    assert_eq!(backend.asked().len(), 8, "two rounds without a change");
}

#[tokio::test]
async fn a_trace_that_has_ended_is_not_waited_for() {
    let backend = Backend::json(json!({ "trace": { "trace_info": { "state": "OK" }, "spans": [] } })).await;
    let pull = settle(&*backend.source(TraceBackend::Mlflow), "t1", &quick())
        .await
        .unwrap();
    assert_eq!(backend.asked().len(), 1);
    assert_eq!(pull.events.len(), 1, "one warning");
}

#[tokio::test]
async fn a_trace_that_never_comes_is_one_warning() {
    let backend = Backend::start(|_, _| Reply::Status(404, "")).await;
    let policy = SettlePolicy {
        cap: Duration::from_millis(200),
        ..quick()
    };
    let begun = Instant::now();
    let pull = settle(&*backend.source(TraceBackend::Otel), "t1", &policy)
        .await
        .unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert!(backend.asked().len() > 2);
    assert!(
        matches!(&pull.events[..], [event] if matches!(&event.kind, TraceEventKind::Infra(infra)
        if infra.event.as_deref() == Some(TRACE_EMPTY) && infra.message.contains("`t1`") && infra.message.contains("otel")))
    );
}

#[tokio::test]
async fn a_backend_that_recovers_is_forgiven_and_a_dead_one_given_up() {
    let backend = Backend::start(|n, _| match n {
        0 | 1 => Reply::Status(503, "starting"),
        _ => Reply::Json(spans(2)),
    })
    .await;
    let pull = settle(&*backend.source(TraceBackend::Otel), "t1", &quick())
        .await
        .unwrap();
    assert_eq!(pull.events.len(), 2);

    let dead = Backend::start(|_, _| Reply::Status(503, "down")).await;
    let fault = settle(&*dead.source(TraceBackend::Otel), "t1", &quick())
        .await
        .unwrap_err();
    assert!(fault.message.contains("503"), "{fault}");
    assert_eq!(dead.asked().len(), 3);

    let refused = Backend::start(|_, _| Reply::Status(403, "no")).await;
    settle(&*refused.source(TraceBackend::Otel), "t1", &quick())
        .await
        .unwrap_err();
    assert_eq!(refused.asked().len(), 1, "asking again can't help");

    let lost = Backend::start(|n, _| {
        if n < 1 {
            Reply::Json(spans(2))
        } else {
            Reply::Status(503, "down")
        }
    })
    .await;
    let pull = settle(&*lost.source(TraceBackend::Otel), "t1", &quick())
        .await
        .unwrap();
    assert_eq!(pull.events.len(), 2, "what came before the fault counts");
}

#[tokio::test]
async fn a_silent_backend_costs_the_cap_and_no_more() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let backend = Backend::start(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        Reply::Never
    })
    .await;
    let policy = SettlePolicy {
        cap: Duration::from_millis(300),
        ..quick()
    };
    let begun = Instant::now();
    let fault = settle(&*backend.source(TraceBackend::Otel), "t1", &policy)
        .await
        .unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(
        (fault.code, asked.load(Ordering::SeqCst)),
        (ErrorCode::TraceCollectFailed, 1)
    );
}
