//! Whether this machine can run the demo's service case, and with which browser.

use std::time::Duration;

use everdict_app::{Engine, Offer, RunnerState, TopologySettings, missing_images};
use everdict_contracts::Capability;

use crate::context::Context;

/// The image of the front door, which no registry has.
const FRONT_DOOR: &str = "everdict/front-door:dev";

/// The browser as people pull it, and as `cargo xtask images` builds it.
const BROWSER: &str = "chromedp/headless-shell:latest";

/// From the start of the runner until the hub has heard what it offers. Longer is a stuck daemon, or a stuck hub.
const OFFER_LIMIT: Duration = Duration::from_secs(15);

/// What the service case runs with.
#[derive(Debug)]
pub(super) enum Lane {
    /// Everything is here.
    Open(TopologySettings),
    /// One line that says why the case is left out, and how to have it.
    Closed(String),
}

/// Looks for a container engine and for the images, without pulling any.
pub(super) async fn look(context: &Context) -> Lane {
    let mut settings = context.settings.topology.clone();
    let mut missing = match missing_images(&context.env, &settings, &[FRONT_DOOR]).await {
        Ok(missing) => missing,
        Err(problem) => {
            return Lane::Closed(format!(
                "{}; with Docker running, the demo adds a case on services, stores and a browser",
                problem.chain()
            ));
        }
    };
    if !missing.is_empty() && settings.browser_image.is_none() {
        let other = TopologySettings {
            browser_image: Some(BROWSER.to_owned()),
            ..settings.clone()
        };
        if let Ok(with_other) = missing_images(&context.env, &other, &[FRONT_DOOR]).await
            && with_other.len() < missing.len()
        {
            (settings, missing) = (other, with_other);
        }
    }
    if missing.is_empty() {
        return Lane::Open(settings);
    }
    Lane::Closed(format!(
        "images are missing ({}); `cargo xtask images all` builds them",
        missing.join(", ")
    ))
}

/// Waits until the hub has heard that the runner takes containers.
///
/// # Errors
/// Why it takes none.
pub(super) async fn offered(engine: &Engine) -> Result<(), String> {
    let mut snapshot = engine.snapshot();
    let heard = snapshot.wait_for(|now| {
        now.runners
            .iter()
            .all(|view| view.runner.state == RunnerState::Idle)
    });
    if !matches!(tokio::time::timeout(OFFER_LIMIT, heard).await, Ok(Ok(_))) {
        return Err("the runner has not reached the hub yet".to_owned());
    }
    let now = snapshot.borrow().clone();
    let mut docker = now
        .runners
        .iter()
        .flat_map(|view| &view.runner.capabilities.entries)
        .filter(|entry| entry.capability == Capability::Docker);
    match docker.next() {
        Some(entry) if entry.offer == Offer::Offered => Ok(()),
        Some(entry) => Err(entry.reason.clone()),
        None => Err("the runner knows of no container engine".to_owned()),
    }
}
