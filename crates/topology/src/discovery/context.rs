//! The docker client's current context, read from its files.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::{Family, Surroundings};

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

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Endpoint {
    #[serde(default)]
    host: String,
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
    let file = folder.join("contexts/meta").join(hash).join("meta.json");
    let text = world.read(&file).ok_or("the context is chosen but not there")?;
    let meta: Meta =
        serde_json::from_str(&text).map_err(|error| format!("its file can't be read: {error}"))?;
    let host = meta
        .endpoints
        .docker
        .map(|endpoint| endpoint.host)
        .unwrap_or_default();
    if host.is_empty() {
        Err("it names no address".to_owned())
    } else {
        Ok(host)
    }
}

fn folder(world: &dyn Surroundings) -> Option<PathBuf> {
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
