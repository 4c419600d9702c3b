use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

use super::*;

/// A made-up machine.
#[derive(Default)]
struct Machine {
    vars: BTreeMap<&'static str, &'static str>,
    files: BTreeMap<&'static str, &'static str>,
    /// Path to what is there.
    paths: BTreeMap<&'static str, PathKind>,
    windows: bool,
}

impl Surroundings for Machine {
    fn var(&self, name: &str) -> Option<String> {
        self.vars.get(name).map(|value| (*value).to_owned())
    }

    fn read(&self, path: &Path) -> Option<String> {
        self.files.get(path.to_str()?).map(|text| (*text).to_owned())
    }

    fn look(&self, path: &Path) -> PathKind {
        self.paths
            .get(path.to_str().unwrap())
            .cloned()
            .unwrap_or(PathKind::Missing)
    }

    fn family(&self) -> Family {
        if self.windows {
            Family::Windows
        } else {
            Family::Unix
        }
    }
}

impl Machine {
    fn new() -> Self {
        let mut machine = Self::default();
        machine.vars.insert("HOME", "/home/me");
        machine.vars.insert("XDG_RUNTIME_DIR", "/run/user/1000");
        machine
    }

    fn socket(mut self, path: &'static str) -> Self {
        self.paths.insert(
            path,
            PathKind::Socket {
                real: PathBuf::from(path),
            },
        );
        self
    }

    fn link(mut self, path: &'static str, real: &'static str) -> Self {
        self.paths.insert(
            path,
            PathKind::Socket {
                real: PathBuf::from(real),
            },
        );
        self
    }

    fn var(mut self, name: &'static str, value: &'static str) -> Self {
        self.vars.insert(name, value);
        self
    }

    fn file(mut self, path: &'static str, text: &'static str) -> Self {
        self.files.insert(path, text);
        self
    }

    /// Source and address of those that would be tried, in order.
    fn tried(&self) -> Vec<(String, String)> {
        candidates(self)
            .into_iter()
            .filter(|candidate| candidate.state == CandidateState::Untried)
            .map(|candidate| (candidate.source.to_string(), candidate.address))
            .collect()
    }

    fn first(&self) -> (String, String) {
        self.tried().into_iter().next().expect("nothing to try")
    }

    fn line(&self, start: &str) -> String {
        let lines: Vec<String> = candidates(self).iter().map(ToString::to_string).collect();
        lines
            .iter()
            .find(|line| line.starts_with(start))
            .unwrap_or_else(|| panic!("no {start} in {lines:#?}"))
            .clone()
    }
}

/// SHA-256 of `colima`, after which the client names the folder.
const COLIMA_META: &str = "/home/me/.docker/contexts/meta/f24fd3749c1368328e2b149bec149cb6795619f244c5b584e844961215dadd16/meta.json";

#[test]
fn each_product_is_found_where_it_lives() {
    let setups = [
        ("Docker", "/var/run/docker.sock"),
        ("rootless Docker", "/run/user/1000/docker.sock"),
        ("Docker Desktop", "/home/me/.docker/run/docker.sock"),
        ("Docker Desktop", "/home/me/.docker/desktop/docker.sock"),
        ("Colima", "/home/me/.colima/default/docker.sock"),
        ("Rancher Desktop", "/home/me/.rd/docker.sock"),
        ("OrbStack", "/home/me/.orbstack/run/docker.sock"),
        ("rootless Podman", "/run/user/1000/podman/podman.sock"),
        ("Podman", "/run/podman/podman.sock"),
        (
            "Podman machine",
            "/home/me/.local/share/containers/podman/machine/podman.sock",
        ),
    ];
    for (product, path) in setups {
        let machine = Machine::new().socket(path);
        assert_eq!(machine.tried(), [(product.to_owned(), format!("unix://{path}"))]);
    }
}

#[test]
fn docker_host_comes_before_everything() {
    let machine = Machine::new()
        .socket("/var/run/docker.sock")
        .socket("/custom.sock")
        .var("DOCKER_HOST", "unix:///custom.sock");
    assert_eq!(
        machine.first(),
        ("DOCKER_HOST".to_owned(), "unix:///custom.sock".to_owned())
    );
    assert_eq!(machine.tried().len(), 2, "a dead one falls to the next");
}

#[test]
fn the_current_context_comes_before_known_places() {
    let meta = r#"{"Name":"colima","Metadata":{},"Endpoints":{"docker":{"Host":"unix:///home/me/c.sock","SkipTLSVerify":false}}}"#;
    let machine = Machine::new()
        .socket("/var/run/docker.sock")
        .socket("/home/me/c.sock")
        .file(
            "/home/me/.docker/config.json",
            r#"{"auths":{},"currentContext":"colima"}"#,
        )
        .file(COLIMA_META, meta);
    assert_eq!(
        machine.first(),
        (
            "docker context `colima`".to_owned(),
            "unix:///home/me/c.sock".to_owned()
        )
    );
}

#[test]
fn docker_context_and_docker_config_are_heeded() {
    let meta = r#"{"Endpoints":{"docker":{"Host":"unix:///home/me/c.sock"}}}"#;
    let machine = Machine::new()
        .socket("/home/me/c.sock")
        .file("/home/me/.docker/config.json", r#"{"currentContext":"default"}"#)
        .file(COLIMA_META, meta)
        .var("DOCKER_CONTEXT", "colima");
    assert_eq!(machine.first().1, "unix:///home/me/c.sock");
    let elsewhere = Machine::new()
        .socket("/home/me/c.sock")
        .file(
            "/etc/d/contexts/meta/f24fd3749c1368328e2b149bec149cb6795619f244c5b584e844961215dadd16/meta.json",
            meta,
        )
        .file("/etc/d/config.json", r#"{"currentContext":"colima"}"#)
        .var("DOCKER_CONFIG", "/etc/d");
    assert_eq!(elsewhere.first().1, "unix:///home/me/c.sock");
}

#[test]
fn a_context_that_is_gone_or_broken_says_so_and_falls_to_the_next() {
    let machine = Machine::new()
        .socket("/var/run/docker.sock")
        .file("/home/me/.docker/config.json", r#"{"currentContext":"colima"}"#);
    assert_eq!(
        machine.line("docker context"),
        "docker context `colima`: the context is chosen but not there"
    );
    assert_eq!(machine.first().0, "Docker");
    let machine = machine.file(COLIMA_META, r#"{"Endpoints":{}}"#);
    assert_eq!(
        machine.line("docker context"),
        "docker context `colima`: it names no address"
    );
}

#[test]
fn a_stale_link_says_where_it_led_and_falls_to_the_next() {
    let mut machine = Machine::new().socket("/home/me/.colima/default/docker.sock");
    machine.paths.insert(
        "/var/run/docker.sock",
        PathKind::Dangling {
            target: "/home/me/.docker/run/docker.sock".into(),
        },
    );
    assert_eq!(
        machine.line("Docker ("),
        "Docker (unix:///var/run/docker.sock): a stale link to /home/me/.docker/run/docker.sock, which is gone"
    );
    assert_eq!(machine.first().0, "Colima");
}

#[test]
fn a_link_to_a_socket_is_tried_once() {
    let machine = Machine::new()
        .link("/var/run/docker.sock", "/home/me/.orbstack/run/docker.sock")
        .socket("/home/me/.orbstack/run/docker.sock");
    assert_eq!(
        machine.tried(),
        [("Docker".to_owned(), "unix:///var/run/docker.sock".to_owned())]
    );
}

#[test]
fn an_engine_elsewhere_is_not_used_and_the_reason_is_told() {
    for host in [
        "tcp://10.0.0.5:2375",
        "ssh://me@box",
        "https://box:2376",
        "ssh://me@localhost",
    ] {
        let machine = Machine::new()
            .socket("/var/run/docker.sock")
            .var("DOCKER_HOST", host);
        let line = machine.line("DOCKER_HOST");
        assert!(
            line.contains("is on another machine") && line.contains("run the runner there"),
            "{line}"
        );
        assert_eq!(machine.first().0, "Docker");
    }
    let machine = Machine::new().var("DOCKER_HOST", "fd://");
    assert!(
        machine
            .line("DOCKER_HOST")
            .ends_with("is no address that this system can connect to")
    );
}

#[test]
fn a_port_of_the_loopback_is_an_engine_of_this_machine() {
    let machine = Machine::new().var("DOCKER_HOST", "tcp://127.0.0.1:2375");
    assert_eq!(machine.first().1, "tcp://127.0.0.1:2375");
    // As the docker client does: with certificates from the named folder, else from its own.
    let machine = machine.var("DOCKER_TLS_VERIFY", "1");
    assert_eq!(machine.first().1, "tcp://127.0.0.1:2375?tls=/home/me/.docker");
    let machine = machine.var("DOCKER_CERT_PATH", "/certs");
    assert_eq!(machine.first().1, "tcp://127.0.0.1:2375?tls=/certs");
    // A socket has no use for them.
    let machine = machine.socket("/s").var("DOCKER_HOST", "unix:///s");
    assert_eq!(machine.first().1, "unix:///s");
}

#[test]
fn a_context_brings_its_own_certificates() {
    const CA: &str = "/home/me/.docker/contexts/tls/f24fd3749c1368328e2b149bec149cb6795619f244c5b584e844961215dadd16/docker/ca.pem";
    let context = |text| {
        Machine::new()
            .var("DOCKER_CONTEXT", "colima")
            .file(COLIMA_META, text)
    };
    let plain = context(r#"{"Endpoints": {"docker": {"Host": "tcp://localhost:2376"}}}"#);
    assert_eq!(plain.first().1, "tcp://localhost:2376");
    let mut with = plain;
    with.paths.insert(CA, PathKind::Other);
    assert_eq!(
        with.first().1,
        format!("tcp://localhost:2376?tls={}", CA.trim_end_matches("/ca.pem"))
    );
    let mut blind =
        context(r#"{"Endpoints": {"docker": {"Host": "tcp://localhost:2376", "SkipTLSVerify": true}}}"#);
    blind.paths.insert(CA, PathKind::Other);
    assert!(
        blind.line("docker context").contains("SkipTLSVerify"),
        "it is refused"
    );
}

#[test]
fn windows_has_pipes() {
    let machine = Machine {
        windows: true,
        ..Machine::default()
    };
    let tried = machine.tried();
    assert_eq!(
        tried[0],
        ("Docker".to_owned(), "npipe:////./pipe/docker_engine".to_owned())
    );
    assert_eq!(tried.len(), 3);
    let machine = machine.var("DOCKER_HOST", "npipe:////./pipe/mine");
    assert_eq!(machine.first().1, "npipe:////./pipe/mine");
}

#[test]
fn a_machine_without_an_engine_says_what_to_do() {
    let none = |machine: &Machine| {
        Discovery {
            candidates: candidates(machine),
            engine: None,
        }
        .why_none()
    };
    assert!(
        none(&Machine::new()).contains("start Docker, Podman, Colima"),
        "{}",
        none(&Machine::new())
    );
    let machine = Machine::new().var("DOCKER_HOST", "unix:///nope.sock");
    assert_eq!(
        none(&machine),
        "no container engine answers: DOCKER_HOST (unix:///nope.sock): there is no such socket"
    );
}

#[test]
fn a_machine_without_a_home_is_no_obstacle() {
    let machine = Machine::default().socket("/var/run/docker.sock");
    assert_eq!(machine.first().0, "Docker");
}

/// Real sockets: one that nobody listens at, one that is mute, one that isn't a socket.
#[tokio::test]
async fn dead_sockets_fall_to_the_next_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir_all(home.join(".rd")).unwrap();
    std::fs::create_dir_all(home.join(".orbstack/run")).unwrap();
    let deserted = folder.path().join("deserted.sock");
    drop(std::os::unix::net::UnixListener::bind(&deserted).unwrap());
    std::fs::write(home.join(".rd/docker.sock"), "a file").unwrap();
    symlink(home.join("gone"), home.join(".orbstack/run/docker.sock")).unwrap();
    let (host, home_text) = (
        format!("unix://{}", deserted.display()),
        home.display().to_string(),
    );
    let world = System::new(|name: &str| match name {
        "DOCKER_HOST" => Some(host.clone()),
        "HOME" => Some(home_text.clone()),
        _ => None,
    });
    let found = discover(&world).await;
    let reason = |source: &Source| {
        let candidate = found
            .candidates
            .iter()
            .find(|candidate| candidate.source == *source)
            .unwrap();
        candidate.state.clone()
    };
    let CandidateState::Dead(why) = reason(&Source::DockerHost) else {
        panic!("{found:?}")
    };
    assert_eq!(why, "nobody listens at the socket; the engine isn't running");
    assert_eq!(
        reason(&Source::Known("Rancher Desktop")),
        CandidateState::Absent("is no socket".to_owned())
    );
    let CandidateState::Absent(why) = reason(&Source::Known("OrbStack")) else {
        panic!("{found:?}")
    };
    assert!(why.starts_with("a stale link to "), "{why}");
}

#[tokio::test]
async fn a_socket_that_takes_connections_and_says_nothing_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mute.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let address = format!("unix://{}", path.display());
    let CandidateState::Dead(why) = probe(&address, Duration::from_millis(50)).await.unwrap_err() else {
        panic!("it isn't dead");
    };
    assert_eq!(why, "takes connections, but doesn't answer within 0.05 s");
}
