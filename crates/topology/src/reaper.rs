//! Removes what dead processes of this installation have left behind.
//!
//! Only objects with this installation's label are looked at, and only those whose owner is proved to be dead go: the
//! machine has been started anew since, or no process with the owner's number and start time runs. A topology that
//! another, living process uses stays, whoever made it. What can't be proved is kept and listed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use futures_util::future::join_all;

use crate::deploy::{Debt, DebtObject, filter_install};
use crate::engine::{Engine, EngineError, EngineErrorKind};
use crate::labels::{self, Kind, Owner};
use crate::lock::LockFolder;
use crate::process::{Life, life_of};

/// Something on the daemon that carries this installation's label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub object: DebtObject,
    /// What its label says it is.
    pub kind: String,
    /// Empty when it belongs to none.
    pub topology: String,
    /// Who made it, as far as its labels tell.
    pub owner: Option<Owner>,
    pub verdict: Verdict,
}

/// What is to happen to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Its owner is alive.
    Owned,
    /// Its owner is dead, but a living process uses the topology.
    Used,
    /// Its owner is dead.
    Lost,
    /// Whether its owner is alive can't be told; it is kept.
    Unverified,
}

/// What a sweep has seen and done.
#[derive(Debug, Clone, Default)]
pub struct SweepReport {
    pub found: Vec<Found>,
    /// What went.
    pub removed: Vec<DebtObject>,
    /// What should have gone.
    pub debts: Vec<Debt>,
    /// How many lost objects stay because another process is at work on their topology: it, or the next sweep, takes
    /// them.
    pub busy: usize,
    /// Why nothing could be looked at.
    pub error: Option<EngineError>,
}

/// Whose objects count as lost.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Dead<'a> {
    /// Those of every process that has ended.
    Proved,
    /// Those of this one, which is known to have ended, and of no other.
    Only(&'a Owner),
}

/// Looks at everything of an installation whose state is in `state_dir`, and touches nothing.
///
/// # Errors
/// Any [`EngineError`]; [`EngineErrorKind::Other`] when the state folder can't be used.
pub async fn report_in(engine: &Engine, install: &str, state_dir: &Path) -> Result<Vec<Found>, EngineError> {
    let daemon = engine.info().await?.id;
    let locks = LockFolder::open(state_dir, &daemon).map_err(|error| {
        let text = format!("{}: {error}", state_dir.display());
        EngineError::new(EngineErrorKind::Other, "open the folder of locks", text)
    })?;
    report(engine, install, &locks).await
}

/// Looks at everything of this installation, and touches nothing.
///
/// # Errors
/// Any [`EngineError`].
pub async fn report(engine: &Engine, install: &str, locks: &LockFolder) -> Result<Vec<Found>, EngineError> {
    look(engine, install, locks, Dead::Proved).await
}

/// Removes what is lost: containers with their anonymous volumes, then networks by id, then volumes.
pub async fn sweep(engine: &Engine, me: &Owner, locks: &LockFolder) -> SweepReport {
    sweep_dead(engine, &me.install, locks, Dead::Proved).await
}

pub(crate) async fn sweep_dead(
    engine: &Engine,
    install: &str,
    locks: &LockFolder,
    dead: Dead<'_>,
) -> SweepReport {
    let found = match look(engine, install, locks, dead).await {
        Ok(found) => found,
        Err(error) => {
            return SweepReport {
                error: Some(error),
                ..SweepReport::default()
            };
        }
    };
    let mut report = SweepReport {
        found,
        ..SweepReport::default()
    };
    let lost: Vec<&Found> = report
        .found
        .iter()
        .filter(|found| found.verdict == Verdict::Lost)
        .collect();
    let topologies: BTreeSet<&str> = lost.iter().map(|found| found.topology.as_str()).collect();
    let mut removed = Vec::new();
    let mut debts = Vec::new();
    let mut busy = 0;
    for topology in topologies {
        let objects = lost.iter().filter(|found| found.topology == topology);
        // Nobody may build on what goes, nor move in since we looked. Objects outside of topologies have no locks.
        let (site, unused) = match topology {
            "" => (None, None),
            name => (
                locks.try_site(name).ok().flatten(),
                locks.try_unused(name).ok().flatten(),
            ),
        };
        let free = topology.is_empty() || site.is_some() && unused.is_some();
        let (going, staying): (Vec<&&Found>, Vec<_>) =
            objects.partition(|found| free || !shared(&found.kind));
        busy += staying.len();
        let going = going.into_iter().map(|found| found.object.clone()).collect();
        for object in remove(engine, install, topology, going).await {
            match object {
                Ok(object) => removed.push(object),
                Err(debt) => debts.push(debt),
            }
        }
    }
    report.removed = removed;
    report.debts = debts;
    report.busy = busy;
    report
}

/// Containers first, all at once; what they held can go after them.
async fn remove(
    engine: &Engine,
    install: &str,
    topology: &str,
    objects: Vec<DebtObject>,
) -> Vec<Result<DebtObject, Debt>> {
    let (containers, rest): (Vec<_>, Vec<_>) = objects
        .into_iter()
        .partition(|object| matches!(object, DebtObject::Container { .. }));
    let mut results = Vec::new();
    for group in [containers, rest] {
        let pays = group.into_iter().map(|object| async move {
            let debt = Debt {
                install: install.to_owned(),
                topology: topology.to_owned(),
                object: object.clone(),
                // The locks are held, where there are any.
                shared: false,
                why: String::new(),
            };
            debt.pay(engine).await.map_or(Ok(object), Err)
        });
        results.extend(join_all(pays).await);
    }
    results
}

async fn look(
    engine: &Engine,
    install: &str,
    locks: &LockFolder,
    dead: Dead<'_>,
) -> Result<Vec<Found>, EngineError> {
    let filter = filter_install(install);
    let (containers, networks, volumes) = tokio::try_join!(
        engine.list_containers(&filter),
        engine.list_networks(&filter),
        engine.list_volumes(&filter)
    )?;
    let containers = containers.into_iter().map(|row| {
        (
            DebtObject::Container {
                id: row.id,
                name: row.name,
            },
            row.labels,
        )
    });
    let networks = networks.into_iter().map(|row| {
        (
            DebtObject::Network {
                id: row.id,
                name: row.name,
            },
            row.labels,
        )
    });
    let volumes = volumes
        .into_iter()
        .map(|row| (DebtObject::Volume { name: row.name }, row.labels));
    let mut judge = Judge {
        locks,
        dead,
        used: HashMap::new(),
    };
    let all = containers.chain(networks).chain(volumes);
    Ok(all.map(|(object, labels)| judge.found(object, &labels)).collect())
}

/// Whether other processes than the owner may use an object: a case's browser is its owner's alone.
fn shared(kind: &str) -> bool {
    matches!(
        Kind::parse(kind),
        Some(Kind::Store | Kind::Service | Kind::Network | Kind::Volume)
    )
}

struct Judge<'a> {
    locks: &'a LockFolder,
    dead: Dead<'a>,
    /// By topology, whether a living process uses it.
    used: HashMap<String, bool>,
}

impl Judge<'_> {
    fn found(&mut self, object: DebtObject, labels: &BTreeMap<String, String>) -> Found {
        let text = |name: &str| labels.get(name).cloned().unwrap_or_default();
        let (kind, topology) = (text(labels::KIND), text(labels::TOPOLOGY));
        let owner: HashMap<String, String> = labels.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        let owner = Owner::from_labels(&owner);
        let verdict = match self.life(owner.as_ref()) {
            Life::Alive => Verdict::Owned,
            Life::Unknown => Verdict::Unverified,
            Life::Dead if shared(&kind) && self.is_used(&topology) => Verdict::Used,
            Life::Dead => Verdict::Lost,
        };
        Found {
            object,
            kind,
            topology,
            owner,
            verdict,
        }
    }

    fn life(&self, owner: Option<&Owner>) -> Life {
        let Some(owner) = owner else { return Life::Unknown };
        match self.dead {
            Dead::Proved => life_of(owner),
            Dead::Only(dead) if dead == owner => Life::Dead,
            Dead::Only(_) => Life::Alive,
        }
    }

    fn is_used(&mut self, topology: &str) -> bool {
        if topology.is_empty() {
            return false;
        }
        let locks = self.locks;
        // A lock that can't be asked proves nothing.
        let ask = || !matches!(locks.try_unused(topology), Ok(Some(_)));
        *self.used.entry(topology.to_owned()).or_insert_with(ask)
    }
}
