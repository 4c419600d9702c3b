//! How a case comes by what its agent acts on: a browser of its own, or one that a service hands out.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use everdict_contracts::{Acquire, AcquireService, ErrorCode, Fault, ServiceHarness};
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Method, StatusCode};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::call::Call;
use super::http::{Ask, Http, Peer, no_answer, refused};
use super::interpolate::Vars;
use super::patience::{Patience, Stop};
use super::plan::service_exists;
use super::port::CaseBrowser;
use super::select::{at, text_at};

/// One look at a session or a pool is a small answer.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// A session that isn't closed by then is the service's own to reclaim; the case must not wait for it.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// Between two looks at a full pool; set by the protocol.
const PARK_INTERVAL: Duration = Duration::from_secs(2);

/// A pool that stays full for longer is handed back to the queue; set by the protocol.
const PARK_LIMIT: Duration = Duration::from_secs(120);

/// The calls of a service that hands out targets, read.
#[derive(Debug)]
pub(crate) struct SessionPlan {
    spec: AcquireService,
    open: Call,
    close: Option<Call>,
    ready: Option<Call>,
    pool: Option<Call>,
}

/// What the agent acts on.
pub(crate) enum Target {
    /// Started for the case.
    Browser(Box<dyn CaseBrowser>),
    /// Handed out by a service.
    Session(Session),
}

/// A target that a service handed out.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) coordinates: Vars,
    pub(crate) cdp_base: Option<String>,
    base: String,
    close: Option<Call>,
}

/// Where and for whom a session is opened.
pub(crate) struct SessionDesk<'a> {
    pub(crate) http: &'a Http,
    pub(crate) endpoints: &'a BTreeMap<String, String>,
    pub(crate) vars: &'a Vars,
    pub(crate) patience: &'a Patience,
}

impl SessionPlan {
    /// # Errors
    /// `BAD_REQUEST` naming a call that is none, or a service that isn't there.
    pub(crate) fn of(spec: &ServiceHarness) -> Result<Option<Self>, Fault> {
        let Some(Acquire::Service(acquire)) = spec.target.as_ref().and_then(|target| target.acquire.as_ref())
        else {
            return Ok(None);
        };
        let place = |field: &str| format!("harnessSpec.target.acquire.{field}");
        let call = |text: &str, default, field: &str| Call::parse(text, default, &place(field));
        service_exists(spec, &acquire.service, &place("service"))?;
        if let Some(name) = acquire.ready.as_ref().and_then(|ready| ready.service.as_ref()) {
            service_exists(spec, name, &place("ready.service"))?;
        }
        if let Some(name) = acquire
            .capacity
            .as_ref()
            .and_then(|capacity| capacity.service.as_ref())
        {
            service_exists(spec, name, &place("capacity.service"))?;
        }
        let ready = acquire
            .ready
            .as_ref()
            .map(|ready| call(&ready.poll, Method::GET, "ready.poll"));
        let pool = acquire
            .capacity
            .as_ref()
            .map(|pool| call(&pool.poll, Method::GET, "capacity.poll"));
        let close = acquire
            .close
            .as_ref()
            .map(|close| call(close, Method::POST, "close"));
        Ok(Some(Self {
            open: call(&acquire.open, Method::POST, "open")?,
            close: close.transpose()?,
            ready: ready.transpose()?,
            pool: pool.transpose()?,
            spec: (**acquire).clone(),
        }))
    }

    /// Whether the harness says where a session's DevTools are.
    pub(crate) fn is_observable(&self) -> bool {
        self.spec.cdp_base.is_some()
    }
}

impl SessionDesk<'_> {
    fn base(&self, service: &str) -> Result<&str, Fault> {
        let found = self.endpoints.get(service).map(String::as_str);
        found.ok_or_else(|| {
            Fault::new(
                ErrorCode::HarnessRunFailed,
                format!("the topology has no address for its service `{service}`"),
            )
        })
    }

    /// Waits while the pool is full; one that can't be read is no reason to wait.
    ///
    /// # Errors
    /// `RATE_LIMITED` when it stays full, `CANCELLED`.
    pub(crate) async fn park(&self, plan: &SessionPlan) -> Result<(), Fault> {
        let (Some(capacity), Some(pool)) = (&plan.spec.capacity, &plan.pool) else {
            return Ok(());
        };
        let Some(used) = &capacity.used else {
            return Ok(());
        };
        let url = pool.url(
            self.base(capacity.service.as_ref().unwrap_or(&plan.spec.service))?,
            self.vars,
        )?;
        let patience = self.patience.within(PARK_LIMIT);
        loop {
            let ask = Ask::new(pool.verb.clone(), url.clone());
            let Ok(answer) = self
                .http
                .ask(Peer::Topology, ask, &patience.within(REQUEST_LIMIT))
                .await
            else {
                // Cancelled, or a pool that doesn't answer.
                return patience.wait(async {}).await.or_else(|stop| match stop {
                    Stop::Cancelled => Err(stop.fault("the wait", ErrorCode::RateLimited)),
                    Stop::TimeUp => Ok(()),
                });
            };
            let reading = answer.json().filter(|_| answer.status.is_success());
            let number = |path: &str| {
                reading
                    .as_ref()
                    .and_then(|reading| at(reading, path))
                    .and_then(Value::as_f64)
            };
            match (number(used), number(&capacity.total)) {
                (Some(used), Some(total)) if used >= total => {}
                _ => return Ok(()),
            }
            let paused = patience.pause(PARK_INTERVAL).await;
            let words = format!("waiting for a free session of `{}`", plan.spec.service);
            paused.map_err(|stop| stop.fault(&words, ErrorCode::RateLimited))?;
        }
    }

    /// Opens a session and waits until it is ready; one that can't be used is closed again.
    ///
    /// # Errors
    /// `UPSTREAM_ERROR` when none is handed out, its coordinates are missing, or it doesn't get ready. `CANCELLED`.
    pub(crate) async fn open(&self, plan: &SessionPlan) -> Result<Session, Fault> {
        let base = self.base(&plan.spec.service)?;
        let reply = self.ask_for_one(plan, base).await?;
        let mut session = Session {
            coordinates: Vars::new(),
            cdp_base: plan
                .spec
                .cdp_base
                .as_ref()
                .and_then(|path| text_at(&reply, path))
                .map(str::to_owned),
            base: base.to_owned(),
            close: plan.close.clone(),
        };
        let usable = match self.map(plan, &reply, &mut session) {
            Ok(()) => self.until_ready(plan, &session).await,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = usable {
            let _ = session.close(self.http, self.vars).await;
            return Err(fault);
        }
        Ok(session)
    }

    async fn ask_for_one(&self, plan: &SessionPlan, base: &str) -> Result<Value, Fault> {
        let what = format!("harnessSpec.target.acquire.open: `{}`", plan.open);
        let url = plan.open.url(base, self.vars)?;
        let wait = plan.spec.wait.as_ref();
        let patience = wait.map(|wait| self.patience.within(Duration::from_millis(wait.timeout_ms)));
        loop {
            let mut ask = Ask::new(plan.open.verb.clone(), url.clone());
            if ask.verb == Method::POST {
                ask.headers
                    .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                ask.body = Some(Bytes::from_static(b"{}"));
            }
            let answer = self
                .http
                .ask(Peer::Topology, ask, &self.patience.within(REQUEST_LIMIT))
                .await;
            let answer = answer.map_err(|error| no_answer(&what, error))?;
            if answer.status.is_success() {
                return Ok(answer.json().unwrap_or(Value::Null));
            }
            let waits = wait
                .zip(patience.as_ref())
                .filter(|(wait, _)| is_busy(answer.status, &wait.statuses));
            let Some((wait, patience)) = waits else {
                return Err(refused(&what, &answer));
            };
            match patience.pause(Duration::from_millis(wait.interval_ms)).await {
                Ok(()) => {}
                Err(Stop::TimeUp) => return Err(refused(&what, &answer)),
                Err(stop) => return Err(stop.fault(&what, ErrorCode::UpstreamError)),
            }
        }
    }

    fn map(&self, plan: &SessionPlan, reply: &Value, session: &mut Session) -> Result<(), Fault> {
        let mut missing = None;
        for (name, path) in &plan.spec.coordinates {
            match text_at(reply, path) {
                Some(value) => {
                    session.coordinates.insert(name.clone(), value.to_owned());
                }
                None => missing = Some((name, path)),
            }
        }
        match missing {
            None => Ok(()),
            Some((name, path)) => Err(Fault::new(
                ErrorCode::UpstreamError,
                format!(
                    "harnessSpec.target.acquire.coordinates.{name}: the answer of `{}` has no text at `{path}`",
                    plan.open
                ),
            )),
        }
    }

    async fn until_ready(&self, plan: &SessionPlan, session: &Session) -> Result<(), Fault> {
        let (Some(spec), Some(call)) = (&plan.spec.ready, &plan.ready) else {
            return Ok(());
        };
        let base = self.base(spec.service.as_ref().unwrap_or(&plan.spec.service))?;
        let url = call.url(base, &session.vars(self.vars))?;
        let patience = self.patience.within(Duration::from_millis(spec.timeout_ms));
        let what = format!("harnessSpec.target.acquire.ready: `{call}`");
        let mut last = "no answer came".to_owned();
        loop {
            let ask = Ask::new(call.verb.clone(), url.clone());
            match self
                .http
                .ask(Peer::Topology, ask, &patience.within(REQUEST_LIMIT))
                .await
            {
                Ok(answer) if answer.status.is_success() => return Ok(()),
                Ok(answer) => last = format!("it was answered with {}", answer.refusal()),
                Err(_) => {}
            }
            match patience.pause(Duration::from_millis(spec.interval_ms)).await {
                Ok(()) => {}
                Err(Stop::Cancelled) => return Err(Stop::Cancelled.fault(&what, ErrorCode::UpstreamError)),
                Err(Stop::TimeUp) => {
                    let text = format!("{what} did not succeed within {} ms: {last}", spec.timeout_ms);
                    return Err(Fault::new(ErrorCode::UpstreamError, text));
                }
            }
        }
    }
}

fn is_busy(status: StatusCode, busy: &[i64]) -> bool {
    busy.contains(&i64::from(status.as_u16()))
}

impl Session {
    fn vars(&self, run: &Vars) -> Vars {
        let mut vars = run.clone();
        vars.extend(self.coordinates.clone());
        vars
    }

    /// Gives the session back; it may be called after the case is cancelled.
    async fn close(&self, http: &Http, run: &Vars) -> Result<(), String> {
        let Some(call) = &self.close else {
            return Ok(());
        };
        let words = |fault: &Fault| format!("the session was not closed: {}", fault.full_message());
        let url = call
            .url(&self.base, &self.vars(run))
            .map_err(|fault| words(&fault))?;
        let patience = Patience::new(&CancellationToken::new(), CLOSE_LIMIT);
        let what = format!("`{call}`");
        match http
            .ask(Peer::Topology, Ask::new(call.verb.clone(), url), &patience)
            .await
        {
            Ok(answer) if answer.status.is_success() => Ok(()),
            Ok(answer) => Err(words(&refused(&what, &answer))),
            Err(error) => Err(words(&no_answer(&what, error))),
        }
    }
}

impl Target {
    /// What the agent is told of it.
    pub(crate) fn coordinates(&self) -> Vars {
        match self {
            Self::Browser(browser) => browser.wiring(),
            Self::Session(session) => session.coordinates.clone(),
        }
    }

    /// Where its DevTools are, as seen from here.
    pub(crate) fn cdp_base(&self) -> Option<&str> {
        match self {
            Self::Browser(browser) => Some(browser.cdp_base()),
            Self::Session(session) => session.cdp_base.as_deref(),
        }
    }

    /// Gives it back. Never fails the case: what went wrong is told in words.
    pub(crate) async fn release(self, http: &Http, vars: &Vars) -> Result<(), String> {
        match self {
            Self::Browser(browser) => browser.dispose().await,
            Self::Session(session) => session.close(http, vars).await,
        }
    }
}
