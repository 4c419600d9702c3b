//! A hub, a runner, and a job of each round.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Trouble;
use super::proxy::{Manners, Proxy};
use crate::ToolResult;

/// A run that has not ended by then never will: twenty lease times.
const LOST_AFTER: Duration = Duration::from_secs(60);
/// Short, so that a lost lease is noticed within the round.
const LEASE_MS: &str = "3000";
/// Longer than a lease.
const FREEZE: Duration = Duration::from_millis(4_500);
/// What a runner needs to finish, report and leave.
const LEAVE_LIMIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(super) struct Scene {
    binary: PathBuf,
    home: tempfile::TempDir,
    hub: Child,
    port: u16,
    key: String,
    token: String,
    http: reqwest::Client,
    proxy: Proxy,
}

/// What a round has cost.
pub(super) struct Round {
    /// Why the run is lost.
    pub(super) lost: Option<String>,
    pub(super) doubled: bool,
    pub(super) processes: usize,
    pub(super) files: Vec<String>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.hub.kill();
        let _ = self.hub.wait();
        let _ = unmount(&self.small());
    }
}

impl Scene {
    pub(super) async fn set(binary: &Path) -> ToolResult<Self> {
        let home = tempfile::tempdir()?;
        let made = Command::new(binary)
            .args([
                "hub",
                "key",
                "create",
                "--workspace",
                "chaos",
                "--role",
                "admin",
                "--json",
                "--data-dir",
            ])
            .arg(home.path().join("hub"))
            .env("EVERDICT_HOME", home.path())
            .output()?;
        let key: Value = serde_json::from_slice(&made.stdout)?;
        let key = key["apiKey"].as_str().ok_or("no API key was made")?.to_owned();
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let hub = start_hub(binary, home.path(), port)?;
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(20))
            .build()?;
        let proxy = Proxy::start(port).await?;
        let mut scene = Self {
            binary: binary.to_owned(),
            home,
            hub,
            port,
            key,
            token: String::new(),
            http,
            proxy,
        };
        scene.hub_is_up().await?;
        let body = json!({"label": "chaos", "capabilities": ["git"]});
        let paired = scene.call(reqwest::Method::POST, "/runners", Some(body)).await?;
        scene.token = paired["token"].as_str().ok_or("no token came back")?.to_owned();
        Ok(scene)
    }

    /// One job, one trouble. `None` when the trouble can't be had here.
    pub(super) async fn round(&mut self, number: usize, trouble: Trouble) -> ToolResult<Option<Round>> {
        let full = trouble == Trouble::DiskFull;
        if full && mount(&self.small()).is_err() {
            return Ok(None);
        }
        let home = if full {
            self.small()
        } else {
            self.home.path().to_owned()
        };
        let marks = self.home.path().join(format!("round-{number}"));
        std::fs::create_dir_all(&marks)?;
        let sleep = format!("{}.{}", 800 + number, std::process::id());
        let hop = match trouble {
            Trouble::RunnerDies(hop, _) => Some(hop),
            _ => None,
        };
        // Through the proxy in every round: what is well must be so through it, too.
        self.proxy.behave(match trouble {
            Trouble::RepliesLost => Manners::LoseReplies,
            Trouble::RequestsTwice => Manners::SendTwice,
            _ => Manners::Well,
        });
        let mut runner = self.start_runner(&home, hop)?;
        let run = self.submit(number, &marks, &sleep, full).await?;
        let again = self
            .trouble(number, trouble, &mut runner, (&marks, &home))
            .await?;
        let mut at_work = again.unwrap_or(runner);
        let lost = self.lost(&run, full).await;
        self.proxy.behave(Manners::Well);
        // Told to leave in the moment of its start it would not have begun to look yet.
        let looked = Instant::now() + LEAVE_LIMIT;
        while !left(&home).is_empty() && Instant::now() < looked {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        signal(&at_work, "INT");
        let left_in_time = ended(&mut at_work, LEAVE_LIMIT).await;
        if !left_in_time {
            let _ = at_work.kill();
            let _ = at_work.wait();
        }
        let starts = std::fs::read_to_string(marks.join("starts")).map_or(0, |text| text.lines().count());
        let safe = matches!(
            trouble,
            Trouble::RunnerDies(_, true) | Trouble::HubDies | Trouble::RepliesLost | Trouble::RequestsTwice
        );
        let round = Round {
            lost: lost.or((!left_in_time).then(|| "the runner did not leave".to_owned())),
            doubled: safe && starts > 1,
            processes: sleepers(&sleep),
            files: left(&home),
        };
        if full {
            let _ = unmount(&home);
        }
        Ok(Some(round))
    }

    /// Does the bad thing, and lets the job end. Gives out the runner that was started in place of a dead one.
    async fn trouble(
        &mut self,
        number: usize,
        trouble: Trouble,
        runner: &mut Child,
        (marks, home): (&Path, &Path),
    ) -> ToolResult<Option<Child>> {
        let gate = || std::fs::write(marks.join("gate"), "");
        let mut again = None;
        match trouble {
            Trouble::RunnerDies(hop, _) => {
                // At work when it dies, or done with it.
                if hop != "started" {
                    gate()?;
                }
                if !ended(runner, LEAVE_LIMIT).await {
                    return Err(format!("round {number}: the runner did not die at {hop}").into());
                }
                gate()?;
                again = Some(self.start_runner(home, None)?);
            }
            Trouble::HubDies => {
                self.wait_for(&marks.join("starts")).await?;
                tokio::time::sleep(Duration::from_millis((number as u64 * 37) % 400)).await;
                gate()?;
                let _ = self.hub.kill();
                let _ = self.hub.wait();
                self.hub = start_hub(&self.binary, self.home.path(), self.port)?;
                self.hub_is_up().await?;
            }
            Trouble::Frozen => {
                self.wait_for(&marks.join("starts")).await?;
                signal(runner, "STOP");
                gate()?;
                tokio::time::sleep(FREEZE).await;
                signal(runner, "CONT");
            }
            Trouble::RepliesLost | Trouble::RequestsTwice | Trouble::DiskFull => {
                gate()?;
            }
        }
        Ok(again)
    }

    fn small(&self) -> PathBuf {
        self.home.path().join("small-disk")
    }

    fn start_runner(&self, home: &Path, die_at: Option<&str>) -> ToolResult<Child> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.home.path().join("runner.log"))?;
        let mut command = Command::new(&self.binary);
        command
            .args([
                "runner",
                "--api-url",
                &self.proxy.url(),
                "--heartbeat-ms",
                "500",
                "--poll-interval-ms",
                "100",
            ])
            .env("EVERDICT_HOME", home)
            .env("EVERDICT_RUNNER_TOKEN", &self.token)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        if let Some(hop) = die_at {
            command.env("EVERDICT_TEST_DIE_AT", hop);
        }
        Ok(command.spawn()?)
    }

    /// A job that notes its start, leaves a child without any mark, and waits for leave to end.
    async fn submit(&self, number: usize, marks: &Path, sleep: &str, fill: bool) -> ToolResult<String> {
        let marks = marks.display();
        let fill = if fill { "cat /dev/zero > filler; " } else { "" };
        let command = format!(
            "echo started >> '{marks}/starts'; env -i /bin/sleep {sleep} & {fill}\
             while [ ! -e '{marks}/gate' ]; do sleep 0.05; done; echo finished"
        );
        let body = json!({
            "harness": {"id": "chaos", "version": "1.0.0"},
            "harnessSpec": {"kind": "command", "id": "chaos", "version": "1.0.0", "command": command},
            "case": {"id": format!("round-{number}"), "env": {"kind": "prompt"}, "task": "t",
                     "graders": [{"id": "steps"}], "timeoutSec": 120, "placement": {"target": "self"}},
        });
        let record = self.call(reqwest::Method::POST, "/runs", Some(body)).await?;
        Ok(record["id"].as_str().ok_or("a run without an id")?.to_owned())
    }

    /// Waits for the run to end with its result; says why not.
    async fn lost(&self, run: &str, may_fail: bool) -> Option<String> {
        let end = Instant::now() + LOST_AFTER;
        loop {
            let record = self
                .call(reqwest::Method::GET, &format!("/runs/{run}"), None)
                .await;
            let status = record.as_ref().ok().and_then(|record| record["status"].as_str());
            match status {
                Some("succeeded") => return None,
                Some("failed" | "cancelled") => {
                    let record = record.unwrap_or_default();
                    return (!may_fail).then(|| record.to_string());
                }
                _ if Instant::now() >= end => return Some(format!("it never ended: {status:?}")),
                _ => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    async fn wait_for(&self, file: &Path) -> ToolResult<()> {
        let end = Instant::now() + LOST_AFTER;
        while !file.exists() {
            if Instant::now() >= end {
                return Err(format!("{} never came", file.display()).into());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    async fn hub_is_up(&self) -> ToolResult<()> {
        let end = Instant::now() + LEAVE_LIMIT;
        let address = format!("http://127.0.0.1:{}/healthz", self.port);
        loop {
            let answer = self.http.get(&address).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err("the hub never came up".into());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn call(&self, method: reqwest::Method, path: &str, body: Option<Value>) -> ToolResult<Value> {
        let address = format!("http://127.0.0.1:{}{path}", self.port);
        let mut request = self.http.request(method, address).bearer_auth(&self.key);
        if let Some(body) = body {
            request = request.json(&body);
        }
        Ok(request.send().await?.json().await?)
    }
}

fn start_hub(binary: &Path, home: &Path, port: u16) -> ToolResult<Child> {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(home.join("hub.log"))?;
    let mut command = Command::new(binary);
    command
        .args([
            "hub",
            "--listen",
            &format!("127.0.0.1:{port}"),
            "--lease-ttl-ms",
            LEASE_MS,
            "--data-dir",
        ])
        .arg(home.join("hub"))
        .env("EVERDICT_HOME", home)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    Ok(command.spawn()?)
}

async fn ended(child: &mut Child, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if !matches!(child.try_wait(), Ok(None)) {
            return true;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    false
}

fn signal(child: &Child, name: &str) {
    let _ = Command::new("kill")
        .args([&format!("-{name}"), &child.id().to_string()])
        .status();
}

/// Sixteen megabytes: a case fills it at once. The hub's files are elsewhere.
fn mount(place: &Path) -> ToolResult<()> {
    std::fs::create_dir_all(place)?;
    let done = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"])
        .arg(place)
        .stderr(Stdio::null())
        .status()?;
    done.success()
        .then_some(())
        .ok_or_else(|| "no small disk can be mounted here".into())
}

fn unmount(place: &Path) -> ToolResult<()> {
    Command::new("umount").arg(place).stderr(Stdio::null()).status()?;
    Ok(())
}

fn sleepers(time: &str) -> usize {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .filter(|line| line.split(|byte| *byte == 0).any(|word| word == time.as_bytes()))
        .count()
}

/// Begun attempts and scratch folders.
fn left(home: &Path) -> Vec<String> {
    let names = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let attempts = names(&home.join("state/attempts"));
    attempts
        .iter()
        .flat_map(|folder| names(folder))
        .chain(names(&home.join("cache/work")))
        .map(|path| path.display().to_string())
        .collect()
}
