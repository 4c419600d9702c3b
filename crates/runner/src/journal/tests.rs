use std::os::unix::fs::PermissionsExt as _;

use everdict_contracts::{EnvSnapshot, decode};
use serde_json::json;

use super::*;

fn job() -> CaseJob {
    decode(json!({
        "evalCase": {"id": "c1", "env": {"kind": "prompt"}, "task": "t", "graders": [{"id": "steps"}]},
        "harness": {"id": "h", "version": "1"},
        "runId": "evd-run-1",
    }))
    .unwrap()
}

fn attempt(epoch: u64) -> AttemptToken {
    decode(json!({"jobId": "../job 1", "leaseEpoch": epoch})).unwrap()
}

fn result() -> Arc<CaseResult> {
    Arc::new(CaseResult::new(
        job().eval_case.id,
        "h@1",
        EnvSnapshot::prompt("out"),
    ))
}

fn journal(dir: &Path) -> Journal {
    Journal::new(Some(dir), "http://hub", "rnr_a")
}

#[tokio::test]
async fn an_attempt_whose_process_is_gone_is_found_with_its_result_and_only_once() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    let (first, second) = (
        journal.begin(&attempt(1), &job()).await.unwrap(),
        journal.begin(&attempt(2), &job()).await.unwrap(),
    );
    second.keep(&result()).await.unwrap();
    assert!(journal.orphans().await.is_empty(), "both are at work");
    drop((first, second));
    let mut orphans = journal.orphans().await;
    orphans.sort_by_key(|orphan| orphan.attempt.lease_epoch);
    let found: Vec<_> = orphans
        .iter()
        .map(|orphan| (orphan.attempt.lease_epoch, orphan.result.is_some()))
        .collect();
    assert_eq!(found, [(1, false), (2, true)]);
    assert_eq!(orphans[1].attempt, attempt(2));
    assert!(journal.orphans().await.is_empty(), "whoever found them has them");
    for orphan in &orphans {
        orphan.entry.settle().await;
    }
    drop(orphans);
    assert!(journal.orphans().await.is_empty());
}

#[tokio::test]
async fn another_runner_s_attempts_are_not_ours() {
    let dir = tempfile::tempdir().unwrap();
    drop(journal(dir.path()).begin(&attempt(1), &job()).await.unwrap());
    let other = Journal::new(Some(dir.path()), "http://hub", "rnr_b");
    assert!(other.orphans().await.is_empty());
    assert_eq!(journal(dir.path()).orphans().await.len(), 1);
}

#[tokio::test]
async fn a_write_that_was_cut_leaves_the_entry_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    drop(journal.begin(&attempt(1), &job()).await.unwrap());
    let folder = journal.folder.clone().unwrap();
    let path = files(&folder).next().unwrap();
    fs::write(path.with_extension(UNFINISHED), b"{\"attempt\":{\"jobI").unwrap();
    let orphans = journal.orphans().await;
    assert_eq!(orphans.len(), 1);
    assert!(orphans[0].result.is_none());
    // And the cut file is no obstacle to the next write.
    orphans[0].entry.keep(&result()).await.unwrap();
    drop(orphans);
    assert!(journal.orphans().await[0].result.is_some());
}

#[tokio::test]
async fn what_is_no_entry_is_left_alone_and_hides_none() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    drop(journal.begin(&attempt(1), &job()).await.unwrap());
    let folder = journal.folder.clone().unwrap();
    fs::write(folder.join("odd.json"), b"not ours").unwrap();
    assert_eq!(journal.orphans().await.len(), 1);
    assert!(folder.join("odd.json").exists());
}

#[tokio::test]
async fn what_nobody_comes_back_for_is_forgotten_after_two_weeks() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    drop(journal.begin(&attempt(1), &job()).await.unwrap());
    let folder = journal.folder.clone().unwrap();
    let path = files(&folder).next().unwrap();
    let long_ago = SystemTime::now() - KEPT - Duration::from_secs(1);
    File::open(&path).unwrap().set_modified(long_ago).unwrap();
    assert!(journal.orphans().await.is_empty());
    assert!(!folder.exists());
}

#[tokio::test]
async fn only_this_user_can_read_a_result() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    let entry = journal.begin(&attempt(1), &job()).await.unwrap();
    entry.keep(&result()).await.unwrap();
    let folder = journal.folder.clone().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&files(&folder).next().unwrap()), 0o600);
}

#[tokio::test]
async fn a_folder_that_can_not_be_written_is_an_error_before_anything_begins() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("attempts"), b"a file in the way").unwrap();
    assert!(journal(dir.path()).begin(&attempt(1), &job()).await.is_err());
}
