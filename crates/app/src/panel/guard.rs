//! Who is let in: the ticket, the cookie, and where a request may come from.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::control::Failure;

/// As in `tauri.conf.json`, with this address in place of the web view's channel.
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Several browsers of one person; the oldest makes room.
const MAX_SESSIONS: usize = 8;

type Hash = [u8; 32];

/// See the module. Holds hashes only, so that comparing them tells nothing by its time.
pub(super) struct Gate {
    address: SocketAddr,
    /// Browsers send cookies to every port of a host, so each panel has its own name.
    cookie: String,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    ticket: Option<Hash>,
    sessions: Vec<Hash>,
}

impl Gate {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            cookie: format!("everdict_{}", address.port()),
            open: Mutex::default(),
        }
    }

    /// A new ticket in place of the last.
    pub(super) fn ticket(&self) -> String {
        let ticket = secret();
        self.lock().ticket = Some(hash(&ticket));
        ticket
    }

    /// Takes a ticket, once; returns the cookie of a new session.
    pub(super) fn redeem(&self, ticket: &str) -> Option<HeaderValue> {
        let mut open = self.lock();
        open.ticket.take_if(|known| *known == hash(ticket))?;
        let session = secret();
        if open.sessions.len() >= MAX_SESSIONS {
            open.sessions.remove(0);
        }
        open.sessions.push(hash(&session));
        HeaderValue::from_str(&format!(
            "{}={session}; Path=/; HttpOnly; SameSite=Strict",
            self.cookie
        ))
        .ok()
    }

    /// Lets in who has a session.
    pub(super) fn admit(&self, headers: &HeaderMap) -> Result<(), Box<Response>> {
        let sent = headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .filter(|(name, _)| *name == self.cookie)
            .any(|(_, session)| self.lock().sessions.contains(&hash(session)));
        if sent {
            return Ok(());
        }
        Err(Box::new(refused(
            StatusCode::UNAUTHORIZED,
            "no_session",
            "this browser has no session here",
            "open the link that `everdict-runner ui` prints",
        )))
    }

    /// The names of this address that a browser may write.
    fn hosts(&self) -> [String; 2] {
        let port = self.address.port();
        [self.address.to_string(), format!("localhost:{port}")]
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses what isn't meant for this address or comes from another page, and puts the same fences on every answer.
pub(super) async fn check(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let mut answer = match refusal(&gate, &request) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    let fences: [(HeaderName, &'static str); 6] = [
        (header::CONTENT_SECURITY_POLICY, CSP),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in fences {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

fn refusal(gate: &Gate, request: &Request) -> Option<Response> {
    let headers = request.headers();
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let hosts = gate.hosts();
    let host = text(&header::HOST).unwrap_or_default();
    if !hosts.iter().any(|known| known == host) {
        return Some(refused(
            StatusCode::MISDIRECTED_REQUEST,
            "wrong_host",
            "this is not the address that was asked for",
            "open the link that `everdict-runner ui` prints",
        ));
    }
    let foreign_origin = text(&header::ORIGIN).is_some_and(|origin| origin != format!("http://{host}"));
    let foreign_page = headers
        .get("sec-fetch-site")
        .is_some_and(|site| !["same-origin", "none"].iter().any(|own| site == own));
    if foreign_origin || foreign_page {
        return Some(refused(
            StatusCode::FORBIDDEN,
            "foreign_page",
            "another page asked for this",
            "open the link that `everdict-runner ui` prints",
        ));
    }
    // A form of another page can send anything but this.
    let is_json = text(&header::CONTENT_TYPE).is_some_and(|kind| {
        let essence = kind.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case("application/json")
    });
    (request.method() == Method::POST && !is_json).then(|| {
        refused(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "bad_body",
            "the request is not JSON",
            "send it as application/json",
        )
    })
}

pub(super) fn refused(status: StatusCode, code: &str, message: &str, fix: &str) -> Response {
    super::json(
        status,
        &Failure {
            code: code.to_owned(),
            message: message.to_owned(),
            fix: Some(fix.to_owned()),
        },
    )
}

/// 244 random bits in letters that an address may hold.
fn secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}
