//! [`FramedLogWriter`]: appends frames to a log.
//!
//! It belongs to one thread at a time. After a failed append or sync the caller stops.

use super::frame::{FrameCodec, HEADER_BYTES};
use crate::vfs::{File, read_exact_at};
use crate::{Error, Result};
use std::io;
use std::sync::Arc;

/// Bytes that one write wipes.
const WIPE_BYTES: usize = 4096;

/// Appends frames to a file.
#[derive(Debug)]
pub struct FramedLogWriter {
    file: Arc<dyn File>,
    codec: FrameCodec,
    end: u64,
    frame: Vec<u8>,
}

impl FramedLogWriter {
    /// Starts log `id` in an empty file by writing its header. Nothing is synced.
    pub fn create(file: Arc<dyn File>, id: u64) -> Result<Self> {
        let codec = FrameCodec::new(&*file, id);
        let header = codec.header();
        file.write_at(&header, 0)
            .map_err(|error| Error::io(file.path(), "write log header", error))?;
        Ok(FramedLogWriter {
            file,
            codec,
            end: HEADER_BYTES,
            frame: Vec::new(),
        })
    }

    /// Goes on behind the last valid frame, at the `end` that
    /// [`read_frames`](super::read_frames) returned for this log. Bytes behind it are wiped,
    /// durably. The file keeps its length, and so its reserved room.
    pub fn resume(file: Arc<dyn File>, id: u64, end: u64) -> Result<Self> {
        wipe(&*file, end)
            .map_err(|error| Error::io(file.path(), "wipe torn tail of log", error))?;
        Ok(FramedLogWriter {
            codec: FrameCodec::new(&*file, id),
            file,
            end,
            frame: Vec::new(),
        })
    }

    /// Appends a frame by one write and returns the log's new end. Not durable before
    /// [`FramedLogWriter::sync`].
    pub fn append(&mut self, payload: &[u8]) -> Result<u64> {
        self.frame.clear();
        if !self.codec.encode(&mut self.frame, self.end, payload) {
            let error = io::Error::new(
                io::ErrorKind::InvalidInput,
                "frame of no byte, or of 4 GiB or more",
            );
            return Err(Error::io(self.file.path(), "append to log", error));
        }
        self.file
            .write_at(&self.frame, self.end)
            .map_err(|error| Error::io(self.file.path(), "append to log", error))?;
        self.end += self.frame.len() as u64;
        Ok(self.end)
    }

    /// Makes all appended frames durable.
    pub fn sync(&self) -> Result<()> {
        self.file
            .sync_data()
            .map_err(|error| Error::io(self.file.path(), "sync log", error))
    }

    /// Bytes that the frame of a payload of `len` bytes takes.
    pub fn frame_bytes(&self, len: usize) -> u64 {
        self.codec.frame_bytes(len)
    }

    /// The offset where the next frame goes.
    pub fn end(&self) -> u64 {
        self.end
    }
}

/// Overwrites all bytes from `from` on that are not zero, and syncs if there were any. It needs no
/// new block, so it works on a full disk.
fn wipe(file: &dyn File, from: u64) -> io::Result<()> {
    const ZEROS: [u8; WIPE_BYTES] = [0; WIPE_BYTES];
    let mut piece = [0; WIPE_BYTES];
    let len = file.len()?;
    let mut wiped = false;
    let mut at = from;
    loop {
        // Holes, which were never written, are skipped.
        at = file.next_data(at)?.max(at);
        if at >= len {
            break;
        }
        let piece = &mut piece[..(WIPE_BYTES as u64).min(len - at) as usize];
        read_exact_at(file, piece, at)?;
        if piece.iter().any(|&byte| byte != 0) {
            file.write_at(&ZEROS[..piece.len()], at)?;
            wiped = true;
        }
        at += piece.len() as u64;
    }
    if wiped { file.sync_data() } else { Ok(()) }
}
