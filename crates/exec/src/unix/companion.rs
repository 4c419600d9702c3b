use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use super::registry::REGISTRY;

/// Between two looks whether a companion has ended.
const END_POLL: Duration = Duration::from_millis(5);

/// A child that is meant to outlive this process: it learns of this process' end when the pipe on its standard input
/// closes. It leads a session of its own, has an empty environment and no other open file, and no launch's clean-up
/// touches it.
///
/// Dropping it closes the pipe, and leaves the process alone.
#[derive(Debug)]
pub struct Companion {
    /// `None` once it is reaped.
    child: Option<Child>,
    pipe: Option<ChildStdin>,
}

impl Companion {
    /// Starts `program`.
    ///
    /// # Errors
    /// Any of the system's.
    #[expect(
        clippy::disallowed_methods,
        reason = "the other place where processes are spawned: one that is not to end with its launch"
    )]
    pub fn start<A: AsRef<OsStr>>(program: &Path, args: impl IntoIterator<Item = A>) -> io::Result<Self> {
        let mut command = std::process::Command::new(program);
        command
            .args(args)
            .env_clear()
            // Not the folder this process is in: that one may be removed, or unmounted.
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: between fork and exec only setsid(2) is called, which is async-signal-safe and allocates nothing.
        unsafe {
            command.pre_exec(|| rustix::process::setsid().map(drop).map_err(io::Error::from));
        }
        let mut child = REGISTRY.register_companion(|| command.spawn())?;
        let pipe = child.stdin.take();
        Ok(Self {
            child: Some(child),
            pipe,
        })
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Tells whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        self.reap();
        self.child.is_some()
    }

    /// Closes the pipe, and waits for its end up to `limit`. Tells whether it has ended.
    pub async fn ended(&mut self, limit: Duration) -> bool {
        self.pipe = None;
        let deadline = Instant::now() + limit;
        while self.is_alive() {
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(END_POLL).await;
        }
        true
    }

    fn reap(&mut self) {
        if let Some(child) = &mut self.child
            && !matches!(child.try_wait(), Ok(None))
        {
            REGISTRY.forget_companion(child.id());
            self.child = None;
        }
    }
}

/// Writes to its standard input.
impl Write for Companion {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.pipe {
            Some(pipe) => pipe.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.pipe {
            Some(pipe) => pipe.flush(),
            None => Ok(()),
        }
    }
}

/// One that has ended is reaped; one that goes on stays known, so that no sweep takes it for a stray.
impl Drop for Companion {
    fn drop(&mut self) {
        self.pipe = None;
        self.reap();
    }
}
