//! The jobs that ended here: the latest in memory and in a file, and today's counts.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::Date;

use super::clock::local_date;
use super::view::{JobDetail, JobOutcome, JobView, TodayView};
use crate::private_file;
use crate::problem::{Problem, Result};

/// Some days of a busy laptop; beyond that the hub is the place to look.
const MAX_JOBS: usize = 500;

/// Whole results are looked at soon after their job or not at all.
const MAX_RAW: usize = 20;

/// A line is a detail, whose parts are bounded; a longer one isn't ours.
const MAX_LINE: u64 = 4 * 1024 * 1024;

/// See the module.
pub(super) struct History {
    file: PathBuf,
    /// Newest last.
    jobs: VecDeque<JobDetail>,
    /// Lines in the file; it is written anew when they are twice what is kept.
    lines: usize,
    day: Date,
    tally: TodayView,
}

impl History {
    /// Reads what the file holds; lines that can't be read are left out.
    pub(super) fn load(state_dir: &Path, now: Timestamp) -> Self {
        let mut history = Self {
            file: state_dir.join("jobs.jsonl"),
            jobs: VecDeque::new(),
            lines: 0,
            day: local_date(now),
            tally: TodayView::default(),
        };
        if let Err(error) = history.read()
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(file = %history.file.display(), %error, "the job history can't be read");
        }
        history
    }

    fn read(&mut self) -> io::Result<()> {
        let mut file = BufReader::new(std::fs::File::open(&self.file)?);
        loop {
            let mut line = Vec::new();
            let read = io::Read::take(&mut file, MAX_LINE).read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(());
            }
            self.lines += 1;
            if let Ok(detail) = serde_json::from_slice::<JobDetail>(&line) {
                self.keep(detail);
            }
        }
    }

    /// Adds a job that ended, in memory in any case.
    ///
    /// # Errors
    /// A problem about this machine when the file can't be written.
    pub(super) fn add(&mut self, detail: JobDetail) -> Result<()> {
        let kept = JobDetail {
            raw: None,
            ..detail.clone()
        };
        self.keep(detail);
        self.write(&kept).map_err(|error| {
            Problem::machine(format!("can't write {}", self.file.display()))
                .fix("check the free space and the mode of the file")
                .because(error)
        })
    }

    fn keep(&mut self, detail: JobDetail) {
        self.count(&detail.job);
        self.jobs.push_back(detail);
        if self.jobs.len() > MAX_JOBS {
            self.jobs.pop_front();
        }
        if let Some(index) = self.jobs.len().checked_sub(MAX_RAW + 1) {
            self.jobs[index].raw = None;
        }
    }

    fn write(&mut self, detail: &JobDetail) -> io::Result<()> {
        if self.lines >= 2 * MAX_JOBS {
            return self.rewrite();
        }
        let mut line = serde_json::to_vec(detail)?;
        line.push(b'\n');
        let mut options = std::fs::OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&self.file)?.write_all(&line)?;
        self.lines += 1;
        Ok(())
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let mut text = Vec::new();
        for detail in &self.jobs {
            let kept = JobDetail {
                raw: None,
                ..detail.clone()
            };
            serde_json::to_writer(&mut text, &kept)?;
            text.push(b'\n');
        }
        private_file::write(&self.file, &text).map_err(io::Error::other)?;
        self.lines = self.jobs.len();
        Ok(())
    }

    fn count(&mut self, job: &JobView) {
        let Some((begin, end)) = span(job) else { return };
        if local_date(end) != self.day {
            return;
        }
        let tally = &mut self.tally;
        match job.outcome {
            Some(JobOutcome::Passed) => tally.passed += 1,
            Some(JobOutcome::Failed) => tally.failed += 1,
            Some(JobOutcome::TimedOut) => tally.timed_out += 1,
            Some(JobOutcome::Unmeasured) => tally.unmeasured += 1,
            Some(JobOutcome::Infra) => tally.infra += 1,
            Some(JobOutcome::Cancelled | JobOutcome::HandedBack) | None => {}
        }
        tally.seconds += end.duration_since(begin).unsigned_abs().as_secs();
    }

    /// What ended on the day of `now`. A new day begins with nothing.
    pub(super) fn today(&mut self, now: Timestamp) -> TodayView {
        let day = local_date(now);
        if day != self.day {
            self.day = day;
            self.tally = TodayView::default();
        }
        self.tally
    }

    /// Forgets every job, in memory and in the file; returns their cases. Today's counts stay.
    ///
    /// # Errors
    /// A problem about this machine when the file can't be removed; nothing is forgotten then.
    pub(super) fn clear(&mut self) -> Result<Vec<String>> {
        private_file::remove(&self.file)?;
        self.lines = 0;
        let gone = std::mem::take(&mut self.jobs);
        Ok(gone.into_iter().map(|detail| detail.job.case_id).collect())
    }

    /// Where it is kept.
    pub(super) fn file(&self) -> PathBuf {
        self.file.clone()
    }

    /// Newest first.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &JobView> {
        self.jobs.iter().rev().map(|detail| &detail.job)
    }

    pub(super) fn find(&self, id: &str) -> Option<&JobDetail> {
        self.jobs.iter().rev().find(|detail| detail.job.id == id)
    }
}

fn span(job: &JobView) -> Option<(Timestamp, Timestamp)> {
    Some((job.started_at.parse().ok()?, job.ended_at.as_ref()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(id: usize, end: Timestamp, outcome: JobOutcome) -> JobDetail {
        JobDetail {
            job: JobView {
                id: id.to_string(),
                case_id: "c".to_owned(),
                harness: "h@1".to_owned(),
                workspace: "w".to_owned(),
                started_at: (end - jiff::SignedDuration::from_secs(2)).to_string(),
                ended_at: Some(end.to_string()),
                outcome: Some(outcome),
                runner: "r".to_owned(),
                tokens: None,
                cost_usd: None,
            },
            failure: None,
            scores: Vec::new(),
            changes: None,
            trace: None,
            raw: Some("{}".to_owned()),
        }
    }

    #[test]
    fn the_history_outlives_a_restart_and_a_torn_line() {
        let dir = tempfile::tempdir().unwrap();
        let now = Timestamp::now();
        let mut history = History::load(dir.path(), now);
        history.add(detail(1, now, JobOutcome::Passed)).unwrap();
        history.add(detail(2, now, JobOutcome::Infra)).unwrap();
        let file = dir.path().join("jobs.jsonl");
        let mut text = std::fs::read_to_string(&file).unwrap();
        text.push_str("{\"job\": {\"id\": \"3");
        std::fs::write(&file, text).unwrap();
        let mut again = History::load(dir.path(), now);
        let ids: Vec<&str> = again.jobs().map(|job| job.id.as_str()).collect();
        assert_eq!(ids, ["2", "1"]);
        assert_eq!(again.find("1").unwrap().raw, None);
        let today = again.today(now);
        assert_eq!((today.passed, today.infra, today.seconds), (1, 1, 4));
    }

    #[test]
    fn a_cleared_history_stays_so_and_takes_new_jobs() {
        let dir = tempfile::tempdir().unwrap();
        let now = Timestamp::now();
        let mut history = History::load(dir.path(), now);
        history.add(detail(1, now, JobOutcome::Passed)).unwrap();
        assert_eq!(history.clear().unwrap(), ["c"]);
        assert_eq!(history.today(now).passed, 1, "what was counted was counted");
        assert_eq!(History::load(dir.path(), now).jobs().count(), 0);
        history.add(detail(2, now, JobOutcome::Failed)).unwrap();
        assert_eq!(History::load(dir.path(), now).jobs().count(), 1);
    }

    #[test]
    fn a_new_day_begins_with_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let now = Timestamp::now();
        let mut history = History::load(dir.path(), now);
        history.add(detail(1, now, JobOutcome::Failed)).unwrap();
        assert_eq!(history.today(now).failed, 1);
        let later = now + jiff::SignedDuration::from_hours(48);
        assert_eq!(history.today(later), TodayView::default());
    }

    #[test]
    fn memory_and_file_stay_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let now = Timestamp::now();
        let mut history = History::load(dir.path(), now);
        for n in 0..(2 * MAX_JOBS + 10) {
            history.add(detail(n, now, JobOutcome::Passed)).unwrap();
        }
        assert_eq!(history.jobs.len(), MAX_JOBS);
        assert_eq!(
            history.jobs.iter().filter(|job| job.raw.is_some()).count(),
            MAX_RAW
        );
        let text = std::fs::read_to_string(dir.path().join("jobs.jsonl")).unwrap();
        assert!(text.lines().count() <= 2 * MAX_JOBS);
        assert_eq!(history.jobs().next().unwrap().id, (2 * MAX_JOBS + 9).to_string());
    }
}
