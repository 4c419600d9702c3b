//! Who signs in with the hub's identity provider in the browser has a paired machine; who doesn't has nothing.
#![expect(
    clippy::disallowed_methods,
    reason = "starts the program as a person does, with a browser of the test's own"
)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use everdict_acceptance::{Child, World, eventually, free_port};
use everdict_testkit::IdentityProvider;
use everdict_testkit::identity_provider::{CLIENT_ID, Deviation, Signed};
use reqwest::Method;
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_everdict-runner-under-test");
const PATIENCE: Duration = Duration::from_secs(30);

struct Scene {
    world: World,
    provider: IdentityProvider,
}

impl Scene {
    /// A hub whose settings name a provider, which lets members in.
    async fn set() -> Self {
        let provider = IdentityProvider::start().await;
        let settings = format!(
            "[oidc]\nissuer = \"{}\"\nclient_id = \"{CLIENT_ID}\"\nworkspace = \"acme\"\nrole = \"member\"\n",
            provider.issuer()
        );
        let world = World::start_with_settings(BINARY, &settings).await;
        Self { world, provider }
    }

    /// Starts `pair --sign-in`, with a program in PATH that "opens" an address by writing it into a file.
    fn pair(&self) -> (Child, PathBuf, PathBuf) {
        let folder = self.world.home().join(format!("machine-{}", free_port()));
        let bin = folder.join("bin");
        std::fs::create_dir_all(&bin).expect("folder");
        let opened = folder.join("opened");
        let script = format!(
            "#!/bin/sh\nprintf %s \"$1\" > {0}.new && mv {0}.new {0}\n",
            opened.display()
        );
        for name in ["xdg-open", "open"] {
            std::fs::write(bin.join(name), &script).expect("script");
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(bin.join(name), mode).expect("mode");
        }
        let path = everdict_acceptance::setting("PATH").unwrap_or_default();
        let mut command = Command::new(BINARY);
        command
            .args([
                "pair",
                "--sign-in",
                "--json",
                "--token-store",
                "file",
                "--label",
                "lab",
                "--api-url",
            ])
            .arg(self.world.url())
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("EVERDICT_LOG", "trace")
            .env("EVERDICT_HOME", folder.join("profile"));
        let child = Child::start(command, &folder.join("pair.log"));
        (child, opened, folder.join("profile"))
    }

    async fn runners(&self) -> Value {
        let (status, listed) = self.world.call(Method::GET, "/runners", None).await;
        assert_eq!(status, 200, "{listed}");
        listed["runners"].clone()
    }
}

/// The browser of the person: follows redirects to the end.
async fn browse(opened: &Path) -> (String, String) {
    let address = eventually("a browser is opened", PATIENCE, || async {
        std::fs::read_to_string(opened).ok()
    })
    .await;
    let http = reqwest::Client::builder().no_proxy().build().expect("client");
    let page = http.get(&address).send().await.expect("the last page");
    (address, page.text().await.expect("the last page"))
}

fn files_with(folder: &Path, needles: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, needles));
        } else {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).into_owned();
            if needles.iter().any(|needle| text.contains(needle)) {
                found.push(path);
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signing_in_pairs_the_machine_and_leaves_only_the_runner_token() {
    let scene = Scene::set().await;
    let (mut pair, opened, profile) = scene.pair();
    let (address, page) = browse(&opened).await;
    assert!(page.contains("goes on by itself"), "{page}");
    let exit = pair.wait_for_exit(PATIENCE).expect("pair ends");
    let output = pair.output();
    assert!(exit.success(), "{output}");

    // The address comes first, as an event of one line; then the one document.
    let start = output.find("{\"event\":\"sign_in\"").expect("the event");
    let mut documents = serde_json::Deserializer::from_str(&output[start..]).into_iter::<Value>();
    let event = documents.next().expect("the event").expect("JSON");
    assert_eq!(event["url"], json!(address));
    let paired: Value = serde_json::from_str(&output[output.find("{\n").expect("the document")..])
        .unwrap_or_else(|error| panic!("{error}: {output}"));
    assert_eq!(paired["runner"]["owner"], "oidc:ann");
    assert_eq!(paired["runner"]["workspace"], "acme");

    // With everything that may be logged, no code, verifier, ID token or key is anywhere.
    let output = output.replace(&address, "");
    for secret in ["ak_", "code-1", "code_verifier", "eyJhbGciOi"] {
        let hub_folder = scene.world.home().join("hub");
        let places = [
            files_with(&profile, &[secret]),
            files_with(&hub_folder, &[secret]),
        ];
        assert!(places.iter().all(Vec::is_empty), "{secret}: {places:?}");
        let hub_log = scene.world.hub.output();
        assert!(
            !output.contains(secret) && !hub_log.contains(secret),
            "{secret}: {output}\n{hub_log}"
        );
    }

    // The runner works for its person: it comes online by its own token.
    let mut command = Command::new(BINARY);
    command.args(["start", "--json"]).env("EVERDICT_HOME", &profile);
    let runner = Child::start(command, &scene.world.home().join("start.log"));
    let key = scene.key().await;
    let http = reqwest::Client::builder().no_proxy().build().expect("client");
    let url = format!("{}/runners", scene.world.url());
    eventually("the runner is seen by its hub", PATIENCE, || async {
        let answer = http.get(&url).bearer_auth(&key).send().await.ok()?;
        let listed: Value = answer.json().await.ok()?;
        listed["runners"][0]["lastSeenAt"].is_string().then_some(())
    })
    .await;
    drop(runner);
    // Somebody else's runners are not hers.
    assert_eq!(scene.runners().await, json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_refused_or_changes_their_mind_leaves_nothing() {
    let scene = Scene::set().await;
    for (deviation, exit_code, word) in [
        (Deviation::Refuse("access_denied"), 5, "refused the sign-in"),
        (
            Deviation::Signature(Signed::Hs256WithPublicKey),
            5,
            "doesn't accept this sign-in",
        ),
        (
            Deviation::Claim("aud", json!("another-app")),
            5,
            "for another application",
        ),
    ] {
        scene.provider.deviate([deviation.clone()]);
        let (mut pair, opened, profile) = scene.pair();
        browse(&opened).await;
        let exit = pair.wait_for_exit(PATIENCE).expect("pair ends");
        let output = pair.output();
        assert_eq!(exit.code(), Some(exit_code), "{deviation:?}: {output}");
        assert!(output.contains(word) && output.contains("next: "), "{output}");
        assert_eq!(files_with(&profile, &["rnr_", "ak_"]), Vec::<PathBuf>::new());
    }
    scene.provider.deviate([Deviation::Silence]);
    let (mut pair, opened, profile) = scene.pair();
    browse(&opened).await;
    pair.signal(libc::SIGINT);
    let exit = pair.wait_for_exit(PATIENCE).expect("pair ends");
    assert_eq!(exit.code(), Some(130), "{}", pair.output());
    assert_eq!(files_with(&profile, &["rnr_", "ak_"]), Vec::<PathBuf>::new());
    let key = scene.key().await;
    let http = reqwest::Client::builder().no_proxy().build().expect("client");
    let listed = http
        .get(format!("{}/runners", scene.world.url()))
        .bearer_auth(&key);
    let listed: Value = listed.send().await.expect("the hub").json().await.expect("JSON");
    assert_eq!(listed["runners"], json!([]));
}

impl Scene {
    /// A key of the person, got as any client would.
    async fn key(&self) -> String {
        self.provider.deviate([]);
        let nonce = "of-the-test";
        let body = json!({"idToken": self.provider.id_token(nonce), "nonce": nonce});
        let (status, given) = self.world.call(Method::POST, "/auth/oidc", Some(body)).await;
        assert_eq!(status, 200, "{given}");
        given["apiKey"].as_str().expect("a key").to_owned()
    }
}
