//! A place for topologies whose services are servers of the test. It keeps count of what is asked of it, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use everdict_cases::{
    CallbackHost, CaseBrowser, CaseContext, Progress, TopologyPort, TopologyUse, run_leased_job,
};
use everdict_contracts::{
    CaseJob, CaseResult, ErrorCode, Fault, ServiceHarness, StoreFixture, TraceEvent, decode,
};
use everdict_exec::HostEnv;
use everdict_graders::StateQuery;
use everdict_topology::runtime::{CaseScope, MemberStatus};
use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, FutureExt as _, pending, ready};
use futures_util::stream::{self, BoxStream};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::door::{Door, Hits};

/// A case must not need longer than this to notice that it is cancelled.
pub const PROMPT: Duration = Duration::from_secs(3);

#[derive(Default)]
pub struct Settings {
    pub endpoints: BTreeMap<String, String>,
    /// DevTools base of the case's browser.
    pub cdp_base: Option<String>,
    /// Steps that don't end the first time.
    pub hang: Mutex<BTreeSet<&'static str>>,
    /// Steps that fail.
    pub fail: BTreeMap<&'static str, ErrorCode>,
    pub no_callback: bool,
    pub diagnosis: Option<String>,
    pub log: Option<String>,
    /// What the members had written in the same second, before the case.
    pub log_before: String,
    /// What the members print while the case runs, piece by piece.
    pub prints: Vec<&'static str>,
    pub state: String,
    /// A member ends when it is told.
    pub breaks: Option<Arc<Notify>>,
}

struct Local {
    settings: Settings,
    hits: Hits,
    done: Mutex<Vec<String>>,
    since: Mutex<Option<i64>>,
}

impl Local {
    fn note(&self, step: impl Into<String>) {
        self.done.lock().unwrap().push(step.into());
    }

    fn step<T: Send + 'static>(
        self: &Arc<Self>,
        step: &'static str,
        value: T,
    ) -> BoxFuture<'static, Result<T, Fault>> {
        self.note(step);
        if self.settings.hang.lock().unwrap().remove(step) {
            return pending().boxed();
        }
        match self.settings.fail.get(step) {
            Some(code) => ready(Err(Fault::new(*code, format!("{step} went wrong")))).boxed(),
            None => ready(Ok(value)).boxed(),
        }
    }
}

struct Port(Arc<Local>);
struct Use(Arc<Local>);
struct Browser(Arc<Local>, bool);

impl TopologyPort for Port {
    fn id(&self) -> &'static str {
        "local"
    }

    fn ensure<'a>(
        &'a self,
        _spec: &'a ServiceHarness,
        _scope: &'a CaseScope,
    ) -> BoxFuture<'a, Result<Box<dyn TopologyUse>, Fault>> {
        let local = Arc::clone(&self.0);
        async move {
            local.step("ensure", ()).await?;
            Ok(Box::new(Use(local)) as Box<dyn TopologyUse>)
        }
        .boxed()
    }
}

impl TopologyUse for Use {
    fn endpoints(&self) -> &BTreeMap<String, String> {
        &self.0.settings.endpoints
    }

    fn callback_host(&self) -> BoxFuture<'_, Option<CallbackHost>> {
        let host = CallbackHost {
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            name: "127.0.0.1".to_owned(),
        };
        ready((!self.0.settings.no_callback).then_some(host)).boxed()
    }

    fn provision_browser<'a>(
        &'a self,
        _scope: &'a CaseScope,
    ) -> BoxFuture<'a, Result<Box<dyn CaseBrowser>, Fault>> {
        let started = self.0.step("browser", ());
        async move {
            started.await?;
            Ok(Box::new(Browser(Arc::clone(&self.0), false)) as Box<dyn CaseBrowser>)
        }
        .boxed()
    }

    fn drop_slices<'a>(&'a self, scope: &'a CaseScope) -> BoxFuture<'a, Result<(), Fault>> {
        assert!(scope.deadline.is_some(), "a step without a deadline");
        self.0.step("drop", ())
    }

    fn seed_fixtures<'a>(
        &'a self,
        _scope: &'a CaseScope,
        fixtures: &'a [StoreFixture],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        assert!(!fixtures.is_empty());
        self.0.step("seed", ())
    }

    fn read_state<'a>(
        &'a self,
        _scope: &'a CaseScope,
        _query: StateQuery<'a>,
    ) -> BoxFuture<'a, Result<String, Fault>> {
        self.0.step("read", self.0.settings.state.clone())
    }

    fn members(&self) -> BoxFuture<'_, Vec<MemberStatus>> {
        let member = |name: &String| MemberStatus {
            name: name.clone(),
            role: "service",
            image: "example/web:1".to_owned(),
            port: Some(8080),
            running: true,
            endpoint: None,
            trouble: None,
        };
        ready(self.0.settings.endpoints.keys().map(member).collect()).boxed()
    }

    fn logs<'a>(&'a self, _member: &'a str, since: i64) -> BoxFuture<'a, Option<String>> {
        *self.0.since.lock().unwrap() = Some(since);
        let before = self.0.settings.log_before.clone();
        // Nothing is written for the case before the front door has it.
        let written = self
            .0
            .settings
            .log
            .clone()
            .filter(|_| !self.0.hits.lock().unwrap().is_empty());
        let log = before + &written.unwrap_or_default();
        ready((!log.is_empty()).then_some(log)).boxed()
    }

    fn follow<'a>(
        &'a self,
        member: &'a str,
        from_start: bool,
    ) -> BoxFuture<'a, Option<BoxStream<'static, Bytes>>> {
        let prints = member == "web" && !from_start;
        let pieces = if prints {
            self.0.settings.prints.clone()
        } else {
            Vec::new()
        };
        let printed = stream::iter(pieces).map(|piece| Bytes::from_static(piece.as_bytes()));
        ready(Some(printed.chain(stream::pending()).boxed())).boxed()
    }

    fn diagnose(&self) -> BoxFuture<'_, Option<String>> {
        ready(self.0.settings.diagnosis.clone()).boxed()
    }

    fn broken(&self) -> BoxFuture<'_, Fault> {
        async move {
            match &self.0.settings.breaks {
                Some(breaks) => breaks.notified().await,
                None => pending().await,
            }
            Fault::new(
                ErrorCode::HarnessRunFailed,
                "service web has ended with exit code 3",
            )
            .with_log_tail("last words")
        }
        .boxed()
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.0.note("release");
    }
}

impl CaseBrowser for Browser {
    fn wiring(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("target_cdp_url".to_owned(), "http://10.9.8.7:9222".to_owned())])
    }

    fn cdp_base(&self) -> &str {
        self.0
            .settings
            .cdp_base
            .as_deref()
            .unwrap_or("http://127.0.0.1:1")
    }

    fn dispose(mut self: Box<Self>) -> BoxFuture<'static, Result<(), String>> {
        self.1 = true;
        let step = self.0.step("dispose", ());
        async move { step.await.map_err(|fault| fault.message) }.boxed()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.1 {
            self.0.note("browser lost");
        }
    }
}

#[derive(Default)]
struct Seen {
    lines: Mutex<Vec<String>>,
    parts: Mutex<Vec<(String, String)>>,
    events: Mutex<Vec<TraceEvent>>,
}

impl Progress for Seen {
    fn log(&self, line: &str) {
        self.lines.lock().unwrap().push(line.to_owned());
    }

    fn log_of(&self, part: &str, line: &str) {
        self.parts
            .lock()
            .unwrap()
            .push((part.to_owned(), line.to_owned()));
    }

    fn trace(&self, events: Vec<TraceEvent>) {
        self.events.lock().unwrap().extend(events);
    }
}

/// Runs cases, and tells what happened.
pub struct Stage {
    local: Arc<Local>,
    seen: Arc<Seen>,
    dir: TempDir,
    pub cancel: CancellationToken,
}

impl Stage {
    pub fn new(mut settings: Settings, door: &Door) -> Self {
        settings
            .endpoints
            .entry("web".to_owned())
            .or_insert_with(|| door.url.clone());
        let local = Local {
            settings,
            hits: door.all_hits(),
            done: Mutex::default(),
            since: Mutex::default(),
        };
        Self {
            local: Arc::new(local),
            seen: Arc::default(),
            dir: TempDir::new().unwrap(),
            cancel: CancellationToken::new(),
        }
    }

    pub async fn run(&self, job: Value) -> Result<CaseResult, Fault> {
        let job: CaseJob = decode(job).expect("a well-formed job");
        let ctx = CaseContext {
            host_env: Arc::new(HostEnv::from_pairs(Vec::<(String, String)>::new())),
            work_root: self.dir.path().to_owned(),
            progress: self.seen.clone(),
            containers: None,
            services: Some(Arc::new(Port(Arc::clone(&self.local)))),
            mask: Arc::new(everdict_exec::Redactor::none()),
            cancel: self.cancel.clone(),
        };
        run_leased_job(&job, &ctx).await
    }

    /// Runs a job that is cancelled as soon as `when` holds, and checks that it ends promptly.
    pub async fn cancelled(&self, job: Value, when: impl Fn() -> bool) {
        let cancel = async {
            until(when).await;
            self.cancel.cancel();
            Instant::now()
        };
        let (outcome, at) = tokio::join!(self.run(job), cancel);
        assert!(at.elapsed() < PROMPT, "it took {:?} to end", at.elapsed());
        assert_eq!(outcome.unwrap_err().code, ErrorCode::Cancelled);
    }

    /// What the place was asked for, in order.
    pub fn done(&self) -> Vec<String> {
        self.local.done.lock().unwrap().clone()
    }

    pub fn did(&self, step: &str) -> bool {
        self.done().iter().any(|done| done == step)
    }

    /// From when on logs were asked for.
    pub fn since(&self) -> Option<i64> {
        *self.local.since.lock().unwrap()
    }

    pub fn lines(&self) -> Vec<String> {
        self.seen.lines.lock().unwrap().clone()
    }

    /// What parts of the surroundings printed, live.
    pub fn printed(&self) -> Vec<(String, String)> {
        self.seen.parts.lock().unwrap().clone()
    }

    pub fn shown(&self) -> usize {
        self.seen.events.lock().unwrap().len()
    }
}

/// Waits until something holds.
pub async fn until(holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "it never held");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
