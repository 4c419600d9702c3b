//! The queue's promises, one by one.

use std::time::Duration;

use everdict_contracts::{Capability, JobId, RunnerId, Subject};

use super::*;

const TTL: Duration = Duration::from_secs(45);
const IDLE: Duration = Duration::from_secs(300);

fn queue() -> Queue {
    Queue::new(Limits {
        lease_ttl: TTL,
        idle_timeout: IDLE,
    })
}

fn at(seconds: u64) -> Moment {
    Duration::from_secs(seconds)
}

fn owner(name: &str) -> Owner {
    Owner::Personal(Subject::from(name))
}

fn member(name: &str, runner: &str) -> Member {
    Member {
        owner: owner(name),
        runner: RunnerId::from(runner),
    }
}

fn caps(list: &[Capability]) -> Option<CapSet> {
    Some(list.iter().copied().collect())
}

fn pool_job(id: &str) -> Parked {
    Parked {
        job: JobId::from(id),
        key: QueueKey::pool(&owner("ann")),
        class: Class::Batch,
        group: "u:ann".into(),
        needs: CapSet::default(),
        epoch: 0,
        requeues: 0,
    }
}

fn own_job(id: &str, runner: &str) -> Parked {
    Parked {
        key: QueueKey::runner(&member("ann", runner)),
        ..pool_job(id)
    }
}

fn take(queue: &mut Queue, now: u64, runner: &str) -> Option<(String, u64)> {
    match queue.lease(at(now), &member("ann", runner), None, false).0 {
        Leased::Granted(token) => Some((token.job.to_string(), token.epoch)),
        Leased::Waiting(_) | Leased::Nothing => None,
    }
}

fn wait(queue: &mut Queue, now: u64, runner: &str, gate: Option<CapSet>) -> WaiterId {
    match queue.lease(at(now), &member("ann", runner), gate, true).0 {
        Leased::Waiting(id) => id,
        other => panic!("expected to wait, got {other:?}"),
    }
}

fn token(id: &str, epoch: u64, runner: &str) -> Token {
    Token {
        job: JobId::from(id),
        epoch,
        runner: RunnerId::from(runner),
    }
}

fn granted(effects: &[Effect]) -> Vec<(WaiterId, String)> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Granted { waiter, token } => Some((*waiter, token.job.to_string())),
            _ => None,
        })
        .collect()
}

#[test]
fn own_jobs_come_before_the_pool() {
    let mut queue = queue();
    queue.enqueue(at(0), pool_job("pool"));
    queue.enqueue(at(0), own_job("own", "r1"));
    assert_eq!(take(&mut queue, 1, "r1"), Some(("own".into(), 1)));
    assert_eq!(take(&mut queue, 1, "r1"), Some(("pool".into(), 1)));
    assert_eq!(take(&mut queue, 1, "r1"), None);
}

#[test]
fn another_owner_gets_nothing_even_when_names_extend_each_other() {
    let mut queue = queue();
    let mut job = pool_job("j");
    job.key = QueueKey::pool(&owner("a:b"));
    queue.enqueue(at(0), job);
    for name in ["a", "a:", "a:b:", "ws:a"] {
        let (leased, _) = queue.lease(at(0), &member(name, "b"), None, false);
        assert_eq!(leased, Leased::Nothing, "{name}");
    }
    let (leased, _) = queue.lease(at(0), &member("a:b", "r"), None, false);
    assert!(matches!(leased, Leased::Granted(_)));
}

#[test]
fn interactive_first_then_the_group_that_waited_longest_then_order_of_arrival() {
    let mut queue = queue();
    let grouped = |id: &str, group: &str| Parked {
        group: group.into(),
        ..pool_job(id)
    };
    for job in [
        grouped("a1", "a"),
        grouped("a2", "a"),
        grouped("a3", "a"),
        grouped("b1", "b"),
    ] {
        queue.enqueue(at(0), job);
    }
    let urgent = Parked {
        class: Class::Interactive,
        ..grouped("i1", "a")
    };
    queue.enqueue(at(0), urgent);
    let order: Vec<_> = std::iter::from_fn(|| take(&mut queue, 1, "r1"))
        .map(|(job, _)| job)
        .collect();
    assert_eq!(order, ["i1", "b1", "a1", "a2", "a3"]);
}

#[test]
fn a_pool_job_skips_a_runner_that_cannot_run_it() {
    let mut queue = queue();
    let needs = [Capability::Docker].into_iter().collect();
    queue.enqueue(
        at(0),
        Parked {
            needs,
            ..pool_job("docker")
        },
    );
    queue.enqueue(at(0), pool_job("plain"));
    let git = wait_or_take(&mut queue, "r1", caps(&[Capability::Git]));
    assert_eq!(git.as_deref(), Some("plain"));
    assert_eq!(wait_or_take(&mut queue, "r1", caps(&[Capability::Git])), None);
    let docker = wait_or_take(&mut queue, "r2", caps(&[Capability::Docker]));
    assert_eq!(docker.as_deref(), Some("docker"));
}

fn wait_or_take(queue: &mut Queue, runner: &str, gate: Option<CapSet>) -> Option<String> {
    match queue.lease(at(1), &member("ann", runner), gate, false).0 {
        Leased::Granted(token) => Some(token.job.to_string()),
        Leased::Waiting(_) | Leased::Nothing => None,
    }
}

#[test]
fn a_pinned_job_its_runner_cannot_run_is_rejected_when_the_runner_asks() {
    let mut queue = queue();
    let needs: CapSet = [Capability::Docker].into_iter().collect();
    queue.enqueue(
        at(0),
        Parked {
            needs,
            ..own_job("j", "r1")
        },
    );
    let (leased, effects) = queue.lease(at(1), &member("ann", "r1"), caps(&[]), false);
    assert_eq!(leased, Leased::Nothing);
    let expected = Effect::Mismatch {
        job: JobId::from("j"),
        runner: RunnerId::from("r1"),
        missing: needs,
    };
    assert_eq!(effects, [expected]);
}

#[test]
fn a_caller_that_names_no_capabilities_is_not_gated() {
    let mut queue = queue();
    let needs = [Capability::Docker].into_iter().collect();
    queue.enqueue(
        at(0),
        Parked {
            needs,
            ..own_job("j", "r1")
        },
    );
    assert_eq!(take(&mut queue, 1, "r1"), Some(("j".into(), 1)));
}

#[test]
fn a_waiting_call_gets_the_job_and_only_one_does() {
    let mut queue = queue();
    let first = wait(&mut queue, 0, "r1", None);
    wait(&mut queue, 0, "r2", None);
    let effects = queue.enqueue(at(1), pool_job("j"));
    assert_eq!(granted(&effects), [(first, "j".into())]);
}

#[test]
fn runners_take_turns_at_pool_jobs() {
    let mut queue = queue();
    let mut runs = Vec::new();
    wait(&mut queue, 0, "r1", None);
    wait(&mut queue, 0, "r2", None);
    for round in 0..4 {
        let effects = queue.enqueue(at(1), pool_job(&format!("j{round}")));
        let Some(Effect::Granted { token, .. }) = effects.last() else {
            panic!("nobody took the job");
        };
        runs.push(token.runner.to_string());
        wait(&mut queue, 1, token.runner.as_str(), None);
    }
    assert_eq!(runs, ["r1", "r2", "r1", "r2"]);
}

#[test]
fn a_waiter_that_left_gets_nothing() {
    let mut queue = queue();
    let gone = wait(&mut queue, 0, "r1", None);
    assert!(queue.leave(gone));
    assert!(!queue.leave(gone));
    assert_eq!(queue.enqueue(at(1), own_job("j", "r1")), []);
    assert_eq!(take(&mut queue, 1, "r1"), Some(("j".into(), 1)));
}

#[test]
fn an_undelivered_job_goes_back_at_once_and_keeps_its_place() {
    let mut queue = queue();
    queue.enqueue(at(0), pool_job("j1"));
    queue.enqueue(at(0), pool_job("j2"));
    take(&mut queue, 1, "r1").unwrap();
    let next = wait_after_draining(&mut queue);
    let effects = queue.give_back(at(2), &token("j1", 1, "r1"));
    assert_eq!(granted(&effects), [(next, "j1".into())]);
    assert_eq!(queue.standing(&token("j1", 2, "r2")), Beat::Extended);
    assert_eq!(queue.standing(&token("j1", 1, "r1")), Beat::Stale);
    let returned = Effect::Requeued {
        job: JobId::from("j1"),
        epoch: 1,
        requeues: 0,
    };
    assert!(effects.contains(&returned), "{effects:?}");
}

fn wait_after_draining(queue: &mut Queue) -> WaiterId {
    while take(queue, 1, "r3").is_some() {}
    wait(queue, 1, "r2", None)
}

#[test]
fn an_expired_lease_reaches_a_waiter_without_anybody_polling() {
    let mut queue = queue();
    queue.enqueue(at(0), pool_job("j"));
    take(&mut queue, 0, "r1").unwrap();
    let other = wait(&mut queue, 1, "r2", None);
    assert_eq!(queue.next_deadline(), Some(TTL));
    assert_eq!(queue.tick(TTL - Duration::from_millis(1)), []);
    let effects = queue.tick(TTL);
    assert_eq!(granted(&effects), [(other, "j".into())]);
    assert!(!queue.begin_finish(&token("j", 1, "r1")));
    assert!(!queue.begin_finish(&token("j", 2, "r1")));
    assert!(queue.begin_finish(&token("j", 2, "r2")));
}

#[test]
fn a_heartbeat_renews_and_a_requeued_job_refuses_its_old_holder() {
    let mut queue = queue();
    let who = member("ann", "r1");
    queue.enqueue(at(0), pool_job("j"));
    take(&mut queue, 0, "r1").unwrap();
    let held = token("j", 1, "r1");
    assert_eq!(queue.heartbeat(at(40), &who, &held, None), Beat::Extended);
    assert_eq!(queue.tick(at(60)), []);
    assert_eq!(queue.tick(at(85)).len(), 1);
    assert_eq!(queue.heartbeat(at(86), &who, &held, None), Beat::Stale);
    assert!(!queue.begin_finish(&held));
}

#[test]
fn a_cancelled_lease_is_told_so_and_writes_nothing() {
    let mut queue = queue();
    let who = member("ann", "r1");
    queue.enqueue(at(0), pool_job("j"));
    take(&mut queue, 0, "r1").unwrap();
    let held = token("j", 1, "r1");
    queue.cancel(at(10), &held.job);
    assert_eq!(queue.heartbeat(at(20), &who, &held, None), Beat::Cancelled);
    assert_eq!(queue.standing(&held), Beat::Cancelled);
    assert!(!queue.begin_finish(&held));
    assert_eq!(queue.tick(at(100)), []);
    assert_eq!(take(&mut queue, 100, "r1"), None);
    assert_eq!(queue.tick(at(310)), []);
    assert_eq!(queue.heartbeat(at(311), &who, &held, None), Beat::Stale);
}

#[test]
fn a_report_locks_the_job_until_it_is_decided() {
    let mut queue = queue();
    queue.enqueue(at(0), pool_job("j"));
    take(&mut queue, 0, "r1").unwrap();
    let held = token("j", 1, "r1");
    assert!(queue.begin_finish(&held));
    assert!(!queue.begin_finish(&held));
    assert_eq!(queue.tick(at(1_000)), []);
    queue.resume(at(1_000), &held.job);
    assert!(queue.begin_finish(&held));
    queue.finish(&held.job);
    assert_eq!(queue.standing(&held), Beat::Stale);
    assert_eq!(queue.next_deadline(), None);
}

#[test]
fn a_job_nobody_asks_for_ends_and_one_that_a_busy_runner_could_take_waits_on() {
    let mut queue = queue();
    let who = member("ann", "r1");
    queue.enqueue(at(0), pool_job("held"));
    take(&mut queue, 0, "r1").unwrap();
    let needs = [Capability::Docker].into_iter().collect();
    queue.enqueue(
        at(0),
        Parked {
            needs,
            ..pool_job("docker")
        },
    );
    queue.enqueue(at(0), pool_job("plain"));
    for beat in 0..10 {
        let now = at(30 * beat);
        queue.heartbeat(now, &who, &token("held", 1, "r1"), caps(&[Capability::Git]));
        assert_eq!(queue.tick(now), []);
    }
    let ended = Effect::NoRunner {
        job: JobId::from("docker"),
    };
    assert_eq!(queue.tick(at(300)), [ended]);
    assert_eq!(take(&mut queue, 301, "r1"), Some(("plain".into(), 1)));
}

#[test]
fn empty_polls_keep_nothing_waiting() {
    let mut queue = queue();
    queue.enqueue(at(0), own_job("j", "r2"));
    for now in (0..300).step_by(25) {
        assert_eq!(take(&mut queue, now, "r1"), None);
    }
    assert_eq!(queue.tick(at(300)).len(), 1);
}

#[test]
fn what_the_store_remembers_is_honoured_after_a_restart() {
    let mut queue = queue();
    let leased = Parked {
        epoch: 3,
        ..pool_job("leased")
    };
    queue.restore(at(0), leased, Standing::Leased(RunnerId::from("r1")));
    let stopped = Parked {
        epoch: 1,
        ..pool_job("stopped")
    };
    queue.restore(at(0), stopped, Standing::Cancelled(RunnerId::from("r1")));
    queue.restore(at(0), pool_job("queued"), Standing::Queued);
    let who = member("ann", "r1");
    let beat = queue.heartbeat(at(1), &who, &token("stopped", 1, "r1"), None);
    assert_eq!(beat, Beat::Cancelled);
    assert!(queue.begin_finish(&token("leased", 3, "r1")));
    assert_eq!(take(&mut queue, 1, "r2"), Some(("queued".into(), 1)));
}

#[test]
fn dismissed_calls_wait_no_longer() {
    let mut queue = queue();
    let first = wait(&mut queue, 0, "r1", None);
    assert_eq!(queue.dismiss(&member("ann", "r1")), [first]);
    assert!(!queue.waiters.contains(first));
    assert_eq!(queue.enqueue(at(1), pool_job("j")), []);
}

#[test]
fn a_runner_does_not_walk_past_all_the_jobs_it_cannot_run() {
    let mut queue = queue();
    let needs = [Capability::Docker].into_iter().collect();
    for number in 0..20_000 {
        let job = Parked {
            needs,
            ..pool_job(&format!("j{number}"))
        };
        queue.enqueue(at(0), job);
    }
    // A linear search would look at 400 million jobs here.
    for _ in 0..20_000 {
        let (leased, _) = queue.lease(at(1), &member("ann", "r1"), caps(&[]), false);
        assert_eq!(leased, Leased::Nothing);
    }
}
