//! What each store is: its image, how it boots and is tuned, how it shows that it answers, how services reach it, and
//! how the data of a case gets in and out.

use everdict_contracts::{IsolateBy, StoreKind, TopologyDependency};

use crate::names;
use crate::plan::{EnvPairs, Limits, PlanContext, StorePlan, StoreReadiness, TmpfsPlan};

mod exec;
mod read;
mod seed;
mod slice;
mod tuning;
mod values;

pub use exec::StoreExec;
pub use read::{StoreQuery, read};
pub use seed::{SeedPlan, drops, has_slices, plan_seeds};
pub use slice::{Slice, wiring};
use tuning::Tuning;
pub use values::{StoreValues, UnknownField};

/// User, password and database of the stores. Part of the protocol: services get them injected, nothing is published.
const USER: &str = "everdict";
const PASSWORD: &str = "everdict";
const MINIO_SECRET: &str = "everdictsecret";

const MIB: u64 = 1024 * 1024;
/// Room for a database in memory: 40 MB when empty, up to [`DISPOSABLE_POSTGRES`]'s log, the rest for rows.
const POSTGRES_TMPFS_BYTES: u64 = 1024 * MIB;
/// Stores are small beside services; a database in memory counts in full.
const STORE_MEMORY_BYTES: i64 = 2048 * MIB as i64;
/// A Redis that may use `maxmemory` needs about as much again while it copies itself or its buffers grow.
const REDIS_OVERHEAD_BYTES: u64 = 256 * MIB;
/// PostgreSQL takes a process per connection: 100 of them by default, and a dozen of its own.
const STORE_PIDS: i64 = 512;

/// Settings of a database that nobody will miss: nothing waits for the disk, and the log stays within the room there is.
const DISPOSABLE_POSTGRES: [&str; 5] = [
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "max_wal_size=256MB",
    "min_wal_size=32MB",
];

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
    fn of(&self, kind: StoreKind) -> &str {
        match kind {
            StoreKind::Postgres => &self.postgres,
            StoreKind::Redis => &self.redis,
            StoreKind::Minio => &self.minio,
        }
    }
}

/// Returns the name that the wire has for a kind of store.
pub fn kind_name(kind: StoreKind) -> &'static str {
    match kind {
        StoreKind::Postgres => "postgres",
        StoreKind::Redis => "redis",
        StoreKind::Minio => "minio",
    }
}

fn port_of(kind: StoreKind) -> u16 {
    match kind {
        StoreKind::Postgres => 5432,
        StoreKind::Redis => 6379,
        StoreKind::Minio => 9000,
    }
}

/// Plans one container per kind of store, however many roles it has; external stores are somebody else's.
pub(crate) fn plan(
    harness: &str,
    topology: &str,
    dependencies: &[TopologyDependency],
    context: &PlanContext<'_>,
) -> Vec<StorePlan> {
    let mut plans: Vec<StorePlan> = Vec::new();
    for (index, dependency) in dependencies.iter().enumerate() {
        let kind = dependency.store;
        if dependency.isolate_by == IsolateBy::External || plans.iter().any(|plan| plan.kind == kind) {
            continue;
        }
        let users = dependencies
            .iter()
            .filter(|user| user.store == kind && user.isolate_by != IsolateBy::External);
        let boot = boot(kind, Tuning::merge(users));
        let alias = names::store_alias(harness, kind_name(kind));
        plans.push(StorePlan {
            kind,
            container: names::member(topology, &alias),
            image: context.images.of(kind).to_owned(),
            env: boot.env,
            cmd: boot.cmd,
            readiness: readiness(kind),
            budget: context.readiness,
            limits: Limits {
                cpu_nanos: None,
                memory_bytes: boot.memory_bytes,
                pids: STORE_PIDS,
            },
            tmpfs: boot.tmpfs,
            values: StoreValues {
                kind,
                host: alias.clone(),
                port: port_of(kind),
            },
            alias,
            path: format!("harnessSpec.dependencies[{index}]"),
        });
    }
    plans
}

fn readiness(kind: StoreKind) -> StoreReadiness {
    let port = port_of(kind);
    match kind {
        StoreKind::Postgres => StoreReadiness::PostgresWire { port },
        StoreKind::Redis => StoreReadiness::RedisPing { port },
        StoreKind::Minio => StoreReadiness::Http {
            port,
            path: "/minio/health/ready",
        },
    }
}

/// How a store is started.
struct Boot {
    env: EnvPairs,
    cmd: Vec<String>,
    tmpfs: Vec<TmpfsPlan>,
    memory_bytes: i64,
}

fn boot(kind: StoreKind, tuning: Tuning) -> Boot {
    let (env, cmd, tmpfs) = match kind {
        StoreKind::Postgres => postgres_boot(tuning),
        StoreKind::Redis => (EnvPairs::default(), tuning.redis_args(), Vec::new()),
        StoreKind::Minio => (
            EnvPairs::from_iter([("MINIO_ROOT_USER", USER), ("MINIO_ROOT_PASSWORD", MINIO_SECRET)]),
            vec!["server".to_owned(), "/data".to_owned()],
            Vec::new(),
        ),
    };
    Boot {
        env,
        cmd,
        tmpfs,
        memory_bytes: memory(kind, tuning),
    }
}

fn postgres_boot(tuning: Tuning) -> (EnvPairs, Vec<String>, Vec<TmpfsPlan>) {
    let mut env = vec![
        ("POSTGRES_USER", USER),
        ("POSTGRES_PASSWORD", PASSWORD),
        ("POSTGRES_DB", USER),
    ];
    if tuning.persistence {
        return (EnvPairs::from_iter(env), Vec::new(), Vec::new());
    }
    env.push(("POSTGRES_INITDB_ARGS", "--no-sync"));
    let mut cmd = vec!["postgres".to_owned()];
    cmd.extend(
        DISPOSABLE_POSTGRES
            .iter()
            .flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]),
    );
    let tmpfs = TmpfsPlan {
        target: "/var/lib/postgresql/data".to_owned(),
        size_bytes: POSTGRES_TMPFS_BYTES,
        mode: "0700",
    };
    (EnvPairs::from_iter(env), cmd, vec![tmpfs])
}

fn memory(kind: StoreKind, tuning: Tuning) -> i64 {
    match (kind, tuning.memory_mb) {
        (StoreKind::Redis, Some(megabytes)) => {
            let bytes = megabytes
                .saturating_mul(2 * MIB)
                .saturating_add(REDIS_OVERHEAD_BYTES);
            i64::try_from(bytes).unwrap_or(i64::MAX)
        }
        _ => STORE_MEMORY_BYTES,
    }
}
