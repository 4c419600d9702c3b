//! How much room there is.

use std::fmt;
use std::path::{Path, PathBuf};

use everdict_contracts::{CaseJob, DiskSize, ErrorCode, Fault, HarnessSpec, ResourceRequest};

/// A disk with less free than the floor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Low {
    place: PathBuf,
    free: u64,
    floor: u64,
}

/// The free disk that a job asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    bytes: u64,
    /// Where in the job it says so.
    path: String,
}

impl Wanted {
    /// What `job` asks for, if it asks. A case and its command harness speak of the same files, so the larger counts;
    /// the services of a topology have their files each for itself, so theirs add up.
    pub(crate) fn of(job: &CaseJob) -> Option<Self> {
        let asked = |resources: Option<ResourceRequest>| {
            resources
                .and_then(|resources| resources.disk)
                .map(DiskSize::bytes)
        };
        let mut wanted: Vec<(u64, String)> = Vec::new();
        let mut note = |bytes: Option<u64>, path: String| wanted.extend(bytes.map(|bytes| (bytes, path)));
        note(
            asked(job.eval_case.resources),
            "evalCase.resources.disk".to_owned(),
        );
        match &job.harness_spec {
            Some(HarnessSpec::Command(command)) => {
                note(asked(command.resources), "harnessSpec.resources.disk".to_owned());
            }
            Some(HarnessSpec::Service(service)) => {
                let services: Vec<_> = (0_u8..)
                    .zip(&service.services)
                    .filter_map(|(index, service)| Some((index, asked(service.resources)?)))
                    .collect();
                let sum = services
                    .iter()
                    .fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
                let path = match services[..] {
                    [(index, _)] => format!("harnessSpec.services[{index}].resources.disk"),
                    _ => "harnessSpec.services[*].resources.disk together".to_owned(),
                };
                note((!services.is_empty()).then_some(sum), path);
            }
            _ => {}
        }
        let (bytes, path) = wanted.into_iter().max_by_key(|(bytes, _)| *bytes)?;
        Some(Self { bytes, path })
    }

    /// # Errors
    /// Infra, retryable, beginning with `disk`: one of `places` has less free. One that can't be measured counts as
    /// roomy.
    pub(crate) fn check<'a>(&self, places: impl IntoIterator<Item = &'a Path>) -> Result<(), Fault> {
        self.check_by(free_bytes, places)
    }

    fn check_by<'a>(
        &self,
        measure: impl Fn(&Path) -> Option<u64>,
        places: impl IntoIterator<Item = &'a Path>,
    ) -> Result<(), Fault> {
        let Some(low) = below_by(measure, self.bytes, places) else {
            return Ok(());
        };
        let (free, wanted, place) = (size(low.free), size(self.bytes), low.place.display());
        let path = &self.path;
        let why = format!("disk: {free} free at {place}, {wanted} wanted by {path}; free some space there");
        Err(Fault::new(ErrorCode::DriverProvisionFailed, why).with_data("reason", "disk"))
    }
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
    below_by(free_bytes, floor, places)
}

fn below_by<'a>(
    measure: impl Fn(&Path) -> Option<u64>,
    floor: u64,
    places: impl IntoIterator<Item = &'a Path>,
) -> Option<Low> {
    let measured = places.into_iter().filter_map(|place| {
        let free = measure(place)?;
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
    use everdict_contracts::decode;
    use serde_json::{Value, json};

    use super::*;

    const GB: u64 = 1_000_000_000;

    fn job(case: &Value, harness: &Value) -> CaseJob {
        let text = json!({
            "evalCase": {"id": "c", "env": {"kind": "prompt"}, "task": "t", "resources": case},
            "harness": {"id": "h", "version": "1"},
            "harnessSpec": harness,
        });
        decode(text).unwrap()
    }

    fn command(resources: &Value) -> Value {
        json!({"kind": "command", "id": "h", "version": "1", "command": "true", "resources": resources})
    }

    fn services(disks: &[Value]) -> Value {
        let services: Vec<Value> = disks
            .iter()
            .zip(["a", "b", "c"])
            .map(|(disk, name)| json!({"name": name, "image": "i", "port": 80, "resources": {"disk": disk}}))
            .collect();
        json!({"kind": "service", "id": "h", "version": "1", "services": services,
            "frontDoor": {"service": "a", "submit": "/run"},
            "traceSource": {"kind": "otel", "endpoint": "http://trace"}})
    }

    #[test]
    fn a_job_that_wants_50_gb_is_handed_back_where_30_are_free() {
        let wanted = Wanted::of(&job(&json!({"disk": "50GB"}), &command(&json!({})))).unwrap();
        let place = [Path::new("/var/lib/docker")];
        let fault = wanted.check_by(|_| Some(30 * GB), place).unwrap_err();
        assert_eq!(
            fault.message,
            "disk: 30 GB free at /var/lib/docker, 50 GB wanted by evalCase.resources.disk; free some space there"
        );
        assert!(fault.failure().retryable);
        assert_eq!(fault.extra.data.as_ref().unwrap()["reason"], "disk");
        assert_eq!(wanted.check_by(|_| Some(50 * GB), place).ok(), Some(()));
    }

    #[test]
    fn eight_gb_are_below_a_floor_of_ten() {
        let low = below_by(|_| Some(8 * GB), 10 * GB, [Path::new("/data")]).unwrap();
        assert_eq!(
            low.to_string(),
            "disk low: 8.0 GB free at /data, 10 GB wanted (topology.disk_floor_gb)"
        );
    }

    #[test]
    fn what_a_job_wants_is_found_wherever_it_says_so() {
        let of =
            |case, harness| Wanted::of(&job(&case, &harness)).map(|wanted| (wanted.bytes / GB, wanted.path));
        assert_eq!(of(json!({"cpu": 1}), command(&json!({}))), None);
        assert_eq!(
            of(json!({"disk": "5GB"}), command(&json!({"disk": "7GB"}))),
            Some((7, "harnessSpec.resources.disk".to_owned()))
        );
        assert_eq!(
            of(json!({}), services(&[json!("3GB"), json!("4GB")])),
            Some((7, "harnessSpec.services[*].resources.disk together".to_owned()))
        );
        assert_eq!(
            of(json!({"disk": "5GB"}), services(&[json!("3GB")])),
            Some((5, "evalCase.resources.disk".to_owned()))
        );
        assert_eq!(
            of(json!({}), services(&[json!(3 * GB)])),
            Some((3, "harnessSpec.services[0].resources.disk".to_owned()))
        );
    }

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
