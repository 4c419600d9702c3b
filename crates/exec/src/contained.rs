use std::io;
use std::path::{Component, Path, PathBuf};

use crate::ExecError;

/// Joins `rel` to `base` and proves that the result stays inside.
///
/// Refuses an empty or absolute path, `..`, a NUL, and any existing component that is a link out of `base`. Parts that
/// do not exist yet are accepted as they are. The proof holds for the moment of the call: use the path while no
/// process of the job runs.
pub fn contained_in(base: &Path, rel: &str) -> Result<PathBuf, ExecError> {
    let refuse = |reason| ExecError::Escapes {
        path: rel.to_owned(),
        reason,
    };
    if rel.is_empty() {
        return Err(refuse("it is empty"));
    }
    if rel.contains('\0') {
        return Err(refuse("it holds a NUL"));
    }
    let mut joined = base.to_path_buf();
    for component in Path::new(rel).components() {
        match component {
            Component::Normal(name) => joined.push(name),
            Component::CurDir => {}
            Component::ParentDir => return Err(refuse("it holds `..`")),
            Component::RootDir | Component::Prefix(_) => return Err(refuse("it is absolute")),
        }
    }
    let scratch = |source| ExecError::Scratch {
        action: "resolve",
        path: joined.clone(),
        source,
    };
    let real_base = base.canonicalize().map_err(scratch)?;
    match real_prefix(base, &joined) {
        Ok(real) if real.starts_with(&real_base) => Ok(joined),
        Ok(_) => Err(refuse("a link leads out of the directory")),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(refuse("a file stands where a directory must be"))
        }
        Err(error) => Err(scratch(error)),
    }
}

/// The real place of the longest part of `path` that exists. A dangling link counts as existing, and where it points
/// is unknown, so it is an error.
fn real_prefix(base: &Path, path: &Path) -> io::Result<PathBuf> {
    let mut part = path;
    loop {
        match part.symlink_metadata() {
            Ok(_) => return part.canonicalize(),
            Err(error) if error.kind() == io::ErrorKind::NotFound && part != base => {
                part = part.parent().unwrap_or(base);
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn contained_refuses_escape() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        symlink(outside.path(), dir.path().join("out")).unwrap();
        symlink("/nonexistent-target", dir.path().join("dangling")).unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        for bad in [
            "",
            "/etc/passwd",
            "../x",
            "a/../../x",
            "a/..",
            "out/x",
            "out",
            "dangling",
            "dangling/x",
            "a\0b",
            "file/x",
        ] {
            assert!(contained_in(dir.path(), bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn contained_accepts_what_stays_inside() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("real")).unwrap();
        symlink("real", dir.path().join("alias")).unwrap();
        for good in ["a", "./a/b", "a/./b", "real/x", "alias/x", "..a"] {
            let path = contained_in(dir.path(), good).unwrap();
            assert!(path.starts_with(dir.path()), "{good:?}");
        }
    }
}
