//! On which terms this machine takes jobs.

use std::collections::BTreeSet;

use jiff::civil::{Date, Time, Weekday};

use super::schema::{DAYS, Values, time_of_day};

/// The terms of the desktop app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// What happens on battery.
    pub on_battery: OnBattery,
    /// Whether no new jobs are taken on a metered network.
    pub wait_on_metered: bool,
    /// When jobs are taken.
    pub hours: Hours,
    /// Whether no new jobs are taken while somebody uses the machine.
    pub wait_in_use: bool,
    /// Below this many free bytes no job is taken; 0 is no floor.
    pub disk_floor: u64,
    /// Percent of all CPUs that jobs may use while somebody uses the machine.
    pub cpu_in_use: u8,
    /// The same while nobody does.
    pub cpu_idle: u8,
    /// Whether the system is kept from sleeping while a job runs on mains power.
    pub keep_awake: bool,
    /// Whether the first job of a workspace and a kind waits for consent.
    pub ask: bool,
}

/// What happens on battery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnBattery {
    /// No new jobs; running ones finish.
    Finish,
    /// No new jobs; running ones are stopped and given back.
    HandBack,
    /// Jobs are taken as on mains power.
    Ignore,
}

/// The days and the hours in which jobs are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hours {
    /// The days on which a span begins.
    pub days: BTreeSet<u8>,
    /// Begin on such a day.
    pub from: Time,
    /// End; one that isn't after the begin lies on the next day.
    pub to: Time,
}

impl Hours {
    /// Tells whether `date`, `time` of the local clock lies within.
    ///
    /// By the clock on the wall: on the night in which it is put forward a span has an hour less, on the one in which
    /// it is put back an hour more, as everybody else's working hours.
    #[must_use]
    pub fn contain(&self, date: Date, time: Time) -> bool {
        let on = |day: Weekday| self.days.contains(&day.to_monday_zero_offset().unsigned_abs());
        let today = date.weekday();
        if self.from == self.to {
            return on(today);
        }
        if self.from < self.to {
            return on(today) && self.from <= time && time < self.to;
        }
        // Over midnight: the evening of a day that counts, or the morning after it.
        (on(today) && self.from <= time) || (on(today.previous()) && time < self.to)
    }
}

impl Terms {
    pub(super) fn from_values(values: &Values) -> Self {
        let time = |key: &str| {
            time_of_day(&values.text(key)).expect("BUG: the schema lets only times of day through")
        };
        let percent = |key: &str| u8::try_from(values.int(key)).expect("BUG: the schema bounds shares");
        let chosen = values.list("hours.days");
        Self {
            on_battery: match values.text("power.on_battery").as_str() {
                "hand-back" => OnBattery::HandBack,
                "ignore" => OnBattery::Ignore,
                _ => OnBattery::Finish,
            },
            wait_on_metered: values.text("network.on_metered") == "wait",
            hours: Hours {
                days: (0_u8..)
                    .zip(DAYS)
                    .filter(|(_, day)| chosen.iter().any(|chosen| chosen == *day))
                    .map(|(index, _)| index)
                    .collect(),
                from: time("hours.from"),
                to: time("hours.to"),
            },
            wait_in_use: values.text("limits.while_in_use") == "wait",
            disk_floor: values.int("limits.disk_floor_gb") * super::GB,
            cpu_in_use: percent("limits.cpu_in_use"),
            cpu_idle: percent("limits.cpu_idle"),
            keep_awake: values.switch("power.keep_awake"),
            ask: values.text("consent.ask") == "ask",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    fn hours(text: &str) -> Hours {
        super::super::Settings::parse("settings.toml", text)
            .unwrap()
            .terms
            .hours
    }

    fn at(hours: &Hours, day: i8, hour: i8, minute: i8) -> bool {
        // The 7th of December 2026 is a Monday.
        hours.contain(date(2026, 12, day), Time::constant(hour, minute, 0, 0))
    }

    #[test]
    fn by_default_every_minute_of_every_day_is_fine() {
        let hours = hours("");
        for day in 7..14 {
            for hour in 0..24 {
                assert!(at(&hours, day, hour, 0) && at(&hours, day, hour, 59));
            }
        }
    }

    #[test]
    fn hours_of_a_working_week_begin_and_end_to_the_minute() {
        let hours = hours(
            "[hours]\ndays = [\"mon\", \"tue\", \"wed\", \"thu\", \"fri\"]\nfrom = \"09:00\"\nto = \"17:30\"\n",
        );
        assert!(!at(&hours, 7, 8, 59));
        assert!(at(&hours, 7, 9, 0));
        assert!(at(&hours, 11, 17, 29));
        assert!(!at(&hours, 11, 17, 30));
        assert!(!at(&hours, 12, 12, 0), "a Saturday");
    }

    #[test]
    fn hours_over_midnight_belong_to_the_day_on_which_they_begin() {
        let hours = hours("[hours]\ndays = [\"fri\"]\nfrom = \"22:00\"\nto = \"06:00\"\n");
        assert!(
            !at(&hours, 11, 5, 0),
            "Friday's morning belongs to Thursday's night"
        );
        assert!(at(&hours, 11, 22, 0));
        assert!(at(&hours, 12, 5, 59), "Saturday's morning");
        assert!(!at(&hours, 12, 6, 0));
        assert!(!at(&hours, 12, 23, 0));
    }

    #[test]
    fn no_day_at_all_means_never() {
        let hours = hours("[hours]\ndays = []\n");
        assert!((7..14).all(|day| !at(&hours, day, 12, 0)));
    }
}
