//! Submitting cases and following them to the verdict table; shared by `submit --wait` and `demo`.

use std::cell::Cell as Flag;
use std::time::Duration;

use everdict_app::dataset::Submission;
use everdict_app::{HubClient, LogEvent, Problem, Result, RunRow, Verdict, follow_to_end};
use everdict_contracts::{RunId, RunStatus};
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};

use crate::output::{Cell, Hue, Output, duration};

/// Each followed run holds a connection; a hub serves this many from one client without a thought.
const FOLLOWED_AT_ONCE: usize = 8;

/// An idle runner picks a case up within milliseconds; after this long somebody should look.
const PATIENCE: Duration = Duration::from_secs(5);

/// A run that the hub has taken.
pub(crate) struct Submitted {
    pub(crate) run: RunId,
    pub(crate) case_id: String,
    pub(crate) place: String,
    pub(crate) expect: Option<Verdict>,
}

impl Submitted {
    pub(crate) fn document(&self) -> Value {
        json!({"caseId": self.case_id, "runId": self.run, "place": self.place})
    }
}

/// Submits all, in order.
///
/// # Errors
/// The hub's refusal, with the place of the record and how many had been taken before it.
pub(crate) async fn submit_all(client: &HubClient, all: Vec<Submission>) -> Result<Vec<Submitted>> {
    let mut taken: Vec<Submitted> = Vec::with_capacity(all.len());
    for submission in all {
        let record = client.submit(&submission.body).await.map_err(|fault| {
            let problem = Problem::from(fault);
            let what = match taken.len() {
                0 => format!("{} was not taken; nothing was submitted", submission.place),
                n => format!("{} was not taken; {n} before it were", submission.place),
            };
            let fix = problem.next_step().unwrap_or("look at the cause").to_owned();
            Problem::new(problem.class(), what).fix(fix).because(problem)
        })?;
        taken.push(Submitted {
            run: record.id,
            case_id: submission.case_id,
            place: submission.place,
            expect: submission.expect,
        });
    }
    Ok(taken)
}

/// Follows all to their end, printing log lines with the case in front, and returns a row each, in order.
///
/// # Errors
/// The hub's fault.
pub(crate) async fn follow_all(client: &HubClient, all: &[Submitted], out: Output) -> Result<Vec<RunRow>> {
    let started = Flag::new(false);
    let hint = async {
        tokio::time::sleep(PATIENCE).await;
        if !started.get() {
            out.warn("no runner has picked up a case yet; start one with: everdict-runner start");
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        rows = follow_each(client, all, out, &started) => rows,
        () = hint => Ok(Vec::new()),
    }
}

async fn follow_each(
    client: &HubClient,
    all: &[Submitted],
    out: Output,
    started: &Flag<bool>,
) -> Result<Vec<RunRow>> {
    let width = all
        .iter()
        .map(|run| run.case_id.chars().count())
        .max()
        .unwrap_or(0);
    let mut following = stream::iter(all.iter().enumerate())
        .map(|(index, submitted)| async move {
            let name = format!("{:width$}", submitted.case_id);
            let record = follow_to_end(client, &submitted.run, |event| match event {
                LogEvent::Line(line) => {
                    started.set(true);
                    out.say(format!("{} {line}", out.paint(&name, Hue::Faint)));
                }
                LogEvent::Status(status) => started.set(started.get() || status != RunStatus::Queued),
                LogEvent::Resuming(why) => out.warn(format!("{why}; resuming")),
            })
            .await?;
            Ok::<_, Problem>((index, RunRow::new(&record, submitted.expect)))
        })
        .buffer_unordered(FOLLOWED_AT_ONCE);
    let mut rows: Vec<Option<RunRow>> = vec![None; all.len()];
    let mut done = 0;
    while let Some(ended) = following.next().await {
        let (index, row) = ended?;
        done += 1;
        out.say(format!(
            "[{done}/{}] {}: {}",
            all.len(),
            row.case_id,
            row.verdict.words()
        ));
        rows[index] = Some(row);
    }
    Ok(rows.into_iter().flatten().collect())
}

/// Prints the verdicts: the table for people, the one document for programs. Returns whether all are as wanted.
pub(crate) fn report(rows: &[RunRow], out: Output) -> bool {
    let as_wanted = rows.iter().all(RunRow::is_as_wanted);
    out.document(&json!({"results": rows, "ok": as_wanted}));
    let cells: Vec<Vec<Cell>> = rows.iter().map(table_row).collect();
    out.say("");
    out.table(&["CASE", "VERDICT", "EXPECTED", "TOOK", "SCORES", "WHY"], &cells);
    out.say("");
    out.say(counts(rows));
    as_wanted
}

fn table_row(row: &RunRow) -> Vec<Cell> {
    let expected = match row.expected {
        None => Cell::plain("–"),
        Some(verdict) if verdict == row.verdict => Cell::new("as expected", Hue::Faint),
        Some(verdict) => Cell::new(format!("{}, not this", verdict.words()), Hue::Bad),
    };
    let took = row
        .duration_ms
        .and_then(|ms| u64::try_from(ms).ok())
        .map_or_else(|| "–".to_owned(), |ms| duration(Duration::from_millis(ms)));
    vec![
        Cell::plain(&row.case_id),
        Cell::new(row.verdict.words(), crate::commands::hue(row.verdict)),
        expected,
        Cell::plain(took),
        Cell::plain(scores(row)),
        Cell::plain(row.reason.as_deref().unwrap_or_default()),
    ]
}

fn scores(row: &RunRow) -> String {
    let shown: Vec<String> = row
        .scores
        .iter()
        .map(|score| match score.pass() {
            Some(true) => format!("{} ✓", score.grader_id()),
            Some(false) => format!("{} ✗", score.grader_id()),
            None => format!("{} {}", score.grader_id(), value(score)),
        })
        .collect();
    if shown.is_empty() {
        "–".to_owned()
    } else {
        shown.join(", ")
    }
}

fn value(score: &everdict_contracts::Score) -> String {
    match score {
        everdict_contracts::Score::Measured(measured) => format!("{}", measured.value),
        _ => "unmeasured".to_owned(),
    }
}

fn counts(rows: &[RunRow]) -> String {
    let all = [
        Verdict::Pass,
        Verdict::Fail,
        Verdict::Timeout,
        Verdict::Unmeasured,
        Verdict::Infra,
    ];
    all.into_iter()
        .filter_map(|verdict| {
            let count = rows.iter().filter(|row| row.verdict == verdict).count();
            (count > 0).then(|| format!("{count} {}", verdict.words().to_lowercase()))
        })
        .collect::<Vec<_>>()
        .join(" · ")
}
