//! Takes out of a text what says who somebody is or lets them in.

use everdict_exec::HostEnv;

use crate::hub_url;
use crate::registrations::Registration;

/// What tokens begin with: ours, and those that people's tools print.
const TOKENS: [&str; 9] = [
    "rnr_",
    "ak_",
    "sk-",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "xox",
    "eyJ",
];

/// A shorter word with such a beginning is a word.
const MIN_TOKEN: usize = 12;

/// A shorter name would be found in the middle of nothing.
const MIN_NAME: usize = 3;

/// The names of everybody's machines and users.
const NO_NAMES: [&str; 4] = ["root", "localhost", "runner", "default"];

/// See the module.
pub(super) struct Mask {
    /// What goes, the longest first, with what stands for it.
    names: Vec<(String, String)>,
}

impl Mask {
    pub(super) fn new(env: &HostEnv, registrations: &[Registration]) -> Self {
        let mut names = Vec::new();
        let mut add = |name: &str, stand_in: String| {
            let plain = name.len() >= MIN_NAME && !NO_NAMES.contains(&name);
            if plain && !names.iter().any(|(known, _)| known == name) {
                names.push((name.to_owned(), stand_in));
            }
        };
        let home = env.get("HOME").unwrap_or_default().trim_end_matches('/');
        if home.len() > 1 {
            add(home, "~".to_owned());
            add(home.rsplit('/').next().unwrap_or_default(), "<user>".to_owned());
        }
        for variable in ["USER", "LOGNAME", "USERNAME"] {
            add(env.get(variable).unwrap_or_default(), "<user>".to_owned());
        }
        add(&crate::host_name(), "<host>".to_owned());
        for (known, number) in registrations.iter().zip(1..) {
            add(&known.label, format!("<runner {number}>"));
            add(&known.workspace, format!("<workspace {number}>"));
            add(&known.owner, format!("<owner {number}>"));
            if let Ok(hub) = known.hub()
                && !hub_url::is_loopback(&hub)
            {
                add(hub.host_str().unwrap_or_default(), format!("<hub {number}>"));
            }
        }
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Self { names }
    }

    pub(super) fn cover(&self, text: &str) -> String {
        let mut text = without_credentials(text);
        for (name, stand_in) in &self.names {
            text = replace_word(&text, name, stand_in);
        }
        without_tokens(&text)
    }
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Replaces `name` where it isn't a part of a longer word.
fn replace_word(text: &str, name: &str, stand_in: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let (before, after) = (&rest[..at], &rest[at + name.len()..]);
        out.push_str(before);
        let inside = before
            .chars()
            .next_back()
            .or(out.chars().next_back())
            .is_some_and(is_word)
            || after.starts_with(is_word);
        out.push_str(if inside { name } else { stand_in });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Takes user and password out of addresses.
fn without_credentials(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after
            .find(|letter: char| letter.is_whitespace() || matches!(letter, '/' | '?' | '#' | '"' | '\''))
            .unwrap_or(after.len());
        match after[..end].rfind('@') {
            Some(host) => {
                out.push_str("<credentials>");
                rest = &after[host..];
            }
            None => rest = after,
        }
    }
    out.push_str(rest);
    out
}

fn without_tokens(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut word = String::new();
    let mut after_bearer = false;
    for letter in text.chars().chain(std::iter::once('\n')) {
        if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.' | '~' | '+') {
            word.push(letter);
            continue;
        }
        if !word.is_empty() {
            let prefix = TOKENS.into_iter().find(|prefix| word.starts_with(prefix));
            match prefix {
                Some(prefix) if word.len() >= MIN_TOKEN => {
                    out.push_str(prefix);
                    out.push('…');
                }
                _ if after_bearer => out.push('…'),
                _ => out.push_str(&word),
            }
            after_bearer = word.eq_ignore_ascii_case("bearer");
            word.clear();
        }
        out.push(letter);
    }
    out.pop();
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::StoreKind;

    fn mask() -> Mask {
        let env = HostEnv::from_pairs([("HOME", "/home/jo.doe"), ("USER", "jdoe")]);
        let known = Registration {
            runner_id: "r-1".into(),
            label: "jos laptop".into(),
            hub_url: "https://evals.acme.example".into(),
            owner: "user:42-jo".into(),
            workspace: "acme".into(),
            store: StoreKind::File,
            paired_at: "2026-01-01T00:00:00Z".into(),
        };
        Mask::new(&env, &[known])
    }

    #[test]
    fn tokens_go_wherever_they_stand() {
        let text = "token rnr_abcdefghijklmnop, key=ak_0123456789abcdef Authorization: Bearer s3cr3t-value\n\
            https://jo:hunter2@proxy.example:8080/x eyJhbGciOiJIUzI1NiJ9.e30.abc";
        let covered = mask().cover(text);
        for secret in [
            "abcdefghijklmnop",
            "0123456789abcdef",
            "s3cr3t",
            "hunter2",
            "e30.abc",
        ] {
            assert!(!covered.contains(secret), "{covered}");
        }
        assert!(
            covered.contains("rnr_…") && covered.contains("@proxy.example"),
            "{covered}"
        );
    }

    #[test]
    fn names_go_and_words_that_hold_them_stay() {
        let covered = mask().cover(
            "/home/jo.doe/.config jdoe jdoes (jos laptop) at https://evals.acme.example acme academe user:42-jo",
        );
        assert_eq!(
            covered,
            "~/.config <user> jdoes (<runner 1>) at https://<hub 1> <workspace 1> academe <owner 1>"
        );
    }

    #[test]
    fn a_plain_text_stays_as_it_is() {
        let text = "ok  git  git 2.39 is /usr/bin/git — sk-8 ak_ é\n";
        assert_eq!(mask().cover(text), text);
    }
}
