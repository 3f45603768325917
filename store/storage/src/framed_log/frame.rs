//! Headers and frames of a log as bytes, plain and encrypted. [`FrameCodec`] has what one log needs
//! for that.
//!
//! No I/O, except for [`header_id_in`]. Nothing panics on bytes of a file.

use crate::sealing::{Cipher, NONCE_BYTES, Nonce, Secrets, TAG_BYTES, Use};
use crate::vfs::{File, read_exact_at};
use crate::{Error, Result, codec};
use std::borrow::Cow;
use std::path::Path;

/// Bytes of the file header: the offset of the first frame.
pub const HEADER_BYTES: u64 = 24;

/// Bytes of a frame before its payload.
pub const FRAME_HEADER_BYTES: usize = 8;

/// `EVENFLOG` in a hex dump.
const MAGIC: u64 = u64::from_le_bytes(*b"EVENFLOG");
const FORMAT_VERSION: u32 = 1;
/// The format version of an encrypted log.
const FORMAT_VERSION_SEALED: u32 = 2;

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

pub(super) fn frame_checksum(id: u64, offset: u64, len: u32, payload: &[u8]) -> u32 {
    codec::checksum(id, &[&offset.to_le_bytes(), &len.to_le_bytes(), payload])
}

/// Encodes and decodes the frames of one log.
#[derive(Debug)]
pub struct FrameCodec {
    pub(super) id: u64,
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

    pub(super) fn header(&self) -> [u8; HEADER_BYTES as usize] {
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

/// Fails unless these bytes are the header of the log of `codec`.
pub(super) fn check_header(file: &dyn File, codec: &FrameCodec, header: &[u8]) -> Result<()> {
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
