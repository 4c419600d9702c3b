//! Decodes JSON into wire types, with the JSON path of the first fault.
//!
//! Serde's own tagged and untagged enums buffer their content and lose the path on the way. The unions of this crate
//! therefore pick their variant from a [`Value`] (see `tagged!`), decode it with a tracked path, and hand a failure up
//! as text ("at `path`: …") which [`decode`] joins to the path of the union itself.

use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde_json::{Map, Value};

pub(crate) mod fields;

const MISSING: &str = "required field is missing";
const UNKNOWN_KEY: &str = "unknown key";
const DISCRIMINATOR: &str = "unknown discriminator";

/// Says what sort of fault stopped a decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecodeErrorKind {
    /// The text is not JSON at all.
    Syntax,
    /// A required field is absent.
    MissingField,
    /// A key that a strict object doesn't know.
    UnknownKey,
    /// The literal that selects the variant of a union is absent or unknown.
    UnknownDiscriminator,
    /// A value of the wrong type or outside its range.
    Invalid,
}

/// The first fault found in a JSON document, and where it is.
///
/// `path` is empty for the document itself, else like `evalCase.graders[0].id`; keys that aren't plain words are
/// written `["a key"]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    pub kind: DecodeErrorKind,
    pub path: String,
    pub message: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.path.is_empty() {
            "(root)"
        } else {
            &self.path
        };
        write!(f, "{place}: {}", self.message)
    }
}

impl std::error::Error for DecodeError {}

impl DecodeError {
    /// Builds an error for a value of the wrong type or range.
    pub fn invalid(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind: DecodeErrorKind::Invalid,
            path: path.into(),
            message: message.into(),
        }
    }

    /// Puts the whole error under `parent`, as when a document is part of a larger one.
    #[must_use]
    pub fn under(mut self, parent: &str) -> Self {
        self.path = join(parent, &self.path);
        self
    }

    /// Tells whether the document looks like one of another protocol generation rather than a plain mistake:
    /// an unknown discriminator or key, anything under `harnessSpec`, or a fault at the top level.
    pub fn is_version_skew(&self) -> bool {
        matches!(
            self.kind,
            DecodeErrorKind::UnknownDiscriminator | DecodeErrorKind::UnknownKey
        ) || is_under(&self.path, "harnessSpec")
            || depth(&self.path) <= 1
    }
}

/// The form in which [`decode`] takes its JSON: bytes, text or an already parsed value.
pub trait JsonInput {
    /// Parses the input.
    ///
    /// # Errors
    /// [`DecodeErrorKind::Syntax`] with the line and column, when the text isn't JSON.
    fn into_value(self) -> Result<Value, DecodeError>;
}

impl JsonInput for &[u8] {
    fn into_value(self) -> Result<Value, DecodeError> {
        serde_json::from_slice(self).map_err(syntax)
    }
}

impl JsonInput for &Vec<u8> {
    fn into_value(self) -> Result<Value, DecodeError> {
        self.as_slice().into_value()
    }
}

impl JsonInput for &str {
    fn into_value(self) -> Result<Value, DecodeError> {
        serde_json::from_str(self).map_err(syntax)
    }
}

impl JsonInput for &String {
    fn into_value(self) -> Result<Value, DecodeError> {
        self.as_str().into_value()
    }
}

impl JsonInput for Value {
    fn into_value(self) -> Result<Value, DecodeError> {
        Ok(self)
    }
}

impl JsonInput for &Value {
    fn into_value(self) -> Result<Value, DecodeError> {
        Ok(self.clone())
    }
}

/// Decodes a wire type.
///
/// Integral numbers written as floats (`600.0`) count as integers, as they do for the JavaScript peers.
///
/// # Errors
/// The first fault with its JSON path, also inside unions. The message names what was expected.
pub fn decode<T: DeserializeOwned>(input: impl JsonInput) -> Result<T, DecodeError> {
    let mut value = input.into_value()?;
    fold_integral_floats(&mut value);
    from_value(value)
}

/// Decodes one variant of a union: like [`decode`], without the number folding that has been done by then.
pub(crate) fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, DecodeError> {
    serde_path_to_error::deserialize(value).map_err(|error| tracked(&error))
}

/// Turns a failure with a tracked path into this crate's error.
pub(crate) fn tracked(error: &serde_path_to_error::Error<serde_json::Error>) -> DecodeError {
    refine(render(error.path()), error.inner().to_string())
}

/// Hands `error` to the surrounding deserializer in the text form which [`refine`] reads back.
pub(crate) fn carry<E: serde::de::Error>(error: &DecodeError) -> E {
    if error.path.is_empty() {
        E::custom(&error.message)
    } else {
        E::custom(format_args!("at `{}`: {}", error.path, error.message))
    }
}

/// Reads the value of a union and the literal that selects its variant.
pub(crate) fn discriminated<'de, D: Deserializer<'de>>(
    deserializer: D,
    tag: &'static str,
    known: &'static [&'static str],
) -> Result<(&'static str, Value), D::Error> {
    let value = <Value as serde::Deserialize>::deserialize(deserializer)?;
    let Value::Object(object) = &value else {
        return Err(D::Error::invalid_type(unexpected(&value), &"an object"));
    };
    discriminator(object, tag, known)
        .map(|literal| (literal, value))
        .map_err(|error| carry(&error))
}

pub(crate) fn discriminator(
    object: &Map<String, Value>,
    tag: &'static str,
    known: &'static [&'static str],
) -> Result<&'static str, DecodeError> {
    let found = match object.get(tag) {
        Some(Value::String(text)) => {
            if let Some(literal) = known.iter().find(|literal| *literal == text) {
                return Ok(literal);
            }
            format!("`{text}`")
        }
        Some(other) => other.to_string(),
        None => "(absent)".to_owned(),
    };
    Err(DecodeError {
        kind: DecodeErrorKind::UnknownDiscriminator,
        path: tag.to_owned(),
        message: format!("{DISCRIMINATOR} {found}, expected one of {}", listed(known)),
    })
}

/// Describes a value for an "invalid type" message.
pub(crate) fn unexpected(value: &Value) -> serde::de::Unexpected<'_> {
    use serde::de::Unexpected;
    match value {
        Value::Null => Unexpected::Other("null"),
        Value::Bool(b) => Unexpected::Bool(*b),
        Value::Number(n) => Unexpected::Float(n.as_f64().unwrap_or(f64::NAN)),
        Value::String(s) => Unexpected::Str(s),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}

/// Implements `Deserialize` for a union of newtype variants that is selected by a literal beside the variant's fields.
macro_rules! tagged {
    ($name:ident by $tag:literal { $($literal:literal => $variant:ident),+ $(,)? }) => {
        impl $name {
            /// Every literal this union knows, in protocol order.
            pub const KNOWN: &'static [&'static str] = &[$($literal),+];

            /// Returns the literal that selects this variant.
            pub fn discriminator(&self) -> &'static str {
                match self { $(Self::$variant(_) => $literal),+ }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let (literal, value) = $crate::decode::discriminated(deserializer, $tag, Self::KNOWN)?;
                $(if literal == $literal {
                    return $crate::decode::from_value(value)
                        .map(Self::$variant)
                        .map_err(|error| $crate::decode::carry(&error));
                })+
                unreachable!("BUG: `discriminated` returns a literal of KNOWN")
            }
        }
    };
}
pub(crate) use tagged;

/// Implements the serde traits for a struct with rules that span several fields.
///
/// The struct derives both with `#[serde(remote = "Self")]`, which gives it inherent functions of the same names, and
/// has a `check` that runs after every read.
macro_rules! checked {
    ($name:ident) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = $name::deserialize(deserializer)?;
                value
                    .check()
                    .map_err(|error| $crate::decode::carry(&error))?;
                Ok(value)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $name::serialize(self, serializer)
            }
        }
    };
}
pub(crate) use checked;

fn syntax(error: serde_json::Error) -> DecodeError {
    DecodeError {
        kind: DecodeErrorKind::Syntax,
        path: String::new(),
        message: format!("not valid JSON: {error}"),
    }
}

/// Splits the text of a serde error into place, kind and message.
fn refine(mut path: String, mut message: String) -> DecodeError {
    if let Some((inner, rest)) = message
        .strip_prefix("at `")
        .and_then(|text| text.split_once("`: "))
    {
        path = join(&path, inner);
        message = rest.to_owned();
    } else if let Some(field) = message
        .strip_prefix("missing field `")
        .and_then(|text| text.strip_suffix('`'))
    {
        path = join(&path, &key(field));
        message = MISSING.to_owned();
    } else if let Some((field, rest)) = message
        .strip_prefix("unknown field `")
        .and_then(|text| text.split_once('`'))
    {
        // The tracked path may or may not end in the unknown key already.
        let field = key(field);
        if !(path == field || path.ends_with(&format!(".{field}"))) {
            path = join(&path, &field);
        }
        message = format!("{UNKNOWN_KEY}{rest}");
    }
    let kind = if message == MISSING {
        DecodeErrorKind::MissingField
    } else if message.starts_with(UNKNOWN_KEY) {
        DecodeErrorKind::UnknownKey
    } else if message.starts_with(DISCRIMINATOR) {
        DecodeErrorKind::UnknownDiscriminator
    } else {
        DecodeErrorKind::Invalid
    };
    DecodeError { kind, path, message }
}

fn render(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    path.iter()
        .fold(String::new(), |rendered, segment| match segment {
            Segment::Seq { index } => format!("{rendered}[{index}]"),
            Segment::Map { key: name } => join(&rendered, &key(name)),
            Segment::Enum { .. } | Segment::Unknown => rendered,
        })
}

/// Renders a key as a path segment. Backticks are escaped because [`carry`] quotes paths with them.
fn key(name: &str) -> String {
    let plain = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
    if plain {
        name.to_owned()
    } else {
        format!("[{}]", Value::from(name).to_string().replace('`', "\\u0060"))
    }
}

fn join(parent: &str, child: &str) -> String {
    if parent.is_empty() || child.is_empty() || child.starts_with('[') {
        format!("{parent}{child}")
    } else {
        format!("{parent}.{child}")
    }
}

fn is_under(path: &str, root: &str) -> bool {
    path.strip_prefix(root)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn depth(path: &str) -> usize {
    usize::from(!path.is_empty())
        + path
            .char_indices()
            .filter(|&(i, c)| i > 0 && matches!(c, '.' | '['))
            .count()
}

fn listed(known: &[&str]) -> String {
    known
        .iter()
        .map(|literal| format!("`{literal}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The largest magnitude below which every integer is exact in a double.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

fn fold_integral_floats(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(integer) = number.as_f64().and_then(exact_integer) {
                *number = integer.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(fold_integral_floats),
        Value::Object(object) => object.values_mut().for_each(fold_integral_floats),
        _ => {}
    }
}

pub(crate) fn exact_integer(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < MAX_EXACT).then_some(number as i64)
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
