//! Checks of this machine and of the way to each hub, each with what, why and the fix.

use std::collections::BTreeSet;
use std::time::Duration;

use everdict_contracts::Capability;
use everdict_exec::HostEnv;
use everdict_runner_core::capabilities::{self, ContainerOffer, Offer};
use jiff::{SignedDuration, Timestamp};
use reqwest::Url;
use serde::Serialize;

use crate::containers::{ContainerReport, EgressReport, free_bytes, look_around, size};
use crate::hub_client::{HubClient, HubFault};
use crate::hub_url;
use crate::paths::Paths;
use crate::problem::Problem;
use crate::registrations::Registration;
use crate::secrets::{self, EnvSecrets, StoreKind};
use crate::settings::Settings;

/// A checkout with its build output often takes this much; below it cases begin to fail.
const DISK_WARN: u64 = 5 * 1024 * 1024 * 1024;
/// Below this not even a small checkout is safe.
const DISK_FAIL: u64 = 512 * 1024 * 1024;
/// Certificates and signed requests commonly tolerate five minutes.
const CLOCK_FAIL: SignedDuration = SignedDuration::from_mins(5);
/// Beyond this, times in logs of hub and runner no longer line up.
const CLOCK_WARN: SignedDuration = SignedDuration::from_secs(30);
/// The keyring's own limit allows for a prompt; a check shows no prompt.
const KEYRING_LIMIT: Duration = Duration::from_secs(5);

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// Nothing to do.
    Ok,
    /// Works, but something is missing or near its end.
    Warn,
    /// In the way of running cases.
    Fail,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Stable name, such as `git` or `hub:127.0.0.1:8787`.
    pub id: String,
    /// How it came out.
    pub state: CheckState,
    /// What was looked at.
    pub what: String,
    /// What was found.
    pub why: String,
    /// What to do; absent when there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// What the doctor looks at.
pub struct Patient<'a> {
    /// The captured environment.
    pub env: &'a HostEnv,
    /// Secrets the environment brought.
    pub secrets: &'a EnvSecrets,
    /// The folders.
    pub paths: &'a Paths,
    /// The settings.
    pub settings: &'a Settings,
    /// The paired runners.
    pub registrations: &'a [Registration],
    /// Hubs to reach beside those of the registrations.
    pub hubs: Vec<Url>,
}

/// What the doctor found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Findings {
    /// In a stable order.
    pub checks: Vec<Check>,
    /// The container engine and what is ours on it; absent when it can't be looked at, which a check then says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containers: Option<ContainerReport>,
}

impl Patient<'_> {
    /// Runs every check.
    pub async fn examine(&self) -> Findings {
        let mut checks = vec![self.folders(), self.disk()];
        checks.extend(self.tools());
        let containers = look_around(self.env, self.paths, &self.settings.topology).await;
        checks.extend(self.docker(&containers));
        checks.push(self.token_store().await);
        let mut hubs = self.hubs.clone();
        hubs.extend(self.registrations.iter().filter_map(|known| known.hub().ok()));
        let mut seen = BTreeSet::new();
        for hub in hubs {
            if seen.insert(hub_url::text(&hub)) {
                checks.extend(check_hub(&hub).await);
            }
        }
        for registration in self.registrations {
            checks.push(self.runner(registration).await);
        }
        Findings {
            checks,
            containers: containers.ok(),
        }
    }

    fn folders(&self) -> Check {
        let what = "folders and settings";
        match self.paths.prepare() {
            Ok(()) => ok(
                "folders",
                what,
                format!("settings in {}", self.paths.settings_file().display()),
            ),
            Err(problem) => failed("folders", what, &problem),
        }
    }

    fn disk(&self) -> Check {
        let root = self
            .settings
            .work_root
            .clone()
            .unwrap_or_else(|| self.paths.work_root());
        let what = format!("disk at {}", root.display());
        match free_bytes(&root) {
            None => check("disk", CheckState::Warn, &what, "can't be measured", None),
            Some(free) => {
                let state = match free {
                    _ if free < DISK_FAIL => CheckState::Fail,
                    _ if free < DISK_WARN => CheckState::Warn,
                    _ => CheckState::Ok,
                };
                let fix = "free some space, or set runner.work_root to another disk";
                let fix = (state != CheckState::Ok).then_some(fix);
                check("disk", state, &what, &format!("{} free", size(free)), fix)
            }
        }
    }

    fn tools(&self) -> Vec<Check> {
        let report = capabilities::probe(self.env, &ContainerOffer::Unknown, &BTreeSet::new());
        let found = |wanted| report.entries.iter().find(|entry| entry.capability == wanted);
        let shell = match self.env.find_program("sh") {
            Some(path) => ok("path", "PATH", format!("sh is {}", path.display())),
            None => check(
                "path",
                CheckState::Fail,
                "PATH",
                "no sh on it; no command can run",
                Some("set PATH to the system's usual folders"),
            ),
        };
        let git = match found(Capability::Git) {
            Some(entry) if entry.offer != Offer::Absent => ok("git", "git", entry.reason.clone()),
            other => check(
                "git",
                CheckState::Fail,
                "git",
                other.map_or("not found", |entry| entry.reason.as_str()),
                Some("install git (Debian and Ubuntu: apt install git)"),
            ),
        };
        vec![shell, git]
    }

    /// The engine, with where its address comes from, and the room that it has.
    fn docker(&self, containers: &Result<ContainerReport, Problem>) -> Vec<Check> {
        const WHAT: &str = "Docker";
        let report = match containers {
            Ok(report) => report,
            Err(problem) => return vec![failed("docker", WHAT, problem)],
        };
        let Some(endpoint) = &report.endpoint else {
            let why = report.why.as_deref().unwrap_or("not found");
            let fix = "start Docker if cases need containers; others run without it";
            return vec![check("docker", CheckState::Warn, WHAT, why, Some(fix))];
        };
        let why = format!(
            "{} on {} answers at {}, found through {}",
            endpoint.version, endpoint.operating_system, endpoint.address, endpoint.source
        );
        let mut checks = vec![ok("docker", WHAT, why)];
        if let Some(free) = endpoint.free_bytes {
            let floor = self.settings.topology.disk_floor;
            let (state, fix) = if free < floor {
                let fix = "free some space, or lower topology.disk_floor_gb; until then no case with containers is taken";
                (CheckState::Warn, Some(fix))
            } else {
                (CheckState::Ok, None)
            };
            let what = format!("disk of Docker at {}", endpoint.root_dir);
            let why = format!("{} free, the floor is {}", size(free), size(floor));
            checks.push(check("docker-disk", state, &what, &why, fix));
        }
        checks.push(egress(&endpoint.egress));
        checks.push(leftovers(report));
        checks
    }

    async fn token_store(&self) -> Check {
        let kind = self.settings.secret_store;
        let what = format!("token store ({kind})");
        let store = secrets::open(kind, self.paths, self.secrets);
        match tokio::time::timeout(KEYRING_LIMIT, store.check()).await {
            Ok(Ok(())) => ok("keyring", &what, "can be used".to_owned()),
            Ok(Err(fault)) => {
                let problem = Problem::from(fault);
                let mut check = failed("keyring", &what, &problem);
                // A machine whose runners keep their tokens elsewhere doesn't need it.
                let needed = self.registrations.iter().any(|known| known.store == kind);
                if !needed && kind == StoreKind::Keyring {
                    check.state = CheckState::Warn;
                }
                check
            }
            Err(_elapsed) => check(
                "keyring",
                CheckState::Warn,
                &what,
                "doesn't answer; it may wait for its password",
                Some("unlock the keyring"),
            ),
        }
    }

    async fn runner(&self, registration: &Registration) -> Check {
        let id = format!("runner:{}", registration.label);
        let what = format!("runner {} at {}", registration.label, registration.hub_url);
        let store = secrets::open(registration.store, self.paths, self.secrets);
        let outcome = async {
            let name = registration.secret_name()?;
            let token = store.get(&name).await.map_err(Problem::from)?;
            let me = HubClient::new(registration.hub()?, Some(token))?.me().await?;
            Ok::<_, Problem>(me)
        };
        match outcome.await {
            Ok(_me) => ok(&id, &what, "the hub knows its token".to_owned()),
            Err(problem) => failed(&id, &what, &problem),
        }
    }
}

fn egress(report: &EgressReport) -> Check {
    const WHAT: &str = "what containers reach";
    let Some(warning) = &report.warning else {
        const WHY: &str =
            "the internet and their peers; not this machine or its networks, unless a case declares them";
        let how = if report.by_helper {
            "; a helper container sees to it"
        } else {
            ""
        };
        return ok("docker-egress", WHAT, format!("{WHY}{how}"));
    };
    // The member's own choice needs no fix.
    let (state, fix) = match report.state {
        "open" => (CheckState::Ok, None),
        _ => (
            CheckState::Warn,
            Some(
                "run the linux build of the runner beside the engine, or keep what must not be reached behind a firewall",
            ),
        ),
    };
    check("docker-egress", state, WHAT, warning, fix)
}

fn leftovers(report: &ContainerReport) -> Check {
    let (what, lost, kept) = ("left on Docker", report.ours.lost.len(), report.ours.kept.len());
    let why = match (lost, kept) {
        (0, 0) => "nothing of this installation".to_owned(),
        (0, kept) => format!("{kept} of this installation, in use or not to be judged from here"),
        (lost, kept) => format!("{lost} whose runner has ended, {kept} that stay"),
    };
    let fix = (lost > 0).then_some("everdict-runner gc removes it; `gc --dry-run` lists it first");
    let state = if lost > 0 {
        CheckState::Warn
    } else {
        CheckState::Ok
    };
    check("docker-leftovers", state, what, &why, fix)
}

async fn check_hub(hub: &Url) -> Vec<Check> {
    let host = hub_url::host(hub);
    let (reach_id, clock_id) = (format!("hub:{host}"), format!("clock:{host}"));
    let what = format!("hub {}", hub_url::text(hub));
    let client = match HubClient::new(hub.clone(), None) {
        Ok(client) => client,
        Err(problem) => return vec![failed(&reach_id, &what, &problem)],
    };
    // Without a credential a hub answers 401: that is the sign that it is one.
    let reach = match client.me().await {
        Ok(_) | Err(HubFault::Unauthenticated { .. }) => ok(&reach_id, &what, "answers".to_owned()),
        Err(fault) => return vec![failed(&reach_id, &what, &Problem::from(fault))],
    };
    let clock = match client.clock().await {
        Ok(Some(theirs)) => clock_check(&clock_id, theirs, Timestamp::now()),
        Ok(None) => check(&clock_id, CheckState::Ok, "clock", "the hub tells no time", None),
        Err(fault) => failed(&clock_id, "clock", &Problem::from(fault)),
    };
    vec![reach, clock]
}

fn clock_check(id: &str, theirs: Timestamp, ours: Timestamp) -> Check {
    let off = ours.duration_since(theirs);
    let (size, way) = (off.abs(), if off.is_negative() { "behind" } else { "ahead of" });
    let state = match size {
        _ if size >= CLOCK_FAIL => CheckState::Fail,
        _ if size >= CLOCK_WARN => CheckState::Warn,
        _ => CheckState::Ok,
    };
    let why = if state == CheckState::Ok {
        "agrees with the hub".to_owned()
    } else {
        format!("this machine is {} s {way} the hub", size.as_secs())
    };
    let fix = (state != CheckState::Ok)
        .then_some("turn on network time (timedatectl set-ntp true) on the one that is wrong");
    check(id, state, "clock", &why, fix)
}

fn ok(id: &str, what: &str, why: String) -> Check {
    Check {
        id: id.to_owned(),
        state: CheckState::Ok,
        what: what.to_owned(),
        why,
        fix: None,
    }
}

fn check(id: &str, state: CheckState, what: &str, why: &str, fix: Option<&str>) -> Check {
    Check {
        id: id.to_owned(),
        state,
        what: what.to_owned(),
        why: why.to_owned(),
        fix: fix.map(str::to_owned),
    }
}

fn failed(id: &str, what: &str, problem: &Problem) -> Check {
    check(id, CheckState::Fail, what, &problem.chain(), problem.next_step())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_judged_by_its_distance_and_direction() {
        let hub: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        for (off, state, word) in [
            (2, CheckState::Ok, "agrees"),
            (-90, CheckState::Warn, "90 s behind"),
            (1020, CheckState::Fail, "1020 s ahead of"),
        ] {
            let check = clock_check("clock:h", hub, hub + SignedDuration::from_secs(off));
            assert_eq!(check.state, state, "{off}");
            assert!(check.why.contains(word), "{}", check.why);
            assert_eq!(check.fix.is_some(), state != CheckState::Ok);
        }
    }

    #[tokio::test]
    async fn a_hub_that_is_not_there_is_named_with_the_cause_and_a_fix() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let hub = hub_url::parse("http://127.0.0.1:1").unwrap();
        let checks = check_hub(&hub).await;
        assert_eq!(checks[0].id, "hub:127.0.0.1:1");
        assert_eq!(checks[0].state, CheckState::Fail);
        assert!(checks[0].why.ends_with("refused"), "{}", checks[0].why);
        assert!(checks[0].fix.is_some());
    }
}
