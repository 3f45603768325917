//! Sources for targets: an input that is taken apart, a file in memory, and the frames of a framed
//! log.

use evendb_storage::framed_log::{
    FRAME_HEADER_BYTES, FrameCodec, HEADER_BYTES, Surveyed, encode_frame, encode_header,
    find_frame, read_frames, survey_frames,
};
use evendb_storage::vfs::{File, Mapping};
use evendb_storage::{Error, ErrorKind};
use std::io;
use std::path::Path;

/// An input, read from its beginning. After its end it gives zeros, so that every input has a
/// meaning.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&byte, rest)) => {
                self.0 = rest;
                byte
            }
            None => 0,
        }
    }

    pub(crate) fn two(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub(crate) fn number(&mut self) -> u64 {
        u64::from_le_bytes([(); 8].map(|()| self.byte()))
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        match end <= 256 {
            true => usize::from(self.byte()) % end,
            false => usize::from(self.two()) % end,
        }
    }

    /// The next `len` bytes, or all that are left.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Bytes after their number, which has two bytes.
    pub(crate) fn slice(&mut self) -> &'a [u8] {
        let len = usize::from(self.two());
        self.take(len)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A file in memory that is only read.
#[derive(Debug)]
pub(crate) struct MemoryFile(pub(crate) Vec<u8>);

impl File for MemoryFile {
    fn path(&self) -> &Path {
        Path::new("input")
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.0.get(from..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn write_at(&self, _data: &[u8], _offset: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn preallocate(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn punch_hole(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn map(&self, _len: usize) -> io::Result<Box<dyn Mapping>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Whether a decoder may give this error: bytes can only be damaged, or of another version.
pub(crate) fn check_error(error: &Error) {
    let kinds = [ErrorKind::Corruption, ErrorKind::Unsupported];
    assert!(kinds.contains(&error.kind()), "{error}");
}

/// Corrects the header and the frames of a damaged framed log: their lengths and contents stay, up
/// to the first length that reaches beyond the end. The bytes from there on stay as they are.
pub(crate) fn reseal_frames(bytes: &[u8], id: u64) -> Vec<u8> {
    let mut out = encode_header(id).to_vec();
    let mut rest = bytes.get(HEADER_BYTES as usize..).unwrap_or_default();
    while let Some((head, behind)) = rest.split_at_checked(FRAME_HEADER_BYTES) {
        let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some((payload, next)) = behind.split_at_checked(len).filter(|_| len > 0) else {
            break;
        };
        let offset = out.len() as u64;
        encode_frame(&mut out, id, offset, payload);
        rest = next;
    }
    out.extend_from_slice(rest);
    out
}

/// A framed log of these frames.
pub(crate) fn framed(id: u64, payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut out = encode_header(id).to_vec();
    for payload in payloads {
        let offset = out.len() as u64;
        encode_frame(&mut out, id, offset, payload);
    }
    out
}

/// The payloads of the frames before the first place that does not verify. Three ways agree:
/// reading them one by one, surveying all, and looking for a frame after that place.
pub(crate) fn frames_of(bytes: &[u8], id: u64) -> Vec<Vec<u8>> {
    let file = MemoryFile(bytes.to_vec());
    let mut read = Vec::new();
    let end = read_frames(&file, id, 0, &mut |_, payload| {
        read.push(payload.to_vec());
        Ok(())
    });
    let codec = FrameCodec::of(None, file.path(), id);
    let (mut surveyed, mut first_hole, mut behind) = (Vec::new(), None, None);
    let mut at = HEADER_BYTES.min(bytes.len() as u64);
    let survey = survey_frames(&file, &codec, &mut |found| match found {
        Surveyed::Frame {
            offset,
            len,
            payload,
        } => {
            assert_eq!(offset, at, "frames lie one behind the other");
            at += len;
            match first_hole {
                None => surveyed.push(payload.to_vec()),
                Some(_) => drop(behind.get_or_insert(offset)),
            }
        }
        Surveyed::Hole { offset, len, used } => {
            assert_eq!(offset, at, "holes lie behind frames");
            assert!(used <= len && len > 0);
            at += len;
            first_hole.get_or_insert(offset);
        }
    });
    assert!(survey.is_ok(), "nothing fails to be read");
    assert_eq!(at, bytes.len() as u64, "the survey looks at all");
    match end {
        Ok(end) => {
            assert_eq!(read, surveyed, "a survey finds what a reader finds");
            assert_eq!(end, first_hole.unwrap_or(at));
            let found = find_frame(&file, id, end);
            assert_eq!(found.ok(), Some(behind), "the first frame behind the end");
        }
        Err(error) => {
            check_error(&error);
            assert!(read.is_empty(), "only a header is refused");
        }
    }
    read
}
