//! Files into and out of a case's container, by the archive API: no program of the image takes part.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use everdict_contracts::{ErrorCode, Fault};
use futures_util::{StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::tree::{self, FileOwner};
use super::{CaseContainer, cancelled};
use crate::engine::EngineError;

/// For one whole tree: gigabytes over a local socket take a minute on a slow disk.
const COPY_LIMIT: Duration = Duration::from_secs(600);

/// Pieces of an archive on their way: with the size below half a megabyte, enough that neither side waits.
const PIECES: usize = 8;
const PIECE_BYTES: usize = 64 * 1024;

/// A file as far as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseFile {
    pub bytes: Vec<u8>,
    /// There is more than was asked for.
    pub cut: bool,
}

impl CaseContainer {
    /// Copies everything in the host's directory `from` into the existing directory `to`; the image's user owns it
    /// then. A relative `to` counts from the case's root.
    ///
    /// # Errors
    /// `DRIVER_PROVISION_FAILED`, `CANCELLED`.
    pub async fn upload(&self, from: &Path, to: &str, cancel: &CancellationToken) -> Result<(), Fault> {
        let (send, receive) = mpsc::channel::<io::Result<Bytes>>(PIECES);
        let (from, owner) = (from.to_owned(), self.owner);
        let packing = tokio::task::spawn_blocking(move || {
            let mut out = Sender {
                send,
                piece: Vec::with_capacity(PIECE_BYTES),
            };
            let packed = tree::pack(&from, owner, &mut out);
            if let Err(error) = &packed {
                // Makes the call fail too: half an archive must not pass for a whole one.
                let _ = out
                    .send
                    .blocking_send(Err(io::Error::new(error.kind(), error.to_string())));
            }
            packed
        });
        let pieces = stream::unfold(receive, |mut receive| async {
            receive.recv().await.map(|piece| (piece, receive))
        });
        let dir = super::absolute(to);
        let call = self.shared.engine.put_archive(&self.id, &dir, pieces, COPY_LIMIT);
        let put = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(cancelled()),
            put = call => put.map_err(EngineError::into_fault),
        };
        let packed = packing.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        match (put, packed) {
            // When the daemon hangs up, the archive can't be written to its end either.
            (Ok(()), Err(error)) => {
                let text = "failed to pack the files for the container";
                Err(Fault::new(ErrorCode::DriverProvisionFailed, text).caused_by(error))
            }
            (put, _) => put,
        }
    }

    /// Copies everything in the directory `from`, but for repositories, into the empty directory `to` of the host, and
    /// names what was left out. A relative `from` counts from the case's root.
    ///
    /// # Errors
    /// `DRIVER_SNAPSHOT_FAILED`, `CANCELLED`.
    pub async fn download(
        &self,
        from: &str,
        to: &Path,
        cancel: &CancellationToken,
    ) -> Result<Vec<String>, Fault> {
        let (send, receive) = mpsc::channel::<Bytes>(PIECES);
        let to = to.to_owned();
        let unpacking = tokio::task::spawn_blocking(move || {
            tree::unpack(
                Receiver {
                    receive,
                    piece: Bytes::new(),
                },
                &to,
            )
        });
        let path = super::absolute(from);
        let pump = async {
            let mut pieces = self.shared.engine.get_archive(&self.id, &path);
            while let Some(piece) = pieces.next().await {
                if send.send(piece?).await.is_err() {
                    break;
                }
            }
            Ok(())
        };
        let got = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(cancelled()),
            got = tokio::time::timeout(COPY_LIMIT, pump) => match got {
                Ok(got) => got.map_err(|error: EngineError| snapshot_failed(&path).caused_by(error)),
                Err(_) => Err(snapshot_failed(&path)
                    .caused_by(EngineError::timed_out("copy files out of a container", COPY_LIMIT))),
            },
        };
        // Waited for in every case: nothing may be written once the directory is being removed.
        drop(send);
        let unpacked = unpacking
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)));
        got?;
        unpacked.map_err(|error| snapshot_failed(&path).caused_by(error))
    }

    /// Reads up to `max` bytes of a regular file; `None` when there is nothing at that path. A relative path counts
    /// from the case's root.
    ///
    /// # Errors
    /// `DRIVER_SNAPSHOT_FAILED`, also for what is no regular file.
    pub async fn read_file(&self, path: &str, max: u64) -> Result<Option<CaseFile>, Fault> {
        let path = super::absolute(path);
        // The archive's own headers and padding come on top, extended ones included.
        let most = usize::try_from(max)
            .unwrap_or(usize::MAX)
            .saturating_add(PIECE_BYTES);
        let read = async {
            let mut archive = Vec::new();
            let mut pieces = self.shared.engine.get_archive(&self.id, &path);
            while let Some(piece) = pieces.next().await {
                archive.extend_from_slice(&piece?);
                if archive.len() >= most {
                    break;
                }
            }
            Ok(archive)
        };
        let archive = match tokio::time::timeout(COPY_LIMIT, read).await {
            Ok(Err(error)) if EngineError::is_not_found(&error) => return Ok(None),
            Ok(archive) => archive.map_err(|error| snapshot_failed(&path).caused_by(error))?,
            Err(_) => return Err(snapshot_failed(&path)),
        };
        first_file(&archive, max)
            .map(Some)
            .map_err(|error| snapshot_failed(&path).caused_by(error))
    }

    /// Makes directories below `/`, owned by the image's user.
    pub(super) async fn make_dirs(&self, dirs: &[&str], owner: FileOwner) -> Result<(), Fault> {
        let archive = tree::pack_dirs(dirs, owner)
            .map_err(|error| Fault::internal("failed to pack directories").caused_by(error))?;
        let pieces = stream::iter([Ok(Bytes::from(archive))]);
        let put = self.shared.engine.put_archive(&self.id, "/", pieces, COPY_LIMIT);
        put.await.map_err(EngineError::into_fault)
    }
}

fn snapshot_failed(path: &str) -> Fault {
    Fault::new(
        ErrorCode::DriverSnapshotFailed,
        format!("failed to read `{path}` of the case's container"),
    )
}

/// The file that an archive of one file holds, which may be cut after `max` bytes.
fn first_file(archive: &[u8], max: u64) -> io::Result<CaseFile> {
    let mut archive = tar::Archive::new(archive);
    let entry = archive
        .entries()?
        .next()
        .ok_or_else(|| io::Error::other("the archive is empty"))??;
    if !entry.header().entry_type().is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let cut = entry.size() > max;
    let mut bytes = Vec::new();
    entry.take(max).read_to_end(&mut bytes)?;
    Ok(CaseFile { bytes, cut })
}

/// Writes into a channel, in pieces. Only for a thread that may block.
struct Sender {
    send: mpsc::Sender<io::Result<Bytes>>,
    piece: Vec<u8>,
}

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
        let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "nobody takes the archive any more");
        self.send.blocking_send(Ok(Bytes::from(piece))).map_err(gone)
    }
}

/// Reads from a channel. Only for a thread that may block.
struct Receiver {
    receive: mpsc::Receiver<Bytes>,
    piece: Bytes,
}

impl Read for Receiver {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.receive.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let count = self.piece.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}
