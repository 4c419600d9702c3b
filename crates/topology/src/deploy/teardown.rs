use std::fmt;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout_at};

use super::survey::{Survey, filter};
use crate::engine::{ContainerRow, Engine, EngineError, EngineErrorKind, NetworkRow};

/// Between two rounds when something resists.
const ROUND_PAUSE: Duration = Duration::from_millis(200);

/// Something that could not be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Debt {
    /// Installation and topology that it belongs to.
    pub install: String,
    pub topology: String,
    pub object: DebtObject,
    /// Whether it is part of the topology itself, which cases may have moved into again since; else it is one case's
    /// alone.
    pub shared: bool,
    /// The daemon's words.
    pub why: String,
}

/// What could not be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DebtObject {
    Container {
        id: String,
        name: String,
    },
    Network {
        id: String,
        name: String,
    },
    Volume {
        name: String,
    },
    /// The daemon didn't even tell what there is.
    Everything {
        topology: String,
    },
}

impl fmt::Display for DebtObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container { name, .. } => write!(f, "container {name}"),
            Self::Network { id, name } => write!(f, "network {name} ({id})"),
            Self::Volume { name } => write!(f, "volume {name}"),
            Self::Everything { topology } => write!(f, "everything of {topology}"),
        }
    }
}

impl fmt::Display for Debt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.why)
    }
}

impl Debt {
    /// Tries once more; gives out the debt when it still stands.
    pub(crate) async fn pay(self, engine: &Engine) -> Option<Self> {
        let result = match &self.object {
            DebtObject::Container { id, .. } => engine.remove_container(id).await,
            DebtObject::Network { id, .. } => engine.remove_network(id).await,
            DebtObject::Volume { name } => engine.remove_volume(name).await,
            DebtObject::Everything { .. } => {
                return tear_down(engine, &self.install, &self.topology).await.pop();
            }
        };
        let why = result.err()?.to_string();
        Some(Self { why, ..self })
    }
}

/// How long a daemon may be away before a clean-up leaves the rest to the sweep: nobody should wait for it to come back.
const AWAY_LIMIT: Duration = Duration::from_secs(2);

/// Removes things of one topology and keeps account of what resists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remover<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) install: &'a str,
    pub(crate) topology: &'a str,
}

/// Removes all that belongs to a topology, browsers included, and gives out what could not be removed.
///
/// Not to be cancelled: it has a deadline of its own, a minute as a rule. What is left after it is a debt that the sweep
/// pays, so that the next lease isn't held up.
pub(crate) async fn tear_down(engine: &Engine, install: &str, topology: &str) -> Vec<Debt> {
    let remover = Remover {
        engine,
        install,
        topology,
    };
    let all = || DebtObject::Everything {
        topology: topology.to_owned(),
    };
    // Long enough for a second try, and short of a third.
    let limit = engine.clean_up_limit();
    let deadline = Instant::now() + limit;
    let mut debts = Vec::new();
    let mut heard = Instant::now();
    let rounds = async {
        loop {
            match remover.round(&mut debts).await {
                Ok(Round::Nothing) => return,
                // A container that was being made while we looked shows in the next round.
                Ok(Round::Removed) => continue,
                Ok(Round::Resisted) => heard = Instant::now(),
                Err(error) => {
                    debts = vec![remover.debt(all(), &error)];
                    if error.kind == EngineErrorKind::Unreachable && heard.elapsed() >= AWAY_LIMIT {
                        return;
                    }
                }
            }
            sleep(ROUND_PAUSE).await;
        }
    };
    if timeout_at(deadline, rounds).await.is_err() && debts.is_empty() {
        let error = EngineError::timed_out("remove a topology", limit);
        debts.push(remover.debt(all(), &error));
    }
    debts
}

/// What one round found.
enum Round {
    Nothing,
    Removed,
    Resisted,
}

impl Remover<'_> {
    fn debt(&self, object: DebtObject, error: &EngineError) -> Debt {
        let (install, topology) = (self.install.to_owned(), self.topology.to_owned());
        Debt {
            install,
            topology,
            object,
            shared: true,
            why: error.to_string(),
        }
    }

    /// One round. Leaves in `debts` what resisted.
    async fn round(&self, debts: &mut Vec<Debt>) -> Result<Round, EngineError> {
        let filter = filter(self.install, self.topology);
        let survey = Survey::take(self.engine, self.install, self.topology);
        let (survey, volumes) = tokio::try_join!(survey, self.engine.list_volumes(&filter))?;
        if survey.containers.is_empty() && survey.networks.is_empty() && volumes.is_empty() {
            debts.clear();
            return Ok(Round::Nothing);
        }
        let mut left = self.containers(&survey.containers).await;
        left.extend(self.networks(&survey.networks).await);
        let removed = join_all(
            volumes
                .iter()
                .map(|volume| self.engine.remove_volume(&volume.name)),
        )
        .await;
        for (volume, result) in volumes.iter().zip(removed) {
            left.extend(result.err().map(|error| {
                self.debt(
                    DebtObject::Volume {
                        name: volume.name.clone(),
                    },
                    &error,
                )
            }));
        }
        *debts = left;
        Ok(if debts.is_empty() {
            Round::Removed
        } else {
            Round::Resisted
        })
    }

    /// Removes containers, all at once.
    pub(crate) async fn containers(&self, rows: &[ContainerRow]) -> Vec<Debt> {
        let removed = join_all(rows.iter().map(|row| self.engine.remove_container(&row.id))).await;
        let left = rows.iter().zip(removed).filter_map(|(row, result)| {
            let object = DebtObject::Container {
                id: row.id.clone(),
                name: row.name.clone(),
            };
            Some(self.debt(object, &result.err()?))
        });
        left.collect()
    }

    /// Removes networks, whose containers must be gone.
    pub(crate) async fn networks(&self, rows: &[NetworkRow]) -> Vec<Debt> {
        let removed = join_all(rows.iter().map(|row| self.engine.remove_network(&row.id))).await;
        let left = rows.iter().zip(removed).filter_map(|(row, result)| {
            let object = DebtObject::Network {
                id: row.id.clone(),
                name: row.name.clone(),
            };
            Some(self.debt(object, &result.err()?))
        });
        left.collect()
    }

    /// Removes containers of which only the ids are known.
    pub(crate) async fn container_ids(&self, ids: &[String]) -> Vec<Debt> {
        let removed = join_all(ids.iter().map(|id| self.engine.remove_container(id))).await;
        let left = ids.iter().zip(removed).filter_map(|(id, result)| {
            let object = DebtObject::Container {
                id: id.clone(),
                name: id.clone(),
            };
            Some(self.debt(object, &result.err()?))
        });
        left.collect()
    }
}
