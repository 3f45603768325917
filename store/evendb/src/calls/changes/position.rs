//! [`Position`]: a place in the order of all changes, and its bytes.
//!
//! ```text
//! 1   u8 form         1
//! 4   u32 tag         of the life's seed: tells lives of other databases from this one's lives
//! v   epoch           the life
//! v   version         changes before the position have at most this version
//! v   until           and end at or below this LSN
//! v   until - from    changes that end at or below `from` lie before it, whatever their version
//! 4   u32 crc         checksum of the bytes before
//! ```
//! `until` and `from` differ for a snapshot that was taken while others wrote. The text form is
//! these bytes in hexadecimal.
//!
//! Invariants: bytes that are no position are refused, and never cause a panic. A position that
//! decodes may still not exist in this log ([`super::resume`]).

use crate::commit_log::{Lsn, Segment};
use crate::error::{Error, ErrorKind, Result};
use evendb_storage::Version;
use evendb_storage::codec::{checksum, get_u32, get_varint, put_varint};
use std::fmt;
use std::str::FromStr;

const FORM: u8 = 1;
/// The number of bytes of the checksum.
const CRC_BYTES: usize = 4;

/// A place in the order of all changes of a database: its owner has seen every change before it,
/// and [`Db::changes_since`](crate::Db::changes_since) gives the changes after it.
///
/// Positions of one database compare in the order of the changes; positions of later lives come
/// later. A position can be stored as text or bytes; it stays valid when the database is closed and
/// opened again.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let db = evendb::Db::open(dir.path())?;
/// let before = db.position()?;
/// db.put("k", "v")?;
/// assert!(before < db.position()?);
/// let kept = before.to_string();
/// assert_eq!(kept.parse::<evendb::Position>()?, before);
/// # Ok::<(), evendb::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    // Positions compare by the fields in this order.
    pub(super) epoch: u64,
    pub(super) version: Version,
    pub(super) until: Lsn,
    /// `until` minus `from`. A change at the end of a snapshot's stretch comes before the snapshot.
    span: u64,
    tag: u32,
}

fn refused(what: &str) -> Error {
    let message = format!(
        "{what}; a position is what another call or command gave (Position::to_bytes, \
         `evendb changes --position`)"
    );
    Error::new(ErrorKind::InvalidArgument, message)
}

impl Position {
    /// The position in a life after the changes that have at most `version` and end at or below
    /// `until`, and after all changes that end at or below `from`.
    pub(super) fn new(life: &Segment, version: Version, (from, until): (Lsn, Lsn)) -> Position {
        Position {
            span: until.0.saturating_sub(from.0),
            ..Position::at((life.epoch, life.tag()), version, until)
        }
    }

    /// The position in a life, given by epoch and tag, after the changes that end at or below
    /// `until`.
    pub(super) fn at((epoch, tag): (u64, u32), version: Version, until: Lsn) -> Position {
        Position {
            epoch,
            version,
            until,
            span: 0,
            tag,
        }
    }

    pub(super) fn tag(&self) -> u32 {
        self.tag
    }

    pub(super) fn from(&self) -> Lsn {
        Lsn(self.until.0.saturating_sub(self.span))
    }

    /// Whether it belongs to this life.
    pub(super) fn is_of(&self, life: &Segment) -> bool {
        (self.epoch, self.tag) == (life.epoch, life.tag())
    }

    /// The position as bytes: 13 to 49 of them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![FORM];
        bytes.extend_from_slice(&self.tag.to_le_bytes());
        for number in [self.epoch, self.version.0, self.until.0, self.span] {
            put_varint(&mut bytes, number);
        }
        let crc = checksum(0, &[&bytes]);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The position from the bytes that [`to_bytes`](Self::to_bytes) gave.
    ///
    /// # Errors
    /// `InvalidArgument` for other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Position> {
        let split = bytes.len().checked_sub(CRC_BYTES);
        let Some((body, crc)) = split.and_then(|at| bytes.split_at_checked(at)) else {
            return Err(refused("too few bytes for a position"));
        };
        if crc != checksum(0, &[body]).to_le_bytes() {
            return Err(refused("the position's checksum does not fit its bytes"));
        }
        Position::decode(body).ok_or_else(|| refused("the position makes no sense"))
    }

    fn decode(body: &[u8]) -> Option<Position> {
        let (&form, mut rest) = body.split_first()?;
        let tag = get_u32(&mut rest)?;
        let epoch = get_varint(&mut rest)?;
        let version = Version(get_varint(&mut rest)?);
        let until = get_varint(&mut rest)?;
        let span = get_varint(&mut rest)?;
        let is_whole = form == FORM && rest.is_empty() && span <= until;
        is_whole.then_some(Position {
            epoch,
            version,
            until: Lsn(until),
            span,
            tag,
        })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.to_bytes().into_iter();
        bytes.try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Position({self})")
    }
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Position> {
        let digits = || text.chars().map(|digit| digit.to_digit(16));
        let Some(digits) = digits().collect::<Option<Vec<u32>>>() else {
            return Err(refused("a position has hexadecimal digits only"));
        };
        let (pairs, rest) = digits.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(refused("a position has an even number of digits"));
        }
        let bytes: Vec<u8> = pairs
            .iter()
            .map(|[high, low]| (high * 16 + low) as u8)
            .collect();
        Position::from_bytes(&bytes)
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    fn samples() -> Vec<Position> {
        let mut samples = Vec::new();
        for number in [0, 1, 127, 128, 1 << 40, u64::MAX] {
            samples.push(Position {
                epoch: number,
                version: Version(number),
                until: Lsn(number),
                span: number / 2,
                tag: number as u32,
            });
        }
        samples
    }

    #[test]
    fn positions_round_trip() {
        for position in samples() {
            let bytes = position.to_bytes();
            assert!((13..=49).contains(&bytes.len()), "{}", bytes.len());
            assert_eq!(Position::from_bytes(&bytes).unwrap(), position);
            let text = position.to_string();
            assert_eq!(text.parse::<Position>().unwrap(), position);
            assert_eq!(text.to_uppercase().parse::<Position>().unwrap(), position);
        }
    }

    #[test]
    fn hostile_bytes_are_refused() {
        let is_refused = |result: Result<Position>| {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument);
        };
        for position in samples() {
            let bytes = position.to_bytes();
            for end in 0..bytes.len() {
                is_refused(Position::from_bytes(&bytes[..end]));
            }
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                is_refused(Position::from_bytes(&flipped));
            }
        }
        // With a fitting checksum: cut short, too long, another form, `from` below 0.
        let sealed = |body: &[u8]| {
            let mut bytes = body.to_vec();
            bytes.extend_from_slice(&checksum(0, &[body]).to_le_bytes());
            Position::from_bytes(&bytes)
        };
        assert!(sealed(&[1, 0, 0, 0, 0, 1, 2, 3, 3]).is_ok());
        for body in [
            &[][..],
            &[1],
            &[1, 0, 0, 0, 0, 1, 2, 3],
            &[1, 0, 0, 0, 0, 1, 2, 3, 3, 0],
            &[2, 0, 0, 0, 0, 1, 2, 3, 3],
            &[1, 0, 0, 0, 0, 1, 2, 3, 4],
            &[
                1, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
            ],
        ] {
            is_refused(sealed(body));
        }
        for text in ["", "0", "zz", "00 ", "\u{130}\u{130}", "0x01"] {
            is_refused(text.parse());
        }
    }

    /// A change at a version that a snapshot covers is before the snapshot's position, and a later
    /// change behind it.
    #[test]
    fn positions_compare_in_the_order_of_changes() {
        let at = |epoch, version, until: u64, from: u64| Position {
            epoch,
            version: Version(version),
            until: Lsn(until),
            span: until - from,
            tag: 0,
        };
        let (change, last) = (at(1, 7, 80, 80), at(1, 7, 160, 160));
        let (snapshot, later) = (at(1, 7, 160, 40), at(1, 8, 120, 120));
        let order = [change, last, snapshot, later, at(2, 8, 120, 120)];
        assert!(order.is_sorted_by(|a, b| a < b));
    }
}
