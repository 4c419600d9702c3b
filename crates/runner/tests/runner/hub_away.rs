//! What the runner shows, and how it keeps trying, when the hub does not serve it.

use std::cell::Cell;

use crate::world::{World, end, job, passing, until};
use everdict_contracts::Capability;
use everdict_runner_core::capabilities::ContainerOffer;
use everdict_runner_core::{OfflineCause, RunnerSnapshot, RunnerState};
use everdict_testkit::{Fault, ScriptedHub};

#[tokio::test]
async fn a_401_on_a_fresh_session_is_revoked_not_retried_for_ever() {
    let world = World::new().await;
    let handle = world.start(passing());
    world
        .hub
        .until("the poll waits", |hub| hub.waiting_polls() == 1)
        .await;
    world.hub.revoke_token();
    // The poll that is waiting still gets the job; its report is the first call that is refused.
    world.hub.enqueue(job("c1"));
    let seen = until(&handle, "the report is given up", |seen| {
        seen.counters.undelivered == 1
    })
    .await;
    assert!(
        matches!(seen.state, RunnerState::Revoked { .. }),
        "{:?}",
        seen.state
    );
    // From here on it asks only when it is told to, whatever the poll interval of 20 ms.
    let (last, same) = (Cell::new(0), Cell::new(0));
    world
        .hub
        .until("it is quiet", |hub| {
            let now = hub.rejected_tokens();
            same.set(if now == last.replace(now) {
                same.get() + 1
            } else {
                0
            });
            same.get() >= 10
        })
        .await;
    let mut rejected = world.hub.rejected_tokens();
    for _ in 0..3 {
        handle.try_now();
        world
            .hub
            .until("it asked", |hub| hub.rejected_tokens() > rejected)
            .await;
        rejected += 1;
        assert_eq!(world.hub.rejected_tokens(), rejected);
    }
    end(handle).await;
}

#[tokio::test]
async fn captive_portal_html_is_told_and_healing_is_noticed() {
    let world = World::new().await;
    for _ in 0..3 {
        world.hub.arm("initialize", Fault::Html);
    }
    let handle = world.start(passing());
    let seen = until(&handle, "the portal shows", |seen| {
        matches!(
            &seen.state,
            RunnerState::Offline {
                cause: OfflineCause::NotAHub,
                ..
            }
        )
    })
    .await;
    let RunnerState::Offline { detail, .. } = seen.state else {
        unreachable!("just matched")
    };
    assert!(detail.contains("Sign in"), "{detail}");
    until(&handle, "it heals", |seen| seen.state == RunnerState::Idle).await;
    end(handle).await;
}

#[tokio::test]
async fn an_outdated_runner_says_so_and_stops_polling() {
    let world = World::new().await;
    world.hub.require_update();
    let handle = world.start(passing());
    until(&handle, "it shows", |seen| {
        seen.state
            == RunnerState::UpdateRequired {
                server_protocol: Some(3),
            }
    })
    .await;
    assert_eq!(world.hub.calls_of("lease_job").len(), 1);
    end(handle).await;
}

#[tokio::test]
async fn a_hub_that_does_not_wait_is_not_hammered() {
    let world = World::new().await;
    let handle = world.start_as(passing(), |config| {
        config.wait_ms = 0;
        config.poll_interval_ms = 60_000;
    });
    // Three replies are free; then 10, 20, 40, … ms at the least, so ten more take over five seconds.
    world
        .hub
        .until("the free polls are used", |hub| {
            hub.calls_of("lease_job").len() >= 6
        })
        .await;
    let polls = world.hub.calls_of("lease_job");
    let gaps: Vec<_> = polls.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    assert!(gaps[4] >= std::time::Duration::from_millis(20), "{gaps:?}");
    end(handle).await;
}

#[tokio::test]
async fn a_refused_lease_backs_off_and_goes_on() {
    let world = World::new().await;
    world.hub.arm(
        "lease_job",
        Fault::Refuse("FORBIDDEN: runner credentials required.".to_owned()),
    );
    let handle = world.start(passing());
    let job_id = world.hub.enqueue(job("c1"));
    world
        .hub
        .until("the result is in", |hub| {
            hub.lease(&job_id).is_some_and(|lease| lease.result.is_some())
        })
        .await;
    end(handle).await;
}

#[tokio::test]
async fn an_unusable_url_or_token_is_an_error_at_the_start() {
    use everdict_runner_core::{Runner, RunnerConfig};
    everdict_runner_core::session::install_crypto();
    let env = std::sync::Arc::new(everdict_exec::HostEnv::default());
    for (url, token) in [("localhost:8787", "rnr_x"), ("http://h", "rnr_\n")] {
        let config = RunnerConfig::new(url, token.into(), "0", env.clone(), "/nonexistent");
        assert!(Runner::start(config).is_err(), "{url}");
    }
}

#[tokio::test]
async fn only_what_this_build_can_honour_is_offered() {
    let world = World::new().await;
    let handle = world.start(passing());
    world
        .hub
        .until("the poll waits", |hub| hub.waiting_polls() == 1)
        .await;
    let offered = world.hub.calls_of("lease_job")[0].args["capabilities"].clone();
    for word in offered.as_array().unwrap() {
        assert!(!matches!(
            word.as_str().unwrap(),
            "docker" | "browser" | "computer-use" | "topology"
        ));
    }
    let shown = handle.snapshot().borrow().capabilities.clone();
    assert!(
        shown
            .entries
            .iter()
            .any(|entry| entry.reason.contains("without a container engine"))
    );
    end(handle).await;
}

#[tokio::test]
async fn each_lease_says_what_the_engine_can_do_by_then() {
    let world = World::new().await;
    let (tell, containers) = tokio::sync::watch::channel(ContainerOffer::Ready("here".to_owned()));
    let handle = world.start_as(passing(), |config| {
        config.containers = Some(containers);
        config.wait_ms = 50;
    });
    let last = |wanted: bool| {
        move |hub: &ScriptedHub| {
            let calls = hub.calls_of("lease_job");
            calls.last().is_some_and(|call| {
                let words = call.args["capabilities"].as_array().unwrap();
                ["docker", "browser"]
                    .iter()
                    .all(|word| words.contains(&(*word).into()) == wanted)
            })
        }
    };
    world
        .hub
        .until("docker and a browser are offered", last(true))
        .await;
    tell.send_replace(ContainerOffer::HeldBack("disk low".to_owned()));
    world.hub.until("a full disk withdraws them", last(false)).await;
    let held = |snapshot: &RunnerSnapshot| {
        snapshot
            .capabilities
            .entries
            .iter()
            .any(|entry| entry.reason == "disk low")
    };
    until(&handle, "the snapshot says why", held).await;
    tell.send_replace(ContainerOffer::Ready("here".to_owned()));
    world.hub.until("they are offered again", last(true)).await;
    handle.switch_off([Capability::Docker, Capability::Browser].into());
    world
        .hub
        .until("the member's switch withdraws them", last(false))
        .await;
    end(handle).await;
}
