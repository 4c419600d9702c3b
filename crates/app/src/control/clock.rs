//! The time of day as the person's clock on the wall shows it.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;

/// The date and time at `at` in this machine's time zone.
pub(crate) fn local(at: Timestamp) -> DateTime {
    Offset::from_seconds(offset_seconds(at))
        .unwrap_or(Offset::UTC)
        .to_datetime(at)
}

pub(super) fn local_date(at: Timestamp) -> Date {
    local(at).date()
}

/// Returns hours and minutes (`14:30`) of an RFC 3339 time in this machine's time zone; `None` for another text.
#[must_use]
pub fn time_of_day(rfc3339: &str) -> Option<String> {
    let at = local(rfc3339.parse().ok()?);
    Some(format!("{:02}:{:02}", at.hour(), at.minute()))
}

/// Returns the minutes since midnight in this machine's time zone.
#[must_use]
pub fn minute_of_day() -> u16 {
    let now = local(Timestamp::now());
    u16::try_from(i32::from(now.hour()) * 60 + i32::from(now.minute())).unwrap_or(0)
}

/// Returns the seconds since 1970 of an RFC 3339 time; `None` for another text.
#[must_use]
pub fn epoch_seconds(rfc3339: &str) -> Option<i64> {
    Some(rfc3339.parse::<Timestamp>().ok()?.as_second())
}

#[cfg(unix)]
fn offset_seconds(at: Timestamp) -> i32 {
    let seconds: libc::time_t = at.as_second();
    // SAFETY: an all-zero `tm` is a value of it: integers, and a pointer that may be null.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values of this frame, and the call keeps neither.
    let filled = unsafe { libc::localtime_r(&raw const seconds, &raw mut parts) };
    if filled.is_null() {
        return 0;
    }
    i32::try_from(parts.tm_gmtoff).unwrap_or(0)
}

/// Without the system's word on its zone, days begin as they do in UTC.
#[cfg(not(unix))]
fn offset_seconds(_at: Timestamp) -> i32 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_as_on_the_wall() {
        let text = time_of_day("2026-01-01T00:30:00Z").unwrap();
        // Zones differ from UTC by whole quarters of an hour.
        assert_eq!(text.len(), 5);
        assert!(["00", "15", "30", "45"].contains(&&text[3..]), "{text}");
        assert_eq!(time_of_day("resume"), None);
    }
}
