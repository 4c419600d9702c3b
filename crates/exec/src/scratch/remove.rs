use std::ffi::{CStr, CString};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::MARKER_FILE;

/// Each level holds a descriptor open; below this depth a directory is moved up to the top first, so that a job can't
/// exhaust them by nesting.
const MAX_DEPTH: usize = 100;

/// A file or directory that could not be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Where it is.
    pub path: PathBuf,
    /// What the system said.
    pub reason: String,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

/// Removes a directory tree. Works on descriptors, so that no link is followed even if one appears underway.
pub(super) fn remove_tree(path: &Path) -> Vec<Leftover> {
    let mut removal = Removal {
        device: None,
        top: path.to_owned(),
        hoisted: 0,
        leftovers: Vec::new(),
    };
    removal.run();
    removal.leftovers
}

struct Removal {
    /// What the top directory is; a mount inside has another device.
    device: Option<Stat>,
    top: PathBuf,
    hoisted: usize,
    leftovers: Vec<Leftover>,
}

impl Removal {
    fn run(&mut self) {
        let top = self.top.clone();
        let opened = CString::new(top.as_os_str().as_bytes()).map_err(|_| Errno::INVAL);
        let dir = match opened.and_then(|name| open_dir(rustix::fs::CWD, &name)) {
            Ok(dir) => dir,
            Err(Errno::NOENT) => return,
            Err(error) => return self.keep(&top, error),
        };
        match rustix::fs::fstat(&dir) {
            Ok(stat) => self.device = Some(stat),
            Err(error) => return self.keep(&top, error),
        }
        // Directories that were moved up because of their depth need another round.
        loop {
            let hoisted = self.hoisted;
            self.empty(dir.as_fd(), dir.as_fd(), &top, 0);
            if hoisted == self.hoisted {
                break;
            }
        }
        if self.leftovers.is_empty() {
            let removed = rustix::fs::unlinkat(&dir, MARKER_FILE, AtFlags::empty());
            if let Err(error) = ignore_missing(removed).and_then(|()| ignore_missing(rustix::fs::rmdir(&top)))
            {
                self.keep(&top, error);
            }
        }
    }

    /// Removes what is in `dir`.
    fn empty(&mut self, top: BorrowedFd<'_>, dir: BorrowedFd<'_>, path: &Path, depth: usize) {
        // Names first: removing while reading may skip entries.
        let names: Vec<CString> = match Dir::read_from(dir) {
            Ok(entries) => entries
                .filter_map(|entry| Some(entry.ok()?.file_name().to_owned()))
                .collect(),
            Err(error) => return self.keep(path, error),
        };
        for name in names
            .iter()
            .filter(|name| !matches!(name.to_bytes(), b"." | b".."))
        {
            // The proof of whose directory this is goes last, so that a later sweep can finish what stops halfway.
            if path == self.top && name.to_bytes() == MARKER_FILE.as_bytes() {
                continue;
            }
            let here = path.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
            if let Err(error) = self.remove_entry(top, dir, name, &here, depth) {
                self.keep(&here, error);
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one step of a walk by descriptors: each is needed, none belongs to another"
    )]
    fn remove_entry(
        &mut self,
        top: BorrowedFd<'_>,
        dir: BorrowedFd<'_>,
        name: &CStr,
        here: &Path,
        depth: usize,
    ) -> Result<(), Errno> {
        let stat = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()),
            other => other?,
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return unlink(dir, name, AtFlags::empty());
        }
        if self.device.is_some_and(|top| top.st_dev != stat.st_dev) {
            // A mount: what is behind it may be somebody's.
            return Err(Errno::XDEV);
        }
        if depth >= MAX_DEPTH {
            self.hoisted += 1;
            let lifted = format!("deep-{}-{}", self.hoisted, uuid::Uuid::new_v4().simple());
            return rustix::fs::renameat(dir, name, top, lifted);
        }
        let inner = open_dir(dir, name)?;
        let before = self.leftovers.len();
        self.empty(top, inner.as_fd(), here, depth + 1);
        if self.leftovers.len() > before {
            // Its own entry would only repeat what is listed for what is in it.
            return Ok(());
        }
        unlink(dir, name, AtFlags::REMOVEDIR)
    }

    fn keep(&mut self, path: &Path, error: Errno) {
        let path = path.to_owned();
        if !self.leftovers.iter().any(|known| known.path == path) {
            let reason = if error == Errno::XDEV {
                "is a mount".to_owned()
            } else {
                std::io::Error::from(error).to_string()
            };
            self.leftovers.push(Leftover { path, reason });
        }
    }
}

fn dir_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Opens a directory for emptying, and makes it readable and writable for us where the job took that away.
fn open_dir(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let open = || rustix::fs::openat(parent, name, dir_flags(), Mode::empty());
    let dir = match open() {
        // NOFOLLOW above says that it is no link, so this changes the directory itself.
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
            open()?
        }
        other => other?,
    };
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&dir)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        // A directory of another user can't be changed; what is in it may still be removable.
        let _ = rustix::fs::fchmod(&dir, Mode::RWXU);
    }
    Ok(dir)
}

fn unlink(dir: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> Result<(), Errno> {
    ignore_missing(rustix::fs::unlinkat(dir, name, flags))
}

fn ignore_missing(result: Result<(), Errno>) -> Result<(), Errno> {
    if result == Err(Errno::NOENT) {
        Ok(())
    } else {
        result
    }
}
