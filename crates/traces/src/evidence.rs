//! Evidence slots: the answer, the page and the picture that an agent left in its trace.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everdict_contracts::{
    EvidenceKey, EvidenceSlot, Pick, Role, SpanAttrMapping, TraceEvent, TraceEventKind, TraceEvidence,
};
use reqwest::Url;
use serde_json::Value;

use crate::fetch::{Budget, Client};
use crate::span::SpanRecord;
use crate::value::{show, unwrapped};

/// The largest picture that a reference may lead to; set by the protocol.
const MAX_IMAGE: usize = 4 * 1024 * 1024;

/// The largest text that a reference may lead to; set by the protocol.
const MAX_TEXT: usize = 1024 * 1024;

/// Text of that length in the alphabet of base64 is a picture, a shorter one a name; set by the protocol.
const MIN_BASE64: usize = 256;

/// Reads the slots of a mapping out of spans, sorted by their beginning; `None` when the mapping has none or nothing is there.
///
/// References that can't be followed stay what they are, text.
pub(crate) async fn collect(
    spans: &[SpanRecord],
    mapping: &SpanAttrMapping,
    client: &Client,
    budget: &mut Budget,
) -> Option<TraceEvidence> {
    let mut evidence = TraceEvidence {
        final_answer: mapping
            .final_answer
            .as_ref()
            .and_then(|slot| find(spans, slot))
            .map(|value| show(&value)),
        ..TraceEvidence::default()
    };
    if let Some(value) = mapping.dom.as_ref().and_then(|slot| find(spans, slot)) {
        evidence.dom = Some(text(show(&value), client, budget).await);
    }
    if let Some(value) = mapping.screenshot.as_ref().and_then(|slot| find(spans, slot)) {
        picture(show(&value), client, budget, &mut evidence).await;
    }
    let mut custom = BTreeMap::new();
    for (name, slot) in mapping.evidence.iter().flatten() {
        if let Some(value) = find(spans, slot) {
            custom.insert(name.clone(), text(show(&value), client, budget).await);
        }
    }
    evidence.custom = Some(custom).filter(|custom| !custom.is_empty());
    Some(evidence).filter(|evidence| *evidence != TraceEvidence::default())
}

/// Adds the final answer as the assistant's last message, unless it is that already.
pub(crate) fn append_answer(events: &mut Vec<TraceEvent>, answer: &str) {
    let said = events.iter().rev().find_map(|event| match &event.kind {
        TraceEventKind::Message(message) if message.role == Role::Assistant => Some(message.text.as_str()),
        _ => None,
    });
    if said == Some(answer) {
        return;
    }
    let last = events.last();
    let mut message = TraceEvent::message(last.map_or(0.0, |last| last.t), Role::Assistant, answer);
    message.at = last.and_then(|last| last.at.clone());
    events.push(message);
}

/// The first selector that finds something wins; among its finds the last, or the first where it says so.
fn find(spans: &[SpanRecord], slot: &EvidenceSlot) -> Option<Value> {
    slot.iter().find_map(|selector| {
        let (key, path, pick) = match selector {
            EvidenceKey::Key(key) => (key, None, Pick::Last),
            EvidenceKey::Pick(pick) => (&pick.key, pick.path.as_deref(), pick.pick.unwrap_or(Pick::Last)),
        };
        let value = |span: &SpanRecord| {
            let value = span.attributes.get(key)?;
            path.map_or_else(|| Some(value.clone()), |path| follow(value, path))
                .filter(|value| !value.is_null())
        };
        let mut finds = spans.iter().filter_map(value);
        match pick {
            Pick::First => finds.next(),
            Pick::Last => finds.next_back(),
        }
    })
}

/// Follows a path such as `a.b[0]`; text that is JSON is entered as such.
fn follow(value: &Value, path: &str) -> Option<Value> {
    let mut here = value.clone();
    for step in path
        .split(['.', '['])
        .map(|step| step.trim_end_matches(']'))
        .filter(|step| !step.is_empty())
    {
        here = match unwrapped(&here) {
            Value::Object(mut object) => object.remove(step)?,
            Value::Array(list) => list.into_iter().nth(step.parse().ok()?)?,
            _ => return None,
        };
    }
    Some(here)
}

/// Reads text as an address, if it is one.
fn reference(text: &str, client: &Client) -> Option<Url> {
    let text = text.trim();
    if text.starts_with("http://") || text.starts_with("https://") {
        return Url::parse(text).ok();
    }
    // A root-relative reference has one slash; two would name another host.
    let relative = text.starts_with('/') && !text.starts_with("//") && !text.contains(char::is_whitespace);
    client.artifacts().filter(|_| relative)?.join(text).ok()
}

async fn text(value: String, client: &Client, budget: &mut Budget) -> String {
    let Some(url) = reference(&value, client) else {
        return value;
    };
    match client.reference(budget, url, MAX_TEXT).await {
        Ok(body) => String::from_utf8(body.bytes).unwrap_or(value),
        Err(error) => {
            tracing::debug!(%error, "kept a reference as text");
            value
        }
    }
}

async fn picture(value: String, client: &Client, budget: &mut Budget, evidence: &mut TraceEvidence) {
    if let Some((media_type, data)) = data_uri(&value) {
        evidence.screenshot_media_type = Some(media_type.to_owned());
        evidence.screenshot = Some(data.to_owned());
        return;
    }
    if value.len() >= MIN_BASE64
        && let Ok(bytes) = STANDARD.decode(value.trim())
    {
        evidence.screenshot_media_type = image_type(&bytes).map(str::to_owned);
        evidence.screenshot = Some(value.trim().to_owned());
        return;
    }
    if let Some(url) = reference(&value, client) {
        match client.reference(budget, url, MAX_IMAGE).await {
            Ok(body) => {
                let by_header = body.media_type.filter(|kind| kind.starts_with("image/"));
                let kind = image_type(&body.bytes).map(str::to_owned).or(by_header);
                if kind.is_some() {
                    evidence.screenshot = Some(STANDARD.encode(&body.bytes));
                    evidence.screenshot_media_type = kind;
                }
            }
            Err(error) => tracing::debug!(%error, "kept a reference to a picture as text"),
        }
    }
    evidence.screenshot_ref = Some(value);
}

fn data_uri(value: &str) -> Option<(&str, &str)> {
    let (head, data) = value.trim().strip_prefix("data:")?.split_once(',')?;
    let media_type = head.strip_suffix(";base64")?;
    STANDARD.decode(data).ok()?;
    Some((media_type.split(';').next().unwrap_or(media_type), data))
}

fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use everdict_contracts::EvidencePick;
    use serde_json::json;

    use super::*;

    fn spans() -> Vec<SpanRecord> {
        [
            json!({ "out": "{\"a\":{\"b\":[\"one\",\"{\\\"deep\\\":1}\"]}}" }),
            json!({ "out": { "a": { "b": ["two"] } } }),
        ]
        .into_iter()
        .enumerate()
        .map(|(at, attributes)| SpanRecord {
            attributes: attributes.as_object().unwrap().clone(),
            ..SpanRecord::new(at.to_string(), "s", at as f64, at as f64)
        })
        .collect()
    }

    fn pick(path: &str, pick: Option<Pick>) -> EvidenceSlot {
        vec![
            EvidenceKey::Key("absent".to_owned()),
            EvidenceKey::Pick(EvidencePick {
                key: "out".to_owned(),
                path: Some(path.to_owned()),
                pick,
            }),
        ]
    }

    #[test]
    fn paths_lead_through_json_in_text() {
        assert_eq!(find(&spans(), &pick("a.b[0]", None)), Some(json!("two")));
        assert_eq!(
            find(&spans(), &pick("a.b[0]", Some(Pick::First))),
            Some(json!("one"))
        );
        assert_eq!(
            find(&spans(), &pick("a.b[1].deep", None)),
            Some(json!(1)),
            "only the first span has it"
        );
        assert_eq!(find(&spans(), &pick("a.x", None)), None);
    }

    #[test]
    fn the_answer_is_said_once() {
        let mut events = vec![TraceEvent::message(3.0, Role::Assistant, "42").at("2026-01-01T00:00:00.000Z")];
        append_answer(&mut events, "42");
        assert_eq!(events.len(), 1);
        append_answer(&mut events, "43");
        assert_eq!((events.len(), events[1].t), (2, 3.0));
        assert_eq!(events[1].at, events[0].at);
    }

    #[test]
    fn data_addresses_are_taken_apart() {
        assert_eq!(
            data_uri("data:image/png;base64,QUJD"),
            Some(("image/png", "QUJD"))
        );
        assert_eq!(data_uri("data:image/png,plain"), None);
        assert_eq!(data_uri("data:image/png;base64,?"), None);
    }
}
