//! Field-level rules that serde has no attribute for: no `null` for an absent field, lower bounds, non-empty text,
//! numbers that print as integers when they are integral.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error as _, Unexpected, Visitor};
use serde::ser::Serializer;

use super::exact_integer;

/// An optional field. `null` fails as it would for a required one; absence is left to `default`.
pub(crate) mod opt {
    use serde::{Deserializer, Serialize, Serializer};

    pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: serde::Deserialize<'de>,
    {
        T::deserialize(deserializer).map(Some)
    }

    pub(crate) fn serialize<S: Serializer, T: Serialize>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }
}

/// An optional integer.
pub(crate) mod opt_int {
    use serde::{Deserializer, Serialize, Serializer};

    pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: TryFrom<i64>,
    {
        super::int(deserializer).map(Some)
    }

    pub(crate) fn serialize<S: Serializer, T: Serialize>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }
}

/// An optional integer of at least 0.
pub(crate) mod opt_count {
    use serde::{Deserializer, Serialize, Serializer};

    pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: TryFrom<i64>,
    {
        super::count(deserializer).map(Some)
    }

    pub(crate) fn serialize<S: Serializer, T: Serialize>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }
}

/// An optional integer of at least 1.
pub(crate) mod opt_min1 {
    use serde::{Deserializer, Serialize, Serializer};

    pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: TryFrom<i64>,
    {
        super::positive(deserializer).map(Some)
    }

    pub(crate) fn serialize<S: Serializer, T: Serialize>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }
}

/// Optional text of at least one character.
pub(crate) mod opt_text {
    use serde::{Deserializer, Serialize, Serializer};

    pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: From<String>,
    {
        super::non_empty(deserializer).map(Some)
    }

    pub(crate) fn serialize<S: Serializer, T: Serialize>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }
}

/// An optional number that prints as an integer when it is integral.
pub(crate) mod opt_num {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
        f64::deserialize(deserializer).map(Some)
    }

    pub(crate) fn serialize<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::num(value, serializer),
            None => serializer.serialize_none(),
        }
    }
}

struct IntVisitor<T> {
    min: i64,
    max: i64,
    target: PhantomData<T>,
}

impl<T: TryFrom<i64>> Visitor<'_> for IntVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (i64::MIN, i64::MAX) => write!(f, "an integer"),
            (min, i64::MAX) => write!(f, "an integer of at least {min}"),
            (min, max) => write!(f, "an integer from {min} to {max}"),
        }
    }

    fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<T, E> {
        if v < self.min || v > self.max {
            return Err(E::invalid_value(Unexpected::Signed(v), &self));
        }
        T::try_from(v).map_err(|_| E::invalid_value(Unexpected::Signed(v), &self))
    }

    fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<T, E> {
        let Ok(signed) = i64::try_from(v) else {
            return Err(E::invalid_value(Unexpected::Unsigned(v), &self));
        };
        self.visit_i64(signed)
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<T, E> {
        match exact_integer(v) {
            Some(integer) => self.visit_i64(integer),
            None => Err(E::invalid_type(Unexpected::Float(v), &self)),
        }
    }
}

fn int_within<'de, D, T>(deserializer: D, min: i64, max: i64) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    deserializer.deserialize_i64(IntVisitor {
        min,
        max,
        target: PhantomData,
    })
}

/// Any integer.
pub(crate) fn int<'de, D: Deserializer<'de>, T: TryFrom<i64>>(deserializer: D) -> Result<T, D::Error> {
    int_within(deserializer, i64::MIN, i64::MAX)
}

/// An integer of at least 0.
pub(crate) fn count<'de, D: Deserializer<'de>, T: TryFrom<i64>>(deserializer: D) -> Result<T, D::Error> {
    int_within(deserializer, 0, i64::MAX)
}

/// An integer of at least 1.
pub(crate) fn positive<'de, D: Deserializer<'de>, T: TryFrom<i64>>(deserializer: D) -> Result<T, D::Error> {
    int_within(deserializer, 1, i64::MAX)
}

/// The long-poll budget that a control plane accepts, in milliseconds.
pub(crate) fn wait_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    int_within(deserializer, 0, i64::from(crate::MAX_WAIT_MS)).map(Some)
}

/// Text of at least one character, in anything that is made from text.
pub(crate) fn non_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: From<String>,
{
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        return Err(D::Error::invalid_value(
            Unexpected::Str(""),
            &"text that is not empty",
        ));
    }
    Ok(T::from(text))
}

/// A list with at least one item.
pub(crate) fn non_empty_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let items = Vec::deserialize(deserializer)?;
    if items.is_empty() {
        return Err(D::Error::invalid_length(0, &"at least one item"));
    }
    Ok(items)
}

/// Writes an integral number without a fraction, so that integers survive a round trip byte for byte.
pub(crate) fn num<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match exact_integer(*value) {
        Some(integer) => serializer.serialize_i64(integer),
        None => serializer.serialize_f64(*value),
    }
}

/// A number of at least 0.
pub(crate) fn non_negative<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(deserializer)?;
    if value < 0.0 {
        return Err(D::Error::invalid_value(
            Unexpected::Float(value),
            &"a number of at least 0",
        ));
    }
    Ok(value)
}
