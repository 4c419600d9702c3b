//! Acting in a container's network name space, from a thread that has no other task and ends with it.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::netlink::{Batch, answers};
use super::{Failure, Place, refused};

/// What the kernel calls the file system of name spaces.
const NSFS: u64 = 0x6e73_6673;

/// Answers are 36 bytes each, and a batch has fewer than a hundred messages.
const ANSWERS: usize = 32 * 1024;

/// Bits of the capabilities in `/proc/self/status`.
const NET_ADMIN: u32 = 12;
const SYS_ADMIN: u32 = 21;

/// Whether this process may enter name spaces and make rules there; why not, if it may not.
pub(super) fn permitted() -> Result<(), String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok())
        .unwrap_or_default();
    let has = |bit: u32| effective & (1 << bit) != 0;
    if has(NET_ADMIN) && has(SYS_ADMIN) {
        Ok(())
    } else {
        Err("this process runs without CAP_SYS_ADMIN and CAP_NET_ADMIN".to_owned())
    }
}

/// Hands batches to the kernel in the container's name space.
pub(super) fn act(place: &Place, batches: Vec<Batch>) -> Result<(), Failure> {
    let space = find(place)?;
    move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| Failure::NoWay(format!("its network name space can't be entered: {error}")))?;
    for batch in batches {
        hand_over(batch)?;
    }
    Ok(())
}

/// The container's name space: by the engine's own file for it, else by its main process.
fn find(place: &Place) -> Result<OwnedFd, Failure> {
    let no_way =
        |error: io::Error| Failure::NoWay(format!("its network name space isn't seen from here: {error}"));
    let space = match by_file(&place.sandbox) {
        Ok(space) => space,
        Err(_) => by_process(place).map_err(no_way)?,
    };
    let number = |fd: &OwnedFd| rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino));
    let own = File::open("/proc/self/ns/net").and_then(|file| file.metadata());
    let (own, space_number) = (
        own.map_err(no_way)?,
        number(&space).map_err(|error| no_way(error.into()))?,
    );
    if (own.dev(), own.ino()) == space_number {
        return Err(Failure::NoWay("it shares the machine's network".to_owned()));
    }
    Ok(space)
}

/// The file's name is random and the engine's own, so it is the right one if it is a name space at all.
fn by_file(path: &str) -> io::Result<OwnedFd> {
    if path.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = OwnedFd::from(File::open(path)?);
    let kind = rustix::fs::fstatfs(&file)?.f_type;
    if u64::try_from(kind).ok() == Some(NSFS) {
        Ok(file)
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// The folder of a process stays that process', also when its number is given to another.
fn by_process(place: &Place) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = Path::new("/proc").join(place.pid.to_string());
    let folder = rustix::fs::open(folder, flags | OFlags::DIRECTORY, Mode::empty())?;
    let mut groups = String::new();
    let file = rustix::fs::openat(&folder, "cgroup", flags, Mode::empty())?;
    File::from(file).read_to_string(&mut groups)?;
    if place.container.is_empty() || !groups.contains(&place.container) {
        return Err(io::Error::other("the process by that number is another"));
    }
    Ok(rustix::fs::openat(&folder, "ns/net", flags, Mode::empty())?)
}

fn hand_over(batch: Batch) -> Result<(), Failure> {
    let (bytes, count) = batch.finish();
    let (well, wrong) = exchange(&bytes).map_err(refused)?;
    match wrong {
        Some(code) => Err(refused(io::Error::from_raw_os_error(code))),
        None if well == count => Ok(()),
        None => Err(refused(io::Error::other(format!("{well} of {count} answers")))),
    }
}

/// The kernel works on a batch while it is being sent, so that all answers are there afterwards.
fn exchange(bytes: &[u8]) -> io::Result<(u32, Option<i32>)> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::NETFILTER),
    )?;
    rustix::net::send(&socket, bytes, SendFlags::empty())?;
    let mut buffer = vec![0; ANSWERS];
    let (mut well, mut wrong) = (0, None);
    loop {
        match rustix::net::recv(&socket, &mut buffer, RecvFlags::DONTWAIT) {
            Ok((length, _)) => {
                let (more, error) = answers(&buffer[..length]);
                well += more;
                wrong = wrong.or(error);
            }
            Err(rustix::io::Errno::AGAIN) => return Ok((well, wrong)),
            Err(error) => return Err(error.into()),
        }
    }
}
