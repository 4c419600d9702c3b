use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::browser::Browser;
use crate::deploy::{Debt, DebtObject, Origin, install};
use crate::engine::Engine;
use crate::plan::TopologyPlan;
use crate::pool::{Pool, Ticket, Warm};

/// One use of a standing topology. Nobody takes the topology down while it lives.
pub struct TopologyLease {
    ticket: Ticket,
}

impl TopologyLease {
    pub(super) fn new(ticket: Ticket) -> Self {
        Self { ticket }
    }

    pub(super) fn warm(&self) -> Arc<Warm> {
        Arc::clone(&self.ticket.warm)
    }

    /// Base address of each service with a port, reachable from this process.
    pub fn endpoints(&self) -> &BTreeMap<String, String> {
        &self.ticket.warm.endpoints
    }

    /// What was planned, names and addresses included.
    pub fn plan(&self) -> &TopologyPlan {
        &self.ticket.warm.plan
    }

    /// Id of the topology's network.
    pub fn network(&self) -> &str {
        &self.ticket.warm.standing.network
    }

    /// How the topology came to stand, the last time that this process had to look.
    pub fn origin(&self) -> Origin {
        self.ticket.warm.standing.origin
    }

    /// Ids of the containers, by service name and by store kind.
    pub fn containers(&self) -> BTreeMap<&str, &str> {
        self.ticket
            .warm
            .standing
            .members
            .iter()
            .map(|up| (up.name.as_str(), up.id.as_str()))
            .collect()
    }

    /// Gives the use back. The topology stays for the next case.
    pub fn release(self) {
        drop(self);
    }
}

/// A case's browser. Dropping it removes the container in the background.
pub struct BrowserHandle {
    browser: Browser,
    install: String,
    topology: String,
    engine: Engine,
    pool: Arc<Pool>,
    handle: Handle,
    gone: bool,
}

impl BrowserHandle {
    pub(super) fn new(browser: Browser, warm: &Warm, engine: Engine, pool: Arc<Pool>) -> Self {
        Self {
            browser,
            install: install(&warm.plan).to_owned(),
            topology: warm.plan.name.clone(),
            engine,
            pool,
            handle: Handle::current(),
            gone: false,
        }
    }

    /// What the agent is told: `target_cdp_url`, an address that works inside the topology.
    pub fn wiring(&self) -> BTreeMap<String, String> {
        self.browser.wiring()
    }

    /// Base of the DevTools protocol, reachable from this process.
    pub fn cdp_base(&self) -> &str {
        &self.browser.cdp_base
    }

    /// Name of the container.
    #[expect(
        clippy::misnamed_getters,
        reason = "the field names what its owner calls it; callers want the container's name"
    )]
    pub fn container(&self) -> &str {
        &self.browser.name
    }

    /// Removes the browser, and nothing else, and waits for it.
    ///
    /// # Errors
    /// What could not be removed; it is owed, and the sweep tries again.
    pub async fn dispose(mut self) -> Result<(), Debt> {
        self.gone = true;
        let removal = Removal::of(&self);
        let pool = Arc::clone(&self.pool);
        // In a task: the removal goes on when the caller is dropped.
        let task = self.pool.tasks().spawn(async move {
            let debt = removal.run().await;
            pool.owe(debt.clone());
            debt
        });
        match task.await {
            Ok(Some(debt)) => Err(debt),
            _ => Ok(()),
        }
    }
}

impl Drop for BrowserHandle {
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        let removal = Removal::of(self);
        let pool = Arc::clone(&self.pool);
        self.pool
            .tasks()
            .spawn_on(async move { pool.owe(removal.run().await) }, &self.handle);
    }
}

struct Removal {
    engine: Engine,
    debt: Debt,
}

impl Removal {
    fn of(handle: &BrowserHandle) -> Self {
        let object = DebtObject::Container {
            id: handle.browser.container.clone(),
            name: handle.browser.name.clone(),
        };
        let (install, topology) = (handle.install.clone(), handle.topology.clone());
        Self {
            engine: handle.engine.clone(),
            debt: Debt {
                install,
                topology,
                object,
                shared: false,
                why: String::new(),
            },
        }
    }

    async fn run(self) -> Option<Debt> {
        self.debt.pay(&self.engine).await
    }
}
