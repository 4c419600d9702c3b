//! One page, and how to find one that lives.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::endpoint::{CdpEndpoint, Target, by_rank};
use crate::error::CdpError;
use crate::socket::Socket;

/// Time for a page to prove that it lives. A closed page stays listed for about 205 ms, and its socket opens but never
/// answers; a living one answers within milliseconds even while it loads.
const PROBE_LIMIT: Duration = Duration::from_millis(500);

/// Time for a page that is still listed after a failed probe: it isn't closed then but slow, or its machine is.
const SECOND_PROBE_LIMIT: Duration = Duration::from_secs(2);

/// Pages asked per listing: more that don't answer means that the browser is stuck as a whole.
const MAX_PROBES: usize = 4;

/// A connected page. Dropping it closes the connection, not the page.
pub struct Page {
    socket: Socket,
    target: Target,
    main_frame: String,
}

impl Page {
    /// Connects to a page and makes sure that it lives.
    ///
    /// # Errors
    /// [`CdpError::TimedOut`] within half a second for a page that was closed; [`CdpError::NoPage`] for a target without
    /// a socket.
    pub async fn connect(endpoint: &CdpEndpoint, target: &Target) -> Result<Self, CdpError> {
        Self::connect_within(endpoint, target, PROBE_LIMIT).await
    }

    async fn connect_within(
        endpoint: &CdpEndpoint,
        target: &Target,
        limit: Duration,
    ) -> Result<Self, CdpError> {
        let url = target
            .web_socket_debugger_url
            .as_deref()
            .ok_or(CdpError::NoPage)?;
        let what = "Page.getFrameTree";
        let open = async {
            let mut socket = Socket::connect(endpoint, url).await?;
            let tree = socket.call(what, json!({}), limit).await?;
            Ok::<_, CdpError>((socket, tree))
        };
        // The handshake counts too: the browser may accept and then be silent.
        let (socket, tree) = timeout(limit, open).await.map_err(|_| CdpError::TimedOut {
            what: what.to_owned(),
            limit,
        })??;
        let main_frame = text(&tree, "/frameTree/frame/id");
        let mut target = target.clone();
        let url = text(&tree, "/frameTree/frame/url") + &text(&tree, "/frameTree/frame/urlFragment");
        let failed = text(&tree, "/frameTree/frame/unreachableUrl");
        for fresher in [url, failed] {
            if !fresher.is_empty() {
                target.url = fresher;
            }
        }
        Ok(Self {
            socket,
            target,
            main_frame,
        })
    }

    /// The page; its URL is that of the moment of connecting.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The id of the page's main frame.
    pub fn main_frame(&self) -> &str {
        &self.main_frame
    }

    /// Sends one command and returns its result. Events are skipped.
    ///
    /// # Errors
    /// The browser's refusal, a broken connection, or silence beyond `limit`; after the last the page stays usable.
    pub async fn call(
        &mut self,
        method: &'static str,
        params: Value,
        limit: Duration,
    ) -> Result<Value, CdpError> {
        self.socket.call(method, params, limit).await
    }
}

fn text(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// What a search for the page that matters came to.
pub(crate) struct Found {
    /// The first page that answers.
    pub(crate) page: Option<Page>,
    /// One that matters more and doesn't answer though it is open: its script or its machine is stuck.
    pub(crate) stuck: Option<Target>,
}

/// Looks for the page that matters.
pub(crate) async fn find_page(endpoint: &CdpEndpoint) -> Result<Found, CdpError> {
    let targets = endpoint.list().await?;
    let Some(first) = by_rank(&targets).into_iter().next() else {
        return Ok(Found {
            page: None,
            stuck: None,
        });
    };
    match Page::connect(endpoint, first).await {
        Ok(page) => {
            return Ok(Found {
                page: Some(page),
                stuck: None,
            });
        }
        Err(error) => tracing::debug!(%error, url = first.url, "a page didn't answer"),
    }
    // A closed page is off the list by now; one that is still on it gets more time before a lesser page is taken.
    let targets = endpoint.list().await?;
    let mut stuck: Option<Target> = None;
    for target in by_rank(&targets).into_iter().take(MAX_PROBES) {
        match Page::connect_within(endpoint, target, SECOND_PROBE_LIMIT).await {
            Ok(page) => {
                let stuck = stuck.filter(|stuck| stuck.rank() < target.rank());
                return Ok(Found {
                    page: Some(page),
                    stuck,
                });
            }
            Err(error) => {
                tracing::debug!(%error, url = target.url, "passed over a page");
                stuck.get_or_insert_with(|| target.clone());
            }
        }
    }
    Ok(Found { page: None, stuck })
}

/// Finds the page that matters among those that live.
///
/// # Errors
/// [`CdpError::NoPage`] when none answers in two listings, else whatever kept the listing from coming.
pub async fn live_page(endpoint: &CdpEndpoint) -> Result<Page, CdpError> {
    find_page(endpoint).await?.page.ok_or(CdpError::NoPage)
}

/// Finds the page that matters, or opens an empty one.
///
/// # Errors
/// Whatever keeps the browser from answering.
pub async fn ensure_live_page(endpoint: &CdpEndpoint) -> Result<Page, CdpError> {
    match live_page(endpoint).await {
        Err(CdpError::NoPage) => {
            let target = endpoint.new_page("about:blank").await?;
            Page::connect(endpoint, &target).await
        }
        found => found,
    }
}
