//! A pull's events as lines for people: one a second at most.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bollard::models::CreateImageInfo;

/// Pause between two lines: a job's log is read by people, and kept.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// What is known of one layer, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Layer {
    current: u64,
    /// 0 until the download begins.
    total: u64,
    done: bool,
}

/// The state of a pull.
#[derive(Debug)]
pub(super) struct PullProgress {
    image: String,
    layers: BTreeMap<String, Layer>,
    last: Option<(Instant, String)>,
}

impl PullProgress {
    pub fn new(image: String) -> Self {
        Self {
            image,
            layers: BTreeMap::new(),
            last: None,
        }
    }

    /// Takes in an event; returns a line when it is time for one and it says something new.
    pub fn update(&mut self, event: &CreateImageInfo, now: Instant) -> Option<String> {
        self.note(event);
        if self
            .last
            .as_ref()
            .is_some_and(|(at, _)| now.duration_since(*at) < LINE_EVERY)
        {
            return None;
        }
        let line = self.line();
        if self.last.as_ref().is_some_and(|(_, known)| *known == line) {
            return None;
        }
        self.last = Some((now, line.clone()));
        Some(line)
    }

    fn note(&mut self, event: &CreateImageInfo) {
        let (Some(id), Some(status)) = (&event.id, &event.status) else {
            return;
        };
        let known = [
            "Pulling fs layer",
            "Waiting",
            "Downloading",
            "Verifying Checksum",
            "Download complete",
        ];
        let done = ["Extracting", "Pull complete", "Already exists"];
        if !known.contains(&status.as_str()) && !done.contains(&status.as_str()) {
            return;
        }
        let layer = self.layers.entry(id.clone()).or_default();
        if status == "Downloading"
            && let Some(detail) = &event.progress_detail
        {
            let number = |value: Option<i64>| u64::try_from(value.unwrap_or_default()).unwrap_or_default();
            layer.current = number(detail.current);
            layer.total = number(detail.total).max(layer.total);
        }
        if status == "Download complete" || done.contains(&status.as_str()) {
            layer.current = layer.total;
        }
        layer.done = matches!(status.as_str(), "Pull complete" | "Already exists");
    }

    fn line(&self) -> String {
        let sum = |field: fn(&Layer) -> u64| self.layers.values().map(field).sum::<u64>();
        let (current, total) = (sum(|layer| layer.current), sum(|layer| layer.total));
        let done = self.layers.values().filter(|layer| layer.done).count();
        if self.layers.is_empty() {
            return format!("pulling {}", self.image);
        }
        let layers = format!("{done} of {} layers", self.layers.len());
        if total == 0 {
            return format!("pulling {}: {layers}", self.image);
        }
        let share = current * 100 / total;
        let (now, all) = (megabytes(current), megabytes(total));
        format!("pulling {}: {share} % ({now} of {all} MB), {layers}", self.image)
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{}.{}", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bollard::models::ProgressDetail;

    fn event(id: &str, status: &str, detail: Option<(i64, i64)>) -> CreateImageInfo {
        CreateImageInfo {
            id: Some(id.to_owned()),
            status: Some(status.to_owned()),
            progress_detail: detail.map(|(current, total)| ProgressDetail {
                current: Some(current),
                total: Some(total),
            }),
            ..CreateImageInfo::default()
        }
    }

    #[test]
    fn lines_tell_percentages_and_come_once_a_second_at_most() {
        let mut progress = PullProgress::new("r.io/web:1".to_owned());
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert_eq!(
            progress
                .update(&event("1", "Pulling from web", None), at(0))
                .unwrap(),
            "pulling r.io/web:1"
        );
        assert_eq!(
            progress.update(&event("a", "Pulling fs layer", None), at(10)),
            None
        );
        assert_eq!(progress.update(&event("b", "Already exists", None), at(20)), None);
        let line = progress.update(
            &event("a", "Downloading", Some((25_000_000, 100_000_000))),
            at(1000),
        );
        assert_eq!(
            line.unwrap(),
            "pulling r.io/web:1: 25 % (25.0 of 100.0 MB), 1 of 2 layers"
        );
        assert_eq!(
            progress.update(
                &event("a", "Downloading", Some((90_000_000, 100_000_000))),
                at(1999)
            ),
            None
        );
        let line = progress.update(&event("a", "Download complete", None), at(2000));
        assert_eq!(
            line.unwrap(),
            "pulling r.io/web:1: 100 % (100.0 of 100.0 MB), 1 of 2 layers"
        );
        assert_eq!(
            progress.update(&event("a", "Extracting", Some((1, 100))), at(3100)),
            None,
            "nothing new"
        );
        let line = progress.update(&event("a", "Pull complete", None), at(4200));
        assert!(line.unwrap().ends_with("2 of 2 layers"));
    }

    #[test]
    fn a_thousand_events_in_a_second_make_one_line() {
        let mut progress = PullProgress::new("i".to_owned());
        let start = Instant::now();
        let lines = (0..1000_u32)
            .filter_map(|i| {
                let detail = Some((i64::from(i), 1000));
                progress.update(
                    &event("a", "Downloading", detail),
                    start + Duration::from_micros(900 * u64::from(i)),
                )
            })
            .count();
        assert_eq!(lines, 1);
    }
}
