use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use everdict_contracts::{ErrorCode, Fault};

/// Deeper trees than this are a mistake (a loop of mounts) rather than a source.
const MAX_DEPTH: usize = 200;

/// Copies a directory tree into an existing directory and gives out what was left out, with the reason.
///
/// No link is followed: one that stays inside is copied as a link, one that leads out is left out. A `.git` that is no
/// directory is left out, because it points at a repository elsewhere; so are sockets, devices and scratch directories.
/// Blocking.
pub(super) fn copy_tree(from: &Path, to: &Path) -> Result<Vec<String>, Fault> {
    if !from.is_absolute() {
        return Err(Fault::bad_request(format!(
            "failed to copy `{}`: the path must be absolute",
            from.display()
        )));
    }
    let real = from.canonicalize().map_err(|error| {
        Fault::bad_request(format!("failed to open source path `{}`", from.display())).caused_by(error)
    })?;
    if !real.is_dir() {
        return Err(Fault::bad_request(format!(
            "failed to copy `{}`: not a directory",
            from.display()
        )));
    }
    let mut copy = Copy {
        from: &real,
        to,
        left_out: Vec::new(),
    };
    copy.dir(Path::new(""), 0).map_err(|(path, error)| {
        let words = format!("failed to copy `{}`", real.join(path).display());
        Fault::new(ErrorCode::DriverProvisionFailed, words).caused_by(error)
    })?;
    Ok(copy.left_out)
}

struct Copy<'a> {
    from: &'a Path,
    to: &'a Path,
    left_out: Vec<String>,
}

type CopyResult = Result<(), (PathBuf, io::Error)>;

impl Copy<'_> {
    fn dir(&mut self, rel: &Path, depth: usize) -> CopyResult {
        let at = |error| (rel.to_owned(), error);
        if depth > MAX_DEPTH {
            return Err(at(io::Error::other("nested too deeply")));
        }
        for entry in fs::read_dir(self.from.join(rel)).map_err(at)? {
            let entry = entry.map_err(at)?;
            let inner = rel.join(entry.file_name());
            let kind = entry.file_type().map_err(|error| (inner.clone(), error))?;
            self.entry(&inner, kind, depth)?;
        }
        Ok(())
    }

    fn entry(&mut self, rel: &Path, kind: fs::FileType, depth: usize) -> CopyResult {
        let (source, target) = (self.from.join(rel), self.to.join(rel));
        let at = |error| (rel.to_owned(), error);
        let top_git = rel == Path::new(".git");
        if top_git && !kind.is_dir() {
            self.leave_out(rel, "it points at a repository elsewhere");
        } else if kind.is_dir() {
            if source.join(crate::scratch::MARKER_FILE).exists() {
                return Ok(());
            }
            fs::create_dir(&target).map_err(at)?;
            self.dir(rel, depth + 1)?;
            let mode = fs::metadata(&source).map_err(at)?.permissions();
            fs::set_permissions(&target, mode).map_err(at)?;
        } else if kind.is_symlink() {
            self.link(rel, &source, &target).map_err(at)?;
        } else if kind.is_file() {
            // A lock of a git that runs right now would stop every later one in the copy.
            if rel.parent() == Some(Path::new(".git")) && rel.extension().is_some_and(|end| end == "lock") {
                return Ok(());
            }
            copy_file(&source, &target).map_err(at)?;
        } else {
            self.leave_out(rel, "it is no file, directory or link");
        }
        Ok(())
    }

    fn link(&mut self, rel: &Path, source: &Path, target: &Path) -> io::Result<()> {
        let points_to = fs::read_link(source)?;
        let really_inside = source
            .canonicalize()
            .map_or(true, |real| real.starts_with(self.from));
        let inside = if points_to.is_absolute() {
            // Into the copy, or the agent would write to the member's tree.
            points_to
                .strip_prefix(self.from)
                .ok()
                .filter(|rest| lexically_inside(rest))
                .map(|rest| self.to.join(rest))
        } else {
            let from_top = rel.parent().unwrap_or(Path::new("")).join(&points_to);
            lexically_inside(&from_top).then_some(points_to)
        };
        match inside.filter(|_| really_inside) {
            Some(points_to) => symlink(points_to, target),
            None => {
                self.leave_out(rel, "it is a link that leads out of the source");
                Ok(())
            }
        }
    }

    fn leave_out(&mut self, rel: &Path, reason: &str) {
        self.left_out.push(format!("`{}`: {reason}", rel.display()));
    }
}

fn copy_file(source: &Path, target: &Path) -> io::Result<()> {
    fs::copy(source, target)?;
    // Build tools compare times; a target they can't be set on (read-only mode) keeps its own.
    if let (Ok(modified), Ok(file)) = (
        fs::metadata(source)?.modified(),
        fs::OpenOptions::new().append(true).open(target),
    ) {
        file.set_times(fs::FileTimes::new().set_modified(modified))?;
    }
    Ok(())
}

fn lexically_inside(path: &Path) -> bool {
    let mut depth = 0usize;
    for part in path.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir => match depth.checked_sub(1) {
                Some(up) => depth = up,
                None => return false,
            },
            Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}
