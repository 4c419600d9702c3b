//! Files only their owner may read: written whole or not at all, never through a link.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use crate::problem::{Problem, Result};

/// Only the owner may enter.
#[cfg(unix)]
const DIR_MODE: u32 = 0o700;

/// Registrations and tokens are small; a larger file isn't ours.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Creates `dir` and its parents for the owner alone, and proves that a file can be made in it.
///
/// # Errors
/// A problem about this machine that names the folder and the way out.
pub fn prepare_dir(dir: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, DIR_MODE);
    builder
        .create(dir)
        .and_then(|()| tempfile::tempfile_in(dir).map(drop))
        .map_err(|error| unwritable(dir, error))
}

/// Writes `bytes` to `path` with mode 0600: a sibling file, synced, then renamed over it.
///
/// # Errors
/// A problem about this machine; `path` then holds what it held before.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    let attempt = || -> io::Result<()> {
        // tempfile creates with 0600, and a rename replaces a link rather than following it.
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        sync_dir(dir)
    };
    attempt().map_err(|error| unwritable(path, error))
}

/// Reads `path`, or writes what `make` makes if nothing is there. Of several processes that do so at once one makes it, and
/// all get the same.
///
/// # Errors
/// Those of [`read`] and [`write`].
pub fn read_or_create(path: &Path, make: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>> {
    if let Some(found) = read(path)? {
        return Ok(found);
    }
    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    let attempt = || -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(&make())?;
        file.as_file().sync_all()?;
        match file.persist_noclobber(path) {
            Err(lost) if lost.error.kind() != io::ErrorKind::AlreadyExists => Err(lost.error),
            _ => sync_dir(dir),
        }
    };
    attempt().map_err(|error| unwritable(path, error))?;
    read(path)?.ok_or_else(|| unreadable(path, io::ErrorKind::NotFound.into()))
}

/// Reads `path` if it exists.
///
/// # Errors
/// A link, a folder, a file others may read, or an over-large one is refused with the fix.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW);
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(path, error)),
    };
    check_kind(path, &file)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(path, error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Problem::machine(format!(
            "{} is larger than {} MiB and isn't a file of ours",
            path.display(),
            MAX_BYTES / (1024 * 1024)
        ))
        .fix("move it away and try again"));
    }
    Ok(Some(bytes))
}

/// Removes `path`; one that isn't there is fine.
///
/// # Errors
/// A problem about this machine.
pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(unwritable(path, error)),
    }
}

fn check_kind(path: &Path, file: &File) -> Result<()> {
    let meta = file.metadata().map_err(|error| unreadable(path, error))?;
    if !meta.is_file() {
        return Err(
            Problem::machine(format!("{} is not a regular file", path.display()))
                .fix("move it away and try again"),
        );
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        if meta.mode() & 0o077 != 0 {
            return Err(Problem::machine(format!(
                "{} may be read by other users (mode {:o})",
                path.display(),
                meta.mode() & 0o777
            ))
            .fix(format!("run: chmod 600 {}", path.display())));
        }
    }
    Ok(())
}

#[cfg(unix)]
fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(not(unix))]
fn sync_dir(_dir: &Path) -> io::Result<()> {
    Ok(())
}

fn unwritable(path: &Path, error: io::Error) -> Problem {
    let reason = match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => "it is on a read-only file system",
        io::ErrorKind::PermissionDenied => "this user may not write there",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a part of the path is a file, not a folder"
        }
        io::ErrorKind::StorageFull => "the disk is full",
        _ => "the system refused",
    };
    Problem::machine(format!("can't write {}: {reason}", path.display()))
        .fix("give this user write access, or set EVERDICT_HOME to a folder that can be written")
        .because(error)
}

fn unreadable(path: &Path, error: io::Error) -> Problem {
    #[cfg(unix)]
    if error.raw_os_error() == Some(libc::ELOOP) {
        return Problem::machine(format!(
            "{} is a symbolic link, which is not followed for private files",
            path.display()
        ))
        .fix("replace the link with the file itself");
    }
    Problem::machine(format!("can't read {}", path.display()))
        .fix("check the owner and the mode of the file")
        .because(error)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_written_file_is_private_and_replaces_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"two");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn of_many_who_create_a_file_all_get_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let all: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let path = &path;
            let made = (0..8_u8).map(|i| scope.spawn(move || read_or_create(path, || vec![i; 16]).unwrap()));
            made.collect::<Vec<_>>()
                .into_iter()
                .map(|one| one.join().unwrap())
                .collect()
        });
        assert!(all.iter().all(|one| *one == all[0]));
        assert_eq!(read(&path).unwrap().unwrap(), all[0]);
    }

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        write(&target, b"theirs").unwrap();
        let link = dir.path().join("link");
        symlink(&target, &link).unwrap();
        assert!(read(&link).unwrap_err().to_string().contains("symbolic link"));
        write(&link, b"ours").unwrap();
        assert_eq!(read(&target).unwrap().unwrap(), b"theirs");
    }

    #[test]
    fn a_file_others_may_read_is_refused_with_the_fix() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        write(&path, b"x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let problem = read(&path).unwrap_err();
        assert!(problem.next_step().unwrap().starts_with("run: chmod 600"));
    }

    #[test]
    fn a_folder_under_a_file_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, b"").unwrap();
        let problem = prepare_dir(&file.join("below")).unwrap_err();
        assert!(problem.to_string().contains("is a file, not a folder"));
        assert!(problem.next_step().unwrap().contains("EVERDICT_HOME"));
    }

    #[test]
    fn a_missing_file_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(&dir.path().join("none")).unwrap().is_none());
    }
}
