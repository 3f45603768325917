//! The few words that every part of a store shares: version, kind of record, table id, entry.

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

/// What a record says about its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The key has no value from this version on (a tombstone).
    Delete = 0,
    /// The key has this value from this version on.
    Put = 1,
}

impl Kind {
    /// The kind a stored byte stands for, if it stands for one.
    pub fn from_byte(byte: u8) -> Option<Kind> {
        match byte {
            0 => Some(Kind::Delete),
            1 => Some(Kind::Put),
            _ => None,
        }
    }
}

/// Identity of one sorted table, never reused; it seeds the checksums of the table's blocks, so
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
    /// Put or delete.
    pub kind: Kind,
    /// Value; empty for a delete.
    pub value: &'a [u8],
}
