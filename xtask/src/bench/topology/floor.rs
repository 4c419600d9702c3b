//! The floor: the Engine calls that cannot be left out, in parallel, and the programs' own start.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig, NetworkCreateRequest, PortBinding};
use bollard::query_parameters::{CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder};
use everdict_topology::engine::Engine;
use everdict_topology::readiness::{Probe, answers_now};

use super::{BROWSER, FRONT_DOOR, REDIS, Round, since};
use crate::ToolResult;

/// A look costs a tenth of a millisecond; more often than this would load the machine that is measured.
const LOOK_EVERY: Duration = Duration::from_millis(2);
const DEADLINE: Duration = Duration::from_secs(60);

/// Which look tells that a container is up.
#[derive(Clone, Copy)]
enum Look {
    Postgres,
    Redis,
    Http(&'static str),
}

struct Part {
    name: &'static str,
    image: String,
    port: u16,
    env: Vec<String>,
    cmd: Option<Vec<String>>,
    look: Look,
}

impl Part {
    fn new(name: &'static str, image: &str, port: u16, look: Look) -> Self {
        Self {
            name,
            image: image.to_owned(),
            port,
            env: Vec::new(),
            cmd: None,
            look,
        }
    }
}

pub(super) struct Floor {
    docker: Docker,
    engine: Engine,
    tag: String,
    /// Image with an initialised database, and its environment.
    database: (String, Vec<String>),
}

impl Floor {
    pub(super) async fn open(address: &str, tag: &str, prepared: &str) -> ToolResult<Self> {
        let docker = Docker::connect_with_unix(address, 60, bollard::API_DEFAULT_VERSION)?
            .negotiate_version()
            .await?;
        let environment = [
            "POSTGRES_USER=everdict",
            "POSTGRES_PASSWORD=everdict",
            "POSTGRES_DB=everdict",
            "PGDATA=/everdict/pgdata",
        ];
        let database = (prepared.to_owned(), environment.map(ToOwned::to_owned).to_vec());
        Ok(Self {
            docker,
            engine: Engine::connect(address).await?,
            tag: tag.to_owned(),
            database,
        })
    }

    pub(super) async fn round(&self, n: usize) -> ToolResult<Round> {
        let name = format!("{}-floor-{n}", self.tag);
        let result = Box::pin(self.measured(&name)).await;
        for part in ["browser", "web", "cache", "db"] {
            let options = RemoveContainerOptionsBuilder::default()
                .force(true)
                .v(true)
                .build();
            let _ = self
                .docker
                .remove_container(&format!("{name}-{part}"), Some(options))
                .await;
        }
        let _ = self.docker.remove_network(&name).await;
        result
    }

    async fn measured(&self, name: &str) -> ToolResult<Round> {
        let mut database = Part::new("db", &self.database.0, 5432, Look::Postgres);
        database.env.clone_from(&self.database.1);
        let cache = Part::new("cache", REDIS, 6379, Look::Redis);
        let web = Part::new("web", FRONT_DOOR, 8080, Look::Http("/"));
        let mut browser = Part::new("browser", BROWSER, 9222, Look::Http("/json/version"));
        browser.cmd = Some(vec!["--remote-allow-origins=*".to_owned()]);

        let start = Instant::now();
        let network = NetworkCreateRequest {
            name: name.to_owned(),
            ..NetworkCreateRequest::default()
        };
        self.docker.create_network(network).await?;
        futures_util::try_join!(
            self.up(name, &database),
            self.up(name, &cache),
            self.up(name, &web)
        )?;
        let cold = since(start);

        let start = Instant::now();
        self.up(name, &browser).await?;
        Ok(Round {
            cold,
            warm: None,
            browser: since(start),
            dispose: 0.0,
        })
    }

    async fn up(&self, network: &str, part: &Part) -> ToolResult<()> {
        let published = matches!(part.look, Look::Http(_));
        let key = format!("{}/tcp", part.port);
        let binding = PortBinding {
            host_ip: Some("127.0.0.1".to_owned()),
            host_port: Some(String::new()),
        };
        let body = ContainerCreateBody {
            image: Some(part.image.clone()),
            env: Some(part.env.clone()),
            cmd: part.cmd.clone(),
            exposed_ports: published.then(|| vec![key.clone()]),
            host_config: Some(HostConfig {
                network_mode: Some(network.to_owned()),
                port_bindings: published.then(|| HashMap::from([(key.clone(), Some(vec![binding]))])),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        let name = format!("{network}-{}", part.name);
        let options = CreateContainerOptionsBuilder::default().name(&name).build();
        let id = self.docker.create_container(Some(options), body).await?.id;
        self.docker.start_container(&id, None).await?;
        let address = self
            .address(&id, published.then_some(key.as_str()), part.port)
            .await?;
        let probe = match part.look {
            Look::Postgres => Probe::Postgres {
                address,
                user: "everdict".to_owned(),
            },
            Look::Redis => Probe::Redis { address },
            Look::Http(path) => Probe::HttpOk {
                address,
                path: path.to_owned(),
            },
        };
        let end = Instant::now() + DEADLINE;
        while !answers_now(&self.engine, &id, &probe).await {
            if Instant::now() > end {
                return Err(format!("{name} did not become ready").into());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Where the container is reached: its published port, else its own address on the bridge.
    async fn address(&self, id: &str, published: Option<&str>, port: u16) -> ToolResult<SocketAddr> {
        let settings = self
            .docker
            .inspect_container(id, None)
            .await?
            .network_settings
            .ok_or("no network settings")?;
        if let Some(key) = published {
            let ports = settings.ports.unwrap_or_default();
            let bindings = ports.get(key).cloned().flatten().unwrap_or_default();
            let port = bindings
                .into_iter()
                .find_map(|binding| binding.host_port)
                .ok_or("no published port")?;
            return Ok(format!("127.0.0.1:{port}").parse()?);
        }
        let networks = settings.networks.unwrap_or_default();
        let ip = networks
            .into_values()
            .find_map(|network| network.ip_address)
            .ok_or("no address")?;
        Ok(format!("{ip}:{port}").parse()?)
    }
}
