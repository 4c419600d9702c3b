use std::sync::Mutex;
use std::time::Duration;

use everdict_contracts::NetworkEntry;

use super::*;

#[derive(Default)]
struct Seen {
    entries: Mutex<Vec<TrackEntry>>,
    frames: Mutex<Vec<String>>,
}

impl TrackSink for Seen {
    fn track(&self, entry: TrackEntry) {
        self.entries.lock().unwrap().push(entry);
    }
    fn frame(&self, png_base64: String) {
        self.frames.lock().unwrap().push(png_base64);
    }
}

struct Rig {
    seen: Arc<Seen>,
    recording: Recording,
    now: Instant,
}

impl Rig {
    fn new() -> Self {
        let seen = Arc::new(Seen::default());
        let sink: Arc<dyn TrackSink> = seen.clone();
        let options = RecorderOptions::default();
        let now = Instant::now() + Duration::from_secs(60);
        Self {
            seen,
            recording: Recording::new(sink, Arc::default(), options),
            now,
        }
    }

    fn feed(&mut self, message: Value) -> Vec<Command> {
        self.recording
            .on(serde_json::from_value(message).unwrap(), self.now)
    }

    /// Brings the recording to where one page is watched under session `s`.
    fn watching() -> Self {
        let mut rig = Self::new();
        let begin = rig.recording.begin();
        assert_eq!(begin[0].method, "Target.setAutoAttach");
        let list = rig.feed(json!({ "id": begin[0].id, "result": {} }));
        let listing = json!({ "targetInfos": [{ "type": "page", "targetId": "T" }, { "type": "worker", "targetId": "W" }] });
        let attach = rig.feed(json!({ "id": list[0].id, "result": listing }));
        assert_eq!(attach.len(), 1, "only the page is attached to");
        let enables = rig.attached("s", "T", "page", "");
        rig.feed(json!({ "id": attach[0].id, "result": { "sessionId": "s" } }));
        assert!(!rig.recording.is_ready());
        for command in &enables {
            rig.feed(json!({ "id": command.id, "error": { "message": "no such domain" } }));
        }
        assert!(rig.recording.is_ready(), "a refusal is an answer too");
        rig
    }

    fn attached(&mut self, session: &str, target: &str, kind: &str, url: &str) -> Vec<Command> {
        let info = json!({ "targetId": target, "type": kind, "url": url });
        self.feed(json!({ "method": "Target.attachedToTarget", "params": { "sessionId": session, "targetInfo": info, "waitingForDebugger": true } }))
    }

    fn event(&mut self, method: &str, params: Value) -> Vec<Command> {
        self.feed(json!({ "method": method, "sessionId": "s", "params": params }))
    }

    fn entries(&self) -> Vec<TrackEntry> {
        self.seen.entries.lock().unwrap().clone()
    }
}

fn methods(commands: &[Command]) -> Vec<&str> {
    commands.iter().map(|command| command.method).collect()
}

#[test]
fn a_target_that_is_offered_twice_is_watched_once_and_never_left_waiting() {
    let mut rig = Rig::watching();
    let again = rig.attached("s2", "T", "page", "");
    assert_eq!(
        methods(&again),
        ["Runtime.runIfWaitingForDebugger", "Target.detachFromTarget"]
    );
    let worker = rig.attached("s3", "W", "service_worker", "");
    assert_eq!(
        methods(&worker),
        ["Runtime.runIfWaitingForDebugger", "Target.detachFromTarget"]
    );
    let fresh = rig.attached("s4", "T4", "page", "http://a.test/");
    assert_eq!(fresh.last().unwrap().method, "Runtime.runIfWaitingForDebugger");
    assert!(methods(&fresh).contains(&"Network.enable"));
}

#[test]
fn redirects_are_one_entry_per_hop() {
    let mut rig = Rig::watching();
    let request = |url: &str| json!({ "method": "GET", "url": url });
    rig.event(
        "Network.requestWillBeSent",
        json!({ "requestId": "1", "timestamp": 10.0, "request": request("http://a.test/") }),
    );
    rig.event(
        "Network.requestWillBeSent",
        json!({ "requestId": "1", "timestamp": 10.5, "request": request("http://b.test/"), "redirectResponse": { "status": 302 } }),
    );
    rig.event(
        "Network.responseReceived",
        json!({ "requestId": "1", "response": { "status": 200 } }),
    );
    rig.event(
        "Network.loadingFinished",
        json!({ "requestId": "1", "timestamp": 10.75 }),
    );
    let hops: Vec<_> = rig
        .entries()
        .into_iter()
        .map(|entry| match entry {
            TrackEntry::Network(hop) => (hop.url, hop.status, hop.ms),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        hops,
        [
            ("http://a.test/".to_owned(), Some(302.0), Some(500.0)),
            ("http://b.test/".to_owned(), Some(200.0), Some(250.0))
        ]
    );
}

#[test]
fn open_requests_are_reported_at_the_end() {
    let mut rig = Rig::watching();
    let request = json!({ "method": "POST", "url": "http://a.test/slow" });
    rig.event(
        "Network.requestWillBeSent",
        json!({ "requestId": "1", "timestamp": 1.0, "request": request }),
    );
    assert!(rig.entries().is_empty());
    rig.recording.finish();
    assert!(matches!(
        &rig.entries()[..],
        [TrackEntry::Network(NetworkEntry {
            ms: None,
            status: None,
            ..
        })]
    ));
}

#[test]
fn navigations_count_in_the_main_frame_and_once_in_a_row() {
    let mut rig = Rig::watching();
    for (url, parent) in [
        ("http://a.test/", None),
        ("http://a.test/", None),
        ("http://ad.test/", Some("T")),
    ] {
        let mut frame = json!({ "id": "T", "url": url });
        if let Some(parent) = parent {
            frame["parentId"] = json!(parent);
        }
        rig.event("Page.frameNavigated", json!({ "frame": frame }));
    }
    rig.event(
        "Page.navigatedWithinDocument",
        json!({ "frameId": "T", "url": "http://a.test/#b" }),
    );
    rig.event(
        "Page.navigatedWithinDocument",
        json!({ "frameId": "other", "url": "http://a.test/#c" }),
    );
    let urls: Vec<_> = rig
        .entries()
        .into_iter()
        .map(|entry| match entry {
            TrackEntry::Nav(nav) => nav.url,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(urls, ["http://a.test/", "http://a.test/#b"]);
}

#[test]
fn every_frame_is_acknowledged_and_one_per_second_reported() {
    let mut rig = Rig::watching();
    for number in 0..4 {
        let ack = rig.event(
            "Page.screencastFrame",
            json!({ "data": format!("f{number}"), "sessionId": number }),
        );
        assert_eq!(
            (ack[0].method, &ack[0].params["sessionId"]),
            ("Page.screencastFrameAck", &json!(number))
        );
        rig.now += Duration::from_millis(100);
    }
    assert_eq!(*rig.seen.frames.lock().unwrap(), ["f0"]);
    let due = rig.recording.due().unwrap();
    rig.recording.on_time(due);
    assert_eq!(
        *rig.seen.frames.lock().unwrap(),
        ["f0", "f3"],
        "the last one of a burst is not lost"
    );
    assert!(rig.recording.due().is_none());
}

#[test]
fn a_dialog_is_closed_only_when_nobody_else_does() {
    let mut rig = Rig::watching();
    rig.event("Page.javascriptDialogOpening", json!({ "type": "confirm" }));
    let due = rig.recording.due().unwrap();
    assert!(rig.recording.on_time(rig.now).is_empty());
    let close = rig.recording.on_time(due);
    assert_eq!(
        (close[0].method, &close[0].params),
        ("Page.handleJavaScriptDialog", &json!({ "accept": false }))
    );
    rig.event("Page.javascriptDialogOpening", json!({ "type": "alert" }));
    rig.event("Page.javascriptDialogClosed", json!({}));
    assert!(rig.recording.due().is_none());
}

#[test]
fn odd_messages_are_skipped() {
    let mut rig = Rig::watching();
    for odd in [
        json!({}),
        json!({ "method": "Future.thing", "params": [1] }),
        json!({ "method": "Network.requestWillBeSent", "params": null }),
        json!({ "method": "Target.attachedToTarget", "params": "?" }),
        json!({ "method": "Page.screencastFrame", "sessionId": "gone", "params": {} }),
        json!({ "id": 999_999, "result": 3 }),
        json!({ "method": "Runtime.consoleAPICalled", "params": { "args": 7 } }),
    ] {
        rig.feed(odd);
    }
    rig.event(
        "Runtime.consoleAPICalled",
        json!({ "type": "log", "args": [{ "type": "string", "value": "still here" }] }),
    );
    assert!(matches!(rig.entries().last(), Some(TrackEntry::Console(line)) if line.text == "still here"));
}
