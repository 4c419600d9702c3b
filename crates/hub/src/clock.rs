//! Wall-clock moments as the store and the wire want them.

use std::time::{SystemTime, UNIX_EPOCH};

use everdict_store::Millis;

/// Now, as Unix milliseconds.
pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Prints a moment as ISO 8601 in UTC with milliseconds.
pub(crate) fn iso(at: Millis) -> String {
    let at = jiff::Timestamp::from_millisecond(at).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{at:.3}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn moments_have_milliseconds_even_when_they_are_round() {
        assert_eq!(super::iso(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(super::iso(1_795_952_580_930), "2026-11-29T11:43:00.930Z");
    }
}
