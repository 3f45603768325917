//! The few words that every part of a store shares: version, kind of record, table id, entry.

use crate::codec;
use std::fmt;

/// A point in the order of all writes. Only grows, over restarts too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version(pub u64);

impl Version {
    /// Below every version that a write gets.
    pub const ZERO: Version = Version(0);
    /// At or above every version: reading "at" it gives the newest record.
    pub const MAX: Version = Version(u64::MAX);

    /// Whether a reader at version `at` sees a record of this version.
    ///
    /// ```
    /// use evendb_storage::Version;
    /// assert!(Version(7).is_seen_at(Version(7)));
    /// assert!(!Version(8).is_seen_at(Version(7)));
    /// ```
    #[inline]
    #[must_use]
    pub const fn is_seen_at(self, at: Version) -> bool {
        self.0 <= at.0
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}", self.0 >> 24, self.0 & 0xff_ffff)
    }
}

/// The greatest number that anything on the disk counts up to: versions, positions in a log,
/// numbers of files. No database reaches it, so a greater number is damage. A number of this size
/// plus a step or a length still fits into 64 bits.
pub const NUMBER_MAX: u64 = 1 << 62;

/// A time of day: milliseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub struct Time(pub u64);

/// What a record says about its key. The number is its byte in tables and in the commit log.
///
/// 2 is a range deletion, which tables do not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The key has no value from this version on (a tombstone).
    Delete = 0,
    /// The key has this value from this version on.
    Put = 1,
    /// The key's value before this version has to be merged with the operands that the record's
    /// value lists ([`operands`]).
    Merge = 3,
    /// The key has a value from this version on, until a time. The record's value is that time in 8
    /// bytes, and the value ([`expiry`]).
    PutUntil = 4,
    /// As `Put`, for a value that lies in a value file. The record's value is its place
    /// ([`Apart`]).
    PutApart = 5,
    /// As `PutUntil`, for a value that lies in a value file. The record's value is the time and the
    /// place.
    PutUntilApart = 6,
    /// As `Delete`, for a key that was put once. The two records cancel each other where they meet.
    SingleDelete = 7,
}

impl Kind {
    /// The kind of a stored byte, if this build knows it.
    pub fn from_byte(byte: u8) -> Option<Kind> {
        match byte {
            0 => Some(Kind::Delete),
            1 => Some(Kind::Put),
            3 => Some(Kind::Merge),
            4 => Some(Kind::PutUntil),
            5 => Some(Kind::PutApart),
            6 => Some(Kind::PutUntilApart),
            7 => Some(Kind::SingleDelete),
            _ => None,
        }
    }

    /// A word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Put => "put",
            Kind::Delete => "delete",
            Kind::Merge => "merge",
            Kind::PutUntil => "put-until",
            Kind::PutApart => "put-apart",
            Kind::PutUntilApart => "put-until-apart",
            Kind::SingleDelete => "single-delete",
        }
    }

    /// Whether a record of this kind may have these bytes as its value.
    pub fn takes(self, value: &[u8]) -> bool {
        match self {
            Kind::Delete | Kind::SingleDelete => value.is_empty(),
            Kind::Put => true,
            Kind::Merge => !value.is_empty() && operands(value).all(|operand| operand.is_some()),
            Kind::PutUntil => value.len() >= EXPIRY_BYTES,
            Kind::PutApart => value.len() == APART_BYTES,
            Kind::PutUntilApart => value.len() == EXPIRY_BYTES + APART_BYTES,
        }
    }

    /// Whether the key has a value, unless that has expired. Such a record is called a put.
    #[inline]
    pub const fn is_put(self) -> bool {
        matches!(
            self,
            Kind::Put | Kind::PutUntil | Kind::PutApart | Kind::PutUntilApart
        )
    }

    /// Whether the record has only the place of its value.
    #[inline]
    pub const fn is_apart(self) -> bool {
        matches!(self, Kind::PutApart | Kind::PutUntilApart)
    }

    /// The kind of the same put with its value apart.
    pub const fn apart(self) -> Kind {
        match self {
            Kind::Put => Kind::PutApart,
            Kind::PutUntil => Kind::PutUntilApart,
            other => other,
        }
    }

    /// The kind of the same put with its value in place.
    pub const fn in_place(self) -> Kind {
        match self {
            Kind::PutApart => Kind::Put,
            Kind::PutUntilApart => Kind::PutUntil,
            other => other,
        }
    }

    /// Whether the key has no value, whatever the time is.
    #[inline]
    pub const fn is_tombstone(self) -> bool {
        matches!(self, Kind::Delete | Kind::SingleDelete)
    }

    /// The number of bytes that come before the put value in a record's value.
    #[inline]
    pub const fn prefix_bytes(self) -> usize {
        match self {
            Kind::PutUntil | Kind::PutUntilApart => EXPIRY_BYTES,
            _ => 0,
        }
    }

    /// The time at which a record with this kind and value expires, if it does.
    #[inline]
    pub fn expires(self, value: &[u8]) -> Option<Time> {
        match self {
            // No decoder accepts a value that is too short.
            Kind::PutUntil | Kind::PutUntilApart => {
                Some(Time(expiry(value).map_or(0, |(time, _)| time)))
            }
            _ => None,
        }
    }
}

/// Bytes of the time with which a value of kind [`Kind::PutUntil`] begins: milliseconds since 1970,
/// little-endian.
pub const EXPIRY_BYTES: usize = 8;

/// Bytes of an [`Apart`].
pub const APART_BYTES: usize = 24;

/// The place of a value that is stored apart from its record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Apart {
    /// Number of the value file.
    pub file: u64,
    /// First byte in it.
    pub offset: u64,
    /// Bytes of the value.
    pub len: u32,
    /// [`Apart::checksum_of`] the value.
    pub checksum: u32,
}

impl Apart {
    /// The checksum of a value. It covers the value's place too: the bytes of another value do not
    /// verify.
    pub fn checksum_of(file: u64, offset: u64, value: &[u8]) -> u32 {
        codec::checksum(file, &[&offset.to_le_bytes(), value])
    }

    /// Whether these are the bytes of the value.
    pub fn verifies(&self, value: &[u8]) -> bool {
        value.len() == self.len as usize
            && Apart::checksum_of(self.file, self.offset, value) == self.checksum
    }

    /// The bytes that records have.
    pub fn encode(&self) -> [u8; APART_BYTES] {
        let mut bytes = [0; APART_BYTES];
        bytes[..8].copy_from_slice(&self.file.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.len.to_le_bytes());
        bytes[20..].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    /// Decodes a value of exactly this many bytes.
    pub fn decode(mut bytes: &[u8]) -> Option<Apart> {
        let apart = Apart {
            file: codec::get_u64(&mut bytes)?,
            offset: codec::get_u64(&mut bytes)?,
            len: codec::get_u32(&mut bytes)?,
            checksum: codec::get_u32(&mut bytes)?,
        };
        bytes.is_empty().then_some(apart)
    }

    /// The place of the value of a record with this kind and value, if it lies apart. Decoders
    /// accept only whole places.
    pub fn of(kind: Kind, value: &[u8]) -> Option<Apart> {
        match kind.is_apart() {
            true => Apart::decode(value.get(kind.prefix_bytes()..)?),
            false => None,
        }
    }
}

/// The time and the value in the value of a record of kind [`Kind::PutUntil`].
pub fn expiry(value: &[u8]) -> Option<(u64, &[u8])> {
    let (time, value) = value.split_first_chunk()?;
    Some((u64::from_le_bytes(*time), value))
}

/// Appends an operand to the value of a record of kind [`Kind::Merge`]: later operands come behind.
pub fn push_operand(value: &mut Vec<u8>, operand: &[u8]) {
    codec::put_slice(value, operand);
}

/// The operands in the value of a record of kind [`Kind::Merge`], oldest first. If a part makes no
/// sense, the last item is `None`.
pub fn operands(mut value: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        if value.is_empty() {
            return None;
        }
        let operand = codec::get_slice(&mut value);
        if operand.is_none() {
            value = &[];
        }
        Some(operand)
    })
}

/// Identity of one sorted table, never reused. It seeds the checksums of the table's blocks, so
/// that a block of another table, or a stale one at the same place, does not verify.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(pub u64);

/// One record, borrowed from wherever it lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryRef<'a> {
    /// User key.
    pub key: &'a [u8],
    /// Version of the write.
    pub version: Version,
    /// What it says.
    pub kind: Kind,
    /// The value, in the form that the kind has; empty for a delete.
    pub value: &'a [u8],
}

impl EntryRef<'_> {
    /// The time at which it expires, if it does.
    #[inline]
    pub fn expires(&self) -> Option<Time> {
        self.kind.expires(self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_its_byte_and_others_are_none() {
        let known: Vec<u8> = (0..=u8::MAX)
            .filter(|&byte| Kind::from_byte(byte).is_some())
            .collect();
        assert_eq!(known, [0, 1, 3, 4, 5, 6, 7]);
        assert!(
            known
                .iter()
                .all(|&byte| Kind::from_byte(byte).is_some_and(|kind| kind as u8 == byte))
        );
    }

    #[test]
    fn operands_are_listed_oldest_first_and_nonsense_is_told() {
        let mut value = Vec::new();
        for operand in [&b"one"[..], b"", &[7; 300]] {
            push_operand(&mut value, operand);
        }
        let listed: Option<Vec<&[u8]>> = operands(&value).collect();
        assert_eq!(listed, Some(vec![&b"one"[..], b"", &[7; 300]]));
        assert!(Kind::Merge.takes(&value) && Kind::Merge.takes(&[0]));
        value.pop();
        assert!(!Kind::Merge.takes(&value) && !Kind::Merge.takes(b""));
        assert_eq!(operands(&value).last(), Some(None));
    }

    #[test]
    fn a_place_apart_round_trips_and_its_checksum_names_the_place() {
        let apart = Apart {
            file: 7 << 32 | 3,
            offset: 4096,
            len: 5,
            checksum: Apart::checksum_of(7 << 32 | 3, 4096, b"value"),
        };
        let bytes = apart.encode();
        assert_eq!(Apart::decode(&bytes), Some(apart));
        assert_eq!(Apart::decode(&bytes[..23]), None);
        assert!(apart.verifies(b"value") && !apart.verifies(b"other") && !apart.verifies(b"val"));
        let moved = Apart { offset: 0, ..apart };
        assert!(!moved.verifies(b"value"));
        let timed = [&9u64.to_le_bytes()[..], &bytes].concat();
        assert_eq!(Apart::of(Kind::PutUntilApart, &timed), Some(apart));
        assert_eq!(Apart::of(Kind::PutApart, &bytes), Some(apart));
        assert_eq!(Apart::of(Kind::Put, &bytes), None);
        assert!(Kind::PutApart.takes(&bytes) && !Kind::PutApart.takes(&timed));
        assert!(Kind::PutUntilApart.takes(&timed) && !Kind::PutUntilApart.takes(&bytes));
        assert_eq!(Kind::PutUntilApart.expires(&timed), Some(Time(9)));
    }

    #[test]
    fn a_value_with_an_expiry_begins_with_the_time() {
        let value = [&9u64.to_le_bytes()[..], b"value"].concat();
        assert_eq!(expiry(&value), Some((9, &b"value"[..])));
        assert!(Kind::PutUntil.takes(&value) && Kind::PutUntil.takes(&value[..8]));
        assert!(!Kind::PutUntil.takes(&value[..7]));
        assert_eq!(expiry(&value[..7]), None);
    }
}
