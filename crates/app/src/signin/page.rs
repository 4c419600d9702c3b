//! The page that the browser shows at the end: small, static, and unable to do anything.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use sha2::{Digest as _, Sha256};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:32rem;margin:20vh auto;padding:0 1rem;\
    color:#1c1d22;background:#fff}@media(prefers-color-scheme:dark){body{color:#e8e9ee;background:#17181c}}";

/// What to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// The provider's answer has arrived.
    Received,
    /// The provider's answer is a refusal.
    NotFinished,
    /// The address is of no sign-in that goes on here.
    Strange,
    /// There is no such page.
    Nothing,
}

impl Word {
    fn status(self) -> StatusCode {
        match self {
            Self::Received | Self::NotFinished => StatusCode::OK,
            Self::Strange => StatusCode::BAD_REQUEST,
            Self::Nothing => StatusCode::NOT_FOUND,
        }
    }

    fn text(self, korean: bool) -> (&'static str, &'static str) {
        match (self, korean) {
            (Self::Received, false) => (
                "Back to Everdict Runner",
                "The provider has answered. Everdict Runner goes on by itself; you can close this page.",
            ),
            (Self::Received, true) => (
                "Everdict Runner로 돌아가세요",
                "제공자의 응답을 받았습니다. 나머지는 Everdict Runner가 이어서 처리하니 이 페이지를 닫아도 됩니다.",
            ),
            (Self::NotFinished, false) => (
                "Sign-in was not finished",
                "Everdict Runner says why, and what to do next. You can close this page.",
            ),
            (Self::NotFinished, true) => (
                "로그인이 완료되지 않았습니다",
                "이유와 다음 단계는 Everdict Runner에 표시됩니다. 이 페이지를 닫아도 됩니다.",
            ),
            (Self::Strange, false) => (
                "This page belongs to no sign-in",
                "Start again in Everdict Runner.",
            ),
            (Self::Strange, true) => (
                "진행 중인 로그인이 아닙니다",
                "Everdict Runner에서 다시 시작하세요.",
            ),
            (Self::Nothing, false) => ("Nothing here", "Go back to Everdict Runner."),
            (Self::Nothing, true) => ("페이지가 없습니다", "Everdict Runner로 돌아가세요."),
        }
    }
}

/// Makes the answer; nothing of the request is in it.
pub(super) fn answer(word: Word, korean: bool) -> Response<String> {
    let (title, text) = word.text(korean);
    let language = if korean { "ko" } else { "en" };
    let html = format!(
        "<!doctype html><html lang=\"{language}\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>{STYLE}</style><h1>{title}</h1><p>{text}</p></html>"
    );
    let mut response = Response::new(html);
    *response.status_mut() = word.status();
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        // The address of the page carries the code.
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CONNECTION, "close"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let policy = HeaderValue::from_str(&policy()).expect("BUG: the policy is plain ASCII");
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

fn policy() -> String {
    let style = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_page_can_run_or_load_anything() {
        for word in [Word::Received, Word::NotFinished, Word::Strange, Word::Nothing] {
            for korean in [false, true] {
                let page = answer(word, korean);
                let policy = page.headers()["content-security-policy"].to_str().unwrap();
                assert!(
                    policy.starts_with("default-src 'none'; style-src 'sha256-"),
                    "{policy}"
                );
                assert!(!policy.contains("unsafe"), "{policy}");
                for active in ["<script", "src=", "href=", "url(", " on"] {
                    let markup = page.body().split("<h1>").next().unwrap();
                    assert!(!markup.contains(active), "{active}");
                }
            }
        }
    }
}
