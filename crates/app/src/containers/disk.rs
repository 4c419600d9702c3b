//! How much room there is.

use std::fmt;
use std::path::{Path, PathBuf};

/// A disk with less free than the floor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Low {
    place: PathBuf,
    free: u64,
    floor: u64,
}

impl fmt::Display for Low {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (free, floor) = (size(self.free), size(self.floor));
        write!(
            f,
            "disk low: {free} free at {}, {floor} wanted (topology.disk_floor_gb)",
            self.place.display()
        )
    }
}

/// Finds the fullest of the disks that has less free than `floor` bytes. One that can't be measured counts as roomy.
pub(super) fn below<'a>(floor: u64, places: impl IntoIterator<Item = &'a Path>) -> Option<Low> {
    let measured = places.into_iter().filter_map(|place| {
        let free = free_bytes(place)?;
        Some(Low {
            place: place.to_owned(),
            free,
            floor,
        })
    });
    measured.filter(|low| low.free < floor).min_by_key(|low| low.free)
}

/// Measures the nearest existing folder above `path`; the folder itself may not be there yet.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let existing = path.ancestors().find(|dir| dir.is_dir())?;
    let stat = rustix::fs::statvfs(existing).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Shows a size in the units of disks: `840 MB`, `5.4 GB`, `123 GB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    const MB: u64 = 1_000_000;
    const GB: u64 = 1_000 * MB;
    match bytes {
        0..GB => format!("{} MB", bytes / MB),
        GB..=9_999_999_999 => format!("{}.{} GB", bytes / GB, bytes % GB / (100 * MB)),
        _ => format!("{} GB", bytes / GB),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_is_measured_above_a_folder_that_is_not_there_yet() {
        let dir = tempfile::tempdir().unwrap();
        assert!(free_bytes(&dir.path().join("a/b/c")).unwrap() > 0);
    }

    #[test]
    fn a_disk_below_the_floor_is_named_with_both_figures() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(below(0, [dir.path()]), None);
        let low = below(u64::MAX, [dir.path()]).unwrap();
        let text = low.to_string();
        assert!(
            text.starts_with("disk low: ") && text.contains("wanted"),
            "{text}"
        );
    }

    #[test]
    fn sizes_have_the_units_of_disks() {
        for (bytes, text) in [
            (12_000_000, "12 MB"),
            (5_400_000_000, "5.4 GB"),
            (123_456_789_012, "123 GB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
