//! Which call a request is, and what is done about it.

use std::sync::Arc;

use axum::body::Body;
use http::{Method, Request};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

use super::calls::CallGuard;
use super::fault::{Fault, Op, strike};
use super::reply::{Ask, Refusal, Reply};
use super::state::Shared;
use super::{archives, containers, daemon, execs, images, lifecycle, logs, networks, pull, view, volumes};

/// Bodies are a few kilobytes, but for archives.
const BODY_LIMIT: usize = 256 * 1024 * 1024;

/// Answers a request, or goes wrong as a test has asked for. `line` cuts the connection.
#[expect(
    clippy::too_many_lines,
    reason = "a table of routes: nothing to decide but where to go"
)]
pub(super) async fn handle(
    shared: Arc<Shared>,
    mut request: Request<Incoming>,
    line: CancellationToken,
) -> Reply {
    let upgrade = request
        .headers()
        .contains_key(http::header::UPGRADE)
        .then(|| hyper::upgrade::on(&mut request));
    let (head, body) = request.into_parts();
    let path = segments(head.uri.path());
    let query = axum::extract::Query::try_from_uri(&head.uri)
        .map(|query| query.0)
        .unwrap_or_default();
    let body = axum::body::to_bytes(Body::new(body), BODY_LIMIT)
        .await
        .unwrap_or_default();
    let ask = Ask {
        method: head.method,
        path,
        query,
        headers: head.headers,
        body,
        upgrade,
    };
    let Some((op, target)) = recognise(&ask) else {
        return Refusal::new(404, "page not found").reply();
    };
    let guard = CallGuard::open(&shared, op, &target);
    let fault = shared.edit(|state| {
        let mut targets = vec![target.clone()];
        targets.extend(
            state
                .container(&target)
                .ok()
                .map(|container| container.name.clone()),
        );
        targets.extend(
            state
                .networks
                .iter()
                .find(|one| one.id == target)
                .map(|one| one.name.clone()),
        );
        strike(&mut state.armed, op, &targets)
    });
    let reply = match fault {
        Some(Fault::BlackHole) => std::future::pending().await,
        Some(Fault::HangUp) => {
            line.cancel();
            std::future::pending().await
        }
        Some(Fault::Answer(status, message)) => Err(Refusal::new(status, message)),
        Some(Fault::Delay(time)) => {
            tokio::time::sleep(time).await;
            answer(&shared, op, &target, ask, None).await
        }
        Some(Fault::Mute) => {
            let _ = answer(&shared, op, &target, ask, None).await;
            std::future::pending().await
        }
        other => answer(&shared, op, &target, ask, other).await,
    };
    let reply = reply.unwrap_or_else(|refusal| refusal.reply());
    guard.answered(reply.status().as_u16());
    reply
}

fn segments(path: &str) -> Vec<String> {
    let mut parts: Vec<String> = path
        .split('/')
        .filter(|part| !part.is_empty())
        .map(decode)
        .collect();
    let is_version = |part: &String| {
        part.strip_prefix('v')
            .is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
    };
    if parts.first().is_some_and(is_version) {
        parts.remove(0);
    }
    parts
}

fn decode(part: &str) -> String {
    let bytes = part.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let coded = (*byte == b'%').then(|| part.get(at + 1..at + 3)).flatten();
        match coded.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(value) => {
                out.push(value);
                at += 3;
            }
            None => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn recognise(ask: &Ask) -> Option<(Op, String)> {
    let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
    let (get, post) = (ask.method == Method::GET, ask.method == Method::POST);
    let (put, delete) = (ask.method == Method::PUT, ask.method == Method::DELETE);
    let none = String::new;
    let found = match path.as_slice() {
        ["_ping"] => (Op::Ping, none()),
        ["version"] if get => (Op::Version, none()),
        ["info"] if get => (Op::Info, none()),
        ["events"] if get => (Op::Events, none()),
        ["containers", "json"] if get => (Op::ContainerList, none()),
        ["containers", "create"] if post => (Op::ContainerCreate, ask.text("name").to_owned()),
        ["commit"] if post => (Op::ContainerCommit, ask.text("container").to_owned()),
        ["containers", id] if delete => (Op::ContainerRemove, (*id).to_owned()),
        ["containers", id, action] => (container_op(action, ask)?, (*id).to_owned()),
        ["exec", id, "start"] if post => (Op::ExecStart, (*id).to_owned()),
        ["exec", id, "json"] if get => (Op::ExecInspect, (*id).to_owned()),
        ["images", "json"] if get => (Op::ImageList, none()),
        ["images", "create"] if post && !ask.text("fromSrc").is_empty() => {
            (Op::ImageImport, ask.text("repo").to_owned())
        }
        ["images", "create"] if post => (Op::ImagePull, pull::reference(ask)),
        ["images", name @ .., "json"] if get => (Op::ImageInspect, name.join("/")),
        ["images", name @ ..] if delete => (Op::ImageRemove, name.join("/")),
        ["distribution", name @ .., "json"] if get => (Op::Distribution, name.join("/")),
        ["networks"] if get => (Op::NetworkList, none()),
        ["networks", "create"] if post => (Op::NetworkCreate, networks::name(ask)),
        ["networks", id] if get => (Op::NetworkInspect, (*id).to_owned()),
        ["networks", id] if delete => (Op::NetworkRemove, (*id).to_owned()),
        ["networks", id, "connect"] if post => (Op::NetworkConnect, (*id).to_owned()),
        ["networks", id, "disconnect"] if post => (Op::NetworkDisconnect, (*id).to_owned()),
        ["volumes"] if get => (Op::VolumeList, none()),
        ["volumes", "create"] if post => (Op::VolumeCreate, none()),
        ["volumes", "prune"] if post => (Op::VolumePrune, none()),
        ["volumes", name] if get => (Op::VolumeInspect, (*name).to_owned()),
        ["volumes", name] if delete => (Op::VolumeRemove, (*name).to_owned()),
        _ if put => return None,
        _ => return None,
    };
    Some(found)
}

fn container_op(action: &str, ask: &Ask) -> Option<Op> {
    let op = match (ask.method.as_str(), action) {
        ("GET", "json") => Op::ContainerInspect,
        ("GET", "logs") => Op::ContainerLogs,
        ("GET", "stats") => Op::ContainerStats,
        ("GET", "archive") => Op::ArchiveGet,
        ("PUT", "archive") => Op::ArchivePut,
        ("POST", "start") => Op::ContainerStart,
        ("POST", "stop") => Op::ContainerStop,
        ("POST", "kill") => Op::ContainerKill,
        ("POST", "restart") => Op::ContainerRestart,
        ("POST", "attach") => Op::ContainerAttach,
        ("POST", "pause") => Op::ContainerPause,
        ("POST", "unpause") => Op::ContainerUnpause,
        ("POST", "wait") => Op::ContainerWait,
        ("POST", "exec") => Op::ExecCreate,
        _ => return None,
    };
    Some(op)
}

async fn answer(
    shared: &Arc<Shared>,
    op: Op,
    target: &str,
    ask: Ask,
    fault: Option<Fault>,
) -> Result<Reply, Refusal> {
    match op {
        Op::Ping => Ok(daemon::ping()),
        Op::Version => Ok(daemon::version(shared)),
        Op::Info => Ok(daemon::info(shared)),
        Op::Events => Ok(daemon::events(shared, &ask)),
        Op::ContainerCreate => containers::create(shared, &ask),
        Op::ContainerStart => lifecycle::start(shared, target, fault).await,
        Op::ContainerStop => lifecycle::stop(shared, target),
        Op::ContainerKill => lifecycle::kill(shared, target, &ask),
        Op::ContainerRestart => lifecycle::restart(shared, target, fault).await,
        Op::ContainerAttach => logs::attach(shared, target, ask),
        Op::ContainerPause => lifecycle::freeze(shared, target, true),
        Op::ContainerUnpause => lifecycle::freeze(shared, target, false),
        Op::ContainerCommit => images::commit(shared, target, &ask),
        Op::ContainerRemove => containers::remove(shared, target, &ask),
        Op::ContainerInspect => view::inspect(shared, target),
        Op::ContainerList => Ok(view::list(shared, &ask)),
        Op::ContainerWait => lifecycle::wait(shared, target),
        Op::ContainerLogs => logs::read(shared, target, &ask),
        Op::ContainerStats => daemon::stats(shared, target),
        Op::ArchivePut => archives::put(shared, target, &ask),
        Op::ArchiveGet => archives::get(shared, target, &ask),
        Op::ExecCreate => execs::create(shared, target, &ask),
        Op::ExecStart => execs::start(shared, target, ask),
        Op::ExecInspect => execs::inspect(shared, target),
        Op::ImageInspect => images::inspect(shared, target),
        Op::ImageList => Ok(images::list(shared, &ask)),
        Op::ImageRemove => images::remove(shared, target, &ask),
        Op::ImagePull => pull::start(shared, &ask),
        Op::ImageImport => Err(Refusal::new(500, "the fake imports nothing")),
        Op::Distribution => pull::distribution(shared, target, &ask),
        Op::NetworkCreate => networks::create(shared, &ask),
        Op::NetworkInspect => networks::inspect(shared, target),
        Op::NetworkList => Ok(networks::list(shared, &ask)),
        Op::NetworkRemove => networks::remove(shared, target),
        Op::NetworkConnect => networks::connect(shared, target, &ask),
        Op::NetworkDisconnect => networks::disconnect(shared, target, &ask),
        Op::VolumeCreate => volumes::create(shared, &ask),
        Op::VolumeInspect => volumes::inspect(shared, target),
        Op::VolumeList => Ok(volumes::list(shared, &ask)),
        Op::VolumeRemove => volumes::remove(shared, target),
        Op::VolumePrune => Ok(volumes::prune(shared)),
    }
}
