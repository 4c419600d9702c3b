//! Reads a grader's free-form config with errors that name the place.

use std::collections::BTreeMap;
use std::time::Duration;

use everdict_contracts::Fault;
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

/// Compiled size of one pattern: far above any hand-written one, far below what a hostile `(a{999}){999}` asks for.
const PATTERN_BYTES: usize = 1 << 20;

/// One grader's config and where it stands in the job.
pub(crate) struct Config<'a> {
    path: String,
    map: Option<&'a Map<String, Value>>,
}

impl<'a> Config<'a> {
    pub(crate) fn new(position: usize, map: Option<&'a Map<String, Value>>) -> Self {
        Self {
            path: format!("evalCase.graders[{position}].config"),
            map,
        }
    }

    /// Where the config stands in the job.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.and_then(|map| map.get(key))
    }

    pub(crate) fn fault(&self, key: &str, message: impl std::fmt::Display) -> Fault {
        Fault::bad_request(format!("{}.{key}: {message}", self.path))
    }

    /// A string; `None` when the key is absent.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&'a str>, Fault> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => {
                Err(self.fault(key, format_args!("expected a string, found {}", type_name(other))))
            }
        }
    }

    /// A string with something in it; `None` when the key is absent.
    pub(crate) fn name(&self, key: &str) -> Result<Option<&'a str>, Fault> {
        match self.text(key)? {
            Some("") => Err(self.fault(key, "must not be empty")),
            text => Ok(text),
        }
    }

    /// A shell line; it can't hold a NUL byte, which no process argument can.
    pub(crate) fn command(&self, key: &str) -> Result<Option<&'a str>, Fault> {
        match self.text(key)? {
            Some(text) if text.contains('\0') => Err(self.fault(key, "must not contain a NUL character")),
            text => Ok(text),
        }
    }

    /// A finite number; `None` when the key is absent.
    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>, Fault> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) if number.is_finite() => Ok(Some(number)),
                _ => Err(self.fault(key, format_args!("expected a number, found {}", type_name(value)))),
            },
        }
    }

    /// A time above zero, in seconds.
    pub(crate) fn timeout(&self, key: &str, default: Duration) -> Result<Duration, Fault> {
        match self.number(key)? {
            None => Ok(default),
            Some(seconds) if seconds > 0.0 => {
                Duration::try_from_secs_f64(seconds).map_err(|error| self.fault(key, error))
            }
            Some(_) => Err(self.fault(key, "must be above zero")),
        }
    }

    /// Strings by name; none when the key is absent.
    pub(crate) fn texts(&self, key: &str) -> Result<BTreeMap<String, String>, Fault> {
        let map = match self.get(key) {
            None => return Ok(BTreeMap::new()),
            Some(Value::Object(map)) => map,
            Some(other) => {
                return Err(self.fault(
                    key,
                    format_args!("expected an object, found {}", type_name(other)),
                ));
            }
        };
        map.iter()
            .map(|(name, value)| match value {
                Value::String(text) => Ok((name.clone(), text.clone())),
                other => Err(self.fault(
                    key,
                    format_args!("`{name}`: expected a string, found {}", type_name(other)),
                )),
            })
            .collect()
    }

    /// A list of names; data sets also carry such a list as JSON in a string. Empty when the key is absent.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<String>, Fault> {
        let names = match self.get(key) {
            None => return Ok(Vec::new()),
            Some(Value::String(text)) if text.trim().is_empty() => return Ok(Vec::new()),
            Some(Value::String(text)) => serde_json::from_str::<Vec<String>>(text).ok(),
            Some(value) => serde_json::from_value(value.clone()).ok(),
        };
        let names = names.ok_or_else(|| self.fault(key, "expected a list of names"))?;
        match names.iter().find(|name| name.is_empty() || name.contains('\0')) {
            Some(_) => Err(self.fault(key, "a name must not be empty, nor contain a NUL character")),
            None => Ok(names),
        }
    }

    /// A regular expression; `None` when the key is absent.
    pub(crate) fn pattern(&self, key: &str) -> Result<Option<Regex>, Fault> {
        self.text(key)?.map(|text| self.compile(key, text)).transpose()
    }

    /// A regular expression, with one that stands in where the key is absent.
    pub(crate) fn pattern_or(&self, key: &str, default: &str) -> Result<Regex, Fault> {
        self.compile(key, self.text(key)?.unwrap_or(default))
    }

    /// A regular expression whose first group holds the value.
    pub(crate) fn capturing(&self, key: &str) -> Result<Option<Regex>, Fault> {
        match self.pattern(key)? {
            Some(pattern) if pattern.captures_len() < 2 => Err(self.fault(
                key,
                "needs a capture group around the number, as in `SCORE=([0-9.]+)`",
            )),
            pattern => Ok(pattern),
        }
    }

    fn compile(&self, key: &str, text: &str) -> Result<Regex, Fault> {
        RegexBuilder::new(text)
            .size_limit(PATTERN_BYTES)
            .dfa_size_limit(PATTERN_BYTES)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(limit) => self.fault(
                    key,
                    format_args!("the pattern compiles to more than {limit} bytes"),
                ),
                other => self.fault(
                    key,
                    format_args!("not a usable pattern: {}", last_line(&other.to_string())),
                ),
            })
    }
}

/// The parser draws the pattern over several lines; the last one says what is wrong.
fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or(text).trim_start_matches("error: ")
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
