//! What a case declares that its containers reach.

use everdict_contracts::{EvalCase, Fault, NetworkMode};

use super::Reach;
use super::hosts::{self, Host, Resolved};
use crate::engine::{Engine, EngineError};

/// Where the policy is in a job.
const PLACE: &str = "evalCase.network";

/// A case's network policy, as far as it can be judged without a daemon. Without one the public internet is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaseNetwork(pub(crate) Wanted);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The internet, without what is near the machine.
    #[default]
    Public,
    None,
    Only(Vec<Host>),
}

/// What containers may reach, with names resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaching {
    pub(crate) reach: Reach,
    /// `name:address`, for the containers' tables of hosts.
    pub(crate) pinned: Vec<String>,
}

/// The public internet, and the peers.
impl Default for Reaching {
    fn default() -> Self {
        Self {
            reach: Reach::of_peers(),
            pinned: Vec::new(),
        }
    }
}

impl CaseNetwork {
    /// Reads the policy off a case.
    ///
    /// # Errors
    /// `BAD_REQUEST` with the place of what is no host.
    pub fn of_case(case: &EvalCase) -> Result<Self, Fault> {
        Ok(Self(match case.network.as_ref().map(|network| network.mode) {
            None | Some(NetworkMode::Public) => Wanted::Public,
            Some(NetworkMode::None) => Wanted::None,
            Some(NetworkMode::Allowlist) => {
                let declared = case.network.iter().flat_map(|network| &network.allowed_hosts);
                Wanted::Only(hosts::parse(&declared.cloned().collect::<Vec<_>>())?)
            }
        }))
    }

    /// What the members of a topology may reach for the case: each other in any case.
    ///
    /// # Errors
    /// `BAD_REQUEST` for a policy where nobody is held to one, and for a name without an address.
    pub(crate) async fn of_peers(&self, engine: &Engine) -> Result<Reaching, Fault> {
        let declared: &[Host] = match &self.0 {
            Wanted::Public => return Ok(Reaching::default()),
            Wanted::None => &[],
            Wanted::Only(declared) => declared,
        };
        self.demand(engine).await?;
        let Resolved { ranges, pinned } = hosts::resolve(declared, engine).await?;
        Ok(Reaching {
            reach: Reach {
                peers: true,
                declared: Some(ranges),
            },
            pinned,
        })
    }

    /// What a container of its own may reach for the case.
    ///
    /// # Errors
    /// As of [`Self::of_peers`].
    pub(crate) async fn alone(&self, engine: &Engine) -> Result<Reaching, Fault> {
        let Wanted::Only(declared) = &self.0 else {
            // Without a network there is nobody to be held back from.
            return Ok(Reaching {
                reach: Reach::alone(None),
                pinned: Vec::new(),
            });
        };
        self.demand(engine).await?;
        let Resolved { ranges, pinned } = hosts::resolve(declared, engine).await?;
        Ok(Reaching {
            reach: Reach::alone(Some(ranges)),
            pinned,
        })
    }

    async fn demand(&self, engine: &Engine) -> Result<(), Fault> {
        let egress = engine.egress().await.map_err(EngineError::into_fault)?;
        egress.demand(PLACE)
    }
}
