//! Requests on their way.

use std::collections::{BTreeMap, HashMap};

use everdict_contracts::{NetworkEntry, TrackEntry};

/// Requests kept while they are open; a page that leaves more than that hanging is not going to finish them.
const MAX_FLIGHTS: usize = 2000;

/// Session and request id.
type Key = (String, String);

pub(super) struct Flight {
    /// Milliseconds since 1970.
    pub(super) t: f64,
    /// Seconds by the browser's own steady clock.
    pub(super) started: Option<f64>,
    pub(super) method: String,
    pub(super) url: String,
    pub(super) status: Option<f64>,
}

impl Flight {
    /// Ends the request at a time of the browser's clock.
    pub(super) fn land(self, ended: Option<f64>) -> TrackEntry {
        let ms = self
            .started
            .zip(ended)
            .map(|(from, to)| ((to - from) * 1000.0).max(0.0).round());
        TrackEntry::Network(NetworkEntry {
            t: self.t,
            method: self.method,
            url: self.url,
            status: self.status,
            ms,
            body_ref: None,
        })
    }
}

#[derive(Default)]
pub(super) struct Flights {
    open: HashMap<Key, (u64, Flight)>,
    by_age: BTreeMap<u64, Key>,
    next: u64,
}

impl Flights {
    /// Adds a request; drops the oldest one when there are too many.
    pub(super) fn start(&mut self, session: &str, request: &str, flight: Flight) {
        self.take(session, request);
        if self.open.len() >= MAX_FLIGHTS
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.open.remove(&oldest);
        }
        let key = (session.to_owned(), request.to_owned());
        self.by_age.insert(self.next, key.clone());
        self.open.insert(key, (self.next, flight));
        self.next += 1;
    }

    pub(super) fn get_mut(&mut self, session: &str, request: &str) -> Option<&mut Flight> {
        self.open
            .get_mut(&(session.to_owned(), request.to_owned()))
            .map(|(_, flight)| flight)
    }

    pub(super) fn take(&mut self, session: &str, request: &str) -> Option<Flight> {
        let (age, flight) = self.open.remove(&(session.to_owned(), request.to_owned()))?;
        self.by_age.remove(&age);
        Some(flight)
    }

    /// Takes what is still open, of one session or of all, the oldest first.
    pub(super) fn take_open(&mut self, session: Option<&str>) -> Vec<Flight> {
        let keys: Vec<_> = self
            .by_age
            .values()
            .filter(|(owner, _)| session.is_none_or(|session| session == owner))
            .cloned()
            .collect();
        keys.iter()
            .filter_map(|(session, request)| self.take(session, request))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(url: &str) -> Flight {
        Flight {
            t: 0.0,
            started: Some(1.0),
            method: "GET".to_owned(),
            url: url.to_owned(),
            status: None,
        }
    }

    #[test]
    fn the_oldest_request_makes_room() {
        let mut flights = Flights::default();
        for number in 0..=MAX_FLIGHTS {
            flights.start("s", &number.to_string(), flight("x"));
        }
        assert!(flights.take("s", "0").is_none());
        assert!(flights.take("s", "1").is_some());
        assert_eq!(flights.take_open(None).len(), MAX_FLIGHTS - 1);
        assert!(flights.by_age.is_empty());
    }

    #[test]
    fn a_session_takes_only_its_own_along() {
        let mut flights = Flights::default();
        flights.start("a", "1", flight("x"));
        flights.start("b", "1", flight("y"));
        assert_eq!(flights.take_open(Some("a")).len(), 1);
        assert_eq!(flights.take("b", "1").unwrap().url, "y");
    }
}
