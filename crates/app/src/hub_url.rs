//! The address of a hub, as people type it.

use reqwest::Url;

use crate::problem::{Problem, Result};

/// Parses a hub's address: http or https, a host, no user, query or fragment; trailing slashes are dropped.
///
/// # Errors
/// A problem about input that shows the text and says what to change.
pub fn parse(text: &str) -> Result<Url> {
    let trimmed = text.trim();
    let refuse = |why: &str, fix: String| {
        Problem::input(format!("\"{trimmed}\" is not the address of a hub: {why}")).fix(fix)
    };
    if !trimmed.contains("://") {
        let example = format!("use http://{trimmed} or https://{trimmed}");
        return Err(refuse("it has no http:// or https:// in front", example));
    }
    let mut url =
        Url::parse(trimmed).map_err(|error| refuse("it can't be read as a URL", usage()).because(error))?;
    if !matches!(url.scheme(), "http" | "https") {
        let why = format!("{}: is not http: or https:", url.scheme());
        return Err(refuse(&why, usage()));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(refuse("it names no host", usage()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let fix = "leave out the part before the @; the key goes into EVERDICT_API_KEY";
        return Err(refuse("it carries a user or password", fix.to_owned()));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refuse("it carries a query or fragment", usage()));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

/// Returns the text form without a trailing slash, as stored and shown.
#[must_use]
pub fn text(url: &Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

/// Returns the host and, when it isn't the usual one, the port: how people name a hub.
#[must_use]
pub fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Tells whether a token would cross a network unencrypted.
#[must_use]
pub fn is_cleartext(url: &Url) -> bool {
    url.scheme() != "https" && !is_loopback(url)
}

/// Tells whether the hub is on this machine, where no proxy belongs in between.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost"
        || bare.ends_with(".localhost")
        || bare
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn usage() -> String {
    "give an address such as https://everdict.example or http://127.0.0.1:8787".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_addresses_lose_their_trailing_slash() {
        for (given, kept) in [
            ("http://localhost:8787", "http://localhost:8787"),
            (" https://h.example/ ", "https://h.example"),
            ("https://h.example/cp/", "https://h.example/cp"),
        ] {
            assert_eq!(text(&parse(given).unwrap()), kept);
        }
    }

    #[test]
    fn bad_addresses_say_what_to_change() {
        for (given, word) in [
            ("h.example:8787", "http:// or https:// in front"),
            ("ftp://h.example", "ftp: is not http: or https:"),
            ("http://", "can't be read as a URL"),
            ("http://u:p@h.example", "user or password"),
            ("http://h.example/?a=b", "query or fragment"),
        ] {
            let problem = parse(given).unwrap_err();
            assert!(problem.to_string().contains(word), "{given}: {problem}");
            assert!(problem.next_step().is_some());
        }
    }

    #[test]
    fn only_plain_http_beyond_loopback_is_cleartext() {
        for (given, clear) in [
            ("http://localhost:1", false),
            ("http://127.0.0.9", false),
            ("http://[::1]:8787", false),
            ("https://h.example", false),
            ("http://h.example", true),
            ("http://10.0.0.2:8787", true),
        ] {
            assert_eq!(is_cleartext(&parse(given).unwrap()), clear, "{given}");
        }
    }
}
