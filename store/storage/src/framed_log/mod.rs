//! An append-only file of checksummed frames (the manifest): writer and reader.
//!
//! ```text
//! file   = | header | frame | frame | ...
//! header = | magic u64 | format version u32 | log id u64 | crc32c u32 |       (24 bytes)
//! frame  = | payload length u32 | crc32c u32 | payload, at least a byte |
//! ```
//!
//! A frame's checksum covers log id, the frame's offset, its length and payload. So no frame of
//! another log and no frame at another place verifies. The caller gives frames their meaning.
//!
//! A reader is told up to which offset frames were made durable. Before that offset every frame
//! must verify. Behind it, reading ends at the first frame that does not verify (a torn append).
//! The torn tail is wiped before the next append ([`FramedLogWriter::resume`]): it may contain
//! whole frames, and one of them would come back to life if a new frame happened to end where it
//! starts.
//!
//! In an encrypted database ([`crate::sealing`]) the format version is 2, and each payload is
//! replaced by
//! ```text
//! | nonce (12 bytes) | payload, encrypted | tag (16 bytes) |
//! ```
//! The key is the log's own, made from its file name and id. Each frame has a fresh nonce, because
//! a place is written again after a torn append. The frame's offset is bound. [`FrameCodec`] does
//! all of this for one log.
//!
//! The writer belongs to one thread at a time. After a failed append or sync the caller stops.

mod search;

use crate::sealing::{Cipher, NONCE_BYTES, Nonce, Secrets, TAG_BYTES, Use};
use crate::vfs::{File, read_exact_at};
use crate::{Error, Result, codec};
use search::Search;
use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Bytes of the file header: the offset of the first frame.
pub const HEADER_BYTES: u64 = 24;

/// Bytes of a frame before its payload.
pub const FRAME_HEADER_BYTES: usize = 8;

/// `EVENFLOG` in a hex dump.
const MAGIC: u64 = u64::from_le_bytes(*b"EVENFLOG");
const FORMAT_VERSION: u32 = 1;
/// The format version of an encrypted log.
const FORMAT_VERSION_SEALED: u32 = 2;

/// Bytes that one write wipes.
const WIPE_BYTES: usize = 4096;

/// Bytes that the reader fetches at once.
const READ_BYTES: u64 = 256 << 10;

/// A frame that claims more bytes is verified before memory is allocated for it.
const UNVERIFIED_BYTES_MAX: u64 = 16 << 20;

/// The header of log `id`.
pub fn encode_header(id: u64) -> [u8; HEADER_BYTES as usize] {
    encode_header_of(id, FORMAT_VERSION)
}

fn encode_header_of(id: u64, version: u32) -> [u8; HEADER_BYTES as usize] {
    let mut header = [0; HEADER_BYTES as usize];
    header[..8].copy_from_slice(&MAGIC.to_le_bytes());
    header[8..12].copy_from_slice(&version.to_le_bytes());
    header[12..20].copy_from_slice(&id.to_le_bytes());
    let crc = codec::checksum(id, &[&header[..20]]);
    header[20..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Appends the frame of `payload` for `offset` of log `id`; `false` if it is empty, or 4 GiB or
/// longer.
pub fn encode_frame(out: &mut Vec<u8>, id: u64, offset: u64, payload: &[u8]) -> bool {
    let len = match u32::try_from(payload.len()) {
        Ok(len) if len > 0 => len,
        _ => return false,
    };
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&frame_checksum(id, offset, len, payload).to_le_bytes());
    out.extend_from_slice(payload);
    true
}

/// The payload of the frame at the start of `bytes`, which are at `offset` of log `id`; `None` if
/// no whole frame verifies there.
pub fn decode_frame(bytes: &[u8], id: u64, offset: u64) -> Option<&[u8]> {
    let mut input = bytes;
    let len = codec::get_u32(&mut input)?;
    let crc = codec::get_u32(&mut input)?;
    // No frame is empty: reserved room reads as zeros, and at one place in four billion zero is the
    // right checksum of an empty payload.
    let payload = input.get(..usize::try_from(len).ok()?)?;
    (len > 0 && crc == frame_checksum(id, offset, len, payload)).then_some(payload)
}

fn frame_checksum(id: u64, offset: u64, len: u32, payload: &[u8]) -> u32 {
    codec::checksum(id, &[&offset.to_le_bytes(), &len.to_le_bytes(), payload])
}

/// Encodes and decodes the frames of one log.
#[derive(Debug)]
pub struct FrameCodec {
    id: u64,
    seal: Option<(Secrets, Cipher)>,
}

/// The bytes at a place of a log.
pub enum FrameAt<'a> {
    /// A frame with this payload.
    Frame(Cow<'a, [u8]>),
    /// No frame verifies.
    Nothing,
    /// A frame that verifies but was not written here with the database's key. No crash leaves such
    /// a frame.
    Foreign,
}

impl FrameCodec {
    /// The codec of log `id` in `file`.
    pub fn new(file: &dyn File, id: u64) -> FrameCodec {
        FrameCodec::of(file.secrets(), file.path(), id)
    }

    /// The codec of log `id` in the file at `path`, of a database with these secrets. Only the
    /// path's last component counts.
    pub fn of(secrets: Option<&Secrets>, path: &Path, id: u64) -> FrameCodec {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let seal = secrets.map(|secrets| {
            let cipher = secrets.cipher(Use::FramedLog(&name), id, &[]);
            (secrets.clone(), cipher)
        });
        FrameCodec { id, seal }
    }

    /// Bytes that the frame of a payload of `len` bytes takes.
    pub fn frame_bytes(&self, len: usize) -> u64 {
        let sealed = self.seal.as_ref().map_or(0, |_| NONCE_BYTES + TAG_BYTES);
        (FRAME_HEADER_BYTES + sealed + len) as u64
    }

    fn header(&self) -> [u8; HEADER_BYTES as usize] {
        encode_header_of(self.id, self.version())
    }

    fn version(&self) -> u32 {
        match self.seal {
            Some(_) => FORMAT_VERSION_SEALED,
            None => FORMAT_VERSION,
        }
    }

    /// Appends the frame of `payload` for `offset`; `false` if it is empty, or 4 GiB or longer.
    pub fn encode(&self, out: &mut Vec<u8>, offset: u64, payload: &[u8]) -> bool {
        let Some((secrets, cipher)) = &self.seal else {
            return encode_frame(out, self.id, offset, payload);
        };
        let nonce = secrets.fresh::<NONCE_BYTES>();
        let mut sealed = Vec::with_capacity(NONCE_BYTES + payload.len() + TAG_BYTES);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(payload);
        cipher.seal(
            Nonce(nonce),
            &offset.to_le_bytes(),
            &mut sealed,
            NONCE_BYTES,
        );
        encode_frame(out, self.id, offset, &sealed)
    }

    /// What the start of `bytes` is, which are at `offset` of the log.
    pub fn decode<'a>(&self, bytes: &'a [u8], offset: u64) -> FrameAt<'a> {
        let Some(stored) = decode_frame(bytes, self.id, offset) else {
            return FrameAt::Nothing;
        };
        let Some((_, cipher)) = &self.seal else {
            return FrameAt::Frame(Cow::Borrowed(stored));
        };
        let opened = stored.split_first_chunk().and_then(|(nonce, sealed)| {
            let mut payload = vec![0; sealed.len().checked_sub(TAG_BYTES)?];
            let bound = offset.to_le_bytes();
            let opens = cipher.open_into(Nonce(*nonce), &bound, sealed, &mut payload);
            opens.then_some(payload)
        });
        opened.map_or(FrameAt::Foreign, |payload| {
            FrameAt::Frame(Cow::Owned(payload))
        })
    }

    /// The payload at the start of `bytes`, if a frame was written there.
    pub fn payload<'a>(&self, bytes: &'a [u8], offset: u64) -> Option<Cow<'a, [u8]>> {
        match self.decode(bytes, offset) {
            FrameAt::Frame(payload) => Some(payload),
            FrameAt::Nothing | FrameAt::Foreign => None,
        }
    }
}

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

    /// Goes on behind the last valid frame, at the `end` that [`read_frames`] returned for this
    /// log. Bytes behind it are wiped, durably. The file keeps its length, and so its reserved
    /// room.
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

/// Calls `each(offset, payload)` for the frames of log `id` in order, and returns the end of the
/// last valid one.
///
/// Frames that start before `verified_up_to` must verify, else it fails with `Corruption`. This is
/// an end that [`FramedLogWriter::append`] returned and that was made durable. Behind it, reading
/// ends at the first frame that does not verify. The header must always verify. An error of `each`
/// ends reading and is returned.
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

fn check_header(file: &dyn File, codec: &FrameCodec, header: &[u8]) -> Result<()> {
    let mut input = header;
    let magic = codec::get_u64(&mut input);
    let version = codec::get_u32(&mut input);
    let corrupt = |detail| Err(Error::corruption(file.path(), 0, detail));
    match (magic, version) {
        (Some(MAGIC), Some(version)) if version == codec.version() => {}
        (Some(MAGIC), Some(FORMAT_VERSION)) => {
            return corrupt("a log that is not encrypted, in an encrypted database");
        }
        (Some(MAGIC), Some(FORMAT_VERSION_SEALED)) => {
            let detail = "an encrypted log, and no key was given";
            return Err(Error::unsupported(file.path(), detail));
        }
        (Some(MAGIC), Some(version)) => {
            return Err(Error::unsupported(file.path(), unknown_version(version)));
        }
        (Some(_), Some(_)) => return corrupt("not a framed log: wrong magic"),
        _ => return corrupt("log header cut short"),
    }
    if header == codec.header() {
        Ok(())
    } else {
        corrupt("header of another log, or broken")
    }
}

fn unknown_version(version: u32) -> String {
    format!("log format {version}, this build reads {FORMAT_VERSION} and {FORMAT_VERSION_SEALED}")
}

/// The id of the log whose header `bytes` begin with; the text says why there is none.
pub fn header_id(bytes: &[u8]) -> std::result::Result<u64, String> {
    let header = bytes
        .get(..HEADER_BYTES as usize)
        .ok_or("log header cut short")?;
    let mut input = header;
    let magic = codec::get_u64(&mut input);
    let version = codec::get_u32(&mut input);
    let id = codec::get_u64(&mut input).unwrap_or(0);
    if magic != Some(MAGIC) {
        return Err("not a framed log: wrong magic".to_owned());
    }
    let version = version.unwrap_or(0);
    if ![FORMAT_VERSION, FORMAT_VERSION_SEALED].contains(&version) {
        return Err(unknown_version(version));
    }
    match header == encode_header_of(id, version) {
        true => Ok(id),
        false => Err("log header does not verify".to_owned()),
    }
}

/// The id of the log in `file`; the text says why there is none.
pub fn header_id_in(file: &dyn File) -> std::result::Result<u64, String> {
    let len = file.len().map(|len| len.min(HEADER_BYTES) as usize);
    let header = len.and_then(|len| {
        let mut header = [0; HEADER_BYTES as usize];
        read_exact_at(file, &mut header[..len], 0).map(|()| (header, len))
    });
    match header {
        Ok((header, len)) => header_id(&header[..len]),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_verifies_only_in_its_place() {
        let mut bytes = Vec::new();
        assert!(encode_frame(&mut bytes, 5, 24, b"payload"));
        assert_eq!(decode_frame(&bytes, 5, 24), Some(&b"payload"[..]));
        assert_eq!(decode_frame(&bytes, 6, 24), None);
        assert_eq!(decode_frame(&bytes, 5, 25), None);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_frame(&bad, 5, 24), None, "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert_eq!(decode_frame(&bytes[..len], 5, 24), None, "length {len}");
        }
    }

    #[test]
    fn zeros_are_no_frame() {
        assert_eq!(decode_frame(&[0; 64], 0, 0), None);
        assert_eq!(decode_frame(&[0; 64], 5, 24), None);
    }
}
