//! The logs of the latest jobs, each in a bounded ring, and readers that follow one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use super::view::{LogBatch, LogLine};

/// About 20 000 lines of an agent's output: more than anybody scrolls back, and twenty jobs of it fit any laptop.
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// Beside its text a line costs its place in the ring and what an allocator adds to a small piece.
const LINE_OVERHEAD: usize = size_of::<Line>() + 16;

/// Whoever looks at a log after a drain looks at the last jobs.
const MAX_LOGS: usize = 20;

/// What one batch may carry: a view shows a few hundred lines, and one message must not block a window.
const MAX_BATCH: usize = 2000;

/// What begins the runner's own remarks in a case's log; everything else is the agent's.
const REMARK: &str = "[everdict] ";

/// Between two batches to one reader: faster isn't seen, and each costs the window a layout.
const BATCH_EVERY: Duration = Duration::from_millis(100);

/// After a full batch more is waiting to be caught up with: a few frames, so that the window stays at hand meanwhile.
const FULL_BATCH_EVERY: Duration = Duration::from_millis(30);

/// Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct LogBook {
    logs: Arc<Mutex<VecDeque<Log>>>,
}

/// A line as it is kept: a third of what it takes in the words of the contract.
struct Line {
    seq: u64,
    at: Timestamp,
    /// Which part of the case's surroundings printed it.
    part: Option<Box<str>>,
    text: Box<str>,
}

impl Line {
    fn cost(&self) -> usize {
        self.text.len() + self.part.as_deref().map_or(0, str::len) + LINE_OVERHEAD
    }

    fn told(&self) -> LogLine {
        LogLine {
            seq: self.seq,
            at: self.at.to_string(),
            stream: self
                .part
                .as_deref()
                .unwrap_or_else(|| stream(&self.text))
                .to_owned(),
            text: self.text.as_ref().to_owned(),
        }
    }
}

struct Log {
    job: String,
    lines: VecDeque<Line>,
    bytes: usize,
    /// The number of the next line.
    next: u64,
    ended: bool,
    /// Tells the readers that there is more.
    grown: watch::Sender<()>,
}

impl Log {
    fn push(&mut self, part: Option<&str>, text: &str) {
        let line = Line {
            seq: self.next,
            at: Timestamp::now(),
            part: part.map(Into::into),
            text: text.into(),
        };
        self.next += 1;
        self.bytes += line.cost();
        self.lines.push_back(line);
        while self.bytes > MAX_BYTES
            && let Some(gone) = self.lines.pop_front()
        {
            self.bytes -= gone.cost();
        }
    }

    /// The lines from `from` on, at most one batch of them.
    fn batch(&self, from: u64) -> LogBatch {
        let begin = self.lines.partition_point(|line| line.seq < from);
        let lines: Vec<LogLine> = self
            .lines
            .range(begin..)
            .take(MAX_BATCH)
            .map(Line::told)
            .collect();
        let first_seq = lines.first().map_or(self.next, |line| line.seq);
        LogBatch {
            gap: Some(first_seq.saturating_sub(from)).filter(|gap| *gap > 0),
            first_seq,
            lines,
        }
    }
}

/// Who wrote a line that no part of the surroundings printed.
fn stream(text: &str) -> &'static str {
    if text.starts_with(REMARK) {
        "runner"
    } else {
        "agent"
    }
}

impl LogBook {
    /// Begins the log of a job; the oldest ended one makes room.
    pub(super) fn begin(&self, job: &str) {
        let mut logs = self.lock();
        if logs.iter().any(|log| log.job == job) {
            return;
        }
        while logs.len() >= MAX_LOGS
            && let Some(oldest) = logs.iter().position(|log| log.ended)
        {
            logs.remove(oldest);
        }
        logs.push_back(Log {
            job: job.to_owned(),
            lines: VecDeque::new(),
            bytes: 0,
            next: 0,
            ended: false,
            grown: watch::Sender::new(()),
        });
    }

    /// Appends a line, of a part of the case's surroundings where it is named. One of a job that never began is dropped.
    pub(super) fn line(&self, job: &str, part: Option<&str>, text: &str) {
        self.change(job, |log| log.push(part, text));
    }

    /// Notes that `count` lines never arrived.
    pub(super) fn missed(&self, job: &str, count: u64) {
        self.change(job, |log| log.next += count);
    }

    /// Notes that nothing will follow.
    pub(super) fn end(&self, job: &str) {
        self.change(job, |log| log.ended = true);
    }

    /// Reads a log from its beginning and then as it grows; `None` when there is no log of that job.
    pub(super) fn follow(&self, job: &str) -> Option<LogReader> {
        let grown = self.lock().iter().find(|log| log.job == job)?.grown.subscribe();
        Some(LogReader {
            book: self.clone(),
            job: job.to_owned(),
            next: 0,
            grown,
            pause: Duration::ZERO,
        })
    }

    fn change(&self, job: &str, change: impl FnOnce(&mut Log)) {
        let mut logs = self.lock();
        if let Some(log) = logs.iter_mut().rev().find(|log| log.job == job) {
            change(log);
            log.grown.send_replace(());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Log>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One reader of one log.
pub struct LogReader {
    book: LogBook,
    job: String,
    next: u64,
    grown: watch::Receiver<()>,
    /// Before the next batch.
    pause: Duration,
}

impl LogReader {
    /// Waits for lines and returns them, a few batches per second at most, more while it catches up; `None` once all is read and nothing will follow.
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<LogBatch> {
        if !self.pause.is_zero() {
            tokio::time::sleep(self.pause).await;
        }
        loop {
            self.grown.mark_unchanged();
            let (batch, ended) = {
                let logs = self.book.lock();
                let log = logs.iter().find(|log| log.job == self.job)?;
                (log.batch(self.next), log.ended)
            };
            if !batch.lines.is_empty() {
                self.pause = if batch.lines.len() < MAX_BATCH {
                    BATCH_EVERY
                } else {
                    FULL_BATCH_EVERY
                };
                self.next = batch.first_seq + batch.lines.len() as u64;
                return Some(batch);
            }
            if ended || self.grown.changed().await.is_err() {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reader_gets_every_line_once_and_then_the_end() {
        let book = LogBook::default();
        book.begin("j");
        book.line("j", None, "one");
        let mut reader = book.follow("j").unwrap();
        let batch = reader.next().await.unwrap();
        assert_eq!((batch.first_seq, batch.lines.len(), batch.gap), (0, 1, None));
        book.line("j", None, "two");
        book.line("j", None, "three");
        book.end("j");
        let batch = reader.next().await.unwrap();
        let texts: Vec<&str> = batch.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!((batch.first_seq, texts), (1, vec!["two", "three"]));
        assert_eq!(reader.next().await, None);
        assert!(book.follow("nobody").is_none());
    }

    #[tokio::test]
    async fn a_burst_beyond_the_ring_is_a_gap_and_the_newest_lines() {
        let book = LogBook::default();
        book.begin("j");
        let long = "x".repeat(1000);
        for _ in 0..5000 {
            book.line("j", None, &long);
        }
        book.missed("j", 7);
        book.line("j", None, "last");
        book.end("j");
        assert!(book.lock()[0].bytes <= MAX_BYTES);
        let mut reader = book.follow("j").unwrap();
        let mut seen = 0;
        let mut gaps = 0;
        let mut last = None;
        while let Some(batch) = reader.next().await {
            gaps += batch.gap.unwrap_or(0);
            seen += batch.lines.len() as u64;
            assert_eq!(batch.first_seq, batch.lines[0].seq);
            last = batch.lines.into_iter().next_back();
        }
        let last = last.unwrap();
        assert_eq!((last.text.as_str(), last.seq), ("last", 5007));
        assert_eq!(seen + gaps, 5008, "each line is seen or counted");
    }

    #[tokio::test]
    async fn a_remark_of_the_runner_and_a_container_s_lines_are_told_from_the_agent_s() {
        let book = LogBook::default();
        book.begin("j");
        book.line("j", None, "[everdict] the browser is not recorded");
        book.line("j", None, "hello [everdict] there");
        book.line("j", Some("web"), "[everdict] says the service");
        let batch = book.follow("j").unwrap().next().await.unwrap();
        let streams: Vec<&str> = batch.lines.iter().map(|line| line.stream.as_str()).collect();
        assert_eq!(streams, ["runner", "agent", "web"]);
    }

    #[test]
    fn only_the_latest_logs_are_kept() {
        let book = LogBook::default();
        for n in 0..100 {
            book.begin(&n.to_string());
            book.end(&n.to_string());
        }
        assert_eq!(book.lock().len(), MAX_LOGS);
        assert!(book.follow("99").is_some() && book.follow("0").is_none());
    }
}
