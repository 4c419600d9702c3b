//! Signing in with an identity provider: whom the hub believes, and what for.

use std::time::Duration;

use everdict_contracts::WorkspaceId;
use everdict_hub::{Hub, HubConfig, HubError, OidcConfig, Role};
use everdict_testkit::IdentityProvider;
use everdict_testkit::identity_provider::{CLIENT_ID, Deviation, Endpoint, Signed};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::kit::{PATIENCE, World};

const NONCE: &str = "a-nonce-of-this-sign-in-0123456789";

async fn world(provider: &IdentityProvider, change: impl FnOnce(&mut OidcConfig)) -> World {
    let mut oidc = OidcConfig::new(provider.issuer(), CLIENT_ID);
    oidc.workspace = WorkspaceId::from("acme");
    change(&mut oidc);
    World::with(|config| config.oidc = Some(oidc)).await
}

async fn sign_in(world: &World, token: &str, nonce: &str) -> (StatusCode, Value) {
    let body = json!({"idToken": token, "nonce": nonce});
    world.http_as("").post("/auth/oidc", &body).await
}

#[tokio::test]
async fn a_hub_announces_how_to_sign_in_and_offers_keys_only_by_default() {
    let plain = World::start().await;
    let anybody = plain.http_as("");
    let (status, methods) = anybody.get("/auth/methods").await;
    assert_eq!((status, methods), (StatusCode::OK, json!({"methods": ["key"]})));
    let (status, off) = sign_in(&plain, "x.y.z", NONCE).await;
    assert_eq!(
        (status, &off["code"]),
        (StatusCode::NOT_FOUND, &json!("NOT_FOUND"))
    );

    let provider = IdentityProvider::start().await;
    let world = world(&provider, |_| {}).await;
    let (_, methods) = world.http_as("").get("/auth/methods").await;
    let oidc = json!({
        "issuer": provider.issuer(), "clientId": CLIENT_ID, "scopes": ["openid", "profile", "email"],
    });
    assert_eq!(methods, json!({"methods": ["key", "oidc"], "oidc": oidc}));
}

#[tokio::test]
async fn an_id_token_buys_a_key_that_pairs_for_its_person_and_can_be_given_back() {
    let provider = IdentityProvider::start().await;
    let world = world(&provider, |_| {}).await;
    for signed in [Signed::Es256, Signed::Rs256] {
        provider.deviate([Deviation::Signature(signed)]);
        let (status, given) = sign_in(&world, &provider.id_token(NONCE), NONCE).await;
        assert_eq!(status, StatusCode::OK, "{signed:?}: {given}");
        assert_eq!(
            (&given["subject"], &given["workspace"], &given["role"]),
            (&json!("oidc:ann"), &json!("acme"), &json!("viewer"))
        );
        let http = world.http_as(given["apiKey"].as_str().unwrap());
        let (_, me) = http.get("/me").await;
        assert_eq!(
            (&me["subject"], &me["via"]),
            (&json!("oidc:ann"), &json!("api-key"))
        );
        let (status, paired) = http.post("/runners", &json!({"label": "lab"})).await;
        assert_eq!(status, StatusCode::OK, "{paired}");
        assert_eq!(http.delete("/auth/oidc").await.0, StatusCode::NO_CONTENT);
        assert_eq!(http.get("/me").await.0, StatusCode::UNAUTHORIZED);
        // The runner stays: it has a token of its own.
        let runner = world.http_as(paired["token"].as_str().unwrap());
        assert_eq!(runner.get("/me").await.0, StatusCode::OK);
    }
    let lasting = world.http().delete("/auth/oidc").await;
    assert_eq!(lasting.0, StatusCode::CONFLICT);
    assert_eq!(world.http().get("/me").await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_key_from_signing_in_ends_with_its_time() {
    let provider = IdentityProvider::start().await;
    let world = world(&provider, |oidc| oidc.key_ttl = Duration::from_millis(300)).await;
    let (_, given) = sign_in(&world, &provider.id_token(NONCE), NONCE).await;
    let http = world.http_as(given["apiKey"].as_str().unwrap());
    let until = tokio::time::Instant::now() + PATIENCE;
    while http.get("/me").await.0 != StatusCode::UNAUTHORIZED {
        assert!(tokio::time::Instant::now() < until, "the key lives on");
        tokio::task::yield_now().await;
    }
    assert_eq!(world.http().get("/me").await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_token_that_is_not_for_this_sign_in_is_refused_with_the_reason_and_nothing_of_it() {
    let provider = IdentityProvider::start().await;
    let long_ago = 1_000_000_000;
    let cases = [
        (Deviation::Nonce("another"), "nonce"),
        (Deviation::Claim("aud", json!("another-app")), "audience"),
        (Deviation::Claim("iss", json!("https://other.example")), "issuer"),
        (Deviation::Claim("exp", json!(long_ago)), "expired"),
        (Deviation::Claim("iat", json!(long_ago)), "too_old"),
        (Deviation::Claim("nbf", json!(4_000_000_000_u64)), "not_yet_valid"),
        (Deviation::Claim("exp", json!("soon")), "malformed"),
        (Deviation::Claim("sub", json!("")), "subject"),
        (Deviation::Signature(Signed::None), "algorithm"),
        (Deviation::Signature(Signed::Hs256WithPublicKey), "algorithm"),
    ];
    for (deviation, reason) in cases {
        // A hub each: failures of one peer are counted.
        let world = world(&provider, |_| {}).await;
        provider.deviate([deviation.clone()]);
        let token = provider.id_token(NONCE);
        let (status, refused) = sign_in(&world, &token, NONCE).await;
        assert_eq!(
            (status, &refused["code"], &refused["data"]["reason"]),
            (
                StatusCode::UNAUTHORIZED,
                &json!("UNAUTHENTICATED"),
                &json!(reason)
            ),
            "{deviation:?}: {refused}"
        );
        let said = refused.to_string();
        for part in token.split('.').filter(|part| !part.is_empty()) {
            assert!(!said.contains(part), "{said}");
        }
        provider.deviate([]);
        assert_eq!(
            sign_in(&world, &provider.id_token(NONCE), NONCE).await.0,
            StatusCode::OK
        );
    }
}

#[tokio::test]
async fn only_published_keys_count_and_made_up_ones_buy_no_fetches() {
    let provider = IdentityProvider::start().await;
    let world = world(&provider, |_| {}).await;
    for (signed, reason) in [
        (Signed::ForeignKey, "signature"),
        (Signed::Tampered, "signature"),
        (Signed::UnknownKey, "unknown_key"),
    ] {
        provider.deviate([Deviation::Signature(signed)]);
        let (status, refused) = sign_in(&world, &provider.id_token(NONCE), NONCE).await;
        assert_eq!(
            (status, &refused["data"]["reason"]),
            (StatusCode::UNAUTHORIZED, &json!(reason)),
            "{signed:?}"
        );
    }
    // A rotated key is fetched as it is first seen.
    provider.deviate([Deviation::Signature(Signed::Rotated)]);
    let (status, given) = sign_in(&world, &provider.id_token(NONCE), NONCE).await;
    assert_eq!(status, StatusCode::OK, "{given}");
    provider.deviate([Deviation::Signature(Signed::UnknownKey)]);
    for _ in 0..6 {
        sign_in(&world, &provider.id_token(NONCE), NONCE).await;
    }
    assert!(
        provider.asked(Endpoint::Keys) <= 5,
        "{}",
        provider.asked(Endpoint::Keys)
    );
}

#[tokio::test]
async fn a_token_counts_once_and_too_many_failures_are_refused_for_a_while() {
    let provider = IdentityProvider::start().await;
    let world = world(&provider, |_| {}).await;
    let token = provider.id_token(NONCE);
    assert_eq!(sign_in(&world, &token, NONCE).await.0, StatusCode::OK);
    for _ in 0..10 {
        let (status, refused) = sign_in(&world, &token, NONCE).await;
        assert_eq!(
            (status, &refused["data"]["reason"]),
            (StatusCode::UNAUTHORIZED, &json!("replayed"))
        );
    }
    let body = json!({"idToken": provider.id_token(NONCE), "nonce": NONCE});
    let response = world
        .http_as("")
        .send(Method::POST, "/auth/oidc", Some(&body))
        .await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    let after: u64 = response.headers()["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((1..=61).contains(&after), "{after}");
    let refused: Value = response.json().await.unwrap();
    assert_eq!(refused["code"], "RATE_LIMITED");
}

#[tokio::test]
async fn a_provider_that_can_t_be_asked_is_named_as_the_reason_and_counts_against_nobody() {
    let provider = IdentityProvider::start().await;
    for deviation in [
        Deviation::Html(Endpoint::Discovery),
        Deviation::Html(Endpoint::Keys),
        Deviation::Status(Endpoint::Discovery, 500),
        Deviation::Status(Endpoint::Keys, 503),
        Deviation::Redirect(Endpoint::Discovery),
        Deviation::DocumentIssuer,
    ] {
        let world = world(&provider, |_| {}).await;
        provider.deviate([deviation.clone()]);
        let token = provider.id_token(NONCE);
        let (status, refused) = sign_in(&world, &token, NONCE).await;
        assert_eq!(
            (status, &refused["code"], &refused["data"]["reason"]),
            (
                StatusCode::BAD_GATEWAY,
                &json!("UPSTREAM_ERROR"),
                &json!("provider")
            ),
            "{deviation:?}: {refused}"
        );
        provider.deviate([]);
        let (status, given) = sign_in(&world, &token, NONCE).await;
        assert_eq!(status, StatusCode::OK, "{deviation:?}: {given}");
    }
}

#[tokio::test]
async fn roles_and_workspaces_follow_the_claims_and_strangers_stay_out() {
    let provider = IdentityProvider::start().await;
    let world = world(&provider, |oidc| {
        oidc.role = None;
        oidc.role_claim = Some("groups".to_owned());
        oidc.roles = vec![
            ("staff".to_owned(), Role::Member),
            ("ops".to_owned(), Role::Admin),
        ];
        oidc.workspace_claim = Some("team".to_owned());
    })
    .await;
    provider.person(json!({"sub": "ann", "groups": ["staff", "ops"], "team": "blue"}));
    let (_, given) = sign_in(&world, &provider.id_token(NONCE), NONCE).await;
    assert_eq!(
        (&given["role"], &given["workspace"]),
        (&json!("admin"), &json!("blue"))
    );
    for (stranger, reason) in [
        (
            json!({"sub": "bob", "groups": ["guests"], "team": "blue"}),
            "no_role",
        ),
        (json!({"sub": "cid", "groups": ["staff"]}), "no_workspace"),
        (
            json!({"sub": "dan", "groups": ["staff"], "team": "../blue"}),
            "no_workspace",
        ),
    ] {
        provider.person(stranger);
        let (status, refused) = sign_in(&world, &provider.id_token(NONCE), NONCE).await;
        assert_eq!(
            (status, &refused["code"], &refused["data"]["reason"]),
            (StatusCode::FORBIDDEN, &json!("FORBIDDEN"), &json!(reason))
        );
    }
}

#[tokio::test]
async fn a_hostile_request_gets_a_documented_answer() {
    let provider = IdentityProvider::start().await;
    let world = world(&provider, |_| {}).await;
    let anybody = world.http_as("");
    for body in [
        json!({}),
        json!([]),
        json!({"idToken": 7, "nonce": "n"}),
        json!({"idToken": "secret-text"}),
    ] {
        let (status, refused) = anybody.post("/auth/oidc", &body).await;
        assert_eq!(
            (status, &refused["code"]),
            (StatusCode::BAD_REQUEST, &json!("BAD_REQUEST"))
        );
        assert!(!refused.to_string().contains("secret-text"), "{refused}");
    }
    let large = json!({"idToken": "a".repeat(70_000), "nonce": "n"});
    let (status, _) = anybody.post("/auth/oidc", &large).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    let (status, refused) = sign_in(&world, &"é.".repeat(3), "n").await;
    assert_eq!(
        (status, &refused["data"]["reason"]),
        (StatusCode::UNAUTHORIZED, &json!("malformed"))
    );
    assert_eq!(anybody.get("/auth/oidc").await.0, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(anybody.delete("/auth/oidc").await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn settings_that_can_t_work_stop_the_hub_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    type Change = fn(&mut OidcConfig);
    let changes: [(Change, &str); 5] = [
        (|oidc| oidc.issuer = "http://id.example".to_owned(), "https://"),
        (|oidc| oidc.client_id.clear(), "client id"),
        (|oidc| oidc.workspace = WorkspaceId::from("a b"), "workspace"),
        (|oidc| oidc.role = None, "nobody could sign in"),
        (|oidc| oidc.role_claim = Some("groups".to_owned()), "role claim"),
    ];
    for (change, word) in changes {
        let mut oidc = OidcConfig::new("https://id.example", "app");
        change(&mut oidc);
        let mut config = HubConfig::new(folder.path());
        config.oidc = Some(oidc);
        let error = Hub::open(config).await.unwrap_err();
        assert!(matches!(error, HubError::BadOidc { .. }), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}
