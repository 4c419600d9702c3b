//! What there is of ours on the engine, for `doctor` and `gc`.

use std::collections::BTreeMap;

use everdict_exec::HostEnv;
use everdict_topology::DebtObject;
use everdict_topology::discovery::{Candidate, CandidateState, Source};
use everdict_topology::egress::{Egress, Through};
use everdict_topology::engine::{Engine, EngineError};
use everdict_topology::images::{self, ImageUse, Images};
use everdict_topology::lock::LockFolder;
use everdict_topology::prepared::{self, PreparedImage};
use everdict_topology::process::this_owner;
use everdict_topology::reaper::{self, Found, Verdict};
use serde::Serialize;

use super::identity::Identity;
use super::{image_options, search, stock_images, why_none};
use crate::paths::Paths;
use crate::problem::{Problem, Result};
use crate::settings::TopologySettings;

/// The engine, and what of this installation is on it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerReport {
    /// The engine that is used; `null` when none answers.
    pub endpoint: Option<Endpoint>,
    /// Every place that was considered, in order.
    pub candidates: Vec<Tried>,
    /// Why there is no engine, when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What carries the label of this installation.
    pub ours: Holdings,
    /// Images that this runner pulled.
    pub images: ImageHoldings,
    /// Images with an initialised database that this installation made.
    pub prepared: Vec<PreparedItem>,
}

/// The engine that is used.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Such as `unix:///var/run/docker.sock`.
    pub address: String,
    /// Where the address comes from.
    pub source: String,
    /// Version of the engine.
    pub version: String,
    /// Its system.
    pub operating_system: String,
    /// Where it keeps images and containers.
    pub root_dir: String,
    /// Free bytes there, when that is on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// Whether containers are held to what they may reach.
    pub egress: EgressReport,
}

/// How it is with egress rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EgressReport {
    /// `enforced`, `open` (the member's setting) or `unenforced`.
    pub state: &'static str,
    /// Whether a helper container puts up the rules, since this process may not.
    pub by_helper: bool,
    /// One line for people, when containers reach more than they should.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl From<Egress> for EgressReport {
    fn from(egress: Egress) -> Self {
        Self {
            state: match egress {
                Egress::Enforced(_) => "enforced",
                Egress::Open => "open",
                Egress::Unenforced(_) => "unenforced",
            },
            by_helper: egress == Egress::Enforced(Through::Gate),
            warning: egress.warning(),
        }
    }
}

/// A place where an engine could be.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tried {
    /// Where the address comes from.
    pub source: String,
    /// Empty when the source names none.
    pub address: String,
    /// `taken`, `dead`, `absent`, `unusable` or `untried`.
    pub state: &'static str,
    /// One line for people.
    pub detail: String,
}

/// Objects with the label of this installation.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Holdings {
    /// How many of each kind: store, service, browser, network, volume, case.
    pub kinds: BTreeMap<String, usize>,
    /// Whose owner has ended: `gc` removes them.
    pub lost: Vec<Item>,
    /// What stays, and why.
    pub kept: Vec<Item>,
}

/// One object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// `container`, `network` or `volume`, and its name.
    pub object: String,
    /// What it is for.
    pub kind: String,
    /// The topology that it belongs to; empty for none.
    pub topology: String,
    /// Why it stays, or what kept it from going; empty for what goes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// Images that this runner pulled, and nobody else has named since.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageHoldings {
    /// How many.
    pub count: usize,
    /// Their sizes, layers that they share counted more than once.
    pub bytes: u64,
    /// The most that they may take; `null` is no limit.
    pub budget_bytes: Option<u64>,
    /// Those that the budget has go, the least recently used first.
    pub over_budget: Vec<String>,
}

/// An image with an initialised database. `gc` removes those that nobody uses: the next topology makes another, and
/// starts a second or two later for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreparedItem {
    /// Its name.
    pub image: String,
    /// The image that it was made from.
    pub base: String,
    /// What it takes on the disk beyond that one.
    pub bytes: u64,
    /// Whether a container is made of it: then it stays.
    pub used: bool,
}

impl From<&PreparedImage> for PreparedItem {
    fn from(one: &PreparedImage) -> Self {
        Self {
            image: one.image.clone(),
            base: one.base.clone(),
            bytes: one.bytes,
            used: one.used,
        }
    }
}

/// What `gc` found and did.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GcReport {
    /// Whether nothing was to be touched.
    pub dry_run: bool,
    /// What there was.
    #[serde(flatten)]
    pub found: ContainerReport,
    /// What went; in a dry run, what would go.
    pub removed: Vec<Item>,
    /// What should have gone and didn't.
    pub left: Vec<Item>,
    /// Images that went; in a dry run, those that would.
    pub removed_images: Vec<String>,
    /// Bytes of those images.
    pub freed_bytes: u64,
}

/// What is looked at: this installation's folders and settings.
#[derive(Clone, Copy)]
struct Ground<'a> {
    env: &'a HostEnv,
    paths: &'a Paths,
    settings: &'a TopologySettings,
}

/// An engine with what is needed to judge what is on it.
struct Site {
    engine: Engine,
    /// `None` for an installation that has never made anything.
    install: Option<(Identity, LockFolder)>,
    images: Images,
    prepared: Vec<PreparedImage>,
}

/// Looks at the engine and at what is ours on it. Touches nothing.
///
/// # Errors
/// A problem about this machine: damaged files, or an engine that stops answering.
pub async fn look_around(
    env: &HostEnv,
    paths: &Paths,
    settings: &TopologySettings,
) -> Result<ContainerReport> {
    Ground { env, paths, settings }
        .look()
        .await
        .map(|(report, _)| report)
}

/// What a clean-up is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything.
    All,
    /// Containers, networks and volumes.
    Objects,
    /// Images over budget.
    Images,
}

/// Removes what dead processes of this installation have left, and images over budget; with `dry_run` only says what.
///
/// # Errors
/// A problem about this machine: no engine, damaged files, or an engine that stops answering.
pub async fn clean_up(
    env: &HostEnv,
    paths: &Paths,
    settings: &TopologySettings,
    dry_run: bool,
) -> Result<GcReport> {
    Ground { env, paths, settings }.clean(dry_run, Part::All).await
}

/// Removes one part of what [`clean_up`] does.
///
/// # Errors
/// As [`clean_up`].
pub(crate) async fn clean_part(
    env: &HostEnv,
    paths: &Paths,
    settings: &TopologySettings,
    part: Part,
) -> Result<GcReport> {
    Ground { env, paths, settings }.clean(false, part).await
}

/// Removes what dead processes have left.
async fn sweep(site: &Site, report: &mut GcReport) -> Result<()> {
    if let Some((identity, locks)) = &site.install {
        let me = this_owner(&identity.install, "gc");
        let swept = reaper::sweep(&site.engine, &me, locks).await;
        if let Some(error) = swept.error {
            return Err(engine_problem(error));
        }
        let item = |object: &DebtObject, why: String| {
            let known = swept.found.iter().find(|found| found.object == *object);
            Item {
                why,
                ..known.map_or_else(|| bare(object), item)
            }
        };
        report.removed = swept
            .removed
            .iter()
            .map(|object| item(object, String::new()))
            .collect();
        report.left = swept
            .debts
            .iter()
            .map(|debt| item(&debt.object, debt.why.clone()))
            .collect();
    }
    Ok(())
}

/// Removes images.
async fn trim(site: &Site, report: &mut GcReport) -> Result<()> {
    for one in site.prepared.iter().filter(|one| !one.used) {
        if prepared::remove(&site.engine, one)
            .await
            .map_err(engine_problem)?
        {
            report.removed_images.push(one.image.clone());
            report.freed_bytes += one.bytes;
        }
    }
    // Afterwards: an image that another is made from can't go before it.
    let trimmed = site.images.trim(&site.engine).await.map_err(engine_problem)?;
    report.removed_images.extend(trimmed.removed);
    report.freed_bytes += trimmed.freed_bytes;
    Ok(())
}

/// Tells which images are missing for a topology with PostgreSQL, Redis and a browser, and beside them `more`.
///
/// # Errors
/// A problem about this machine: no engine, or one that doesn't tell.
pub async fn missing_images(
    env: &HostEnv,
    settings: &TopologySettings,
    more: &[&str],
) -> Result<Vec<String>> {
    let (discovery, engine) = search(env, settings).await;
    let Some(engine) = engine else {
        return Err(Problem::machine(why_none(&discovery, settings)));
    };
    let stock = stock_images(settings);
    let mut wanted = vec![stock.postgres, stock.redis, stock.browser];
    wanted.extend(more.iter().map(ToString::to_string));
    images::missing(&engine, &wanted).await.map_err(engine_problem)
}

impl Ground<'_> {
    async fn clean(&self, dry_run: bool, part: Part) -> Result<GcReport> {
        let (found, site) = self.look().await?;
        let Some(site) = site else {
            let why = found.why.unwrap_or_default();
            return Err(
                Problem::machine(why).fix("start Docker; `everdict-runner doctor` lists the places tried")
            );
        };
        let mut report = GcReport {
            dry_run,
            removed: Vec::new(),
            left: Vec::new(),
            removed_images: Vec::new(),
            freed_bytes: 0,
            found,
        };
        if dry_run {
            report.removed.clone_from(&report.found.ours.lost);
            let idle = site.prepared.iter().filter(|one| !one.used);
            report.removed_images = idle.map(|one| one.image.clone()).collect();
            let over_budget = report.found.images.over_budget.iter().cloned();
            report.removed_images.extend(over_budget);
            return Ok(report);
        }
        if part != Part::Images {
            sweep(&site, &mut report).await?;
        }
        if part != Part::Objects {
            trim(&site, &mut report).await?;
        }
        Ok(report)
    }

    async fn look(&self) -> Result<(ContainerReport, Option<Site>)> {
        let (discovery, engine) = search(self.env, self.settings).await;
        let candidates = discovery
            .candidates
            .iter()
            .map(|one| tried(one, self.settings))
            .collect();
        let mut report = ContainerReport {
            endpoint: None,
            candidates,
            why: None,
            ours: Holdings::default(),
            images: ImageHoldings::default(),
            prepared: Vec::new(),
        };
        let Some(engine) = engine else {
            report.why = Some(why_none(&discovery, self.settings));
            return Ok((report, None));
        };
        let daemon = engine.info().await.map_err(engine_problem)?;
        let egress = engine.egress_on(&daemon).into();
        report.endpoint = Some(Endpoint {
            egress,
            address: engine.address().to_owned(),
            source: discovery
                .taken()
                .map(|taken| source(&taken.source, self.settings))
                .unwrap_or_default(),
            version: daemon.version,
            operating_system: daemon.operating_system,
            free_bytes: super::free_bytes(daemon.root_dir.as_ref()),
            root_dir: daemon.root_dir,
        });
        let state_dir = self.paths.state_dir();
        let install = match Identity::find(state_dir)? {
            Some(identity) => {
                let locks = LockFolder::open(state_dir, &daemon.id).map_err(|error| {
                    Problem::machine(format!("can't use the locks in {}", state_dir.display())).because(error)
                })?;
                let found = reaper::report(&engine, &identity.install, &locks).await;
                report.ours = holdings(&found.map_err(engine_problem)?);
                Some((identity, locks))
            }
            None => None,
        };
        let images = Images::new(image_options(self.settings, state_dir));
        let used = images.usage(&engine).await.map_err(engine_problem)?;
        report.images = image_holdings(used, self.settings);
        let prepared = prepared_of(&engine, install.as_ref()).await?;
        report.prepared = prepared.iter().map(PreparedItem::from).collect();
        let site = Site {
            engine,
            install,
            images,
            prepared,
        };
        Ok((report, Some(site)))
    }
}

async fn prepared_of(
    engine: &Engine,
    install: Option<&(Identity, LockFolder)>,
) -> Result<Vec<PreparedImage>> {
    match install {
        Some((identity, _)) => prepared::list(engine, &identity.install)
            .await
            .map_err(engine_problem),
        None => Ok(Vec::new()),
    }
}

fn engine_problem(error: EngineError) -> Problem {
    Problem::machine("the container engine doesn't tell what is on it")
        .fix("look whether `docker ps` answers, then try again")
        .because(error)
}

fn image_holdings(used: ImageUse, settings: &TopologySettings) -> ImageHoldings {
    ImageHoldings {
        count: used.ours.len(),
        bytes: used.ours_bytes,
        budget_bytes: settings.image_budget,
        over_budget: used.evictable,
    }
}

fn holdings(found: &[Found]) -> Holdings {
    let mut holdings = Holdings::default();
    for one in found {
        *holdings.kinds.entry(one.kind.clone()).or_default() += 1;
        let why = match one.verdict {
            Verdict::Lost => {
                holdings.lost.push(item(one));
                continue;
            }
            Verdict::Owned => "its runner is alive",
            Verdict::Used => "its runner has ended, but another one uses it",
            Verdict::Unverified => "whether its runner is alive can't be told from here",
        };
        holdings.kept.push(Item {
            why: why.to_owned(),
            ..item(one)
        });
    }
    holdings
}

fn item(found: &Found) -> Item {
    Item {
        kind: found.kind.clone(),
        topology: found.topology.clone(),
        ..bare(&found.object)
    }
}

fn bare(object: &DebtObject) -> Item {
    Item {
        object: object.to_string(),
        kind: String::new(),
        topology: String::new(),
        why: String::new(),
    }
}

/// The settings stand in for `DOCKER_HOST` when they name an engine.
fn source(source: &Source, settings: &TopologySettings) -> String {
    match source {
        Source::DockerHost if settings.endpoint.is_some() => "topology.endpoint in settings.toml".to_owned(),
        other => other.to_string(),
    }
}

/// One line for people.
pub(super) fn words(candidate: &Candidate, settings: &TopologySettings) -> String {
    let text = candidate.to_string();
    match text.strip_prefix(&candidate.source.to_string()) {
        Some(rest) => format!("{}{rest}", source(&candidate.source, settings)),
        None => text,
    }
}

fn tried(candidate: &Candidate, settings: &TopologySettings) -> Tried {
    Tried {
        source: source(&candidate.source, settings),
        address: candidate.address.clone(),
        state: match candidate.state {
            CandidateState::Untried => "untried",
            CandidateState::Absent(_) => "absent",
            CandidateState::Unusable(_) => "unusable",
            CandidateState::Dead(_) => "dead",
            CandidateState::Taken(_) => "taken",
        },
        detail: words(candidate, settings),
    }
}
