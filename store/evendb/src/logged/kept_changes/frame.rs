//! The bytes of the frames of kept changes (docs/format.md).
//!
//! ```text
//! first frame   0 u8 | first LSN v | number of the file before v | its end v | its bytes v
//!               | lives v | for each life: epoch v, tag u32, end v
//! record        1 u8 | epoch v | tag u32 | LSN v | end - LSN v | version v
//!               | operations, as in a value extent
//! ```
//! Senseless bytes decode to `None`; decoding never panics.

use crate::commit_log::Lsn;
use evendb_storage::Version;
use evendb_storage::codec::{get_u32, get_varint, put_varint};

const FIRST: u8 = 0;
const RECORD: u8 = 1;

/// The position that a file's changes of one life reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reached {
    pub(super) epoch: u64,
    pub(super) tag: u32,
    pub(super) end: Lsn,
}

/// The contents of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Summary {
    /// The file holds everything from its first LSN up to this position.
    pub(super) end: Lsn,
    /// The bytes of the file that hold it.
    pub(super) len: u64,
    pub(super) lives: Vec<Reached>,
}

impl Summary {
    /// An empty file that begins at `first`.
    pub(super) fn at(first: Lsn) -> Summary {
        Summary {
            end: first,
            len: 0,
            lives: Vec::new(),
        }
    }

    /// Adds the next record.
    pub(super) fn take(&mut self, frame: &Frame) {
        self.end = frame.end;
        match self.lives.last_mut() {
            Some(last) if (last.epoch, last.tag) == (frame.epoch, frame.tag) => {
                last.end = frame.end
            }
            _ => self.lives.push(Reached {
                epoch: frame.epoch,
                tag: frame.tag,
                end: frame.end,
            }),
        }
    }
}

/// The first frame of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct First {
    pub(super) lsn: Lsn,
    /// The number of the file before (0: none); `held` is that file's contents.
    pub(super) previous: u64,
    pub(super) held: Summary,
}

impl First {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![FIRST];
        let lives = self.held.lives.len() as u64;
        let held = &self.held;
        for number in [self.lsn.0, self.previous, held.end.0, held.len, lives] {
            put_varint(&mut out, number);
        }
        for life in &self.held.lives {
            put_varint(&mut out, life.epoch);
            out.extend_from_slice(&life.tag.to_le_bytes());
            put_varint(&mut out, life.end.0);
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<First> {
        let (&kind, mut rest) = bytes.split_first()?;
        let rest = &mut rest;
        let (lsn, previous) = (Lsn(get_varint(rest)?), get_varint(rest)?);
        let mut held = Summary::at(Lsn(get_varint(rest)?));
        held.len = get_varint(rest)?;
        let lives = get_varint(rest)?;
        // Nothing is reserved: a hostile count ends at the first missing entry.
        for _ in 0..lives {
            held.lives.push(Reached {
                epoch: get_varint(rest)?,
                tag: get_u32(rest)?,
                end: Lsn(get_varint(rest)?),
            });
        }
        (kind == FIRST && rest.is_empty()).then_some(First {
            lsn,
            previous,
            held,
        })
    }
}

/// A record that is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    pub(crate) epoch: u64,
    /// The tag of the life's seed.
    pub(crate) tag: u32,
    pub(crate) lsn: Lsn,
    pub(crate) end: Lsn,
    pub(crate) version: Version,
    pub(crate) operations: Vec<u8>,
}

impl Frame {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![RECORD];
        put_varint(&mut out, self.epoch);
        out.extend_from_slice(&self.tag.to_le_bytes());
        let len = self.end.0.saturating_sub(self.lsn.0);
        for number in [self.lsn.0, len, self.version.0] {
            put_varint(&mut out, number);
        }
        out.extend_from_slice(&self.operations);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Frame> {
        let (&kind, mut rest) = bytes.split_first()?;
        let (epoch, tag) = (get_varint(&mut rest)?, get_u32(&mut rest)?);
        let (lsn, len) = (get_varint(&mut rest)?, get_varint(&mut rest)?);
        let version = Version(get_varint(&mut rest)?);
        (kind == RECORD).then_some(Frame {
            epoch,
            tag,
            lsn: Lsn(lsn),
            end: Lsn(lsn.checked_add(len)?),
            version,
            operations: rest.to_vec(),
        })
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::golden_text::bytes_of;

    fn samples() -> (First, Frame) {
        let frame = Frame {
            epoch: 3,
            tag: 0xdead_beef,
            lsn: Lsn(0x1000),
            end: Lsn(0x1040),
            version: Version(5 << 24),
            operations: b"ops".to_vec(),
        };
        let mut held = Summary::at(Lsn(8));
        held.take(&frame);
        held.len = 42;
        let first = First {
            lsn: Lsn(0x1040),
            previous: 7,
            held,
        };
        (first, frame)
    }

    #[test]
    fn frames_have_these_bytes() {
        let (first, frame) = samples();
        let text = "00 c0 20 07 c0 20 2a 01  03 ef be ad de c0 20 # one life";
        assert_eq!(first.encode(), bytes_of(text));
        let text = "01 03 ef be ad de 80 20 40 80 80 80 28 6f 70 73 # three bytes of operations";
        assert_eq!(frame.encode(), bytes_of(text));
        assert_eq!(First::decode(&first.encode()), Some(first));
        assert_eq!(Frame::decode(&frame.encode()), Some(frame));
    }

    #[test]
    fn cut_or_flipped_frames_never_panic() {
        let (first, frame) = samples();
        for bytes in [first.encode(), frame.encode()] {
            for end in 0..bytes.len() {
                let _ = (First::decode(&bytes[..end]), Frame::decode(&bytes[..end]));
            }
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let _ = (First::decode(&flipped), Frame::decode(&flipped));
            }
        }
    }
}
