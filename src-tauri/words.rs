//! The catalogues that the window uses, for the few words outside it.

use std::collections::BTreeMap;

use everdict_exec::HostEnv;

const ENGLISH: &str = include_str!("../ui/src/i18n/en.json");
const KOREAN: &str = include_str!("../ui/src/i18n/ko.json");

/// The messages of one language, by key.
pub struct Words(BTreeMap<String, String>);

impl Words {
    /// Picks the language that the session's locale names; English when there is no catalogue for it.
    pub fn for_session(env: &HostEnv) -> Self {
        // The order in which POSIX lets one variable overrule the next.
        let locale = ["LC_ALL", "LC_MESSAGES", "LANG"]
            .into_iter()
            .find_map(|name| env.get(name).filter(|value| !value.is_empty()));
        match locale {
            Some(locale) if locale == "ko" || locale.starts_with("ko_") => Self::parse(KOREAN),
            _ => Self::parse(ENGLISH),
        }
    }

    fn parse(catalogue: &str) -> Self {
        Self(serde_json::from_str(catalogue).expect("BUG: an embedded catalogue maps keys to texts"))
    }

    /// Returns the text of `key`.
    pub fn text(&self, key: &str) -> &str {
        self.0
            .get(key)
            .expect("BUG: every key used here is in the catalogues")
    }

    /// Returns the text of `key` with its `{count}` place filled.
    pub fn count(&self, key: &str, count: usize) -> String {
        self.text(key).replace("{count}", &count.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn language(pairs: &[(&str, &str)]) -> String {
        Words::for_session(&HostEnv::from_pairs(pairs.iter().copied()))
            .text("tray.quit")
            .to_owned()
    }

    #[test]
    fn the_locale_picks_the_language() {
        assert_eq!(language(&[("LANG", "ko_KR.UTF-8")]), "종료");
        assert_eq!(
            language(&[("LANG", "ko_KR.UTF-8"), ("LC_ALL", "C.UTF-8")]),
            "Quit"
        );
        assert_eq!(language(&[("LANG", "kok_IN")]), "Quit");
        assert_eq!(language(&[]), "Quit");
    }
}
