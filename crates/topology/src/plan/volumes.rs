//! What a service may mount: volumes of the topology's own, and folders of the host that the member allows.

use std::path::{Component, Path, PathBuf};

use super::{MountPlan, VolumePolicy};
use crate::names;

/// Reads one `volumes` entry: `name:/target[:ro]`, `/target` or `/host/path:/target[:ro]`.
///
/// The topology's own volumes get its name in front, so that a spec can't reach a volume of the member.
///
/// # Errors
/// Why it is refused, and the way out.
pub(super) fn mount(
    entry: &str,
    topology: &str,
    service: &str,
    policy: &VolumePolicy,
) -> Result<MountPlan, String> {
    let (body, read_only) = match entry.strip_suffix(":ro") {
        Some(body) => (body, true),
        None => (entry.strip_suffix(":rw").unwrap_or(entry), false),
    };
    let (source, target) = match body.rsplit_once(':') {
        Some((source, target)) => (Some(source), target),
        None => (None, body),
    };
    let target = check_target(target)?;
    match source {
        None => {
            let volume = names::volume(topology, &format!("{service}{target}"));
            Ok(MountPlan::Volume {
                volume,
                target,
                read_only,
            })
        }
        Some(name) if is_volume_name(name) => Ok(MountPlan::Volume {
            volume: names::volume(topology, name),
            target,
            read_only,
        }),
        Some(path) => {
            let source = allowed(path, policy)?;
            Ok(MountPlan::Host {
                source,
                target,
                read_only,
            })
        }
    }
}

fn check_target(target: &str) -> Result<String, String> {
    let path = Path::new(target);
    let plain = path.is_absolute()
        && path != Path::new("/")
        && path
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if plain && !target.contains([',', '\0']) {
        Ok(target.trim_end_matches('/').to_owned())
    } else {
        Err(format!(
            "`{target}` is no place in a container; write `name:/absolute/path`, with `:ro` for reading only"
        ))
    }
}

fn is_volume_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.len() > 1
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

/// Resolves links before comparing: a container that may write to an allowed folder could leave a link to `/` in it.
fn allowed(path: &str, policy: &VolumePolicy) -> Result<PathBuf, String> {
    let refused = || {
        format!(
            "the host path `{path}` isn't allowed on this machine; use a named volume (`name:/path`), \
             or have its owner allow the folder in the runner's settings"
        )
    };
    let wanted = Path::new(path);
    if !wanted.is_absolute() || policy.host_paths.is_empty() {
        return Err(refused());
    }
    let Ok(real) = wanted.canonicalize() else {
        return Err(refused());
    };
    let roots = policy
        .host_paths
        .iter()
        .filter_map(|root| root.canonicalize().ok());
    if roots.into_iter().any(|root| real.starts_with(root)) {
        Ok(real)
    } else {
        Err(refused())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entry: &str) -> Result<MountPlan, String> {
        mount(entry, "everdict-t", "web", &VolumePolicy::default())
    }

    #[test]
    fn named_volumes_are_the_topologys_own() {
        let expected = MountPlan::Volume {
            volume: "everdict-t.data".to_owned(),
            target: "/data".to_owned(),
            read_only: false,
        };
        assert_eq!(read("data:/data"), Ok(expected.clone()));
        assert_eq!(read("data:/data/:rw"), Ok(expected));
        assert!(matches!(
            read("data:/data:ro"),
            Ok(MountPlan::Volume { read_only: true, .. })
        ));
        let Ok(MountPlan::Volume { volume, .. }) = read("/cache") else {
            panic!("no volume")
        };
        assert!(volume.starts_with("everdict-t.web-cache"), "{volume}");
    }

    #[test]
    fn host_paths_are_refused_unless_allowed() {
        for entry in [
            "/:/host",
            "/var/run/docker.sock:/var/run/docker.sock",
            "./data:/data",
            "~/data:/data",
            "../x:/data:ro",
            r"C:\Users:/host",
        ] {
            let error = read(entry).unwrap_err();
            assert!(error.contains("isn't allowed"), "{entry}: {error}");
            assert!(error.contains("use a named volume"), "{entry}: {error}");
        }
    }

    #[test]
    fn targets_must_be_places_in_the_container() {
        for entry in [
            "data:relative",
            "data:/",
            "data:/a/../b",
            "data:",
            "",
            "data:/x:zz",
            "data:/a,b",
        ] {
            assert!(read(entry).is_err(), "{entry:?} was taken");
        }
    }

    #[test]
    fn an_allowed_folder_allows_itself_and_what_is_below_but_no_link_out_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("in")).unwrap();
        std::fs::create_dir(root.join("in/sub")).unwrap();
        std::fs::create_dir(root.join("inside")).unwrap();
        std::os::unix::fs::symlink("/", root.join("in/out")).unwrap();
        let policy = VolumePolicy {
            host_paths: vec![root.join("in")],
        };
        let read = |path: &str| mount(&format!("{}/{path}:/x", root.display()), "t", "web", &policy);
        assert!(matches!(read("in"), Ok(MountPlan::Host { .. })));
        assert!(matches!(read("in/sub"), Ok(MountPlan::Host { .. })));
        for path in [
            "inside",
            "in/out",
            "in/out/etc",
            "in/../inside",
            "in/missing",
            ".",
        ] {
            assert!(read(path).is_err(), "{path} was allowed");
        }
    }
}
