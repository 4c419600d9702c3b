//! Against a hub of this crate, and a provider that the test starts. The browser is a client that follows redirects,
//! started by the program that the sign-in opens addresses with.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use everdict_testkit::IdentityProvider;
use everdict_testkit::identity_provider::{CLIENT_ID, Deviation, Endpoint, Signed};
use secrecy::ExposeSecret as _;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::hub_host::{HubHost, HubOptions};
use crate::problem::{Problem, ProblemClass};
use crate::registrations::Registrations;
use crate::secrets::{self, EnvSecrets, StoreKind};
use crate::{OidcConfig, Paths};

const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);

struct World {
    home: TempDir,
    paths: Paths,
    provider: IdentityProvider,
    hub: HubHost,
    registrations: Registrations,
}

impl World {
    async fn start() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut OidcConfig)) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(&home.path().join("profile"));
        paths.prepare().unwrap();
        let provider = IdentityProvider::start().await;
        let mut oidc = OidcConfig::new(provider.issuer(), CLIENT_ID);
        change(&mut oidc);
        let hub = HubHost::start(&HubOptions {
            database: None,
            data_dir: home.path().join("hub"),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            lease_ttl: None,
            oidc: Some(oidc),
        })
        .await
        .unwrap();
        let registrations = Registrations::at(paths.registrations_file());
        Self {
            home,
            paths,
            provider,
            hub,
            registrations,
        }
    }

    fn pairing(&self) -> Pairing<'_> {
        Pairing {
            store: secrets::open(StoreKind::File, &self.paths, &EnvSecrets::default()),
            registrations: &self.registrations,
        }
    }

    /// Goes the whole way, with the browser of the test.
    async fn sign_in(&self) -> Result<SignedIn> {
        let sign_in = SignIn::begin(self.hub.url()).await?;
        let (host, address) = opener(self.home.path());
        sign_in.open_browser(&host).await?;
        let browser = browse(address);
        let cancel = CancellationToken::new();
        let (signed_in, _page) = tokio::join!(sign_in.finish(PATIENCE, &cancel), browser);
        signed_in
    }

    async fn refused(&self) -> Problem {
        let Err(problem) = self.sign_in().await else {
            panic!("signed in");
        };
        assert!(problem.next_step().is_some(), "{problem}");
        assert!(self.registrations.list().unwrap().is_empty());
        problem
    }
}

/// An environment whose opener of addresses writes them into a file, in one step.
fn opener(dir: &Path) -> (HostEnv, PathBuf) {
    let address = dir.join("address");
    let _ = std::fs::remove_file(&address);
    let script = format!("printf %s \"$1\" > {0}.new && mv {0}.new {0}", address.display());
    (opener_that(dir, &script), address)
}

fn opener_that(dir: &Path, script: &str) -> HostEnv {
    let bin = dir.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    for name in ["xdg-open", "open"] {
        std::fs::write(bin.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = HostEnv::capture().get("PATH").unwrap_or_default().to_owned();
    let path = format!("{}:{path}", bin.display());
    HostEnv::from_pairs([("PATH", path.as_str())])
}

/// Opens the address that was handed over, follows redirects, and gives out the last page.
async fn browse(address: PathBuf) -> String {
    let until = Instant::now() + PATIENCE;
    let address = loop {
        if let Ok(address) = std::fs::read_to_string(&address) {
            break address;
        }
        assert!(Instant::now() < until, "no address was opened");
        tokio::time::sleep(LOOK_EVERY).await;
    };
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    match http.get(&address).send().await {
        Ok(page) => page.text().await.unwrap_or_default(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn who_signs_in_is_paired_and_the_key_is_gone() {
    let world = World::start().await;
    let methods = sign_in_methods(world.hub.url().as_str()).await.unwrap();
    assert_eq!(methods, ["key", "oidc"]);
    let signed_in = world.sign_in().await.unwrap();
    let key = signed_in.client.clone();
    key.me().await.unwrap();
    let (registration, token) = signed_in.pair(&world.pairing(), "lab").await.unwrap();
    assert_eq!(
        (registration.owner.as_str(), registration.workspace.as_str()),
        ("oidc:ann", "default")
    );
    assert!(token.expose_secret().starts_with("rnr_"));
    assert_eq!(world.registrations.list().unwrap(), [registration]);
    let fault = key.me().await.unwrap_err();
    assert_eq!(fault.class(), ProblemClass::Refused, "{fault}");
}

#[tokio::test]
async fn a_pairing_that_fails_after_the_sign_in_leaves_no_key_and_no_runner() {
    let world = World::start().await;
    let signed_in = world.sign_in().await.unwrap();
    let key = signed_in.client.clone();
    // A folder in the place of the file that would list the runner.
    std::fs::create_dir_all(world.paths.registrations_file()).unwrap();
    signed_in.pair(&world.pairing(), "lab").await.unwrap_err();
    key.me().await.unwrap_err();
    let admin = world.hub.create_api_key("default", "admin").await.unwrap();
    let admin = HubClient::new(world.hub.url().clone(), Some(admin)).unwrap();
    assert!(admin.runners().await.unwrap().is_empty());
}

#[tokio::test]
async fn each_no_of_the_provider_has_its_words_and_its_next_step() {
    let world = World::start().await;
    for (deviation, code) in [
        (Deviation::Refuse("access_denied"), "sign_in_denied"),
        (Deviation::Refuse("login_required"), "sign_in_denied"),
        (Deviation::Refuse("unauthorized_client"), "sign_in_setup"),
        (
            Deviation::Refuse("temporarily_unavailable"),
            "provider_unreachable",
        ),
        (Deviation::AnswerIssuer, "sign_in_failed"),
        (Deviation::CodeUsed, "sign_in_failed"),
        (Deviation::Html(Endpoint::Discovery), "provider_unreachable"),
        (
            Deviation::Status(Endpoint::Discovery, 500),
            "provider_unreachable",
        ),
        (Deviation::Redirect(Endpoint::Discovery), "provider_unreachable"),
        (Deviation::DocumentIssuer, "provider_unreachable"),
        (Deviation::Html(Endpoint::Token), "provider_unreachable"),
        (Deviation::Status(Endpoint::Token, 500), "provider_unreachable"),
        (Deviation::Redirect(Endpoint::Token), "provider_unreachable"),
    ] {
        world.provider.deviate([deviation.clone()]);
        let problem = world.refused().await;
        assert_eq!(problem.code(), code, "{deviation:?}: {}", problem.chain());
    }
}

#[tokio::test]
async fn a_token_that_the_hub_doubts_pairs_nothing() {
    for deviation in [
        Deviation::Nonce("another"),
        Deviation::Claim("aud", json!("another-app")),
        Deviation::Claim("exp", json!(1_000_000_000)),
        Deviation::Signature(Signed::None),
        Deviation::Signature(Signed::Hs256WithPublicKey),
        Deviation::Signature(Signed::UnknownKey),
        Deviation::Signature(Signed::ForeignKey),
    ] {
        let world = World::start().await;
        world.provider.deviate([deviation.clone()]);
        let problem = world.refused().await;
        assert_eq!(
            (problem.code(), problem.class()),
            ("sign_in_refused", ProblemClass::Refused),
            "{deviation:?}: {}",
            problem.chain()
        );
    }
    let stranger = World::with(|oidc| {
        oidc.role = None;
        oidc.role_claim = Some("groups".to_owned());
        oidc.roles = vec![("staff".to_owned(), everdict_hub::Role::Member)];
    })
    .await;
    let problem = stranger.refused().await;
    assert!(
        problem.chain().contains("ask whoever runs it"),
        "{}",
        problem.chain()
    );
}

#[tokio::test]
async fn a_hub_whose_provider_is_away_says_so() {
    let world = World::start().await;
    world.provider.deviate([Deviation::Html(Endpoint::Keys)]);
    let problem = world.refused().await;
    assert_eq!(problem.class(), ProblemClass::HubUnreachable);
    assert!(
        problem.chain().contains("identity provider"),
        "{}",
        problem.chain()
    );
}

#[tokio::test]
async fn nobody_who_comes_back_ends_the_wait_and_a_cancel_ends_it_at_once() {
    let world = World::start().await;
    world.provider.deviate([Deviation::Silence]);
    let sign_in = SignIn::begin(world.hub.url()).await.unwrap();
    let limit = Duration::from_millis(50);
    let late = sign_in
        .finish(limit, &CancellationToken::new())
        .await
        .err()
        .unwrap();
    assert_eq!(late.code(), "sign_in_timeout");

    let sign_in = SignIn::begin(world.hub.url()).await.unwrap();
    let redirect = sign_in.listener.redirect_uri();
    let cancel = CancellationToken::new();
    let (ended, ()) = tokio::join!(sign_in.finish(PATIENCE, &cancel), async { cancel.cancel() });
    let ended = ended.err().unwrap();
    assert_eq!(
        (ended.code(), ended.class()),
        ("sign_in_cancelled", ProblemClass::Interrupted)
    );
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    assert!(http.get(redirect).send().await.unwrap_err().is_connect());
}

#[tokio::test]
async fn a_hub_without_a_provider_and_a_machine_without_a_browser_say_what_to_do() {
    let world = World::start().await;
    let plain = HubHost::start(&HubOptions {
        database: None,
        data_dir: world.home.path().join("plain"),
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        lease_ttl: None,
        oidc: None,
    })
    .await
    .unwrap();
    assert_eq!(sign_in_methods(plain.url().as_str()).await.unwrap(), ["key"]);
    let problem = SignIn::begin(plain.url()).await.err().unwrap();
    assert_eq!(problem.code(), "sign_in_not_offered");

    let sign_in = SignIn::begin(world.hub.url()).await.unwrap();
    let nothing = HostEnv::from_pairs([("PATH", world.home.path())]);
    let problem = sign_in.open_browser(&nothing).await.unwrap_err();
    assert_eq!(problem.code(), "browser_unavailable");
    let failing = opener_that(world.home.path(), "exit 3");
    let problem = sign_in.open_browser(&failing).await.unwrap_err();
    assert_eq!(problem.code(), "browser_unavailable");
}

#[tokio::test]
async fn an_offer_that_can_t_be_used_is_the_hub_s_problem_not_the_person_s() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    for (issuer, client, scopes) in [
        ("http://id.example", "app", vec!["openid"]),
        ("file:///etc/passwd", "app", vec!["openid"]),
        ("https://id.example", "", vec!["openid"]),
        ("https://id.example", "app", vec!["email"]),
        ("https://id.example", "app", vec!["openid", "a b"]),
    ] {
        let offer = crate::OidcOffer {
            issuer: issuer.to_owned(),
            client_id: client.to_owned(),
            scopes: scopes.into_iter().map(str::to_owned).collect(),
        };
        let problem = Provider::find(offer).await.err().unwrap();
        assert_eq!(problem.code(), "sign_in_setup", "{issuer}: {problem}");
    }
}
