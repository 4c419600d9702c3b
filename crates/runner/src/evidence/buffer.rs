//! The bounded buffer between a job and the hub. Pure; the pump owns the clock and the calls.

use std::collections::VecDeque;
use std::path::PathBuf;

use everdict_contracts::{MAX_FRAME_CHARS, MAX_TRACE_BATCH, TraceEvent, TrackEntry};

use super::spool::Spool;
use crate::text;

/// One call carries about this much: half of what the hub takes in a line, so that a batch of lines never needs
/// exact arithmetic.
const BATCH_UNITS: usize = 8_000;
/// What a job may be ahead of the hub. Ten minutes of a chatty agent; less than a browser tab.
const MAX_BUFFERED_BYTES: usize = 4 * 1024 * 1024;
/// Live events beyond this wait for the result, which carries all of them.
const MAX_BUFFERED_EVENTS: usize = 5_000;
/// Requests and console lines that a page may be ahead of the hub. Each is a call of its own, so more would only come
/// long after it was of interest.
const MAX_BUFFERED_TRACK: usize = 200;

/// What one call carries.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Batch {
    /// Lines joined by newlines.
    Log {
        text: String,
        lines: usize,
        /// Nothing but notes about gaps.
        notes_only: bool,
    },
    /// At most [`MAX_TRACE_BATCH`] events.
    Trace(Vec<TraceEvent>),
    /// One entry of a browser's recording.
    Track(TrackEntry),
    /// What the browser shows: PNG in base64.
    Frame(String),
}

#[derive(Debug, PartialEq)]
enum Entry {
    Line(String),
    Gap(Gap),
}

/// Lines that were left out at a place.
#[derive(Debug, PartialEq)]
struct Gap {
    lines: usize,
    bytes: usize,
    why: &'static str,
}

impl Gap {
    fn note(&self) -> String {
        let Self { lines, bytes, why } = self;
        format!("[{lines} lines, {bytes} bytes left out: {why}]")
    }
}

#[derive(Debug, Default)]
pub(super) struct Buffer {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Where lines wait that have no room in memory; without a folder they are left out.
    folder: Option<PathBuf>,
    spool: Option<Spool>,
    /// What had no room on disk either: after all that is there.
    overflow: Option<Gap>,
    events: VecDeque<TraceEvent>,
    track: VecDeque<TrackEntry>,
    /// Only the latest: an older picture shows what is no longer there.
    frame: Option<String>,
}

impl Buffer {
    /// A buffer that may put lines on disk, in this folder.
    pub(super) fn spooling_in(folder: PathBuf) -> Self {
        Self {
            folder: Some(folder),
            ..Self::default()
        }
    }

    /// Appends a line; a line longer than a call is cut into pieces. What has no room in memory waits on disk, and what
    /// has none there goes into a gap.
    pub(super) fn push_line(&mut self, line: &str) {
        let waiting = self.spool.as_ref().is_some_and(|spool| !spool.is_empty());
        if waiting || self.bytes + line.len() > MAX_BUFFERED_BYTES {
            self.set_aside(line);
            return;
        }
        self.entries.extend(self.overflow.take().map(Entry::Gap));
        self.queue(line);
    }

    fn set_aside(&mut self, line: &str) {
        // One gap at the end keeps the order: after it nothing is taken until what is before it has gone out.
        if self.overflow.is_none() {
            if self.spool.is_none() {
                self.spool = self
                    .folder
                    .as_deref()
                    .and_then(|folder| Spool::create(folder).ok());
            }
            if self.spool.as_mut().is_some_and(|spool| spool.push(line)) {
                return;
            }
        }
        let gap = self.overflow.get_or_insert(Gap {
            lines: 0,
            bytes: 0,
            why: "the hub did not keep up",
        });
        gap.lines += 1;
        gap.bytes += line.len();
    }

    /// Brings back what waits, once memory is empty.
    fn refill(&mut self) {
        if !self.entries.is_empty() {
            return;
        }
        let lines = self.spool.as_mut().map(Spool::take).unwrap_or_default();
        for line in &lines {
            self.queue(line);
        }
        if lines.is_empty() {
            self.entries.extend(self.overflow.take().map(Entry::Gap));
        }
    }

    fn queue(&mut self, line: &str) {
        let mut rest = line;
        loop {
            let piece = text::take(rest, BATCH_UNITS);
            self.bytes += piece.len();
            self.entries.push_back(Entry::Line(piece.to_owned()));
            rest = &rest[piece.len()..];
            if rest.is_empty() {
                return;
            }
        }
    }

    pub(super) fn push_trace(&mut self, events: Vec<TraceEvent>) {
        let room = MAX_BUFFERED_EVENTS.saturating_sub(self.events.len());
        self.events.extend(events.into_iter().take(room));
    }

    /// Appends an entry of a recording; the oldest make way.
    pub(super) fn push_track(&mut self, entry: TrackEntry) {
        if self.track.len() == MAX_BUFFERED_TRACK {
            self.track.pop_front();
        }
        self.track.push_back(entry);
    }

    /// Takes the place of the picture before, if that has not been sent. One that the hub's schema refuses is left out.
    pub(super) fn push_frame(&mut self, frame: String) {
        if !frame.is_empty() && frame.len() <= MAX_FRAME_CHARS {
            self.frame = Some(frame);
        }
    }

    /// Takes the picture, else the next entry of the recording.
    pub(super) fn next_sight(&mut self) -> Option<Batch> {
        let frame = self.frame.take().map(Batch::Frame);
        frame.or_else(|| self.track.pop_front().map(Batch::Track))
    }

    pub(super) fn has_trace(&self) -> bool {
        !self.events.is_empty()
    }

    /// Takes as many lines as one call carries.
    pub(super) fn next_log(&mut self) -> Option<Batch> {
        self.refill();
        let mut text = String::new();
        let (mut lines, mut units, mut notes_only) = (0, 0, true);
        while let Some(entry) = self.entries.front() {
            let line = match entry {
                Entry::Line(line) => line.clone(),
                Entry::Gap(gap) => gap.note(),
            };
            let more = text::units(&line) + usize::from(lines > 0);
            if lines > 0 && units + more > BATCH_UNITS {
                break;
            }
            if lines > 0 {
                text.push('\n');
            }
            text.push_str(&line);
            units += more;
            lines += 1;
            if let Some(Entry::Line(line)) = self.entries.pop_front() {
                self.bytes -= line.len();
                notes_only = false;
            }
        }
        (lines > 0).then_some(Batch::Log {
            text,
            lines,
            notes_only,
        })
    }

    /// Takes as many live events as one call carries.
    pub(super) fn next_trace(&mut self) -> Option<Batch> {
        let count = self.events.len().min(MAX_TRACE_BATCH);
        (count > 0).then(|| Batch::Trace(self.events.drain(..count).collect()))
    }

    /// Returns a batch that had no answer to the front.
    pub(super) fn put_back(&mut self, batch: Batch) {
        match batch {
            Batch::Log { text, .. } => {
                for line in text.rsplit('\n') {
                    self.bytes += line.len();
                    self.entries.push_front(Entry::Line(line.to_owned()));
                }
            }
            Batch::Trace(events) => {
                for event in events.into_iter().rev() {
                    self.events.push_front(event);
                }
            }
            Batch::Track(entry) => self.track.push_front(entry),
            Batch::Frame(frame) => _ = self.frame.get_or_insert(frame),
        }
    }

    /// Records a batch that the hub will never take as a gap in its place.
    pub(super) fn gap_for(&mut self, batch: &Batch) {
        // A note that is refused as well must not breed notes.
        if let Batch::Log {
            text,
            lines,
            notes_only: false,
        } = batch
        {
            self.entries.push_front(Entry::Gap(Gap {
                lines: *lines,
                bytes: text.len(),
                why: "refused by the hub",
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drain(buffer: &mut Buffer) -> Vec<String> {
        std::iter::from_fn(|| buffer.next_log())
            .map(|batch| match batch {
                Batch::Log { text, .. } => text,
                other => unreachable!("only lines were pushed: {other:?}"),
            })
            .collect()
    }

    proptest! {
        // Long texts are slow to make; the edges are found within a few dozen.
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn lines_keep_their_order_and_no_call_is_too_long(lines in prop::collection::vec("[ab😀]{0,3000}", 0..8)) {
            let mut buffer = Buffer::default();
            for line in &lines {
                buffer.push_line(line);
            }
            let batches = drain(&mut buffer);
            prop_assert!(batches.iter().all(|batch| text::units(batch) <= BATCH_UNITS));
            prop_assert_eq!(batches.join("\n"), lines.join("\n"));
            prop_assert_eq!(buffer.bytes, 0);
        }
    }

    #[test]
    fn a_line_longer_than_a_call_is_cut_and_complete() {
        let mut buffer = Buffer::default();
        let line = "x".repeat(BATCH_UNITS * 2 + 5);
        buffer.push_line(&line);
        let batches = drain(&mut buffer);
        assert_eq!(batches.len(), 3);
        assert_eq!(batches.concat(), line);
    }

    #[test]
    fn what_does_not_fit_becomes_one_gap_that_says_how_much() {
        let mut buffer = Buffer::default();
        let line = "y".repeat(1024 * 1024);
        for _ in 0..6 {
            buffer.push_line(&line);
        }
        assert!(buffer.bytes <= MAX_BUFFERED_BYTES);
        let text = drain(&mut buffer).join("\n");
        assert_eq!(text.matches("left out").count(), 1);
        assert!(text.ends_with("[2 lines, 2097152 bytes left out: the hub did not keep up]"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(6))]
        #[test]
        fn a_spool_keeps_order_loses_nothing_unsaid_and_stays_within_its_bounds(
            steps in prop::collection::vec((0usize..3, 0usize..8), 1..14),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let mut buffer = Buffer::spooling_in(dir.path().to_owned());
            let (mut pushed, mut got, mut lost) = (0_usize, Vec::new(), 0_usize);
            let mut note = |batch: Batch| {
                let Batch::Log { text, .. } = batch else { unreachable!("only lines were pushed") };
                for line in text.lines() {
                    match line.strip_prefix('[') {
                        Some(gap) => lost += gap.split(' ').next().unwrap().parse::<usize>().unwrap(),
                        None => got.push(line.split('-').next().unwrap().parse::<usize>().unwrap()),
                    }
                }
            };
            for (kind, count) in steps {
                for _ in 0..count {
                    match kind {
                        // A flood, a drop, and a hub that takes what there is; now and then it does not answer.
                        0 => { buffer.push_line(&format!("{pushed}-{}", "x".repeat(7_000))); pushed += 1; }
                        1 => { for _ in 0..60 { buffer.push_line(&format!("{pushed}-{}", "y".repeat(7_900))); pushed += 1; } }
                        _ => if let Some(batch) = buffer.next_log() {
                            if count % 5 == 0 { buffer.put_back(batch); } else { note(batch); }
                        },
                    }
                    // What is unanswered goes back on top of the bound.
                    prop_assert!(buffer.bytes <= MAX_BUFFERED_BYTES + 8 * BATCH_UNITS);
                }
            }
            while let Some(batch) = buffer.next_log() { note(batch); }
            prop_assert!(got.windows(2).all(|pair| pair[0] < pair[1]), "out of order, or twice");
            prop_assert_eq!(got.len() + lost, pushed);
            prop_assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "a spool has no name");
        }
    }

    #[test]
    fn what_has_no_room_on_disk_either_is_one_gap_behind_all_that_has() {
        let dir = tempfile::tempdir().unwrap();
        let mut buffer = Buffer::spooling_in(dir.path().to_owned());
        let line = "z".repeat(7_999);
        let room = (MAX_BUFFERED_BYTES + usize::try_from(crate::evidence::spool::MAX_BYTES).unwrap()) / 8_000;
        for _ in 0..room + 500 {
            buffer.push_line(&line);
        }
        let (mut lines, mut gaps) = (0, Vec::new());
        while let Some(Batch::Log { text, .. }) = buffer.next_log() {
            assert!(gaps.is_empty(), "lines after the gap");
            for got in text.lines() {
                if got.starts_with('[') {
                    gaps.push(got.to_owned());
                } else {
                    lines += 1;
                }
            }
        }
        assert_eq!(gaps.len(), 1, "{gaps:?}");
        let left_out: usize = gaps[0][1..].split(' ').next().unwrap().parse().unwrap();
        assert_eq!(lines + left_out, room + 500);
        assert!((400..=600).contains(&left_out), "{left_out}");
        buffer.push_line("after");
        assert_eq!(drain(&mut buffer), ["after"]);
    }

    #[test]
    fn an_unanswered_batch_goes_out_first_again() {
        let mut buffer = Buffer::default();
        buffer.push_line("one");
        buffer.push_line("two");
        let batch = buffer.next_log().unwrap();
        buffer.push_line("three");
        buffer.put_back(batch);
        assert_eq!(drain(&mut buffer), ["one\ntwo\nthree"]);
    }

    #[test]
    fn only_the_latest_picture_is_sent_and_the_newest_of_a_recording() {
        let mut buffer = Buffer::default();
        let entry = |url: &str| {
            everdict_contracts::decode::<TrackEntry>(
                serde_json::json!({"track": "nav", "entry": {"t": 1, "url": url}}),
            )
            .unwrap()
        };
        for i in 0..MAX_BUFFERED_TRACK + 5 {
            buffer.push_track(entry(&format!("http://h/{i}")));
        }
        buffer.push_frame("b2xk".to_owned());
        buffer.push_frame("bmV3".to_owned());
        buffer.push_frame("x".repeat(MAX_FRAME_CHARS + 1));
        let frame = buffer.next_sight().unwrap();
        assert_eq!(frame, Batch::Frame("bmV3".to_owned()));
        buffer.push_frame("bmV3ZXI=".to_owned());
        buffer.put_back(frame);
        assert_eq!(buffer.next_sight(), Some(Batch::Frame("bmV3ZXI=".to_owned())));
        let first = buffer.next_sight().unwrap();
        assert_eq!(first, Batch::Track(entry("http://h/5")));
        buffer.put_back(first);
        assert_eq!(
            std::iter::from_fn(|| buffer.next_sight()).count(),
            MAX_BUFFERED_TRACK
        );
    }

    #[test]
    fn a_refused_batch_leaves_one_note_and_no_loop() {
        let mut buffer = Buffer::default();
        buffer.push_line("bad");
        let batch = buffer.next_log().unwrap();
        buffer.gap_for(&batch);
        let note = buffer.next_log().unwrap();
        assert!(matches!(&note, Batch::Log { text, .. } if text.contains("refused by the hub")));
        buffer.gap_for(&note);
        assert_eq!(buffer.next_log(), None);
    }
}
