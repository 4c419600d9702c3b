//! The processes in the containers: small servers on real loopback ports.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::image::{Behaviour, FakeImage};
use super::state::{Frame, Shared};

/// A port of the container and the listener on the host that leads to it.
pub(super) struct Published {
    pub(super) port: u16,
    pub(super) listener: TcpListener,
}

/// A container's main process.
pub(super) struct Process {
    pub(super) shared: Arc<Shared>,
    pub(super) container: String,
    pub(super) image: FakeImage,
    /// On its network.
    pub(super) address: Option<IpAddr>,
    pub(super) end: CancellationToken,
}

impl Process {
    /// Runs in the background.
    pub(super) async fn run(self, published: Vec<Published>) {
        let begin = Instant::now();
        for Published { port, listener } in published {
            let leads_here = self.image.port.is_none_or(|own| own == port);
            let behaviour = if leads_here {
                self.image.behaviour.clone()
            } else {
                Behaviour::Deaf
            };
            self.serve(listener, behaviour, begin);
        }
        // Only where the whole of 127/8 is the machine's own; clients then go through commands in the container.
        if let (Some(address), Some(port)) = (self.address.filter(IpAddr::is_loopback), self.image.port)
            && let Ok(listener) = TcpListener::bind((address, port)).await
        {
            self.serve(listener, self.image.behaviour.clone(), begin);
        }
        let tasks = self.shared.tasks.clone();
        tasks.spawn(async move {
            let end = self.end.clone();
            tokio::select! {
                () = end.cancelled() => {}
                () = self.shared.stop.cancelled() => {}
                () = self.live(begin) => {}
            }
        });
    }

    async fn live(&self, begin: Instant) {
        let ends = match self.image.behaviour {
            Behaviour::Exit { after, .. } => Some(after),
            _ => None,
        };
        for piece in &self.image.log {
            if ends.is_some_and(|end| piece.after > end) {
                break;
            }
            sleep_until(begin + piece.after).await;
            let bytes = Bytes::from(piece.text.clone());
            let frame = Frame {
                at: Timestamp::now(),
                stderr: piece.stderr,
                bytes,
            };
            self.shared.edit(|state| {
                if let Ok(container) = state.container_mut(&self.container) {
                    container.log.push(frame);
                }
            });
        }
        match self.image.behaviour {
            Behaviour::Exit { after, code, oom } => {
                sleep_until(begin + after).await;
                self.shared.end(&self.container, code, oom);
            }
            _ => std::future::pending().await,
        }
    }

    fn serve(&self, listener: TcpListener, behaviour: Behaviour, begin: Instant) {
        let (end, stop, tasks) = (
            self.end.clone(),
            self.shared.stop.clone(),
            self.shared.tasks.clone(),
        );
        let spawner = tasks.clone();
        tasks.spawn(async move {
            loop {
                let accepted = tokio::select! {
                    () = end.cancelled() => return,
                    () = stop.cancelled() => return,
                    accepted = listener.accept() => accepted,
                };
                let Ok((stream, _)) = accepted else { continue };
                let (end, stop, behaviour) = (end.clone(), stop.clone(), behaviour.clone());
                spawner.spawn(async move {
                    tokio::select! {
                        () = end.cancelled() => {}
                        () = stop.cancelled() => {}
                        _ = speak(stream, &behaviour, begin) => {}
                    }
                });
            }
        });
    }
}

/// Serves one connection. One that comes too early is taken and dropped, as the daemon's own proxy does.
async fn speak(mut stream: TcpStream, behaviour: &Behaviour, begin: Instant) -> std::io::Result<()> {
    let early = |after: &Duration| begin.elapsed() < *after;
    match behaviour {
        Behaviour::Deaf | Behaviour::Exit { .. } => Ok(()),
        Behaviour::Silent => std::future::pending().await,
        Behaviour::Http { after, .. } | Behaviour::Browser { after } if early(after) => Ok(()),
        Behaviour::Postgres { after } | Behaviour::Redis { after } if early(after) => Ok(()),
        Behaviour::Http { status, .. } => {
            read_head(&mut stream).await?;
            answer(&mut stream, *status, "{}").await
        }
        Behaviour::Browser { .. } => {
            let head = read_head(&mut stream).await?;
            let path = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
            let (status, body) = match path.as_str() {
                "/json/version" => (200, r#"{"Browser": "HeadlessFake/1", "Protocol-Version": "1.3"}"#),
                "/json/list" | "/json" => (200, "[]"),
                _ => (404, "no such page"),
            };
            answer(&mut stream, status, body).await
        }
        Behaviour::Postgres { .. } => {
            let mut message = [0; 512];
            if stream.read(&mut message).await? > 0 {
                stream.write_all(b"R\0\0\0\x08\0\0\0\x03").await?;
            }
            hold(&mut stream).await
        }
        Behaviour::Redis { .. } => {
            let mut message = [0; 512];
            while stream.read(&mut message).await? > 0 {
                stream.write_all(b"+PONG\r\n").await?;
            }
            Ok(())
        }
    }
}

async fn read_head(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

async fn answer(stream: &mut TcpStream, status: u16, body: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status} Fake\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    stream.shutdown().await
}

/// Reads on until the client leaves.
async fn hold(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut rest = [0; 512];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}
