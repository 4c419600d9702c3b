//! The most that each kind of container may use.

use everdict_contracts::ResourceRequest;

use super::Limits;

const MIB: u64 = 1024 * 1024;
/// What a service may use that says nothing: enough for an agent with a model client, little enough that one that
/// leaks doesn't take the machine down with it.
const SERVICE_MEMORY_BYTES: i64 = 4096 * MIB as i64;
/// Thread pools of a large runtime fit several times over; a fork bomb ends here.
const SERVICE_PIDS: i64 = 2048;
/// A page with heavy scripts takes several hundred MB, and shared memory counts in.
const BROWSER_MEMORY_BYTES: i64 = 4096 * MIB as i64;
/// Chromium starts eight processes with some twenty threads each, and more for every page.
const BROWSER_PIDS: i64 = 2048;
/// Chromium keeps bitmaps in shared memory; the engine's default of 64 MB makes larger pages crash.
pub(super) const BROWSER_SHM_BYTES: u64 = 1024 * MIB;
/// The engine refuses less than 6 MB.
const LEAST_MEMORY_MB: u64 = 6;
/// Billionths of a core in a thousandth.
const NANOS_PER_MILLI: u64 = 1_000_000;

/// Returns the limits of a service, or which field can't be met and why.
pub(crate) fn of_service(wanted: ResourceRequest) -> Result<Limits, (&'static str, String)> {
    let cpu_nanos = wanted
        .cpu
        .map(|milli| {
            milli
                .checked_mul(NANOS_PER_MILLI)
                .and_then(|nanos| i64::try_from(nanos).ok())
                .ok_or(milli)
        })
        .transpose()
        .map_err(|milli| {
            (
                "cpu",
                format!("{milli} is no number of cores; 1000 stands for one core"),
            )
        })?;
    let memory_bytes = match wanted.memory_mb {
        None => SERVICE_MEMORY_BYTES,
        Some(megabytes) if megabytes < LEAST_MEMORY_MB => {
            return Err((
                "memoryMb",
                format!("{megabytes} MB is too little; the least is {LEAST_MEMORY_MB}"),
            ));
        }
        Some(megabytes) => megabytes
            .checked_mul(MIB)
            .and_then(|bytes| i64::try_from(bytes).ok())
            .ok_or_else(|| ("memoryMb", format!("{megabytes} MB is more than any machine has")))?,
    };
    Ok(Limits {
        cpu_nanos,
        memory_bytes,
        pids: SERVICE_PIDS,
    })
}

/// Returns the limits of a browser.
pub(super) fn of_browser() -> Limits {
    Limits {
        cpu_nanos: None,
        memory_bytes: BROWSER_MEMORY_BYTES,
        pids: BROWSER_PIDS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_is_one_core_and_megabytes_are_binary() {
        let limits = of_service(ResourceRequest {
            cpu: Some(1500),
            memory_mb: Some(64),
            ..ResourceRequest::default()
        })
        .unwrap();
        assert_eq!(limits.cpu_nanos, Some(1_500_000_000));
        assert_eq!(limits.memory_bytes, 64 * 1024 * 1024);
    }

    #[test]
    fn a_service_that_says_nothing_is_still_bounded() {
        let limits = of_service(ResourceRequest::default()).unwrap();
        assert_eq!(limits.cpu_nanos, None);
        assert!(limits.memory_bytes > 0 && limits.pids > 0);
    }

    #[test]
    fn what_no_machine_can_give_is_refused() {
        let refused = |cpu, memory_mb| {
            of_service(ResourceRequest {
                cpu,
                memory_mb,
                ..ResourceRequest::default()
            })
            .unwrap_err()
            .0
        };
        assert_eq!(refused(Some(u64::MAX), None), "cpu");
        assert_eq!(refused(None, Some(5)), "memoryMb");
        assert_eq!(refused(None, Some(u64::MAX)), "memoryMb");
    }
}
