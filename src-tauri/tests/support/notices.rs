//! What a desktop has for notifications, reduced to what the tests read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use zbus::blocking::{Connection, connection::Builder};
use zbus::zvariant::OwnedValue;

use super::Desktop;

/// Title and body of each.
type Shown = Arc<Mutex<Vec<(String, String)>>>;

struct Daemon(Shown);

#[zbus::interface(name = "org.freedesktop.Notifications")]
impl Daemon {
    #[expect(clippy::too_many_arguments, reason = "the interface has so many")]
    fn notify(
        &self,
        _app: &str,
        _replaces: u32,
        _icon: &str,
        summary: &str,
        body: &str,
        _actions: Vec<String>,
        _hints: HashMap<String, OwnedValue>,
        _expires: i32,
    ) -> u32 {
        let mut shown = self.0.lock().expect("BUG: no holder panics");
        shown.push((summary.to_owned(), body.to_owned()));
        u32::try_from(shown.len()).unwrap_or(u32::MAX)
    }

    fn get_server_information(&self) -> (String, String, String, String) {
        ("test".into(), "test".into(), "1".into(), "1.2".into())
    }
}

pub struct Notices {
    shown: Shown,
    _serving: Connection,
}

impl Notices {
    /// Puts it on the desktop's bus.
    pub fn start(desktop: &Desktop) -> Self {
        let shown = Shown::default();
        let serving = Builder::address(desktop.bus_address())
            .and_then(|bus| bus.serve_at("/org/freedesktop/Notifications", Daemon(Arc::clone(&shown))))
            .and_then(|bus| bus.name("org.freedesktop.Notifications"))
            .and_then(Builder::build)
            .expect("notifications on the bus");
        Self {
            shown,
            _serving: serving,
        }
    }

    /// What was shown so far.
    pub fn shown(&self) -> Vec<(String, String)> {
        self.shown.lock().expect("BUG: no holder panics").clone()
    }
}
