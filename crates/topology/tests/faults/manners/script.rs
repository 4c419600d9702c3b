//! The script that both daemons play.

use std::collections::HashMap;
use std::time::Instant;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::{
    ContainerCreateBody, ContainerSummary, ExecConfig, HostConfig, Ipam, IpamConfig, NetworkCreateRequest,
    PortBinding,
};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, ListContainersOptionsBuilder, ListNetworksOptionsBuilder,
    ListVolumesOptions, LogsOptionsBuilder, RemoveContainerOptionsBuilder, RemoveVolumeOptions,
    WaitContainerOptions,
};
use futures_util::StreamExt as _;
use tokio::io::AsyncWriteExt as _;

use crate::world::SOON;

const LABEL: &str = "everdict-test.manners";

/// A network in a corner that nothing else uses.
const SUBNET: &str = "10.219.77.0/28";
const OTHER_SUBNET: &str = "10.219.77.16/28";

/// Says a line and a half, and runs on.
const SLEEP: &str = "import sys, time; sys.stdout.write('hello\\nmo'); sys.stdout.flush(); time.sleep(600)";

/// What plays which part.
pub struct Cast {
    /// Says `hello` and half a line more, and runs on. A command in it answers its input in capitals, and ends with 4.
    pub sleeper: String,
    /// Ends with 3.
    pub ender: String,
    /// Has one `VOLUME`.
    pub keeper: String,
}

/// Plays the script and gives out what was said at each step.
pub async fn perform(docker: &Docker, cast: Cast) -> Vec<String> {
    let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    let tag = format!("mannersx{}y{nanos}z", std::process::id());
    let mut script = Script {
        docker,
        cast,
        tag,
        transcript: Vec::new(),
    };
    script.names_and_networks().await;
    script.ends_ports_and_volumes().await;
    script.clean().await;
    script.transcript
}

struct Script<'a> {
    docker: &'a Docker,
    cast: Cast,
    /// Part of every name.
    tag: String,
    transcript: Vec<String>,
}

impl Script<'_> {
    fn note<T>(&mut self, step: &str, result: Result<T, Error>, show: impl FnOnce(T) -> String) {
        let said = match result {
            Ok(value) => show(value),
            Err(Error::DockerResponseServerError { status_code, message }) => {
                format!("{status_code} {message}")
            }
            Err(other) => format!("{other:?}"),
        };
        let line = plain(&said.replace(&self.tag, "TAG"));
        self.transcript.push(format!("{step}: {line}"));
    }

    fn body(&self, image: &str, code: &str, host: HostConfig) -> ContainerCreateBody {
        let entrypoint = ["python3", "-c", code].map(str::to_owned).to_vec();
        ContainerCreateBody {
            image: Some(image.to_owned()),
            entrypoint: (!code.is_empty()).then_some(entrypoint),
            labels: Some(HashMap::from([(LABEL.to_owned(), self.tag.clone())])),
            exposed_ports: Some(vec!["8080/tcp".to_owned()]),
            host_config: Some(host),
            ..Default::default()
        }
    }

    async fn create(&mut self, step: &str, name: &str, body: ContainerCreateBody) -> String {
        let options = CreateContainerOptionsBuilder::default()
            .name(&format!("{name}-{}", self.tag))
            .build();
        let result = self.docker.create_container(Some(options), body).await;
        let id = result
            .as_ref()
            .map(|created| created.id.clone())
            .unwrap_or_default();
        self.note(step, result, |_| "created".to_owned());
        id
    }

    async fn network(&mut self, step: &str, subnet: Option<&str>) -> String {
        let config = subnet.map(|subnet| IpamConfig {
            subnet: Some(subnet.to_owned()),
            ..Default::default()
        });
        let body = NetworkCreateRequest {
            name: format!("net-{}", self.tag),
            labels: Some(HashMap::from([(LABEL.to_owned(), self.tag.clone())])),
            ipam: config.map(|config| Ipam {
                config: Some(vec![config]),
                ..Default::default()
            }),
            ..Default::default()
        };
        let result = self.docker.create_network(body).await;
        let id = result
            .as_ref()
            .map(|created| created.id.clone())
            .unwrap_or_default();
        self.note(step, result, |_| "created".to_owned());
        id
    }

    async fn remove(&mut self, step: &str, id: &str, force: bool, volumes: bool) {
        let options = RemoveContainerOptionsBuilder::default()
            .force(force)
            .v(volumes)
            .build();
        let result = self.docker.remove_container(id, Some(options)).await;
        self.note(step, result, |()| "removed".to_owned());
    }

    #[expect(clippy::too_many_lines, reason = "one conversation, held with both engines")]
    async fn names_and_networks(&mut self) {
        let none = self.body("nosuch/image:1", "", HostConfig::default());
        self.create("an image that isn't there", "none", none).await;
        let network = self.network("a network", Some(SUBNET)).await;
        self.network("a network on the same addresses", Some(SUBNET))
            .await;
        let second = self
            .network("a network of the same name", Some(OTHER_SUBNET))
            .await;
        let result = self
            .docker
            .inspect_network(&format!("net-{}", self.tag), None)
            .await;
        self.note("the networks by name", result, |_| "one".to_owned());
        let by_id = HostConfig {
            network_mode: Some(network.clone()),
            ..Default::default()
        };
        let id = self
            .create(
                "a container by the network's id",
                "byid",
                self.body(&self.cast.sleeper, SLEEP, by_id),
            )
            .await;
        let result = self.docker.start_container(&id, None).await;
        self.note("its start", result, |()| "started".to_owned());
        self.remove("it goes", &id, true, true).await;
        let shared = HostConfig {
            network_mode: Some(format!("net-{}", self.tag)),
            ..Default::default()
        };
        let id = self
            .create(
                "a container on that name",
                "both",
                self.body(&self.cast.sleeper, SLEEP, shared),
            )
            .await;
        let result = self.docker.start_container(&id, None).await;
        self.note("its start", result, |()| "started".to_owned());
        self.remove("it goes", &id, true, true).await;
        let result = self.docker.remove_network(&second).await;
        self.note("the second network goes", result, |()| "removed".to_owned());

        let host = HostConfig {
            network_mode: Some(network.clone()),
            ..Default::default()
        };
        let body = self.body(&self.cast.sleeper, SLEEP, host);
        let id = self.create("a container", "one", body.clone()).await;
        self.create("a container of the same name", "one", body.clone())
            .await;
        self.create("a name with a blank", "o ne", body).await;
        let result = self.docker.start_container(&id, None).await;
        self.note("start", result, |()| "started".to_owned());
        let result = self.docker.start_container(&id, None).await;
        self.note("start again", result, |()| "started".to_owned());
        let result = self.docker.remove_network(&network).await;
        self.note("remove the network", result, |()| "removed".to_owned());
        self.remove("remove while it runs", &id, false, false).await;
        self.list_and_log(&id).await;
        self.command(&id, "a command").await;
        let result = self.docker.kill_container(&id, None).await;
        self.note("kill", result, |()| "killed".to_owned());
        let result = self.docker.kill_container(&id, None).await;
        self.note("kill again", result, |()| "killed".to_owned());
        self.command(&id, "a command after the end").await;
        let result = self.docker.remove_network(&network).await;
        self.note("remove the network now", result, |()| "removed".to_owned());
        let result = self.docker.start_container(&id, None).await;
        self.note("start without its network", result, |()| "started".to_owned());
        self.remove("remove", &id, false, true).await;
        self.remove("remove again", &id, true, true).await;
    }

    async fn list_and_log(&mut self, id: &str) {
        let filters = HashMap::from([("label", vec![format!("{LABEL}={}", self.tag)])]);
        let options = ListContainersOptionsBuilder::default()
            .all(true)
            .filters(&filters)
            .build();
        let result = self.docker.list_containers(Some(options)).await;
        self.note("list by label", result, |rows| {
            let row = |row: &ContainerSummary| format!("{:?} {:?}", row.names, row.state);
            rows.iter().map(row).collect()
        });
        // The process takes a moment to say it.
        let mut said = String::new();
        let begin = Instant::now();
        while said.is_empty() && begin.elapsed() < SOON {
            let options = LogsOptionsBuilder::default()
                .stdout(true)
                .stderr(true)
                .tail("5")
                .build();
            let mut pieces = self.docker.logs(id, Some(options));
            while let Some(Ok(piece)) = pieces.next().await {
                said.push_str(&format!("{piece:?}"));
            }
        }
        self.transcript.push(format!("log: {said}"));
    }

    async fn command(&mut self, id: &str, step: &str) {
        let code = "import sys; sys.stdout.write(sys.stdin.read().upper()); sys.exit(4)";
        let config = ExecConfig {
            cmd: Some(["python3", "-c", code].map(str::to_owned).to_vec()),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            ..Default::default()
        };
        let created = self.docker.create_exec(id, config).await;
        let exec = created.as_ref().map(|created| created.id.clone()).ok();
        self.note(step, created, |_| "created".to_owned());
        let Some(exec) = exec else { return };
        let StartExecResults::Attached {
            mut output,
            mut input,
        } = self
            .docker
            .start_exec(&exec, None::<StartExecOptions>)
            .await
            .unwrap()
        else {
            panic!("attached");
        };
        input.write_all(b"quiet").await.unwrap();
        input.shutdown().await.unwrap();
        let mut heard = String::new();
        while let Some(Ok(LogOutput::StdOut { message })) = output.next().await {
            heard.push_str(&String::from_utf8_lossy(&message));
        }
        let view = self.docker.inspect_exec(&exec).await;
        self.note("its end", view, |view| {
            format!("{heard} {:?} {:?}", view.running, view.exit_code)
        });
    }

    async fn ends_ports_and_volumes(&mut self) {
        let body = self.body(&self.cast.ender, "raise SystemExit(3)", HostConfig::default());
        let id = self.create("a container that ends", "two", body).await;
        let result = self.docker.start_container(&id, None).await;
        self.note("start it", result, |()| "started".to_owned());
        let end = self
            .docker
            .wait_container(&id, None::<WaitContainerOptions>)
            .next()
            .await
            .unwrap();
        let code = match end {
            Err(Error::DockerContainerWaitError { code, .. }) => code,
            Ok(end) => end.status_code,
            Err(other) => panic!("{other:?}"),
        };
        self.transcript.push(format!("it ends with {code}"));
        let state = self
            .docker
            .inspect_container(&id, None)
            .await
            .map(|view| view.state.unwrap());
        self.note("its state", state, |state| {
            format!(
                "{:?} {:?} {:?} {:?}",
                state.status, state.exit_code, state.oom_killed, state.error
            )
        });
        self.remove("it goes", &id, false, true).await;
        self.port_taken().await;
        let before = self.volumes().await;
        let mut counts = Vec::new();
        let body = self.body(&self.cast.keeper, "", HostConfig::default());
        let id = self.create("a container with a volume", "four", body).await;
        let made: Vec<String> = self
            .volumes()
            .await
            .into_iter()
            .filter(|name| !before.contains(name))
            .collect();
        counts.push(made.len());
        self.remove("it goes without it", &id, true, false).await;
        let left: Vec<String> = self
            .volumes()
            .await
            .into_iter()
            .filter(|name| made.contains(name))
            .collect();
        counts.push(left.len());
        self.transcript.push(format!("volumes {counts:?}"));
        for volume in left {
            let result = self
                .docker
                .remove_volume(&volume, None::<RemoveVolumeOptions>)
                .await;
            self.note("the volume goes", result, |()| "removed".to_owned());
        }
    }

    async fn port_taken(&mut self) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let binding = PortBinding {
            host_ip: Some("127.0.0.1".to_owned()),
            host_port: Some(port.clone()),
        };
        let host = HostConfig {
            port_bindings: Some(HashMap::from([("8080/tcp".to_owned(), Some(vec![binding]))])),
            ..Default::default()
        };
        let body = self.body(&self.cast.sleeper, SLEEP, host);
        let id = self.create("a container with a port", "three", body).await;
        let result = self.docker.start_container(&id, None).await;
        let result = result.map_err(|error| match error {
            Error::DockerResponseServerError { status_code, message } => {
                let message = message.replace(&port, "PORT");
                Error::DockerResponseServerError { status_code, message }
            }
            other => other,
        });
        self.note("a port that is taken", result, |()| "started".to_owned());
        let state = self
            .docker
            .inspect_container(&id, None)
            .await
            .map(|view| view.state.unwrap());
        self.note("its state", state, |state| {
            format!("{:?} {:?}", state.status, state.exit_code)
        });
        self.remove("it goes", &id, false, true).await;
    }

    async fn volumes(&self) -> Vec<String> {
        let list = self
            .docker
            .list_volumes(None::<ListVolumesOptions>)
            .await
            .unwrap();
        list.volumes
            .unwrap_or_default()
            .into_iter()
            .map(|volume| volume.name)
            .collect()
    }

    /// Removes what an early end has left.
    async fn clean(&self) {
        let label = format!("{LABEL}={}", self.tag);
        let filters = HashMap::from([("label", vec![label])]);
        let options = ListContainersOptionsBuilder::default()
            .all(true)
            .filters(&filters)
            .build();
        for row in self
            .docker
            .list_containers(Some(options))
            .await
            .unwrap_or_default()
        {
            let options = RemoveContainerOptionsBuilder::default()
                .force(true)
                .v(true)
                .build();
            let _ = self
                .docker
                .remove_container(&row.id.unwrap_or_default(), Some(options))
                .await;
        }
        let options = ListNetworksOptionsBuilder::default().filters(&filters).build();
        for network in self.docker.list_networks(Some(options)).await.unwrap_or_default() {
            let _ = self.docker.remove_network(&network.id.unwrap_or_default()).await;
        }
    }
}

/// Leaves out what differs from run to run: ids.
fn plain(text: &str) -> String {
    let is_id = |word: &str| word.len() >= 12 && word.chars().all(|c| c.is_ascii_hexdigit());
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        out.push_str(if is_id(&word) { "ID" } else { &word });
        word.clear();
        out.push(c);
    }
    out.trim_end().to_owned()
}
