use std::time::Duration;

use reqwest::StatusCode;
use secrecy::ExposeSecret as _;

use super::*;

const ISSUER: &str = "https://id.example";
const PATIENCE: Duration = Duration::from_secs(20);

struct Open {
    base: String,
    port: u16,
    http: reqwest::Client,
    answer: JoinSet<Answer>,
}

async fn open() -> Open {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = Listener::bind().await.unwrap();
    let base = listener.redirect_uri();
    let port = listener.address.port();
    let mut answer = JoinSet::new();
    answer.spawn(async move { listener.answer("the-state", ISSUER).await });
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    Open {
        base,
        port,
        http,
        answer,
    }
}

impl Open {
    async fn get(&self, query: &str) -> (StatusCode, String) {
        let answer = self
            .http
            .get(format!("{}?{query}", self.base))
            .send()
            .await
            .unwrap();
        (answer.status(), answer.text().await.unwrap())
    }

    async fn heard(mut self) -> Answer {
        let heard = tokio::time::timeout(PATIENCE, self.answer.join_next()).await;
        heard.unwrap().unwrap().unwrap()
    }
}

#[tokio::test]
async fn one_answer_with_the_right_state_is_heard_and_nothing_of_it_is_shown() {
    let open = open().await;
    assert!(open.base.starts_with("http://127.0.0.1:") && open.base.ends_with("/callback"));
    let (status, page) = open
        .get("code=the-code&state=the-state&iss=https%3A%2F%2Fid.example")
        .await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("goes on by itself"), "{page}");
    assert!(
        !page.contains("the-code") && !page.contains("the-state"),
        "{page}"
    );
    let Answer::Code(code) = open.heard().await else {
        panic!("no code");
    };
    assert_eq!(code.expose_secret(), "the-code");
}

#[tokio::test]
async fn what_is_not_our_answer_is_refused_and_the_wait_goes_on() {
    let open = open().await;
    for query in [
        "code=c&state=another",
        "code=c",
        "state=the-state",
        "code=&state=the-state",
        "code=a&code=b&state=the-state",
        "code=a&state=the-state&state=the-state",
        "error=access_denied&state=another",
        "",
    ] {
        assert_eq!(open.get(query).await.0, StatusCode::BAD_REQUEST, "{query}");
    }
    let good = "code=c&state=the-state";
    for path in ["/", "/favicon.ico", "/callback/x", "/CALLBACK"] {
        let url = format!("http://127.0.0.1:{}{path}?{good}", open.port);
        let answer = open.http.get(url).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
    }
    let posted = open
        .http
        .post(format!("{}?{good}", open.base))
        .send()
        .await
        .unwrap();
    assert_eq!(posted.status(), StatusCode::NOT_FOUND);
    for host in ["evil.example", "localhost", "127.0.0.1", "127.0.0.1:1", "[::1]"] {
        let asked = open
            .http
            .get(format!("{}?{good}", open.base))
            .header("host", host);
        let answer = asked.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{host}");
    }
    assert_eq!(open.get(good).await.0, StatusCode::OK);
    assert!(matches!(open.heard().await, Answer::Code(_)));
}

#[tokio::test]
async fn a_refusal_and_another_issuer_are_told_apart_and_the_page_speaks_korean() {
    let refused = open().await;
    let query = "error=access_denied&error_description=%3Cb%3Eno%3C%2Fb%3E&state=the-state";
    let asked = refused.http.get(format!("{}?{query}", refused.base));
    let page = asked
        .header("accept-language", "ko-KR,ko;q=0.9,en;q=0.8")
        .send()
        .await
        .unwrap();
    let page = page.text().await.unwrap();
    assert!(
        page.contains("로그인이 완료되지 않았습니다") && !page.contains("<b>"),
        "{page}"
    );
    match refused.heard().await {
        Answer::Refused { error, words } => assert_eq!((&*error, &*words), ("access_denied", "<b>no</b>")),
        other => panic!("{other:?}"),
    }
    let mixed = open().await;
    mixed
        .get("code=c&state=the-state&iss=https%3A%2F%2Fother.example")
        .await;
    assert!(matches!(mixed.heard().await, Answer::OtherIssuer));
}

#[tokio::test]
async fn silent_connections_hold_nothing_up_and_the_port_closes_with_the_wait() {
    let open = open().await;
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS - 1 {
        silent.push(TcpStream::connect(("127.0.0.1", open.port)).await.unwrap());
    }
    assert_eq!(open.get("code=c&state=the-state").await.0, StatusCode::OK);
    let port = open.port;
    open.heard().await;
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
}
