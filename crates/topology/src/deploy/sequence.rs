//! The order in which the members of a topology are made.
//!
//! A service starts when all stores are ready, and when those that it needs are. What costs time is the start call
//! itself, half a second of setting up a sandbox before the first instruction of the service runs. So where stores are
//! known to be ready within a tenth of a second, the first services' start calls overlap with that; and should a store
//! have taken longer after all, those services are started anew, so that what runs in the end has begun after the stores.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use everdict_contracts::{ErrorCode, Fault, StoreKind};
use futures_util::future::join_all;
use tokio::time::Instant;

use super::Site;
use super::member::{Made, Member, Up};

/// How much later than the first instruction of a container its start call may return.
const START_RETURNS_AFTER: Duration = Duration::from_millis(100);

impl Site<'_> {
    /// Makes what isn't there: all containers at once, then the stores start, then the services wave by wave.
    #[expect(clippy::too_many_lines, reason = "one sequence whose order is its meaning")]
    pub(super) async fn make_missing(&self, mut done: BTreeMap<String, Up>) -> Result<Vec<Up>, Fault> {
        let missing = |member: &Member<'_>| !done.contains_key(member.container());
        let stores: Vec<Member<'_>> = self
            .plan
            .stores
            .iter()
            .map(Member::Store)
            .filter(missing)
            .collect();
        let service = |index: &usize| self.plan.services.get(*index).map(Member::Service);
        let waves = self
            .plan
            .waves
            .iter()
            .map(|wave| wave.iter().filter_map(service).filter(missing).collect());
        let waves: Vec<Vec<Member<'_>>> = waves.collect();
        let all: Vec<Member<'_>> = stores.iter().chain(waves.iter().flatten()).copied().collect();

        let made = self
            .at_once(all.iter().map(|member| self.create(*member)))
            .await?;
        let made: BTreeMap<&str, Made> = all.iter().map(Member::container).zip(made).collect();
        let of = |member: &Member<'_>| &made[member.container()];
        self.at_once(stores.iter().map(|member| self.launch(*member, &of(member).id)))
            .await?;

        let quick = stores.iter().all(|member| starts_quickly(*member, of(member)));
        let first = waves.iter().find(|wave| !wave.is_empty());
        let early: Vec<Member<'_>> = match first {
            Some(wave) if quick && !stores.is_empty() => {
                wave.iter().copied().filter(Member::may_start_twice).collect()
            }
            _ => Vec::new(),
        };
        let ready = async {
            let ups = self
                .at_once(
                    stores
                        .iter()
                        .map(|member| self.hold_and_await(*member, &of(member).id)),
                )
                .await;
            ups.map(|ups| (ups, Instant::now()))
        };
        let launched = self.at_once(early.iter().map(|member| async {
            let id = &of(member).id;
            self.launch(*member, id).await?;
            let begun = Instant::now();
            self.hold(id).await.map(|_| begun)
        }));
        let (ready, launched) = tokio::join!(ready, launched);
        let ((ups, ready), launched) = both(ready, launched)?;
        done.extend(ups.into_iter().map(|up| (up.container.clone(), up)));
        let hasty = early
            .iter()
            .zip(launched)
            .filter(|(_, at)| *at < ready + START_RETURNS_AFTER);
        self.at_once(hasty.map(|(member, _)| async {
            let id = &of(member).id;
            self.relaunch(*member, id).await?;
            self.hold(id).await
        }))
        .await?;

        for wave in &waves {
            let ups = self.at_once(wave.iter().map(|member| async {
                let id = &of(member).id;
                if early.iter().any(|one| one.container() == member.container()) {
                    return self.await_ready(*member, id).await;
                }
                self.launch(*member, id).await?;
                self.hold_and_await(*member, id).await
            }));
            done.extend(ups.await?.into_iter().map(|up| (up.container.clone(), up)));
        }
        Ok(done.into_values().collect())
    }

    async fn hold_and_await(&self, member: Member<'_>, id: &str) -> Result<Up, Fault> {
        self.hold(id).await?;
        self.await_ready(member, id).await
    }

    /// Runs steps at once. The first that fails stops the others at their next step, and its fault is the one that is
    /// told.
    async fn at_once<T>(
        &self,
        steps: impl Iterator<Item = impl Future<Output = Result<T, Fault>>>,
    ) -> Result<Vec<T>, Fault> {
        let first = Mutex::new(None);
        let runs = steps.map(|step| async {
            let result = match self.still_wanted() {
                Ok(()) => step.await,
                Err(fault) => Err(fault),
            };
            if let Err(fault) = &result {
                let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert_with(|| fault.clone());
                self.cancel.cancel();
            }
            result
        });
        let results: Result<Vec<T>, Fault> = join_all(runs).await.into_iter().collect();
        let first = first.into_inner().unwrap_or_else(PoisonError::into_inner);
        first.map_or(results, Err)
    }
}

/// Of two faults tells the one that isn't the other's consequence.
fn both<A, B>(one: Result<A, Fault>, other: Result<B, Fault>) -> Result<(A, B), Fault> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Err(one), Err(other)) => Err(if one.code == ErrorCode::Cancelled {
            other
        } else {
            one
        }),
        (Err(fault), Ok(_)) | (Ok(_), Err(fault)) => Err(fault),
    }
}

/// Whether a store is ready within a tenth of a second of its start.
fn starts_quickly(member: Member<'_>, made: &Made) -> bool {
    match member {
        Member::Store(plan) => match plan.kind {
            StoreKind::Redis => true,
            StoreKind::Postgres => made.prepared,
            StoreKind::Minio => false,
        },
        Member::Service(_) => false,
    }
}
