//! Ids that follow from other ids, the same wherever they are derived.

/// FNV-1a's 32-bit prime.
const FNV_PRIME: u32 = 0x0100_0193;

/// Where each of the four 32-bit lanes starts; the control plane derives the same ids.
const LANES: [u32; 4] = [0x811c_9dc5, 0x0100_0193, 0x9e37_79b9, 0x85eb_ca6b];

/// Hex digits of a W3C span id.
const SPAN_DIGITS: usize = 16;

/// Returns the W3C trace id of a run: 32 hex digits.
pub fn trace_id(run_id: &str) -> String {
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

/// Returns the span id under which a backend's own span is known here: 16 hex digits.
pub fn span_id(platform_id: &str) -> String {
    let mut id = trace_id(platform_id);
    id.truncate(SPAN_DIGITS);
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_from_their_source() {
        // An empty input leaves each lane at its start.
        assert_eq!(trace_id(""), "811c9dc5010001939e3779b985ebca6b");
        // "a" in the first lane is FNV-1a's published test vector.
        assert!(trace_id("a").starts_with("e40c292c"));
        assert_eq!(span_id("a"), trace_id("a")[..16]);
        assert_ne!(span_id("a"), span_id("b"));
    }
}
