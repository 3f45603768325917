//! Which record of a key decides, for a reader and for a rewrite. Every component that holds
//! records asks here, so a new kind of record gets its meaning in this file.
//!
//! ```text
//! sources of a key, newest first     a reader at 25                a rewrite, snapshot at 15
//!   delta    31 put                  above 25: not seen            kept
//!   delta    20 delete               decides: there is no value    kept, 15 < 20
//!   munk     20 put, 12 put          not asked any more            20: equal version, dropped
//!                                                                  12: kept, 15 reads it
//! ```
//!
//! **For a reader:** in one source, the newest record at or below the reader's version is seen
//! ([`Version::is_seen_at`]). Sources are asked newest first, and the first that has such a record
//! decides ([`decide`]; `View` in `chunk/view.rs` has the order). If a tombstone decides, there is
//! no value; the same holds for a record that has expired by the reader's time ([`live`]). Versions
//! need not be compared between sources: a newer source has no record of a key that is older than a
//! record of the same key in an older source. Of two equal versions, the one in the newer source
//! decides.
//!
//! A range deletion (`chunk/covers/mod.rs`) hides, from a reader that sees it, all records of
//! smaller versions, in all sources. If it hides the record that decides, there is no value.
//!
//! **For a rewrite:** the versions of a key come newest first; of two equal versions, the one of
//! the newer source comes first ([`comes_before`]). [`KeyVersions::fate`] says for each version
//! whether it stays. [`Horizon`] knows which readers there are, now and later. A record that has
//! expired for all readers that see it is a tombstone from then on ([`Dropping::as_all_read`]): it
//! hides older records until none is left below it.
//!
//! Nothing here allocates, calls through a pointer, or looks at keys twice.

use crate::expiry::ReadTime;
use crate::version::horizon::Horizon;
use evendb_storage::{EntryRef, Kind, Time, Version};
use std::cmp::Reverse;

/// A record as the rule sees it, wherever its bytes are.
pub(crate) trait Candidate {
    /// The statement of the record about its key.
    fn kind(&self) -> Kind;

    /// Its version.
    fn version(&self) -> Version;

    /// Its value as it is stored: with the time of expiry in front, if it expires.
    fn stored_value(&self) -> &[u8];

    /// The time at which it expires, if it does.
    #[inline]
    fn expires(&self) -> Option<Time> {
        self.kind().expires(self.stored_value())
    }
}

/// The record for a reader; none if it is a tombstone or has expired, which hides older records. A
/// record that lists operands has only a part of the value: the caller then asks
/// `read/merges/mod.rs`.
#[inline]
pub(crate) fn live<R: Candidate>(decides: R, time: ReadTime<'_>) -> Option<R> {
    match decides.kind() {
        Kind::Put | Kind::PutApart | Kind::Merge => Some(decides),
        Kind::Delete | Kind::SingleDelete => None,
        Kind::PutUntil | Kind::PutUntilApart => unexpired(decides, time),
    }
}

#[cold]
fn unexpired<R: Candidate>(decides: R, time: ReadTime<'_>) -> Option<R> {
    let is_past = decides.expires().is_some_and(|at| time.is_past(at));
    (!is_past).then_some(decides)
}

/// The record that decides, which may be a tombstone. Sources answer newest first, and none is
/// asked after the one that decides.
#[inline]
pub(crate) fn decide<R: Candidate>(mut answers: impl Iterator<Item = Option<R>>) -> Option<R> {
    answers.find_map(|answer| answer)
}

/// Like [`decide`], for sources that may fail. The first failure ends the search: an older source
/// must not answer when a newer one may have a record.
#[inline]
pub(crate) fn try_decide<R: Candidate, E>(
    mut answers: impl Iterator<Item = Result<Option<R>, E>>,
) -> Result<Option<R>, E> {
    answers.find_map(Result::transpose).transpose()
}

/// The order of a rewrite: whether record `a`, of the source with number `a_source`, comes before
/// record `b`. Sources are numbered newest first.
#[inline]
pub(crate) fn comes_before(
    (a, a_source): (&EntryRef<'_>, usize),
    (b, b_source): (&EntryRef<'_>, usize),
) -> bool {
    (a.key, Reverse(a.version), a_source) < (b.key, Reverse(b.version), b_source)
}

/// The versions that a rewrite may leave out.
#[derive(Clone, Copy)]
pub(crate) struct Dropping<'a> {
    /// Which readers there are and will be.
    pub(crate) horizon: &'a Horizon,
    /// All older records of the chunk are among the sources: tombstones that hide nothing may go,
    /// and versions may become zero. (Above older records a zero would fall below them.)
    pub(crate) bottom: bool,
    /// The version from which versions do not become zero: it is the least version of a range
    /// deletion that stays, which must not come to hide newer records.
    pub(crate) zero_below: Version,
}

impl Dropping<'_> {
    /// The version that a kept record is written with: zero where no reader can tell the
    /// difference.
    #[inline]
    pub(crate) fn written_version(&self, version: Version) -> Version {
        match self.bottom && version < self.zero_below && self.horizon.below_all(version) {
            true => Version::ZERO,
            false => version,
        }
    }

    /// The record as all readers that see it read it: a tombstone if it has expired for all of
    /// them.
    #[inline]
    pub(crate) fn as_all_read<'e>(&self, entry: EntryRef<'e>) -> EntryRef<'e> {
        match entry.kind {
            Kind::PutUntil | Kind::PutUntilApart => self.as_all_read_now(entry),
            _ => entry,
        }
    }

    #[cold]
    fn as_all_read_now<'e>(&self, entry: EntryRef<'e>) -> EntryRef<'e> {
        let expired = |expiry| self.horizon.is_expired(entry.version, expiry);
        match entry.expires().is_some_and(expired) {
            true => EntryRef {
                kind: Kind::Delete,
                value: &[],
                ..entry
            },
            false => entry,
        }
    }
}

/// The fate of a record in a rewrite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It is written.
    Kept,
    /// A newer source has a record of the same version.
    Twin,
    /// No reader falls between it and the next newer record.
    Hidden,
    /// A tombstone that every reader sees, above records that all go.
    SpentTombstone,
    /// No reader falls between it and a range deletion.
    Covered,
    /// The application's filter dropped it.
    Filtered,
}

/// The versions of one key on their way through a rewrite, newest first.
#[derive(Clone, Copy, Default)]
pub(crate) struct KeyVersions {
    /// The version that was kept last, or the version of a tombstone in whose place nothing is
    /// written.
    newer: Option<Version>,
}

impl KeyVersions {
    /// Whether no version has been kept yet.
    pub(crate) fn is_first(&self) -> bool {
        self.newer.is_none()
    }

    /// The fate of the next record of the key.
    #[inline]
    pub(crate) fn fate(&mut self, version: Version, kind: Kind, dropping: Dropping<'_>) -> Fate {
        if let Some(newer) = self.newer {
            if version == newer {
                return Fate::Twin;
            }
            // A hidden single delete is needed by its put, which may be elsewhere: without the
            // single delete the put would come back when the record that hides both is deleted in
            // the same way.
            let waits = kind == Kind::SingleDelete && !dropping.bottom;
            if !waits && dropping.horizon.may_drop(version, newer) {
                return Fate::Hidden;
            }
        }
        let first = self.newer.replace(version).is_none();
        let spent = first && dropping.bottom && kind.is_tombstone();
        match spent && dropping.horizon.below_all(version) {
            true => Fate::SpentTombstone,
            false => Fate::Kept,
        }
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
