//! From a created container to one that is ready for the first command.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use everdict_contracts::{ErrorCode, Fault};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::script::{self, Probe};
use super::tree::FileOwner;
use super::{CASE_ROOT, CaseContainer, CaseSpec, Run, cancelled, exec, spec};
use crate::egress::{Fenced, unenforced, unfenced};
use crate::engine::{EngineError, EngineErrorKind, ExecRequest, RunState};

/// The directories that a case finds, parents first, relative to `/`.
const DIRS: [&str; 4] = ["everdict/", "everdict/work/", "everdict/home/", "everdict/tmp/"];

/// For a few lines of shell: some 70 ms as a rule, many times that on a loaded machine.
const SCRIPT_LIMIT: Duration = Duration::from_secs(20);

/// How long the idle shell may take to show up beside the init process.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// Between two looks for it.
const IDLE_PAUSE: Duration = Duration::from_millis(50);

impl CaseContainer {
    /// Starts it and finds out what its image is like.
    pub(super) async fn come_up(&mut self, spec: &CaseSpec, run: &Run) -> Result<(), Fault> {
        let cancel = &run.cancel;
        self.still_wanted(cancel)?;
        self.shared
            .engine
            .start_container(&self.id)
            .await
            .map_err(|error| start_fault(error, spec))?;
        if let Some(why) = self.fence().await? {
            (run.progress)(&unenforced(&why));
        }
        self.find_idle().await?;
        self.still_wanted(cancel)?;
        let probe = self.script(script::PROBE).await?;
        let probe = Probe::parse(&probe).ok_or_else(|| {
            let text = format!(
                "{}: `sh` of `{}` doesn't answer as a shell: {probe}",
                spec::IMAGE_PATH,
                spec.image()
            );
            Fault::bad_request(text)
        })?;
        self.owner = FileOwner {
            uid: probe.uid,
            gid: probe.gid,
        };
        self.make_dirs(&DIRS, self.owner).await?;
        // A git command in a case without a repository must not find the one that the image may have above.
        let mut env = vec![("GIT_CEILING_DIRECTORIES", CASE_ROOT.to_owned())];
        if !probe.home_writable {
            env.push(("HOME", format!("{CASE_ROOT}/home")));
        }
        if !probe.tmp_writable {
            env.push(("TMPDIR", format!("{CASE_ROOT}/tmp")));
        }
        self.env = env
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        self.shell = probe.shell;
        let swept = self.sweep(exec::TERM).await.map_err(EngineError::into_fault)?;
        self.oom_kills.store(swept.oom_kills, Ordering::Relaxed);
        Ok(())
    }

    fn still_wanted(&self, cancel: &CancellationToken) -> Result<(), Fault> {
        if cancel.is_cancelled() {
            Err(cancelled())
        } else {
            Ok(())
        }
    }

    /// Holds the container to what it may reach, before anything of the case runs in it; gives out why it isn't held.
    /// To be called after each start: with its processes its network has gone too.
    pub(super) async fn fence(&self) -> Result<Option<String>, Fault> {
        let engine = &self.shared.engine;
        let view = engine
            .inspect_container(&self.id)
            .await
            .map_err(EngineError::into_fault)?;
        match engine.fence(&view, &self.reach).await {
            Fenced::Yes => Ok(None),
            Fenced::No(why) if self.reach.is_strict() => Err(unfenced("the case's container", &why)),
            Fenced::No(why) => Ok(Some(why)),
        }
    }

    /// Learns which processes are not the case's. To be called before the first command, and after a restart.
    pub(super) async fn find_idle(&self) -> Result<(), Fault> {
        let deadline = Instant::now() + IDLE_LIMIT;
        loop {
            let pids = self.script(script::PIDS).await?;
            let pids: Vec<&str> = pids.split_ascii_whitespace().collect();
            // Init is the first; the shell that it starts comes a moment later.
            if pids.len() >= 2
                && pids
                    .iter()
                    .all(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()))
            {
                *self.keep.lock().unwrap_or_else(PoisonError::into_inner) = pids.join(" ");
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(self.ended_by_itself().await);
            }
            sleep(IDLE_PAUSE).await;
        }
    }

    /// Runs lines of our own and gives out what they print on both streams.
    async fn script(&self, script: &str) -> Result<String, Fault> {
        match self.run_script(vec![script.to_owned()], SCRIPT_LIMIT).await {
            Err(error) if matches!(error.kind, EngineErrorKind::Conflict | EngineErrorKind::NotFound) => {
                Err(self.ended_by_itself().await)
            }
            outcome => outcome.map_err(EngineError::into_fault),
        }
    }

    pub(super) async fn run_script(&self, argv: Vec<String>, limit: Duration) -> Result<String, EngineError> {
        let shell = if self.shell.is_empty() { "sh" } else { &self.shell };
        let argv = [shell.to_owned(), "-c".to_owned()].into_iter().chain(argv);
        let mut request = ExecRequest::new(argv, limit);
        request.workdir = Some("/".to_owned());
        let outcome = self.shared.engine.exec(&self.id, request).await?;
        let text = [outcome.stdout, outcome.stderr].concat();
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    }

    /// Says why the container isn't running although nobody asked it to end.
    pub(super) async fn ended_by_itself(&self) -> Fault {
        let view = match self.shared.engine.inspect_container(&self.id).await {
            Ok(view) => view,
            Err(error) => return error.into_fault(),
        };
        let (name, code) = (&self.name, view.exit_code);
        let what = match view.state {
            RunState::Running => format!("the case's container {name} does not answer"),
            _ => format!(
                "the case's container {name} ended with code {code} {}",
                view.error
            ),
        };
        let fault = Fault::new(ErrorCode::DriverProvisionFailed, what.trim_end().to_owned());
        if view.oom_killed {
            exec::out_of_memory(fault)
        } else {
            fault
        }
    }
}

fn start_fault(error: EngineError, spec: &CaseSpec) -> Fault {
    if error.kind == EngineErrorKind::BadCommand && error.text.contains("\"sh\"") {
        return Fault::bad_request(format!(
            "{}: `{}` has no `sh`, which the commands of a case are run by ({})",
            spec::IMAGE_PATH,
            spec.image(),
            error.text
        ));
    }
    error.into_fault()
}
