use std::borrow::Cow;
use std::collections::VecDeque;

/// How many bytes of a stream are kept: the first `head` and the last `tail`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureLimits {
    /// Bytes kept from the start.
    pub head: usize,
    /// Bytes kept from the end.
    pub tail: usize,
}

impl Default for CaptureLimits {
    /// 1 MiB + 7 MiB: the start tells what was run, the end tells how it ended, and 8 MiB is what a log page can show.
    fn default() -> Self {
        Self {
            head: 1 << 20,
            tail: 7 << 20,
        }
    }
}

/// The bytes a stream carried, as they were, within the limits of the launch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes.
    pub head: Vec<u8>,
    /// The last bytes, without any that are in `head`.
    pub tail: Vec<u8>,
    /// How many bytes between the two were dropped.
    pub bytes_left_out: u64,
}

impl Captured {
    /// How many bytes the stream carried in all.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        (self.head.len() + self.tail.len()) as u64 + self.bytes_left_out
    }

    /// All that was kept as text; invalid bytes replaced, and a gap named with its exact size.
    #[must_use]
    pub fn text(&self) -> String {
        if self.bytes_left_out == 0 {
            return String::from_utf8_lossy(&self.joined()).into_owned();
        }
        format!(
            "{}\n[{} bytes left out]\n{}",
            String::from_utf8_lossy(&self.head),
            self.bytes_left_out,
            String::from_utf8_lossy(&self.tail)
        )
    }

    /// The last `chars` characters of what was kept, without the note about a gap.
    #[must_use]
    pub fn tail(&self, chars: usize) -> String {
        let bytes = if self.bytes_left_out == 0 {
            self.joined()
        } else {
            Cow::Borrowed(self.tail.as_slice())
        };
        // Four bytes are the longest character, so this many bytes always hold enough of them.
        let from = bytes.len().saturating_sub(chars.saturating_mul(4));
        let text = String::from_utf8_lossy(&bytes[from..]);
        let skip = text.chars().count().saturating_sub(chars);
        text.chars().skip(skip).collect()
    }

    fn joined(&self) -> Cow<'_, [u8]> {
        if self.tail.is_empty() {
            Cow::Borrowed(&self.head)
        } else {
            Cow::Owned([&*self.head, &*self.tail].concat())
        }
    }
}

/// Collects a stream within limits; memory grows with what arrives, never past them.
#[derive(Debug)]
pub(crate) struct Capture {
    limits: CaptureLimits,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl Capture {
    pub(crate) fn new(limits: CaptureLimits) -> Self {
        Self {
            limits,
            head: Vec::new(),
            tail: VecDeque::new(),
            dropped: 0,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(self.limits.head - self.head.len()));
        self.head.extend_from_slice(first);
        let kept = &rest[rest.len().saturating_sub(self.limits.tail)..];
        let overflow = (self.tail.len() + kept.len()).saturating_sub(self.limits.tail);
        self.tail.drain(..overflow);
        self.tail.extend(kept);
        self.dropped += (rest.len() - kept.len() + overflow) as u64;
    }

    pub(crate) fn finish(self) -> Captured {
        Captured {
            head: self.head,
            tail: self.tail.into(),
            bytes_left_out: self.dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn head_and_tail_are_exact_and_nothing_is_uncounted(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..20),
            head in 0usize..30, tail in 0usize..30,
        ) {
            let all: Vec<u8> = chunks.concat();
            let mut capture = Capture::new(CaptureLimits { head, tail });
            for chunk in &chunks { capture.push(chunk); }
            let got = capture.finish();
            prop_assert_eq!(got.total_bytes(), all.len() as u64);
            prop_assert!(all.starts_with(&got.head));
            prop_assert!(all.ends_with(&got.tail));
            prop_assert_eq!(got.head.len(), head.min(all.len()));
            prop_assert_eq!(got.tail.len(), tail.min(all.len() - got.head.len()));
        }
    }

    #[test]
    fn a_gap_is_named_with_its_size() {
        let mut capture = Capture::new(CaptureLimits { head: 3, tail: 2 });
        capture.push(b"abcdefgh");
        let got = capture.finish();
        assert_eq!(got.text(), "abc\n[3 bytes left out]\ngh");
        assert_eq!(got.tail(1), "h");
    }

    #[test]
    fn tail_counts_characters_not_bytes() {
        let mut capture = Capture::new(CaptureLimits { head: 4, tail: 100 });
        capture.push("日本語é".as_bytes());
        assert_eq!(capture.finish().tail(2), "語é");
    }
}
