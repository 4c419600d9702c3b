//! Images as registries keep them: layers, a configuration and a manifest, each by the digest of its bytes.

use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::{Value, json};

/// In which of the two vocabularies an image is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// That of the OCI image specification.
    Oci,
    /// Docker's own, version 2, schema 2.
    Docker,
}

/// An image for one platform.
#[derive(Debug, Clone)]
pub struct RegistryImage {
    flavour: Flavour,
    architecture: String,
    config: Value,
    layers: Vec<Bytes>,
}

/// A manifest and what it names.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) digest: String,
    pub(super) media: &'static str,
    pub(super) bytes: Bytes,
    pub(super) blobs: Vec<(String, Bytes)>,
    /// As lists name it.
    platform: Value,
}

impl RegistryImage {
    /// An image for Linux on a processor, in the words of manifests (`amd64`), without a file in it.
    pub fn new(architecture: &str) -> Self {
        Self {
            flavour: Flavour::Oci,
            architecture: architecture.to_owned(),
            config: json!({}),
            layers: Vec::new(),
        }
    }

    /// Writes it in another vocabulary.
    #[must_use]
    pub fn flavour(self, flavour: Flavour) -> Self {
        Self { flavour, ..self }
    }

    /// Adds a layer with one executable file, at its root.
    ///
    /// # Panics
    /// When the name is longer than archives allow.
    #[must_use]
    pub fn file(mut self, name: &str, bytes: &[u8]) -> Self {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o755);
        archive.append_data(&mut header, name, bytes).expect("in memory");
        self.layers
            .push(Bytes::from(archive.into_inner().expect("in memory")));
        self
    }

    /// Sets a field of the configuration, such as `Entrypoint`.
    #[must_use]
    pub fn with(mut self, field: &str, value: Value) -> Self {
        self.config[field] = value;
        self
    }

    fn media(&self) -> [&'static str; 3] {
        match self.flavour {
            Flavour::Oci => [
                "application/vnd.oci.image.manifest.v1+json",
                "application/vnd.oci.image.config.v1+json",
                "application/vnd.oci.image.layer.v1.tar",
            ],
            Flavour::Docker => [
                "application/vnd.docker.distribution.manifest.v2+json",
                "application/vnd.docker.container.image.v1+json",
                "application/vnd.docker.image.rootfs.diff.tar.gzip",
            ],
        }
    }

    pub(super) fn manifest(&self) -> Stored {
        let [media, config_media, layer_media] = self.media();
        let mut blobs: Vec<(String, Bytes)> = self
            .layers
            .iter()
            .map(|bytes| (digest(bytes), bytes.clone()))
            .collect();
        // The archives aren't compressed, so a layer goes by one digest inside and outside.
        let ids: Vec<&String> = blobs.iter().map(|(digest, _)| digest).collect();
        let config = json!({
            "architecture": self.architecture,
            "os": "linux",
            "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": ids},
            "history": ids.iter().map(|_| json!({"created_by": "a test"})).collect::<Vec<_>>(),
        });
        let config = Bytes::from(config.to_string());
        let name = |media: &str, digest: &str, bytes: &Bytes| json!({"mediaType": media, "digest": digest, "size": bytes.len()});
        let config_digest = digest(&config);
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": media,
            "config": name(config_media, &config_digest, &config),
            "layers": blobs
                .iter()
                .map(|(digest, bytes)| name(layer_media, digest, bytes))
                .collect::<Vec<_>>(),
        });
        blobs.push((config_digest, config));
        let bytes = Bytes::from(manifest.to_string());
        Stored {
            digest: digest(&bytes),
            media,
            bytes,
            blobs,
            platform: json!({"os": "linux", "architecture": self.architecture}),
        }
    }
}

/// The list of images under one tag; in the vocabulary of the first.
pub(super) fn list(images: &[Stored]) -> Stored {
    let oci = images.first().is_none_or(|image| image.media.contains(".oci."));
    let media = if oci {
        "application/vnd.oci.image.index.v1+json"
    } else {
        "application/vnd.docker.distribution.manifest.list.v2+json"
    };
    let entries = images.iter().map(|image| {
        json!({
            "mediaType": image.media, "digest": image.digest, "size": image.bytes.len(), "platform": image.platform,
        })
    });
    let text = json!({"schemaVersion": 2, "mediaType": media, "manifests": entries.collect::<Vec<_>>()});
    let bytes = Bytes::from(text.to_string());
    Stored {
        digest: digest(&bytes),
        media,
        bytes,
        blobs: Vec::new(),
        platform: Value::Null,
    }
}

pub(super) fn digest(bytes: &[u8]) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA256, bytes);
    let mut text = "sha256:".to_owned();
    for byte in hash.as_ref() {
        write!(text, "{byte:02x}").expect("into a string");
    }
    text
}
