//! The system bus: what logind and NetworkManager tell, and the promise to stay awake.
//!
//! Nothing here starts a service that isn't running, waits longer than [`ANSWER_LIMIT`], or fails: what isn't told is not
//! known. Elsewhere than on Linux nothing is told.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// A service of this machine answers in milliseconds; one that hangs must not hold up the looks.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// A bus that isn't there is looked for again this rarely; most machines have it from the start.
#[cfg(target_os = "linux")]
const RETRY: Duration = Duration::from_secs(30);

/// Keeps the system from sleeping until dropped. Closed by the system itself when this process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Inhibitor {
    #[cfg(target_os = "linux")]
    _held: zbus::zvariant::OwnedFd,
}

/// One connection to the system bus, made when it is needed. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct SystemBus {
    /// Of the bus; `None` for the system's own.
    address: Option<String>,
    state: Arc<tokio::sync::Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    #[cfg(target_os = "linux")]
    connection: Option<zbus::Connection>,
    next_try: Option<Instant>,
}

#[cfg(target_os = "linux")]
mod names {
    pub(super) const LOGIN: &str = "org.freedesktop.login1";
    pub(super) const LOGIN_PATH: &str = "/org/freedesktop/login1";
    pub(super) const LOGIN_MANAGER: &str = "org.freedesktop.login1.Manager";
    pub(super) const NETWORK: &str = "org.freedesktop.NetworkManager";
    pub(super) const NETWORK_PATH: &str = "/org/freedesktop/NetworkManager";
}

impl SystemBus {
    pub(crate) fn new(address: Option<String>) -> Self {
        Self {
            address,
            state: Arc::default(),
        }
    }
}

#[cfg(target_os = "linux")]
impl SystemBus {
    async fn connection(&self) -> Option<zbus::Connection> {
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.connection {
            return Some(connection.clone());
        }
        if state.next_try.is_some_and(|next| Instant::now() < next) {
            return None;
        }
        state.next_try = Some(Instant::now() + RETRY);
        let builder = match &self.address {
            Some(address) => zbus::connection::Builder::address(address.as_str()),
            None => zbus::connection::Builder::system(),
        };
        let connecting = async { builder?.build().await };
        match tokio::time::timeout(ANSWER_LIMIT, connecting).await {
            Ok(Ok(connection)) => {
                state.connection = Some(connection.clone());
                Some(connection)
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "no system bus");
                None
            }
            Err(_) => None,
        }
    }

    /// A connection that broke is made anew at the next call.
    async fn forget(&self) {
        self.state.lock().await.connection = None;
    }

    async fn call<B>(&self, to: (&str, &str, &str, &str), body: &B) -> Option<zbus::Message>
    where
        B: serde::Serialize + zbus::zvariant::DynamicType,
    {
        let (service, path, interface, method) = to;
        let connection = self.connection().await?;
        let calling = connection.call_method(Some(service), path, Some(interface), method, body);
        match tokio::time::timeout(ANSWER_LIMIT, calling).await {
            Ok(Ok(reply)) => Some(reply),
            Ok(Err(zbus::Error::InputOutput(error))) => {
                tracing::debug!(%error, "the system bus is gone");
                self.forget().await;
                None
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, service, method, "no answer on the system bus");
                None
            }
            Err(_) => None,
        }
    }

    async fn property(
        &self,
        service: &str,
        path: &str,
        interface: &str,
        name: &str,
    ) -> Option<zbus::zvariant::OwnedValue> {
        // A call alone would start a service that is installed and switched off.
        let bus = (
            "org.freedesktop.DBus",
            "/org/freedesktop/DBus",
            "org.freedesktop.DBus",
            "NameHasOwner",
        );
        let there: bool = self.call(bus, &service).await?.body().deserialize().ok()?;
        if !there {
            return None;
        }
        let get = (service, path, "org.freedesktop.DBus.Properties", "Get");
        self.call(get, &(interface, name))
            .await?
            .body()
            .deserialize()
            .ok()
    }

    /// Whether the network is paid by volume, as far as NetworkManager knows or guesses.
    pub(crate) async fn metered(&self) -> Option<bool> {
        let value = self
            .property(names::NETWORK, names::NETWORK_PATH, names::NETWORK, "Metered")
            .await?;
        // NMMetered: unknown, yes, no, guessed yes, guessed no.
        match u32::try_from(value).ok()? {
            1 | 3 => Some(true),
            2 | 4 => Some(false),
            _ => None,
        }
    }

    /// Whether somebody uses the machine, by logind's hint, which the desktops keep.
    pub(crate) async fn in_use(&self) -> Option<bool> {
        let value = self
            .property(names::LOGIN, names::LOGIN_PATH, names::LOGIN_MANAGER, "IdleHint")
            .await?;
        Some(!bool::try_from(value).ok()?)
    }

    /// Asks that the system doesn't sleep by itself.
    pub(crate) async fn stay_awake(&self, why: &str) -> Option<Inhibitor> {
        let to = (names::LOGIN, names::LOGIN_PATH, names::LOGIN_MANAGER, "Inhibit");
        let reply = self.call(to, &("sleep", "Everdict Runner", why, "block")).await?;
        let held = reply.body().deserialize::<zbus::zvariant::OwnedFd>().ok()?;
        Some(Inhibitor { _held: held })
    }

    /// Waits until the system tells that it has woken up. Never ends where nothing tells.
    pub(crate) async fn woken(&self) {
        use futures_util::StreamExt as _;
        loop {
            if let Some(mut signals) = self.sleep_signals().await {
                while let Some(signal) = signals.next().await {
                    let to_sleep = signal
                        .ok()
                        .and_then(|signal| signal.body().deserialize::<bool>().ok());
                    if to_sleep == Some(false) {
                        return;
                    }
                }
                self.forget().await;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn sleep_signals(&self) -> Option<zbus::MessageStream> {
        let connection = self.connection().await?;
        let rule = zbus::MatchRule::builder()
            .msg_type(zbus::message::Type::Signal)
            .interface(names::LOGIN_MANAGER)
            .and_then(|rule| rule.member("PrepareForSleep"))
            .ok()?
            .build();
        zbus::MessageStream::for_match_rule(rule, &connection, None)
            .await
            .ok()
    }
}

/// The same calls as where there is such a bus.
#[cfg(not(target_os = "linux"))]
impl SystemBus {
    pub(crate) async fn metered(&self) -> Option<bool> {
        None
    }

    pub(crate) async fn in_use(&self) -> Option<bool> {
        None
    }

    pub(crate) async fn stay_awake(&self, _why: &str) -> Option<Inhibitor> {
        None
    }

    pub(crate) async fn woken(&self) {
        std::future::pending().await
    }
}
