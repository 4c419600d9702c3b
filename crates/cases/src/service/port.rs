//! What the service backend needs of the place that topologies run on.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use everdict_contracts::{Fault, ServiceHarness, StoreFixture};
use everdict_graders::StateQuery;
use everdict_topology::runtime::{CaseScope, MemberStatus};
use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::BoxStream;

/// A place where topologies run.
pub trait TopologyPort: Send + Sync {
    /// Goes into the result as the place of execution.
    fn id(&self) -> &'static str;

    /// Makes the harness' topology stand, or finds it standing, and counts one use of it. Cancel safe.
    ///
    /// # Errors
    /// `BAD_REQUEST` with the field's place before anything is created; else what kept it from standing.
    fn ensure<'a>(
        &'a self,
        spec: &'a ServiceHarness,
        scope: &'a CaseScope,
    ) -> BoxFuture<'a, Result<Box<dyn TopologyUse>, Fault>>;
}

/// One case's use of a standing topology. Dropping it gives the use back; the topology stays for the next case.
pub trait TopologyUse: Send + Sync {
    /// Base address of each service with a port, reachable from this process.
    fn endpoints(&self) -> &BTreeMap<String, String>;

    /// Where a listener of this process can be reached by the topology's containers; `None` when it can't.
    fn callback_host(&self) -> BoxFuture<'_, Option<CallbackHost>>;

    /// Lets the containers that serve the case reach a port of this process' machine, for `limit` at most. Where nothing
    /// holds them back there is nothing to do.
    ///
    /// # Errors
    /// What kept it from being opened.
    fn open_to_callbacks<'a>(
        &'a self,
        _scope: &'a CaseScope,
        _port: u16,
        _limit: Duration,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        async { Ok(()) }.boxed()
    }

    /// Closes the port again.
    fn close_to_callbacks<'a>(&'a self, _scope: &'a CaseScope, _port: u16) -> BoxFuture<'a, ()> {
        async {}.boxed()
    }

    /// Starts the case's own browser. Cancel safe.
    ///
    /// # Errors
    /// What kept it from starting; nothing is left behind then.
    fn provision_browser<'a>(
        &'a self,
        scope: &'a CaseScope,
    ) -> BoxFuture<'a, Result<Box<dyn CaseBrowser>, Fault>>;

    /// Empties the run's part of every store.
    ///
    /// # Errors
    /// A part that could not be emptied.
    fn drop_slices<'a>(&'a self, scope: &'a CaseScope) -> BoxFuture<'a, Result<(), Fault>>;

    /// Puts the case's fixtures into the run's parts of the stores.
    ///
    /// # Errors
    /// The first fixture that a store turned down.
    fn seed_fixtures<'a>(
        &'a self,
        scope: &'a CaseScope,
        fixtures: &'a [StoreFixture],
    ) -> BoxFuture<'a, Result<(), Fault>>;

    /// Reads the run's part of a store, without changing it.
    ///
    /// # Errors
    /// A store that can't be asked, or turned the query down.
    fn read_state<'a>(
        &'a self,
        scope: &'a CaseScope,
        query: StateQuery<'a>,
    ) -> BoxFuture<'a, Result<String, Fault>>;

    /// How each member is, stores first.
    fn members(&self) -> BoxFuture<'_, Vec<MemberStatus>>;

    /// The end of a member's log, no older than the time in seconds since 1970.
    fn logs<'a>(&'a self, member: &'a str, since: i64) -> BoxFuture<'a, Option<String>>;

    /// What a member prints, from its start or from now on, as it comes; `None` when it can't be followed.
    fn follow<'a>(
        &'a self,
        _member: &'a str,
        _from_start: bool,
    ) -> BoxFuture<'a, Option<BoxStream<'static, Bytes>>> {
        async { None }.boxed()
    }

    /// Names the members that aren't well, and why.
    fn diagnose(&self) -> BoxFuture<'_, Option<String>>;

    /// Waits until a member ends that shouldn't, and tells which and why. To be raced against a drive. Cancel safe.
    fn broken(&self) -> BoxFuture<'_, Fault>;
}

/// A case's own browser. Dropping it removes it in the background.
pub trait CaseBrowser: Send + Sync {
    /// What the agent is told: addresses that work inside the topology, `target_cdp_url` among them.
    fn wiring(&self) -> BTreeMap<String, String>;

    /// Base of the DevTools protocol, reachable from this process.
    fn cdp_base(&self) -> &str;

    /// Removes the browser and waits for it.
    ///
    /// # Errors
    /// What could not be removed, in words.
    fn dispose(self: Box<Self>) -> BoxFuture<'static, Result<(), String>>;
}

/// How a topology's containers reach a listener of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackHost {
    /// To listen on.
    pub bind: IpAddr,
    /// To be told to the topology: a name or an address.
    pub name: String,
}
