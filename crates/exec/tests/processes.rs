//! Ends of processes: nothing outlives a launch, and its end is reported as it was.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![cfg(target_os = "linux")]

mod support;

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::time::{Duration, Instant};

use everdict_exec::{
    Companion, Ended, ExecError, ExitStatus, Launch, become_subreaper,
    become_subreaper_beside_other_children, run,
};
use support::{PATIENCE, World, eventually, odd_sleep, processes_with, sleepers};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn exit_code_and_output_are_reported() {
    let world = World::new();
    let exit = world.sh("echo out; echo err >&2; exit 3").await;
    assert_eq!(exit.status, ExitStatus::Exited(3));
    assert_eq!(
        (exit.stdout.text(), exit.stderr.text()),
        ("out\n".into(), "err\n".into())
    );
    assert!(exit.survivors.is_empty() && !exit.killed_after_grace);
}

#[tokio::test]
async fn a_signal_is_reported_as_it_was() {
    let exit = World::new().sh("kill -SEGV $$").await;
    assert_eq!(exit.status, ExitStatus::Signaled(11));
}

#[tokio::test]
async fn time_out_kills_the_whole_group() {
    let world = World::new();
    let nap = odd_sleep();
    let launch = Launch {
        timeout: Some(Duration::from_millis(300)),
        ..world.shell(&format!(
            "sh -c '(sleep {nap} & sleep {nap} &) ; wait'; sleep {nap}"
        ))
    };
    let exit = run(launch, None, &CancellationToken::new()).await.unwrap();
    assert_eq!(exit.status, ExitStatus::TimedOut);
    assert_eq!(exit.ended, Some(Ended::Signaled(15)));
    assert_eq!(processes_with(&nap), [] as [i32; 0]);
}

#[tokio::test]
async fn cancel_kills_two_levels_of_children() {
    become_subreaper();
    let world = World::new();
    let nap = odd_sleep();
    let cancel = CancellationToken::new();
    let line = format!("(sleep {nap} & sh -c 'sleep {nap} & echo up > up; wait' &) ; sleep {nap}");
    let (exit, ()) = tokio::join!(run(world.shell(&line), None, &cancel), async {
        world.file("up").await;
        cancel.cancel();
    });
    assert_eq!(exit.unwrap().status, ExitStatus::Cancelled);
    assert_eq!(processes_with(&nap), [] as [i32; 0]);
}

#[tokio::test]
async fn a_cancelled_token_starts_nothing() {
    let world = World::new();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let exit = run(world.shell("touch started"), None, &cancel).await.unwrap();
    assert_eq!((exit.status, exit.ended), (ExitStatus::Cancelled, None));
    assert!(!world.work().join("started").exists());
}

async fn setsid_escapee(prefix: &str) {
    let world = World::new();
    let nap = odd_sleep();
    let begin = Instant::now();
    let line = format!(
        "({prefix} setsid sh -c 'echo up > up; sleep {nap} & wait' >/dev/null 2>&1 &); while ! [ -s up ]; do :; done"
    );
    let exit = world.sh(&line).await;
    assert_eq!(exit.status, ExitStatus::Exited(0));
    assert_eq!(processes_with(&nap), [] as [i32; 0]);
    assert!(exit.survivors.is_empty());
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn setsid_escapee_is_gone_after_the_job() {
    become_subreaper();
    setsid_escapee("").await;
}

#[tokio::test]
async fn setsid_escapee_is_gone_even_when_orphans_go_to_init() {
    setsid_escapee("").await;
}

#[tokio::test]
async fn an_escapee_that_wiped_its_environment_is_gone_too() {
    become_subreaper();
    setsid_escapee("env -i").await;
}

#[tokio::test]
async fn concurrent_launches_do_not_kill_each_others_escapees() {
    become_subreaper();
    let world = World::new();
    let nap = odd_sleep();
    // The long launch has an orphan in a session of its own, once with and once without its marker.
    let orphans = format!("(setsid sleep {nap} &); (env -i setsid sleep {nap} &)");
    let long = world.shell(&format!(
        "{orphans}; echo up > up; while ! [ -e go ]; do sleep 0.01; done"
    ));
    let quiet = CancellationToken::new();
    let (exit, ()) = tokio::join!(run(long, None, &quiet), async {
        world.file("up").await;
        eventually("both escapees run", || sleepers(&nap).len() == 2).await;
        for _ in 0..5 {
            assert!(world.sh("(setsid sleep 0.01 &); true").await.success());
        }
        assert_eq!(
            sleepers(&nap).len(),
            2,
            "a short launch killed what was not its own"
        );
        std::fs::write(world.work().join("go"), "").unwrap();
    });
    assert!(exit.unwrap().success());
    assert_eq!(processes_with(&nap), [] as [i32; 0]);
}

#[tokio::test]
async fn an_escapee_left_for_another_launch_goes_with_that_one() {
    become_subreaper();
    let world = World::new();
    let nap = odd_sleep();
    let long = world.shell("echo up > up; while ! [ -e go ]; do sleep 0.01; done");
    let quiet = CancellationToken::new();
    let (exit, ()) = tokio::join!(run(long, None, &quiet), async {
        world.file("up").await;
        // Whose this is can't be told while both run.
        world
            .sh(&format!(
                "(env -i setsid sleep {nap} >/dev/null 2>&1 &); while ! pgrep -f {nap}; do :; done"
            ))
            .await;
        std::fs::write(world.work().join("go"), "").unwrap();
    });
    assert!(exit.unwrap().success());
    assert_eq!(sleepers(&nap), [] as [i32; 0]);
}

#[tokio::test]
async fn a_child_of_somebody_else_is_never_touched() {
    become_subreaper();
    let world = World::new();
    let nap = odd_sleep();
    #[expect(
        clippy::disallowed_methods,
        reason = "stands for a child that this crate knows nothing of"
    )]
    let mut other = std::process::Command::new("sleep").arg(&nap).spawn().unwrap();
    // Start times count in hundredths of a second.
    eventually("a launch starts later", || {
        let stat = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let started = |pid| stat(pid).rsplit(' ').nth(30).unwrap().parse::<u64>().unwrap();
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let now: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        now * 100.0 > started(other.id()) as f64 + 1.0
    })
    .await;
    for _ in 0..3 {
        assert!(world.sh("(setsid sleep 0.01 &); true").await.success());
    }
    assert!(other.try_wait().unwrap().is_none(), "it was killed");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[tokio::test]
async fn beside_other_children_only_proven_escapees_are_touched() {
    become_subreaper_beside_other_children();
    let world = World::new();
    let (theirs, ours) = (odd_sleep(), odd_sleep());
    let line = world.shell(&format!(
        "echo up > up; while ! [ -e go ]; do sleep 0.01; done; (setsid sleep {ours} &)"
    ));
    let quiet = CancellationToken::new();
    let (exit, mut other) = tokio::join!(run(line, None, &quiet), async {
        world.file("up").await;
        // Started during the launch and in another group, as a webview's processes may be.
        #[expect(
            clippy::disallowed_methods,
            reason = "stands for a child that this crate knows nothing of"
        )]
        let other = std::process::Command::new("sleep")
            .arg(&theirs)
            .process_group(0)
            .spawn()
            .unwrap();
        std::fs::write(world.work().join("go"), "").unwrap();
        other
    });
    assert!(exit.unwrap().success());
    assert_eq!(sleepers(&ours), [] as [i32; 0]);
    assert!(other.try_wait().unwrap().is_none(), "it was killed");
    other.kill().unwrap();
    assert_eq!(other.wait().unwrap().signal(), Some(9), "somebody else reaped it");
}

#[tokio::test]
async fn a_fork_storm_has_no_survivors() {
    become_subreaper();
    let world = World::new();
    let nap = odd_sleep();
    let cancel = CancellationToken::new();
    let storm = format!(
        "trap '' TERM; echo up > up; while :; do setsid sh -c \"trap '' TERM; sleep {nap}\" & sleep 0.02; done"
    );
    let launch = Launch {
        grace: Duration::from_millis(200),
        ..world.shell(&storm)
    };
    let (exit, ()) = tokio::join!(run(launch, None, &cancel), async {
        world.file("up").await;
        eventually("the storm is on", || processes_with(&nap).len() > 5).await;
        cancel.cancel();
    });
    let exit = exit.unwrap();
    assert!(exit.killed_after_grace);
    assert_eq!(exit.survivors, []);
    assert_eq!(processes_with(&nap), [] as [i32; 0]);
}

#[tokio::test]
async fn a_term_ignorer_is_killed_after_the_grace() {
    let world = World::new();
    let nap = odd_sleep();
    let cancel = CancellationToken::new();
    let launch = world.shell(&format!(
        "trap '' TERM INT; echo up > up; while :; do sleep {nap}; done"
    ));
    let begin = Instant::now();
    let (exit, ()) = tokio::join!(run(launch, None, &cancel), async {
        world.file("up").await;
        cancel.cancel();
    });
    let exit = exit.unwrap();
    assert!(exit.killed_after_grace);
    assert_eq!(
        (exit.status, exit.ended),
        (ExitStatus::Cancelled, Some(Ended::Signaled(9)))
    );
    assert!(begin.elapsed() >= Duration::from_secs(1), "the grace was cut");
    assert!(
        begin.elapsed() < Duration::from_secs(3),
        "grace + 2 s were not enough"
    );
}

#[tokio::test]
async fn term_handler_exit_code_is_kept() {
    let world = World::new();
    let cancel = CancellationToken::new();
    let line = "trap 'sleep 3; echo saved > saved; exit 7' TERM; echo up > up; while :; do sleep 0.01; done";
    // The handler takes most of the grace; what is left is for a busy machine.
    let launch = Launch {
        grace: Duration::from_secs(5),
        ..world.shell(line)
    };
    let (exit, ()) = tokio::join!(run(launch, None, &cancel), async {
        world.file("up").await;
        cancel.cancel();
    });
    let exit = exit.unwrap();
    assert_eq!(
        (exit.status, exit.ended),
        (ExitStatus::Cancelled, Some(Ended::Exited(7)))
    );
    assert!(!exit.killed_after_grace);
    assert_eq!(world.file("saved").await, "saved");
}

#[tokio::test]
async fn an_agent_behind_a_shell_gets_the_whole_grace() {
    let world = World::new();
    let cancel = CancellationToken::new();
    // The outer shell has no handler and dies at once; the inner one still has to save.
    let line = "sh -c 'trap \"sleep 0.5; echo saved > saved; exit 0\" TERM; echo up > up; while :; do sleep 0.01; done'; true";
    let launch = Launch {
        grace: Duration::from_secs(5),
        ..world.shell(line)
    };
    let (exit, ()) = tokio::join!(run(launch, None, &cancel), async {
        world.file("up").await;
        cancel.cancel();
    });
    assert!(!exit.unwrap().killed_after_grace);
    assert_eq!(
        std::fs::read_to_string(world.work().join("saved")).unwrap(),
        "saved\n"
    );
}

#[tokio::test]
async fn pipe_holder_does_not_delay_the_end() {
    become_subreaper();
    let world = World::new();
    let nap = odd_sleep();
    let begin = Instant::now();
    let exit = world
        .sh(&format!("(setsid sleep {nap} &); sleep {nap} & echo last words"))
        .await;
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "took {:?}",
        begin.elapsed()
    );
    assert_eq!(exit.status, ExitStatus::Exited(0));
    assert_eq!(exit.stdout.text(), "last words\n");
    assert_eq!(processes_with(&nap), [] as [i32; 0]);
}

#[tokio::test]
async fn the_last_words_of_a_filter_behind_the_main_process_are_kept() {
    let exit = World::new().sh("(sleep 0.05; echo late) & exit 0").await;
    assert_eq!(exit.stdout.text(), "late\n");
}

#[tokio::test]
async fn ended_orphans_are_reaped_while_the_launch_runs() {
    become_subreaper();
    let world = World::new();
    let line =
        "for i in 1 2 3 4 5; do (setsid true &); done; echo up > up; while ! [ -e go ]; do sleep 0.01; done";
    let zombies = || {
        let me = std::process::id();
        let children = std::fs::read_to_string(format!("/proc/self/task/{me}/children")).unwrap();
        let states = children
            .split_whitespace()
            .filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok());
        states.filter(|stat| stat.contains(") Z ")).count()
    };
    let quiet = CancellationToken::new();
    let (exit, ()) = tokio::join!(run(world.shell(line), None, &quiet), async {
        world.file("up").await;
        eventually("no orphan waits to be reaped", || zombies() == 0).await;
        std::fs::write(world.work().join("go"), "").unwrap();
    });
    assert!(exit.unwrap().success());
    assert_eq!(zombies(), 0);
}

#[tokio::test]
async fn a_dropped_launch_is_killed() {
    let world = World::new();
    let nap = odd_sleep();
    let quiet = CancellationToken::new();
    tokio::select! {
        exit = run(world.shell(&format!("(setsid sleep {nap} &); echo up > up; sleep {nap}")), None, &quiet) => {
            panic!("ended early: {exit:?}");
        }
        _ = world.file("up") => {}
    }
    eventually("nothing of it runs", || processes_with(&nap).is_empty()).await;
}

#[tokio::test]
async fn what_can_not_start_is_an_error_that_names_it() {
    let world = World::new();
    let quiet = CancellationToken::new();
    let launch = Launch::argv(["no-such-program-here"], world.work(), world.env.clone());
    let error = run(launch, None, &quiet).await.unwrap_err();
    assert!(matches!(&error, ExecError::ProgramNotFound { program } if program == "no-such-program-here"));
    let launch = Launch::shell("true", world.work().join("missing"), world.env.clone());
    let error = run(launch, None, &quiet).await.unwrap_err();
    assert!(matches!(error, ExecError::WorkDir { .. }), "{error:?}");
    std::fs::write(world.work().join("plain"), "").unwrap();
    let launch = Launch::argv(["./plain"], world.work(), world.env.clone());
    let error = run(launch, None, &quiet).await.unwrap_err();
    assert!(matches!(error, ExecError::Spawn { .. }), "{error:?}");
}

#[tokio::test]
async fn input_reaches_the_child_and_an_unread_one_does_no_harm() {
    let world = World::new();
    let quiet = CancellationToken::new();
    let input = vec![b'x'; 300_000];
    let launch = Launch {
        stdin: Some(input.clone()),
        ..world.shell("wc -c")
    };
    let exit = run(launch, None, &quiet).await.unwrap();
    assert_eq!(exit.stdout.text().trim(), "300000");
    let launch = Launch {
        stdin: Some(input),
        ..world.shell("exit 5")
    };
    assert_eq!(
        run(launch, None, &quiet).await.unwrap().status,
        ExitStatus::Exited(5)
    );
    assert_eq!(
        world.sh("cat").await.status,
        ExitStatus::Exited(0),
        "no input is an empty one"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_launches_at_once_keep_their_own_ends() {
    become_subreaper();
    let world = std::sync::Arc::new(World::new());
    let mut set = tokio::task::JoinSet::new();
    for worker in 0..4 {
        let world = world.clone();
        set.spawn(async move {
            for round in 0..25 {
                let code = worker * 25 + round;
                let exit = world
                    .sh(&format!("(setsid sleep 0.0{worker} &); echo {code}; exit {code}"))
                    .await;
                assert_eq!(exit.status, ExitStatus::Exited(code));
                assert_eq!(exit.stdout.text(), format!("{code}\n"));
                assert_eq!(exit.survivors, []);
            }
        });
    }
    let all = tokio::time::timeout(PATIENCE * 3, set.join_all()).await;
    assert_eq!(all.unwrap().len(), 4);
}

#[tokio::test]
async fn a_companion_is_no_stray_of_a_launch_and_ends_with_its_pipe() {
    become_subreaper();
    let world = World::new();
    let mark = world.work().join("ended");
    // Two launches around its start: one that runs while it starts, one that ends after.
    let (running, cancel) = (world.shell("sleep 30"), CancellationToken::new());
    let running = run(running, None, &cancel);
    tokio::pin!(running);
    assert!(
        tokio::time::timeout(Duration::from_millis(50), &mut running)
            .await
            .is_err()
    );
    let script = format!("while read -r line; do :; done; echo over > '{}'", mark.display());
    let mut companion = Companion::start("/bin/sh".as_ref(), ["-c", &script]).unwrap();
    world.sh("(setsid sleep 30 &); true").await;
    cancel.cancel();
    running.await.unwrap();
    assert!(companion.is_alive());
    let pid = companion.id().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_ascii_whitespace()
        .nth(3)
        .unwrap();
    assert_eq!(session, pid.to_string(), "it leads a session of its own");
    assert_eq!(std::fs::read(format!("/proc/{pid}/environ")).unwrap(), b"");
    assert!(companion.ended(PATIENCE).await);
    assert!(mark.exists(), "it ended by itself");
    assert_eq!(companion.id(), None);
}
