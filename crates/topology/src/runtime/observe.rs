//! What a topology looks like from outside: for the member, and for a case that has to explain itself.

use bytes::Bytes;
use everdict_contracts::Fault;
use futures_util::future::join_all;
use futures_util::stream::BoxStream;

use super::{DockerTopologyRuntime, TopologyLease};
use crate::engine::{ContainerView, Engine, Health, LogQuery, RunState};
use crate::labels::{self, Kind};
use crate::readiness::{Blame, NotReady, NotReadyReason};
use crate::stores::kind_name;

/// Lines of a member's log that are shown.
const LOG_LINES: u32 = 400;

/// Lines of the log of a member that has ended.
const BROKEN_LOG_LINES: u32 = 50;

/// A topology, member by member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyStatus {
    /// Where it runs.
    pub runtime: &'static str,
    /// Stores first.
    pub members: Vec<MemberStatus>,
}

impl DockerTopologyRuntime {
    /// Follows what a member prints, from its start or from now on; `None` when there is no such member or the engine
    /// doesn't let it be followed. The stream ends with the container.
    pub async fn follow_member(
        &self,
        lease: &TopologyLease,
        member: &str,
        from_start: bool,
    ) -> Option<BoxStream<'static, Bytes>> {
        let id = lease.containers().get(member).copied()?;
        let followed = if from_start {
            self.engine().follow_output(id).await
        } else {
            self.engine().follow_new_output(id).await
        };
        followed
            .inspect_err(|error| tracing::debug!(%error, member, "its output is not followed"))
            .ok()
    }
}

/// One store or service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    pub name: String,
    /// `store` or `service`.
    pub role: &'static str,
    pub image: String,
    /// Inside the topology.
    pub port: Option<u16>,
    pub running: bool,
    /// Reachable from this process.
    pub endpoint: Option<String>,
    /// Why it isn't well, when it isn't.
    pub trouble: Option<String>,
}

pub(super) async fn describe(engine: &Engine, lease: &TopologyLease) -> TopologyStatus {
    let plan = lease.plan();
    let stores = plan.stores.iter().map(|store| {
        (
            kind_name(store.kind),
            "store",
            store.image.as_str(),
            Some(store.values.port),
            false,
        )
    });
    let services = plan.services.iter().map(|service| {
        (
            service.name.as_str(),
            "service",
            service.image.as_str(),
            service.port,
            service.may_finish,
        )
    });
    let rows = stores
        .chain(services)
        .map(|(name, role, image, port, may_finish)| async move {
            let id = lease
                .containers()
                .get(name)
                .copied()
                .unwrap_or_default()
                .to_owned();
            let view = engine.inspect_container(&id).await;
            let (running, trouble) = match &view {
                Ok(view) => (view.state == RunState::Running, trouble(view, may_finish)),
                Err(error) => (false, Some(error.to_string())),
            };
            MemberStatus {
                name: name.to_owned(),
                role,
                image: image.to_owned(),
                port,
                running,
                endpoint: lease.endpoints().get(name).cloned(),
                trouble,
            }
        });
    TopologyStatus {
        runtime: "docker",
        members: join_all(rows).await,
    }
}

pub(super) async fn diagnose(engine: &Engine, lease: &TopologyLease) -> Option<String> {
    let status = describe(engine, lease).await;
    let sick = status.members.into_iter().filter_map(|member| {
        let (role, name) = (member.role, member.name);
        member.trouble.map(|trouble| format!("{role} {name} {trouble}"))
    });
    let sick: Vec<String> = sick.collect();
    (!sick.is_empty()).then(|| sick.join("; "))
}

fn trouble(view: &ContainerView, may_finish: bool) -> Option<String> {
    if view.oom_killed {
        return Some(format!("ran out of memory (exit code {})", view.exit_code));
    }
    match view.state {
        RunState::Ended if view.exit_code == 0 && may_finish => None,
        RunState::Ended => Some(format!("has ended with exit code {}", view.exit_code)),
        RunState::Created => Some(format!("has never run: {}", view.error)),
        RunState::Running if view.health == Health::Unhealthy => Some("fails its health check".to_owned()),
        RunState::Running if view.restarts > 0 => Some(format!("was restarted {} times", view.restarts)),
        RunState::Running => None,
    }
}

/// Waits for the first member that ends against its plan.
pub(super) async fn broken(engine: &Engine, lease: &TopologyLease) -> Fault {
    let plan = lease.plan();
    let stores = plan
        .stores
        .iter()
        .map(|store| (kind_name(store.kind), Blame::Machine, false));
    let services = plan
        .services
        .iter()
        .map(|service| (service.name.as_str(), Blame::Harness, service.may_finish));
    let ends = stores.chain(services).map(|(name, blame, may_finish)| {
        let id = lease
            .containers()
            .get(name)
            .copied()
            .unwrap_or_default()
            .to_owned();
        Box::pin(async move {
            let code = match engine
                .wait_for_own_exit(&id, |code| code == 0 && may_finish)
                .await
            {
                Ok(0) if may_finish => return std::future::pending().await,
                Ok(code) => code,
                Err(error) => return error.into_fault(),
            };
            let (oom_killed, error) = match engine.inspect_container(&id).await {
                Ok(view) => (view.oom_killed, view.error),
                Err(error) if error.is_absence() => return error.into_fault(),
                Err(_) => Default::default(),
            };
            let log = engine
                .log_tail(&id, LogQuery::tail(BROKEN_LOG_LINES))
                .await
                .unwrap_or_default();
            let reason = NotReadyReason::Ended {
                code,
                oom_killed,
                error,
            };
            NotReady {
                what: name.to_owned(),
                blame,
                reason,
                log,
            }
            .into_broken_fault()
        })
    });
    let ends: Vec<_> = ends.collect();
    if ends.is_empty() {
        return std::future::pending().await;
    }
    futures_util::future::select_all(ends).await.0
}

pub(super) async fn logs(
    engine: &Engine,
    lease: &TopologyLease,
    member: &str,
    since: Option<i64>,
) -> Option<String> {
    let id = lease.containers().get(member).copied()?.to_owned();
    let log = engine
        .log_tail(
            &id,
            LogQuery {
                lines: LOG_LINES,
                since,
            },
        )
        .await
        .ok()?;
    (!log.is_empty()).then_some(log)
}

pub(super) async fn browser_cdp_base(engine: &Engine, install: &str, run: &str) -> Option<String> {
    let filter = [
        format!("{}={install}", labels::INSTALL),
        format!("{}={}", labels::KIND, Kind::Browser.as_str()),
        format!("{}={run}", labels::RUN),
    ];
    let rows = engine.list_containers(&filter).await.ok()?;
    // Of several attempts the latest is the one that is alive.
    let row = rows
        .into_iter()
        .filter(|row| row.state == RunState::Running)
        .max_by_key(|row| row.created)?;
    let port = row.ports.values().next()?;
    Some(format!("http://{}:{port}", engine.published_host()))
}
