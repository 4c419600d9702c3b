//! The queue that several hubs share: turns, capabilities, lost leases, and what each hub hears of the others.
#![cfg(all(unix, feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::time::Duration;

use everdict_store::{
    Claim, LeaseOf, NewRun, Outcome, RunFinish, RunStatus, Seat, SharedWrite, Store, Told, Write,
};
use everdict_testkit::Postgres;

const TTL: Duration = Duration::from_secs(60);

async fn world() -> Option<(Store, Store, Postgres)> {
    let server = Postgres::start_or_skip("the shared queue")?;
    let first = Store::connect(&server.url()).await.unwrap();
    let second = Store::connect(&server.url()).await.unwrap();
    Some((first, second, server))
}

fn run(id: &str, group: &str, needs: &[&str]) -> NewRun {
    NewRun {
        id: id.into(),
        workspace: "acme".into(),
        submitted_by: "ann".into(),
        harness_id: "echo".into(),
        harness_version: "1".into(),
        case_id: "c".into(),
        runtime: "self".into(),
        priority: "batch".into(),
        fair_group: group.into(),
        case_spec: "{}".into(),
        job: format!("{{\"id\":\"{id}\"}}"),
        owner: Some("ann".into()),
        runner: None,
        required_caps: needs.iter().map(|name| (*name).to_owned()).collect(),
        note: None,
        batch: None,
        batch_label: None,
        created_at: 1,
    }
}

async fn park(store: &Store, run: NewRun) {
    let write = Write::InsertRun(Box::new(run));
    assert_eq!(store.write(write).await.unwrap(), Outcome::Applied);
}

fn seat(runner: &str, caps: &[&str]) -> Seat {
    Seat {
        runner: runner.into(),
        caps: Some(caps.iter().map(|name| (*name).to_owned()).collect()),
    }
}

async fn claimed(store: &Store, seats: &[Seat]) -> Vec<String> {
    let claims = store.claim("ann", seats, 2, TTL).await.unwrap();
    claims
        .into_iter()
        .map(|claim| match claim {
            Claim::Job { seat, run, .. } => format!("{seat}:{run}"),
            Claim::Lacking { run, needs, .. } => format!("{run} lacks {}", needs.join(",")),
        })
        .collect()
}

fn lease(id: &str, epoch: u64, holder: &str) -> LeaseOf {
    LeaseOf {
        run: id.into(),
        epoch,
        holder: holder.into(),
    }
}

#[tokio::test]
async fn groups_alternate_and_somebody_who_waits_goes_first() {
    let Some((store, _, _server)) = world().await else {
        return;
    };
    for n in 0..6 {
        park(&store, run(&format!("a{n}"), "a", &[])).await;
    }
    assert_eq!(
        claimed(&store, &[seat("r", &[]), seat("r", &[])]).await,
        ["0:a0", "1:a1"]
    );
    for n in 0..3 {
        park(&store, run(&format!("b{n}"), "b", &[])).await;
    }
    let mut urgent = run("u0", "u", &[]);
    urgent.priority = "interactive".into();
    park(&store, urgent).await;
    let mut order = Vec::new();
    while let [one] = claimed(&store, &[seat("r", &[])]).await.as_slice() {
        order.push(one[2..].to_owned());
    }
    // One of b for one of a, although all of a came first; b is not owed the two turns before it came.
    assert_eq!(order, ["u0", "a2", "b0", "a3", "b1", "a4", "b2", "a5"]);
}

#[tokio::test]
async fn who_submits_one_at_a_time_gets_every_other_turn_and_no_more() {
    let Some((store, _, _server)) = world().await else {
        return;
    };
    for n in 0..4 {
        park(&store, run(&format!("a{n}"), "a", &[])).await;
    }
    let mut order = Vec::new();
    for n in 0..3 {
        park(&store, run(&format!("b{n}"), "b", &[])).await;
        for _ in 0..2 {
            order.extend(claimed(&store, &[seat("r", &[])]).await);
        }
    }
    assert_eq!(order, ["0:a0", "0:b0", "0:a1", "0:b1", "0:a2", "0:b2"]);
}

#[tokio::test]
async fn a_pool_passes_over_a_runner_that_lacks_something_and_a_pin_does_not() {
    let Some((store, _, _server)) = world().await else {
        return;
    };
    park(&store, run("p0", "a", &["docker"])).await;
    park(&store, run("p1", "a", &["git"])).await;
    let mut pinned = run("q0", "a", &["docker", "git"]);
    pinned.runner = Some("r1".into());
    park(&store, pinned).await;
    let mut other = run("q1", "a", &[]);
    other.runner = Some("r1".into());
    park(&store, other).await;
    let seats = [
        seat("r2", &["git"]),
        seat("r1", &["git"]),
        seat("r3", &["git", "docker"]),
    ];
    let mut got = claimed(&store, &seats).await;
    got.sort();
    // Its own queue comes before the pool, and the run it cannot take is named.
    assert_eq!(got, ["0:p1", "1:q1", "2:p0", "q0 lacks docker,git"]);
    // Who says nothing about itself is not held to anything.
    let open = [Seat {
        runner: "r1".into(),
        caps: None,
    }];
    assert_eq!(claimed(&store, &open).await, ["0:q0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hubs_hand_out_each_run_once() {
    let Some((first, second, _server)) = world().await else {
        return;
    };
    const RUNS: usize = 600;
    for n in 0..RUNS {
        park(
            &first,
            run(&format!("j{n:04}"), if n % 3 == 0 { "a" } else { "b" }, &[]),
        )
        .await;
    }
    let mut hubs = tokio::task::JoinSet::new();
    for store in [first, second] {
        hubs.spawn(async move {
            let seats: Vec<_> = (0..7).map(|n| seat(&format!("r{n}"), &[])).collect();
            let mut got = Vec::new();
            loop {
                let claims = claimed(&store, &seats).await;
                if claims.is_empty() {
                    return got;
                }
                got.extend(claims.into_iter().map(|claim| claim[2..].to_owned()));
            }
        });
    }
    let mut all = Vec::new();
    while let Some(got) = hubs.join_next().await {
        all.extend(got.unwrap());
    }
    assert_eq!(all.len(), RUNS);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), RUNS);
}

#[tokio::test]
async fn a_lease_is_renewed_returned_lost_and_fenced() {
    let Some((first, second, _server)) = world().await else {
        return;
    };
    park(&first, run("j", "a", &[])).await;
    let brief = Duration::from_millis(30);
    first.claim("ann", &[seat("r1", &[])], 2, brief).await.unwrap();
    let renew = |epoch, holder: &str| {
        Write::Shared(SharedWrite::Renew {
            lease: lease("j", epoch, holder),
            ttl: brief,
            at: 3,
        })
    };
    assert_eq!(second.write(renew(1, "r1")).await.unwrap(), Outcome::Applied);
    assert_eq!(second.write(renew(1, "r2")).await.unwrap(), Outcome::Refused);
    assert_eq!(second.write(renew(2, "r1")).await.unwrap(), Outcome::Refused);
    let until = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        let expired = second.expire_leases(4).await.unwrap();
        if expired.runs == ["j"] {
            assert_eq!(expired.lanes, [("ann".to_owned(), String::new())]);
            break;
        }
        assert!(std::time::Instant::now() < until && expired.next.is_some());
    }
    assert_eq!(second.run("j").await.unwrap().unwrap().requeues, 1);
    second.claim("ann", &[seat("r2", &[])], 5, TTL).await.unwrap();
    let finish = |epoch, holder: &str| {
        Write::FinishRun(Box::new(RunFinish {
            id: "j".into(),
            status: RunStatus::Succeeded,
            lease_epoch: Some(epoch),
            holder: Some(holder.into()),
            only_waiting: false,
            result: Some("{}".into()),
            usage: None,
            error: None,
            verdict: None,
            score: None,
            at: 6,
        }))
    };
    assert_eq!(first.write(finish(1, "r1")).await.unwrap(), Outcome::Refused);
    assert_eq!(first.write(finish(2, "r1")).await.unwrap(), Outcome::Refused);
    let back = Write::Shared(SharedWrite::Return {
        lease: lease("j", 2, "r2"),
        at: 7,
    });
    assert_eq!(first.write(back).await.unwrap(), Outcome::Applied);
    assert_eq!(claimed(&first, &[seat("r3", &[])]).await, ["0:j"]);
    assert_eq!(second.write(finish(3, "r3")).await.unwrap(), Outcome::Applied);
    assert_eq!(second.write(finish(3, "r3")).await.unwrap(), Outcome::Refused);
}

#[tokio::test]
async fn a_log_is_numbered_through_whatever_hub_its_lines_come() {
    let Some((first, second, _server)) = world().await else {
        return;
    };
    park(&first, run("j", "a", &[])).await;
    claimed(&first, &[seat("r", &[])]).await;
    let line = |text: &str, epoch| {
        Write::Shared(SharedWrite::Log {
            lease: lease("j", epoch, "r"),
            at: 3,
            line: text.into(),
            cap: 10,
        })
    };
    assert_eq!(first.write(line("one", 1)).await.unwrap(), Outcome::Applied);
    assert_eq!(second.write(line("two", 1)).await.unwrap(), Outcome::Applied);
    assert_eq!(second.write(line("late", 2)).await.unwrap(), Outcome::Refused);
    assert_eq!(first.write(line("too much", 1)).await.unwrap(), Outcome::Full);
    assert_eq!(first.write(line("more", 1)).await.unwrap(), Outcome::Full);
    let lines: Vec<_> = first
        .logs("j", 0, 9)
        .await
        .unwrap()
        .into_iter()
        .map(|row| row.line)
        .collect();
    assert_eq!(lines, ["one", "two", "[the log ends here: it reached 10 bytes]"]);
}

#[tokio::test]
async fn a_run_nobody_shows_up_for_is_found_and_one_with_a_busy_runner_is_not() {
    let Some((store, _, _server)) = world().await else {
        return;
    };
    park(&store, run("idle", "a", &["docker"])).await;
    park(&store, run("waits", "a", &["git"])).await;
    let busy = SharedWrite::Asker {
        owner: "ann".into(),
        runner: "r".into(),
        caps: Some(vec!["git".into()]),
        at: 900,
    };
    store.write(Write::Shared(busy)).await.unwrap();
    assert_eq!(store.forsaken(500).await.unwrap(), ["idle"]);
    let mut both = store.forsaken(900).await.unwrap();
    both.sort();
    assert_eq!(both, ["idle", "waits"]);
    assert!(store.forsaken(0).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_hub_hears_the_others_and_not_itself() {
    let Some((first, second, _server)) = world().await else {
        return;
    };
    let mut heard = first.listen().unwrap();
    assert_eq!(heard.recv().await, Some(Told::Gap));
    let large = format!("\"{}\"", "x".repeat(100_000));
    first
        .write_telling(Write::Tell, vec!["\"own\"".into()])
        .await
        .unwrap();
    let insert = || Write::InsertRun(Box::new(run("j", "a", &[])));
    let news = vec!["{\"work\":[\"ann\",\"\"]}".to_owned(), large.clone()];
    second.write_telling(insert(), news).await.unwrap();
    // Refused, so there is nothing to tell.
    second
        .write_telling(insert(), vec!["\"refused\"".into()])
        .await
        .unwrap();
    second
        .write_telling(Write::Tell, vec!["\"last\"".into()])
        .await
        .unwrap();
    let mut all = Vec::new();
    while all.last().is_none_or(|last| last != "\"last\"") {
        match tokio::time::timeout(Duration::from_secs(20), heard.recv())
            .await
            .unwrap()
            .unwrap()
        {
            Told::News(news) => all.extend(news),
            Told::Gap => panic!("the listener broke off"),
        }
    }
    all.sort();
    assert_eq!(
        all,
        [large, "\"last\"".into(), "{\"work\":[\"ann\",\"\"]}".to_owned()]
            .iter()
            .cloned()
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    );
}
