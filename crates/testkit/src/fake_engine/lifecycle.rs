//! Containers start and end.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::fault::Fault;
use super::process::{Process, Published};
use super::reply::{Ask, Refusal, Reply, line, nothing, streamed};
use super::state::{Container, Phase, Shared, State};

/// What a start needs to know.
struct Launch {
    id: String,
    name: String,
    /// Container port and wanted host port, 0 for any.
    ports: Vec<(u16, u16)>,
}

pub(super) async fn start(shared: &Arc<Shared>, key: &str, fault: Option<Fault>) -> Result<Reply, Refusal> {
    let launch = shared.read(|state| {
        let container = state.container(key)?;
        Ok(match container.phase {
            Phase::Running => None,
            _ => Some(Launch {
                id: container.id.clone(),
                name: container.name.clone(),
                ports: wanted_ports(container.host_config("PortBindings")),
            }),
        })
    })?;
    let Some(launch) = launch else {
        return Ok(nothing(StatusCode::NOT_MODIFIED));
    };
    match launched(shared, &launch, fault).await {
        Ok(()) => Ok(nothing(StatusCode::NO_CONTENT)),
        Err(refusal) => {
            shared.edit(|state| {
                if let Ok(container) = state.container_mut(&launch.id) {
                    container.exit_code = 128;
                    container.error.clone_from(&refusal.message);
                }
            });
            Err(refusal)
        }
    }
}

async fn launched(shared: &Arc<Shared>, launch: &Launch, fault: Option<Fault>) -> Result<(), Refusal> {
    let port_of = |ports: &[(u16, u16)]| ports.first().map_or(0, |(_, host)| *host);
    match fault {
        Some(Fault::PortAllocated) => return Err(allocated(launch, port_of(&launch.ports))),
        Some(Fault::PortInUse) => return Err(in_use(launch, port_of(&launch.ports))),
        _ => {}
    }
    let mut published = Vec::new();
    for (port, host) in &launch.ports {
        let taken = shared.read(|state| {
            state
                .containers
                .iter()
                .any(|one| one.ports.values().any(|p| p == host))
        });
        if *host != 0 && taken {
            return Err(allocated(launch, *host));
        }
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *host));
        let listener = TcpListener::bind(address)
            .await
            .map_err(|_| in_use(launch, *host))?;
        published.push(Published {
            port: *port,
            listener,
        });
    }
    let process = shared.edit(|state| begin(shared, state, &launch.id, &published))?;
    process.run(published).await;
    Ok(())
}

/// Turns the container to running, or says why it can't.
fn begin(
    shared: &Arc<Shared>,
    state: &mut State,
    id: &str,
    published: &[Published],
) -> Result<Process, Refusal> {
    let container = state.container(id)?;
    if let Some(why) = &container.image.bad_command {
        let text = format!(
            "failed to create shim task: OCI runtime create failed: runc create failed: {why}: unknown"
        );
        return Err(Refusal::new(400, text));
    }
    let endpoint = endpoint(state, container)?;
    let container = state.container_mut(id)?;
    container.phase = Phase::Running;
    container.process = CancellationToken::new();
    container.exit_code = 0;
    container.error = String::new();
    container.oom = false;
    container.frozen = false;
    container.started = Some((Instant::now(), Timestamp::now()));
    container.finished = None;
    let ports = published
        .iter()
        .filter_map(|one| Some((one.port, one.listener.local_addr().ok()?.port())));
    container.ports = ports.collect::<BTreeMap<u16, u16>>();
    shared.emit("start", container);
    let process = Process {
        shared: Arc::clone(shared),
        container: id.to_owned(),
        image: container.image.clone(),
        address: endpoint.as_ref().map(|(_, address)| IpAddr::V4(*address)),
        end: container.process.clone(),
    };
    container.endpoint = endpoint;
    Ok(process)
}

fn endpoint(state: &State, container: &Container) -> Result<Option<(String, Ipv4Addr)>, Refusal> {
    match container.host_config("NetworkMode").as_str().unwrap_or("default") {
        "default" | "bridge" | "host" | "none" => Ok(None),
        key => {
            let network = state.network(key)?;
            // Engine 20.10 looks it up by name once more, whatever it was given.
            state.network(&network.name)?;
            Ok(Some((network.id.clone(), state.next_address(network))))
        }
    }
}

fn wanted_ports(bindings: &Value) -> Vec<(u16, u16)> {
    let pairs = bindings
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(port, bindings)| {
            let host = bindings[0]["HostPort"].as_str().unwrap_or_default();
            Some((port.split('/').next()?.parse().ok()?, host.parse().unwrap_or(0)))
        });
    pairs.collect()
}

fn allocated(launch: &Launch, port: u16) -> Refusal {
    let text = format!(
        "driver failed programming external connectivity on endpoint {} ({}): Bind for 127.0.0.1:{port} failed: port \
         is already allocated",
        launch.name, launch.id
    );
    Refusal::new(500, text)
}

fn in_use(launch: &Launch, port: u16) -> Refusal {
    let text = format!(
        "driver failed programming external connectivity on endpoint {} ({}): Error starting userland proxy: listen \
         tcp4 127.0.0.1:{port}: bind: address already in use",
        launch.name, launch.id
    );
    Refusal::new(500, text)
}

pub(super) async fn restart(shared: &Arc<Shared>, key: &str, fault: Option<Fault>) -> Result<Reply, Refusal> {
    stop(shared, key)?;
    start(shared, key, fault).await
}

/// Notes that a container is frozen, or isn't; its servers answer all the same.
pub(super) fn freeze(shared: &Arc<Shared>, key: &str, frozen: bool) -> Result<Reply, Refusal> {
    shared.edit(|state| {
        let container = state.container_mut(key)?;
        let id = container.id.clone();
        if container.phase != Phase::Running {
            return Err(Refusal::new(409, format!("Container {id} is not running")));
        }
        if container.frozen == frozen {
            let not = if frozen { "already" } else { "not" };
            return Err(Refusal::new(409, format!("Container {id} is {not} paused")));
        }
        container.frozen = frozen;
        Ok(nothing(StatusCode::NO_CONTENT))
    })
}

pub(super) fn stop(shared: &Arc<Shared>, key: &str) -> Result<Reply, Refusal> {
    let (id, phase) = shared.read(|state| state.container(key).map(|one| (one.id.clone(), one.phase)))?;
    if phase != Phase::Running {
        return Ok(nothing(StatusCode::NOT_MODIFIED));
    }
    shared.end(&id, 0, false);
    Ok(nothing(StatusCode::NO_CONTENT))
}

pub(super) fn kill(shared: &Arc<Shared>, key: &str, ask: &Ask) -> Result<Reply, Refusal> {
    let (id, phase) = shared.read(|state| state.container(key).map(|one| (one.id.clone(), one.phase)))?;
    if phase != Phase::Running {
        let text = format!("Cannot kill container: {key}: Container {id} is not running");
        return Err(Refusal::new(409, text));
    }
    let code = match ask.text("signal").trim_start_matches("SIG") {
        "TERM" | "15" => 143,
        "INT" | "2" => 130,
        _ => 137,
    };
    shared.end(&id, code, false);
    Ok(nothing(StatusCode::NO_CONTENT))
}

/// Counts a client that waits, for as long as it does.
struct Waiting(Arc<Shared>);

impl Waiting {
    fn begin(shared: &Arc<Shared>) -> Self {
        shared.edit(|state| state.waiting += 1);
        Self(Arc::clone(shared))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.edit(|state| state.waiting -= 1);
    }
}

/// Answers once the container doesn't run; the head comes at once.
pub(super) fn wait(shared: &Arc<Shared>, key: &str) -> Result<Reply, Refusal> {
    let id = shared.read(|state| state.container(key).map(|one| one.id.clone()))?;
    let waiting = Waiting::begin(shared);
    let ended = async move {
        let shared = &waiting.0;
        let mut changed = shared.changed.subscribe();
        loop {
            changed.borrow_and_update();
            let code = shared.read(|state| match state.container(&id) {
                Ok(container) if container.phase == Phase::Running => None,
                Ok(container) => Some(container.exit_code),
                Err(_) => Some(137),
            });
            if let Some(code) = code {
                return Ok(line(&json!({"StatusCode": code})));
            }
            if changed.changed().await.is_err() {
                return Err(std::io::Error::other("the daemon stops"));
            }
        }
    };
    Ok(streamed("application/json", futures_util::stream::once(ended)))
}
