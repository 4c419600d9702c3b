//! What can stop a hub.

use std::io;
use std::net::SocketAddr;

use everdict_store::StoreError;

/// A failure to start, run or manage a hub.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// Another program listens on the address.
    #[error("listen on {address}: the port is in use, stop the other program or choose a port with --listen")]
    PortInUse {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be listened on for another reason.
    #[error("listen on {address}: choose another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// The server stopped by itself.
    #[error("serve http")]
    Serve(#[source] io::Error),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A key for a subject that would read as a workspace owner.
    #[error("make a key for `{subject}`: subjects that start with `ws:` stand for workspaces")]
    ReservedSubject {
        /// The subject.
        subject: String,
    },
    /// A key without a workspace.
    #[error(
        "make a key: the workspace must be a name of letters, digits, `-`, `_` and `.`, not `{workspace}`"
    )]
    BadWorkspace {
        /// What was given.
        workspace: String,
    },
    /// Settings of signing in that can't work.
    #[error("use the settings for signing in: {why}")]
    BadOidc {
        /// What to change.
        why: String,
    },
}
