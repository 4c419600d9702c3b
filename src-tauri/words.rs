//! The few words outside the window: the tray's, in the person's language.

use std::collections::BTreeMap;

use everdict_exec::HostEnv;

const ENGLISH: &str = include_str!("words/en.json");
const KOREAN: &str = include_str!("words/ko.json");

/// The messages of one language, by key.
#[derive(Clone)]
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
    pub fn text(&self, key: &str) -> String {
        self.find(key)
            .expect("BUG: every key used here is in the catalogues")
            .to_owned()
    }

    /// Returns the text of `key`, if there is one.
    pub fn find(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Returns the text of `key` with the place `{name}` filled.
    pub fn fill(&self, key: &str, name: &str, value: &str) -> String {
        self.text(key).replace(&format!("{{{name}}}"), value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn language(pairs: &[(&str, &str)]) -> String {
        Words::for_session(&HostEnv::from_pairs(pairs.iter().copied())).text("quit")
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

    #[test]
    fn every_language_has_every_message_with_its_places() {
        let places = |text: &str| {
            let mut found: Vec<String> = text
                .split('{')
                .skip(1)
                .map(|part| part.split('}').next().unwrap().to_owned())
                .collect();
            found.sort();
            found
        };
        let (english, korean) = (Words::parse(ENGLISH).0, Words::parse(KOREAN).0);
        assert!(english.keys().eq(korean.keys()));
        for (key, text) in &english {
            assert!(!korean[key].trim().is_empty(), "{key}");
            assert_eq!(places(text), places(&korean[key]), "{key}");
        }
    }
}
