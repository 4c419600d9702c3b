//! What a case left behind, by the way that the harness delivers it.

use std::collections::BTreeMap;
use std::time::Duration;

use everdict_browser::{Capture, CdpEndpoint, SnapshotLimits, snapshot};
use everdict_contracts::{BrowserSnapshot, Delivery, EnvSnapshot, ErrorCode, Fault, TraceEvidence, decode};
use reqwest::{Method, Url};
use serde_json::Value;

use super::acquire::Target;
use super::http::{Ask, Http, Peer, no_answer, refused};
use super::interpolate::{self, Vars};
use super::patience::Patience;
use super::select::at;
use crate::context::Progress;

/// A sink hands out what it has; the protocol's limit for one request.
const SINK_LIMIT: Duration = Duration::from_secs(30);

/// Everything that an observation may need.
pub(crate) struct Observer<'a> {
    pub(crate) http: &'a Http,
    pub(crate) progress: &'a dyn Progress,
    pub(crate) endpoints: &'a BTreeMap<String, String>,
    /// Base address of the front door.
    pub(crate) base: &'a str,
    pub(crate) vars: &'a Vars,
    pub(crate) patience: &'a Patience,
    pub(crate) response: Option<&'a Value>,
    pub(crate) extracted: Option<&'a TraceEvidence>,
}

/// A snapshot, and what of it is missing, in words.
#[derive(Debug)]
pub(crate) struct Observation {
    pub(crate) snapshot: EnvSnapshot,
    pub(crate) missing: Vec<String>,
}

impl From<EnvSnapshot> for Observation {
    fn from(snapshot: EnvSnapshot) -> Self {
        Self {
            snapshot,
            missing: Vec::new(),
        }
    }
}

impl Observer<'_> {
    /// Takes the snapshot.
    ///
    /// # Errors
    /// `HARNESS_RUN_FAILED` when what was delivered is no snapshot; `UPSTREAM_ERROR` when the sink can't be asked;
    /// `DRIVER_SNAPSHOT_FAILED` when the case's own browser is dead; `CANCELLED`.
    pub(crate) async fn observe(
        &self,
        delivery: Option<&Delivery>,
        target: Option<&Target>,
        console: Vec<String>,
    ) -> Result<Observation, Fault> {
        match delivery {
            None | Some(Delivery::Reference(_)) => match target {
                Some(target) => self.target(target, console).await,
                None => Ok(self.answer().into()),
            },
            Some(Delivery::Sentinel(sentinel)) => {
                let path = sentinel.path.as_deref().unwrap_or_default();
                let found = self.response.and_then(|response| at(response, path));
                let found =
                    found.ok_or_else(|| undelivered(&format!("the answer has nothing at `{path}`")))?;
                delivered(found.clone()).map(Observation::from)
            }
            Some(Delivery::Egress(egress)) => self.fetch(&egress.sink).await.map(Observation::from),
            Some(Delivery::Trace(_)) => Ok(self.traced().into()),
        }
    }

    async fn target(&self, target: &Target, console: Vec<String>) -> Result<Observation, Fault> {
        let base = match (target, target.cdp_base()) {
            (_, Some(base)) => base,
            (Target::Browser(_) | Target::Session(_), None) => return Ok(EnvSnapshot::prompt("").into()),
        };
        let page = async {
            let endpoint = CdpEndpoint::new(base).map_err(|error| {
                Fault::new(
                    ErrorCode::DriverSnapshotFailed,
                    "the target's DevTools address is none",
                )
                .caused_by(error)
            })?;
            snapshot(&endpoint, &SnapshotLimits::default(), console).await
        };
        let taken = self.patience.wait(page).await;
        let taken = taken.map_err(|stop| stop.fault("the snapshot", ErrorCode::DriverSnapshotFailed))?;
        match (taken, target) {
            (Ok(Capture { snapshot, missing }), _) => Ok(Observation {
                snapshot: EnvSnapshot::Browser(snapshot),
                missing,
            }),
            // Whether a session's DevTools can be reached from here is up to the harness.
            (Err(fault), Target::Session(_)) => Ok(Observation {
                snapshot: EnvSnapshot::prompt(""),
                missing: vec![format!("the session gave no snapshot: {}", fault.full_message())],
            }),
            (Err(fault), Target::Browser(_)) => Err(fault),
        }
    }

    /// The answer as text: text as it stands, anything else as JSON.
    fn answer(&self) -> EnvSnapshot {
        EnvSnapshot::prompt(match self.response {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        })
    }

    fn traced(&self) -> EnvSnapshot {
        let Some(found) = self.extracted else {
            return self.answer();
        };
        if found.dom.is_none() && found.screenshot.is_none() && found.screenshot_ref.is_none() {
            return self.answer();
        }
        EnvSnapshot::Browser(BrowserSnapshot {
            dom: found.dom.clone().unwrap_or_default(),
            screenshot: found.screenshot.clone(),
            screenshot_ref: found.screenshot_ref.clone(),
            ..BrowserSnapshot::default()
        })
    }

    async fn fetch(&self, sink: &str) -> Result<EnvSnapshot, Fault> {
        const FIELD: &str = "harnessSpec.target.delivery.sink";
        let (url, peer) = self
            .sink(sink.trim())
            .map_err(|why| Fault::bad_request(format!("{FIELD}: {why}")))?;
        let host = url.host_str().unwrap_or_default();
        self.progress.log(&format!(
            "[everdict] fetching the snapshot from {host}, which the harness names as its sink"
        ));
        let what = format!("{FIELD}: the request to {host}");
        let patience = self.patience.within(SINK_LIMIT);
        let answer = self.http.ask(peer, Ask::new(Method::GET, url), &patience).await;
        let answer = answer.map_err(|error| no_answer(&what, error))?;
        if !answer.status.is_success() {
            return Err(refused(&what, &answer));
        }
        delivered(answer.json().unwrap_or(Value::Null))
    }

    /// Where a sink is, as seen from here: a service of the topology goes by its name inside and by its address outside.
    fn sink(&self, template: &str) -> Result<(Url, Peer), String> {
        let filled = interpolate::path(template, self.vars).map_err(|fault| fault.message)?;
        if filled.starts_with('/') {
            let url = format!("{}{filled}", self.base.strip_suffix('/').unwrap_or(self.base));
            return Url::parse(&url)
                .map(|url| (url, Peer::Topology))
                .map_err(|error| error.to_string());
        }
        let mut url = Url::parse(&filled).map_err(|error| format!("`{filled}` is no address: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!(
                "`{}://` is not fetched from here, only http:// and https:// are",
                url.scheme()
            ));
        }
        let inside = url.host_str().and_then(|host| self.endpoints.get(host));
        if let Some(endpoint) = inside.and_then(|endpoint| Url::parse(endpoint).ok()) {
            let moved = url.set_host(endpoint.host_str()).is_ok() && url.set_port(endpoint.port()).is_ok();
            return if moved && url.set_scheme(endpoint.scheme()).is_ok() {
                Ok((url, Peer::Topology))
            } else {
                Err(format!("`{filled}` can't be reached from here"))
            };
        }
        let local = url.host_str().is_some_and(|host| {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host == "localhost"
                || host
                    .parse::<std::net::IpAddr>()
                    .is_ok_and(|address| address.is_loopback())
        });
        let peer = if local && url.scheme() == "http" {
            Peer::Topology
        } else {
            Peer::Outside
        };
        Ok((url, peer))
    }
}

fn delivered(value: Value) -> Result<EnvSnapshot, Fault> {
    decode::<EnvSnapshot>(value).map_err(|error| undelivered(&error.to_string()))
}

fn undelivered(why: &str) -> Fault {
    Fault::new(
        ErrorCode::HarnessRunFailed,
        format!("the harness delivered no snapshot: {why}"),
    )
}
