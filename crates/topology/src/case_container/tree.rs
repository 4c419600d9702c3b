//! Directory trees as tar archives. What comes out of a container was made by an agent: nothing of it may land outside
//! of the directory it is unpacked into, or be run by a later look at it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use tar::{Builder, EntryType, Header};

/// How much an agent may leave behind for a snapshot: a large checkout with its build several times over, and still
/// not the disk of the machine.
const MAX_TREE_BYTES: u64 = 8 << 30;

/// A tree with its dependencies has some 100 000 files.
const MAX_ENTRIES: u64 = 2_000_000;

/// Larger files are named, not copied: no patch has room for them.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// How many names of what was left out are kept.
const MAX_NAMED: usize = 20;

/// Who is to own the files of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileOwner {
    pub(super) uid: u64,
    pub(super) gid: u64,
}

/// Writes the archive of empty directories, parents first.
pub(super) fn pack_dirs(dirs: &[&str], owner: FileOwner) -> io::Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    for dir in dirs {
        let mut header = header(EntryType::Directory, 0o755, owner);
        archive.append_data(&mut header, dir, io::empty())?;
    }
    archive.into_inner()
}

/// Writes the archive of everything in `dir`. Links are packed as links; sockets, pipes and devices are left out.
/// Blocking.
pub(super) fn pack(dir: &Path, owner: FileOwner, out: impl Write) -> io::Result<()> {
    let mut archive = Builder::new(out);
    let mut waiting = vec![PathBuf::new()];
    while let Some(inner) = waiting.pop() {
        for entry in fs::read_dir(dir.join(&inner))? {
            let entry = entry?;
            let rel = inner.join(entry.file_name());
            let meta = entry.metadata()?;
            let mut header = header(EntryType::Regular, meta.mode() & 0o7777, owner);
            header.set_mtime(u64::try_from(meta.mtime()).unwrap_or_default());
            if meta.is_dir() {
                header.set_entry_type(EntryType::Directory);
                archive.append_data(&mut header, &rel, io::empty())?;
                waiting.push(rel);
            } else if meta.is_symlink() {
                header.set_entry_type(EntryType::Symlink);
                archive.append_link(&mut header, &rel, fs::read_link(entry.path())?)?;
            } else if meta.is_file() {
                header.set_size(meta.len());
                archive.append_data(&mut header, &rel, File::open(entry.path())?.take(meta.len()))?;
            }
        }
    }
    archive.into_inner()?.flush()
}

fn header(kind: EntryType, mode: u32, owner: FileOwner) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(owner.uid);
    header.set_gid(owner.gid);
    header.set_size(0);
    header
}

/// Unpacks an archive into an empty directory, without the first part of each path, and names what was left out.
///
/// Repositories (`.git` at any depth) are left out without a word: git on this side must not read a configuration that
/// an agent wrote. So are sockets, pipes and devices. Links are made, never followed. Blocking.
///
/// # Errors
/// An archive that is cut, too large, or that names the same path twice; a disk that is full.
pub(super) fn unpack(archive: impl Read, to: &Path) -> io::Result<Vec<String>> {
    let mut archive = tar::Archive::new(archive);
    let mut unpacking = Unpacking {
        to,
        dirs: HashSet::from([PathBuf::new()]),
        left_out: Vec::new(),
    };
    let (mut bytes, mut entries) = (0u64, 0u64);
    for entry in archive.entries()? {
        let mut entry = entry?;
        entries += 1;
        bytes = bytes.saturating_add(entry.size());
        if bytes > MAX_TREE_BYTES || entries > MAX_ENTRIES {
            return Err(io::Error::other("there are more files than a snapshot may have"));
        }
        unpacking.entry(&mut entry)?;
    }
    Ok(unpacking.left_out)
}

struct Unpacking<'a> {
    to: &'a Path,
    /// Directories that are known to be real ones.
    dirs: HashSet<PathBuf>,
    left_out: Vec<String>,
}

impl Unpacking<'_> {
    fn entry<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>) -> io::Result<()> {
        let Some(rel) = inner_path(OsStr::from_bytes(&entry.path_bytes()))? else {
            return Ok(());
        };
        let target = self.to.join(&rel);
        let mode = entry.header().mode()? & 0o777;
        match entry.header().entry_type() {
            EntryType::Directory => {
                self.dir(&rel)?;
                // Ours to read and to remove, whatever the agent made of it.
                fs::set_permissions(&target, fs::Permissions::from_mode(mode | 0o700))
            }
            EntryType::Regular | EntryType::Continuous if entry.size() > MAX_FILE_BYTES => {
                self.leave_out(&rel, "it is too large");
                Ok(())
            }
            EntryType::Regular | EntryType::Continuous => {
                self.parent(&rel)?;
                io::copy(entry, &mut create(&target, mode)?).map(drop)
            }
            EntryType::Symlink => {
                self.parent(&rel)?;
                let Some(points_to) = entry.link_name_bytes() else {
                    return Ok(());
                };
                symlink(OsStr::from_bytes(&points_to), &target)
            }
            EntryType::Link => {
                let Some(name) = entry.link_name_bytes() else {
                    return Ok(());
                };
                self.hard_link(&rel, OsStr::from_bytes(&name), mode)
            }
            EntryType::Fifo | EntryType::Char | EntryType::Block => {
                self.leave_out(&rel, "it is no file, directory or link");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A second name of a file becomes a copy of it.
    fn hard_link(&mut self, rel: &Path, name: &OsStr, mode: u32) -> io::Result<()> {
        self.parent(rel)?;
        let source =
            inner_path(name)?.filter(|source| source.parent().is_some_and(|dir| self.dirs.contains(dir)));
        let source = source.map(|source| self.to.join(source));
        match source.filter(|source| source.symlink_metadata().is_ok_and(|meta| meta.is_file())) {
            Some(source) => {
                let mut from = File::open(source)?;
                io::copy(&mut from, &mut create(&self.to.join(rel), mode)?).map(drop)
            }
            None => {
                self.leave_out(rel, "it is another name of a file that was left out");
                Ok(())
            }
        }
    }

    fn parent(&mut self, rel: &Path) -> io::Result<()> {
        self.dir(rel.parent().unwrap_or(Path::new("")))
    }

    /// Makes a directory and those above it; what stands there already must be a real directory.
    fn dir(&mut self, rel: &Path) -> io::Result<()> {
        if self.dirs.contains(rel) {
            return Ok(());
        }
        self.parent(rel)?;
        let place = self.to.join(rel);
        match fs::create_dir(&place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !place.symlink_metadata()?.is_dir() {
                    return Err(io::Error::other(format!("`{}` is no directory", rel.display())));
                }
            }
            made => made?,
        }
        self.dirs.insert(rel.to_owned());
        Ok(())
    }

    fn leave_out(&mut self, rel: &Path, why: &str) {
        if self.left_out.len() < MAX_NAMED {
            self.left_out.push(format!("`{}`: {why}", rel.display()));
        }
    }
}

fn create(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode | 0o600)
        .open(path)
}

/// The path without its first part; `None` for that part itself and for what belongs to a repository.
fn inner_path(path: &OsStr) -> io::Result<Option<PathBuf>> {
    let mut inner = PathBuf::new();
    let parts = Path::new(path)
        .components()
        .filter(|part| *part != Component::CurDir);
    for part in parts.skip(1) {
        let Component::Normal(name) = part else {
            return Err(io::Error::other(format!(
                "the archive names `{}`",
                Path::new(path).display()
            )));
        };
        if name.eq_ignore_ascii_case(".git") {
            return Ok(None);
        }
        inner.push(name);
    }
    Ok((!inner.as_os_str().is_empty()).then_some(inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: FileOwner = FileOwner {
        uid: 70,
        gid: 3_000_000,
    };

    /// An archive of what `add` puts in.
    fn archive(add: impl FnOnce(&mut Builder<Vec<u8>>)) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        add(&mut builder);
        builder.into_inner().unwrap()
    }

    fn file(builder: &mut Builder<Vec<u8>>, path: &str, text: &str) {
        let mut header = header(EntryType::Regular, 0o644, ME);
        header.set_size(text.len() as u64);
        // Past `append_data`, which refuses the paths that are to be refused here.
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        builder.append(&header, text.as_bytes()).unwrap();
    }

    fn link(builder: &mut Builder<Vec<u8>>, kind: EntryType, path: &str, to: &str) {
        let mut header = header(kind, 0o777, ME);
        builder.append_link(&mut header, path, to).unwrap();
    }

    #[test]
    fn a_tree_comes_back_as_it_went() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let long = "n".repeat(120);
        fs::create_dir_all(from.path().join("a").join(&long)).unwrap();
        fs::write(from.path().join("a").join(&long).join("run.sh"), "echo").unwrap();
        fs::set_permissions(
            from.path().join("a").join(&long).join("run.sh"),
            fs::Permissions::from_mode(0o555),
        )
        .unwrap();
        fs::write(from.path().join("bin"), b"\0\xff").unwrap();
        symlink("/nowhere", from.path().join("out")).unwrap();
        // The engine's archives start with the name of the directory.
        let outer = tempfile::tempdir().unwrap();
        fs::rename(from.path(), outer.path().join("work")).unwrap();
        let mut bytes = Vec::new();
        pack(outer.path(), ME, &mut bytes).unwrap();
        let first = tar::Archive::new(&bytes[..])
            .entries()
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .header()
            .clone();
        assert_eq!((first.uid().unwrap(), first.gid().unwrap()), (ME.uid, ME.gid));

        assert_eq!(unpack(&bytes[..], to.path()).unwrap(), Vec::<String>::new());
        let script = to.path().join("a").join(&long).join("run.sh");
        assert_eq!(fs::read_to_string(&script).unwrap(), "echo");
        assert_eq!(fs::metadata(&script).unwrap().mode() & 0o111, 0o111);
        assert_eq!(fs::read(to.path().join("bin")).unwrap(), b"\0\xff");
        assert_eq!(
            fs::read_link(to.path().join("out")).unwrap(),
            Path::new("/nowhere")
        );
    }

    #[test]
    fn nothing_lands_outside() {
        let outside = tempfile::tempdir().unwrap();
        let place = outside.path().to_str().unwrap();
        let through_a_link = archive(|builder| {
            link(builder, EntryType::Symlink, "work/door", place);
            file(builder, "work/door/x", "x");
        });
        let over_a_link = archive(|builder| {
            link(builder, EntryType::Symlink, "work/x", &format!("{place}/x"));
            file(builder, "work/x", "x");
        });
        let upwards = archive(|builder| file(builder, "work/../../x", "x"));
        for bytes in [through_a_link, over_a_link, upwards] {
            let to = tempfile::tempdir().unwrap();
            assert!(unpack(&bytes[..], to.path()).is_err());
            assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_hard_link_to_elsewhere_copies_nothing() {
        let to = tempfile::tempdir().unwrap();
        let bytes = archive(|builder| {
            link(builder, EntryType::Symlink, "work/door", "/etc");
            link(builder, EntryType::Link, "work/a", "work/door/passwd");
            link(builder, EntryType::Link, "work/b", "work/door");
        });
        let left_out = unpack(&bytes[..], to.path()).unwrap();
        assert_eq!(left_out.len(), 2, "{left_out:?}");
        assert!(!to.path().join("a").exists() && !to.path().join("b").exists());
    }

    #[test]
    fn an_agents_repository_and_its_devices_stay_where_they_are() {
        let to = tempfile::tempdir().unwrap();
        let bytes = archive(|builder| {
            file(builder, "work/.git/config", "[core]\nfsmonitor = evil\n");
            file(builder, "work/sub/.GIT/config", "x");
            file(builder, "work/.gitignore", "x");
            builder
                .append(&header_with_name("work/pipe", EntryType::Fifo), io::empty())
                .unwrap();
        });
        assert_eq!(
            unpack(&bytes[..], to.path()).unwrap(),
            ["`pipe`: it is no file, directory or link"]
        );
        assert!(!to.path().join(".git").exists() && !to.path().join("sub").exists());
        assert!(to.path().join(".gitignore").exists());
    }

    fn header_with_name(path: &str, kind: EntryType) -> Header {
        let mut header = header(kind, 0o644, ME);
        header.set_path(path).unwrap();
        header.set_cksum();
        header
    }

    #[test]
    fn a_cut_archive_is_an_error() {
        let bytes = archive(|builder| file(builder, "work/a", &"x".repeat(4096)));
        let to = tempfile::tempdir().unwrap();
        assert!(unpack(&bytes[..2048], to.path()).is_err());
    }
}
