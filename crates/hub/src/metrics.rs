//! What this process has done, counted, in the text form that Prometheus reads.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in seconds: from a job that was there already to one that waited half an hour.
const BOUNDS: [f64; 10] = [0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0, 300.0, 900.0, 1800.0];

/// A histogram of durations.
#[derive(Debug, Default)]
struct Durations {
    buckets: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Durations {
    fn add(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        for (bound, bucket) in BOUNDS.iter().zip(&self.buckets) {
            if seconds <= *bound {
                bucket.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn print(&self, out: &mut String, name: &str, help: &str) {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
        for (bound, bucket) in BOUNDS.iter().zip(&self.buckets) {
            let _ = writeln!(
                out,
                "{name}_bucket{{le=\"{bound}\"}} {}",
                bucket.load(Ordering::Relaxed)
            );
        }
        let count = self.count.load(Ordering::Relaxed);
        let seconds = Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64();
        let _ = writeln!(
            out,
            "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {seconds}\n{name}_count {count}"
        );
    }
}

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    submitted: AtomicU64,
    leases: AtomicU64,
    given_back: AtomicU64,
    lost: AtomicU64,
    accepted: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    heartbeats: AtomicU64,
    waited: Durations,
    ran: Durations,
}

/// What the database says at this moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Depth {
    pub(crate) waiting: u64,
    pub(crate) leased: u64,
    pub(crate) runners: u64,
    pub(crate) online: u64,
}

/// How a report ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    Accepted,
    GivenUp,
    Refused,
}

impl Metrics {
    pub(crate) fn submitted(&self) {
        self.submitted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leased(&self) {
        self.leases.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn given_back(&self) {
        self.given_back.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn lost(&self, count: usize) {
        self.lost.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn beat(&self) {
        self.heartbeats.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn reported(&self, report: Report) {
        let counter = match report {
            Report::Accepted => &self.accepted,
            Report::GivenUp => &self.failed,
            Report::Refused => &self.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes how long a run waited and how long it ran, in milliseconds of the run's own record.
    pub(crate) fn timed(&self, waited_ms: i64, ran_ms: i64) {
        let duration = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap_or_default());
        self.waited.add(duration(waited_ms));
        self.ran.add(duration(ran_ms));
    }

    fn counters(&self) -> String {
        let mut out = String::new();
        let counters: [(&str, &str, &AtomicU64); 8] = [
            (
                "runs_submitted",
                "Runs taken in by this process.",
                &self.submitted,
            ),
            ("leases", "Leases given out by this process.", &self.leases),
            (
                "leases_returned",
                "Leases whose answer could not be delivered.",
                &self.given_back,
            ),
            (
                "leases_lost",
                "Leases that this process found to have ended.",
                &self.lost,
            ),
            ("results_accepted", "Results taken from runners.", &self.accepted),
            (
                "runs_given_up",
                "Runs that their runner could not do.",
                &self.failed,
            ),
            (
                "reports_refused",
                "Reports of leases that were not current.",
                &self.refused,
            ),
            ("heartbeats", "Heartbeats of runners.", &self.heartbeats),
        ];
        for (name, help, value) in counters {
            let value = value.load(Ordering::Relaxed);
            let name = format!("everdict_{name}_total");
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}");
        }
        out
    }

    pub(crate) fn print(&self, depth: Depth) -> String {
        let mut out = self.counters();
        let gauges = [
            (
                "everdict_runs_waiting",
                "Runs that wait for a runner.",
                depth.waiting,
            ),
            ("everdict_runs_leased", "Runs that a runner has.", depth.leased),
            ("everdict_runners", "Paired runners.", depth.runners),
            (
                "everdict_runners_online",
                "Runners heard of lately.",
                depth.online,
            ),
        ];
        for (name, help, value) in gauges {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
        }
        self.waited.print(
            &mut out,
            "everdict_run_wait_seconds",
            "From a run's submission to its lease.",
        );
        self.ran.print(
            &mut out,
            "everdict_run_duration_seconds",
            "From a run's lease to its result.",
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_gauges_and_histograms_print_in_the_text_form() {
        let metrics = Metrics::default();
        metrics.submitted();
        metrics.timed(20, 61_000);
        let depth = Depth {
            waiting: 3,
            leased: 1,
            runners: 2,
            online: 1,
        };
        let text = metrics.print(depth);
        for line in [
            "everdict_runs_submitted_total 1",
            "everdict_runs_waiting 3",
            "everdict_run_wait_seconds_bucket{le=\"0.005\"} 0",
            "everdict_run_wait_seconds_bucket{le=\"0.025\"} 1",
            "everdict_run_wait_seconds_sum 0.02",
            "everdict_run_duration_seconds_bucket{le=\"60\"} 0",
            "everdict_run_duration_seconds_bucket{le=\"+Inf\"} 1",
            "# TYPE everdict_run_duration_seconds histogram",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
        }
        // Each line is a comment, or a name, perhaps labels, and a number.
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (_, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
}
