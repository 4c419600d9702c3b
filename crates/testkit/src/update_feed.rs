//! A feed of updates over real HTTP, with the program that it offers, signed as minisign signs.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use base64::Engine as _;
use blake2::Digest as _;
use bytes::Bytes;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Any will do, as long as key and signature have the same.
const KEY_ID: [u8; 8] = [7; 8];

fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Whoever publishes updates.
pub struct Signer(Ed25519KeyPair);

impl Signer {
    /// The same seed makes the same key.
    ///
    /// # Panics
    /// Never: each seed of this length makes a key.
    #[must_use]
    pub fn new(seed: u8) -> Self {
        let key = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]);
        Self(key.expect("BUG: 32 bytes are a seed"))
    }

    /// The public key, as its file has it.
    #[must_use]
    pub fn public(&self) -> String {
        let key = [b"Ed".as_slice(), &KEY_ID, self.0.public_key().as_ref()].concat();
        format!("untrusted comment: minisign public key\n{}\n", base64(&key))
    }

    /// Signs as Tauri's tools do: minisign's whole file once more in base64.
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> String {
        let hash = blake2::Blake2b512::digest(bytes);
        let signature = self.0.sign(&hash);
        let comment = "timestamp:1\tfile:everdict-desktop";
        let all = self.0.sign(&[signature.as_ref(), comment.as_bytes()].concat());
        let line = [b"ED".as_slice(), &KEY_ID, signature.as_ref()].concat();
        let file = format!(
            "untrusted comment: signature\n{}\ntrusted comment: {comment}\n{}\n",
            base64(&line),
            base64(all.as_ref())
        );
        base64(file.as_bytes())
    }
}

#[derive(Default)]
struct Served {
    feed: String,
    program: Bytes,
    fetched: usize,
}

/// The feed. It ends with the value.
pub struct UpdateFeed {
    address: SocketAddr,
    served: Arc<Mutex<Served>>,
    _serving: JoinSet<()>,
}

impl UpdateFeed {
    /// Starts it, with nothing to offer. Must be called within a tokio runtime.
    ///
    /// # Panics
    /// When loopback can't be listened on.
    pub async fn start() -> Self {
        let served = Arc::new(Mutex::new(Served::default()));
        let router = Router::new()
            .route(
                "/feed.json",
                get(async |State(served): State<Arc<Mutex<Served>>>| lock(&served).feed.clone()),
            )
            .route(
                "/program",
                get(async |State(served): State<Arc<Mutex<Served>>>| {
                    let mut served = lock(&served);
                    served.fetched += 1;
                    served.program.clone()
                }),
            )
            .with_state(Arc::clone(&served));
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port on loopback");
        let address = listener.local_addr().expect("its address");
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self {
            address,
            served,
            _serving: serving,
        }
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/feed.json", self.address)
    }

    /// Offers a program for this platform.
    pub fn offer(&self, version: &str, program: &[u8], signature: &str) {
        let platform = format!("linux-{}", std::env::consts::ARCH);
        let feed = json!({
            "version": version,
            "platforms": {platform: {"url": "/program", "signature": signature}},
        });
        self.answer(&feed.to_string(), program);
    }

    /// Answers with this text, whatever it is.
    pub fn answer(&self, feed: &str, program: &[u8]) {
        let mut served = lock(&self.served);
        feed.clone_into(&mut served.feed);
        served.program = Bytes::copy_from_slice(program);
    }

    /// How often a program was fetched.
    #[must_use]
    pub fn fetched(&self) -> usize {
        lock(&self.served).fetched
    }
}

fn lock(served: &Mutex<Served>) -> MutexGuard<'_, Served> {
    served.lock().unwrap_or_else(PoisonError::into_inner)
}
