//! `demo`: the main job end to end, with real cases on a hub and a runner of its own in a temporary folder.

mod repo;
mod service;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use everdict_app::dataset::{self, Defaults, Submission};
use everdict_app::{
    ContainerOptions, Engine, HubClient, HubHost, HubOptions, Pairing, Paths, Problem, ProblemClass,
    Registrations, Result, RunRow, StoreKind, hub_url, secrets,
};

use crate::context::Context;
use crate::exit::Exit;
use crate::follow::{Submitted, follow_all, report, submit_all};
use crate::serve;
use crate::signals::Signals;
use service::Lane;

/// The cases, as a person would write them into files of their own.
const CASES: [(&str, &str); 4] = [
    ("demo/1-fixed.json", include_str!("../../demo/1-fixed.json")),
    ("demo/2-unfixed.json", include_str!("../../demo/2-unfixed.json")),
    ("demo/3-answer.json", include_str!("../../demo/3-answer.json")),
    ("demo/4-timeout.json", include_str!("../../demo/4-timeout.json")),
];

/// One more, on services, stores and a browser, where a container engine answers and the images are here.
const SERVICE_CASE: (&str, &str) = ("demo/5-service.json", include_str!("../../demo/5-service.json"));

/// Stands for the repository's address in the cases.
const REPO_MARK: &str = "{{demo_repo}}";

const WORKSPACE: &str = "demo";

/// Two, so that the case that only waits doesn't hold up the others.
const CASES_AT_ONCE: usize = 2;

/// The cases take seconds; a machine that needs longer than this is stuck.
const LIMIT: Duration = Duration::from_secs(180);

/// Nothing runs any more, or what runs was told to end: that takes its grace of 10 s at most, and taking containers down
/// some seconds on a busy machine.
const STOP_LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn run(context: &Context) -> Result<Exit> {
    let mut signals = Signals::listen(Duration::ZERO)
        .map_err(|error| Problem::machine("can't listen for signals").because(error))?;
    let home = tempfile::Builder::new()
        .prefix("everdict-demo-")
        .tempdir()
        .map_err(|error| {
            Problem::machine("can't make a temporary folder")
                .fix("set TMPDIR to a folder that can be written")
                .because(error)
        })?;
    let outcome = play(context, home.path(), &mut signals).await;
    let path = home.path().to_owned();
    home.close().map_err(|error| {
        Problem::machine(format!("{} stays behind", path.display()))
            .fix("remove the folder")
            .because(error)
    })?;
    let rows = outcome?;
    Ok(if report(&rows, context.out) {
        Exit::Ok
    } else {
        Exit::Failure
    })
}

/// What has to be stopped, however the cases end.
struct Stage {
    hub: HubHost,
    engine: Engine,
    client: HubClient,
    submitted: Vec<Submitted>,
}

async fn play(context: &Context, home: &Path, signals: &mut Signals) -> Result<Vec<RunRow>> {
    let stage = Stage::set(context, home).await?;
    let followed = follow_all(&stage.client, &stage.submitted, context.out);
    let rows = tokio::select! {
        rows = tokio::time::timeout(LIMIT, followed) => rows.unwrap_or_else(|_elapsed| Err(too_slow())),
        _ = signals.next() => Err(Problem::new(ProblemClass::Interrupted, "the demo was stopped")),
    };
    if rows.is_err() {
        stage.engine.cancel();
    }
    stage.clear().await?;
    rows
}

impl Stage {
    async fn set(context: &Context, home: &Path) -> Result<Self> {
        let out = context.out;
        let paths = Paths::under(home);
        paths.prepare()?;
        let mut cases = cases(&repo::create(&context.env, &home.join("repo")).await?)?;
        let lane = service::look(context).await;
        let hub = HubHost::start(&HubOptions {
            database: None,
            data_dir: paths.hub_dir(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            lease_ttl: None,
            oidc: None,
        })
        .await?;
        out.say(format!(
            "Hub        {} (for this demo only)",
            hub_url::text(hub.url())
        ));
        let key = hub.create_api_key(WORKSPACE, "admin").await?;
        let client = HubClient::new(hub.url().clone(), Some(key))?;
        let registrations = Registrations::at(paths.registrations_file());
        let pairing = Pairing {
            store: secrets::open(StoreKind::File, &paths, &context.secrets),
            registrations: &registrations,
        };
        let (registration, token) = pairing.with_api_key(&client, &everdict_app::host_name()).await?;
        out.say(format!(
            "Runner     {} paired as self:{}",
            registration.label, registration.runner_id
        ));
        let mut plan = serve::plan(context, registration.label.clone(), hub.url().clone(), token);
        plan.max_concurrent = CASES_AT_ONCE;
        plan.work_root = paths.work_root();
        plan.state_dir = paths.state_dir().to_owned();
        // An installation of its own: what it leaves on Docker would be nobody else's to keep.
        let mut containers = ContainerOptions::new(&paths, &context.settings, registration.label.clone());
        if let Lane::Open(settings) = &lane {
            containers.settings.clone_from(settings);
        }
        // It would be the one thing that stays.
        containers.settings.prepare_databases = false;
        let engine = Engine::start(vec![plan], &context.env, containers)?;
        let left_out = match lane {
            Lane::Open(_) => service::offered(&engine).await.err(),
            Lane::Closed(why) => Some(why),
        };
        match left_out {
            None => cases.extend(dataset::parse(SERVICE_CASE.0, SERVICE_CASE.1, &defaults())?),
            Some(why) => out.say(format!("Left out   the service case: {why}")),
        }
        let submitted = submit_all(&client, cases).await?;
        out.say(format!("Submitted  {} cases\n", submitted.len()));
        Ok(Self {
            hub,
            engine,
            client,
            submitted,
        })
    }

    async fn clear(self) -> Result<()> {
        self.engine.drain();
        let stopped = async {
            self.engine.join().await;
            self.hub.stop().await
        };
        tokio::time::timeout(STOP_LIMIT, stopped)
            .await
            .unwrap_or_else(|_elapsed| Err(too_slow()))
    }
}

fn defaults() -> Defaults {
    Defaults {
        harness: None,
        runtime: Some("self".to_owned()),
    }
}

fn cases(repo: &str) -> Result<Vec<Submission>> {
    let mut all = Vec::new();
    for (name, text) in CASES {
        all.extend(dataset::parse(name, &text.replace(REPO_MARK, repo), &defaults())?);
    }
    Ok(all)
}

fn too_slow() -> Problem {
    Problem::machine("the demo did not end in time")
        .fix("run it again with EVERDICT_LOG=debug and look at what waits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use everdict_app::Verdict;

    #[test]
    fn the_cases_are_what_a_hub_takes_and_say_what_is_expected() {
        let expected: Vec<_> = cases("file:///tmp/repo")
            .unwrap()
            .into_iter()
            .map(|case| case.expect)
            .collect();
        let wanted = [Verdict::Pass, Verdict::Fail, Verdict::Pass, Verdict::Timeout];
        assert_eq!(expected, wanted.map(Some));
        let service = dataset::parse(SERVICE_CASE.0, SERVICE_CASE.1, &defaults()).unwrap();
        assert_eq!(service[0].expect, Some(Verdict::Pass));
    }
}
