//! The pages over HTTP: who is let in, what is refused, and that calls and streams are those of the engine.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everdict_app::control::{Control, ControlOptions, Leave};
use everdict_app::{ContainerOptions, EnvSecrets, Page, Panel, Paths, Settings};
use everdict_exec::HostEnv;
use reqwest::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, ORIGIN, SET_COOKIE};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

const SETTINGS: &str =
    "[hub]\nlisten = \"127.0.0.1:0\"\n[topology]\nendpoint = \"unix:///nonexistent/docker.sock\"\n";

const PAGES: [Page; 2] = [
    Page {
        path: "/index.html",
        mime: "text/html; charset=utf-8",
        body: b"<title>Everdict Runner</title>",
    },
    Page {
        path: "/assets/a.js",
        mime: "text/javascript",
        body: b"1",
    },
];

/// A message that is due at once; two busy cores may need far longer.
const DEADLINE: Duration = Duration::from_secs(30);

struct Served {
    control: Arc<Control>,
    panel: Panel,
    http: Client,
    base: String,
    ticket: String,
}

async fn serve(home: &Path) -> Served {
    let paths = Paths::under(home);
    let settings = Settings::parse("settings.toml", SETTINGS).unwrap();
    let mut containers = ContainerOptions::new(&paths, &settings, "test");
    containers.watchdog = None;
    let path = HostEnv::capture().get("PATH").unwrap_or_default().to_owned();
    let env = Arc::new(HostEnv::from_pairs([("PATH", path.as_str())]));
    let control = Control::start(ControlOptions {
        program: "a test",
        containers,
        secrets: EnvSecrets::from_env(&env),
        env,
        paths,
        settings,
        version: "0.0.0-test".to_owned(),
        tray_host: false,
        autostart: None,
    });
    let control = Arc::new(control.unwrap());
    let panel = Panel::start(
        Arc::clone(&control),
        "127.0.0.1:0".parse().unwrap(),
        PAGES.to_vec(),
    )
    .await
    .unwrap();
    let link = panel.link();
    let (base, ticket) = link.split_once("/#ticket=").unwrap();
    Served {
        http: Client::builder().no_proxy().build().unwrap(),
        base: base.to_owned(),
        ticket: ticket.to_owned(),
        control,
        panel,
    }
}

impl Served {
    fn post(&self, name: &str, body: &Value) -> RequestBuilder {
        self.http.post(format!("{}/api/{name}", self.base)).json(body)
    }

    async fn session(&self) -> String {
        let answer = self
            .post("session", &json!({"ticket": self.ticket}))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let cookie = answer.headers()[SET_COOKIE].to_str().unwrap().to_owned();
        assert!(
            cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
            "{cookie}"
        );
        cookie.split(';').next().unwrap().to_owned()
    }

    async fn end(self) {
        self.panel.stop().await;
        self.control.leave(Leave::Now).await;
    }
}

async fn code(answer: Response) -> (StatusCode, String) {
    let status = answer.status();
    let failure: Value = answer.json().await.unwrap();
    assert!(failure["fix"].is_string(), "{failure}");
    (status, failure["code"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_lets_one_browser_in_once() {
    let home = tempfile::tempdir().unwrap();
    let served = serve(home.path()).await;
    let wrong = served
        .post("session", &json!({"ticket": "0"}))
        .send()
        .await
        .unwrap();
    assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);
    let cookie = served.session().await;
    let again = served
        .post("session", &json!({"ticket": served.ticket}))
        .send()
        .await
        .unwrap();
    assert_eq!(
        code(again).await,
        (StatusCode::UNAUTHORIZED, "ticket_used".to_owned())
    );

    let without = served.post("snapshot", &json!({})).send().await.unwrap();
    assert_eq!(without.status(), StatusCode::UNAUTHORIZED);
    for forged in ["", "everdict_1=x", &cookie.replace('=', "=0")] {
        let request = served.post("snapshot", &json!({})).header(COOKIE, forged);
        assert_eq!(
            request.send().await.unwrap().status(),
            StatusCode::UNAUTHORIZED,
            "{forged}"
        );
        let stream = served
            .http
            .get(format!("{}/api/watch", served.base))
            .header(COOKIE, forged);
        assert_eq!(stream.send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    }
    let with = served
        .post("snapshot", &json!({}))
        .header(COOKIE, format!("a=b; {cookie}"));
    let snapshot: Value = with.send().await.unwrap().json().await.unwrap();
    assert_eq!(snapshot["state"], "unpaired");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_page_and_another_name_for_this_address_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let served = serve(home.path()).await;
    let cookie = served.session().await;
    let ask = || served.post("snapshot", &json!({})).header(COOKIE, &cookie);
    let rebound = ask().header(HOST, "evil.example").send().await.unwrap();
    assert_eq!(rebound.status(), StatusCode::MISDIRECTED_REQUEST);
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1"] {
        let foreign = ask().header(ORIGIN, origin).send().await.unwrap();
        assert_eq!(
            code(foreign).await,
            (StatusCode::FORBIDDEN, "foreign_page".to_owned()),
            "{origin}"
        );
    }
    let framed = ask().header("sec-fetch-site", "cross-site").send().await.unwrap();
    assert_eq!(framed.status(), StatusCode::FORBIDDEN);
    let form = served
        .http
        .post(format!("{}/api/snapshot", served.base))
        .header(COOKIE, &cookie)
        .body("{}");
    assert_eq!(
        form.send().await.unwrap().status(),
        StatusCode::UNSUPPORTED_MEDIA_TYPE
    );
    let own = ask()
        .header(ORIGIN, served.base.clone())
        .header("sec-fetch-site", "same-origin");
    assert_eq!(own.send().await.unwrap().status(), StatusCode::OK);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_come_with_fences_and_calls_with_the_engine_s_own_words() {
    let home = tempfile::tempdir().unwrap();
    let served = serve(home.path()).await;
    let page = served.http.get(format!("{}/", served.base)).send().await.unwrap();
    let policy = page.headers()[CONTENT_SECURITY_POLICY]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(
        policy.contains("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert_eq!(page.headers()["x-content-type-options"], "nosniff");
    assert!(
        page.headers()[CONTENT_TYPE]
            .to_str()
            .unwrap()
            .starts_with("text/html")
    );
    assert!(page.text().await.unwrap().contains("Everdict Runner"));
    for path in ["/../Cargo.toml", "/assets/%2e%2e/a", "/assets/", "/api/nothing"] {
        let gone = served
            .http
            .get(format!("{}{path}", served.base))
            .send()
            .await
            .unwrap();
        assert!(gone.status().is_client_error(), "{path}");
    }
    let cookie = served.session().await;
    let ask = |name, body: Value| served.post(name, &body).header(COOKIE, &cookie).send();
    let refused = ask("unpair", json!({"runnerId": "nobody"})).await.unwrap();
    assert_eq!(
        code(refused).await,
        (StatusCode::UNPROCESSABLE_ENTITY, "runner_unknown".to_owned())
    );
    let bad = ask("unpair", json!({})).await.unwrap();
    assert_eq!(code(bad).await.1, "bad_arguments");
    assert_eq!(
        ask("no_such_call", json!({})).await.unwrap().status(),
        StatusCode::NOT_FOUND
    );
    let nothing = ask("pause", json!({"forSeconds": null})).await.unwrap();
    assert_eq!(nothing.text().await.unwrap(), "null");
    let broken = served
        .http
        .post(format!("{}/api/pause", served.base))
        .header(COOKIE, &cookie);
    let broken = broken
        .header(CONTENT_TYPE, "application/json")
        .body("{oops")
        .send()
        .await
        .unwrap();
    assert_eq!(broken.status(), StatusCode::BAD_REQUEST);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_is_followed_from_its_whole_on() {
    let home = tempfile::tempdir().unwrap();
    let served = serve(home.path()).await;
    let cookie = served.session().await;
    let watch = served
        .http
        .get(format!("{}/api/watch", served.base))
        .header(COOKIE, &cookie);
    let mut stream = watch.header("last-event-id", "7").send().await.unwrap();
    assert_eq!(stream.headers()[CONTENT_TYPE], "text/event-stream");
    let mut text = String::new();
    let mut paused = false;
    let reading = async {
        while let Some(chunk) = stream.chunk().await.unwrap() {
            text.push_str(&String::from_utf8_lossy(&chunk));
            if !paused && text.contains("\"kind\":\"snapshot\"") {
                paused = true;
                let pause = served
                    .post("pause", &json!({"forSeconds": null}))
                    .header(COOKIE, &cookie);
                pause.send().await.unwrap();
            }
            if text.contains("\"pausedUntil\":\"resume\"") {
                break;
            }
        }
    };
    tokio::time::timeout(DEADLINE, reading)
        .await
        .expect("the pause shows");
    assert!(text.starts_with("data: {\"kind\":\"snapshot\""), "{text}");
    let unknown = served
        .http
        .get(format!("{}/api/watch_log?jobId=x", served.base))
        .header(COOKIE, &cookie);
    assert_eq!(code(unknown.send().await.unwrap()).await.1, "log_gone");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_listens_on_this_machine_alone() {
    let home = tempfile::tempdir().unwrap();
    let served = serve(home.path()).await;
    let control = Arc::clone(&served.control);
    let open = Panel::start(Arc::clone(&control), "0.0.0.0:0".parse().unwrap(), PAGES.to_vec()).await;
    assert!(open.err().unwrap().next_step().unwrap().contains("ssh"));
    let empty = Panel::start(control, "127.0.0.1:0".parse().unwrap(), Vec::new()).await;
    assert!(empty.err().unwrap().next_step().unwrap().contains("make ui"));
    served.end().await;
}
