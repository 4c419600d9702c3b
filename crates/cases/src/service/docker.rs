//! Topologies on the local Docker daemon, as the service backend uses them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everdict_contracts::{Fault, ServiceHarness, StoreFixture};
use everdict_graders::StateQuery;
use everdict_topology::engine::EngineError;
use everdict_topology::runtime::{
    BrowserHandle, CaseScope, DockerTopologyRuntime, MemberStatus, TopologyLease, TopologyRuntime,
};
use everdict_topology::stores::StoreQuery;
use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::BoxStream;

use super::port::{CallbackHost, CaseBrowser, TopologyPort, TopologyUse};

/// The name of the daemon's machine inside every container of a topology.
const HOST_NAME: &str = "host.docker.internal";

/// Runs service cases on a Docker daemon.
#[derive(Clone)]
pub struct DockerTopologies {
    runtime: Arc<DockerTopologyRuntime>,
}

impl DockerTopologies {
    /// Uses an open runtime.
    pub fn new(runtime: Arc<DockerTopologyRuntime>) -> Self {
        Self { runtime }
    }
}

impl TopologyPort for DockerTopologies {
    fn id(&self) -> &'static str {
        self.runtime.id()
    }

    fn ensure<'a>(
        &'a self,
        spec: &'a ServiceHarness,
        scope: &'a CaseScope,
    ) -> BoxFuture<'a, Result<Box<dyn TopologyUse>, Fault>> {
        async move {
            let lease = self.runtime.ensure_topology(spec, scope).await?;
            let standing = Standing {
                runtime: Arc::clone(&self.runtime),
                lease,
                spec: spec.clone(),
            };
            Ok(Box::new(standing) as Box<dyn TopologyUse>)
        }
        .boxed()
    }
}

struct Standing {
    runtime: Arc<DockerTopologyRuntime>,
    lease: TopologyLease,
    spec: ServiceHarness,
}

impl TopologyUse for Standing {
    fn endpoints(&self) -> &BTreeMap<String, String> {
        self.lease.endpoints()
    }

    fn callback_host(&self) -> BoxFuture<'_, Option<CallbackHost>> {
        async move {
            let gateway = self.runtime.engine().host_gateway().await;
            // The gateway is an address of this machine exactly when the daemon runs on it. A daemon in a machine of its own
            // passes on what goes to the name to this machine's loopback.
            let native = gateway.filter(|gateway| UdpSocket::bind(SocketAddr::new(*gateway, 0)).is_ok());
            let bind = native.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
            Some(CallbackHost {
                bind,
                name: HOST_NAME.to_owned(),
            })
        }
        .boxed()
    }

    fn open_to_callbacks<'a>(
        &'a self,
        scope: &'a CaseScope,
        port: u16,
        limit: Duration,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        async move {
            let opened = self.runtime.open_to_callbacks(&self.lease, scope, port, limit);
            opened.await.map_err(EngineError::into_fault)
        }
        .boxed()
    }

    fn close_to_callbacks<'a>(&'a self, scope: &'a CaseScope, port: u16) -> BoxFuture<'a, ()> {
        async move {
            if let Err(error) = self.runtime.close_to_callbacks(&self.lease, scope, port).await {
                tracing::debug!(%error, port, "the way to the listener closes by itself");
            }
        }
        .boxed()
    }

    fn provision_browser<'a>(
        &'a self,
        scope: &'a CaseScope,
    ) -> BoxFuture<'a, Result<Box<dyn CaseBrowser>, Fault>> {
        async move {
            let browser = self.runtime.provision_browser(&self.lease, scope).await?;
            Ok(Box::new(browser) as Box<dyn CaseBrowser>)
        }
        .boxed()
    }

    fn drop_slices<'a>(&'a self, scope: &'a CaseScope) -> BoxFuture<'a, Result<(), Fault>> {
        self.runtime.drop_slices(&self.lease, &self.spec, scope)
    }

    fn seed_fixtures<'a>(
        &'a self,
        scope: &'a CaseScope,
        fixtures: &'a [StoreFixture],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        self.runtime
            .seed_fixtures(&self.lease, &self.spec, scope, fixtures)
    }

    fn read_state<'a>(
        &'a self,
        scope: &'a CaseScope,
        query: StateQuery<'a>,
    ) -> BoxFuture<'a, Result<String, Fault>> {
        async move {
            let query = StoreQuery {
                store: query.store,
                role: query.role,
                query: query.query,
                path: query.path,
            };
            self.runtime
                .read_store_state(&self.lease, &self.spec, scope, &query)
                .await
        }
        .boxed()
    }

    fn members(&self) -> BoxFuture<'_, Vec<MemberStatus>> {
        async move { self.runtime.describe(&self.lease).await.members }.boxed()
    }

    fn logs<'a>(&'a self, member: &'a str, since: i64) -> BoxFuture<'a, Option<String>> {
        self.runtime.service_logs(&self.lease, member, Some(since))
    }

    fn follow<'a>(
        &'a self,
        member: &'a str,
        from_start: bool,
    ) -> BoxFuture<'a, Option<BoxStream<'static, Bytes>>> {
        self.runtime
            .follow_member(&self.lease, member, from_start)
            .boxed()
    }

    fn diagnose(&self) -> BoxFuture<'_, Option<String>> {
        self.runtime.diagnose(&self.lease)
    }

    fn broken(&self) -> BoxFuture<'_, Fault> {
        self.runtime.broken(&self.lease)
    }
}

impl CaseBrowser for BrowserHandle {
    fn wiring(&self) -> BTreeMap<String, String> {
        Self::wiring(self)
    }

    fn cdp_base(&self) -> &str {
        Self::cdp_base(self)
    }

    fn dispose(self: Box<Self>) -> BoxFuture<'static, Result<(), String>> {
        async move {
            let disposed = Self::dispose(*self).await;
            disposed.map_err(|debt| format!("{}: {}", debt.object, debt.why))
        }
        .boxed()
    }
}
