//! A thin client of the Chrome DevTools protocol: lists pages, takes snapshots, records what happens, moves cookies.
//!
//! The crate talks to a browser that is already there. It starts no browser and no process, knows no containers, reads
//! no environment, and models no more of the protocol than it uses.
//!
//! Invariants:
//! - Every call has a deadline, every answer a size limit, every map a bound.
//! - An event or field that nobody here knows is skipped; it never ends a call or a recording.
//! - A page that was closed but is still listed is never chosen: whoever is chosen has answered.
//! - A snapshot's URL, DOM and picture are of one and the same page.
//! - A dead browser is an error, never an empty page.
//! - A recording changes nothing in the run: it neither fails it nor holds it up.

mod cookies;
mod endpoint;
mod error;
mod http;
mod page;
mod recorder;
mod snapshot;
mod socket;
mod text;

pub use cookies::{Cookie, StorageState, read_cookies, seed_cookies};
pub use endpoint::{CdpEndpoint, Target, Version, pick_page};
pub use error::CdpError;
pub use page::{Page, ensure_live_page, live_page};
pub use recorder::{Recorder, RecorderOptions, TrackSink};
pub use snapshot::{Capture, SnapshotLimits, snapshot};
