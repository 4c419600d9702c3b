//! Puts the data of a run into its slices, and takes slices away.

use everdict_contracts::{
    Fault, IsolateBy, Seed, SeedFormat, ServiceHarness, StoreFixture, StoreKind, StorePurpose,
    TopologyDependency,
};

use super::exec::{Replies, StoreExec};
use super::slice::Slice;
use super::{USER, kind_name};

/// How long dropping waits for an agent's connection that still holds a lock, in milliseconds: the agent has ended.
const DROP_LOCK_MS: u32 = 5_000;

/// Deletes the keys of one prefix. Where the prefix is followed by a letter, digit, `_` or `-`, the key may belong to
/// another run whose id starts like this one (`…-t1` and `…-t10`), so it stays.
const REDIS_DROP: &str = "local c, n, p = '0', 0, ARGV[1] \
    repeat \
      local r = redis.call('SCAN', c, 'COUNT', 1000) \
      c = r[1] \
      for _, k in ipairs(r[2]) do \
        if string.sub(k, 1, #p) == p and not string.find(string.sub(k, #p + 1, #p + 1), '[%w_-]') then \
          n = n + redis.call('UNLINK', k) \
        end \
      end \
    until c == '0' \
    return n";

/// Runs the script that it reads, each failure of which ends it. The script itself has no input.
pub(super) const MINIO_SCRIPT: &str = "command -v mc >/dev/null || { echo 'the image has no mc' >&2; exit 127; }; \
    (set -o pipefail) 2>/dev/null && set -o pipefail; script=$(cat); eval \"$script\" </dev/null";

/// Removes one folder from every bucket; an image without the client can't have been seeded. The slash at the end keeps
/// the objects of runs whose ids start like this one.
const MINIO_DROP: &str = "command -v mc >/dev/null || exit 0; p=$(cat); \
    mc ls local | while read -r line; do \
      b=${line##* }; mc rm --recursive --force \"local/${b%/}/${p%/}/\" >/dev/null 2>&1 || true; \
    done";

/// A fixture that has found its store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedPlan {
    pub kind: StoreKind,
    pub slice: Slice,
    pub seed: Seed,
    /// Such as `evalCase.fixtures[0]`.
    pub path: String,
}

/// Finds the store of every fixture.
///
/// # Errors
/// `BAD_REQUEST` with the fixture's place: no store of that kind and role, several without a role given, a store that
/// only carries plumbing or is external, a format that the store doesn't read.
pub fn plan_seeds(
    spec: &ServiceHarness,
    fixtures: &[StoreFixture],
    run: &str,
) -> Result<Vec<SeedPlan>, Fault> {
    fixtures
        .iter()
        .enumerate()
        .map(|(index, fixture)| {
            let path = format!("evalCase.fixtures[{index}]");
            let (dependency, slice) = bind(spec, fixture.store, fixture.role.as_deref(), run, &path)?;
            if dependency.purpose != StorePurpose::Data {
                return Err(Fault::bad_request(format!(
                    "{path}: the store `{}` is plumbing, which takes no fixtures; give it `purpose: data`",
                    dependency.role
                )));
            }
            let format = native_format(fixture.store);
            if fixture.format.is_some_and(|asked| asked != format) {
                return Err(Fault::bad_request(format!(
                    "{path}.format: {} reads `{}` only; leave the format out",
                    kind_name(fixture.store),
                    format_name(format)
                )));
            }
            Ok(SeedPlan {
                kind: fixture.store,
                slice,
                seed: fixture.seed.clone(),
                path,
            })
        })
        .collect()
}

fn native_format(kind: StoreKind) -> SeedFormat {
    match kind {
        StoreKind::Postgres => SeedFormat::Sql,
        StoreKind::Redis => SeedFormat::RedisCmds,
        StoreKind::Minio => SeedFormat::Objects,
    }
}

fn format_name(format: SeedFormat) -> &'static str {
    match format {
        SeedFormat::Sql => "sql",
        SeedFormat::RedisCmds => "redis-cmds",
        SeedFormat::Objects => "objects",
    }
}

/// Finds the one dependency that a kind of store and a role mean, and the run's slice of it.
pub(super) fn bind<'s>(
    spec: &'s ServiceHarness,
    kind: StoreKind,
    role: Option<&str>,
    run: &str,
    path: &str,
) -> Result<(&'s TopologyDependency, Slice), Fault> {
    let refuse = |why: String| Fault::bad_request(format!("{path}: {why}"));
    let of_kind = || {
        spec.dependencies
            .iter()
            .filter(|dependency| dependency.store == kind)
    };
    let roles = || {
        of_kind()
            .map(|dependency| dependency.role.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let meant: Vec<_> = of_kind()
        .filter(|dependency| role.is_none_or(|role| dependency.role == role))
        .collect();
    let dependency = match meant[..] {
        [one] => one,
        [] if of_kind().next().is_none() => {
            return Err(refuse(format!("the harness has no {} store", kind_name(kind))));
        }
        [] => {
            let role = role.unwrap_or_default();
            return Err(refuse(format!(
                "no {} store has the role `{role}`; the roles are {}",
                kind_name(kind),
                roles()
            )));
        }
        _ => {
            return Err(refuse(format!(
                "several {} stores could be meant; name one by `role`: {}",
                kind_name(kind),
                roles()
            )));
        }
    };
    if let Some(slice) = Slice::of(dependency.isolate_by, run) {
        return Ok((dependency, slice));
    }
    Err(refuse(format!(
        "the store `{}` is external, so this runner can't reach into it",
        dependency.role
    )))
}

impl SeedPlan {
    /// Returns the command that seeds; the slice's schema is made if need be.
    ///
    /// # Errors
    /// `BAD_REQUEST` when the text of the seed hasn't been fetched.
    pub fn exec(&self) -> Result<StoreExec, Fault> {
        let Seed::Inline { inline } = &self.seed else {
            return Err(Fault::bad_request(format!(
                "{}.seed.ref: this runner has no way to fetch the text; send it as `inline`",
                self.path
            )));
        };
        let mut exec = match self.kind {
            StoreKind::Postgres => {
                let schema = self.slice.schema();
                let mut argv = psql();
                argv.extend(["-1", "-c"].map(str::to_owned));
                argv.push(format!("CREATE SCHEMA IF NOT EXISTS {schema}"));
                argv.extend(["-c".to_owned(), format!("SET search_path TO {schema}")]);
                argv.extend(["-f", "-"].map(str::to_owned));
                StoreExec::new(self.kind, argv, inline.clone().into_bytes())
            }
            StoreKind::Redis => StoreExec::new(
                self.kind,
                redis(&[]),
                with_prefix(inline, &self.slice).into_bytes(),
            ),
            StoreKind::Minio => StoreExec::new(
                self.kind,
                shell(MINIO_SCRIPT),
                with_prefix(inline, &self.slice).into_bytes(),
            ),
        };
        if self.kind == StoreKind::Redis {
            exec.replies = Replies::RedisOnStdout;
        }
        Ok(exec.meant_to("seed", &self.path))
    }
}

/// Returns the commands that take a run's slices away: before it is seeded and after it is graded.
pub fn drops(spec: &ServiceHarness, run: &str) -> Vec<StoreExec> {
    let mut done: Vec<(StoreKind, Slice)> = Vec::new();
    let mut execs = Vec::new();
    for (index, dependency) in spec.dependencies.iter().enumerate() {
        let Some(slice) = Slice::of(dependency.isolate_by, run) else {
            continue;
        };
        let key = (dependency.store, slice);
        if done.contains(&key) {
            continue;
        }
        let path = format!("harnessSpec.dependencies[{index}]");
        execs.push(drop_slice(key.0, &key.1).meant_to("drop a run's part of", &path));
        done.push(key);
    }
    execs
}

fn drop_slice(kind: StoreKind, slice: &Slice) -> StoreExec {
    match kind {
        StoreKind::Postgres => {
            let mut argv = psql();
            argv.extend(["-c".to_owned(), format!("SET lock_timeout TO {DROP_LOCK_MS}")]);
            argv.extend([
                "-c".to_owned(),
                format!("DROP SCHEMA IF EXISTS {} CASCADE", slice.schema()),
            ]);
            StoreExec::new(kind, argv, Vec::new())
        }
        StoreKind::Redis => {
            let mut exec = StoreExec::new(
                kind,
                redis(&["EVAL", REDIS_DROP, "0", slice.as_str()]),
                Vec::new(),
            );
            exec.replies = Replies::RedisOnStdout;
            exec
        }
        StoreKind::Minio => StoreExec::new(kind, shell(MINIO_DROP), slice.as_str().as_bytes().to_vec()),
    }
}

/// Talks over TCP, as readiness was found: the socket also answers while the database is being made.
pub(super) fn psql() -> Vec<String> {
    [
        "psql",
        "-X",
        "-q",
        "-v",
        "ON_ERROR_STOP=1",
        "-h",
        "127.0.0.1",
        "-U",
        USER,
        "-d",
        USER,
    ]
    .map(str::to_owned)
    .to_vec()
}

pub(super) fn redis(args: &[&str]) -> Vec<String> {
    ["redis-cli", "--no-raw"]
        .iter()
        .chain(args)
        .map(|arg| (*arg).to_owned())
        .collect()
}

pub(super) fn shell(script: &str) -> Vec<String> {
    ["sh", "-e", "-c", script].map(str::to_owned).to_vec()
}

pub(super) fn with_prefix(text: &str, slice: &Slice) -> String {
    text.replace("{prefix}", slice.as_str())
}

/// Tells whether any store is the runtime's own, so that there is something to drop.
pub fn has_slices(spec: &ServiceHarness) -> bool {
    spec.dependencies
        .iter()
        .any(|dependency| dependency.isolate_by != IsolateBy::External)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::spec;
    use everdict_contracts::{ErrorCode, decode};
    use serde_json::{Value, json};

    fn harness() -> ServiceHarness {
        decode(spec(
            json!([{"name": "web", "image": "i", "port": 1}]),
            json!([
                {"store": "postgres", "role": "app", "isolateBy": "schema", "purpose": "data"},
                {"store": "redis", "role": "queue", "isolateBy": "key-prefix"},
                {"store": "redis", "role": "cache", "isolateBy": "key-prefix", "purpose": "data"},
                {"store": "minio", "role": "files", "isolateBy": "external"}
            ]),
        ))
        .unwrap()
    }

    fn plan(fixture: Value) -> Result<SeedPlan, String> {
        let fixture: StoreFixture = decode(fixture).unwrap();
        match plan_seeds(&harness(), &[fixture], "R1") {
            Ok(mut plans) => Ok(plans.remove(0)),
            Err(fault) => {
                assert_eq!(fault.code, ErrorCode::BadRequest);
                Err(fault.message)
            }
        }
    }

    #[test]
    fn a_fixture_finds_its_store_or_says_why_not() {
        let seed = json!({"inline": "x"});
        assert!(plan(json!({"store": "postgres", "seed": seed})).is_ok());
        assert!(plan(json!({"store": "redis", "role": "cache", "seed": seed})).is_ok());
        let cases = [
            (
                json!({"store": "redis", "seed": seed}),
                "several redis stores could be meant; name one by `role`: queue, cache",
            ),
            (
                json!({"store": "redis", "role": "x", "seed": seed}),
                "no redis store has the role `x`; the roles are queue, cache",
            ),
            (
                json!({"store": "redis", "role": "queue", "seed": seed}),
                "the store `queue` is plumbing, which takes no fixtures; give it `purpose: data`",
            ),
            (
                json!({"store": "minio", "seed": seed}),
                "the store `files` is external, so this runner can't reach into it",
            ),
        ];
        for (fixture, why) in cases {
            assert_eq!(plan(fixture).unwrap_err(), format!("evalCase.fixtures[0]: {why}"));
        }
        let error = plan(json!({"store": "postgres", "seed": seed, "format": "objects"})).unwrap_err();
        assert_eq!(
            error,
            "evalCase.fixtures[0].format: postgres reads `sql` only; leave the format out"
        );
    }

    #[test]
    fn a_large_seed_goes_in_by_stream_and_never_by_argument() {
        let large = "INSERT INTO t VALUES (1);\n".repeat(100_000);
        for (kind, role) in [("postgres", "app"), ("redis", "cache")] {
            let plan = plan(json!({"store": kind, "role": role, "seed": {"inline": large}})).unwrap();
            let exec = plan.exec().unwrap();
            assert!(exec.stdin.len() >= large.len());
            assert!(exec.argv.iter().map(String::len).sum::<usize>() < 4096);
        }
    }

    #[test]
    fn a_seed_goes_to_the_quoted_schema_that_the_agent_is_told() {
        let exec = plan(json!({"store": "postgres", "seed": {"inline": "x"}}))
            .unwrap()
            .exec()
            .unwrap();
        let (_, schema) = super::super::slice::wiring(IsolateBy::Schema, "R1").unwrap();
        assert!(
            exec.argv
                .contains(&format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\"")),
            "{:?}",
            exec.argv
        );
        assert!(
            exec.argv.contains(&format!("SET search_path TO \"{schema}\"")),
            "{:?}",
            exec.argv
        );
    }

    #[test]
    fn a_prefix_is_filled_in_everywhere() {
        let exec = plan(
            json!({"store": "redis", "role": "cache", "seed": {"inline": "SET {prefix}:a 1\nGET {prefix}:a"}}),
        );
        assert_eq!(
            exec.unwrap().exec().unwrap().stdin,
            b"SET run-R1:a 1\nGET run-R1:a"
        );
    }

    #[test]
    fn a_seed_that_was_not_fetched_is_refused() {
        let fault = plan(json!({"store": "postgres", "seed": {"ref": "s3://x"}}))
            .unwrap()
            .exec()
            .unwrap_err();
        assert!(
            fault.message.starts_with("evalCase.fixtures[0].seed.ref: "),
            "{fault}"
        );
    }

    #[test]
    fn each_slice_is_dropped_once_and_external_ones_never() {
        let drops = drops(&harness(), "R1");
        let kinds: Vec<StoreKind> = drops.iter().map(|exec| exec.kind).collect();
        assert_eq!(kinds, [StoreKind::Postgres, StoreKind::Redis]);
    }
}
