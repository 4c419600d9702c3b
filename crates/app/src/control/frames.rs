//! What the browsers of running cases show: the latest picture of each, and readers that follow one.

use std::sync::{Arc, Mutex, PoisonError};

use everdict_cases::Progress;
use everdict_contracts::{TraceEvent, TrackEntry};
use jiff::Timestamp;
use tokio::sync::watch;

use super::view::FrameView;

/// A recorder's pictures are far smaller; a larger one would hold up a window.
const MAX_FRAME: usize = 4 * 1024 * 1024;

/// The latest picture; `None` before the first.
type Latest = Option<Arc<FrameView>>;

/// The way to the latest picture of one case.
pub(super) type Frames = watch::Receiver<Latest>;

/// The pictures of one case, seen beside whoever else looks at it.
pub(super) struct Tap {
    inner: Arc<dyn Progress>,
    latest: watch::Sender<Latest>,
    url: Mutex<Option<String>>,
}

impl Tap {
    /// Looks at what passes to `inner`; returns the way to follow it. Following ends with the tap.
    pub(super) fn on(inner: Arc<dyn Progress>) -> (Arc<Self>, Frames) {
        let (latest, seen) = watch::channel(None);
        let tap = Self {
            inner,
            latest,
            url: Mutex::default(),
        };
        (Arc::new(tap), seen)
    }
}

impl Progress for Tap {
    fn log(&self, line: &str) {
        self.inner.log(line);
    }

    fn log_of(&self, part: &str, line: &str) {
        self.inner.log_of(part, line);
    }

    fn trace(&self, events: Vec<TraceEvent>) {
        self.inner.trace(events);
    }

    fn track(&self, entry: TrackEntry) {
        if let TrackEntry::Nav(nav) = &entry {
            *self.url.lock().unwrap_or_else(PoisonError::into_inner) = Some(nav.url.clone());
        }
        self.inner.track(entry);
    }

    fn frame(&self, png_base64: String) {
        if png_base64.len() <= MAX_FRAME {
            let url = self.url.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.latest.send_modify(|latest| {
                let seq = latest.as_ref().map_or(0, |frame| frame.seq + 1);
                *latest = Some(Arc::new(FrameView {
                    seq,
                    at: Timestamp::now().to_string(),
                    url,
                    mime: "image/png".to_owned(),
                    data: png_base64.clone(),
                }));
            });
        }
        self.inner.frame(png_base64);
    }
}

/// One reader of one case's pictures.
pub struct FrameReader {
    latest: Frames,
    fresh: bool,
}

impl FrameReader {
    pub(super) fn new(latest: Frames) -> Self {
        Self { latest, fresh: true }
    }

    /// Waits for a picture that was not handed out yet, the latest if there are several; `None` once the case has ended.
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<FrameView> {
        loop {
            if !std::mem::take(&mut self.fresh) {
                self.latest.changed().await.ok()?;
            }
            let frame = self.latest.borrow_and_update().clone();
            if let Some(frame) = frame {
                return Some(frame.as_ref().clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everdict_contracts::NavEntry;

    #[derive(Default)]
    struct Seen(Mutex<Vec<String>>);

    impl Progress for Seen {
        fn log(&self, line: &str) {
            self.0.lock().unwrap().push(line.to_owned());
        }
        fn trace(&self, _events: Vec<TraceEvent>) {}
        fn frame(&self, png_base64: String) {
            self.0.lock().unwrap().push(png_base64);
        }
    }

    #[tokio::test]
    async fn a_slow_reader_gets_the_latest_picture_and_the_others_pass_by() {
        let seen = Arc::new(Seen::default());
        let (tap, latest) = Tap::on(Arc::clone(&seen) as Arc<dyn Progress>);
        let mut reader = FrameReader::new(latest);
        tap.track(TrackEntry::Nav(NavEntry {
            t: 0.0,
            url: "http://shop/".to_owned(),
        }));
        for picture in ["a", "b", "c"] {
            tap.frame(picture.to_owned());
        }
        let frame = reader.next().await.unwrap();
        assert_eq!((frame.seq, frame.data.as_str()), (2, "c"));
        assert_eq!(frame.url.as_deref(), Some("http://shop/"));
        tap.frame("x".repeat(MAX_FRAME + 1));
        tap.frame("d".to_owned());
        assert_eq!(
            reader.next().await.unwrap().data,
            "d",
            "an over-large one is left out"
        );
        assert_eq!(seen.0.lock().unwrap().len(), 5, "the hub still gets every one");
        drop(tap);
        assert_eq!(reader.next().await, None);
    }
}
