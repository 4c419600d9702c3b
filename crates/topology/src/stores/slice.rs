//! The part of a store that belongs to one run: one function for what the agent is told, what is seeded, read and
//! dropped, so that they can't disagree.

use everdict_contracts::IsolateBy;

use crate::digest::short_hash;

/// Longest identifier of PostgreSQL; what is longer gets cut without an error, and two runs would meet.
const MAX_IDENTIFIER_BYTES: usize = 63;
/// Hex digits in a hashed identifier: 80 bits never collide by chance.
const HASH_DIGITS: usize = 20;
/// Characters of a run id that is kept as it is; control planes make them shorter than this.
const MAX_RUN_CHARS: usize = 120;

/// A run's part of a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slice(String);

impl Slice {
    /// Returns the slice of a run, `None` for an external store.
    ///
    /// Run ids go into scripts, patterns and paths, so one with any other character than letters, digits, `.`, `_`,
    /// `-`, `:`, `@` or `#` is replaced by a hash; the agent gets told the same.
    pub fn of(isolate_by: IsolateBy, run: &str) -> Option<Self> {
        let run_id = safe_run(run);
        match isolate_by {
            IsolateBy::ThreadId | IsolateBy::KeyPrefix => Some(Self(format!("run-{run_id}"))),
            IsolateBy::ObjectPrefix => Some(Self(format!("runs/{run_id}/"))),
            IsolateBy::Schema => Some(Self(format!("r_{}", short_hash(&[run], HASH_DIGITS)))),
            IsolateBy::External => None,
        }
    }

    /// Returns the slice as the agent is told it: a thread id, a prefix or the name of a schema.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the schema that stands for the slice in PostgreSQL, as a quoted identifier.
    pub(crate) fn schema(&self) -> String {
        let name = if self.0.len() <= MAX_IDENTIFIER_BYTES {
            self.0.clone()
        } else {
            format!("r_{}", short_hash(&[&self.0], HASH_DIGITS))
        };
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// Returns name and value of the variable by which a run's agent learns its slice; nothing for an external store.
pub fn wiring(isolate_by: IsolateBy, run: &str) -> Option<(&'static str, String)> {
    let name = match isolate_by {
        IsolateBy::ThreadId => "thread_id",
        IsolateBy::KeyPrefix => "key_prefix",
        IsolateBy::ObjectPrefix => "object_prefix",
        IsolateBy::Schema => "schema",
        IsolateBy::External => return None,
    };
    Slice::of(isolate_by, run).map(|slice| (name, slice.0))
}

fn safe_run(run: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | '@' | '#');
    if !run.is_empty() && run.len() <= MAX_RUN_CHARS && run.chars().all(plain) && !run.contains("..") {
        return run.to_owned();
    }
    short_hash(&[run], HASH_DIGITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(isolate_by: IsolateBy, run: &str) -> String {
        Slice::of(isolate_by, run).unwrap().0
    }

    #[test]
    fn the_agent_is_told_what_the_protocol_says() {
        assert_eq!(
            wiring(IsolateBy::ThreadId, "r1"),
            Some(("thread_id", "run-r1".to_owned()))
        );
        assert_eq!(
            wiring(IsolateBy::KeyPrefix, "r1"),
            Some(("key_prefix", "run-r1".to_owned()))
        );
        assert_eq!(
            wiring(IsolateBy::ObjectPrefix, "r1"),
            Some(("object_prefix", "runs/r1/".to_owned()))
        );
        assert_eq!(wiring(IsolateBy::External, "r1"), None);
        let (name, schema) = wiring(IsolateBy::Schema, "r1").unwrap();
        assert_eq!(name, "schema");
        assert!(schema.len() == 22 && schema.starts_with("r_"), "{schema}");
    }

    /// Quoted or not, a schema must be the same one.
    #[test]
    fn a_schema_survives_upper_case_run_ids() {
        let schema = text(IsolateBy::Schema, "evd-Batch-CaseA-t0");
        assert_eq!(schema, schema.to_ascii_lowercase());
        assert_ne!(schema, text(IsolateBy::Schema, "evd-batch-casea-t0"));
    }

    /// A cut identifier would be the same for both trials.
    #[test]
    fn trials_with_long_run_ids_have_schemas_of_their_own() {
        let run = |trial: u8| format!("evd-{}-t{trial}", "c".repeat(80));
        for isolate_by in [IsolateBy::Schema, IsolateBy::ThreadId, IsolateBy::ObjectPrefix] {
            let schema = |trial| Slice::of(isolate_by, &run(trial)).unwrap().schema();
            assert_ne!(schema(0), schema(1));
            assert!(schema(0).len() <= MAX_IDENTIFIER_BYTES + 2, "{}", schema(0));
        }
    }

    #[test]
    fn a_run_id_that_could_break_out_of_a_script_is_hashed() {
        for run in [
            "a b",
            "a'b",
            "a;rm -rf /",
            "$(x)",
            "a\nFLUSHALL",
            "a*",
            "../..",
            "",
            "ü",
            "a\"b",
            "[a]",
        ] {
            let slice = text(IsolateBy::ObjectPrefix, run);
            assert!(
                slice["runs/".len()..slice.len() - 1]
                    .chars()
                    .all(|c| c.is_ascii_hexdigit()),
                "{run}: {slice}"
            );
        }
        assert_eq!(
            text(IsolateBy::KeyPrefix, "evd-b.1_c:2@x#g3"),
            "run-evd-b.1_c:2@x#g3"
        );
    }
}
