//! Reads a stream of events: server-sent events, or one JSON document a line.
//!
//! The format: <https://html.spec.whatwg.org/multipage/server-sent-events.html>. A line that starts like a JSON object or
//! list is no field of it, so that both can be told apart line by line.

/// The longest event: one may carry a page's DOM or a picture, which the protocol limits to 12 MB elsewhere.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// An event, or the line before it, is longer than anybody would send on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {MAX_EVENT_BYTES} bytes")]
pub(crate) struct TooLong;

/// Puts events together from bytes, wherever they were cut.
#[derive(Debug, Default)]
pub(crate) struct EventReader {
    line: Vec<u8>,
    data: Option<String>,
    /// The last byte was a carriage return: a line feed after it belongs to the same end of line.
    after_cr: bool,
    started: bool,
}

impl EventReader {
    /// Takes the next bytes and gives out the events that they complete.
    ///
    /// # Errors
    /// [`TooLong`]; nothing more can be read then.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, TooLong> {
        let mut events = Vec::new();
        for &byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => self.end_line(&mut events)?,
                _ if self.line.len() >= MAX_EVENT_BYTES => return Err(TooLong),
                _ => self.line.push(byte),
            }
        }
        Ok(events)
    }

    /// Ends the stream and gives out what it ended with: the last event needs no blank line after it.
    ///
    /// # Errors
    /// [`TooLong`].
    pub(crate) fn finish(mut self) -> Result<Vec<String>, TooLong> {
        let mut events = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut events)?;
        }
        events.extend(self.data.take());
        Ok(events)
    }

    fn end_line(&mut self, events: &mut Vec<String>) -> Result<(), TooLong> {
        let bytes = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&bytes);
        let line = if std::mem::replace(&mut self.started, true) {
            &*line
        } else {
            line.strip_prefix('\u{feff}').unwrap_or(&line)
        };
        if line.is_empty() {
            events.extend(self.data.take());
            return Ok(());
        }
        if matches!(line.trim_start().as_bytes().first(), Some(b'{' | b'[')) {
            events.push(line.to_owned());
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        if field == "data" {
            self.add(value.strip_prefix(' ').unwrap_or(value))?;
        }
        Ok(())
    }

    fn add(&mut self, value: &str) -> Result<(), TooLong> {
        match &mut self.data {
            Some(data) if data.len() + value.len() >= MAX_EVENT_BYTES => return Err(TooLong),
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => self.data = Some(value.to_owned()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8], cuts: &[usize]) -> Vec<String> {
        let mut reader = EventReader::default();
        let mut events = Vec::new();
        let mut from = 0;
        for &cut in cuts {
            events.extend(reader.push(&bytes[from..cut]).unwrap());
            from = cut;
        }
        events.extend(reader.push(&bytes[from..]).unwrap());
        events.extend(reader.finish().unwrap());
        events
    }

    fn whole(text: &str) -> Vec<String> {
        read(text.as_bytes(), &[])
    }

    /// Only bare line feeds once counted, so that a stream with CRLF never had an event.
    #[test]
    fn every_end_of_line_ends_a_line() {
        for end in ["\n", "\r\n", "\r"] {
            let text = format!("event: x{end}data: 1{end}{end}: ping{end}{end}data:2{end}id: 7{end}{end}");
            assert_eq!(whole(&text), ["1", "2"], "{end:?}");
        }
    }

    /// Parts of a document over several lines once stuck together.
    #[test]
    fn data_over_several_lines_keeps_its_lines() {
        assert_eq!(whole("data: {\"a\":\ndata: 1}\n\n"), ["{\"a\":\n1}"]);
        assert_eq!(whole("data\ndata:  x\n\n"), ["\n x"]);
    }

    #[test]
    fn the_last_event_needs_no_blank_line() {
        assert_eq!(whole("data: 1\n\ndata: 2\n"), ["1", "2"]);
        assert_eq!(whole("data: 1\n\ndata: 2"), ["1", "2"]);
    }

    #[test]
    fn a_document_a_line_is_a_stream_too() {
        assert_eq!(
            whole("{\"s\":1}\r\n{\"s\":2}\n[3]"),
            ["{\"s\":1}", "{\"s\":2}", "[3]"]
        );
        assert_eq!(whole("\u{feff}{\"s\":1}\n"), ["{\"s\":1}"]);
    }

    #[test]
    fn other_fields_and_comments_are_no_events() {
        assert_eq!(
            whole(": hello\nretry: 10\nevent: end\n\ndatax: 1\n\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn an_endless_line_is_given_up() {
        let mut reader = EventReader::default();
        let chunk = vec![b'x'; MAX_EVENT_BYTES];
        reader.push(&chunk).unwrap();
        assert_eq!(reader.push(b"x"), Err(TooLong));

        let mut reader = EventReader::default();
        let line = [b"data: ".as_slice(), &chunk[..MAX_EVENT_BYTES / 2], b"\n"].concat();
        reader.push(&line).unwrap();
        assert_eq!(reader.push(&line), Err(TooLong));
    }

    proptest! {
        #[test]
        fn where_the_bytes_are_cut_does_not_matter(
            pieces in prop::collection::vec(
                prop::sample::select(vec!["data: a", "data:", "data: é", "{\"x\":1}", ": c", "event: e", "\r", "\n", "\r\n", "\n\n", "\u{feff}"]),
                0..30,
            ),
            seeds in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let text = pieces.concat();
            let mut cuts: Vec<_> = seeds.iter().map(|seed| seed.index(text.len() + 1)).collect();
            cuts.sort_unstable();
            prop_assert_eq!(read(text.as_bytes(), &cuts), whole(&text));
        }
    }
}
