//! [`SnapshotFile`]: a snapshot's file as openraft streams it, in chunks at any offset.
//!
//! Reads and writes are made by threads for blocking work, up to 256 KiB each. One is under way at
//! a time; what it reads at a position that is left meanwhile is dropped. Memory: one such piece.
//!
//! Thread safety: the owner's alone. Not here: what the bytes mean ([`crate::snapshot`]).

use evendb::vfs::File;
use std::future::Future;
use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
use tokio::task::JoinHandle;

/// Bytes that one read or write moves.
const PIECE_BYTES: usize = 256 << 10;

/// A snapshot's file on a node's shelf: openraft's `SnapshotData`.
#[derive(Debug)]
pub struct SnapshotFile {
    file: Arc<dyn File>,
    position: u64,
    under_way: Option<Work>,
    is_inline: bool,
}

#[derive(Debug)]
enum Work {
    Reading(u64, JoinHandle<io::Result<Vec<u8>>>),
    Writing(JoinHandle<io::Result<usize>>),
}

fn read(file: &dyn File, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let read = file.read_at(&mut bytes, at)?;
    bytes.truncate(read);
    Ok(bytes)
}

impl SnapshotFile {
    pub(super) fn new(file: Arc<dyn File>, is_inline: bool) -> SnapshotFile {
        SnapshotFile {
            file,
            position: 0,
            under_way: None,
            is_inline,
        }
    }

    pub(super) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Waits for what is under way. Returns what was read at the position, if it was a read there.
    fn poll_work(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Vec<u8>>>> {
        let done = match &mut self.under_way {
            None => return Poll::Ready(Ok(None)),
            Some(Work::Reading(at, work)) => {
                let read = ready!(Pin::new(work).poll(context)).map_err(io::Error::other);
                let is_here = *at == self.position;
                read.flatten().map(|bytes| is_here.then_some(bytes))
            }
            Some(Work::Writing(work)) => {
                let written = ready!(Pin::new(work).poll(context)).map_err(io::Error::other);
                written.flatten().map(|_| None)
            }
        };
        self.under_way = None;
        Poll::Ready(done)
    }
}

impl AsyncRead for SnapshotFile {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let len = to.remaining().min(PIECE_BYTES);
        if len == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            let found = match ready!(self.poll_work(context))? {
                None if self.is_inline => Some(read(&*self.file, self.position, len)?),
                found => found,
            };
            if let Some(bytes) = found {
                // The caller may have come back with less room.
                let len = bytes.len().min(to.remaining());
                to.put_slice(&bytes[..len]);
                self.position += len as u64;
                return Poll::Ready(Ok(()));
            }
            let (file, at) = (self.file.clone(), self.position);
            let work = tokio::task::spawn_blocking(move || read(&*file, at, len));
            self.under_way = Some(Work::Reading(at, work));
        }
    }
}

impl AsyncWrite for SnapshotFile {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // A failed write is told by the next one, or by the flush at the end.
        ready!(self.poll_work(context))?;
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        let at = self.position;
        if self.is_inline {
            self.file.write_at(piece, at)?;
        } else {
            let (file, piece) = (self.file.clone(), piece.to_vec());
            let work = move || file.write_at(&piece, at).map(|()| piece.len());
            self.under_way = Some(Work::Writing(tokio::task::spawn_blocking(work)));
        }
        self.position += piece.len() as u64;
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_work(context).map_ok(|_| ())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

impl AsyncSeek for SnapshotFile {
    fn start_seek(mut self: Pin<&mut Self>, to: SeekFrom) -> io::Result<()> {
        let to = match to {
            SeekFrom::Start(to) => Some(to),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.file.len()?.checked_add_signed(by),
        };
        self.position = to.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(())
    }

    fn poll_complete(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<u64>> {
        // A write that is under way counts for the length, and its failure is told here.
        if matches!(self.under_way, Some(Work::Writing(_))) {
            ready!(self.poll_work(context))?;
        }
        Poll::Ready(Ok(self.position))
    }
}
