//! The part of server-sent events that a log needs: id, event name, data.

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SseEvent {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) data: String,
}

/// A line longer than this is no event of a hub; the rest of it is dropped.
const MAX_LINE: usize = 1024 * 1024;

/// Turns bytes, cut anywhere, into events.
#[derive(Debug, Default)]
pub(super) struct SseParser {
    line: Vec<u8>,
    after_cr: bool,
    event: SseEvent,
    has_data: bool,
}

impl SseParser {
    /// Takes the next bytes and returns the events they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<SseEvent> {
        let mut done = Vec::new();
        for &byte in bytes {
            match byte {
                b'\n' if self.after_cr => self.after_cr = false,
                b'\n' | b'\r' => {
                    self.after_cr = byte == b'\r';
                    done.extend(self.end_line());
                }
                _ => {
                    self.after_cr = false;
                    if self.line.len() < MAX_LINE {
                        self.line.push(byte);
                    }
                }
            }
        }
        done
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let line = String::from_utf8_lossy(&line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.has_data = true;
            }
            "event" => self.event.name = Some(value.to_owned()),
            "id" => self.event.id = Some(value.to_owned()),
            // A comment keeps the line open; `retry` is the server's wish, ours is fixed.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str =
        ": hello\n\nid: 7\nevent: log\ndata: a\u{e9}\ndata: b\n\r\nevent: end\rdata:{}\r\rretry: 5\n\n";

    #[test]
    fn a_stream_reads_the_same_however_it_is_cut() {
        let whole = SseParser::default().push(STREAM.as_bytes());
        assert_eq!(whole.len(), 2);
        assert_eq!(whole[0].id.as_deref(), Some("7"));
        assert_eq!(whole[0].name.as_deref(), Some("log"));
        assert_eq!(whole[0].data, "a\u{e9}\nb");
        assert_eq!(whole[1].data, "{}");
        let mut parser = SseParser::default();
        let bytewise: Vec<_> = STREAM
            .as_bytes()
            .iter()
            .flat_map(|byte| parser.push(std::slice::from_ref(byte)))
            .collect();
        assert_eq!(bytewise, whole);
    }

    #[test]
    fn an_event_without_data_is_none() {
        assert!(SseParser::default().push(b"event: x\nid: 1\n\n").is_empty());
    }
}
