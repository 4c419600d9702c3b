//! JSON-RPC messages in, server-sent event frames out.

use axum::body::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// One JSON-RPC message from a client.
#[derive(Debug, Deserialize)]
pub(crate) struct Message {
    /// Text of the id, as it came; absent on a notification.
    pub(crate) id: Option<Box<RawValue>>,
    /// Absent on a response, of which this server expects none.
    pub(crate) method: Option<String>,
    pub(crate) params: Option<Box<RawValue>>,
}

/// What a POST carries.
#[derive(Debug)]
pub(crate) enum Incoming {
    Single(Message),
    Batch(Vec<Message>),
}

impl Incoming {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, serde_json::Error> {
        let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
        if first == Some(&b'[') {
            serde_json::from_slice(body).map(Self::Batch)
        } else {
            serde_json::from_slice(body).map(Self::Single)
        }
    }
}

/// Answer of a tool.
#[derive(Debug)]
pub(crate) enum ToolReply {
    /// Compact JSON; clients get it indented.
    Json(String),
    /// A refusal in plain text.
    Refused(String),
}

/// Frames the answer of a tool.
pub(crate) fn tool_frame(id: &str, reply: &ToolReply) -> Bytes {
    let mut out = String::with_capacity(160 + reply.len() * 3 / 2);
    out.push_str("event: message\ndata: {\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"");
    match reply {
        ToolReply::Json(compact) => {
            indent_into_string(compact, &mut out);
            out.push_str("\"}]}");
        }
        ToolReply::Refused(text) => {
            escape_into_string(text, &mut out);
            out.push_str("\"}],\"isError\":true}");
        }
    }
    close_frame(id, out)
}

/// Frames a JSON-RPC result.
pub(crate) fn result_frame(id: &str, result: &str) -> Bytes {
    close_frame(id, format!("event: message\ndata: {{\"result\":{result}"))
}

/// Frames a JSON-RPC error.
pub(crate) fn error_frame(id: &str, code: i32, message: &str) -> Bytes {
    let mut out = format!("event: message\ndata: {{\"error\":{{\"code\":{code},\"message\":\"");
    escape_into_string(message, &mut out);
    out.push_str("\"}");
    close_frame(id, out)
}

fn close_frame(id: &str, mut out: String) -> Bytes {
    out.push_str(",\"jsonrpc\":\"2.0\",\"id\":");
    out.push_str(id);
    out.push_str("}\n\n");
    Bytes::from(out)
}

/// A JSON-RPC error as a plain body, for refusals of the transport.
pub(crate) fn transport_error(code: i32, message: &str) -> String {
    let mut out = format!("{{\"jsonrpc\":\"2.0\",\"error\":{{\"code\":{code},\"message\":\"");
    escape_into_string(message, &mut out);
    out.push_str("\"},\"id\":null}");
    out
}

impl ToolReply {
    fn len(&self) -> usize {
        match self {
            Self::Json(text) | Self::Refused(text) => text.len(),
        }
    }
}

/// Indents compact JSON by two spaces and writes it as the inside of a JSON string, in one pass: jobs can
/// be large, and building a tree of them only to print it would be most of the work of a lease.
fn indent_into_string(compact: &str, out: &mut String) {
    let bytes = compact.as_bytes();
    let mut depth = 0_usize;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let end = string_end(bytes, at);
                escape_into_string(&compact[at..end], out);
                at = end;
                continue;
            }
            open @ (b'{' | b'[') => {
                out.push(char::from(open));
                if matches!(bytes.get(at + 1), Some(b'}' | b']')) {
                    out.push(char::from(bytes[at + 1]));
                    at += 2;
                    continue;
                }
                depth += 1;
                new_line(depth, out);
            }
            close @ (b'}' | b']') => {
                depth = depth.saturating_sub(1);
                new_line(depth, out);
                out.push(char::from(close));
            }
            b',' => {
                out.push(',');
                new_line(depth, out);
            }
            b':' => out.push_str(": "),
            other => out.push(char::from(other)),
        }
        at += 1;
    }
}

fn new_line(depth: usize, out: &mut String) {
    out.push_str("\\n");
    out.extend(std::iter::repeat_n("  ", depth));
}

/// Position after the closing quote of the string that starts at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Writes text as the inside of a JSON string.
fn escape_into_string(text: &str, out: &mut String) {
    let mut kept = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => {
                out.push_str(&text[kept..at]);
                out.push_str(&format!("\\u{byte:04x}"));
                kept = at + 1;
                continue;
            }
            _ => continue,
        };
        out.push_str(&text[kept..at]);
        out.push_str(escape);
        kept = at + 1;
    }
    out.push_str(&text[kept..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn payload(frame: &[u8]) -> Value {
        let text = std::str::from_utf8(frame).unwrap();
        let data = text.strip_prefix("event: message\ndata: ").unwrap();
        serde_json::from_str(data.strip_suffix("\n\n").unwrap()).unwrap()
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn indenting_prints_what_the_usual_printer_prints(value in json_value()) {
            let frame = tool_frame("1", &ToolReply::Json(value.to_string()));
            let expected = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(&payload(&frame)["result"]["content"][0]["text"], &Value::from(expected));
        }

        #[test]
        fn any_text_survives_a_refusal(text in any::<String>()) {
            let frame = tool_frame("\"a\"", &ToolReply::Refused(text.clone()));
            let payload = payload(&frame);
            prop_assert_eq!(&payload["result"]["content"][0]["text"], &Value::from(text));
            prop_assert_eq!(&payload["id"], "a");
        }
    }

    #[test]
    fn frames_have_the_shape_of_the_protocol() {
        let frame = tool_frame("7", &ToolReply::Json("{\"job\":null}".into()));
        assert_eq!(
            payload(&frame),
            json!({"result": {"content": [{"type": "text", "text": "{\n  \"job\": null\n}"}]}, "jsonrpc": "2.0", "id": 7})
        );
        let error =
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Method not found"}});
        assert_eq!(payload(&error_frame("1", -32601, "Method not found")), error);
        assert_eq!(
            payload(&result_frame("1", "{}")),
            json!({"result": {}, "jsonrpc": "2.0", "id": 1})
        );
    }

    #[test]
    fn a_batch_is_told_from_a_single_message() {
        let single = Incoming::parse(b" {\"id\":1,\"method\":\"ping\"}").unwrap();
        assert!(matches!(single, Incoming::Single(Message { id: Some(id), .. }) if id.get() == "1"));
        let batch = Incoming::parse(b" [{\"method\":\"ping\"}]").unwrap();
        assert!(matches!(batch, Incoming::Batch(messages) if messages[0].id.is_none()));
        Incoming::parse(b"{bad").unwrap_err();
    }
}
