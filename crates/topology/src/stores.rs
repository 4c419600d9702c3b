//! What each store is: its image, how it boots and is tuned, how it shows that it answers, how services reach it.

use everdict_contracts::StoreKind;

/// User, password and database of the stores. Part of the protocol: services get them injected, nothing is published.
pub(crate) const USER: &str = "everdict";
pub(crate) const PASSWORD: &str = "everdict";
pub(crate) const MINIO_SECRET: &str = "everdictsecret";

/// Images that a harness doesn't name itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StockImages {
    pub postgres: String,
    pub redis: String,
    pub minio: String,
    pub browser: String,
}

impl Default for StockImages {
    /// The protocol's images; the browser is pinned, since its flags and its DevTools protocol change with versions.
    fn default() -> Self {
        Self {
            postgres: "postgres:16-alpine".to_owned(),
            redis: "redis:7-alpine".to_owned(),
            minio: "quay.io/minio/minio:latest".to_owned(),
            browser: "chromedp/headless-shell@sha256:\
                7f8ec4782f1b138c30900e65ae53795d5966fbf52168b8fc062843db3e6d5be5"
                .to_owned(),
        }
    }
}

impl StockImages {
    pub(crate) fn of(&self, kind: StoreKind) -> &str {
        match kind {
            StoreKind::Postgres => &self.postgres,
            StoreKind::Redis => &self.redis,
            StoreKind::Minio => &self.minio,
        }
    }
}

/// The connection of a store, as services see it: what `inject` templates may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreValues {
    pub kind: StoreKind,
    /// The store's network alias.
    pub host: String,
    pub port: u16,
}
