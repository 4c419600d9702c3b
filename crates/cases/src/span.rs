//! Ids that tie what an agent exports to its run.

use uuid::Uuid;

/// FNV-1a's 32-bit prime.
const FNV_PRIME: u32 = 0x0100_0193;

/// Where each of the four 32-bit lanes of a trace id starts; the control plane derives the same id from the run id.
const LANES: [u32; 4] = [0x811c_9dc5, 0x0100_0193, 0x9e37_79b9, 0x85eb_ca6b];

/// The W3C trace id of a run: 32 hex digits, the same wherever it is derived.
fn trace_id(run_id: &str) -> String {
    let lane = |start: u32| {
        run_id.encode_utf16().fold(start, |hash, unit| {
            (hash ^ u32::from(unit)).wrapping_mul(FNV_PRIME)
        })
    };
    LANES
        .iter()
        .map(|start| format!("{:08x}", lane(*start)))
        .collect()
}

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
    fn the_trace_id_follows_from_the_run_id() {
        // An empty input leaves each lane at its start.
        assert_eq!(trace_id(""), "811c9dc5010001939e3779b985ebca6b");
        // "a" in the first lane is FNV-1a's published test vector.
        assert!(trace_id("a").starts_with("e40c292c"));
        assert_eq!(trace_id("run-1"), trace_id("run-1"));
        assert_ne!(trace_id("run-1"), trace_id("run-2"));
    }

    #[test]
    fn a_traceparent_has_the_w3c_shape() {
        let parent = traceparent("run-1");
        let parts: Vec<_> = parent.split('-').collect();
        assert_eq!(parts.len(), 4);
        assert_eq!(
            (parts[0].len(), parts[1].len(), parts[2].len(), parts[3]),
            (2, 32, 16, "01")
        );
        assert_ne!(parent, traceparent("run-1"), "each span has its own id");
    }
}
