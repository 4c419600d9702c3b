//! How durable and how big a store is, from what all of its users want of it.

use everdict_contracts::{StorePurpose, TopologyDependency};

/// Memory of a store that no case's verdict hangs on, in MB; part of the protocol.
const PLUMBING_MEMORY_MB: u64 = 200;

/// What a store is told about memory and durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tuning {
    /// Unbounded when absent.
    pub memory_mb: Option<u64>,
    pub evict: bool,
    pub persistence: bool,
}

impl Tuning {
    const DURABLE: Self = Self {
        memory_mb: None,
        evict: false,
        persistence: true,
    };

    fn of(dependency: &TopologyDependency) -> Self {
        let base = match dependency.purpose {
            StorePurpose::Data => Self::DURABLE,
            StorePurpose::Plumbing => Self {
                memory_mb: Some(PLUMBING_MEMORY_MB),
                evict: true,
                persistence: false,
            },
        };
        let config = dependency.store_config.unwrap_or_default();
        Self {
            memory_mb: config.memory_mb.or(base.memory_mb),
            evict: config.evict_when_full.unwrap_or(base.evict),
            persistence: config.persistence.unwrap_or(base.persistence),
        }
    }

    /// Merges what all users of one store want: the most memory, eviction only if all agree, persistence if any asks.
    pub fn merge<'a>(dependencies: impl IntoIterator<Item = &'a TopologyDependency>) -> Self {
        dependencies
            .into_iter()
            .map(Self::of)
            .reduce(|one, other| Self {
                memory_mb: one
                    .memory_mb
                    .zip(other.memory_mb)
                    .map(|(one, other)| one.max(other)),
                evict: one.evict && other.evict,
                persistence: one.persistence || other.persistence,
            })
            .unwrap_or(Self::DURABLE)
    }

    /// Returns the arguments that say it to Redis: none when there is nothing to say.
    pub fn redis_args(self) -> Vec<String> {
        let mut args = Vec::new();
        if let Some(memory) = self.memory_mb {
            let policy = if self.evict { "allkeys-lru" } else { "noeviction" };
            args.extend(["--maxmemory".to_owned(), format!("{memory}mb")]);
            args.extend(["--maxmemory-policy".to_owned(), policy.to_owned()]);
        }
        if !self.persistence {
            args.extend(["--save", "", "--appendonly", "no"].map(str::to_owned));
        }
        args
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everdict_contracts::decode;
    use serde_json::{Value, json};

    fn merge(users: Vec<Value>) -> Tuning {
        let users: Vec<TopologyDependency> = users
            .into_iter()
            .map(|mut user| {
                user["store"] = json!("redis");
                user["role"] = json!("r");
                user["isolateBy"] = json!("key-prefix");
                decode(user).unwrap()
            })
            .collect();
        Tuning::merge(&users)
    }

    #[test]
    fn plumbing_is_small_and_forgets_and_data_is_kept() {
        assert_eq!(
            merge(vec![json!({})]),
            Tuning {
                memory_mb: Some(200),
                evict: true,
                persistence: false
            }
        );
        assert_eq!(merge(vec![json!({"purpose": "data"})]), Tuning::DURABLE);
        assert_eq!(merge(vec![]), Tuning::DURABLE);
    }

    #[test]
    fn a_config_overrides_field_by_field() {
        let tuned = merge(vec![json!({"purpose": "data", "storeConfig": {"memoryMb": 64}})]);
        assert_eq!(
            tuned,
            Tuning {
                memory_mb: Some(64),
                evict: false,
                persistence: true
            }
        );
        let tuned = merge(vec![
            json!({"storeConfig": {"evictWhenFull": false, "persistence": true}}),
        ]);
        assert_eq!(
            tuned,
            Tuning {
                memory_mb: Some(200),
                evict: false,
                persistence: true
            }
        );
    }

    #[test]
    fn several_users_get_what_the_most_demanding_wants() {
        let tuned = merge(vec![json!({}), json!({"storeConfig": {"memoryMb": 500}})]);
        assert_eq!(
            tuned,
            Tuning {
                memory_mb: Some(500),
                evict: true,
                persistence: false
            }
        );
        assert_eq!(
            merge(vec![json!({}), json!({"purpose": "data"})]),
            Tuning::DURABLE
        );
    }

    #[test]
    fn redis_is_told_only_what_there_is_to_say() {
        assert_eq!(
            merge(vec![json!({})]).redis_args(),
            [
                "--maxmemory",
                "200mb",
                "--maxmemory-policy",
                "allkeys-lru",
                "--save",
                "",
                "--appendonly",
                "no"
            ]
        );
        assert!(Tuning::DURABLE.redis_args().is_empty());
        let tuned = Tuning {
            memory_mb: Some(64),
            evict: false,
            persistence: true,
        };
        assert_eq!(
            tuned.redis_args(),
            ["--maxmemory", "64mb", "--maxmemory-policy", "noeviction"]
        );
    }
}
