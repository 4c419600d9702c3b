use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};

use bollard::models::{Ipam, IpamConfig, Network, NetworkCreateRequest};
use bollard::query_parameters::ListNetworksOptionsBuilder;

use super::{CREATE_LIMIT, Engine, EngineError, EngineErrorKind, READ_LIMIT};
use crate::labels::INSTALL;

/// Where address ranges come from once the daemon's own pools run out (30 networks by default): a corner of 10/8 that
/// neither docker's pools nor usual home routers use.
const FALLBACK_BASE: [u8; 2] = [10, 231];

/// Bits of each fallback range: 61 containers, more than a topology and its browsers have, and 1024 ranges.
const FALLBACK_PREFIX: u32 = 26;

/// Ranges to try before giving up. Those of known networks are left out beforehand, so a miss is a range that
/// something else than docker holds.
const FALLBACK_TRIES: usize = 32;

/// A bridge network to create.
#[derive(Debug, Clone)]
pub struct NetworkRequest<'a> {
    /// Need not be unique, but should be.
    pub name: &'a str,
    /// What the reaper goes by.
    pub labels: &'a BTreeMap<String, String>,
}

/// A network as the daemon lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRow {
    /// The only safe way to refer to it.
    pub id: String,
    /// Its name, which others may share.
    pub name: String,
    /// When it was created, as the daemon writes it.
    pub created: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its address ranges.
    pub subnets: Vec<String>,
}

impl From<Network> for NetworkRow {
    fn from(network: Network) -> Self {
        let configs = network.ipam.and_then(|ipam| ipam.config).unwrap_or_default();
        Self {
            id: network.id.unwrap_or_default(),
            name: network.name.unwrap_or_default(),
            created: network.created.unwrap_or_default(),
            labels: network.labels.unwrap_or_default().into_iter().collect(),
            subnets: configs.into_iter().filter_map(|config| config.subnet).collect(),
        }
    }
}

impl Engine {
    /// Creates a bridge network and gives out its id. When the daemon's own pools are used up, a small range is chosen.
    ///
    /// # Errors
    /// [`EngineErrorKind::AddressPoolExhausted`] with the number of networks there are, when no range is left.
    pub async fn create_network(&self, request: &NetworkRequest<'_>) -> Result<String, EngineError> {
        match self.create_network_in(request, None).await {
            Err(error) if error.kind == EngineErrorKind::AddressPoolExhausted => {
                self.create_network_in_fallback(request).await
            }
            other => other,
        }
    }

    async fn create_network_in(
        &self,
        request: &NetworkRequest<'_>,
        subnet: Option<String>,
    ) -> Result<String, EngineError> {
        let ipam = subnet.map(|subnet| Ipam {
            config: Some(vec![IpamConfig {
                subnet: Some(subnet),
                ..IpamConfig::default()
            }]),
            ..Ipam::default()
        });
        let body = NetworkCreateRequest {
            name: request.name.to_owned(),
            driver: Some("bridge".to_owned()),
            ipam,
            labels: Some(
                request
                    .labels
                    .iter()
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect(),
            ),
            ..NetworkCreateRequest::default()
        };
        let created = self
            .call("create a network", CREATE_LIMIT, self.docker.create_network(body))
            .await?;
        Ok(created.id)
    }

    async fn create_network_in_fallback(&self, request: &NetworkRequest<'_>) -> Result<String, EngineError> {
        let networks = self.list_networks(&[]).await?;
        let taken: HashSet<&str> = networks
            .iter()
            .flat_map(|network| network.subnets.iter().map(String::as_str))
            .collect();
        let free = fallback_subnets(request.name).filter(|subnet| !taken.contains(subnet.as_str()));
        for subnet in free.take(FALLBACK_TRIES) {
            match self.create_network_in(request, Some(subnet)).await {
                Err(error) if error.kind == EngineErrorKind::AddressesTaken => {}
                other => return other,
            }
        }
        let ours = request.labels.get(INSTALL);
        let ours = networks
            .iter()
            .filter(|network| ours.is_some() && network.labels.get(INSTALL) == ours);
        let text = format!(
            "no address range is free; this daemon has {} networks, ours: {}",
            networks.len(),
            ours.count()
        );
        Err(EngineError::new(
            EngineErrorKind::AddressPoolExhausted,
            "create a network",
            text,
        ))
    }

    /// Lists networks that have all of the given labels (`key` or `key=value`).
    ///
    /// # Errors
    /// Any [`EngineError`].
    pub async fn list_networks(&self, labels: &[String]) -> Result<Vec<NetworkRow>, EngineError> {
        let filters = HashMap::from([("label", labels.to_vec())]);
        let options = ListNetworksOptionsBuilder::default().filters(&filters).build();
        let rows = self
            .call(
                "list networks",
                READ_LIMIT,
                self.docker.list_networks(Some(options)),
            )
            .await?;
        Ok(rows.into_iter().map(NetworkRow::from).collect())
    }

    /// Gives out the ids of the containers that are attached to a network and running.
    ///
    /// # Errors
    /// [`EngineErrorKind::NotFound`] when the network is gone.
    pub async fn network_members(&self, id: &str) -> Result<Vec<String>, EngineError> {
        let options = bollard::query_parameters::InspectNetworkOptions::default();
        let call = self.docker.inspect_network(id, Some(options));
        let network = self.call("inspect a network", READ_LIMIT, call).await?;
        Ok(network.containers.unwrap_or_default().into_keys().collect())
    }

    /// The address that `host.docker.internal` has inside of containers: the default bridge's, on the daemon's machine.
    /// `None` when the daemon has no such bridge.
    pub async fn host_gateway(&self) -> Option<IpAddr> {
        let options = bollard::query_parameters::InspectNetworkOptions::default();
        let call = self.docker.inspect_network("bridge", Some(options));
        let network = self.call("inspect a network", READ_LIMIT, call).await.ok()?;
        network.ipam?.config?.into_iter().find_map(gateway)
    }

    /// Removes a network; one that is gone already counts as removed.
    ///
    /// # Errors
    /// [`EngineErrorKind::InUse`] while a container is attached.
    pub async fn remove_network(&self, id: &str) -> Result<(), EngineError> {
        match self
            .call(
                "remove a network",
                self.removal_limit(),
                self.docker.remove_network(id),
            )
            .await
        {
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }
}

/// The gateway of a range: the one that is named, else the first address, which docker takes by itself.
fn gateway(config: IpamConfig) -> Option<IpAddr> {
    if let Some(named) = config.gateway {
        return named.parse().ok();
    }
    let (base, _) = config.subnet.as_ref()?.split_once('/')?;
    let base: Ipv4Addr = base.parse().ok()?;
    Some(IpAddr::V4(Ipv4Addr::from(u32::from(base).checked_add(1)?)))
}

/// Every fallback range, from a place on that depends on `seed`, so that two processes rarely try the same one.
fn fallback_subnets(seed: &str) -> impl Iterator<Item = String> {
    let hosts = 1_u32 << (32 - FALLBACK_PREFIX);
    let count = (1_u32 << 16) / hosts;
    let start = seed.bytes().fold(0_u32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    let base = u32::from(Ipv4Addr::new(FALLBACK_BASE[0], FALLBACK_BASE[1], 0, 0));
    (0..count).map(move |step| {
        let index = start.wrapping_add(step) % count;
        format!("{}/{FALLBACK_PREFIX}", Ipv4Addr::from(base + index * hosts))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use bollard::models::IpamConfig;

    use super::{fallback_subnets, gateway};

    #[test]
    fn a_range_that_names_no_gateway_has_its_first_address_for_one() {
        let config = |subnet: &str, named: Option<&str>| IpamConfig {
            subnet: Some(subnet.to_owned()),
            gateway: named.map(str::to_owned),
            ..IpamConfig::default()
        };
        let found = |config| gateway(config).map(|address| address.to_string());
        assert_eq!(
            found(config("172.17.0.0/16", None)).as_deref(),
            Some("172.17.0.1")
        );
        assert_eq!(
            found(config("10.1.0.0/24", Some("10.1.0.254"))).as_deref(),
            Some("10.1.0.254")
        );
        assert_eq!(found(config("fd00::/64", None)), None);
    }

    #[test]
    fn fallback_ranges_are_distinct_aligned_and_many() {
        let all: Vec<String> = fallback_subnets("everdict-x").collect();
        let distinct: HashSet<&String> = all.iter().collect();
        assert_eq!((all.len(), distinct.len()), (1024, 1024));
        for subnet in &all {
            let last: u32 = subnet
                .trim_end_matches("/26")
                .rsplit('.')
                .next()
                .unwrap()
                .parse()
                .unwrap();
            assert_eq!(last % 64, 0, "{subnet}");
            assert!(subnet.starts_with("10.231."), "{subnet}");
        }
        assert_ne!(fallback_subnets("a").next(), fallback_subnets("b").next());
    }
}
