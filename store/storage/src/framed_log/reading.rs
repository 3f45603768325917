//! Reads the frames of a log: all of them in order, one alone, or what there is in a damaged log.
//!
//! The memory it takes is in proportion to frames that verify, and not to lengths that bytes claim.

use super::frame::{
    FRAME_HEADER_BYTES, FrameAt, FrameCodec, HEADER_BYTES, check_header, frame_checksum,
};
use super::search::Search;
use crate::vfs::File;
use crate::{Error, Result, codec};
use std::borrow::Cow;
use std::io;

/// Bytes that the reader fetches at once.
pub(super) const READ_BYTES: u64 = 256 << 10;

/// A frame that claims more bytes is verified before memory is allocated for it.
const UNVERIFIED_BYTES_MAX: u64 = 16 << 20;

/// Calls `each(offset, payload)` for the frames of log `id` in order, and returns the end of the
/// last valid one.
///
/// Frames that start before `verified_up_to` must verify, else it fails with `Corruption`. This is
/// an end that [`FramedLogWriter::append`](super::FramedLogWriter::append) returned and that was
/// made durable. Behind it, reading ends at the first frame that does not verify. The header must
/// always verify. An error of `each` ends reading and is returned.
pub fn read_frames(
    file: &dyn File,
    id: u64,
    verified_up_to: u64,
    each: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<u64> {
    let len = len_of(file)?;
    let mut reader = Reader::new(file, len);
    let codec = FrameCodec::new(file, id);
    check_header(file, &codec, reader.at(0, HEADER_BYTES)?)?;
    let mut offset = HEADER_BYTES;
    while offset < len {
        let frame = reader.frame(&codec, offset)?;
        let frame_len = frame.len() as u64;
        match codec.decode(frame, offset) {
            FrameAt::Frame(payload) => each(offset, &payload)?,
            FrameAt::Foreign => {
                let what = "log frame that was not encrypted for this place with this key";
                return Err(Error::corruption(file.path(), offset, what));
            }
            FrameAt::Nothing if offset < verified_up_to => {
                return Err(Error::corruption(
                    file.path(),
                    offset,
                    "log frame does not verify",
                ));
            }
            FrameAt::Nothing => return Ok(offset),
        }
        offset += frame_len;
    }
    if offset < verified_up_to {
        return Err(Error::corruption(
            file.path(),
            offset,
            "log ends before its durable end",
        ));
    }
    Ok(offset)
}

/// Like [`read_frames`], for a log whose writer syncs each frame before the next one. There it is
/// `Corruption` if a frame verifies behind the place where reading ended.
pub fn read_synced_frames(
    file: &dyn File,
    id: u64,
    verified_up_to: u64,
    each: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<u64> {
    let end = read_frames(file, id, verified_up_to, each)?;
    match find_frame(file, id, end)? {
        None => Ok(end),
        Some(next) => {
            let detail =
                format!("an edit does not verify, though the one at {next} behind it does");
            Err(Error::corruption(file.path(), end, detail))
        }
    }
}

/// The payload of the frame of `codec` at `offset` of `file`, if a frame verifies there that ends
/// at or before `len`.
pub fn read_frame(
    file: &dyn File,
    codec: &FrameCodec,
    offset: u64,
    len: u64,
) -> Result<Option<Vec<u8>>> {
    if offset >= len {
        return Ok(None);
    }
    let mut reader = Reader::new(file, len);
    reader.ahead = 0;
    let payload = codec.payload(reader.frame(codec, offset)?, offset);
    Ok(payload.map(Cow::into_owned))
}

/// The first place behind `end`, where [`read_frames`] ended, at which a frame of log `id`
/// verifies. This is damage only in logs whose writer syncs each frame before the next one. Time
/// and memory are in proportion to the bytes there that are not zero, whatever lengths they claim.
pub fn find_frame(file: &dyn File, id: u64, end: u64) -> Result<Option<u64>> {
    Ok(Search::new(file, id, end, len_of(file)?)?.next_frame(end))
}

fn len_of(file: &dyn File) -> Result<u64> {
    let len = file.len();
    len.map_err(|error| Error::io(file.path(), "read log length", error))
}

/// A stretch of a log as [`survey_frames`] finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Surveyed<'a> {
    /// A frame that verifies.
    Frame {
        /// The offset where it starts.
        offset: u64,
        /// Its bytes in the log, with the header.
        len: u64,
        /// Its payload.
        payload: &'a [u8],
    },
    /// Bytes in which no frame verifies, up to the next frame or to the end.
    Hole {
        /// The offset where they start.
        offset: u64,
        /// The number of bytes up to the last one that is not zero, or to the end that a frame
        /// there claims. 0 if all are zero, which is free room.
        used: u64,
        /// The number of bytes up to the next frame or the end.
        len: u64,
    },
}

/// Calls `each` for every stretch of the log of `codec` in `file` behind the header, damaged or
/// not. A frame verifies only in its own place, so frames behind damage are found again. A frame
/// that was not written there with the database's key is a hole. It fails only if reading fails.
pub fn survey_frames(
    file: &dyn File,
    codec: &FrameCodec,
    each: &mut dyn FnMut(Surveyed<'_>),
) -> Result<()> {
    let len = len_of(file)?;
    let mut reader = Reader::new(file, len);
    // Needed only behind damage.
    let mut search: Option<Search> = None;
    let mut offset = HEADER_BYTES.min(len);
    while offset < len {
        let known = search.as_ref().map(|search| search.frame_at(offset));
        let stored = match known {
            Some(None) => &[],
            Some(Some(_)) | None => reader.frame(codec, offset)?,
        };
        let mut foreign = 0;
        match codec.decode(stored, offset) {
            FrameAt::Frame(payload) => {
                let len = stored.len() as u64;
                each(Surveyed::Frame {
                    offset,
                    len,
                    payload: &payload,
                });
                offset += len;
                continue;
            }
            FrameAt::Foreign => foreign = stored.len() as u64,
            FrameAt::Nothing => {}
        }
        let search = match &mut search {
            Some(search) => search,
            None => search.insert(Search::new(file, codec.id, offset, len)?),
        };
        let hole = offset..match foreign {
            0 => search.next_frame(offset).unwrap_or(len),
            // Frames that verify can lie inside this one, so none of its bytes is looked at again.
            foreign => offset + foreign,
        };
        let mut told = reader.at(offset, FRAME_HEADER_BYTES as u64)?;
        let told = codec::get_u32(&mut told).map_or(0, u64::from) + FRAME_HEADER_BYTES as u64;
        let used = match search.used(&hole) {
            0 => 0,
            used => used.max(told.min(hole.end - offset)),
        };
        each(Surveyed::Hole {
            offset,
            used,
            len: hole.end - offset,
        });
        offset = hole.end;
    }
    Ok(())
}

/// Reads the file's bytes through a buffer that moves forward.
struct Reader<'a> {
    file: &'a dyn File,
    len: u64,
    buffer: Vec<u8>,
    start: u64,
    /// Bytes that one read fetches, if the file has them.
    ahead: u64,
}

impl<'a> Reader<'a> {
    fn new(file: &'a dyn File, len: u64) -> Reader<'a> {
        Reader {
            file,
            len,
            buffer: Vec::new(),
            start: 0,
            ahead: READ_BYTES,
        }
    }

    /// The bytes of the frame at `offset`, as its length says. Empty if the file ends before the
    /// frame does. A long frame is verified before memory is allocated for it; empty if it does not
    /// verify.
    fn frame(&mut self, codec: &FrameCodec, offset: u64) -> Result<&[u8]> {
        let mut header = self.at(offset, FRAME_HEADER_BYTES as u64)?;
        let payload_len = codec::get_u32(&mut header).unwrap_or(0);
        let crc = codec::get_u32(&mut header);
        let frame_len = FRAME_HEADER_BYTES as u64 + u64::from(payload_len);
        if frame_len > self.len - offset {
            return Ok(&[]);
        }
        if frame_len > UNVERIFIED_BYTES_MAX {
            let mut sum = frame_checksum(codec.id, offset, payload_len, &[]);
            let mut at = offset + FRAME_HEADER_BYTES as u64;
            while at < offset + frame_len {
                let piece = self.at(at, READ_BYTES.min(offset + frame_len - at))?;
                if piece.is_empty() {
                    return Ok(&[]);
                }
                sum = codec::checksum_on(sum, piece);
                at += piece.len() as u64;
            }
            if crc != Some(sum) {
                return Ok(&[]);
            }
        }
        self.at(offset, frame_len)
    }

    /// `want` bytes at `offset`, or fewer if the file ends before.
    fn at(&mut self, offset: u64, want: u64) -> Result<&[u8]> {
        let want = want.min(self.len - offset.min(self.len));
        if offset < self.start || offset + want > self.start + self.buffer.len() as u64 {
            self.fill(offset, want.max(self.ahead.min(self.len - offset)))?;
        }
        let from = ((offset - self.start) as usize).min(self.buffer.len());
        let to = (from as u64 + want).min(self.buffer.len() as u64) as usize;
        Ok(&self.buffer[from..to])
    }

    fn fill(&mut self, offset: u64, want: u64) -> Result<()> {
        let io_error = |error| Error::io(self.file.path(), "read log", error);
        let want = usize::try_from(want).map_err(|error| io_error(io::Error::other(error)))?;
        if self.buffer.capacity() < want {
            self.buffer = Vec::with_capacity(want);
        }
        self.buffer.resize(want, 0);
        self.start = offset;
        let mut done = 0;
        while done < want {
            let place = offset + done as u64;
            match self
                .file
                .read_at(&mut self.buffer[done..], place)
                .map_err(io_error)?
            {
                0 => break,
                count => done += count,
            }
        }
        self.buffer.truncate(done);
        Ok(())
    }
}
