//! [`Position`]: a place in the order of all changes, and its bytes.
//!
//! ```text
//! 1   u8 form         1, or 2 with the two fields at the end
//! 4   u32 tag         of the life's seed: tells lives of other databases from this one's lives
//! v   epoch           the life
//! v   version         changes before the position have at most this version
//! v   until           and end at or below this LSN
//! v   until - from    changes that end at or below `from` lie before it, whatever their version
//! v   seen version    form 2: changes that have at most this version
//! v   seen until      form 2: and end at or below this LSN lie before it, too
//! 4   u32 crc         checksum of the bytes before
//! ```
//! `until` and `from` differ for a snapshot that was taken while others wrote: between them lie
//! changes that it has and others that it has not, in any order.
//!
//! ```text
//!   log              A v5   B v7   C v5      a snapshot of version 5 has A and C
//!   its position      '- from         '- until
//!   after B           at B, and C is still seen: form 2
//! ```
//! The moment of a reader beside a writer is that of a completed checkpoint. The reader cannot know
//! how far the changes of that checkpoint reach in the log, because the writer may not have written
//! all of them to the file. So its position is of form 2 from the beginning, without an end: later
//! changes, of later lives too, have greater versions. The text form is these bytes in hexadecimal.
//!
//! Invariants: bytes that are no position are refused, and never cause a panic. A position that
//! decodes may still not exist in this log ([`super::resume`]).

use crate::commit_log::{Lsn, Segment};
use crate::error::{Error, ErrorKind, Result};
use evendb_storage::Version;
use evendb_storage::codec::{checksum, get_u32, get_varint, put_varint};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

const FORM: u8 = 1;
/// The form with what else was seen.
const FORM_SEEN: u8 = 2;
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
#[derive(Clone, Copy)]
pub struct Position {
    pub(super) epoch: u64,
    pub(super) version: Version,
    pub(super) until: Lsn,
    /// `until` minus `from`. A change at the end of a snapshot's stretch comes before the snapshot.
    span: u64,
    tag: u32,
    /// Changes with at most this version, up to this end, lie before the position, too.
    seen: (Version, Lsn),
}

/// Nothing else was seen.
const NOTHING: (Version, Lsn) = (Version::ZERO, Lsn(0));

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
            seen: NOTHING,
        }
    }

    /// The same position, before which all changes of completed checkpoints lie, up to this
    /// version, wherever they are in the log.
    pub(super) fn of_checkpoints(self, version: Version) -> Position {
        Position {
            seen: (version, Lsn(u64::MAX)),
            ..self
        }
    }

    /// The position after a change, which a feed gives that goes on from `before`: what lies before
    /// that one and behind the change stays seen.
    pub(super) fn after(self, before: &Position) -> Position {
        let stretch = match before.span {
            0 => NOTHING,
            _ => (before.version, before.until),
        };
        let seen = [before.seen, stretch];
        let seen = seen.into_iter().find(|(_, until)| *until > self.until);
        Position {
            seen: seen.unwrap_or(NOTHING),
            ..self
        }
    }

    /// Whether a change of this version and end lies before the position.
    pub(super) fn has(&self, version: Version, end: Lsn) -> bool {
        let parts = [(self.version, self.until), self.seen];
        let holds = |(most, until): (Version, Lsn)| version <= most && end <= until;
        parts.into_iter().any(holds)
    }

    /// Positions compare by these, in this order.
    fn order(&self) -> (u64, Version, Lsn, u64, u32) {
        (self.epoch, self.version, self.until, self.span, self.tag)
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

    /// The position as bytes: 13 to 69 of them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let has_seen = self.seen != NOTHING;
        let mut bytes = vec![if has_seen { FORM_SEEN } else { FORM }];
        bytes.extend_from_slice(&self.tag.to_le_bytes());
        for number in [self.epoch, self.version.0, self.until.0, self.span] {
            put_varint(&mut bytes, number);
        }
        if has_seen {
            put_varint(&mut bytes, self.seen.0.0);
            put_varint(&mut bytes, self.seen.1.0);
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
        let seen = match form {
            FORM => NOTHING,
            FORM_SEEN => (Version(get_varint(&mut rest)?), Lsn(get_varint(&mut rest)?)),
            _ => return None,
        };
        // One position has one form.
        let is_of_form = (form == FORM) == (seen == NOTHING);
        let is_whole = is_of_form && rest.is_empty() && span <= until;
        is_whole.then_some(Position {
            epoch,
            version,
            until: Lsn(until),
            span,
            tag,
            seen,
        })
    }
}

impl PartialEq for Position {
    fn eq(&self, other: &Position) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Position {}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Position) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Position {
    fn cmp(&self, other: &Position) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl Hash for Position {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.order().hash(state);
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
                seen: NOTHING,
            });
        }
        for (version, until) in [(0, 1), (1, 0), (u64::MAX, u64::MAX)] {
            samples.push(Position {
                seen: (Version(version), Lsn(until)),
                ..samples[2]
            });
        }
        samples
    }

    #[test]
    fn positions_round_trip() {
        for position in samples() {
            let bytes = position.to_bytes();
            assert!((13..=69).contains(&bytes.len()), "{}", bytes.len());
            let again = Position::from_bytes(&bytes).unwrap();
            assert_eq!(again, position);
            assert_eq!(again.seen, position.seen);
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
            &[2, 0, 0, 0, 0, 1, 2, 3, 3, 1],
            &[2, 0, 0, 0, 0, 1, 2, 3, 3, 0, 0],
            &[2, 0, 0, 0, 0, 1, 2, 3, 3, 1, 1, 1],
            &[3, 0, 0, 0, 0, 1, 2, 3, 3, 1, 1],
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
            seen: NOTHING,
        };
        let (change, last) = (at(1, 7, 80, 80), at(1, 7, 160, 160));
        let (snapshot, later) = (at(1, 7, 160, 40), at(1, 8, 120, 120));
        let order = [change, last, snapshot, later, at(2, 8, 120, 120)];
        assert!(order.is_sorted_by(|a, b| a < b));
    }

    /// Of changes between the ends of a snapshot's stretch, those that it has stay behind a
    /// position after one that it has not; and not longer than the stretch.
    #[test]
    fn what_a_snapshot_has_stays_seen() {
        let at = |version, until: u64, from: u64| Position {
            span: until - from,
            ..Position::at((1, 0), Version(version), Lsn(until))
        };
        let snapshot = at(5, 120, 90);
        assert!(snapshot.has(Version(5), Lsn(100)));
        assert!(!snapshot.has(Version(7), Lsn(110)));
        let after = at(7, 110, 110).after(&snapshot);
        assert!(after.has(Version(7), Lsn(110)));
        assert!(after.has(Version(5), Lsn(120)));
        assert!(!after.has(Version(5), Lsn(121)));
        assert!(!after.has(Version(6), Lsn(120)));
        assert!(snapshot < after && after == at(7, 110, 110));
        let stored = Position::from_bytes(&after.to_bytes()).unwrap();
        assert!(stored.has(Version(4), Lsn(115)));
        let last = at(7, 130, 130).after(&after);
        assert_eq!(last.seen, NOTHING);
        // A checkpoint's changes may come to the file at any later time.
        let beside = at(7, 130, 90).of_checkpoints(Version(7));
        let later = at(8, 150, 150).after(&beside);
        assert!(later.has(Version(7), Lsn(170)) && !later.has(Version(8), Lsn(170)));
    }
}
