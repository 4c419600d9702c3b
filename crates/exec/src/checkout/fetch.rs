use everdict_contracts::{ErrorCode, Fault};

use super::git::{Failed, Git};

/// What git says when the server has no such ref, or won't hand out a commit by its id.
const NO_SUCH_REF: [&str; 5] = [
    "couldn't find remote ref",
    "not our ref",
    "unadvertised object",
    "no such remote ref",
    "Server does not allow request",
];

/// What git says when the server can't cut history off.
const NO_SHALLOW: [&str; 2] = ["does not support shallow", "does not support --depth"];

/// What git says when the member has to do something about access.
const NO_ACCESS: [&str; 9] = [
    "Authentication failed",
    "could not read Username",
    "could not read Password",
    "terminal prompts disabled",
    "Permission denied",
    "Host key verification failed",
    "The requested URL returned error: 401",
    "The requested URL returned error: 403",
    "epository not found",
];

/// What git says when the address is wrong.
const NO_REPOSITORY: [&str; 3] = [
    "does not appear to be a git repository",
    "not a git repository",
    "transport '",
];

/// Gets one commit of a remote repository and checks it out.
pub(super) struct Fetch<'a> {
    /// Git with the token, if there is one.
    pub(super) git: &'a Git<'a>,
    /// Git without it, for the calls that need no network.
    pub(super) local: &'a Git<'a>,
    pub(super) url: &'a str,
    pub(super) git_ref: &'a str,
    pub(super) token: Option<&'a str>,
}

impl Fetch<'_> {
    /// Fetches the one commit where the server allows it, else everything.
    pub(super) async fn run(&self) -> Result<(), Fault> {
        check(self.url, self.git_ref)?;
        let step = format!("fetch `{}` from {}", self.git_ref, public(self.url));
        let shallow = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--depth",
            "1",
            self.url,
            self.git_ref,
        ];
        let target = match self.git.attempt(&step, &shallow).await? {
            Ok(_) => "FETCH_HEAD".to_owned(),
            Err(failed) if self.worth_all_of_it(&failed) => self.fetch_all(&step).await?,
            Err(failed) => return Err(self.fault(&step, failed)),
        };
        let step = format!("check out `{}`", self.git_ref);
        self.local
            .run(&step, &["checkout", "--quiet", "--detach", &target])
            .await?;
        Ok(())
    }

    /// A commit that isn't the tip of anything may be out of reach for a shallow fetch; a name that the server doesn't
    /// know won't appear by fetching more.
    fn worth_all_of_it(&self, failed: &Failed) -> bool {
        says(failed, &NO_SHALLOW) || (looks_like_commit(self.git_ref) && says(failed, &NO_SUCH_REF))
    }

    async fn fetch_all(&self, step: &str) -> Result<String, Fault> {
        let heads = "+refs/heads/*:refs/remotes/origin/*";
        let args = ["fetch", "--quiet", "--tags", self.url, heads];
        if let Err(failed) = self.git.attempt(step, &args).await? {
            return Err(self.fault(step, failed));
        }
        for prefix in ["refs/remotes/origin/", "refs/tags/", ""] {
            let name = format!("{prefix}{}^{{commit}}", self.git_ref);
            if let Ok(id) = self
                .local
                .attempt(step, &["rev-parse", "--verify", "--quiet", &name])
                .await?
            {
                return Ok(id.text().trim().to_owned());
            }
        }
        Err(Fault::bad_request(format!(
            "failed to {step}: no branch or tag leads to it"
        )))
    }

    fn fault(&self, step: &str, mut failed: Failed) -> Fault {
        let code = if says(&failed, &NO_SUCH_REF) || says(&failed, &NO_REPOSITORY) {
            ErrorCode::BadRequest
        } else if says(&failed, &NO_ACCESS) {
            ErrorCode::UpstreamMisconfigured
        } else {
            ErrorCode::UpstreamError
        };
        failed.complaint = failed.complaint.replace(self.url, &public(self.url));
        if let Some(token) = self.token.filter(|token| !token.is_empty()) {
            failed.complaint = failed.complaint.replace(token, "***");
        }
        self.git.fault_of(code, step, &failed)
    }
}

fn says(failed: &Failed, words: &[&str]) -> bool {
    words.iter().any(|words| failed.complaint.contains(words))
}

fn looks_like_commit(git_ref: &str) -> bool {
    // Four digits are the shortest abbreviation that git accepts, 64 the longest id it writes.
    (4..=64).contains(&git_ref.len()) && git_ref.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Refuses what git would take for an option, a helper to run, or more than one ref.
fn check(url: &str, git_ref: &str) -> Result<(), Fault> {
    let odd = |text: &str| text.is_empty() || text.starts_with('-') || text.chars().any(char::is_control);
    let helper = |(name, _): (&str, &str)| name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if odd(url) || url.split_once("::").is_some_and(helper) {
        return Err(Fault::bad_request(format!(
            "failed to use `{}` as a repository: not a git address",
            public(url)
        )));
    }
    if odd(git_ref) || git_ref.contains([' ', ':', '+', '*', '?', '[', '\\', '^', '~']) {
        return Err(Fault::bad_request(format!(
            "failed to use `{git_ref}` as a ref: not a branch, tag or commit"
        )));
    }
    Ok(())
}

/// The address without a name and password that may stand in it.
pub(super) fn public(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let host_ends = rest.find('/').unwrap_or(rest.len());
    match rest[..host_ends].rfind('@') {
        // An SSH user is part of the address, not a secret.
        Some(at) if !scheme.contains("ssh") || rest[..at].contains(':') => {
            format!("{scheme}://{}", &rest[at + 1..])
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_an_address_are_not_shown() {
        assert_eq!(public("https://me:tok@host/x.git"), "https://host/x.git");
        assert_eq!(public("https://tok@host/x@y.git"), "https://host/x@y.git");
        assert_eq!(public("ssh://git@host/x"), "ssh://git@host/x");
        assert_eq!(public("git@host:x.git"), "git@host:x.git");
        assert_eq!(public("/srv/a@b"), "/srv/a@b");
    }

    #[test]
    fn an_address_or_ref_that_git_would_run_or_read_as_an_option_is_refused() {
        for url in ["--upload-pack=evil", "ext::sh -c evil", "", "a\nb"] {
            assert!(check(url, "main").is_err(), "{url:?}");
        }
        for git_ref in [
            "-f",
            "main:refs/heads/x",
            "+main",
            "refs/heads/*",
            "",
            "a b",
            "main~1",
        ] {
            assert!(check("https://host/x", git_ref).is_err(), "{git_ref:?}");
        }
        for url in [
            "https://host/x.git",
            "http://[::1]:80/x",
            "git@host:team/x.git",
            "file:///srv/x",
            "/srv/x",
        ] {
            assert!(check(url, "release/1.2").is_ok(), "{url:?}");
        }
    }
}
