//! Why an image could not be pulled, read from the daemon's words: the Engine API has one status for most of it.

use std::time::Duration;

use everdict_contracts::{ErrorCode, Fault};

/// What stands in the way of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullFailureKind {
    /// The registry has no such image.
    NotFound,
    /// The registry has no such image, or doesn't show it to this user.
    NotFoundOrHidden,
    /// The registry wants another login.
    Login,
    /// The registry wants to be asked less.
    RateLimited,
    /// The image isn't made for this machine.
    Platform,
    /// The registry's name doesn't resolve.
    HostNotFound,
    /// The registry can't be reached, or hung up.
    Network,
    /// The registry's certificate isn't trusted, or it speaks plain HTTP.
    Transport,
    /// The daemon's disk is full.
    DiskFull,
    Other,
}

impl PullFailureKind {
    /// Reads the daemon's words; they come from the registry's answer and from Go's network errors.
    #[expect(
        clippy::too_many_lines,
        reason = "a table from words to kinds, first match first"
    )]
    pub fn of(status: Option<u16>, words: &str) -> Self {
        let text = words.to_ascii_lowercase();
        let says = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
        if says(&["no space left on device"]) {
            Self::DiskFull
        } else if says(&["toomanyrequests", "too many requests", "rate limit", "429"]) || status == Some(429)
        {
            Self::RateLimited
        } else if says(&[
            "no matching manifest",
            "does not match the specified platform",
            "image operating system",
        ]) {
            Self::Platform
        } else if says(&["repository does not exist or may require", "pull access denied"]) {
            Self::NotFoundOrHidden
        } else if says(&[
            "unauthorized",
            "authentication required",
            "no basic auth credentials",
            "access denied",
        ]) || says(&[
            "denied: ",
            "401 unauthorized",
            "403 forbidden",
            "incorrect username or password",
        ]) || matches!(status, Some(401 | 403))
            // All that is left of a registry's 403 when it was asked for the head of a manifest only.
            || text.trim() == "denied"
            || text.trim().ends_with(": denied")
        {
            Self::Login
        } else if says(&[
            "manifest unknown",
            "name unknown",
            "not found: manifest",
            "404 not found",
        ]) || says(&[": not found"])
        {
            Self::NotFound
        } else if says(&[
            "x509:",
            "certificate",
            "server gave http response to https client",
        ]) {
            Self::Transport
        } else if says(&["no such host", "name resolution", "server misbehaving"]) {
            Self::HostNotFound
        } else if says(&[
            "timeout",
            "deadline exceeded",
            "connection refused",
            "connection reset",
            "eof",
        ]) || says(&[
            "network is unreachable",
            "no route to host",
            "502 bad gateway",
            "503 service",
            "504 gateway",
        ]) {
            Self::Network
        } else if status == Some(404) {
            Self::NotFound
        } else {
            Self::Other
        }
    }

    /// Tells whether the same pull may succeed in a moment.
    pub(super) fn is_passing(self) -> bool {
        matches!(self, Self::RateLimited | Self::Network)
    }

    fn code(self) -> ErrorCode {
        match self {
            Self::NotFound | Self::NotFoundOrHidden | Self::Login | Self::Platform => ErrorCode::BadRequest,
            Self::RateLimited => ErrorCode::RateLimited,
            Self::HostNotFound | Self::Network => ErrorCode::UpstreamError,
            Self::Transport => ErrorCode::UpstreamMisconfigured,
            Self::DiskFull | Self::Other => ErrorCode::DriverProvisionFailed,
        }
    }

    fn cause_and_fix(self, registry: &str) -> (&'static str, String) {
        match self {
            Self::NotFound => (
                "doesn't exist",
                "check repository and tag, or push the image".to_owned(),
            ),
            Self::NotFoundOrHidden => (
                "doesn't exist or isn't for everybody",
                format!("check the name, or add a credential for `{registry}` to the workspace"),
            ),
            Self::Login => (
                "needs another login",
                format!("add or renew the workspace's credential for `{registry}`"),
            ),
            Self::RateLimited => (
                "can't be pulled for now, the registry limits pulls",
                format!("run again later, or add a credential for `{registry}`"),
            ),
            Self::Platform => (
                "isn't made for this machine",
                "publish it for this platform too, or target another runner".to_owned(),
            ),
            Self::HostNotFound => (
                "can't be pulled, the registry's name doesn't resolve",
                format!("check `{registry}` and this machine's network"),
            ),
            Self::Network => (
                "can't be pulled, the registry doesn't answer",
                "check this machine's network and run again".to_owned(),
            ),
            Self::Transport => (
                "can't be pulled, the connection to the registry isn't trusted",
                format!("give the docker daemon the certificate of `{registry}`, or list it as insecure"),
            ),
            Self::DiskFull => (
                "can't be pulled, the docker daemon's disk is full",
                "free space, for instance with `docker system prune`".to_owned(),
            ),
            Self::Other => ("can't be pulled", "read the daemon's words".to_owned()),
        }
    }

    /// Makes the fault: place, image, cause, fix and the daemon's words.
    pub(super) fn fault(self, path: &str, image: &str, registry: &str, words: &str) -> Fault {
        let (cause, fix) = self.cause_and_fix(registry);
        let words = words.trim();
        Fault::new(
            self.code(),
            format!("{path}: the image `{image}` {cause}; {fix} (the daemon says: {words})"),
        )
    }
}

/// Reads how long a registry wants to be left alone, as Docker Hub writes it: `retry-after: 1.5s`.
pub(super) fn retry_after(words: &str) -> Option<Duration> {
    let text = words.to_ascii_lowercase();
    let (_, tail) = text.split_once("retry-after:")?;
    let tail = tail.trim_start();
    let end = tail
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(tail.len());
    let number: f64 = tail[..end].parse().ok()?;
    let unit: String = tail[end..].chars().take_while(|c| c.is_alphabetic()).collect();
    let seconds = match unit.as_str() {
        "" | "s" => number,
        "ms" => number / 1_000.0,
        "µs" | "us" => number / 1_000_000.0,
        "m" => number * 60.0,
        "h" => number * 3_600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use PullFailureKind as Kind;

    #[expect(clippy::too_many_lines, reason = "a table")]
    #[test]
    fn the_daemons_words_are_understood() {
        let cases = [
            (
                Some(404),
                "manifest for redis:nope not found: manifest unknown: manifest unknown",
                Kind::NotFound,
            ),
            (Some(500), "manifest unknown", Kind::NotFound),
            (
                Some(404),
                "pull access denied for x, repository does not exist or may require 'docker login': denied: \
                 requested access to the resource is denied",
                Kind::NotFoundOrHidden,
            ),
            (
                Some(500),
                "Head \"https://r.io/v2/x/manifests/1\": unauthorized: authentication required",
                Kind::Login,
            ),
            (Some(500), "denied", Kind::Login),
            (
                Some(500),
                "Head \"https://r.io/v2/x/manifests/1\": denied",
                Kind::Login,
            ),
            (
                Some(500),
                "open /var/lib/docker/tmp/x: permission denied",
                Kind::Other,
            ),
            (
                Some(500),
                "Get \"https://r.io/v2/\": no basic auth credentials",
                Kind::Login,
            ),
            (
                Some(500),
                "unexpected status from HEAD request to https://r.io/v2/x: 403 Forbidden",
                Kind::Login,
            ),
            (
                Some(500),
                "toomanyrequests: You have reached your pull rate limit. You may increase the limit by \
                 authenticating and upgrading",
                Kind::RateLimited,
            ),
            (
                Some(500),
                "received unexpected HTTP status: 429 Too Many Requests",
                Kind::RateLimited,
            ),
            (
                None,
                "no matching manifest for linux/arm64/v8 in the manifest list entries",
                Kind::Platform,
            ),
            (
                Some(500),
                "Get \"https://registry.example/v2/\": dial tcp: lookup registry.example on 1.1.1.1:53: no such host",
                Kind::HostNotFound,
            ),
            (
                Some(500),
                "Get \"https://r.io/v2/\": net/http: TLS handshake timeout",
                Kind::Network,
            ),
            (
                Some(500),
                "dial tcp 10.0.0.1:443: connect: connection refused",
                Kind::Network,
            ),
            (Some(500), "unexpected EOF", Kind::Network),
            (
                Some(500),
                "x509: certificate signed by unknown authority",
                Kind::Transport,
            ),
            (
                Some(500),
                "http: server gave HTTP response to HTTPS client",
                Kind::Transport,
            ),
            (
                None,
                "write /var/lib/docker/x: no space left on device",
                Kind::DiskFull,
            ),
            (Some(500), "something new", Kind::Other),
        ];
        for (status, words, kind) in cases {
            assert_eq!(Kind::of(status, words), kind, "{words}");
        }
    }

    #[test]
    fn every_failure_names_place_image_fix_and_words() {
        let fault = Kind::Login.fault(
            "harnessSpec.services[0].image",
            "r.io/web:1",
            "r.io",
            "unauthorized\n",
        );
        assert_eq!(fault.code, ErrorCode::BadRequest);
        assert_eq!(
            fault.message,
            "harnessSpec.services[0].image: the image `r.io/web:1` needs another login; add or renew the workspace's \
             credential for `r.io` (the daemon says: unauthorized)"
        );
        assert_eq!(
            Kind::RateLimited.fault("p", "i", "r", "w").code,
            ErrorCode::RateLimited
        );
        assert!(Kind::HostNotFound.fault("p", "i", "r", "w").failure().retryable);
        assert!(!Kind::NotFound.fault("p", "i", "r", "w").failure().retryable);
    }

    #[test]
    fn a_wait_is_read_in_any_unit() {
        let cases = [
            (
                "toomanyrequests: retry-after: 812.5ms, allowed: 44000/minute",
                Some(Duration::from_micros(812_500)),
            ),
            ("Retry-After: 30", Some(Duration::from_secs(30))),
            ("retry-after: 2m", Some(Duration::from_secs(120))),
            ("retry-after: soon", None),
            ("retry-after: -3s", None),
            ("toomanyrequests", None),
        ];
        for (words, wait) in cases {
            assert_eq!(retry_after(words), wait, "{words}");
        }
    }
}
