//! Reads the state of a run's slice for a grader, without changing it.

use everdict_contracts::{Fault, ServiceHarness, StoreKind};

use super::exec::{Replies, StoreExec};
use super::seed::{MINIO_SCRIPT, bind, psql, shell, with_prefix};

/// Answers twice: in the client's readable form, in which errors show, to the error stream; then as the values stand.
const REDIS_READ: &str = "query=$(cat); \
    printf '%s\\n' \"$query\" | redis-cli --no-raw >&2; \
    printf '%s\\n' \"$query\" | redis-cli";

/// What to read, of which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreQuery<'a> {
    pub store: StoreKind,
    /// Needed when several stores are of the kind.
    pub role: Option<&'a str>,
    /// SQL, Redis commands, or a script over `mc`, with `{prefix}` in the latter two. Redis runs it twice.
    pub query: &'a str,
    /// Place in the job, such as `evalCase.graders[1].config`.
    pub path: &'a str,
}

/// Returns the command that reads; what it prints is the answer.
///
/// # Errors
/// `BAD_REQUEST` with the place when no store, or none in particular, is meant, or it is external.
pub fn read(spec: &ServiceHarness, run: &str, query: &StoreQuery<'_>) -> Result<StoreExec, Fault> {
    let (_, slice) = bind(spec, query.store, query.role, run, query.path)?;
    let exec = match query.store {
        StoreKind::Postgres => {
            let mut argv = psql();
            argv.extend(["-t", "-A"].map(str::to_owned));
            for command in ["BEGIN TRANSACTION READ ONLY", query.query, "ROLLBACK"] {
                argv.extend(["-c".to_owned(), command.to_owned()]);
            }
            let mut exec = StoreExec::new(query.store, argv, Vec::new());
            // The default holds even where the query ends the transaction that it runs in.
            let options = format!(
                "-c default_transaction_read_only=on -c search_path={}",
                slice.schema()
            );
            exec.env.push(("PGOPTIONS".to_owned(), options));
            exec
        }
        StoreKind::Redis => {
            let query_text = with_prefix(query.query, &slice).into_bytes();
            let mut exec = StoreExec::new(query.store, shell(REDIS_READ), query_text);
            exec.replies = Replies::RedisOnStderr;
            exec
        }
        StoreKind::Minio => {
            let script = with_prefix(query.query, &slice).into_bytes();
            StoreExec::new(query.store, shell(MINIO_SCRIPT), script)
        }
    };
    Ok(exec.meant_to("read", query.path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::spec;
    use everdict_contracts::{IsolateBy, decode};
    use serde_json::json;

    fn harness() -> ServiceHarness {
        decode(spec(
            json!([{"name": "web", "image": "i", "port": 1}]),
            json!([
                {"store": "postgres", "role": "app", "isolateBy": "schema"},
                {"store": "minio", "role": "files", "isolateBy": "external"}
            ]),
        ))
        .unwrap()
    }

    fn query(store: StoreKind) -> StoreQuery<'static> {
        StoreQuery {
            store,
            role: None,
            query: "SELECT 1",
            path: "evalCase.graders[0].config",
        }
    }

    /// Once the seed's schema was quoted and the read's was not, which folds to lower case.
    #[test]
    fn a_read_looks_into_the_very_schema_that_was_seeded() {
        let exec = read(&harness(), "UPPER", &query(StoreKind::Postgres)).unwrap();
        let (_, schema) = super::super::slice::wiring(IsolateBy::Schema, "UPPER").unwrap();
        let options = exec.env.iter().find(|(name, _)| name == "PGOPTIONS").unwrap();
        assert!(
            options.1.ends_with(&format!("search_path=\"{schema}\"")),
            "{options:?}"
        );
        assert!(options.1.contains("default_transaction_read_only=on"));
    }

    #[test]
    fn plumbing_may_be_read_and_an_external_store_may_not() {
        assert!(read(&harness(), "r", &query(StoreKind::Postgres)).is_ok());
        let fault = read(&harness(), "r", &query(StoreKind::Minio)).unwrap_err();
        assert!(
            fault
                .message
                .starts_with("evalCase.graders[0].config: the store `files` is external"),
            "{fault}"
        );
        let fault = read(&harness(), "r", &query(StoreKind::Redis)).unwrap_err();
        assert_eq!(
            fault.message,
            "evalCase.graders[0].config: the harness has no redis store"
        );
    }
}
