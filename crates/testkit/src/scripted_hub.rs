//! A control plane that speaks the runner's part of the MCP protocol over real HTTP.
//!
//! The state is simulated (a queue of leases, sessions, accepted results) and every call is recorded. A test
//! arms a [`Fault`] for the next call of a tool (or of `initialize`); each armed fault strikes once.

mod http;
mod state;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;

use state::State;
pub use state::{Call, Lease};

/// One misbehaviour, used up by the call it strikes.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Answer with this status and a JSON error body; the tool does not run.
    Status(u16),
    /// Answer 200 with an HTML page; the tool does not run.
    Html,
    /// Answer `isError` with this text; the tool does not run.
    Refuse(String),
    /// Run the tool, then break the connection instead of replying.
    DropReply,
    /// Forget every session, then answer 404 as an unknown session.
    LoseSessions,
    /// Wait this long before the tool runs.
    Delay(Duration),
}

/// The running server. Stops when dropped.
#[derive(Debug)]
pub struct ScriptedHub {
    state: Arc<State>,
    address: SocketAddr,
    server: JoinHandle<()>,
}

impl Drop for ScriptedHub {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl ScriptedHub {
    /// The bearer that the hub accepts.
    pub const TOKEN: &'static str = "rnr_scripted-hub-test-token-0000000000";

    /// Starts a hub on a free loopback port that answers as an event stream, like the known control plane.
    ///
    /// # Panics
    /// When no loopback port can be bound.
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a loopback port can be bound");
        let address = listener.local_addr().expect("a bound socket has an address");
        let state = Arc::new(State::default());
        let router = http::router(Arc::clone(&state));
        // The handle is aborted on drop, so the task can't outlive its owner.
        #[expect(
            clippy::disallowed_methods,
            reason = "owned by the handle and aborted on drop"
        )]
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self {
            state,
            address,
            server,
        }
    }

    /// The base URL to give to a runner.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on replies are plain JSON instead of event streams.
    pub fn reply_in_json(&self) {
        self.state.edit(|inner| inner.json_replies = true);
    }

    /// From now on calls that are called off are not ended, as by a hub that doesn't know the notification.
    pub fn ignore_call_offs(&self) {
        self.state.edit(|inner| inner.deaf = true);
    }

    /// The calls that were called off so far.
    #[must_use]
    pub fn called_off(&self) -> usize {
        self.state.read(|inner| inner.called_off.len())
    }

    /// From now on no token is accepted.
    pub fn revoke_token(&self) {
        self.state.edit(|inner| inner.revoked = true);
    }

    /// From now on leases are refused as outdated.
    pub fn require_update(&self) {
        self.state.edit(|inner| inner.update_required = true);
    }

    /// From now on no job is given out and the reason is told; `None` ends that. A waiting poll learns of it at once.
    pub fn pause(&self, reason: Option<&str>) {
        self.state.pause(reason);
    }

    /// Announces this lease time in every lease reply.
    pub fn announce_ttl(&self, ttl: Duration) {
        self.state.edit(|inner| inner.lease_ttl = Some(ttl));
    }

    /// Forgets every session, as a restart does. Leases stay.
    pub fn lose_sessions(&self) {
        self.state.edit(|inner| inner.sessions.clear());
    }

    /// From now on every request is answered with this status and nothing is done; `None` ends that.
    pub fn outage(&self, status: Option<u16>) {
        self.state.edit(|inner| inner.outage = status);
    }

    /// How many requests came in outages.
    #[must_use]
    pub fn missed(&self) -> usize {
        self.state.read(|inner| inner.missed)
    }

    /// Arms a fault for the next call of `tool` (`initialize` is one too).
    pub fn arm(&self, tool: &str, fault: Fault) {
        self.state
            .edit(|inner| inner.faults.push((tool.to_owned(), fault)));
    }

    /// Puts a job into the queue and wakes a waiting poll. Returns its job id.
    pub fn enqueue(&self, job: Value) -> String {
        self.state.enqueue(job)
    }

    /// Marks a job as cancelled: heartbeats say so and reports are refused.
    pub fn cancel(&self, job_id: &str) {
        self.state.edit_lease(job_id, |lease| lease.cancelled = true);
    }

    /// Takes the lease away, as an expiry with a re-lease elsewhere does.
    pub fn take_away(&self, job_id: &str) {
        self.state.edit_lease(job_id, |lease| lease.epoch += 1);
    }

    /// Every call so far, in order of arrival.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.state.read(|inner| inner.calls.clone())
    }

    /// The calls of one tool so far.
    #[must_use]
    pub fn calls_of(&self, tool: &str) -> Vec<Call> {
        self.calls()
            .into_iter()
            .filter(|call| call.tool == tool)
            .collect()
    }

    /// The lease of a job as the hub sees it now.
    #[must_use]
    pub fn lease(&self, job_id: &str) -> Option<Lease> {
        self.state.read(|inner| inner.leases.get(job_id).cloned())
    }

    /// How many sessions were opened, and how many ended by `DELETE`.
    #[must_use]
    pub fn sessions_opened_and_deleted(&self) -> (usize, usize) {
        self.state.read(|inner| (inner.opened, inner.deleted))
    }

    /// How many requests came with a token that is not accepted.
    #[must_use]
    pub fn rejected_tokens(&self) -> usize {
        self.state.read(|inner| inner.rejected)
    }

    /// How many long polls are waiting in the hub right now.
    #[must_use]
    pub fn waiting_polls(&self) -> usize {
        self.state.read(|inner| inner.waiting)
    }

    /// Waits until `condition` holds.
    ///
    /// # Panics
    /// After 10 s, with `what` and the calls seen: that long is a hang, even on a busy machine.
    pub async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let changed = &self.state.changed;
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        loop {
            let notified = changed.notified();
            if condition(self) {
                return;
            }
            // The tick covers conditions that change without a call, such as a poll that leaves.
            let tick = tokio::time::sleep(Duration::from_millis(20));
            tokio::select! {
                () = notified => {}
                () = tick => {}
                () = tokio::time::sleep_until(deadline) => {
                    panic!("waited in vain until {what}; calls: {:#?}", self.calls());
                }
            }
        }
    }
}
