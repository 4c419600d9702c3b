//! What people paste to pair: a runner token, the hub's attach command, or a pairing link.

use reqwest::Url;
use secrecy::SecretString;

use crate::pairing::{check_label, is_runner_token};
use crate::problem::{Problem, Result};

/// An attach command with the longest address in use is a tenth of this.
const MAX_TEXT: usize = 4096;

/// The longest address of a hub, or token, that a link may carry; real ones are a tenth of it.
const MAX_PART: usize = 512;

/// A pasted text, taken apart. Nothing in it was asked of a hub yet.
#[derive(Debug, Clone)]
pub(super) struct Invitation {
    pub(super) token: SecretString,
    pub(super) hub: Option<String>,
    /// A name for this machine that whoever made the link proposes.
    pub(super) label: Option<String>,
}

/// Reads a pasted text.
///
/// # Errors
/// A problem about input; the text itself is never repeated, since it may hold a token.
pub(super) fn parse(text: &str) -> Result<Invitation> {
    let text = checked_text(text)?;
    if is_runner_token(text) {
        return Ok(invitation(text, None));
    }
    if text.contains("://") && !text.contains(char::is_whitespace) {
        return link(text);
    }
    command(text)
}

/// Reads a text that has to be a pairing link.
///
/// # Errors
/// As [`parse`].
pub(super) fn parse_link(text: &str) -> Result<Invitation> {
    link(checked_text(text)?)
}

fn checked_text(text: &str) -> Result<&str> {
    let text = text.trim();
    if text.len() > MAX_TEXT {
        return Err(refuse("the text is too long"));
    }
    if text.chars().any(char::is_control) {
        return Err(refuse("the text has more than one line or control characters"));
    }
    Ok(text)
}

fn link(text: &str) -> Result<Invitation> {
    let url = Url::parse(text).map_err(|error| refuse("the link can't be read").because(error))?;
    if url.scheme() != "everdict" {
        return Err(refuse(
            "this is a link, but not a pairing link (everdict://pair?…)",
        ));
    }
    if url.host_str() != Some("pair") || !matches!(url.path(), "" | "/") {
        return Err(refuse("this everdict: link doesn't pair"));
    }
    let (mut token, mut hub, mut label) = (None, None, None);
    for (key, value) in url.query_pairs() {
        let place = match key.as_ref() {
            "token" => &mut token,
            "hub" | "apiUrl" | "api-url" => &mut hub,
            "label" => &mut label,
            _ => return Err(refuse("the link has a part that a pairing link doesn't have")),
        };
        if value.len() > MAX_PART {
            return Err(refuse("a part of the link is too long"));
        }
        if place.replace(value.into_owned()).is_some() {
            return Err(refuse("the link names something twice"));
        }
    }
    let label = label.filter(|label| !label.is_empty());
    if !label.as_deref().is_none_or(is_plain_label) {
        return Err(refuse(
            "the name in the link has characters that a name doesn't have",
        ));
    }
    Ok(Invitation {
        label,
        ..checked(token, hub)?
    })
}

/// A name that reads as it is written: no mark-up, nothing invisible, nothing that turns the line around.
fn is_plain_label(label: &str) -> bool {
    let hidden = |c: char| {
        matches!(c, '<' | '>' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}')
            || ('\u{200b}'..='\u{200f}').contains(&c)
            || ('\u{2028}'..='\u{202e}').contains(&c)
            || ('\u{2060}'..='\u{206f}').contains(&c)
            || ('\u{e0000}'..='\u{e0fff}').contains(&c)
    };
    check_label(label).is_ok() && !label.chars().any(hidden)
}

/// `everdict runner --pair "<token>" --api-url "<url>"`, with whatever stands before.
fn command(text: &str) -> Result<Invitation> {
    let mut words = text
        .split_whitespace()
        .map(|word| word.trim_matches(['"', '\'']).to_owned());
    let (mut token, mut hub) = (None, None);
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.trim_matches(['"', '\'']).to_owned())),
            None => (word, None),
        };
        match name.as_str() {
            "--pair" => token = value.or_else(|| words.next()),
            "--api-url" => hub = value.or_else(|| words.next()),
            _ => {}
        }
    }
    checked(token, hub)
}

fn checked(token: Option<String>, hub: Option<String>) -> Result<Invitation> {
    let token = token.filter(|token| is_runner_token(token));
    let token = token.ok_or_else(|| refuse("there is no runner token (rnr_…) in the text"))?;
    Ok(invitation(&token, hub.filter(|hub| !hub.is_empty())))
}

fn invitation(token: &str, hub: Option<String>) -> Invitation {
    Invitation {
        token: SecretString::from(token.to_owned()),
        hub,
        label: None,
    }
}

fn refuse(what: &str) -> Problem {
    Problem::input(what)
        .fix("copy the token, the attach command or the pairing link whole from the hub's Runners page")
        .coded("pairing_text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret as _;

    fn read(text: &str) -> (String, Option<String>) {
        let read = parse(text).unwrap();
        (read.token.expose_secret().to_owned(), read.hub)
    }

    #[test]
    fn each_form_gives_the_token_and_the_hub_it_names() {
        let hub = Some("https://h.example".to_owned());
        let token = || "rnr_a-1".to_owned();
        assert_eq!(read(" rnr_a-1\n"), (token(), None));
        for text in [
            r#"everdict runner --pair "rnr_a-1" --api-url "https://h.example""#,
            "everdict-runner --api-url=https://h.example --pair=rnr_a-1",
            "everdict://pair?hub=https%3A%2F%2Fh.example&token=rnr_a-1",
            "everdict://pair/?token=rnr_a-1&hub=https://h.example&label=x",
        ] {
            assert_eq!(read(text), (token(), hub.clone()), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_a_next_step_and_without_repeating_it() {
        let long = format!("everdict://pair?token=rnr_{}", "a".repeat(MAX_TEXT));
        for text in [
            "",
            "secret-thing",
            "ak_secret-thing",
            "https://h.example/pair?token=rnr_secret-thing",
            "everdict://open?token=rnr_secret-thing",
            "everdict://pair?token=secret-thing",
            "everdict://pair?token=rnr_secret-thing&token=rnr_b",
            "everdict://pair?token=rnr_secret-thing&run=rm",
            "javascript:alert('secret-thing')",
            "rnr_secret-thing\nrnr_b",
            "everdict runner --pair",
            long.as_str(),
        ] {
            let problem = parse(text).unwrap_err();
            assert_eq!(problem.code(), "pairing_text", "{text}");
            assert!(problem.next_step().is_some());
            assert!(!problem.chain().contains("secret-thing"), "{}", problem.chain());
        }
    }
}
