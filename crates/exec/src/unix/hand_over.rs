use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::registry::REGISTRY;
use crate::{ChildEnv, HostEnv};

/// Between two looks whether the program has ended.
const END_POLL: Duration = Duration::from_millis(10);

/// Starts a program that takes something over (`xdg-open` an address) and lives a life of its own from then on.
///
/// It gets the member's environment without this product's variables, a session of its own, and no standard streams.
/// What it leaves behind is the person's (a browser), so nothing of it is ever stopped or swept. Gives out how it ended
/// when it ends within `limit`, else `None`; in both cases it was started. Cancel safe: it goes on.
///
/// # Errors
/// Any of the system's when it can't be started.
#[expect(
    clippy::disallowed_methods,
    reason = "the third place where processes are spawned: one that belongs to the person, not to a launch"
)]
pub async fn hand_over<A: AsRef<OsStr>>(
    host: &HostEnv,
    program: &Path,
    args: impl IntoIterator<Item = A>,
    limit: Duration,
) -> io::Result<Option<ExitStatus>> {
    let env = ChildEnv::for_probe(host);
    let mut command = std::process::Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(env.vars())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: between fork and exec only setsid(2) is called, which is async-signal-safe and allocates nothing.
    unsafe {
        command.pre_exec(|| rustix::process::setsid().map(drop).map_err(io::Error::from));
    }
    let child = REGISTRY.register_companion(|| command.spawn())?;
    let mut handed = Handed(Some(child));
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = handed.ended()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        tokio::time::sleep(END_POLL).await;
    }
}

/// A handed-over process; dropped before its end, it is reaped by a later launch.
struct Handed(Option<Child>);

impl Handed {
    fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let Some(child) = &mut self.0 else { return Ok(None) };
        let status = child.try_wait()?;
        if status.is_some() {
            REGISTRY.forget_companion(child.id());
            self.0 = None;
        }
        Ok(status)
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if let Some(child) = self.0.take() {
            let id = child.id();
            REGISTRY.abandon(child);
            REGISTRY.forget_companion(id);
        }
    }
}
