//! Brings up one container of a topology.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::Duration;

use bollard::models::ContainerCreateBody;
use everdict_contracts::{ErrorCode, Fault, StoreKind};

use super::Site;
use super::body::{self, Common};
use crate::egress::{Fenced, unenforced, unfenced};
use crate::engine::{ContainerView, EngineError, EngineErrorKind, RunState};
use crate::labels;
use crate::plan::{ReadinessPlan, ServicePlan, StorePlan, StoreReadiness};
use crate::readiness::{Blame, Probe, Ready, Wait, answers_now, until_ready};
use crate::stores::kind_name;

/// How often a start is tried when the port that the daemon picked was taken in the meantime.
const PORT_TRIES: u32 = 3;

/// Before the next try: the daemon picks another port each time, so this only lets a burst pass.
const PORT_PAUSE: Duration = Duration::from_millis(100);

/// A store or a service.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Member<'p> {
    Store(&'p StorePlan),
    Service(&'p ServicePlan),
}

/// A member whose container is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) id: String,
    /// Whether it is a store on a prepared database.
    pub(super) prepared: bool,
}

/// A member that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Up {
    pub(crate) name: String,
    pub(crate) container: String,
    pub(crate) id: String,
    /// Of a service with a port: its host port.
    pub(crate) port: Option<u16>,
}

impl Member<'_> {
    pub(crate) fn container(&self) -> &str {
        match self {
            Self::Store(plan) => &plan.container,
            Self::Service(plan) => &plan.container,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Store(plan) => kind_name(plan.kind),
            Self::Service(plan) => &plan.name,
        }
    }

    fn what(&self) -> String {
        match self {
            Self::Store(plan) => format!("store {}", kind_name(plan.kind)),
            Self::Service(plan) => format!("service {}", plan.name),
        }
    }

    fn path(&self) -> &str {
        match self {
            Self::Store(plan) => &plan.path,
            Self::Service(plan) => &plan.path,
        }
    }

    fn port(&self) -> Option<u16> {
        match self {
            Self::Store(_) => None,
            Self::Service(plan) => plan.port,
        }
    }

    fn budget(&self) -> ReadinessPlan {
        match self {
            Self::Store(plan) => plan.budget,
            Self::Service(plan) => plan.readiness,
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::Store(_) => Blame::Machine,
            Self::Service(_) => Blame::Harness,
        }
    }

    /// Whether it does no harm if its first moments come twice: a one-shot or a service that keeps files is for once.
    pub(super) fn may_start_twice(&self) -> bool {
        match self {
            Self::Store(_) => false,
            Self::Service(plan) => plan.port.is_some() && plan.mounts.is_empty(),
        }
    }

    fn fault(&self, error: EngineError) -> Fault {
        let fault = error.into_fault();
        Fault::new(
            fault.code,
            format!("{} ({}): {}", self.what(), self.path(), fault.message),
        )
    }

    fn may_finish(&self) -> bool {
        match self {
            Self::Store(_) => false,
            Self::Service(plan) => plan.may_finish,
        }
    }

    fn body(&self, common: &Common<'_>) -> ContainerCreateBody {
        match self {
            Self::Store(plan) => body::store(common, plan),
            Self::Service(plan) => body::service(common, plan),
        }
    }
}

impl Site<'_> {
    /// Starts the member's container. [`Site::hold`] is to follow.
    pub(super) async fn launch(&self, member: Member<'_>, id: &str) -> Result<(), Fault> {
        self.start(id).await.map_err(|error| member.fault(error))
    }

    /// Starts it anew, because it has begun too early. [`Site::hold`] is to follow.
    pub(super) async fn relaunch(&self, member: Member<'_>, id: &str) -> Result<(), Fault> {
        let restarted = self.engine.restart_container(id).await;
        restarted.map_err(|error| member.fault(error))?;
        self.engine.keep_still(id).await;
        Ok(())
    }

    /// Holds a container that has just been started to what it may reach, and lets it run.
    pub(crate) async fn hold(&self, id: &str) -> Result<ContainerView, Fault> {
        let view = self.engine.inspect_container(id).await;
        let view = view.map_err(EngineError::into_fault)?;
        self.fence(&view).await?;
        self.engine.let_go(&view).await.map_err(EngineError::into_fault)?;
        Ok(view)
    }

    /// Waits until a container that runs is ready.
    pub(super) async fn await_ready(&self, member: Member<'_>, id: &str) -> Result<Up, Fault> {
        let view = self
            .engine
            .inspect_container(id)
            .await
            .map_err(EngineError::into_fault)?;
        // A container that has ended already has lost its port and its address, and the wait tells why.
        let probe = match (view.state, self.probe(member, &view)) {
            (RunState::Running, Some(probe)) => probe,
            (RunState::Running, None) => return Err(unpublished(member)),
            _ => Probe::Settled { needed: false },
        };
        self.wait(member, id, &probe).await?;
        Ok(up(member, &view))
    }

    /// Holds a container to what it may reach. Where that can't be done the log says so, and a case with a policy of its
    /// own ends: it would be another one.
    async fn fence(&self, view: &ContainerView) -> Result<(), Fault> {
        let reach = &self.plan.network.reach;
        match self.engine.fence(view, reach).await {
            Fenced::Yes => Ok(()),
            Fenced::No(why) if reach.is_strict() => Err(unfenced(&view.name, &why)),
            Fenced::No(why) => {
                if !self.told_unfenced.swap(true, Ordering::Relaxed) {
                    self.note(&unenforced(&why));
                }
                Ok(())
            }
        }
    }

    async fn wait(&self, member: Member<'_>, id: &str, probe: &Probe) -> Result<(), Fault> {
        let what = member.what();
        let ready = until_ready(&Wait {
            engine: self.engine,
            container: id,
            what: &what,
            probe,
            blame: member.blame(),
            may_finish: member.may_finish(),
            budget: member.budget().timeout,
            interval: member.budget().interval,
            cancel: &self.cancel,
        })
        .await;
        match ready {
            Ok(Ready::Up) => self.note(&format!("{what} is ready")),
            Ok(Ready::Finished) => self.note(&format!("{what} has finished")),
            Err(not_ready) => return Err(not_ready.into_fault()),
        }
        Ok(())
    }

    /// Takes a running container over if it does its work. One that doesn't is nobody's loss, unless somebody uses it:
    /// then it is waited for, like one that is new.
    pub(crate) async fn take_over(&self, member: Member<'_>, id: &str) -> Result<Option<Up>, Fault> {
        let view = match self.engine.inspect_container(id).await {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other.map_err(EngineError::into_fault)?,
        };
        if view.state == RunState::Running {
            let Some(probe) = self.probe(member, &view) else {
                return Ok(None);
            };
            // Whoever made it may have had other settings, or not the means, or died between the two.
            self.fence(&view).await?;
            self.engine.let_go(&view).await.map_err(EngineError::into_fault)?;
            if !answers_now(self.engine, id, &probe).await {
                if !self.in_use {
                    return Ok(None);
                }
                self.wait(member, id, &probe).await?;
            }
        }
        Ok(Some(up(member, &view)))
    }

    /// Creates the member's container. A stale one of the same name goes first.
    pub(super) async fn create(&self, member: Member<'_>) -> Result<Made, Fault> {
        let common = Common {
            network: &self.network,
            labels: &self.plan.labels,
            pinned: &self.plan.network.pinned,
        };
        let mut body = member.body(&common);
        let mut prepared = match member {
            Member::Store(plan) => self.prepared(plan).await,
            Member::Service(_) => None,
        };
        if let Some(prepared) = &prepared {
            prepared.apply(&mut body);
        }
        let name = member.container();
        let id = match self.engine.create_container(name, body.clone()).await {
            Err(error) if error.kind == EngineErrorKind::NameTaken => {
                self.clear_name(name).await?;
                self.engine.create_container(name, body).await
            }
            // The prepared image went between two calls, as `gc` may have it.
            Err(error) if error.kind == EngineErrorKind::NoSuchImage && prepared.take().is_some() => {
                self.engine.create_container(name, member.body(&common)).await
            }
            other => other,
        };
        let id = id.map_err(|error| member.fault(error))?;
        self.created(&id);
        Ok(Made {
            id,
            prepared: prepared.is_some(),
        })
    }

    /// Removes the container that stands in the way of `name`, if it is provably this installation's.
    pub(crate) async fn clear_name(&self, name: &str) -> Result<(), Fault> {
        let view = match self.engine.inspect_container(name).await {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other.map_err(EngineError::into_fault)?,
        };
        if view.labels.get(labels::INSTALL) != self.plan.labels.get(labels::INSTALL) {
            let text =
                format!("a container named {name} exists and isn't this runner's: remove or rename it");
            return Err(Fault::new(ErrorCode::DriverProvisionFailed, text));
        }
        self.engine
            .remove_container(&view.id)
            .await
            .map_err(EngineError::into_fault)
    }

    /// Starts a container, again when the port that the daemon picked is gone. [`Site::hold`] is to follow.
    pub(crate) async fn start(&self, id: &str) -> Result<(), EngineError> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.engine.start_container(id).await {
                Err(error) if error.kind == EngineErrorKind::PortTaken && tries < PORT_TRIES => {
                    tokio::time::sleep(PORT_PAUSE).await;
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    self.engine.keep_still(id).await;
                    return Ok(());
                }
            }
        }
    }

    fn probe(&self, member: Member<'_>, view: &ContainerView) -> Option<Probe> {
        match member {
            Member::Store(plan) => Some(store_probe(plan, self.direct(view))),
            Member::Service(plan) => match plan.port {
                Some(port) => {
                    let address = SocketAddr::new(IpAddr::from([127, 0, 0, 1]), *view.ports.get(&port)?);
                    Some(Probe::Service { address })
                }
                None => Some(Probe::Settled { needed: plan.needed }),
            },
        }
    }

    /// The container's address, if packets get there from here: with an engine in a virtual machine they don't. The
    /// bridge is on this machine exactly when its gateway's address is.
    fn direct(&self, view: &ContainerView) -> Option<IpAddr> {
        let gateway = view.gateways.get(&self.network)?;
        UdpSocket::bind(SocketAddr::new(*gateway, 0)).ok()?;
        view.addresses.get(&self.network).copied()
    }
}

fn up(member: Member<'_>, view: &ContainerView) -> Up {
    Up {
        name: member.name().to_owned(),
        container: member.container().to_owned(),
        id: view.id.clone(),
        port: member.port().and_then(|port| view.ports.get(&port).copied()),
    }
}

fn unpublished(member: Member<'_>) -> Fault {
    let text = format!("{}: the docker daemon didn't publish its port", member.what());
    Fault::new(ErrorCode::DriverProvisionFailed, text)
}

fn store_probe(plan: &StorePlan, direct: Option<IpAddr>) -> Probe {
    let user = plan.env.get("POSTGRES_USER").unwrap_or("postgres");
    let argv = |words: &[&str]| Probe::Exec {
        argv: words.iter().map(ToString::to_string).collect(),
    };
    match (&plan.readiness, direct) {
        (StoreReadiness::PostgresWire { port }, Some(ip)) => Probe::Postgres {
            address: SocketAddr::new(ip, *port),
            user: user.to_owned(),
        },
        (StoreReadiness::RedisPing { port }, Some(ip)) => Probe::Redis {
            address: SocketAddr::new(ip, *port),
        },
        (StoreReadiness::Http { port, path }, Some(ip)) => Probe::HttpOk {
            address: SocketAddr::new(ip, *port),
            path: (*path).to_owned(),
        },
        // Over TCP on purpose: the socket answers while a temporary server initialises the data.
        (StoreReadiness::PostgresWire { .. }, None) => argv(&["pg_isready", "-h", "127.0.0.1", "-U", user]),
        (StoreReadiness::RedisPing { .. }, None) => argv(&["redis-cli", "ping"]),
        (StoreReadiness::Http { .. }, None) => match plan.kind {
            StoreKind::Minio => argv(&["mc", "ready", "local"]),
            StoreKind::Postgres | StoreKind::Redis => Probe::Settled { needed: false },
        },
    }
}
