//! Every setting as a window shows it.

use super::schema::{KEYS, Key, Kind, Value, Values};
use super::{DEFAULTS, Settings};
use crate::control::{SettingKind, SettingValue, SettingView};

impl Settings {
    /// Lists every setting, with the value that the person's text gives it over the defaults. A text that is nonsense
    /// gives nothing.
    pub(crate) fn views(text: &str) -> Vec<SettingView> {
        let mut defaults = Values::default();
        defaults
            .merge("defaults.toml", DEFAULTS)
            .expect("BUG: the defaults are checked by a test");
        let mut values = defaults.clone();
        if values.merge("settings.toml", text).is_err() {
            values = defaults.clone();
        }
        KEYS.iter()
            .map(|key| view(key, values.get(key.name), defaults.get(key.name)))
            .collect()
    }
}

fn view(key: &Key, value: &Value, default: &Value) -> SettingView {
    let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    let (kind, choices, bounds) = match &key.kind {
        Kind::Int { min, max } => (SettingKind::Number, None, Some((*min, *max))),
        Kind::Switch => (SettingKind::Switch, None, None),
        Kind::OneOf(all) => (SettingKind::Choice, names(all), None),
        Kind::AnyOf(all) => (SettingKind::List, names(all), None),
        Kind::Folders | Kind::Roles => (SettingKind::List, None, None),
        Kind::TimeOfDay
        | Kind::Address
        | Kind::Url
        | Kind::Feed
        | Kind::Issuer
        | Kind::Engine
        | Kind::Text => (SettingKind::Text, None, None),
    };
    SettingView {
        key: key.name.to_owned(),
        group: key.name.split('.').next().unwrap_or_default().to_owned(),
        kind,
        value: shown(value),
        default: shown(default),
        at_start: !key.live,
        choices,
        min: bounds.map(|(min, _)| min),
        max: bounds.map(|(_, max)| max),
        unit: key.unit.map(str::to_owned),
        help: help(key.name),
    }
}

fn shown(value: &Value) -> SettingValue {
    match value {
        Value::Int(number) => SettingValue::Number(*number),
        Value::Text(text) => SettingValue::Text(text.clone()),
        Value::List(items) => SettingValue::List(items.clone()),
        Value::Switch(on) => SettingValue::Switch(*on),
    }
}

/// What stands above the key in the defaults, as one paragraph.
fn help(name: &str) -> String {
    let (table, entry) = name.split_once('.').expect("BUG: keys have a table");
    let head = format!("[{table}]");
    let mut remarks: Vec<&str> = Vec::new();
    for line in DEFAULTS.lines().skip_while(|line| *line != head).skip(1) {
        if let Some(remark) = line.strip_prefix('#') {
            remarks.push(remark.trim());
        } else if line.split('=').next().is_some_and(|key| key.trim() == entry) {
            break;
        } else {
            remarks.clear();
        }
    }
    remarks.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, key: &str) -> SettingView {
        let views = Settings::views(text);
        views.into_iter().find(|view| view.key == key).unwrap()
    }

    #[test]
    fn every_setting_is_shown_with_its_documented_words_and_its_default() {
        let views = Settings::views("");
        assert_eq!(views.len(), KEYS.len());
        for view in &views {
            assert!(view.help.len() > 10 && !view.help.contains('#'), "{view:?}");
            assert_eq!(view.value, view.default, "{}", view.key);
            assert!(
                view.kind != SettingKind::Number || view.min < view.max,
                "{} has no bounds",
                view.key
            );
        }
    }

    #[test]
    fn a_value_of_the_person_stands_beside_the_default() {
        let view = of("[runner]\nmax_concurrent = 4\n", "runner.max_concurrent");
        assert_eq!(view.value, SettingValue::Number(4));
        assert_eq!(view.default, SettingValue::Number(1));
        assert_eq!((view.min, view.max), (Some(1), Some(64)));
        assert!(!view.at_start);
        assert_eq!(
            view.help,
            "Cases that one runner works on at the same time (1 to 64)."
        );
    }

    #[test]
    fn choices_are_named() {
        let view = of("", "power.on_battery");
        assert_eq!(view.kind, SettingKind::Choice);
        assert_eq!(view.choices.unwrap(), ["finish", "hand-back", "ignore"]);
        assert_eq!(of("", "hours.days").choices.unwrap().len(), 7);
    }
}
