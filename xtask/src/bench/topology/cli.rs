//! The shell script's way: one `docker` call after the other, a look every 100 ms.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{BROWSER, FRONT_DOOR, POSTGRES, REDIS, Round, since};
use crate::ToolResult;

const LOOK_EVERY: Duration = Duration::from_millis(100);
const DEADLINE: Duration = Duration::from_secs(60);

fn docker(arguments: &[&str]) -> ToolResult<String> {
    let output = Command::new("docker").args(arguments).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("docker {}: {}", arguments.join(" "), said.trim()).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn until(what: &str, mut look: impl FnMut() -> bool) -> ToolResult<()> {
    let end = Instant::now() + DEADLINE;
    while !look() {
        if Instant::now() > end {
            return Err(format!("{what} did not become ready").into());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// The published port of a container, as `host:port`.
fn published(container: &str, port: &str) -> ToolResult<String> {
    let all = docker(&["port", container, port])?;
    all.lines()
        .next()
        .map(ToOwned::to_owned)
        .ok_or_else(|| format!("{container} publishes nothing").into())
}

fn http_ok(address: &str, path: &str) -> bool {
    let url = format!("http://{address}{path}");
    let arguments = ["-sf", "--max-time", "2", "-o", "/dev/null", &url];
    Command::new("curl")
        .args(arguments)
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

pub(super) fn round(name: &str) -> ToolResult<Round> {
    let result = measured(name);
    remove(name);
    result
}

fn measured(name: &str) -> ToolResult<Round> {
    let start = Instant::now();
    docker(&["network", "create", name])?;
    stores(name)?;
    front_door(name)?;
    let cold = since(start);

    let browser = format!("{name}-browser");
    let start = Instant::now();
    docker(&[
        "run",
        "-d",
        "--name",
        &browser,
        "--network",
        name,
        "-p",
        "127.0.0.1::9222",
        BROWSER,
        "--remote-allow-origins=*",
    ])?;
    let address = published(&browser, "9222")?;
    until("the browser", || http_ok(&address, "/json/version"))?;
    let browser_ms = since(start);

    let start = Instant::now();
    docker(&["rm", "-f", "-v", &browser])?;
    Ok(Round {
        cold,
        warm: None,
        browser: browser_ms,
        dispose: since(start),
    })
}

fn stores(name: &str) -> ToolResult<()> {
    let (db, cache) = (format!("{name}-db"), format!("{name}-cache"));
    docker(&[
        "run",
        "-d",
        "--name",
        &db,
        "--network",
        name,
        "--network-alias",
        "db",
        "-e",
        "POSTGRES_USER=everdict",
        "-e",
        "POSTGRES_PASSWORD=everdict",
        "-e",
        "POSTGRES_DB=everdict",
        POSTGRES,
    ])?;
    until("postgres", || {
        docker(&["exec", &db, "pg_isready", "-h", "127.0.0.1", "-U", "everdict"]).is_ok()
    })?;
    docker(&[
        "run",
        "-d",
        "--name",
        &cache,
        "--network",
        name,
        "--network-alias",
        "cache",
        REDIS,
    ])?;
    until("redis", || docker(&["exec", &cache, "redis-cli", "ping"]).is_ok())
}

fn front_door(name: &str) -> ToolResult<()> {
    let web = format!("{name}-web");
    docker(&[
        "run",
        "-d",
        "--name",
        &web,
        "--network",
        name,
        "-p",
        "127.0.0.1::8080",
        FRONT_DOOR,
    ])?;
    let address = published(&web, "8080")?;
    until("the front door", || http_ok(&address, "/"))
}

fn remove(name: &str) {
    for part in ["browser", "web", "cache", "db"] {
        let _ = docker(&["rm", "-f", "-v", &format!("{name}-{part}")]);
    }
    let _ = docker(&["network", "rm", name]);
}

/// Removes whatever a round that failed left behind: only names that begin with this run's own tag.
pub(super) fn remove_all(tag: &str) {
    let filter = format!("name=^/?{tag}-");
    if let Ok(ids) = docker(&["ps", "-aq", "--filter", &filter]) {
        for id in ids.lines() {
            let _ = docker(&["rm", "-f", "-v", id]);
        }
    }
    if let Ok(ids) = docker(&["network", "ls", "-q", "--filter", &format!("name=^{tag}-")]) {
        for id in ids.lines() {
            let _ = docker(&["network", "rm", id]);
        }
    }
}
