//! The daemon by a port of the loopback, in the clear and with TLS: listeners of the test's own lead to its socket.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everdict_topology::discovery::{Discovery, Source, System, discover};
use everdict_topology::engine::{Engine, ExecRequest};
use everdict_topology::process::this_owner;
use everdict_topology::runtime::TopologyRuntime as _;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, UnixStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::world::{World, harness, in_world};

const SOCKET: &str = "/var/run/docker.sock";

/// A listener that leads to the daemon, for as long as the set lives.
async fn listener(tls: Option<TlsAcceptor>) -> (u16, JoinSet<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut set = JoinSet::new();
    set.spawn(async move {
        let mut each = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let tls = tls.clone();
            each.spawn(async move {
                match tls {
                    None => pass(stream).await,
                    // One that doesn't show its certificate isn't let in.
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            pass(stream).await;
                        }
                    }
                }
            });
        }
    });
    (port, set)
}

async fn pass(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut daemon = UnixStream::connect(SOCKET).await.unwrap();
    let _ = copy_bidirectional(&mut stream, &mut daemon).await;
}

async fn found(vars: &[(&str, &str)]) -> Discovery {
    let vars: Vec<(String, String)> = vars
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let world = System::new(|name: &str| {
        let found = vars.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    });
    discover(&world).await
}

/// A whole topology, and a command in it, whose streams go both ways over one connection.
async fn a_topology_stands(world: &World, engine: Engine) {
    let owner = this_owner(world.install.clone(), "runner");
    let runtime = world
        .runtime_over(engine.clone(), world.state.path(), owner, false)
        .await;
    let lease = runtime
        .ensure_topology(&harness(|_| {}), &world.scope("r1"))
        .await
        .unwrap();
    let endpoint = lease.endpoints()["web"].trim_start_matches("http://").to_owned();
    tokio::net::TcpStream::connect(endpoint).await.unwrap();
    let request = ExecRequest::new(["echo", "over there"], Duration::from_secs(20));
    let outcome = engine.exec(lease.containers()["web"], request).await.unwrap();
    assert_eq!(outcome.stdout, b"over there\n");
    drop(lease);
    assert_eq!(runtime.shut_down().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_of_the_loopback_leads_to_the_daemon() {
    in_world("tcp", |world| async move {
        let (port, _listener) = listener(None).await;
        let address = format!("tcp://127.0.0.1:{port}");
        let discovery = found(&[("DOCKER_HOST", &address)]).await;
        assert_eq!(
            discovery.taken().unwrap().source,
            Source::DockerHost,
            "{discovery:?}"
        );
        let engine = discovery.engine.unwrap();
        assert_eq!(engine.address(), address);
        a_topology_stands(&world, engine).await;
    })
    .await;
}

/// An authority of certificates.
struct Authority {
    pem: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own = params.self_signed(&key).unwrap();
        Self {
            pem: own.pem(),
            der: own.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Writes what a client needs who believes this authority and has a certificate of `of`.
    fn write_client(&self, folder: &Path, of: &Self) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        let cert = params.signed_by(&key, &of.issuer).unwrap();
        std::fs::write(folder.join("ca.pem"), &self.pem).unwrap();
        std::fs::write(folder.join("cert.pem"), cert.pem()).unwrap();
        std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    }

    /// A server that lets in whoever has a certificate of this authority.
    fn server(&self) -> TlsAcceptor {
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let clients = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
        let config = ServerConfig::builder()
            .with_client_cert_verifier(clients)
            .with_single_cert(
                vec![cert.der().clone()],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            )
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tls_both_sides_show_their_certificates() {
    in_world("tls", |world| async move {
        let (ours, other) = (Authority::new(), Authority::new());
        let (port, _listener) = listener(Some(ours.server())).await;
        let address = format!("tcp://127.0.0.1:{port}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let vars = [
            ("DOCKER_HOST", address.as_str()),
            ("DOCKER_TLS_VERIFY", "1"),
            ("DOCKER_CERT_PATH", path),
        ];
        let refused = async |why: &str| {
            let discovery = found(&vars).await;
            let first = discovery.candidates[0].to_string();
            assert!(first.contains(why), "{first}");
            assert_ne!(
                discovery.taken().map(|taken| &taken.source),
                Some(&Source::DockerHost)
            );
        };
        refused("key.pem of its certificates isn't in").await;
        // Another authority's engine is not believed, and another authority's client not let in.
        other.write_client(folder.path(), &ours);
        refused("certificate").await;
        ours.write_client(folder.path(), &other);
        refused("DOCKER_HOST").await;

        ours.write_client(folder.path(), &ours);
        let discovery = found(&vars).await;
        assert_eq!(
            discovery.taken().unwrap().source,
            Source::DockerHost,
            "{discovery:?}"
        );
        let engine = discovery.engine.unwrap();
        // The watchdog is told the way as text.
        let again = Engine::connect(engine.address()).await.unwrap();
        again.ping().await.unwrap();
        a_topology_stands(&world, engine).await;
    })
    .await;
}
