use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, ContainerState, ContainerStateStatusEnum,
    ContainerSummary, ContainerSummaryStateEnum, HealthStatusEnum,
};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, InspectContainerOptions,
    KillContainerOptionsBuilder, ListContainersOptionsBuilder, LogsOptionsBuilder,
    RemoveContainerOptionsBuilder, StartContainerOptions,
};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;

use super::{CREATE_LIMIT, Engine, EngineError, EngineErrorKind, READ_LIMIT, START_LIMIT};
use crate::egress::Net;

/// How much of a log is kept at most, from its end: 50 lines are far below it unless each is a novel.
const LOG_CAP: usize = 256 * 1024;

/// Where a container is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunState {
    /// Made, not started.
    Created,
    /// Running, or paused.
    Running,
    /// Ended, dead or being removed.
    Ended,
}

/// What the image's HEALTHCHECK says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Health {
    /// The image has no check.
    Unchecked,
    /// No verdict yet.
    Starting,
    /// The check passes.
    Healthy,
    /// The check has failed as often as the image allows.
    Unhealthy,
}

/// A container as the daemon lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRow {
    pub id: String,
    /// Without the leading slash.
    pub name: String,
    pub image: String,
    /// Seconds since 1970.
    pub created: i64,
    pub labels: BTreeMap<String, String>,
    pub state: RunState,
    /// In the daemon's words, such as `Exited (137) 2 seconds ago`.
    pub status: String,
    /// Container port to published host port.
    pub ports: BTreeMap<u16, u16>,
    /// Network id to the container's address there.
    pub addresses: BTreeMap<String, IpAddr>,
}

/// A container as the daemon describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerView {
    pub id: String,
    pub name: String,
    /// Id of the image it was made from.
    pub image: String,
    pub labels: BTreeMap<String, String>,
    pub state: RunState,
    /// Whether its processes are frozen.
    pub paused: bool,
    pub exit_code: i64,
    /// Whether the kernel killed it, or one of its processes, for want of memory.
    pub oom_killed: bool,
    pub restarts: i64,
    /// Why it could not be started, in the daemon's words.
    pub error: String,
    pub health: Health,
    pub ports: BTreeMap<u16, u16>,
    /// Network id to the container's address there.
    pub addresses: BTreeMap<String, IpAddr>,
    /// Network id to the gateway there.
    pub gateways: BTreeMap<String, IpAddr>,
    /// Address ranges of its networks.
    pub(crate) ranges: Vec<Net>,
    /// The daemon's file for its network name space; empty when it doesn't tell.
    pub(crate) sandbox: String,
    /// Its main process, as the daemon sees it; 0 when it isn't running.
    pub(crate) pid: i64,
}

/// Which part of a log to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogQuery {
    /// Only so many lines from the end.
    pub lines: u32,
    /// Only what was written since this time, in seconds since 1970.
    pub since: Option<i64>,
}

impl LogQuery {
    /// The last `lines` lines.
    pub fn tail(lines: u32) -> Self {
        Self { lines, since: None }
    }
}

impl Engine {
    /// Creates a container and gives out its id. Nothing of it runs yet.
    ///
    /// # Errors
    /// [`EngineErrorKind::NameTaken`], [`EngineErrorKind::NoSuchImage`], or any other.
    pub(crate) async fn create_container(
        &self,
        name: &str,
        body: ContainerCreateBody,
    ) -> Result<String, EngineError> {
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        let call = self.docker.create_container(Some(options), body);
        self.call("create a container", CREATE_LIMIT, call)
            .await
            .map(|created| created.id)
    }

    /// Starts a container; one that runs already is left as it is.
    ///
    /// # Errors
    /// [`EngineErrorKind::PortTaken`], [`EngineErrorKind::BadCommand`], or any other.
    pub async fn start_container(&self, id: &str) -> Result<(), EngineError> {
        let call = self.docker.start_container(id, None::<StartContainerOptions>);
        self.call("start a container", START_LIMIT, call).await
    }

    /// Describes one container.
    ///
    /// # Errors
    /// [`EngineErrorKind::NotFound`] when it is gone.
    pub async fn inspect_container(&self, id: &str) -> Result<ContainerView, EngineError> {
        let call = self.docker.inspect_container(id, None::<InspectContainerOptions>);
        self.call("inspect a container", READ_LIMIT, call)
            .await
            .map(ContainerView::from)
    }

    /// Lists containers, ended ones too, that have all of the given labels (`key` or `key=value`).
    ///
    /// # Errors
    /// Any [`EngineError`].
    pub async fn list_containers(&self, labels: &[String]) -> Result<Vec<ContainerRow>, EngineError> {
        let filters = HashMap::from([("label", labels.to_vec())]);
        let options = ListContainersOptionsBuilder::default()
            .all(true)
            .filters(&filters)
            .build();
        let rows = self
            .call(
                "list containers",
                READ_LIMIT,
                self.docker.list_containers(Some(options)),
            )
            .await?;
        Ok(rows.into_iter().map(ContainerRow::from).collect())
    }

    /// Kills and removes a container with its anonymous volumes; one that is gone already counts as removed.
    ///
    /// # Errors
    /// Any [`EngineError`].
    pub async fn remove_container(&self, id: &str) -> Result<(), EngineError> {
        let options = RemoveContainerOptionsBuilder::default()
            .force(true)
            .v(true)
            .build();
        let call = self.docker.remove_container(id, Some(options));
        match self.call("remove a container", self.removal_limit(), call).await {
            Err(error) if error.is_not_found() => Ok(()),
            // Somebody else is removing it: done when it is gone.
            Err(error)
                if error.kind == EngineErrorKind::Conflict && error.text.contains("already in progress") =>
            {
                self.wait_until_gone(id).await
            }
            other => other,
        }
    }

    /// Sends a signal, such as `SIGTERM`, to a container's main process.
    ///
    /// # Errors
    /// [`EngineErrorKind::Conflict`] when it isn't running.
    pub async fn kill_container(&self, id: &str, signal: &str) -> Result<(), EngineError> {
        let options = KillContainerOptionsBuilder::default().signal(signal).build();
        self.call(
            "signal a container",
            READ_LIMIT,
            self.docker.kill_container(id, Some(options)),
        )
        .await
    }

    async fn wait_until_gone(&self, id: &str) -> Result<(), EngineError> {
        /// A removal takes 200 ms as a rule.
        const PAUSE: Duration = Duration::from_millis(50);
        let gone = async {
            loop {
                match self.inspect_container(id).await {
                    Err(error) if error.is_not_found() => return Ok(()),
                    Err(error) => return Err(error),
                    Ok(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        };
        tokio::time::timeout(self.removal_limit(), gone)
            .await
            .unwrap_or_else(|_| Err(EngineError::timed_out("remove a container", self.removal_limit())))
    }

    /// Follows what a container prints, from its start, as it comes: in the log itself a line shows only when it has
    /// ended.
    ///
    /// # Errors
    /// Any [`EngineError`] at the start; later ones end the stream.
    pub async fn follow_output(&self, id: &str) -> Result<BoxStream<'static, Bytes>, EngineError> {
        self.attach(id, true).await
    }

    /// Follows what a container prints from now on.
    ///
    /// # Errors
    /// As [`Engine::follow_output`].
    pub async fn follow_new_output(&self, id: &str) -> Result<BoxStream<'static, Bytes>, EngineError> {
        self.attach(id, false).await
    }

    async fn attach(&self, id: &str, from_start: bool) -> Result<BoxStream<'static, Bytes>, EngineError> {
        let options = AttachContainerOptionsBuilder::default()
            .stdout(true)
            .stderr(true)
            .logs(from_start)
            .stream(true)
            .build();
        let attached = self.docker.attach_container(id, Some(options));
        let attached = self
            .call("follow a container's output", READ_LIMIT, attached)
            .await?;
        let pieces = attached
            .output
            .take_while(|piece| std::future::ready(piece.is_ok()))
            .filter_map(|piece| std::future::ready(piece.ok().map(message)));
        Ok(pieces.boxed())
    }

    /// Reads the end of a container's log, both streams in the order in which they were written.
    ///
    /// # Errors
    /// Any [`EngineError`]; what was read before the deadline is given out rather than an error.
    pub async fn log_tail(&self, id: &str, query: LogQuery) -> Result<String, EngineError> {
        let mut options = LogsOptionsBuilder::default()
            .stdout(true)
            .stderr(true)
            .tail(&query.lines.to_string());
        if let Some(since) = query.since {
            options = options.since(i32::try_from(since).unwrap_or(i32::MAX));
        }
        let mut pieces = Box::pin(self.docker.logs(id, Some(options.build())));
        let mut text: Vec<u8> = Vec::new();
        let read = async {
            while let Some(piece) = pieces.next().await {
                text.extend_from_slice(&message(piece?));
                if text.len() > 2 * LOG_CAP {
                    text.drain(..text.len() - LOG_CAP);
                }
            }
            Ok(())
        };
        match self.call("read a container's log", READ_LIMIT, read).await {
            Err(error) if text.is_empty() => Err(error),
            _ => {
                let start = text.len().saturating_sub(LOG_CAP);
                Ok(String::from_utf8_lossy(&text[start..]).into_owned())
            }
        }
    }
}

fn message(piece: LogOutput) -> Bytes {
    match piece {
        LogOutput::StdErr { message }
        | LogOutput::StdOut { message }
        | LogOutput::StdIn { message }
        | LogOutput::Console { message } => message,
    }
}

impl From<ContainerSummary> for ContainerRow {
    fn from(row: ContainerSummary) -> Self {
        let state = match row.state {
            Some(ContainerSummaryStateEnum::CREATED) => RunState::Created,
            Some(
                ContainerSummaryStateEnum::RUNNING
                | ContainerSummaryStateEnum::PAUSED
                | ContainerSummaryStateEnum::RESTARTING,
            ) => RunState::Running,
            _ => RunState::Ended,
        };
        let name = row
            .names
            .unwrap_or_default()
            .into_iter()
            .next()
            .unwrap_or_default();
        let networks = row
            .network_settings
            .and_then(|settings| settings.networks)
            .unwrap_or_default();
        let ports = row.ports.unwrap_or_default();
        Self {
            id: row.id.unwrap_or_default(),
            name: name.trim_start_matches('/').to_owned(),
            image: row.image.unwrap_or_default(),
            created: row.created.unwrap_or_default(),
            labels: row.labels.unwrap_or_default().into_iter().collect(),
            state,
            status: row.status.unwrap_or_default(),
            ports: ports
                .iter()
                .filter_map(|port| Some((port.private_port, port.public_port?)))
                .collect(),
            addresses: networks
                .into_values()
                .filter_map(|net| Some((net.network_id?, net.ip_address?.parse().ok()?)))
                .collect(),
        }
    }
}

impl From<ContainerInspectResponse> for ContainerView {
    fn from(view: ContainerInspectResponse) -> Self {
        let state = view.state.unwrap_or_default();
        let settings = view.network_settings.unwrap_or_default();
        let networks = settings.networks.unwrap_or_default();
        let mut addresses = BTreeMap::new();
        let mut gateways = BTreeMap::new();
        let mut ranges = Vec::new();
        for net in networks.into_values() {
            ranges.extend(range(net.ip_address.as_deref(), net.ip_prefix_len));
            ranges.extend(range(
                net.global_ipv6_address.as_deref(),
                net.global_ipv6_prefix_len,
            ));
            let Some(id) = net.network_id else { continue };
            if let Some(address) = net.ip_address.and_then(|text| text.parse().ok()) {
                addresses.insert(id.clone(), address);
            }
            if let Some(gateway) = net.gateway.and_then(|text| text.parse().ok()) {
                gateways.insert(id, gateway);
            }
        }
        let config = view.config.unwrap_or_default();
        Self {
            id: view.id.unwrap_or_default(),
            name: view.name.unwrap_or_default().trim_start_matches('/').to_owned(),
            image: view.image.unwrap_or_default(),
            labels: config.labels.unwrap_or_default().into_iter().collect(),
            state: run_state(&state),
            paused: state.paused.unwrap_or_default(),
            exit_code: state.exit_code.unwrap_or_default(),
            oom_killed: state.oom_killed.unwrap_or_default(),
            restarts: view.restart_count.unwrap_or_default(),
            error: state.error.clone().unwrap_or_default(),
            health: health(&state),
            ports: published(settings.ports.unwrap_or_default()),
            addresses,
            gateways,
            ranges,
            sandbox: settings.sandbox_key.unwrap_or_default(),
            pid: state.pid.unwrap_or_default(),
        }
    }
}

fn range(address: Option<&str>, bits: Option<i64>) -> Option<Net> {
    let address: IpAddr = address?.parse().ok()?;
    let bits = u8::try_from(bits?).ok().filter(|bits| *bits > 0)?;
    Some(Net::new(address, bits))
}

fn run_state(state: &ContainerState) -> RunState {
    match state.status {
        Some(ContainerStateStatusEnum::CREATED) => RunState::Created,
        Some(
            ContainerStateStatusEnum::RUNNING
            | ContainerStateStatusEnum::PAUSED
            | ContainerStateStatusEnum::RESTARTING,
        ) => RunState::Running,
        _ => RunState::Ended,
    }
}

fn health(state: &ContainerState) -> Health {
    match state.health.as_ref().and_then(|health| health.status) {
        Some(HealthStatusEnum::STARTING) => Health::Starting,
        Some(HealthStatusEnum::HEALTHY) => Health::Healthy,
        Some(HealthStatusEnum::UNHEALTHY) => Health::Unhealthy,
        _ => Health::Unchecked,
    }
}

/// Container port to host port, of TCP ports that are published.
fn published(ports: bollard::models::PortMap) -> BTreeMap<u16, u16> {
    let host_port = |bindings: Option<Vec<bollard::models::PortBinding>>| {
        bindings?
            .into_iter()
            .find_map(|binding| binding.host_port?.parse().ok())
    };
    ports
        .into_iter()
        .filter_map(|(port, bindings)| Some((port.strip_suffix("/tcp")?.parse().ok()?, host_port(bindings)?)))
        .collect()
}
