//! Looks on the wire, each a connection of its own: under a millisecond where a command in the container takes 65.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Length of `HTTP/1.1 200`.
const STATUS_LINE: usize = 12;

/// What a `GET` heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    Status(u16),
    /// An answer in another protocol.
    NotHttp,
    /// The connection was taken, and nothing was said.
    Silence,
    /// Docker's own proxy takes a connection and drops it while the container doesn't listen yet.
    HungUp,
    Unreachable(String),
}

impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "is answered with {status}"),
            Self::NotHttp => f.write_str("is answered in another protocol"),
            Self::Silence => f.write_str("is not answered"),
            Self::HungUp => f.write_str("ends in a closed connection"),
            Self::Unreachable(why) => f.write_str(why),
        }
    }
}

/// Asks for `path` and reads the status.
pub(super) async fn http_get(address: SocketAddr, path: &str, limit: Duration) -> Heard {
    let connection = match timeout(limit, TcpStream::connect(address)).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return Heard::Unreachable(error.to_string()),
        Err(_) => return Heard::Unreachable("no connection in time".to_owned()),
    };
    match timeout(limit, ask_http(connection, address, path)).await {
        Ok(Ok(heard)) => heard,
        Ok(Err(_)) => Heard::HungUp,
        Err(_) => Heard::Silence,
    }
}

async fn ask_http(mut connection: TcpStream, address: SocketAddr, path: &str) -> io::Result<Heard> {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: */*\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut answer = Vec::with_capacity(STATUS_LINE);
    while answer.len() < STATUS_LINE {
        if connection.read_buf(&mut answer).await? == 0 {
            break;
        }
    }
    Ok(read_status(&answer))
}

fn read_status(answer: &[u8]) -> Heard {
    if answer.is_empty() {
        return Heard::HungUp;
    }
    let status = answer
        .strip_prefix(b"HTTP/")
        .and_then(|rest| rest.get(4..7))
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| digits.parse().ok());
    status.map_or(Heard::NotHttp, Heard::Status)
}

/// Sends `PING`. An answer that asks for a password is an answer; one that says it is loading is not.
pub(super) async fn redis(address: SocketAddr) -> Result<(), String> {
    let answer = exchange(address, b"PING\r\n", 5).await?;
    match answer.as_slice() {
        [b'+', ..] => Ok(()),
        answer if answer.starts_with(b"-NOAU") => Ok(()),
        answer => Err(format!(
            "answered `{}`",
            String::from_utf8_lossy(answer).trim_end()
        )),
    }
}

/// Sends a start-up message. Any request for authentication means that connections are taken.
pub(super) async fn postgres(address: SocketAddr, user: &str) -> Result<(), String> {
    let answer = exchange(address, &startup_message(user), 1).await?;
    match answer.first() {
        Some(b'R') => Ok(()),
        // "The database system is starting up" and its like come as errors of class 57.
        Some(b'E') if !answer.windows(3).any(|part| part == b"C57") => Ok(()),
        Some(b'E') => Err("it is starting up".to_owned()),
        _ => Err("it answered in another protocol".to_owned()),
    }
}

fn startup_message(user: &str) -> Vec<u8> {
    /// 3.0, the protocol of every server since 2003.
    const VERSION: u32 = 196_608;
    let mut body = VERSION.to_be_bytes().to_vec();
    for text in ["user", user, "database", user, "application_name", "readiness"] {
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    }
    body.push(0);
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    let mut message = length.to_be_bytes().to_vec();
    message.extend_from_slice(&body);
    message
}

/// Sends `request` and reads until at least `enough` bytes have come.
async fn exchange(address: SocketAddr, request: &[u8], enough: usize) -> Result<Vec<u8>, String> {
    let run = async {
        let mut connection = TcpStream::connect(address).await?;
        connection.write_all(request).await?;
        let mut answer = Vec::with_capacity(512);
        while answer.len() < enough {
            if connection.read_buf(&mut answer).await? == 0 {
                break;
            }
        }
        Ok::<_, io::Error>(answer)
    };
    match run.await {
        Ok(answer) if answer.is_empty() => Err("the connection was closed".to_owned()),
        Ok(answer) => Ok(answer),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;

    use super::{Heard, http_get, postgres, redis};

    /// Serves one connection: reads something, writes `pieces` one by one, and keeps it open or closes it.
    async fn server(pieces: &'static [&'static [u8]], stay: bool) -> (SocketAddr, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut request = [0; 512];
            let _ = connection.read(&mut request).await;
            for piece in pieces {
                connection.write_all(piece).await.unwrap();
                connection.flush().await.unwrap();
                tokio::task::yield_now().await;
            }
            if stay {
                std::future::pending::<()>().await;
            }
        });
        (address, tasks)
    }

    const LIMIT: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn a_status_is_read_however_it_is_cut() {
        let (address, _tasks) = server(&[b"HT", b"TP/1.1 4", b"04 Not Found\r\n\r\n"], false).await;
        assert_eq!(http_get(address, "/", LIMIT).await, Heard::Status(404));
    }

    #[tokio::test]
    async fn other_protocols_silence_and_closed_doors_are_told_apart() {
        let (address, _tasks) = server(&[b"-ERR unknown command\r\n"], true).await;
        assert_eq!(http_get(address, "/", LIMIT).await, Heard::NotHttp);
        let (address, _tasks) = server(&[], true).await;
        assert_eq!(http_get(address, "/", LIMIT).await, Heard::Silence);
        let (address, _tasks) = server(&[], false).await;
        assert_eq!(http_get(address, "/", LIMIT).await, Heard::HungUp);
        let closed = TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap()
            .local_addr()
            .unwrap();
        assert!(matches!(
            http_get(closed, "/", LIMIT).await,
            Heard::Unreachable(_)
        ));
    }

    #[tokio::test]
    async fn redis_is_ready_when_it_can_answer_and_not_while_it_loads() {
        let (address, _tasks) = server(&[b"+PONG\r\n"], true).await;
        assert_eq!(redis(address).await, Ok(()));
        let (address, _tasks) = server(&[b"-NOAUTH Authentication required.\r\n"], true).await;
        assert_eq!(redis(address).await, Ok(()));
        let (address, _tasks) = server(&[b"-LOADING Redis is loading the dataset in memory\r\n"], true).await;
        assert!(redis(address).await.unwrap_err().contains("LOADING"));
        let (address, _tasks) = server(&[], false).await;
        assert!(redis(address).await.is_err());
    }

    #[tokio::test]
    async fn postgres_is_ready_when_it_asks_for_a_password_and_not_while_it_starts() {
        let (address, _tasks) = server(&[b"R\0\0\0\x08\0\0\0\x0a"], true).await;
        assert_eq!(postgres(address, "everdict").await, Ok(()));
        let (address, _tasks) = server(
            &[b"E\0\0\0\x50SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"],
            true,
        )
        .await;
        assert_eq!(
            postgres(address, "everdict").await,
            Err("it is starting up".to_owned())
        );
        let (address, _tasks) = server(&[], false).await;
        assert!(postgres(address, "everdict").await.is_err());
    }
}
