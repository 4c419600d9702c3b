//! One worker: poll for a job, run it, poll again at once.

use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{LeaseArgs, PROTOCOL_VERSION};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::backoff::{Backoff, jitter};
use crate::config::os_name;
use crate::drive::{drive, fail_unreadable};
use crate::hub::Poll;
use crate::runner::{Core, Gate};
use crate::session::CallError;

/// A hub that was away must see its runners again within a minute of its return.
const ERROR_CAP: Duration = Duration::from_secs(60);
/// A revoked token stays revoked; asking at all is for the case that the hub was wrong for a while.
const REVOKED_PAUSE: Duration = Duration::from_secs(5 * 60);
/// An outdated runner is answered at once, without the wait, and an update takes minutes.
const OUTDATED_PAUSE: Duration = Duration::from_secs(60);
/// A runner that is paused at its hub is answered at once, without the wait. It is back this soon after the pause.
const PAUSED_PAUSE: Duration = Duration::from_secs(5);
/// A woken poll that loses the race for a job returns early with nothing, and must be back at once. More such replies
/// in a row are a hub, or a proxy, that does not wait.
const FREE_EARLY_REPLIES: u32 = 3;
/// First pause of a hot loop: unnoticeable for a job that comes, a thousandfold fewer calls.
const EARLY_BASE: Duration = Duration::from_millis(20);

/// Leases and runs jobs until the runner drains.
pub(crate) async fn work(core: Arc<Core>, number: usize) {
    let poll_interval = Duration::from_millis(core.config.poll_interval_ms);
    let mut errors = Backoff::new(poll_interval, ERROR_CAP);
    let early_backoff = Backoff::new(EARLY_BASE, poll_interval);
    let mut early_replies = 0_u32;
    let mut wishes = core.try_now.subscribe();
    let mut gate = core.gate.subscribe();
    let mut woken = core.woken.subscribe();
    while !core.stop.drain.is_cancelled() {
        // The sender lives in the core, so the wait ends only as asked.
        tokio::select! {
            biased;
            () = core.stop.drain.cancelled() => return,
            _ = gate.wait_for(|gate| gate.lets(number)) => {}
        }
        let asked = Instant::now();
        let args = lease_args(&core);
        // A wish during the poll asks for the next one, so only older ones are done with.
        wishes.mark_unchanged();
        woken.mark_unchanged();
        let mut end = Calling {
            number,
            gate: &mut gate,
            woken: &mut woken,
        };
        let polled = match poll(&core, &args, &mut end).await {
            Ended::ByItself(polled) => polled,
            // Called off: it ended early by our own wish.
            Ended::CalledOff(Ok(Poll::Empty) | Err(_)) => continue,
            Ended::CalledOff(polled) => polled,
        };
        if polled.is_ok() {
            errors.reset();
        }
        let pause = match polled {
            Ok(Poll::Leased(leased)) => {
                early_replies = 0;
                drive(&core, *leased).await;
                None
            }
            Ok(Poll::Unreadable { attempt, ttl, why }) => {
                fail_unreadable(&core, attempt, ttl, why).await;
                None
            }
            Ok(Poll::Empty) => {
                early_replies += 1;
                if waited(&core, asked) {
                    early_replies = 0;
                }
                early_replies
                    .checked_sub(FREE_EARLY_REPLIES + 1)
                    .map(|surplus| early_backoff.after(surplus))
            }
            Ok(Poll::UpdateRequired) => Some(jitter(OUTDATED_PAUSE)),
            Ok(Poll::Paused) => Some(jitter(PAUSED_PAUSE)),
            Err(CallError::Unauthorized { .. }) => Some(jitter(REVOKED_PAUSE)),
            Err(_) => Some(errors.next()),
        };
        if let Some(pause) = pause {
            rest(&core, &mut wishes, pause).await;
        }
    }
}

/// What calls a poll off, beside the wish to drain.
struct Calling<'a> {
    /// Of the worker.
    number: usize,
    gate: &'a mut watch::Receiver<Gate>,
    woken: &'a mut watch::Receiver<u64>,
}

/// How a poll ended.
enum Ended {
    ByItself(Result<Poll, CallError>),
    CalledOff(Result<Poll, CallError>),
}

/// Polls once. The poll is called off when no job is wanted any more, or when what it offers is no longer so: the hub
/// must not hand out by, or refuse by, what was true up to a whole poll ago.
async fn poll(core: &Core, args: &LeaseArgs, end: &mut Calling<'_>) -> Ended {
    let mut seen = core.board.subscribe();
    let mut poll = std::pin::pin!(core.hub.lease(args));
    tokio::select! {
        biased;
        // First, so that a job that arrives together with the wish to drain is run rather than left to expire.
        polled = &mut poll => return Ended::ByItself(polled),
        () = core.stop.drain.cancelled() => {}
        _ = end.gate.wait_for(|gate| !gate.lets(end.number)) => {}
        // Whoever was at the other end before a sleep has no last word.
        Ok(()) = end.woken.changed() => return Ended::CalledOff(Ok(Poll::Empty)),
        _ = seen.wait_for(|seen| Some(seen.capabilities.words()) != args.capabilities) => {}
    }
    Ended::CalledOff(core.hub.last_word(poll).await)
}

/// Whether the hub held a poll for about as long as it was asked to.
fn waited(core: &Core, asked: Instant) -> bool {
    let wait = Duration::from_millis(u64::from(core.config.wait()));
    !wait.is_zero() && asked.elapsed() * 2 >= wait
}

/// Pauses, unless the runner drains or somebody asks for a try now.
async fn rest(core: &Core, wishes: &mut watch::Receiver<u64>, pause: Duration) {
    tokio::select! {
        biased;
        () = core.stop.drain.cancelled() => {}
        _ = wishes.changed() => {}
        () = tokio::time::sleep(pause) => {}
    }
}

fn lease_args(core: &Core) -> LeaseArgs {
    let (status, level) = core.board.status();
    LeaseArgs {
        wait_ms: Some(core.config.wait()),
        capabilities: Some(core.board.offered()),
        os: Some(os_name().to_owned()),
        version: Some(core.config.version.clone()),
        protocol: Some(PROTOCOL_VERSION),
        status: Some(status),
        status_level: Some(level),
    }
}
