//! The docker client's current context, read from its files.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::{Family, PathKind, Surroundings};
use crate::engine::{is_loopback, with_tls};

/// The context that the client makes up itself: no file, the usual socket.
const DEFAULT: &str = "default";

/// The context that the member has chosen.
pub(super) enum Current {
    Address { name: String, address: String },
    Broken { name: String, why: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    #[serde(default)]
    current_context: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Meta {
    endpoints: Endpoints,
}

#[derive(Deserialize)]
struct Endpoints {
    docker: Option<Endpoint>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Endpoint {
    #[serde(default)]
    host: String,
    /// Whether whoever answers is believed.
    #[serde(default, rename = "SkipTLSVerify")]
    skip_verify: bool,
}

/// Finds the chosen context; `None` when there is none beside the default.
pub(super) fn current(world: &dyn Surroundings) -> Option<Current> {
    let folder = folder(world)?;
    let name = match world.var("DOCKER_CONTEXT").filter(|name| !name.is_empty()) {
        Some(name) => name,
        None => {
            serde_json::from_str::<Config>(&world.read(&folder.join("config.json"))?)
                .ok()?
                .current_context
        }
    };
    if name.is_empty() || name == DEFAULT {
        return None;
    }
    Some(match address(world, &folder, &name) {
        Ok(address) => Current::Address { name, address },
        Err(why) => Current::Broken { name, why },
    })
}

/// The client names a context's folder after the SHA-256 of its name.
fn address(world: &dyn Surroundings, folder: &Path, name: &str) -> Result<String, String> {
    let hash: String = Sha256::digest(name)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let file = folder.join("contexts/meta").join(&hash).join("meta.json");
    let text = world.read(&file).ok_or("the context is chosen but not there")?;
    let meta: Meta =
        serde_json::from_str(&text).map_err(|error| format!("its file can't be read: {error}"))?;
    let endpoint = meta.endpoints.docker.unwrap_or_default();
    if endpoint.host.is_empty() {
        return Err("it names no address".to_owned());
    }
    let certificates = folder.join("contexts/tls").join(hash).join("docker");
    if !is_loopback(&endpoint.host) || world.look(&certificates.join("ca.pem")) == PathKind::Missing {
        return Ok(endpoint.host);
    }
    if endpoint.skip_verify {
        return Err("it turns the check of the engine's certificate off (SkipTLSVerify)".to_owned());
    }
    Ok(with_tls(&endpoint.host, &certificates))
}

pub(super) fn folder(world: &dyn Surroundings) -> Option<PathBuf> {
    let named = |name: &str| {
        world
            .var(name)
            .filter(|folder| !folder.is_empty())
            .map(PathBuf::from)
    };
    let home = if world.family() == Family::Windows {
        "USERPROFILE"
    } else {
        "HOME"
    };
    named("DOCKER_CONFIG").or_else(|| named(home).map(|home| home.join(".docker")))
}
