//! What can go wrong in a sign-in, each with its words and next step.

use reqwest::Url;

use super::provider::UNREACHABLE;
use crate::hub_client::HubFault;
use crate::hub_url;
use crate::problem::{Problem, ProblemClass};

/// More of a provider's own words than this is no sentence.
const MAX_WORDS: usize = 200;

const ASK_THE_HUB: &str = "tell whoever runs the hub; until then pair with an API key";

pub(super) fn not_offered(hub: &Url) -> Problem {
    Problem::input(format!("{} has no sign-in in the browser", hub_url::host(hub)))
        .fix("pair with an API key or a pairing link")
        .coded("sign_in_not_offered")
}

pub(super) fn bad_offer(why: &str) -> Problem {
    Problem::new(
        UNREACHABLE,
        format!("the hub names an identity provider that can't be used: {why}"),
    )
    .fix(ASK_THE_HUB)
    .coded("sign_in_setup")
}

pub(super) fn unreachable(fault: &HubFault) -> Problem {
    Problem::new(
        UNREACHABLE,
        format!("the identity provider doesn't answer: {fault}"),
    )
    .fix("check the network, VPN and proxy, then sign in again")
    .coded("provider_unreachable")
}

pub(super) fn provider_status(provider: &Url, status: u16) -> Problem {
    let host = hub_url::host(provider);
    let problem = Problem::new(
        UNREACHABLE,
        format!("the identity provider {host} failed ({status})"),
    );
    let fix = if status >= 500 {
        "try again later"
    } else {
        ASK_THE_HUB
    };
    problem.fix(fix).coded("provider_unreachable")
}

pub(super) fn not_a_provider(provider: &Url) -> Problem {
    let host = hub_url::host(provider);
    Problem::new(
        UNREACHABLE,
        format!("{host} answered, but not as the identity provider that the hub names"),
    )
    .fix("sign in to the network in a browser if it asks for it, then try again; else tell whoever runs the hub")
    .coded("provider_unreachable")
}

pub(super) fn no_id_token(provider: &Url) -> Problem {
    let host = hub_url::host(provider);
    Problem::new(
        ProblemClass::General,
        format!("{host} says nothing about who signed in (no ID token)"),
    )
    .fix(ASK_THE_HUB)
    .coded("sign_in_setup")
}

pub(super) fn other_issuer(host: &str) -> Problem {
    Problem::new(
        ProblemClass::Refused,
        format!("the browser came back from another provider than {host}"),
    )
    .fix("sign in again, and close other sign-in pages first")
    .coded("sign_in_failed")
}

pub(super) fn timed_out() -> Problem {
    Problem::new(ProblemClass::General, "nobody signed in within five minutes")
        .fix("start again, and finish in the browser window that opens")
        .coded("sign_in_timeout")
}

pub(crate) fn cancelled() -> Problem {
    Problem::new(ProblemClass::Interrupted, "the sign-in was cancelled").coded("sign_in_cancelled")
}

pub(super) fn no_browser() -> Problem {
    Problem::machine("no browser could be opened")
        .fix("install xdg-utils and choose a default browser, or pair with an API key")
        .coded("browser_unavailable")
}

/// The hub's no to a token that the provider has given.
pub(super) fn hub_refused(fault: HubFault) -> Problem {
    match fault {
        HubFault::Unauthenticated { hub, message } => Problem::new(
            ProblemClass::Refused,
            format!("{hub} doesn't accept this sign-in"),
        )
        .because(message)
        .fix("sign in again; if it stays so, check the clocks of this machine and the hub")
        .coded("sign_in_refused"),
        HubFault::Forbidden { hub, message } => {
            Problem::new(ProblemClass::Refused, format!("{hub} refused: {message}"))
                .fix("ask whoever runs the hub, or sign in as somebody else")
                .coded("sign_in_refused")
        }
        other => Problem::from(other),
    }
}

/// An error code of OAuth (RFC 6749, 4.1.2.1 and 5.2; OpenID Connect Core 3.1.2.6).
pub(super) fn refusal(host: &str, error: &str, words: &str) -> Problem {
    let (class, what, fix, code) = match error {
        "access_denied" => (
            ProblemClass::Refused,
            format!("{host} refused the sign-in"),
            "sign in again and allow it, or as somebody else",
            "sign_in_denied",
        ),
        "login_required" | "interaction_required" | "consent_required" | "account_selection_required" => (
            ProblemClass::Refused,
            format!("{host} wants more than it was shown"),
            "sign in to it in the browser, then start again here",
            "sign_in_denied",
        ),
        "invalid_grant" => (
            ProblemClass::Refused,
            format!("{host} doesn't accept its own answer any more"),
            "sign in again",
            "sign_in_failed",
        ),
        "server_error" | "temporarily_unavailable" => (
            UNREACHABLE,
            format!("{host} failed"),
            "try again later",
            "provider_unreachable",
        ),
        _ => (
            ProblemClass::General,
            format!("{host} doesn't take the request ({})", clean(error)),
            ASK_THE_HUB,
            "sign_in_setup",
        ),
    };
    let problem = Problem::new(class, what).fix(fix).coded(code);
    match clean(words) {
        words if words.is_empty() => problem,
        words => problem.because(words),
    }
}

/// A provider's words as one bounded line; whoever shows them shows text.
fn clean(words: &str) -> String {
    // Marks of direction could make a sentence read as another one.
    let plain = |c: &char| !c.is_control() && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let text: String = words.chars().filter(plain).take(MAX_WORDS).collect();
    text.trim().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_code_and_a_next_step() {
        for (error, code) in [
            ("access_denied", "sign_in_denied"),
            ("login_required", "sign_in_denied"),
            ("invalid_grant", "sign_in_failed"),
            ("server_error", "provider_unreachable"),
            ("invalid_client", "sign_in_setup"),
            ("made\u{7}_up", "sign_in_setup"),
        ] {
            let problem = refusal("id.example", error, "not\ntoday\u{202e}.");
            assert_eq!(problem.code(), code, "{error}");
            assert!(problem.next_step().is_some());
            assert!(problem.chain().ends_with(": nottoday"), "{}", problem.chain());
        }
    }
}
