use std::sync::Mutex;

use axum::extract::Path;
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::*;
use crate::paths::Paths;
use crate::secrets::{EnvSecrets, SecretFault, StoreKind, open};

#[test]
fn tokens_are_known_by_their_shape() {
    for good in ["rnr_a", "rnr_AZaz09_-"] {
        assert!(is_runner_token(good), "{good}");
    }
    for bad in ["", "rnr_", "rnr_a b", "ak_a", "rnr_\u{e9}", "Rnr_a", "rnr_a\n"] {
        assert!(!is_runner_token(bad), "{bad:?}");
    }
}

#[test]
fn labels_are_bounded() {
    check_label("lab \u{1f600}").unwrap();
    for bad in [String::new(), "x".repeat(81), "a\nb".to_owned()] {
        assert!(check_label(&bad).is_err());
    }
}

/// A hub that pairs, and remembers what is left on it.
async fn hub(via: &'static str) -> (Url, Arc<Mutex<Vec<String>>>) {
    let paired = Arc::new(Mutex::new(Vec::new()));
    let (made, revoked) = (paired.clone(), paired.clone());
    let app = Router::new()
        .route(
            "/runners",
            post(move |Json(body): Json<Value>| async move {
                made.lock().unwrap().push("r-1".to_owned());
                Json(json!({"runner": {"id": "r-1", "label": body["label"], "capabilities": [], "pairedAt": "x"},
                            "token": "rnr_new"}))
            }),
        )
        .route(
            "/runners/{id}",
            delete(move |Path(id): Path<String>| async move {
                revoked.lock().unwrap().retain(|known| *known != id);
                axum::http::StatusCode::NO_CONTENT
            }),
        )
        .route(
            "/me",
            get(move || async move {
                let mut me = json!({"subject": "key:w", "workspace": "w", "roles": [via], "via": via});
                if via == "runner" {
                    me["runnerId"] = json!("r-1");
                }
                Json(me)
            }),
        );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = hub_url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, app).await });
    tasks.detach_all();
    (url, paired)
}

fn client(url: &Url) -> HubClient {
    let _ = rustls::crypto::ring::default_provider().install_default();
    HubClient::new(url.clone(), Some(SecretString::from("ak_x".to_owned()))).unwrap()
}

fn home() -> (tempfile::TempDir, Paths) {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::under(dir.path());
    (dir, paths)
}

#[tokio::test]
async fn a_pairing_keeps_the_token_out_of_the_registration() {
    let (url, _) = hub("runner").await;
    let (_dir, paths) = home();
    let store = open(StoreKind::File, &paths, &EnvSecrets::default());
    let registrations = Registrations::at(paths.registrations_file());
    let pairing = Pairing {
        store: store.clone(),
        registrations: &registrations,
    };
    let (registration, _) = pairing.with_api_key(&client(&url), "lab").await.unwrap();
    assert_eq!(registration.owner, "key:w");
    let kept = store.get(&registration.secret_name().unwrap()).await.unwrap();
    assert_eq!(kept.expose_secret(), "rnr_new");
    let file = std::fs::read_to_string(paths.registrations_file()).unwrap();
    assert!(file.contains("r-1") && !file.contains("rnr_"), "{file}");
    let side = unpair(&registration, store.as_ref(), &registrations, None)
        .await
        .unwrap();
    assert!(matches!(side, HubSide::NotAsked));
    assert!(registrations.list().unwrap().is_empty());
    assert_eq!(std::fs::read_dir(paths.secrets_dir()).unwrap().count(), 0);
}

/// A store that works until it has to write.
struct Refusing;

impl SecretStore for Refusing {
    fn kind(&self) -> StoreKind {
        StoreKind::Keyring
    }
    fn check(&self) -> BoxFuture<'_, Result<(), SecretFault>> {
        Box::pin(async { Ok(()) })
    }
    fn get<'a>(&'a self, _: &'a SecretName) -> BoxFuture<'a, Result<SecretString, SecretFault>> {
        Box::pin(async { Err(SecretFault::Missing(StoreKind::Keyring)) })
    }
    fn set<'a>(&'a self, _: &'a SecretName, _: &'a SecretString) -> BoxFuture<'a, Result<(), SecretFault>> {
        Box::pin(async { Err(SecretFault::Locked(None)) })
    }
    fn remove<'a>(&'a self, _: &'a SecretName) -> BoxFuture<'a, Result<(), SecretFault>> {
        Box::pin(async { Err(SecretFault::Locked(None)) })
    }
}

#[tokio::test]
async fn a_pairing_that_fails_halfway_leaves_nothing() {
    let (url, paired) = hub("runner").await;
    let (_dir, paths) = home();
    let registrations = Registrations::at(paths.registrations_file());
    let pairing = Pairing {
        store: Arc::new(Refusing),
        registrations: &registrations,
    };
    let problem = pairing.with_api_key(&client(&url), "lab").await.unwrap_err();
    assert_eq!(problem.class(), ProblemClass::Machine);
    assert!(
        paired.lock().unwrap().is_empty(),
        "the runner was taken back at the hub"
    );
    assert!(registrations.list().unwrap().is_empty());

    std::fs::create_dir_all(paths.registrations_file()).unwrap();
    let store = open(StoreKind::File, &paths, &EnvSecrets::default());
    let pairing = Pairing {
        store,
        registrations: &registrations,
    };
    pairing.with_api_key(&client(&url), "lab").await.unwrap_err();
    assert!(paired.lock().unwrap().is_empty());
    assert_eq!(
        std::fs::read_dir(paths.secrets_dir()).unwrap().count(),
        0,
        "the token is gone again"
    );
}

#[tokio::test]
async fn a_key_that_is_no_runner_s_is_refused() {
    let (url, _) = hub("api-key").await;
    let (_dir, paths) = home();
    let registrations = Registrations::at(paths.registrations_file());
    let store = open(StoreKind::File, &paths, &EnvSecrets::default());
    let pairing = Pairing {
        store,
        registrations: &registrations,
    };
    for token in ["rnr_a", "ak_a"] {
        let token = SecretString::from(token.to_owned());
        let _ = client(&url);
        let problem = pairing.with_token(&url, token, "lab").await.unwrap_err();
        assert_eq!(problem.class(), ProblemClass::Input);
    }
    assert_eq!(
        std::fs::read_dir(paths.secrets_dir()).map_or(0, Iterator::count),
        0
    );
}

#[tokio::test]
async fn unpairing_works_while_the_keyring_is_locked_and_names_what_stays() {
    let (url, _) = hub("runner").await;
    let (_dir, paths) = home();
    let registrations = Registrations::at(paths.registrations_file());
    let store = open(StoreKind::File, &paths, &EnvSecrets::default());
    let pairing = Pairing {
        store,
        registrations: &registrations,
    };
    let (registration, _) = pairing.with_api_key(&client(&url), "lab").await.unwrap();
    let problem = unpair(&registration, &Refusing, &registrations, None)
        .await
        .unwrap_err();
    assert!(
        problem.to_string().contains("the token stays in the keyring"),
        "{problem}"
    );
    assert!(registrations.list().unwrap().is_empty());
}
