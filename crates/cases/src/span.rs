//! Ids that tie what an agent exports to its run.

use everdict_traces::ids::trace_id;
use uuid::Uuid;

/// A `TRACEPARENT` for a new span of the run.
pub(crate) fn traceparent(run_id: &str) -> String {
    let span = Uuid::new_v4().simple().to_string();
    format!("00-{}-{}-01", trace_id(run_id), &span[..16])
}

/// A run id for a job that brings none.
pub(crate) fn own_run_id() -> String {
    format!("everdict-{}", Uuid::now_v7().simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_has_the_w3c_shape() {
        let parent = traceparent("run-1");
        let parts: Vec<_> = parent.split('-').collect();
        assert_eq!(parts.len(), 4);
        assert_eq!(
            (parts[0].len(), parts[1].len(), parts[2].len(), parts[3]),
            (2, 32, 16, "01")
        );
        assert_eq!(
            parts[1],
            trace_id("run-1"),
            "the id that the trace is looked for by"
        );
        assert_ne!(parent, traceparent("run-1"), "each span has its own id");
    }
}
