//! Image references, and which credential fits one.

use std::fmt;
use std::str::FromStr;

use everdict_contracts::RegistryAuth;

/// Longest tag (OCI distribution specification).
const MAX_TAG_CHARS: usize = 128;
/// Name that a credential without a user goes by; part of the protocol.
const DEFAULT_USER: &str = "everdict";

/// An image reference, taken apart: `[host/]repository[:tag][@digest]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageRef {
    host: Option<String>,
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// Why a text is no image reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no image reference: {why}")]
pub struct ImageRefError {
    text: String,
    why: &'static str,
}

impl ImageRef {
    /// Takes a reference apart. The first part is a registry's host only if a slash follows and it has a dot or a
    /// colon, or is `localhost`.
    ///
    /// # Errors
    /// When a part is empty or has characters that registries don't take.
    pub fn parse(text: &str) -> Result<Self, ImageRefError> {
        Self::split(text).map_err(|why| ImageRefError {
            text: text.to_owned(),
            why,
        })
    }

    fn split(text: &str) -> Result<Self, &'static str> {
        let (host, rest) = match text.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (Some(first), rest),
            _ => (None, text),
        };
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (rest, None),
        };
        let (repository, tag) = match rest.rsplit_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (rest, None),
        };
        if host.is_some_and(|host| {
            !host
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || ".:-[]".contains(c))
        }) {
            return Err("the registry's host has characters that no host has");
        }
        if !repository.split('/').all(is_component) {
            return Err("the repository must be lower-case words joined by `/`, `.`, `_` or `-`");
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err("the tag must be up to 128 letters, digits, `_`, `.` or `-`");
        }
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return Err("the digest must be `sha256:` and 64 hex digits");
        }
        Ok(Self {
            host: host.map(str::to_owned),
            repository: repository.to_owned(),
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }

    /// Returns the registry's host, when the reference names one.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Returns host and repository, without tag and digest.
    pub fn name(&self) -> String {
        match &self.host {
            Some(host) => format!("{host}/{}", self.repository),
            None => self.repository.clone(),
        }
    }

    /// Returns the digest, when the reference is pinned.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// Returns what the engine is asked to pull: the digest when pinned, else the tag, `latest` when there is none.
    /// Without either the engine would pull every tag of the repository.
    pub fn pull_tag(&self) -> &str {
        self.digest.as_deref().or(self.tag.as_deref()).unwrap_or("latest")
    }

    /// Returns the credential for the host that the reference names, if there is one. Hosts must be equal.
    pub fn credential<'a>(&self, credentials: &'a [RegistryAuth]) -> Option<&'a RegistryAuth> {
        let host = self.host()?;
        credentials.iter().find(|credential| credential.host == host)
    }
}

/// Returns the user of a credential.
pub(crate) fn user_of(credential: &RegistryAuth) -> &str {
    credential.username.as_deref().unwrap_or(DEFAULT_USER)
}

impl FromStr for ImageRef {
    type Err = ImageRefError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

fn is_component(text: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(word)
        && text.ends_with(word)
        && text.chars().all(|c| word(c) || matches!(c, '.' | '_' | '-'))
}

fn is_tag(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_TAG_CHARS
        && !text.starts_with(['.', '-'])
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auth(host: &str) -> RegistryAuth {
        RegistryAuth {
            host: host.to_owned(),
            username: None,
            password: "p".into(),
        }
    }

    #[test]
    fn a_host_is_told_from_a_repository_as_the_protocol_says() {
        let hosts = [
            ("redis:7-alpine", None),
            ("chromedp/headless-shell:latest", None),
            ("quay.io/minio/minio:latest", Some("quay.io")),
            ("localhost/app", Some("localhost")),
            ("localhost", None),
            ("registry:5000/app:1", Some("registry:5000")),
            ("127.0.0.1:5000/team/app", Some("127.0.0.1:5000")),
            ("myhost/app", None),
        ];
        for (text, host) in hosts {
            let image = ImageRef::parse(text).unwrap();
            assert_eq!(image.host(), host, "{text}");
            assert_eq!(image.to_string(), text);
        }
    }

    #[test]
    fn tag_and_digest_are_told_apart() {
        let digest = format!("sha256:{}", "a1".repeat(32));
        let image = ImageRef::parse(&format!("r.io:5000/a/b:1.2@{digest}")).unwrap();
        assert_eq!(image.name(), "r.io:5000/a/b");
        assert_eq!(image.digest(), Some(digest.as_str()));
        assert_eq!(image.pull_tag(), digest);
        assert_eq!(ImageRef::parse("a/b:1.2").unwrap().pull_tag(), "1.2");
        assert_eq!(ImageRef::parse("a/b").unwrap().pull_tag(), "latest");
    }

    #[test]
    fn what_no_registry_takes_is_refused() {
        for text in [
            "",
            "A/b",
            "a//b",
            "a:",
            "a:b c",
            "a@sha256:12",
            "a@",
            "-a",
            "a/-b",
            "a b",
            "r.io/",
            "r;x.io/a",
            "a:-x",
        ] {
            assert!(ImageRef::parse(text).is_err(), "{text:?} was taken");
        }
        let error = ImageRef::parse("Web").unwrap_err().to_string();
        assert!(error.starts_with("`Web` is no image reference: "), "{error}");
    }

    #[test]
    fn a_credential_goes_to_its_own_host_only() {
        let all = [auth("r.io"), auth("r.io:5000"), auth("docker.io")];
        let pick = |text: &str| {
            ImageRef::parse(text)
                .unwrap()
                .credential(&all)
                .map(|found| found.host.clone())
        };
        assert_eq!(pick("r.io/app").as_deref(), Some("r.io"));
        assert_eq!(pick("r.io:5000/app").as_deref(), Some("r.io:5000"));
        assert_eq!(pick("evil.r.io/app"), None);
        assert_eq!(pick("app"), None);
        assert_eq!(pick("docker.io/app").as_deref(), Some("docker.io"));
        assert_eq!(user_of(&auth("r.io")), "everdict");
    }
}
