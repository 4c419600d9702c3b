use std::time::{Duration, Instant};

/// Longest line a sink gets. The hub keeps a log chunk of 16 000 characters; a longer line would be cut there.
pub const MAX_LINE_CHARS: usize = 16_000;

/// A progress bar redraws many times a second; one state a second is what a reader can follow.
const REDRAW_EVERY: Duration = Duration::from_secs(1);

/// Turns bytes in any slicing into lines of text.
///
/// A character split between reads is held until its rest arrives; a byte that can't be UTF-8 and a NUL become U+FFFD.
/// `\r\n` ends a line; a lone `\r` starts the line over, and the state it wipes out is shown at most once a second.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    undecoded: Vec<u8>,
    line: String,
    chars: usize,
    after_cr: bool,
    last_redraw: Option<Instant>,
}

impl LineSplitter {
    pub(crate) fn push(&mut self, bytes: &[u8], now: Instant, emit: &mut dyn FnMut(&str)) {
        if self.undecoded.is_empty() {
            self.decode(bytes, now, emit);
        } else {
            let mut joined = std::mem::take(&mut self.undecoded);
            joined.extend_from_slice(bytes);
            self.decode(&joined, now, emit);
        }
    }

    /// Gives out what has no line end.
    pub(crate) fn finish(&mut self, emit: &mut dyn FnMut(&str)) {
        if !self.undecoded.is_empty() {
            self.undecoded.clear();
            self.after_cr = false;
            self.append("\u{FFFD}", emit);
        }
        if !self.line.is_empty() {
            self.end_line(emit);
        }
    }

    fn decode(&mut self, mut bytes: &[u8], now: Instant, emit: &mut dyn FnMut(&str)) {
        loop {
            let error = match std::str::from_utf8(bytes) {
                Ok(text) => return self.text(text, now, emit),
                Err(error) => error,
            };
            let (valid, rest) = bytes.split_at(error.valid_up_to());
            self.text(
                std::str::from_utf8(valid).expect("BUG: the prefix was just checked"),
                now,
                emit,
            );
            let Some(bad) = error.error_len() else {
                self.undecoded.extend_from_slice(rest);
                return;
            };
            self.text("\u{FFFD}", now, emit);
            bytes = &rest[bad..];
        }
    }

    fn text(&mut self, mut text: &str, now: Instant, emit: &mut dyn FnMut(&str)) {
        while let Some(first) = text.chars().next() {
            if std::mem::take(&mut self.after_cr) && first != '\n' {
                self.redraw(now, emit);
            }
            let Some(at) = text.find(['\n', '\r', '\0']) else {
                return self.append(text, emit);
            };
            self.append(&text[..at], emit);
            match text.as_bytes()[at] {
                b'\n' => self.end_line(emit),
                b'\r' => self.after_cr = true,
                _ => self.append("\u{FFFD}", emit),
            }
            text = &text[at + 1..];
        }
    }

    fn append(&mut self, mut text: &str, emit: &mut dyn FnMut(&str)) {
        while !text.is_empty() {
            if self.chars == MAX_LINE_CHARS {
                self.end_line(emit);
            }
            let room = MAX_LINE_CHARS - self.chars;
            let cut = if text.len() <= room {
                None
            } else {
                text.char_indices().nth(room).map(|(at, _)| at)
            };
            let (now, later) = text.split_at(cut.unwrap_or(text.len()));
            self.line.push_str(now);
            self.chars += now.chars().count();
            text = later;
        }
    }

    fn redraw(&mut self, now: Instant, emit: &mut dyn FnMut(&str)) {
        let due = self
            .last_redraw
            .is_none_or(|last| now.duration_since(last) >= REDRAW_EVERY);
        if due && !self.line.is_empty() {
            self.last_redraw = Some(now);
            self.end_line(emit);
        }
        self.line.clear();
        self.chars = 0;
    }

    fn end_line(&mut self, emit: &mut dyn FnMut(&str)) {
        emit(&self.line);
        self.line.clear();
        self.chars = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(chunks: &[&[u8]]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut splitter = LineSplitter::default();
        let now = Instant::now();
        for chunk in chunks {
            splitter.push(chunk, now, &mut |line| lines.push(line.to_owned()));
        }
        splitter.finish(&mut |line| lines.push(line.to_owned()));
        lines
    }

    #[test]
    fn split_multibyte_is_never_replaced() {
        let text = "é日本🦊\nü";
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(split(&bytes), ["é日本🦊", "ü"]);
    }

    #[test]
    fn invalid_bytes_and_nul_are_replaced_one_by_one() {
        assert_eq!(
            split(&[b"a\xffb\0c\x9b\n", b"\xe6\x97"]),
            ["a\u{FFFD}b\u{FFFD}c\u{FFFD}", "\u{FFFD}"]
        );
    }

    #[test]
    fn a_long_line_arrives_in_pieces() {
        let long = "é".repeat(MAX_LINE_CHARS * 2 + 5);
        let lines = split(&[long.as_bytes(), b"\n"]);
        assert_eq!(
            lines.iter().map(|l| l.chars().count()).collect::<Vec<_>>(),
            [MAX_LINE_CHARS, MAX_LINE_CHARS, 5]
        );
        let exact = "x".repeat(MAX_LINE_CHARS);
        assert_eq!(split(&[exact.as_bytes(), b"\n"]), [exact]);
    }

    #[test]
    fn a_crlf_split_between_reads_is_one_line_end() {
        assert_eq!(split(&[b"a\r", b"\nb\r\n\r\n"]), ["a", "b", ""]);
    }

    #[test]
    fn a_progress_bar_shows_its_first_and_last_state() {
        assert_eq!(split(&[b"1%\r2%\r", b"3%\r100%\ndone"]), ["1%", "100%", "done"]);
        assert_eq!(split(&[b"1%\r2%\r"]), ["1%", "2%"]);
    }

    #[test]
    fn a_progress_bar_shows_one_state_a_second() {
        let mut lines = Vec::new();
        let mut splitter = LineSplitter::default();
        let start = Instant::now();
        for tenth in 0..25u32 {
            let text = format!("{tenth}\r");
            splitter.push(
                text.as_bytes(),
                start + tenth * Duration::from_millis(100),
                &mut |l| lines.push(l.to_owned()),
            );
        }
        assert_eq!(lines, ["0", "10", "20"]);
    }

    proptest! {
        #[test]
        fn slicing_never_changes_the_lines(text in "[a-z\u{e9}\u{65e5}\u{1f98a}\n]{0,60}", size in 1usize..7) {
            let whole = split(&[text.as_bytes()]);
            let sliced = split(&text.as_bytes().chunks(size).collect::<Vec<_>>());
            prop_assert_eq!(&whole, &sliced);
            prop_assert_eq!(whole.join("\n"), text.strip_suffix('\n').unwrap_or(&text));
        }
    }
}
