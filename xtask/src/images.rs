//! Stand-in images: the work is shell (`images/build.sh`), because it is other programs' work from end to end.

use std::path::Path;
use std::process::Command;

use crate::ToolResult;

/// Builds the images named in `arguments`; see the head of `images/build.sh`.
///
/// # Errors
/// When the script cannot be started or fails; it has said why on stderr.
pub(crate) fn run(arguments: &[String]) -> ToolResult<()> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("images/build.sh");
    let status = Command::new("bash").arg(script).args(arguments).status()?;
    if status.success() {
        Ok(())
    } else {
        Err("building the images failed".into())
    }
}
