//! One owner's looks into the shared queue: who is asked for, and what becomes of what was found.

use std::collections::HashSet;
use std::sync::Arc;

use everdict_contracts::{JobId, RunnerId};
use everdict_store::{Claim, RunStatus};

use super::shared::{PAUSE, SEATS, SharedDesk, names};
use super::{Desk, Granted};
use crate::clock;
use crate::queue::{CapSet, Effect, Member, Owner, Token, WaiterId};
use crate::shared::Hubbed;

/// What one round of looks is about.
struct Round {
    fresh: HashSet<WaiterId>,
    pool: bool,
    pinned: HashSet<RunnerId>,
    /// Where the next look takes up.
    after: Option<WaiterId>,
    /// Capabilities for which the pool has nothing left.
    short: HashSet<Option<CapSet>>,
}

/// Those who are asked about in one look.
struct Asked {
    waiters: Vec<WaiterId>,
    who: Vec<(Member, Option<CapSet>)>,
}

/// Looks for jobs of one owner until there is no reason left.
pub(super) async fn look(hub: Hubbed, owner: Owner) {
    let Desk::Shared(desk) = &hub.desk else {
        return;
    };
    while let Some(mut round) = desk.begin(&owner) {
        while let Some(asked) = desk.ask_next(&owner, &mut round) {
            let seats: Vec<_> = asked
                .who
                .iter()
                .map(|(who, caps)| everdict_store::Seat {
                    runner: who.runner.to_string(),
                    caps: caps.map(names),
                })
                .collect();
            let ttl = desk.limits.lease_ttl;
            match desk
                .store
                .claim(&owner.to_string(), &seats, clock::now(), ttl)
                .await
            {
                Ok(claims) => {
                    let outcome = desk.deliver(&hub, &owner, &asked, claims);
                    let short = asked.who.iter().enumerate();
                    let short = short.filter(|(seat, _)| !outcome.served.contains(seat));
                    round.short.extend(short.map(|(_, (_, caps))| *caps));
                    desk.settle(&hub, &asked, outcome).await;
                }
                Err(error) => {
                    {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(error, "jobs could not be looked for; trying again");
                    }
                    desk.keep_reasons(&owner, round);
                    tokio::time::sleep(PAUSE).await;
                    break;
                }
            }
        }
    }
}

impl SharedDesk {
    /// Takes the reasons to look; `None`, and nobody looks any more, when there are none.
    fn begin(&self, owner: &Owner) -> Option<Round> {
        let mut inner = self.inner();
        let crowd = inner.crowds.get_mut(owner)?;
        if !crowd.has_reason() {
            crowd.looking = false;
            if crowd.waiting.is_empty() {
                inner.crowds.remove(owner);
            }
            return None;
        }
        crowd.looking = true;
        Some(Round {
            fresh: std::mem::take(&mut crowd.fresh),
            pool: std::mem::take(&mut crowd.pool),
            pinned: std::mem::take(&mut crowd.pinned),
            after: None,
            short: HashSet::new(),
        })
    }

    fn keep_reasons(&self, owner: &Owner, round: Round) {
        if let Some(crowd) = self.inner().crowds.get_mut(owner) {
            crowd.waiting.retain(|_, one| one.stays);
            crowd.fresh.extend(round.fresh);
            crowd.pinned.extend(round.pinned);
            crowd.pool |= round.pool;
        }
    }

    /// The next callers to look for, those who have waited longest first.
    fn ask_next(&self, owner: &Owner, round: &mut Round) -> Option<Asked> {
        let inner = self.inner();
        let crowd = inner.crowds.get(owner)?;
        let from = round
            .after
            .map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let mut asked = Asked {
            waiters: Vec::new(),
            who: Vec::new(),
        };
        for (waiter, one) in crowd.waiting.range((from, std::ops::Bound::Unbounded)) {
            let due = round.fresh.contains(waiter)
                || round.pinned.contains(&one.who.runner)
                || (round.pool && !round.short.contains(&one.caps));
            if due {
                asked.waiters.push(*waiter);
                asked.who.push((one.who.clone(), one.caps));
                if asked.waiters.len() == SEATS {
                    break;
                }
            }
        }
        round.after = asked.waiters.last().copied().or(round.after);
        (!asked.waiters.is_empty()).then_some(asked)
    }
}

/// What came of one look, apart from the jobs that reached their callers.
#[derive(Default)]
struct Outcome {
    served: HashSet<usize>,
    undelivered: Vec<(Member, Token)>,
    lacking: Vec<Effect>,
}

impl SharedDesk {
    async fn settle(self: &Arc<Self>, hub: &Hubbed, asked: &Asked, outcome: Outcome) {
        for (who, token) in &outcome.undelivered {
            self.give_back(who, token);
        }
        for seat in outcome.served {
            let (who, caps) = &asked.who[seat];
            self.note(who, *caps);
        }
        hub.carry_out_now(outcome.lacking).await;
    }

    /// Hands the jobs to those they were claimed for, and dismisses those who got none and do not wait.
    fn deliver(&self, hub: &Hubbed, owner: &Owner, asked: &Asked, claims: Vec<Claim>) -> Outcome {
        let mut outcome = Outcome::default();
        let mut inner = self.inner();
        let mut crowd = inner.crowds.get_mut(owner);
        for claim in claims {
            match claim {
                Claim::Job {
                    seat,
                    run,
                    epoch,
                    text,
                } => {
                    let who = &asked.who[seat].0;
                    outcome.served.insert(seat);
                    hub.live.show_status(&run, RunStatus::Running);
                    let token = Token {
                        job: JobId::from(run),
                        epoch,
                        runner: who.runner.clone(),
                    };
                    let text = Some(Arc::from(text));
                    let waiting = crowd
                        .as_mut()
                        .and_then(|crowd| crowd.waiting.remove(&asked.waiters[seat]));
                    let granted = Granted { token, text };
                    let refused = match waiting {
                        Some(waiting) => waiting.seat.send(granted).err(),
                        None => Some(granted),
                    };
                    let undelivered = refused.map(|granted| (who.clone(), granted.token));
                    outcome.undelivered.extend(undelivered);
                }
                Claim::Lacking { seat, run, needs } => {
                    let (who, caps) = &asked.who[seat];
                    outcome.lacking.push(Effect::Mismatch {
                        job: JobId::from(run),
                        runner: who.runner.clone(),
                        missing: CapSet::from_names(&needs).missing_from(caps.unwrap_or_default()),
                    });
                }
            }
        }
        for (seat, waiter) in asked.waiters.iter().enumerate() {
            if !outcome.served.contains(&seat)
                && let Some(crowd) = crowd.as_mut()
                && crowd.waiting.get(waiter).is_some_and(|one| !one.stays)
            {
                crowd.waiting.remove(waiter);
            }
        }
        outcome
    }
}
