use jiff::civil::date;
use proptest::prelude::*;

use super::*;
use crate::settings::Settings;

fn terms(text: &str) -> Terms {
    Settings::parse("settings.toml", text).unwrap().terms
}

fn seen(power: Power) -> Seen {
    Seen {
        power,
        metered: None,
        in_use: None,
        disk_free: None,
        local: date(2026, 12, 7).at(12, 0, 0, 0),
    }
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Looks once per second from `from` to `to`, and tells the seconds at which the ruling changed to what.
fn watch(
    policy: &mut Policy,
    terms: &Terms,
    span: std::ops::Range<u64>,
    power: Power,
) -> Vec<(u64, Vec<WaitingReason>)> {
    let mut changes: Vec<(u64, Vec<WaitingReason>)> = Vec::new();
    for second in span {
        let ruling = policy.rule(s(second), &seen(power), terms);
        if changes.last().is_none_or(|(_, last)| *last != ruling.reasons) {
            changes.push((second, ruling.reasons));
        }
    }
    changes
}

#[test]
fn five_seconds_on_battery_change_nothing_and_five_minutes_hold_leases_back_until_half_a_minute_of_mains() {
    let (mut policy, terms) = (Policy::default(), terms(""));
    assert_eq!(watch(&mut policy, &terms, 0..100, Power::Mains), [(0, vec![])]);
    assert_eq!(
        watch(&mut policy, &terms, 100..105, Power::Battery),
        [(100, vec![])]
    );
    assert_eq!(
        watch(&mut policy, &terms, 105..200, Power::Mains),
        [(105, vec![])]
    );
    let battery = vec![WaitingReason::Battery];
    assert_eq!(
        watch(&mut policy, &terms, 200..500, Power::Battery),
        [(200, vec![]), (260, battery.clone())]
    );
    assert_eq!(
        watch(&mut policy, &terms, 500..600, Power::Mains),
        [(500, battery), (530, vec![])]
    );
}

#[test]
fn a_running_job_on_battery_ends_by_the_setting() {
    for (setting, waits, hands_back) in [
        ("finish", true, false),
        ("hand-back", true, true),
        ("ignore", false, false),
    ] {
        let terms = terms(&format!("[power]\non_battery = \"{setting}\"\n"));
        let mut policy = Policy::default();
        policy.rule(s(0), &seen(Power::Mains), &terms);
        policy.rule(s(1), &seen(Power::Battery), &terms);
        let ruling = policy.rule(s(60), &seen(Power::Battery), &terms);
        assert!(ruling.reasons.is_empty() && !ruling.hand_back, "59 s are too few");
        let ruling = policy.rule(s(61), &seen(Power::Battery), &terms);
        assert_eq!(ruling.reasons == [WaitingReason::Battery], waits, "{setting}");
        assert_eq!(ruling.hand_back, hands_back, "{setting}");
    }
}

#[test]
fn a_machine_that_starts_on_battery_takes_nothing_from_the_first_moment() {
    let ruling = Policy::default().rule(s(0), &seen(Power::Battery), &terms(""));
    assert_eq!(ruling.reasons, [WaitingReason::Battery]);
}

#[test]
fn below_the_floor_nothing_is_taken_and_the_strongest_reason_comes_first() {
    let terms = terms("[limits]\ndisk_floor_gb = 10\nwhile_in_use = \"wait\"\n[hours]\ndays = [\"sun\"]\n");
    let now = Seen {
        disk_free: Some(8_000_000_000),
        metered: Some(true),
        in_use: Some(true),
        ..seen(Power::Battery)
    };
    assert_eq!(
        Policy::default().rule(s(0), &now, &terms).reasons,
        [
            WaitingReason::Disk,
            WaitingReason::Battery,
            WaitingReason::Metered,
            WaitingReason::Hours,
            WaitingReason::InUse
        ]
    );
}

#[test]
fn what_is_not_known_holds_nothing_back() {
    let terms = terms("[limits]\nwhile_in_use = \"wait\"\n");
    assert_eq!(
        Policy::default().rule(s(0), &seen(Power::Mains), &terms),
        Ruling::default()
    );
}

#[test]
fn working_hours_follow_the_clock_on_the_wall_over_the_change_of_summer_time() {
    let terms = terms("[hours]\nfrom = \"01:30\"\nto = \"03:30\"\n");
    let zone = jiff::tz::TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    // The clock goes from 02:00 to 03:00: the span has one hour. Back from 03:00 to 02:00: it has three.
    for (day, minutes) in [
        (date(2026, 3, 29), 60),
        (date(2026, 10, 25), 180),
        (date(2026, 12, 7), 120),
    ] {
        let midnight = zone.to_timestamp(day.at(0, 0, 0, 0)).unwrap();
        let mut policy = Policy::default();
        let within = (0..6 * 60)
            .filter(|minute| {
                let at = midnight + jiff::SignedDuration::from_mins(*minute);
                let now = Seen {
                    local: zone.to_datetime(at),
                    ..seen(Power::Mains)
                };
                policy
                    .rule(s(minute.unsigned_abs() * 60), &now, &terms)
                    .reasons
                    .is_empty()
            })
            .count();
        assert_eq!(within, minutes, "{day}");
    }
}

proptest! {
    /// Whatever the plug does: leases are held back only after a full minute on battery, given free only after half a
    /// minute of mains, and the two never follow each other faster than that.
    #[test]
    fn no_sequence_of_plugging_makes_it_flap(steps in prop::collection::vec((1_u64..90, any::<bool>()), 1..80)) {
        let (mut policy, terms) = (Policy::default(), terms(""));
        let mut held = !policy.rule(s(0), &seen(Power::Mains), &terms).reasons.is_empty();
        prop_assert!(!held);
        let (mut now, mut same_since, mut last) = (0_u64, 0_u64, false);
        let mut changed_at: Option<u64> = None;
        for (lasts, battery) in steps {
            if battery != last {
                same_since = now + 1;
                last = battery;
            }
            for _ in 0..lasts {
                now += 1;
                let power = if battery { Power::Battery } else { Power::Mains };
                let holds = !policy.rule(s(now), &seen(power), &terms).reasons.is_empty();
                let lasted = now - same_since;
                if holds != held {
                    prop_assert_eq!(holds, battery);
                    let least = if holds { 60 } else { 30 };
                    prop_assert!(lasted >= least);
                    prop_assert!(changed_at.is_none_or(|at| now - at >= 30));
                    changed_at = Some(now);
                    held = holds;
                }
                // And it never misses a change that lasted.
                prop_assert!(!battery || lasted < 60 || held);
                prop_assert!(battery || lasted < 30 || !held);
            }
        }
    }
}
