use std::ffi::OsString;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::{CaptureLimits, ChildEnv, ExecError, ExitStatus, HostEnv, Launch, run};

/// A probe answers with a version or a line; more would be a mistake of the tool.
const PROBE_CAPTURE: CaptureLimits = CaptureLimits {
    head: 64 << 10,
    tail: 0,
};

/// A tool that is asked for its version has nothing to save.
const PROBE_GRACE: Duration = Duration::from_millis(500);

/// What a tool of the member answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeOutput {
    /// How it ended.
    pub status: ExitStatus,
    /// The start of its standard output.
    pub stdout: String,
    /// The start of its standard error.
    pub stderr: String,
}

/// Asks a tool of the member something, with their own environment and without a scratch directory.
///
/// For capability probes that need a process; prefer [`HostEnv::find_program`] where a file answers. Nothing of the
/// tool is left when this returns.
pub async fn probe(host: &HostEnv, argv: &[&str], timeout: Duration) -> Result<ProbeOutput, ExecError> {
    let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
    let launch = Launch {
        timeout: Some(timeout),
        grace: PROBE_GRACE,
        capture: PROBE_CAPTURE,
        ..Launch::argv(argv, "/", ChildEnv::for_probe(host))
    };
    let exit = run(launch, None, &CancellationToken::new()).await?;
    Ok(ProbeOutput {
        status: exit.status,
        stdout: exit.stdout.text(),
        stderr: exit.stderr.text(),
    })
}
