use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;

use super::capture::{Capture, CaptureLimits, Captured};
use super::lines::LineSplitter;
use super::{OutputSink, Stream};
use crate::redact::{RedactedStream, Redactor};

/// A quarter of a Linux pipe: large enough that a flood costs few reads, small enough to hold two per launch.
const READ_BYTES: usize = 16 * 1024;

/// Takes the bytes of one stream as they come: keeps them within limits and hands them on line by line.
pub struct StreamTap {
    stream: Stream,
    capture: Capture,
    lines: LineSplitter,
    sink: Option<Arc<dyn OutputSink>>,
    /// Before all else: what is kept and what is shown know no secret.
    mask: Option<RedactedStream>,
}

impl StreamTap {
    /// A tap that has seen nothing yet.
    #[must_use]
    pub fn new(stream: Stream, limits: CaptureLimits, sink: Option<Arc<dyn OutputSink>>) -> Self {
        Self {
            stream,
            capture: Capture::new(limits),
            lines: LineSplitter::default(),
            sink,
            mask: None,
        }
    }

    /// Masks what `redactor` knows.
    #[must_use]
    pub fn masked(mut self, redactor: Option<&Arc<Redactor>>) -> Self {
        self.mask = redactor
            .filter(|redactor| !redactor.is_empty())
            .map(Redactor::stream);
        self
    }

    /// Takes the next bytes; how the stream is sliced makes no difference.
    pub fn accept(&mut self, bytes: &[u8]) {
        match &mut self.mask {
            None => self.take(bytes),
            Some(mask) => {
                let bytes = mask.push(bytes).into_owned();
                self.take(&bytes);
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.capture.push(bytes);
        if let Some(sink) = &self.sink {
            let stream = self.stream;
            self.lines
                .push(bytes, Instant::now(), &mut |line| sink.line(stream, line));
        }
    }

    /// Flushes the unfinished line and gives out what was kept.
    #[must_use]
    pub fn finish(mut self) -> Captured {
        if let Some(mask) = self.mask.take() {
            self.take(&mask.finish());
        }
        if let Some(sink) = &self.sink {
            self.lines.finish(&mut |line| sink.line(self.stream, line));
        }
        self.capture.finish()
    }
}

/// Reads one stream of a child into its tap.
pub(crate) struct StreamPump {
    source: Option<pipe::Receiver>,
    tap: StreamTap,
}

impl StreamPump {
    pub(crate) fn new(source: OwnedFd, tap: StreamTap) -> io::Result<Self> {
        let source = Some(pipe::Receiver::from_owned_fd(source)?);
        Ok(Self { source, tap })
    }

    /// Reads until the last writer is gone. Cancel safe: a byte that was read has been accepted.
    pub(crate) async fn run(&mut self) {
        let mut buffer = vec![0; READ_BYTES];
        while let Some(source) = &self.source {
            if source.readable().await.is_err() {
                break;
            }
            match source.try_read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => self.tap.accept(&buffer[..read]),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                Err(_) => break,
            }
        }
        self.source = None;
    }

    /// Flushes the unfinished line and gives out the capture.
    pub(crate) fn finish(self) -> Captured {
        self.tap.finish()
    }
}

/// Writes `input` to the child's standard input and closes it. A child that doesn't read is not an error.
pub(crate) async fn feed(target: Option<(OwnedFd, Vec<u8>)>) {
    let Some((target, input)) = target else { return };
    if let Ok(mut target) = pipe::Sender::from_owned_fd(target) {
        let _: io::Result<()> = target.write_all(&input).await;
    }
}
