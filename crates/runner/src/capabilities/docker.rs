//! Asks the Docker daemon for a sign of life over its own socket.

use std::path::PathBuf;
use std::time::Duration;

use everdict_exec::HostEnv;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::probes::home;

/// A healthy daemon answers `/_ping` in milliseconds; a wedged one must not hold up the other probes.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// Where a daemon was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Endpoint {
    Unix(PathBuf),
    Tcp(String),
}

/// Pings the daemon that `DOCKER_HOST` names, else the first known socket that answers.
///
/// `Ok` says where it answered, `Err` what was tried. `DOCKER_HOST` is a decision of the member: when it is set,
/// nothing else is tried.
pub(super) async fn ping(host: &HostEnv) -> Result<String, String> {
    if let Some(given) = host.get("DOCKER_HOST").filter(|value| !value.is_empty()) {
        let endpoint = parse(given)?;
        return ping_one(&endpoint)
            .await
            .map_err(|reason| format!("DOCKER_HOST {given}: {reason}"));
    }
    let mut last = "no Docker socket found".to_owned();
    for path in known_sockets(host).into_iter().filter(|path| path.exists()) {
        match ping_one(&Endpoint::Unix(path.clone())).await {
            Ok(found) => return Ok(found),
            Err(reason) => last = format!("{}: {reason}", path.display()),
        }
    }
    Err(last)
}

fn parse(docker_host: &str) -> Result<Endpoint, String> {
    if let Some(path) = docker_host.strip_prefix("unix://") {
        Ok(Endpoint::Unix(PathBuf::from(path)))
    } else if let Some(address) = docker_host.strip_prefix("tcp://") {
        Ok(Endpoint::Tcp(address.trim_end_matches('/').to_owned()))
    } else {
        Err(format!(
            "DOCKER_HOST {docker_host} is not a unix or tcp address that can be asked without a helper program"
        ))
    }
}

fn known_sockets(host: &HostEnv) -> Vec<PathBuf> {
    let mut sockets = vec![PathBuf::from("/var/run/docker.sock")];
    if let Some(runtime) = host.get_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        sockets.push(runtime.join("docker.sock"));
        sockets.push(runtime.join("podman/podman.sock"));
    }
    if let Some(home) = home(host) {
        // Docker Desktop, Colima, Rancher Desktop, OrbStack.
        sockets.extend(
            [
                ".docker/run/docker.sock",
                ".docker/desktop/docker.sock",
                ".colima/default/docker.sock",
                ".rd/docker.sock",
                ".orbstack/run/docker.sock",
            ]
            .map(|relative| home.join(relative)),
        );
    }
    sockets
}

async fn ping_one(endpoint: &Endpoint) -> Result<String, String> {
    let answer = tokio::time::timeout(PING_TIMEOUT, async {
        match endpoint {
            #[cfg(unix)]
            Endpoint::Unix(path) => ask(tokio::net::UnixStream::connect(path).await?).await,
            #[cfg(not(unix))]
            Endpoint::Unix(_) => Err(std::io::Error::from(std::io::ErrorKind::Unsupported)),
            Endpoint::Tcp(address) => ask(tokio::net::TcpStream::connect(address).await?).await,
        }
    })
    .await;
    match answer {
        Ok(Ok(status)) if status.contains(" 200") => Ok(match endpoint {
            Endpoint::Unix(path) => format!("daemon answers on {}", path.display()),
            Endpoint::Tcp(address) => format!("daemon answers on {address}"),
        }),
        Ok(Ok(status)) => Err(format!("not a Docker daemon: {status:?}")),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer within a second".to_owned()),
    }
}

/// Sends `/_ping` and returns the status line.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<String> {
    // HTTP/1.0: the daemon closes after the answer, so no length has to be parsed.
    stream
        .write_all(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
        .await?;
    let mut head = [0_u8; 64];
    let read = stream.read(&mut head).await?;
    let text = String::from_utf8_lossy(&head[..read]);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    async fn daemon(answer: &'static [u8]) -> (tempfile::TempDir, HostEnv, impl Future<Output = ()>) {
        let dir = tempfile::tempdir().expect("test daemon");
        let path = dir.path().join("docker.sock");
        let listener = tokio::net::UnixListener::bind(&path).expect("test daemon");
        let host = HostEnv::from_pairs([("DOCKER_HOST", format!("unix://{}", path.display()))]);
        let serve = async move {
            let (mut stream, _) = listener.accept().await.expect("test daemon");
            let mut request = [0_u8; 128];
            let _ = stream.read(&mut request).await.expect("test daemon");
            stream.write_all(answer).await.expect("test daemon");
        };
        (dir, host, serve)
    }

    #[tokio::test]
    async fn a_daemon_that_answers_is_found_where_docker_host_says() {
        let (_dir, host, serve) = daemon(b"HTTP/1.0 200 OK\r\n\r\nOK").await;
        let (found, ()) = tokio::join!(ping(&host), serve);
        assert!(found.unwrap().contains("docker.sock"));
    }

    #[tokio::test]
    async fn another_program_on_the_socket_is_no_daemon() {
        let (_dir, host, serve) = daemon(b"SSH-2.0-OpenSSH\r\n").await;
        let (found, ()) = tokio::join!(ping(&host), serve);
        assert!(found.unwrap_err().contains("not a Docker daemon"));
    }

    #[tokio::test]
    async fn docker_host_is_the_only_place_asked_when_set() {
        let host = HostEnv::from_pairs([("DOCKER_HOST", "unix:///nonexistent/docker.sock")]);
        assert!(
            ping(&host)
                .await
                .unwrap_err()
                .starts_with("DOCKER_HOST unix:///nonexistent")
        );
        let host = HostEnv::from_pairs([("DOCKER_HOST", "ssh://me@box")]);
        assert!(ping(&host).await.unwrap_err().contains("helper program"));
    }
}
