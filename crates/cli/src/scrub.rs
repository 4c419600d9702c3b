//! Wipes secrets out of what the kernel shows of this process: its arguments and its first environment.
//!
//! Removing a variable only takes it off a list; the bytes stay readable in `/proc/<pid>/environ`, by
//! every child through `/proc/$PPID`. Likewise `--pair rnr_…` stays in `/proc/<pid>/cmdline`.

/// Overwrites each of `secrets` in the argument and environment blocks of this process.
///
/// Must run before any thread starts. Best effort: where the kernel doesn't say where the blocks lie, nothing happens.
#[cfg(target_os = "linux")]
pub(crate) fn wipe(secrets: &[&[u8]]) {
    if secrets.iter().all(|secret| secret.is_empty()) {
        return;
    }
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else {
        return;
    };
    let Some(blocks) = blocks(&stat) else {
        return;
    };
    for (start, end) in blocks {
        // SAFETY: the kernel put the argument and environment strings of this process at these
        // addresses, writable and mapped for the whole life of the process; no other thread runs yet,
        // and only bytes between a secret's first and last are changed, so every string stays terminated.
        let block = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, end - start) };
        for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
            overwrite(block, secret);
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn wipe(_secrets: &[&[u8]]) {}

fn overwrite(block: &mut [u8], secret: &[u8]) {
    let mut at = 0;
    while at + secret.len() <= block.len() {
        if block[at..].starts_with(secret) {
            block[at..at + secret.len()].fill(b'x');
            at += secret.len();
        } else {
            at += 1;
        }
    }
}

/// Start and end of the argument block and of the environment block: fields 48 to 51 of `/proc/<pid>/stat`.
#[cfg(target_os = "linux")]
fn blocks(stat: &str) -> Option<[(usize, usize); 2]> {
    // The program's name may hold spaces and parentheses; the last one ends it, before field 3.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<usize> = rest
        .split_ascii_whitespace()
        .skip(45)
        .take(4)
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    let [arg_start, arg_end, env_start, env_end] = fields.try_into().ok()?;
    let ordered = arg_start > 0 && arg_start <= arg_end && env_start > 0 && env_start <= env_end;
    ordered.then_some([(arg_start, arg_end), (env_start, env_end)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_occurrence_goes_and_nothing_else() {
        let mut block = b"A=1\0T=rnr_abc\0B=rnr_abcd\0".to_vec();
        overwrite(&mut block, b"rnr_abc");
        assert_eq!(block, b"A=1\0T=xxxxxxx\0B=xxxxxxxd\0");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_kernel_says_where_the_blocks_lie() {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let [(arg_start, arg_end), (env_start, env_end)] = blocks(&stat).unwrap();
        let cmdline = std::fs::read("/proc/self/cmdline").unwrap();
        assert_eq!(arg_end - arg_start, cmdline.len());
        assert!(arg_end <= env_start && env_start <= env_end);
    }
}
