//! Ways to a credential, for those who have none.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use everdict_contracts::{ErrorCode, Fault, decode};
use everdict_store::Write;
use serde::{Deserialize, Serialize};

use super::{Answer, BODY_TIMEOUT, Refused, answer, bearer, caller, json_response};
use crate::dispatch::storage;
use crate::shared::Hubbed;
use crate::{auth, clock, oidc};

/// An ID token and a nonce. Nobody is known yet, so a larger body is not even read.
const BODY_LIMIT: usize = 64 << 10;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Brought {
    id_token: String,
    nonce: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Given<'a> {
    api_key: &'a str,
    expires_at: String,
    subject: &'a str,
    workspace: &'a str,
    role: &'a str,
}

/// Answers `GET /auth/methods`.
pub(crate) async fn methods(State(shared): State<Hubbed>) -> Response {
    let methods = oidc::methods(shared.sign_in.as_ref());
    json_response(StatusCode::OK, methods.to_string())
}

/// Answers `POST /auth/oidc`: an ID token for a key that lives for minutes.
pub(crate) async fn sign_in(
    State(shared): State<Hubbed>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Answer {
    let Some(sign_in) = shared.sign_in.clone() else {
        let text = "nobody signs in by a provider at this hub: use an API key";
        return Err(Fault::not_found(text).with_data("reason", "off").into());
    };
    let brought = read(request.into_body()).await?;
    let work = {
        let shared = shared.clone();
        async move {
            sign_in
                .admit(&shared, peer.ip(), &brought.id_token, &brought.nonce)
                .await
        }
    };
    let admitted = super::finish(&shared, work).await.map_err(with_retry_after)?;
    let given = Given {
        api_key: admitted.key.expose(),
        expires_at: clock::iso(admitted.expires_at),
        subject: admitted.subject.as_str(),
        workspace: admitted.workspace.as_str(),
        role: admitted.role.as_str(),
    };
    let mut response = answer(StatusCode::OK, &given)?;
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, no_store);
    Ok(response)
}

/// Answers `DELETE /auth/oidc`: the key that calls stops working, if it was made by signing in.
pub(crate) async fn sign_out(State(shared): State<Hubbed>, headers: HeaderMap) -> Result<Response, Refused> {
    caller(&shared, &headers).await?;
    let hash = auth::hash(bearer(&headers).unwrap_or_default());
    let row = shared.store.api_key(&hash).await.map_err(storage)?;
    if row.is_none_or(|row| row.expires_at.is_none()) {
        let text =
            "only a key made by signing in can be given back: others are deleted by whoever runs the hub";
        return Err(Fault::new(ErrorCode::Conflict, text).into());
    }
    let delete = Write::DeleteApiKey { hash: hash.clone() };
    shared.store.write(delete).await.map_err(storage)?;
    shared.keys.forget(&hash);
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn read(body: Body) -> Result<Brought, Refused> {
    match tokio::time::timeout(BODY_TIMEOUT, axum::body::to_bytes(body, BODY_LIMIT)).await {
        Ok(Ok(bytes)) => decode(&*bytes).map_err(|_| {
            // The decoder's words may repeat a value, and a value here is a credential.
            Fault::bad_request("idToken, nonce: two texts in a JSON object are wanted").into()
        }),
        Ok(Err(_)) => Err(Refused {
            status: Some(StatusCode::PAYLOAD_TOO_LARGE),
            ..Refused::from(Fault::bad_request(format!(
                "the request body is larger than {} KiB or broke off",
                BODY_LIMIT >> 10
            )))
        }),
        Err(_) => Err(Refused {
            status: Some(StatusCode::REQUEST_TIMEOUT),
            ..Refused::from(Fault::bad_request("the request body did not arrive in time"))
        }),
    }
}

fn with_retry_after(mut refused: Refused) -> Refused {
    let data = refused.fault.extra.data.as_ref();
    let seconds = data.and_then(|data| data.get("retryAfter")?.as_u64());
    refused.retry_after = seconds.and_then(|seconds| u32::try_from(seconds).ok());
    refused
}
