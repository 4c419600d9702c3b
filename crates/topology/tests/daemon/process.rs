//! A runner in a process of its own: this very test program, told by its environment to be one.

use std::io::{BufRead as _, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use everdict_contracts::ServiceHarness;
use everdict_topology::egress::EgressMode;
use everdict_topology::labels::Owner;
use everdict_topology::process::this_owner;
use everdict_topology::runtime::TopologyRuntime as _;
use everdict_topology::watchdog::{self, Watchdog, WatchdogArgs};

use crate::world::{DAEMON, World, full_harness};

const ROLE: &str = "EVERDICT_TOPOLOGY_TEST_ROLE";

/// A process with a role.
pub struct Runner {
    child: Child,
    lines: BufReader<ChildStdout>,
}

#[expect(clippy::disallowed_methods, reason = "tests start their own helper processes")]
fn this_program(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ROLE, role);
    command
}

impl Runner {
    /// Starts a runner of the world's installation, with or without a watchdog.
    pub fn start(world: &World, watched: bool) -> Self {
        Self::start_to(world, watched, "drive")
    }

    /// The same with something else to do: `drive` a browser, `keep` files meanwhile, or `leave` and take everything down.
    pub fn start_to(world: &World, watched: bool, what: &str) -> Self {
        let role = serde_json::json!({
            "install": world.install, "state": world.state.path(), "watched": watched, "what": what,
        });
        Self::start_as(&role)
    }

    /// A watched one whose egress rules are put up by helpers.
    pub fn start_with_gates(world: &World) -> Self {
        let role = serde_json::json!({
            "install": world.install, "state": world.state.path(), "watched": true, "what": "drive", "gates": true,
        });
        Self::start_as(&role)
    }

    fn start_as(role: &serde_json::Value) -> Self {
        let mut command = this_program("process::plays_a_role", &role.to_string());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Reads on until it says `word`.
    pub fn wait_for(&mut self, word: &str) {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            assert!(
                self.lines.read_line(&mut line).unwrap() > 0,
                "the runner ended before `{word}`"
            );
        }
    }

    /// Ends it as `kill -9` does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A full harness whose front door keeps files: a named volume beside the anonymous one of a store.
fn keeping() -> ServiceHarness {
    let mut spec = full_harness();
    spec.services[0].volumes = Some(vec!["files:/files".to_owned()]);
    spec
}

/// Does nothing in a usual run; in a process that [`Runner::start`] has started, it is the runner or its watchdog.
#[tokio::test(flavor = "multi_thread")]
async fn plays_a_role() {
    #[expect(
        clippy::disallowed_methods,
        reason = "the parent test hands the role over in the environment"
    )]
    let Ok(role) = std::env::var(ROLE) else { return };
    let role: serde_json::Value = serde_json::from_str(&role).unwrap();
    if let Some(argv) = role["watchdog"].as_array() {
        let argv: Vec<String> = argv.iter().map(|arg| arg.as_str().unwrap().to_owned()).collect();
        let args = WatchdogArgs::parse(&argv[1..]).unwrap();
        let end = watchdog::main(&args, tokio::io::stdin()).await;
        std::fs::write(args.state_dir.join("watchdog.log"), format!("{end:?}")).unwrap();
        return;
    }
    let text = |name: &str| role[name].as_str().unwrap().to_owned();
    let owner = this_owner(text("install"), "helper");
    let state = PathBuf::from(text("state"));
    let _watchdog = (role["watched"] == true).then(|| watch(&owner, &state));
    let egress = match role["gates"] == true {
        true => EgressMode::Gate,
        false => EgressMode::Fence,
    };
    let world = World::join(text("install"), egress).await;
    let runtime = world.runtime_in(&state, owner, false).await;
    println!("deploying");
    let scope = world.scope("r1");
    let spec = if role["what"] == "keep" {
        keeping()
    } else {
        full_harness()
    };
    let lease = runtime.ensure_topology(&spec, &scope).await.unwrap();
    if role["what"] == "leave" {
        drop(lease);
        println!("leaving");
        runtime.shut_down().await;
        return std::future::pending().await;
    }
    let browser = runtime.provision_browser(&lease, &scope).await.unwrap();
    println!("driving {}", browser.cdp_base());
    std::future::pending::<()>().await;
}

fn watch(owner: &Owner, state: &std::path::Path) -> Watchdog {
    let args = WatchdogArgs {
        socket: DAEMON.to_owned(),
        state_dir: state.to_owned(),
        owner: owner.clone(),
    };
    Watchdog::start(&args, |argv| {
        use std::os::unix::process::CommandExt as _;
        let role = serde_json::json!({ "watchdog": argv });
        let mut command = this_program("process::plays_a_role", &role.to_string());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let mut child = command.spawn()?;
        let pipe = child.stdin.take().unwrap();
        Ok(Box::new(pipe) as Box<dyn Write + Send>)
    })
    .unwrap()
}
