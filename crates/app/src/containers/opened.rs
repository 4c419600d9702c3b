//! A runtime on an engine that answers.

use std::path::Path;
use std::sync::Arc;

use everdict_topology::case_container::CaseContainers;
use everdict_topology::digest::DigestKey;
use everdict_topology::engine::{DaemonInfo, Engine};
use everdict_topology::images::Images;
use everdict_topology::labels::Owner;
use everdict_topology::plan::{PlanPolicy, ReadinessPlan, VolumePolicy};
use everdict_topology::process::this_owner;
use everdict_topology::runtime::{DockerTopologyRuntime, RuntimeOptions};
use everdict_topology::watchdog::WatchdogArgs;

use super::watchdog::Watch;
use super::{CLOSE_LIMIT, ContainerOptions, Means, PING_LIMIT, Room, stock_images};

/// See the module.
pub(super) struct Opened {
    runtime: Arc<DockerTopologyRuntime>,
    cases: Arc<CaseContainers>,
    daemon: DaemonInfo,
    /// Where its address comes from.
    source: String,
    watch: Option<Watch>,
}

impl Opened {
    pub(super) fn new(
        runtime: Arc<DockerTopologyRuntime>,
        keeper: &Arc<Images>,
        daemon: DaemonInfo,
        source: String,
    ) -> Self {
        let (engine, owner) = (runtime.engine().clone(), runtime.owner().clone());
        Self {
            cases: Arc::new(CaseContainers::new(engine, Arc::clone(keeper), owner)),
            runtime,
            daemon,
            source,
            watch: None,
        }
    }

    pub(super) fn runtime(&self) -> &Arc<DockerTopologyRuntime> {
        &self.runtime
    }

    /// What a case that needs containers gets.
    pub(super) fn means(&self) -> Means {
        Means {
            topologies: Arc::clone(&self.runtime),
            cases: Arc::clone(&self.cases),
        }
    }

    /// Where the engine keeps its images and containers, on its own machine.
    pub(super) fn root_dir(&self) -> &Path {
        Path::new(&self.daemon.root_dir)
    }

    /// How many CPUs the engine has.
    pub(super) fn cpus(&self) -> u64 {
        self.daemon.cpus
    }

    /// Whether it is this daemon at this address.
    pub(super) fn is_of(&self, engine: &Engine, daemon: &DaemonInfo) -> bool {
        self.runtime.engine().address() == engine.address() && self.daemon.id == daemon.id
    }

    pub(super) async fn answers(&self) -> bool {
        let ping = self.runtime.engine().ping();
        matches!(tokio::time::timeout(PING_LIMIT, ping).await, Ok(Ok(())))
    }

    /// One line for people.
    pub(super) fn words(&self) -> String {
        let (daemon, address) = (&self.daemon, self.runtime.engine().address());
        format!(
            "{} on {} answers at {address} ({})",
            daemon.version, daemon.operating_system, self.source
        )
    }

    /// Sees to it that a watchdog is there before anything is created.
    pub(super) fn watch_over(&mut self, options: &ContainerOptions) {
        if self.watch.as_ref().is_some_and(Watch::is_alive) {
            return;
        }
        let Some(program) = &options.watchdog else { return };
        let args = WatchdogArgs {
            socket: self.runtime.engine().address().to_owned(),
            state_dir: options.state_dir.clone(),
            owner: self.runtime.owner().clone(),
        };
        match Watch::start(program, &args) {
            Ok(watch) => self.watch = Some(watch),
            // The case is not to suffer: the next start sweeps up too.
            Err(error) => tracing::warn!(%error, "can't start the watchdog"),
        }
    }

    /// Takes down what this process has made. The watchdog goes only when nothing is left.
    pub(super) async fn close(self) {
        let down = async {
            let (mut debts, cases) = tokio::join!(self.runtime.shut_down(), self.cases.settle());
            debts.extend(cases);
            debts
        };
        match tokio::time::timeout(CLOSE_LIMIT, down).await {
            Ok(debts) if debts.is_empty() => {
                if let Some(watch) = self.watch {
                    watch.stand_down().await;
                }
            }
            Ok(debts) => {
                for debt in debts {
                    tracing::warn!(object = %debt.object, why = %debt.why, "could not be removed; the watchdog tries again");
                }
            }
            Err(_elapsed) => tracing::warn!("topologies are not down in time; the watchdog goes on with it"),
        }
    }
}

impl Room {
    pub(super) fn runtime_options(&self) -> RuntimeOptions {
        let options = &self.options;
        let key: DigestKey = self.identity.key.clone();
        RuntimeOptions {
            policy: PlanPolicy {
                volumes: VolumePolicy {
                    host_paths: options.settings.allow_host_volumes.clone(),
                },
                ..PlanPolicy::default()
            },
            readiness: ReadinessPlan {
                timeout: options.ready_timeout,
                interval: options.ready_interval,
            },
            images: stock_images(&options.settings),
            keeper: Arc::clone(&self.keeper),
            prepare_databases: options.settings.prepare_databases,
            idle_ttl: Some(options.settings.idle_ttl),
            ..RuntimeOptions::new(options.state_dir.clone(), self.owner(), key)
        }
    }

    fn owner(&self) -> Owner {
        // An empty label would make the owner unreadable, and its objects nobody's.
        let label = match self.options.label.as_str() {
            "" => "runner",
            label => label,
        };
        this_owner(&self.identity.install, label)
    }
}
