use std::io;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::Ended;

/// Tells when a child has ended, and leaves it unreaped: until then nobody else can get its number.
pub(crate) struct ExitWatch {
    pid: Pid,
    event: Event,
}

enum Event {
    #[cfg(target_os = "linux")]
    Pidfd(tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>),
    Sigchld(Signal),
}

impl ExitWatch {
    pub(crate) fn new(pid: Pid) -> io::Result<Self> {
        Ok(Self {
            pid,
            event: Event::new(pid)?,
        })
    }

    /// Waits for the end. Cancel safe.
    pub(crate) async fn ended(&mut self) -> io::Result<Ended> {
        loop {
            if let Some(ended) = peek(self.pid)? {
                return Ok(ended);
            }
            match &mut self.event {
                #[cfg(target_os = "linux")]
                Event::Pidfd(fd) => fd.readable().await?.clear_ready(),
                Event::Sigchld(signal) => {
                    signal.recv().await;
                }
            }
        }
    }
}

impl Event {
    fn new(pid: Pid) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Ok(fd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
            let interest = tokio::io::Interest::READABLE;
            // SAFETY: an `OwnedFd` keeps the one descriptor it has open until it is dropped, and the `AsyncFd` owns it.
            let watched = unsafe { tokio::io::unix::AsyncFd::register_with_interest(fd, interest) };
            return Ok(Self::Pidfd(watched.map_err(|error| error.into_parts().1)?));
        }
        let _ = pid;
        Ok(Self::Sigchld(signal(SignalKind::child())?))
    }
}

/// How a child has ended, without reaping it; `None` while it runs.
fn peek(pid: Pid) -> io::Result<Option<Ended>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = loop {
        match waitid(WaitId::Pid(pid), options) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    Ok(status.and_then(|status| {
        status
            .exit_status()
            .map(Ended::Exited)
            .or_else(|| status.terminating_signal().map(Ended::Signaled))
    }))
}
