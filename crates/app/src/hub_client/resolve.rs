//! Name look-up with an error type of its own, so that "name not found" is known by type.

use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// The system's resolver had no address for the host.
#[derive(Debug, thiserror::Error)]
#[error("no address for {host}")]
pub(super) struct NameFault {
    host: String,
    #[source]
    source: Option<std::io::Error>,
}

pub(super) struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0))
                .await
                .map_err(|source| NameFault {
                    host: host.clone(),
                    source: Some(source),
                })?
                .collect();
            if found.is_empty() {
                return Err(NameFault { host, source: None }.into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}
