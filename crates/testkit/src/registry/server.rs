//! The distribution API: `/v2/`, manifests, blobs, and the place where tokens come from.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde_json::json;

use super::{Access, Asked, Pace, Room, Transfer, TransferEnd, Way};

/// What a token begins with; its user's name follows.
const TOKEN: &str = "token-of-";

pub(super) fn routes(room: Arc<Room>) -> Router {
    Router::new().fallback(handle).with_state(room)
}

async fn handle(State(room): State<Arc<Room>>, request: Request) -> Response {
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    let (user, good) = identify(request.headers(), room.state().access.as_ref(), &path);
    let response = if path == "/token" {
        token(user.as_deref(), good)
    } else if good {
        answer(&room, &path, method == "HEAD")
    } else {
        unauthorized(&room)
    };
    let status = response.status().as_u16();
    room.state().asked.push(Asked {
        method: method.clone(),
        path,
        user,
        status,
    });
    if method == "HEAD" {
        return response.map(|_| Body::empty());
    }
    response
}

/// Who asks, and whether they are who may.
fn identify(headers: &HeaderMap, access: Option<&Access>, path: &str) -> (Option<String>, bool) {
    let given = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let basic = given
        .and_then(|text| text.strip_prefix("Basic "))
        .and_then(|text| {
            let text = String::from_utf8(STANDARD.decode(text).ok()?).ok()?;
            let (user, password) = text.split_once(':')?;
            Some((user.to_owned(), password.to_owned()))
        });
    let bearer = given.and_then(|text| text.strip_prefix("Bearer ")?.strip_prefix(TOKEN));
    let user = basic.as_ref().map(|(user, _)| user.clone());
    let user = user.or_else(|| bearer.map(str::to_owned));
    let Some(access) = access else { return (user, true) };
    let good = match access.way {
        Way::Token if path != "/token" => bearer == Some(&access.user),
        Way::Token | Way::Basic => basic == Some((access.user.clone(), access.password.clone())),
    };
    (user, good)
}

fn token(user: Option<&str>, good: bool) -> Response {
    match user {
        Some(user) if good => text(
            StatusCode::OK,
            "application/json",
            json!({"token": format!("{TOKEN}{user}"), "expires_in": 300}).to_string(),
        ),
        _ => error(
            StatusCode::UNAUTHORIZED,
            "UNAUTHORIZED",
            "incorrect username or password",
        ),
    }
}

fn unauthorized(room: &Room) -> Response {
    let mut response = error(
        StatusCode::UNAUTHORIZED,
        "UNAUTHORIZED",
        "authentication required",
    );
    let way = room.state().access.as_ref().map(|access| access.way);
    let challenge = match way {
        Some(Way::Token) => format!(r#"Bearer realm="http://{}/token",service="registry""#, room.host),
        _ => r#"Basic realm="registry""#.to_owned(),
    };
    let challenge = challenge.parse().expect("BUG: a challenge is plain text");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}

fn answer(room: &Arc<Room>, path: &str, head: bool) -> Response {
    let Some(rest) = path.strip_prefix("/v2/") else {
        return error(StatusCode::NOT_FOUND, "UNSUPPORTED", "there is no such page");
    };
    if rest.is_empty() {
        return text(StatusCode::OK, "application/json", "{}".to_owned());
    }
    if let Some((repository, reference)) = rest.rsplit_once("/manifests/") {
        return manifest(room, repository, reference);
    }
    match rest.rsplit_once("/blobs/") {
        Some((repository, digest)) => blob(room, repository, digest, head),
        None => error(StatusCode::NOT_FOUND, "UNSUPPORTED", "there is no such page"),
    }
}

fn manifest(room: &Room, repository: &str, reference: &str) -> Response {
    let state = room.state();
    if let Some(refusal) = state.refusals.get(repository) {
        let status = StatusCode::from_u16(refusal.status).expect("BUG: a test names a status");
        return error(status, refusal.code, refusal.message);
    }
    let Some(tags) = state.manifests.get(repository) else {
        return error(
            StatusCode::NOT_FOUND,
            "NAME_UNKNOWN",
            "repository name not known to registry",
        );
    };
    let Some(found) = tags.get(reference) else {
        return error(StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN", "manifest unknown");
    };
    Response::builder()
        .header(header::CONTENT_TYPE, found.media)
        .header(header::CONTENT_LENGTH, found.bytes.len())
        .header("docker-content-digest", &found.digest)
        .body(Body::from(found.bytes.clone()))
        .expect("BUG: the headers are plain")
}

fn blob(room: &Arc<Room>, repository: &str, digest: &str, head: bool) -> Response {
    let mut state = room.state();
    let Some(bytes) = state.blobs.get(digest).cloned() else {
        return error(StatusCode::NOT_FOUND, "BLOB_UNKNOWN", "blob unknown to registry");
    };
    let answer = Response::builder()
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::CONTENT_LENGTH, bytes.len())
        .header("docker-content-digest", digest);
    if head {
        return answer.body(Body::empty()).expect("BUG: the headers are plain");
    }
    let pace = state.paces.get(repository).copied();
    state.transfers.push(Transfer {
        repository: repository.to_owned(),
        size: bytes.len(),
        sent: 0,
        end: TransferEnd::Sending,
    });
    let sending = Sending {
        room: Arc::clone(room),
        index: state.transfers.len() - 1,
        rest: bytes,
        pace,
    };
    let stream = futures_util::stream::unfold(sending, |mut sending| async move {
        let part = sending.next().await?;
        Some((Ok::<_, std::io::Error>(part), sending))
    });
    answer
        .body(Body::from_stream(stream))
        .expect("BUG: the headers are plain")
}

/// A blob on its way. Dropped early when the other side hangs up.
struct Sending {
    room: Arc<Room>,
    index: usize,
    rest: Bytes,
    pace: Option<Pace>,
}

impl Sending {
    async fn next(&mut self) -> Option<Bytes> {
        if self.rest.is_empty() {
            return None;
        }
        let part = match self.pace {
            None => std::mem::take(&mut self.rest),
            Some(pace) => {
                tokio::time::sleep(pace.pause).await;
                self.rest.split_to(pace.bytes.min(self.rest.len()))
            }
        };
        let mut state = self.room.state();
        let transfer = &mut state.transfers[self.index];
        transfer.sent += part.len();
        if self.rest.is_empty() {
            transfer.end = TransferEnd::Complete;
        }
        Some(part)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let mut state = self.room.state();
        let transfer = &mut state.transfers[self.index];
        if transfer.end == TransferEnd::Sending {
            transfer.end = TransferEnd::Dropped(Instant::now());
        }
    }
}

fn text(status: StatusCode, media: &'static str, text: String) -> Response {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, media)
        .header(header::CONTENT_LENGTH, text.len())
        .body(Body::from(text))
        .expect("BUG: the headers are plain")
}

fn error(status: StatusCode, code: &str, message: &str) -> Response {
    let body = json!({"errors": [{"code": code, "message": message}]});
    text(status, "application/json", body.to_string())
}
