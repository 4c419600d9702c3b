//! The decisions of a recorder: what comes in decides what is reported and what is sent. Knows no socket.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use everdict_contracts::{ConsoleEntry, NavEntry, TrackEntry};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::console::ConsoleTail;
use super::flights::{Flight, Flights};
use super::read::{arguments, exception, text, wall_ms};
use super::{RecorderOptions, TrackSink};
use crate::socket::{Command, Incoming};
use crate::text::clip;

/// Characters kept of a console line; set by the protocol.
const MAX_TEXT: usize = 2000;

/// Characters kept of a URL: `data:` URLs hold whole files.
const MAX_URL: usize = 2000;

/// Pages and frames watched at once; beyond it a page opens windows in a loop.
const MAX_SESSIONS: usize = 256;

/// Pictures are scaled down to this, in pixels each way: the live view is no larger.
const MAX_FRAME_SIDE: u32 = 1280;

/// How far the start has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Asked to be told of new pages; holds the command's id.
    Attaching(u64),
    /// Asked for the pages of now.
    Listing(u64),
    /// Commands to the pages of now are on their way.
    Enabling,
    Ready,
}

struct Session {
    target: String,
    is_page: bool,
    last_nav: Option<String>,
    /// When an open dialog is closed, and whether by agreeing.
    dialog: Option<(Instant, bool)>,
}

pub(super) struct Recording {
    sink: Arc<dyn TrackSink>,
    console: Arc<ConsoleTail>,
    options: RecorderOptions,
    phase: Phase,
    last_id: u64,
    /// Commands that the start waits for.
    pending: HashSet<u64>,
    sessions: HashMap<String, Session>,
    flights: Flights,
    last_frame: Option<Instant>,
    held_frame: Option<String>,
}

impl Recording {
    pub(super) fn new(sink: Arc<dyn TrackSink>, console: Arc<ConsoleTail>, options: RecorderOptions) -> Self {
        Self {
            sink,
            console,
            options,
            phase: Phase::Attaching(0),
            last_id: 0,
            pending: HashSet::new(),
            sessions: HashMap::new(),
            flights: Flights::default(),
            last_frame: None,
            held_frame: None,
        }
    }

    /// The commands to begin with.
    pub(super) fn begin(&mut self) -> Vec<Command> {
        let attach = self.command("Target.setAutoAttach", auto_attach(), None);
        self.phase = Phase::Attaching(attach.id);
        vec![attach]
    }

    pub(super) fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// When [`Self::on_time`] is to be called next.
    pub(super) fn due(&self) -> Option<Instant> {
        let frame = self
            .held_frame
            .as_ref()
            .and(self.last_frame)
            .map(|last| last + self.options.frame_interval);
        let dialog = self
            .sessions
            .values()
            .filter_map(|session| session.dialog)
            .map(|(due, _)| due)
            .min();
        frame.into_iter().chain(dialog).min()
    }

    /// Does what is due: reports the picture that was held back, closes dialogs that nobody cares for.
    pub(super) fn on_time(&mut self, now: Instant) -> Vec<Command> {
        if self
            .last_frame
            .is_some_and(|last| now >= last + self.options.frame_interval)
            && let Some(frame) = self.held_frame.take()
        {
            self.last_frame = Some(now);
            self.sink.frame(frame);
        }
        let mut overdue = Vec::new();
        for (id, session) in &mut self.sessions {
            if let Some((_, accept)) = session.dialog.take_if(|(due, _)| *due <= now) {
                overdue.push((id.clone(), accept));
            }
        }
        let close = |(id, accept): (String, bool)| {
            self.command(
                "Page.handleJavaScriptDialog",
                json!({ "accept": accept }),
                Some(&id),
            )
        };
        overdue.into_iter().map(close).collect()
    }

    /// Takes one message of the browser.
    pub(super) fn on(&mut self, incoming: Incoming, now: Instant) -> Vec<Command> {
        if let Some(id) = incoming.id {
            return self.on_answer(id, &incoming);
        }
        let Incoming {
            method: Some(method),
            session_id,
            mut params,
            ..
        } = incoming
        else {
            return Vec::new();
        };
        let session = session_id.as_deref();
        match method.as_str() {
            "Target.attachedToTarget" => return self.on_attached(&params, session),
            "Target.detachedFromTarget" => self.on_detached(text(&params, "/sessionId")),
            "Page.screencastFrame" => return self.on_frame(&mut params, session, now),
            "Page.javascriptDialogOpening" => {
                // Leaving a page is what happens when nobody is asked; everything else is turned down.
                let accept = text(&params, "/type") == "beforeunload";
                let due = now + self.options.dialog_grace;
                if let Some(session) = session.and_then(|id| self.sessions.get_mut(id)) {
                    session.dialog = Some((due, accept));
                }
            }
            "Page.javascriptDialogClosed" => {
                if let Some(session) = session.and_then(|id| self.sessions.get_mut(id)) {
                    session.dialog = None;
                }
            }
            "Page.frameNavigated" if params.pointer("/frame/parentId").is_none() => {
                let url = text(&params, "/frame/url").to_owned() + text(&params, "/frame/urlFragment");
                self.on_nav(session, &url);
            }
            "Page.navigatedWithinDocument" => {
                let frame = text(&params, "/frameId");
                // The main frame of a page bears the page's own id.
                if session
                    .and_then(|id| self.sessions.get(id))
                    .is_some_and(|page| page.target == frame)
                {
                    self.on_nav(session, text(&params, "/url"));
                }
            }
            "Runtime.consoleAPICalled" => self.on_console(text(&params, "/type"), &arguments(&params)),
            "Runtime.exceptionThrown" => self.on_console("error", exception(&params)),
            method if method.starts_with("Network.") => {
                self.on_network(method, session.unwrap_or_default(), &params);
            }
            _ => {}
        }
        Vec::new()
    }

    /// Reports the requests that are still open.
    pub(super) fn finish(&mut self) {
        for flight in self.flights.take_open(None) {
            self.sink.track(flight.land(None));
        }
        if let Some(frame) = self.held_frame.take() {
            self.sink.frame(frame);
        }
    }

    fn command(&mut self, method: &'static str, params: Value, session: Option<&str>) -> Command {
        self.last_id += 1;
        Command {
            id: self.last_id,
            method,
            params,
            session_id: session.map(str::to_owned),
        }
    }

    /// Steps the start on; a refusal is an answer too.
    fn on_answer(&mut self, id: u64, answer: &Incoming) -> Vec<Command> {
        self.pending.remove(&id);
        let mut commands = Vec::new();
        match self.phase {
            Phase::Attaching(asked) if asked == id => {
                let list = self.command("Target.getTargets", json!({}), None);
                self.phase = Phase::Listing(list.id);
                commands.push(list);
            }
            Phase::Listing(asked) if asked == id => {
                self.phase = Phase::Enabling;
                commands = self.attach_missing(&answer.result);
                self.pending.extend(commands.iter().map(|command| command.id));
            }
            _ => {}
        }
        if self.phase == Phase::Enabling && self.pending.is_empty() {
            self.phase = Phase::Ready;
        }
        commands
    }

    /// Attaches to pages that the browser didn't offer of itself.
    fn attach_missing(&mut self, listing: &Value) -> Vec<Command> {
        let infos = listing.get("targetInfos").and_then(Value::as_array);
        let missing: Vec<_> = infos
            .into_iter()
            .flatten()
            .filter(|info| text(info, "/type") == "page")
            .map(|info| text(info, "/targetId").to_owned())
            .filter(|id| !self.is_watched(id))
            .take(MAX_SESSIONS)
            .collect();
        let attach = |id| {
            self.command(
                "Target.attachToTarget",
                json!({ "targetId": id, "flatten": true }),
                None,
            )
        };
        missing.into_iter().map(attach).collect()
    }

    fn is_watched(&self, target: &str) -> bool {
        self.sessions.values().any(|session| session.target == target)
    }

    fn on_attached(&mut self, params: &Value, parent: Option<&str>) -> Vec<Command> {
        let id = text(params, "/sessionId").to_owned();
        let target = text(params, "/targetInfo/targetId").to_owned();
        let kind = text(params, "/targetInfo/type");
        let is_page = kind == "page";
        // A new window is offered by the browser and by its opener.
        let wanted =
            (is_page || kind == "iframe") && !self.is_watched(&target) && self.sessions.len() < MAX_SESSIONS;
        let mut commands = Vec::new();
        if wanted {
            let session = Session {
                target,
                is_page,
                last_nav: None,
                dialog: None,
            };
            self.sessions.insert(id.clone(), session);
            commands = self.watch(&id, is_page);
            if self.phase != Phase::Ready {
                self.pending.extend(commands.iter().map(|command| command.id));
            }
            let url = text(params, "/targetInfo/url");
            if !url.is_empty() && url != "about:blank" {
                self.on_nav(Some(&id), url);
            }
        }
        // New targets wait until told to go on, so that nothing of them is missed.
        commands.push(self.command("Runtime.runIfWaitingForDebugger", json!({}), Some(&id)));
        if !wanted {
            commands.push(self.command("Target.detachFromTarget", json!({ "sessionId": id }), parent));
        }
        commands
    }

    fn watch(&mut self, session: &str, is_page: bool) -> Vec<Command> {
        let mut commands = vec![
            self.command("Network.enable", json!({}), Some(session)),
            self.command("Runtime.enable", json!({}), Some(session)),
            // Frames of another site are targets of their own.
            self.command("Target.setAutoAttach", auto_attach(), Some(session)),
        ];
        if is_page {
            commands.push(self.command("Page.enable", json!({}), Some(session)));
            if self.options.frames {
                let size = json!({ "format": "png", "everyNthFrame": 1, "maxWidth": MAX_FRAME_SIDE, "maxHeight": MAX_FRAME_SIDE });
                commands.push(self.command("Page.startScreencast", size, Some(session)));
            }
        }
        commands
    }

    fn on_detached(&mut self, session: &str) {
        if self.sessions.remove(session).is_some() {
            for flight in self.flights.take_open(Some(session)) {
                self.sink.track(flight.land(None));
            }
        }
    }

    /// Acknowledges every picture, since the browser sends no more otherwise, and reports one per interval: the last one
    /// of an interval is held back, not dropped, so that the end of a burst is seen.
    fn on_frame(&mut self, params: &mut Value, session: Option<&str>, now: Instant) -> Vec<Command> {
        let number = params.get("sessionId").cloned().unwrap_or(Value::Null);
        if let Some(Value::String(frame)) = params.get_mut("data").map(Value::take) {
            self.held_frame = Some(frame);
            if self.last_frame.is_none() {
                self.last_frame = now.checked_sub(self.options.frame_interval).or(Some(now));
            }
        }
        let mut commands = self.on_time(now);
        commands.push(self.command("Page.screencastFrameAck", json!({ "sessionId": number }), session));
        commands
    }

    fn on_nav(&mut self, session: Option<&str>, url: &str) {
        let Some(page) = session
            .and_then(|id| self.sessions.get_mut(id))
            .filter(|page| page.is_page)
        else {
            return;
        };
        if page.last_nav.as_deref() == Some(url) {
            return;
        }
        page.last_nav = Some(url.to_owned());
        self.sink.track(TrackEntry::Nav(NavEntry {
            t: wall_ms(),
            url: clip(url, MAX_URL),
        }));
    }

    fn on_console(&mut self, level: &str, line: &str) {
        let text = clip(line, MAX_TEXT);
        self.console.push(clip(&format!("[{level}] {line}"), MAX_TEXT));
        self.sink.track(TrackEntry::Console(ConsoleEntry {
            t: wall_ms(),
            level: level.to_owned(),
            text,
        }));
    }

    fn on_network(&mut self, method: &str, session: &str, params: &Value) {
        let request = text(params, "/requestId");
        let time = params.get("timestamp").and_then(Value::as_f64);
        match method {
            "Network.requestWillBeSent" => {
                // A redirect goes on under the same id.
                if let Some(mut hop) = self.flights.take(session, request) {
                    hop.status = params.pointer("/redirectResponse/status").and_then(Value::as_f64);
                    self.sink.track(hop.land(time));
                }
                let flight = Flight {
                    t: wall_ms(),
                    started: time,
                    method: text(params, "/request/method").to_owned(),
                    url: clip(text(params, "/request/url"), MAX_URL),
                    status: None,
                };
                self.flights.start(session, request, flight);
            }
            "Network.responseReceived" => {
                if let Some(flight) = self.flights.get_mut(session, request) {
                    flight.status = params.pointer("/response/status").and_then(Value::as_f64);
                }
            }
            "Network.loadingFinished" | "Network.loadingFailed" => {
                if let Some(flight) = self.flights.take(session, request) {
                    self.sink.track(flight.land(time));
                }
            }
            _ => {}
        }
    }
}

fn auto_attach() -> Value {
    json!({ "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true })
}

#[cfg(test)]
mod tests;
