//! The loopback end of a sign-in (RFC 8252, 7.3): a port of 127.0.0.1 that hears one answer.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use reqwest::Url;
use secrecy::SecretString;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::page::{self, Word};
use crate::problem::{Problem, Result};

/// The one path that is heard; it is what a provider has to allow.
pub(super) const PATH: &str = "/callback";

/// A browser opens a few at most; whoever else is on this machine gets no more.
const CONNECTIONS: usize = 16;

/// A browser on this machine sends its request at once, and reads a page of a kilobyte.
const CONNECTION_LIMIT: Duration = Duration::from_secs(5);

/// The answer's address carries a code and a state; the longest codes have 2 KiB.
const MAX_HEAD: usize = 16 << 10;

/// What the provider sent the browser back with.
#[derive(Debug)]
pub(super) enum Answer {
    Code(SecretString),
    /// An error code of OAuth, and the provider's words.
    Refused {
        error: String,
        words: String,
    },
    /// An answer of another provider than the one that was asked (RFC 9207).
    OtherIssuer,
}

/// See the module.
pub(super) struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

/// What an answer is held against.
struct Gate {
    host: String,
    state: String,
    issuer: String,
    /// One answer is heard; the same address opened again is not.
    taken: AtomicBool,
}

impl Listener {
    /// Takes a free port of IPv4 loopback.
    pub(super) async fn bind() -> Result<Self> {
        let failed = |error: std::io::Error| {
            Problem::machine("can't listen on 127.0.0.1 for the browser's answer")
                .fix("allow local connections, or pair with an API key")
                .because(error)
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// The address that the provider is to send the browser to.
    pub(super) fn redirect_uri(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Serves until an answer with this state arrives. Cancel safe: dropped, it closes the port and every connection.
    pub(super) async fn answer(self, state: &str, issuer: &str) -> Answer {
        let gate = Arc::new(Gate {
            host: self.address.to_string(),
            state: state.to_owned(),
            issuer: issuer.to_owned(),
            taken: AtomicBool::new(false),
        });
        let (sender, mut heard) = mpsc::channel(1);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                Some(answer) = heard.recv() => return answer,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                accepted = self.listener.accept(), if connections.len() < CONNECTIONS => {
                    if let Ok((stream, _)) = accepted {
                        connections.spawn(serve(stream, Arc::clone(&gate), sender.clone()));
                    }
                }
            }
        }
    }
}

/// Serves one connection; what it heard is passed on once the page is on its way.
async fn serve(stream: TcpStream, gate: Arc<Gate>, heard: mpsc::Sender<Answer>) {
    let (inner, mut answer) = mpsc::channel(1);
    let service = service_fn(move |request: Request<Incoming>| {
        let (word, found) = gate.hear(&request);
        if let Some(found) = found {
            // There is room: the gate lets one through.
            let _ = inner.try_send(found);
        }
        let korean = speaks_korean(request.headers());
        async move { Ok::<Response<String>, std::convert::Infallible>(page::answer(word, korean)) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_LIMIT)
        .max_buf_size(MAX_HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // A connection that fails is the browser's business; the answer counts all the same.
    let _ = tokio::time::timeout(CONNECTION_LIMIT, connection).await;
    if let Ok(found) = answer.try_recv() {
        let _ = heard.send(found).await;
    }
}

impl Gate {
    fn hear<B>(&self, request: &Request<B>) -> (Word, Option<Answer>) {
        // Another host's name for this address is a page elsewhere that tries to reach in.
        let host = request.headers().get(header::HOST).map(HeaderValue::as_bytes);
        if host != Some(self.host.as_bytes()) {
            return (Word::Strange, None);
        }
        if request.method() != Method::GET || request.uri().path() != PATH {
            return (Word::Nothing, None);
        }
        let Some(query) = Query::parse(request.uri().query().unwrap_or_default()) else {
            return (Word::Strange, None);
        };
        if query.state.as_deref() != Some(self.state.as_str()) {
            return (Word::Strange, None);
        }
        let Some((word, answer)) = query.answer(&self.issuer) else {
            return (Word::Strange, None);
        };
        if self.taken.swap(true, Ordering::SeqCst) {
            return (Word::Strange, None);
        }
        (word, Some(answer))
    }
}

#[derive(Default)]
struct Query {
    state: Option<String>,
    code: Option<String>,
    error: Option<String>,
    words: Option<String>,
    issuer: Option<String>,
}

impl Query {
    /// Reads a query; one that says a thing twice says nothing (RFC 6749, 3.1).
    fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(&format!("http://127.0.0.1/?{text}")).ok()?;
        let mut query = Self::default();
        for (name, value) in url.query_pairs() {
            let place = match &*name {
                "state" => &mut query.state,
                "code" => &mut query.code,
                "error" => &mut query.error,
                "error_description" => &mut query.words,
                "iss" => &mut query.issuer,
                _ => continue,
            };
            if place.replace(value.into_owned()).is_some() {
                return None;
            }
        }
        Some(query)
    }

    fn answer(self, issuer: &str) -> Option<(Word, Answer)> {
        if self.issuer.is_some_and(|other| other != issuer) {
            return Some((Word::NotFinished, Answer::OtherIssuer));
        }
        if let Some(error) = self.error {
            let words = self.words.unwrap_or_default();
            return Some((Word::NotFinished, Answer::Refused { error, words }));
        }
        let code = self.code.filter(|code| !code.is_empty())?;
        Some((Word::Received, Answer::Code(SecretString::from(code))))
    }
}

fn speaks_korean(headers: &HeaderMap) -> bool {
    let languages = headers.get(header::ACCEPT_LANGUAGE);
    languages
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("ko"))
}

#[cfg(test)]
mod tests;
