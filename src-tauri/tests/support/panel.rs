//! The part of a panel that shows tray icons, reduced to what the tests read and press.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use zbus::blocking::{Connection, Proxy, connection::Builder};
use zbus::zvariant::{OwnedObjectPath, OwnedValue, Value};

use super::{Desktop, wait_until};

const WATCHER: &str = "org.kde.StatusNotifierWatcher";

/// Bus name and object path of each icon.
type Registered = Arc<Mutex<Vec<(String, String)>>>;

struct Watcher(Registered);

#[zbus::interface(name = "org.kde.StatusNotifierWatcher")]
impl Watcher {
    fn register_status_notifier_item(&self, item: &str, #[zbus(header)] header: zbus::message::Header<'_>) {
        let sender = header.sender().map(ToString::to_string).unwrap_or_default();
        // A path means an object of the caller's; a name means the usual path of that name.
        let icon = if item.starts_with('/') {
            (sender, item.to_owned())
        } else {
            (item.to_owned(), "/StatusNotifierItem".to_owned())
        };
        self.0.lock().expect("BUG: no holder panics").push(icon);
    }

    #[zbus(property)]
    fn is_status_notifier_host_registered(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn protocol_version(&self) -> i32 {
        0
    }
}

/// One entry of the menu.
#[derive(Debug)]
pub struct Entry {
    id: i32,
    /// Its text; empty for a separator.
    pub label: String,
    /// Whether it can be pressed.
    pub enabled: bool,
    /// Whether it is a switch that is on.
    pub checked: bool,
    /// The entries of the menu behind it.
    pub below: Vec<Entry>,
}

/// The answer of `GetLayout`: revision, then the root entry with its properties and children.
type Layout = (u32, (i32, HashMap<String, OwnedValue>, Vec<OwnedValue>));

/// A panel on the desktop's bus.
pub struct Panel {
    registered: Registered,
    client: Connection,
    _serving: Connection,
}

impl Panel {
    /// Puts the panel on the bus; apps that start later find it.
    pub fn start(desktop: &Desktop) -> Self {
        let registered = Registered::default();
        let serving = Builder::address(desktop.bus_address())
            .and_then(|bus| bus.serve_at("/StatusNotifierWatcher", Watcher(Arc::clone(&registered))))
            .and_then(|bus| bus.name(WATCHER))
            .and_then(Builder::build)
            .expect("a panel on the bus");
        let client = Builder::address(desktop.bus_address())
            .and_then(Builder::build)
            .expect("a connection to the bus");
        Self {
            registered,
            client,
            _serving: serving,
        }
    }

    /// Waits until an app has put its icon into the panel.
    pub fn wait_for_icon(&self) {
        wait_until("a tray icon", || self.icon().is_some());
    }

    /// Forgets the icon of an app that has ended.
    pub fn forget(&self) {
        self.registered.lock().expect("BUG: no holder panics").clear();
    }

    /// The bus name of the app whose icon came last.
    pub fn owner(&self) -> String {
        self.icon().expect("BUG: wait_for_icon comes first").0
    }

    /// Waits until another app than `before` has put its icon into the panel.
    pub fn wait_for_icon_after(&self, before: &str) {
        wait_until("another tray icon", || {
            self.icon().is_some_and(|(owner, _)| owner != before)
        });
    }

    /// Tells whether the app is still there.
    pub fn answers(&self) -> bool {
        let call = self.client.call_method(
            Some("org.freedesktop.DBus"),
            "/org/freedesktop/DBus",
            Some("org.freedesktop.DBus"),
            "NameHasOwner",
            &self.owner(),
        );
        call.expect("the bus answers")
            .body()
            .deserialize()
            .expect("a truth value")
    }

    /// Reads the texts of the menu, an empty one for a separator.
    pub fn labels(&self) -> Vec<String> {
        self.items().into_iter().map(|entry| entry.label).collect()
    }

    /// Reads the menu.
    pub fn items(&self) -> Vec<Entry> {
        let (_revision, (_id, _properties, children)): Layout = self
            .menu()
            .call("GetLayout", &(0_i32, -1_i32, Vec::<String>::new()))
            .expect("the menu's layout");
        children.into_iter().map(entry).collect()
    }

    /// Finds an entry by its text, in submenus too.
    pub fn find(&self, label: &str) -> Option<Entry> {
        find(self.items(), label)
    }

    /// Presses the entry with this text.
    pub fn click(&self, label: &str) {
        let id = self.find(label).unwrap_or_else(|| panic!("no entry {label}")).id;
        self.menu()
            .call::<_, _, ()>("Event", &(id, "clicked", Value::from(0_i32), 0_u32))
            .expect("the press arrives");
    }

    fn icon(&self) -> Option<(String, String)> {
        self.registered
            .lock()
            .expect("BUG: no holder panics")
            .last()
            .cloned()
    }

    fn menu(&self) -> Proxy<'static> {
        let (name, path) = self.icon().expect("BUG: wait_for_icon comes first");
        let icon =
            Proxy::new(&self.client, name.clone(), path, "org.kde.StatusNotifierItem").expect("the icon");
        let menu: OwnedObjectPath = icon.get_property("Menu").expect("the icon's menu");
        Proxy::new(&self.client, name, menu, "com.canonical.dbusmenu").expect("the menu")
    }
}

fn find(entries: Vec<Entry>, label: &str) -> Option<Entry> {
    entries.into_iter().find_map(|mut entry| {
        if entry.label == label {
            return Some(entry);
        }
        find(std::mem::take(&mut entry.below), label)
    })
}

fn entry(child: OwnedValue) -> Entry {
    let (id, mut properties, children): (i32, HashMap<String, OwnedValue>, Vec<OwnedValue>) = child
        .try_into()
        .expect("an entry has an id, properties and children");
    let label = properties
        .remove("label")
        .map(|value| value.try_into().expect("a label is a text"));
    let enabled = properties
        .remove("enabled")
        .map(|value| value.try_into().expect("enabled is a truth value"));
    let checked: Option<i32> = properties
        .remove("toggle-state")
        .map(|value| value.try_into().expect("the state of a switch is a number"));
    Entry {
        id,
        label: label.unwrap_or_default(),
        enabled: enabled.unwrap_or(true),
        checked: checked == Some(1),
        below: children.into_iter().map(entry).collect(),
    }
}
