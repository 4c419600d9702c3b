//! A case's own browser: a container on the topology's network that no other case sees.
//!
//! The agent gets an address by number, not by name: Chromium refuses every request whose Host header is neither an IP
//! address nor `localhost`. The runner goes through a published port of the loopback.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use everdict_contracts::{ErrorCode, Fault};
use tokio_util::sync::CancellationToken;

use crate::deploy::{Common, Debt, Means, Remover, Site, browser_body, install};
use crate::engine::{ContainerView, Engine, EngineError, EngineErrorKind, RunState};
use crate::labels;
use crate::names;
use crate::plan::{BrowserPlan, TopologyPlan};
use crate::readiness::{Blame, Probe, Wait, until_ready};
use crate::runtime::Progress;

/// The one variable that a browser adds to a case's wiring.
pub const TARGET_CDP_URL: &str = "target_cdp_url";

/// A running browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Browser {
    pub(crate) container: String,
    pub(crate) name: String,
    /// Base of the DevTools protocol for containers of the topology.
    pub(crate) agent_url: String,
    /// The same for this process.
    pub(crate) cdp_base: String,
}

/// Whose browser it is to be.
pub(crate) struct BrowserOrder<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) plan: &'a TopologyPlan,
    pub(crate) network: &'a str,
    pub(crate) run: &'a str,
    pub(crate) attempt: &'a str,
    pub(crate) cancel: &'a CancellationToken,
    pub(crate) progress: &'a Progress,
}

/// Starts a browser and waits until its DevTools protocol answers.
///
/// Runs to its end like a deployment; what was made is removed again on failure and on cancel, or left in `debts`.
pub(crate) async fn provision(order: &BrowserOrder<'_>, debts: &mut Vec<Debt>) -> Result<Browser, Fault> {
    let plan = order
        .plan
        .browser
        .as_ref()
        .ok_or_else(|| Fault::bad_request("harnessSpec.target: the harness has no browser of its own"))?;
    let made = std::sync::Mutex::new(Vec::new());
    let means = Means {
        engine: order.engine,
        cancel: order.cancel,
        progress: order.progress,
        made: &made,
        prepared: None,
        in_use: true,
    };
    let site = Site::new(means, order.plan, order.network);
    let result = order.start(&site, plan).await;
    if result.is_err() {
        let made = made
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let remover = Remover {
            engine: order.engine,
            install: install(order.plan),
            topology: &order.plan.name,
        };
        let left = remover.container_ids(&made).await.into_iter();
        debts.extend(left.map(|debt| Debt {
            shared: false,
            ..debt
        }));
    }
    result
}

impl BrowserOrder<'_> {
    async fn start(&self, site: &Site<'_>, plan: &BrowserPlan) -> Result<Browser, Fault> {
        let name = names::browser(&self.plan.name, self.run, self.attempt);
        let id = self.create(site, plan, &name).await?;
        site.created(&id);
        site.still_wanted()?;
        site.start(&id).await.map_err(EngineError::into_fault)?;
        let view = site.hold(&id).await?;
        let address = view
            .ports
            .get(&plan.port)
            .map(|port| SocketAddr::new(IpAddr::from([127, 0, 0, 1]), *port));
        let probe = match address {
            Some(address) if view.state == RunState::Running => Probe::HttpOk {
                address,
                path: "/json/version".to_owned(),
            },
            _ => Probe::Settled { needed: false },
        };
        let wait = Wait {
            engine: self.engine,
            container: &id,
            what: "the browser",
            probe: &probe,
            blame: if plan.extension {
                Blame::Harness
            } else {
                Blame::Machine
            },
            may_finish: false,
            budget: plan.readiness.timeout,
            interval: plan.readiness.interval,
            cancel: &site.cancel,
        };
        let ready = until_ready(&wait).await;
        ready.map_err(crate::readiness::NotReady::into_fault)?;
        self.described(plan, &view, address)
    }

    async fn create(&self, site: &Site<'_>, plan: &BrowserPlan, name: &str) -> Result<String, Fault> {
        let labels = labels::of_case(&self.plan.labels, self.run, self.attempt);
        let common = Common {
            network: self.network,
            labels: &labels,
            pinned: &self.plan.network.pinned,
        };
        let alias = names::browser_alias(self.run);
        let body = browser_body(&common, plan, &alias);
        site.still_wanted()?;
        match self.engine.create_container(name, body.clone()).await {
            Err(error) if error.kind == EngineErrorKind::NameTaken => {
                site.clear_name(name).await?;
                self.engine
                    .create_container(name, body)
                    .await
                    .map_err(EngineError::into_fault)
            }
            other => other.map_err(EngineError::into_fault),
        }
    }

    fn described(
        &self,
        plan: &BrowserPlan,
        view: &ContainerView,
        address: Option<SocketAddr>,
    ) -> Result<Browser, Fault> {
        let ip = view.addresses.get(self.network);
        let (Some(ip), Some(address)) = (ip, address) else {
            let text = "the docker daemon gave the browser no address";
            return Err(Fault::new(ErrorCode::DriverProvisionFailed, text));
        };
        Ok(Browser {
            container: view.id.clone(),
            name: view.name.clone(),
            agent_url: format!("http://{}", SocketAddr::new(*ip, plan.port)),
            cdp_base: format!("http://{address}"),
        })
    }
}

impl Browser {
    /// The variables that a case's wiring gets.
    pub(crate) fn wiring(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(TARGET_CDP_URL.to_owned(), self.agent_url.clone())])
    }
}
