//! What a desktop offers beside the screen: a keyring that holds tokens, and a place where notifications show.

use std::collections::HashMap;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use zbus::blocking::{Connection, Proxy, connection::Builder};
use zbus::zvariant::{OwnedObjectPath, OwnedValue, Value};

use super::desktop::{Desktop, Guarded};
use super::wait_until;

const SECRETS: &str = "org.freedesktop.secrets";

/// A secret as the service hands it out: session, parameters, value, media type.
type Secret = (OwnedObjectPath, Vec<u8>, Vec<u8>, String);

/// A real Secret Service on the desktop's bus, unlocked.
pub struct Keyring {
    client: Connection,
}

impl Keyring {
    /// Starts GNOME's keyring daemon with a keyring of the test's own.
    pub fn start(desktop: &mut Desktop) -> Self {
        let mut daemon = desktop
            .command("gnome-keyring-daemon")
            .args(["--foreground", "--unlock", "--components=secrets"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the keyring daemon starts");
        // The password that opens the keyring, and makes it where there is none. An empty one would prompt.
        let mut input = daemon.stdin.take().expect("BUG: standard input is piped");
        input.write_all(b"test-password\n").expect("the password arrives");
        drop(input);
        desktop.keep(Guarded(daemon));
        let client = connect(desktop);
        wait_until("the Secret Service", || is_owned(&client, SECRETS));
        Self { client }
    }

    /// Every secret in it.
    pub fn secrets(&self) -> Vec<String> {
        let service = self.proxy("/org/freedesktop/secrets", "org.freedesktop.Secret.Service");
        let (_, session): (OwnedValue, OwnedObjectPath) = service
            .call("OpenSession", &("plain", Value::from("")))
            .expect("a session");
        let nothing: HashMap<String, String> = HashMap::new();
        let (unlocked, locked): (Vec<OwnedObjectPath>, Vec<OwnedObjectPath>) =
            service.call("SearchItems", &(nothing,)).expect("the items");
        assert_eq!(locked, Vec::<OwnedObjectPath>::new(), "the keyring is open");
        unlocked
            .iter()
            .map(|item| {
                let item = self.proxy(item.as_str(), "org.freedesktop.Secret.Item");
                let (_, _, value, _): Secret = item.call("GetSecret", &(&session,)).expect("a secret");
                String::from_utf8_lossy(&value).into_owned()
            })
            .collect()
    }

    /// The one secret that begins so.
    pub fn secret(&self, beginning: &str) -> Option<String> {
        self.secrets()
            .into_iter()
            .find(|secret| secret.starts_with(beginning))
    }

    fn proxy(&self, path: &str, interface: &'static str) -> Proxy<'static> {
        Proxy::new(&self.client, SECRETS, path.to_owned(), interface).expect("an object of the keyring")
    }
}

/// A notification as it came.
#[derive(Debug, Clone)]
pub struct Note {
    /// Its headline.
    pub summary: String,
    /// What it says.
    pub body: String,
}

#[derive(Clone, Default)]
struct Daemon(Arc<Mutex<Vec<Note>>>);

#[zbus::interface(name = "org.freedesktop.Notifications")]
impl Daemon {
    #[expect(clippy::too_many_arguments, reason = "the interface has so many")]
    fn notify(
        &self,
        _app: String,
        _replaces: u32,
        _icon: String,
        summary: String,
        body: String,
        _actions: Vec<String>,
        _hints: HashMap<String, OwnedValue>,
        _expires: i32,
    ) -> u32 {
        let mut notes = self.0.lock().expect("BUG: no holder panics");
        notes.push(Note { summary, body });
        u32::try_from(notes.len()).expect("a few")
    }

    fn close_notification(&self, _id: u32) {}

    fn get_capabilities(&self) -> Vec<String> {
        vec!["body".to_owned()]
    }

    fn get_server_information(&self) -> (String, String, String, String) {
        let text = |text: &str| text.to_owned();
        (text("test"), text("test"), text("1"), text("1.2"))
    }
}

/// A notification server on the desktop's bus.
pub struct Notifications {
    daemon: Daemon,
    _serving: Connection,
}

impl Notifications {
    /// Puts it on the bus.
    pub fn start(desktop: &Desktop) -> Self {
        let daemon = Daemon::default();
        let serving = Builder::address(desktop.bus_address())
            .and_then(|bus| bus.serve_at("/org/freedesktop/Notifications", daemon.clone()))
            .and_then(|bus| bus.name("org.freedesktop.Notifications"))
            .and_then(Builder::build)
            .expect("a notification server on the bus");
        Self {
            daemon,
            _serving: serving,
        }
    }

    /// What came so far.
    pub fn seen(&self) -> Vec<Note> {
        self.daemon.0.lock().expect("BUG: no holder panics").clone()
    }
}

fn connect(desktop: &Desktop) -> Connection {
    Builder::address(desktop.bus_address())
        .and_then(Builder::build)
        .expect("a connection to the bus")
}

fn is_owned(client: &Connection, name: &str) -> bool {
    let bus = Proxy::new(
        client,
        "org.freedesktop.DBus",
        "/org/freedesktop/DBus",
        "org.freedesktop.DBus",
    );
    bus.and_then(|bus| bus.call("NameHasOwner", &(name,)))
        .expect("the bus answers")
}
