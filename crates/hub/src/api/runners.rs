//! Who am I, and which runners are mine.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use everdict_contracts::{Me, MeConfig, MeWorkspace, PairBody, PauseBody, RunnerId, RunnerList, Subject};

use super::{Answer, Segments, answer, caller, json_body};
use crate::auth::{Action, Principal};
use crate::pairing;
use crate::queue::Owner;
use crate::shared::Hubbed;

/// Answers `GET /me`.
pub(crate) async fn me(State(shared): State<Hubbed>, headers: HeaderMap) -> Answer {
    let principal = caller(&shared, &headers).await?;
    let workspace = principal.workspace().clone();
    let role = principal.role_name().to_owned();
    let (subject, via, runner_id) = match &*principal {
        Principal::Key { subject, .. } => (subject.clone(), "api-key", None),
        Principal::Runner { member, .. } => {
            let subject = match &member.owner {
                Owner::Personal(subject) => subject.clone(),
                owner @ Owner::Workspace(_) => Subject::from(owner.to_string()),
            };
            (subject, "runner", Some(member.runner.clone()))
        }
    };
    let me = Me {
        subject,
        roles: vec![role.clone()],
        via: via.to_owned(),
        email: None,
        name: None,
        scopes: None,
        runner_id,
        teams: None,
        workspaces: Some(vec![MeWorkspace {
            id: workspace.clone(),
            name: workspace.to_string(),
            role,
            rest: serde_json::Map::new(),
        }]),
        profile: None,
        config: Some(MeConfig::default()),
        workspace,
    };
    answer(StatusCode::OK, &me)
}

/// Answers `GET /runners`.
pub(crate) async fn list(State(shared): State<Hubbed>, headers: HeaderMap) -> Answer {
    let principal = caller(&shared, &headers).await?;
    let runners = pairing::list(&shared, &principal)?;
    answer(StatusCode::OK, &RunnerList { runners })
}

/// Answers `POST /runners`.
pub(crate) async fn pair(State(shared): State<Hubbed>, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let principal = caller(&shared, &parts.headers).await?;
    let body: PairBody = json_body(body).await?;
    principal.allow(Action::RunnersManage)?;
    answer(StatusCode::OK, &pairing::pair(&shared, &principal, body).await?)
}

/// Answers `POST /runners/{id}/pause`.
pub(crate) async fn pause(
    State(shared): State<Hubbed>,
    Segments(id): Segments<String>,
    request: Request,
) -> Result<Response, super::Refused> {
    let (parts, body) = request.into_parts();
    let principal = caller(&shared, &parts.headers).await?;
    let body: PauseBody = json_body(body).await?;
    pairing::pause(&shared, &principal, &RunnerId::from(id), Some(body.reason)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Answers `POST /runners/{id}/resume`.
pub(crate) async fn resume(
    State(shared): State<Hubbed>,
    Segments(id): Segments<String>,
    headers: HeaderMap,
) -> Result<Response, super::Refused> {
    let principal = caller(&shared, &headers).await?;
    pairing::pause(&shared, &principal, &RunnerId::from(id), None).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Answers `DELETE /runners/{id}`.
pub(crate) async fn revoke(
    State(shared): State<Hubbed>,
    Segments(id): Segments<String>,
    headers: HeaderMap,
) -> Result<Response, super::Refused> {
    let principal = caller(&shared, &headers).await?;
    pairing::revoke(&shared, &principal, &RunnerId::from(id)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
