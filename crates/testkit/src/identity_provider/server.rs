//! The provider's endpoints. It refuses what a careful provider refuses, in the words of the specifications.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Query, State as Shared};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::keys::Signed;
use super::{CLIENT_ID, Deviation, Endpoint, Grant, Room, claims};

type Asked = HashMap<String, String>;

pub(crate) fn routes(room: Arc<Room>) -> Router {
    Router::new()
        .route("/.well-known/openid-configuration", get(discovery))
        .route("/authorize", get(authorize))
        .route("/token", post(token))
        .route("/jwks", get(keys))
        .with_state(room)
}

/// Counts a call, and answers in its place where a deviation says so.
fn interrupted(room: &Room, endpoint: Endpoint) -> Option<Response> {
    let mut state = room.state();
    state.asked.push(endpoint);
    state.deviations.iter().find_map(|deviation| match deviation {
        Deviation::Html(at) if *at == endpoint => Some(page("Welcome to the guest network")),
        Deviation::Status(at, status) if *at == endpoint => {
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            Some(
                (
                    status,
                    Json(json!({"error": "server_error", "error_description": "try later"})),
                )
                    .into_response(),
            )
        }
        Deviation::Redirect(at) if *at == endpoint => Some(redirect("http://127.0.0.1:9/elsewhere")),
        _ => None,
    })
}

async fn discovery(Shared(room): Shared<Arc<Room>>) -> Response {
    if let Some(answer) = interrupted(&room, Endpoint::Discovery) {
        return answer;
    }
    let base = &room.issuer;
    let issuer = if room.state().deviations.contains(&Deviation::DocumentIssuer) {
        "https://other.example"
    } else {
        base
    };
    Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "jwks_uri": format!("{base}/jwks"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "id_token_signing_alg_values_supported": ["ES256", "RS256"],
        "authorization_response_iss_parameter_supported": true,
    }))
    .into_response()
}

async fn keys(Shared(room): Shared<Arc<Room>>) -> Response {
    if let Some(answer) = interrupted(&room, Endpoint::Keys) {
        return answer;
    }
    let rotated = Deviation::Signature(Signed::Rotated);
    let rotated = room.state().deviations.contains(&rotated);
    Json(room.keys.set(rotated)).into_response()
}

async fn authorize(Shared(room): Shared<Arc<Room>>, Query(asked): Query<Asked>) -> Response {
    if let Some(answer) = interrupted(&room, Endpoint::Authorize) {
        return answer;
    }
    let text = |name: &str| asked.get(name).map(String::as_str).unwrap_or_default();
    let back = text("redirect_uri");
    // A redirect that is not known is never followed, not even with an error.
    if text("client_id") != CLIENT_ID || !is_loopback_redirect(back) {
        return refused("invalid_request");
    }
    let right = text("response_type") == "code"
        && text("scope").split(' ').any(|scope| scope == "openid")
        && text("code_challenge_method") == "S256"
        && text("code_challenge").len() == 43
        && text("state").len() >= 32
        && text("nonce").len() >= 32;
    let mut state = room.state();
    let mut returned = text("state").to_owned();
    let mut issuer = room.issuer.clone();
    let mut error = (!right).then_some("invalid_request");
    let mut used = false;
    for deviation in &state.deviations {
        match deviation {
            Deviation::Refuse(code) => error = Some(code),
            Deviation::State => returned = "another".to_owned(),
            Deviation::AnswerIssuer => "https://other.example".clone_into(&mut issuer),
            Deviation::CodeUsed => used = true,
            Deviation::Silence => return page("Who are you?"),
            _ => {}
        }
    }
    let issuer = issuer.replace(':', "%3A").replace('/', "%2F");
    if let Some(error) = error {
        let place = format!(
            "{back}?error={error}&error_description=%3Cb%3Enot+today%3C%2Fb%3E&state={returned}&iss={issuer}"
        );
        return redirect(&place);
    }
    state.made += 1;
    let code = format!("code-{}", state.made);
    let grant = Grant {
        redirect_uri: back.to_owned(),
        challenge: text("code_challenge").to_owned(),
        nonce: text("nonce").to_owned(),
    };
    if !used {
        state.codes.insert(code.clone(), grant);
    }
    redirect(&format!("{back}?code={code}&state={returned}&iss={issuer}"))
}

async fn token(Shared(room): Shared<Arc<Room>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(answer) = interrupted(&room, Endpoint::Token) {
        return answer;
    }
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded")) {
        return refused("invalid_request");
    }
    let asked = form(&body);
    let text = |name: &str| asked.get(name).map(String::as_str).unwrap_or_default();
    // A public client has no secret to show.
    if text("client_id") != CLIENT_ID
        || asked.contains_key("client_secret")
        || headers.contains_key("authorization")
    {
        return refused("invalid_client");
    }
    if text("grant_type") != "authorization_code" {
        return refused("unsupported_grant_type");
    }
    let mut state = room.state();
    // A code counts once, also when what comes with it is wrong.
    let Some(grant) = state.codes.remove(text("code")) else {
        return refused("invalid_grant");
    };
    let shown = URL_SAFE_NO_PAD.encode(digest(&SHA256, text("code_verifier").as_bytes()));
    if shown != grant.challenge || text("redirect_uri") != grant.redirect_uri {
        return refused("invalid_grant");
    }
    let signed = state.deviations.iter().find_map(|deviation| match deviation {
        Deviation::Signature(signed) => Some(*signed),
        _ => None,
    });
    let claims: Value = claims(&state, &room.issuer, &grant.nonce);
    drop(state);
    let id_token = room.keys.sign(signed.unwrap_or(Signed::Es256), &claims);
    Json(json!({
        "access_token": "at-of-no-use-here",
        "token_type": "Bearer",
        "expires_in": 300,
        "id_token": id_token,
    }))
    .into_response()
}

/// Any port of 127.0.0.1 and one path (RFC 8252, 7.3).
fn is_loopback_redirect(text: &str) -> bool {
    let port = text
        .strip_prefix("http://127.0.0.1:")
        .and_then(|rest| rest.strip_suffix("/callback"));
    port.is_some_and(|port| port.parse::<u16>().is_ok())
}

fn form(body: &[u8]) -> Asked {
    let query = String::from_utf8_lossy(body);
    let uri = format!("/?{query}").parse();
    uri.ok()
        .and_then(|uri| Query::<Asked>::try_from_uri(&uri).ok())
        .map(|Query(asked)| asked)
        .unwrap_or_default()
}

fn refused(error: &str) -> Response {
    (StatusCode::BAD_REQUEST, Json(json!({"error": error}))).into_response()
}

fn redirect(place: &str) -> Response {
    (StatusCode::FOUND, [(header::LOCATION, place)]).into_response()
}

fn page(text: &str) -> Response {
    let html = format!("<!doctype html><title>{text}</title><p>{text}");
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], html).into_response()
}
