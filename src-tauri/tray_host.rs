//! Whether anything on this desktop shows tray icons.

/// What the session says about tray icons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrayHost {
    /// Something shows them.
    Present,
    /// Nothing answered for them: no session bus, or no host on it.
    Missing,
}

impl TrayHost {
    /// Asks the session; never longer than a person would wait for the app to start.
    #[cfg(target_os = "linux")]
    pub async fn probe() -> Self {
        use std::time::Duration;

        // A healthy bus answers in milliseconds; a start that hangs on a sick one looks like a crash.
        const LIMIT: Duration = Duration::from_secs(1);

        match tokio::time::timeout(LIMIT, linux::host_registered()).await {
            Ok(Ok(true)) => Self::Present,
            Ok(Ok(false) | Err(_)) | Err(_) => Self::Missing,
        }
    }

    /// Asks the session: the menu bar and the notification area are always there.
    #[cfg(not(target_os = "linux"))]
    pub async fn probe() -> Self {
        Self::Present
    }
}

#[cfg(target_os = "linux")]
mod linux {
    const WATCHER: &str = "org.kde.StatusNotifierWatcher";

    /// A watcher alone shows nothing: a panel has to have registered with it as a host.
    pub async fn host_registered() -> zbus::Result<bool> {
        let bus = zbus::Connection::session().await?;
        let watcher = zbus::Proxy::new(&bus, WATCHER, "/StatusNotifierWatcher", WATCHER).await?;
        watcher.get_property("IsStatusNotifierHostRegistered").await
    }
}
