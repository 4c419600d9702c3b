//! The digest of a plan: everything that makes two containers different, nothing that doesn't.

use serde_json::{Value, json};

use super::{EnvPairs, Limits, MountPlan, ServicePlan, StorePlan, TopologyKey};
use crate::digest::{DigestKey, SpecDigest};
use crate::egress::Reaching;

/// Generation of what goes into a digest; a runner that counts differently must not adopt.
const GENERATION: u32 = 1;

/// What a digest is taken of. Names of engine objects are left out: they follow from the digest.
pub(super) struct Identity<'a> {
    pub key: &'a TopologyKey,
    pub stores: &'a [StorePlan],
    pub services: &'a [ServicePlan],
    pub network: &'a Reaching,
    /// Name with which the stores and services were planned for the time being.
    pub stem: &'a str,
}

impl Identity<'_> {
    /// Returns the digest. Values of variables stand as their HMAC, since any of them may be a secret.
    pub fn digest(&self, key: &DigestKey) -> SpecDigest {
        let mut whole = json!({
            "generation": GENERATION,
            "tenant": self.key.tenant,
            "harness": self.key.harness,
            "version": self.key.version,
            "stores": self.stores.iter().map(|store| json!({
                "alias": store.alias,
                "image": store.image,
                "env": env(&store.env, key),
                "cmd": store.cmd,
                "limits": limits(store.limits),
                "tmpfs": store.tmpfs.iter().map(|t| json!([t.target, t.size_bytes, t.mode])).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "services": self.services.iter().map(|service| json!({
                "name": service.name,
                "image": service.image,
                "env": env(&service.env, key),
                "port": service.port,
                "mounts": service.mounts.iter().map(|mount| self.mount(mount)).collect::<Vec<_>>(),
                "limits": limits(service.limits),
                "gpus": service.gpus,
                "needs": service.needs,
            })).collect::<Vec<_>>(),
        });
        if let Some(declared) = &self.network.reach.declared {
            // What an address was when the names were resolved is in the containers' tables of hosts.
            let ranges: Vec<Value> = declared
                .iter()
                .map(|net| json!([net.address, net.bits]))
                .collect();
            whole["network"] = json!([ranges, self.network.pinned]);
        }
        SpecDigest::of(whole.to_string().as_bytes())
    }

    fn mount(&self, mount: &MountPlan) -> Value {
        match mount {
            MountPlan::Volume {
                volume,
                target,
                read_only,
            } => {
                json!([
                    "volume",
                    volume.strip_prefix(self.stem).unwrap_or(volume),
                    target,
                    read_only
                ])
            }
            MountPlan::Host {
                source,
                target,
                read_only,
            } => {
                json!(["host", source.as_os_str().as_encoded_bytes(), target, read_only])
            }
        }
    }
}

fn env(pairs: &EnvPairs, key: &DigestKey) -> Value {
    pairs
        .iter()
        .map(|(name, value)| json!([name, key.hide(value)]))
        .collect()
}

fn limits(limits: Limits) -> Value {
    json!([limits.cpu_nanos, limits.memory_bytes, limits.pids])
}
