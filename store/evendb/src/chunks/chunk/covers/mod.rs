//! The range deletions that count in a chunk.
//!
//! ```text
//!   keys       a . . . . f . . . . k . . . . p . . . .
//!   pieces     |   5     |  8 5    |    8    |  none     each piece lists its own, newest first
//! ```
//! A range deletion of version w hides every record of its keys with a version below w from every
//! reader at w or above. It does not hide records of version w itself: they were put after it, or
//! by the same batch. In memory it is one record ([`RecordRef`]): the key is the least key of the
//! range, and the value is the first key behind the range (empty: there is none). So it is pending
//! while its batch is, like any record. Below the deltas it exists only here: no table, run or munk
//! has a range deletion. The commit log has it, and from the end of its checkpoint on the manifest
//! has it, as part of the chunk.
//!
//! Invariants
//! * The pieces cover all keys, each once. A piece lists every range deletion of its keys that a
//!   reader may need.
//! * `durable_to`: range deletions of this checkpoint and older ones are in the manifest, and all
//!   older records of the chunk are in the funk. (A checkpoint takes the range deletions of a chunk
//!   in the same step as its deltas.)
//! * A range deletion that the manifest has leaves only when the manifest has one that makes up for
//!   it, or when everything that it hides is gone from the tables; see [`Covers::without`].
//!
//! Cost: a look at a key without range deletions is a search of its [`Outline`], which is made once
//! enough looks have come to pay for it. Otherwise a look is a search of the index, which takes
//! about as long as the search for a chunk. Adding a range deletion copies a leaf of the index and
//! its root: microseconds for tens of thousands.
//!
//! Thread safety: immutable except the outline, which one look makes while others go on without it.
//! The holder of the chunk's latch replaces all of it with the view. Not here: which sources reads
//! skip (`read/scan/range_deletions/mod.rs`), and when tables and covers go
//! (`rebalance/rewriting/covered_tables.rs`).

mod outline;
mod piece;

use super::KeyRange;
use super::index::{Entry, EntryPlace, Index};
use crate::manifest::edit::CoverRecord;
use crate::memory::{Charge, Ledger, Use};
use crate::merge::Covering;
use crate::record::{Record, RecordRef};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, OnceLock};
use crate::version::clock::{checkpoint_of, last_version_of};
use crate::version::horizon::Horizon;
use evendb_storage::key_hash::RamHash;
use evendb_storage::{Kind, Version};
use outline::Outline;
pub(crate) use piece::{PIECE_BYTES, Piece};
use std::collections::HashSet;

/// Approximate bytes of a list that shares its pieces and nearly all leaves with others: the list
/// itself, and the copied part of the index.
fn own_bytes(pieces: &Index<Piece>) -> usize {
    256 + 24 * pieces.len().min(256)
}

/// The number of pieces for each look that has to come before an outline is made.
const LOOKS_PER_OUTLINE: usize = 8;

/// The record of a range deletion; `high` is the first key behind it, if there is one.
pub(crate) fn range_record(low: &[u8], high: Option<&[u8]>) -> RecordRef {
    RecordRef::new(
        low,
        high.unwrap_or_default(),
        Kind::Delete,
        RamHash::of_bits(0),
    )
}

/// The end of a range deletion; `None` if it goes to the end of the key space.
pub(crate) fn high_of(record: &Record) -> Option<&[u8]> {
    Some(record.value()).filter(|high| !high.is_empty())
}

/// Keys that have the same range deletions.
pub(crate) struct Stretch<'c> {
    /// The first key; empty for the chunk's first key.
    pub(crate) low: &'c [u8],
    /// The exclusive end; `None` for the chunk's end.
    pub(crate) high: Option<&'c [u8]>,
    piece: &'c Piece,
    place: EntryPlace,
}

impl<'c> Stretch<'c> {
    fn of(entry: Entry<'c, Piece>) -> Stretch<'c> {
        Stretch {
            low: entry.low,
            high: entry.high,
            piece: entry.what,
            place: entry.place(),
        }
    }

    /// Records with smaller versions than this are hidden from a reader at `at`.
    #[inline]
    pub(crate) fn hidden_below(&self, at: Version) -> Version {
        let seen = self.piece.newest_seen(at);
        seen.map_or(Version::ZERO, Record::version)
    }

    /// The greatest version of a range deletion up to `limit`.
    pub(crate) fn newest_up_to(&self, limit: Version) -> Option<Version> {
        let mut versions = self.piece.0.iter().map(|record| record.version());
        versions.find(|&version| version <= limit)
    }
}

/// See the module.
pub(crate) struct Covers {
    pieces: Arc<Index<Piece>>,
    /// The greatest and the smallest version of the range deletions.
    newest: Version,
    oldest: Version,
    durable_to: u64,
    /// The number of pieces with range deletions.
    count: usize,
    charge: Charge,
    /// The number of looks so far without an outline.
    looks: AtomicUsize,
    outline: OnceLock<Outline>,
}

impl Covers {
    fn new(pieces: Arc<Index<Piece>>, durable_to: u64, ledger: Ledger) -> Option<Covers> {
        let (mut newest, mut oldest) = (Version::ZERO, Version::MAX);
        let mut count = 0;
        for (_, piece) in pieces.iter() {
            if let (Some(first), Some(last)) = (piece.0.first(), piece.0.last()) {
                count += 1;
                newest = newest.max(first.version());
                oldest = oldest.min(last.version());
            }
        }
        (count > 0).then(|| Covers {
            charge: Charge::new(ledger, Use::Metadata, own_bytes(&pieces)),
            pieces,
            newest,
            oldest,
            durable_to,
            count,
            looks: AtomicUsize::new(0),
            outline: OnceLock::new(),
        })
    }

    /// The list of a chunk of `range` with one more range deletion, which is newer than everything
    /// in the chunk.
    pub(crate) fn with(
        old: Option<&Covers>,
        range: &KeyRange,
        record: &RecordRef,
        horizon: &Horizon,
        ledger: Ledger,
    ) -> Covers {
        let durable_to = old.map_or(0, |old| old.durable_to);
        let none = Index::new(vec![(Box::default(), Arc::new(Piece::default()))]);
        let pieces = old.map_or(&none, |old| &old.pieces);
        let (low, high) = clipped(range, record);
        let add = |piece: &Piece| piece.with_newest(record, horizon, durable_to, ledger);
        let pieces = Arc::new(edited(pieces, low, high, &add));
        let version = record.version();
        match old {
            // The whole list is counted again only if pieces were joined: it takes a look at all of
            // them.
            Some(old) if pieces.len() >= old.pieces.len() => Covers {
                charge: Charge::new(ledger, Use::Metadata, own_bytes(&pieces)),
                newest: version.max(old.newest),
                oldest: version.min(old.oldest),
                count: pieces.len().min(old.count + 1),
                pieces,
                durable_to,
                looks: AtomicUsize::new(0),
                outline: OnceLock::new(),
            },
            _ => Covers::new(pieces, durable_to, ledger).expect("one was added"),
        }
    }

    /// The range deletions that the manifest has of a chunk of `range`, up to checkpoint
    /// `durable_to`.
    pub(crate) fn from_records(
        records: &[CoverRecord],
        range: &KeyRange,
        durable_to: u64,
        ledger: Ledger,
    ) -> Option<Covers> {
        let mut records: Vec<&CoverRecord> = records.iter().collect();
        records.sort_by_key(|record| record.version);
        let mut pieces = Index::new(vec![(Box::default(), Arc::new(Piece::default()))]);
        let horizon = Horizon::default();
        for record in records {
            let mut new = range_record(&record.low, record.high.as_deref());
            new.set_version(record.version);
            let (low, high) = clipped(range, &new);
            if high.is_some_and(|high| *high <= *low) {
                continue;
            }
            let add = |piece: &Piece| piece.with_newest(&new, &horizon, durable_to, ledger);
            pieces = edited(&pieces, low, high, &add);
        }
        Covers::new(Arc::new(pieces), durable_to, ledger)
    }

    /// The records for the manifest: range deletions of the checkpoints after `after` up to
    /// `up_to`, in a chunk of `range`. Of each key only the newest is needed, because no older
    /// snapshot exists when the database is opened.
    pub(crate) fn records(&self, range: &KeyRange, after: u64, up_to: u64) -> Vec<CoverRecord> {
        let mut records: Vec<CoverRecord> = Vec::new();
        // Whether the last record goes on up to here.
        let mut open = false;
        let limit = last_version_of(up_to);
        for stretch in self.stretches() {
            let newest = stretch.newest_up_to(limit);
            let newest = newest.filter(|&version| checkpoint_of(version) > after);
            let last = records.last_mut().filter(|_| open);
            if last.as_ref().map(|last| last.version) == newest {
                continue;
            }
            let low: &[u8] = stretch.low.max(&range.low);
            if let Some(last) = last {
                last.high = Some(low.to_vec());
            }
            open = newest.is_some();
            records.extend(newest.map(|version| CoverRecord {
                low: low.to_vec(),
                high: None,
                version,
            }));
        }
        records
    }

    /// Whether a reader of today sees the same with `other`.
    pub(crate) fn hides_as(&self, other: &Covers) -> bool {
        let newest = |covers: &Covers, low: &[u8]| covers.stretch(low).newest_up_to(Version::MAX);
        let mut all = self.stretches().chain(other.stretches());
        all.all(|stretch| newest(self, stretch.low) == newest(other, stretch.low))
    }

    /// The records that the manifest has of a chunk of `range`.
    pub(crate) fn durable_records(&self, range: &KeyRange) -> Vec<CoverRecord> {
        self.records(range, 0, self.durable_to)
    }

    pub(crate) fn durable_to(&self) -> u64 {
        self.durable_to
    }

    /// The checkpoints of the range deletions that are not in the manifest.
    pub(crate) fn undurable_checkpoints(&self) -> Vec<u64> {
        let pieces = self.pieces.iter().flat_map(|(_, piece)| &piece.0);
        let mut all: Vec<u64> = pieces
            .map(|record| checkpoint_of(record.version()))
            .filter(|&checkpoint| checkpoint > self.durable_to)
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The greatest version of a range deletion: records at or above it are not covered.
    #[inline]
    pub(crate) fn newest(&self) -> Version {
        self.newest
    }

    /// The smallest version of a range deletion.
    pub(crate) fn oldest(&self) -> Version {
        self.oldest
    }

    /// The least version of a range deletion above `limit`, if there is one.
    pub(crate) fn oldest_above(&self, limit: Version) -> Option<Version> {
        let pieces = self.pieces.iter().flat_map(|(_, piece)| &piece.0);
        let versions = pieces.map(|record| record.version());
        versions.filter(|&version| version > limit).min()
    }

    /// Memory charged for the list and its pieces. Several entries may share one piece.
    pub(crate) fn charged_bytes(&self) -> usize {
        let charged = self.pieces.iter().filter(|(_, piece)| piece.1.is_some());
        let different: HashSet<_> = charged.map(|(_, piece)| Arc::as_ptr(piece)).collect();
        self.charge.bytes() + PIECE_BYTES * different.len()
    }

    /// The number of pieces with range deletions.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether it is certain, and quickly found, that `key` has no range deletion.
    #[inline]
    pub(crate) fn leaves_out(&self, key: &[u8]) -> bool {
        match self.outline.get() {
            Some(outline) => outline.leaves_out(key),
            None => self.count_look(),
        }
    }

    /// Whether it is certain, and quickly found, that no key from `key` to below `end` has a range
    /// deletion.
    #[inline]
    pub(crate) fn leaves_out_between(&self, key: &[u8], end: &[u8]) -> bool {
        let outline = self.outline.get();
        outline.is_some_and(|outline| outline.leaves_out_between(key, end))
    }

    /// Counts a look without an outline. It never waits: the look with one certain number makes the
    /// outline, and no other look writes to the cell. Returns false, because nothing is certain.
    #[cold]
    fn count_look(&self) -> bool {
        // Relaxed: it matters only that each look has a number of its own.
        let number = self.looks.fetch_add(1, Ordering::Relaxed);
        if number == self.pieces.len() / LOOKS_PER_OUTLINE {
            // The cell was empty, because no other look has this number.
            let _ = self.outline.set(Outline::of(&self.pieces));
        }
        false
    }

    /// The newest range deletion of a key that a reader at `at` sees.
    #[inline]
    pub(crate) fn newest_seen(&self, key: &[u8], at: Version) -> Option<&Record> {
        if self.leaves_out(key) {
            return None;
        }
        self.pieces.find(key).newest_seen(at)
    }

    /// Whether `key` has a range deletion that is newer than `version`, pending ones counted.
    pub(crate) fn is_newer(&self, key: &[u8], version: Version) -> bool {
        if self.leaves_out(key) {
            return false;
        }
        let newest = self.pieces.find(key).0.first();
        newest.is_some_and(|newest| newest.version() > version)
    }

    /// Whether any range deletion from `low` to below `high` is newer than `version`.
    pub(crate) fn is_any_newer(&self, low: &[u8], high: Option<&[u8]>, version: Version) -> bool {
        let mut entry = Some(self.pieces.entry(low));
        while let Some(own) = entry {
            if own
                .what
                .0
                .first()
                .is_some_and(|own| own.version() > version)
            {
                return true;
            }
            let behind = self.pieces.entry_behind(&own);
            entry = behind.filter(|own| high.is_none_or(|high| *own.low < *high));
        }
        false
    }

    /// Whether keys from `low` to below `high` have a range deletion above version `since` and up
    /// to `limit`.
    pub(crate) fn has_any_between(
        &self,
        since: Version,
        limit: Version,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> bool {
        let mut next = Some(self.stretch(low));
        while let Some(stretch) = next {
            let newest = stretch.newest_up_to(limit);
            if newest.is_some_and(|newest| newest > since) {
                return true;
            }
            let behind = self.stretch_behind(&stretch);
            next = behind.filter(|stretch| high.is_none_or(|high| *stretch.low < *high));
        }
        false
    }

    /// The stretch of `key`.
    #[inline]
    pub(crate) fn stretch(&self, key: &[u8]) -> Stretch<'_> {
        Stretch::of(self.pieces.entry(key))
    }

    /// The stretch of the keys just below `key`, or the last one.
    pub(crate) fn stretch_below(&self, key: Option<&[u8]>) -> Option<Stretch<'_>> {
        self.pieces.entry_below(key).map(Stretch::of)
    }

    /// The first stretch.
    #[inline]
    pub(crate) fn first_stretch(&self) -> Stretch<'_> {
        Stretch::of(self.pieces.first_entry())
    }

    /// The stretch after `stretch`, which is one of this list. It is found without a search.
    #[inline]
    pub(crate) fn stretch_behind(&self, stretch: &Stretch<'_>) -> Option<Stretch<'_>> {
        let behind = self.pieces.entry_behind_place(stretch.place);
        behind.map(Stretch::of)
    }

    /// For a merge whose outcome is named when the range deletions of checkpoint `durable_to` and
    /// older ones are in the manifest.
    pub(crate) fn covering(
        covers: Option<&Arc<Covers>>,
        durable_to: u64,
    ) -> Option<Covering<'static>> {
        let covers = covers?.clone();
        Some(Box::new(move |key, version| match covers.leaves_out(key) {
            true => None,
            false => covers.pieces.find(key).oldest_above(version, durable_to),
        }))
    }

    /// Like [`covering`](Self::covering), for the range deletions that are in the manifest now.
    pub(crate) fn covering_now(covers: Option<&Arc<Covers>>) -> Option<Covering<'static>> {
        Covers::covering(covers, covers?.durable_to)
    }

    /// Range deletions up to this version may go once nothing is left of what they hide: they are
    /// in the manifest, and every reader sees them.
    pub(crate) fn spent_limit(&self, horizon: &Horizon) -> Version {
        horizon.least_reader().min(last_version_of(self.durable_to))
    }

    /// Like [`spent_limit`](Self::spent_limit), where tables note whole checkpoints: a checkpoint
    /// counts if all of its range deletions may go.
    pub(crate) fn spent_checkpoints(&self, horizon: &Horizon) -> Version {
        let limit = self.spent_limit(horizon);
        let before = |version| last_version_of(checkpoint_of(version).saturating_sub(1));
        let stays = self.oldest_above(limit);
        stays.map_or(limit, |oldest| limit.min(before(oldest)))
    }

    /// All stretches in order.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = Stretch<'_>> {
        let mut entry = Some(self.pieces.first_entry());
        std::iter::from_fn(move || {
            let own = entry.take()?;
            entry = self.pieces.entry_behind(&own);
            Some(Stretch::of(own))
        })
    }

    /// The list after checkpoint `number`, when the manifest has the range deletions of this chunk
    /// up to that checkpoint.
    pub(crate) fn durable_from(&self, number: u64, horizon: &Horizon, ledger: Ledger) -> Covers {
        let durable_to = self.durable_to.max(number);
        let pruned = |piece: &Arc<Piece>| match piece.0.len() {
            0 | 1 => piece.clone(),
            _ => Arc::new(piece.pruned(horizon, durable_to, ledger)),
        };
        let mut entries = Entries::default();
        for (low, piece) in self.pieces.iter() {
            entries.push(low, pruned(piece));
        }
        let pieces = Arc::new(Index::new(entries.0));
        Covers::new(pieces, durable_to, ledger).expect("the newest of each piece stays")
    }

    /// The list without the range deletions up to version `limit` in the stretches that `goes`
    /// selects. The caller makes sure that everything they hide is gone.
    pub(crate) fn without(
        &self,
        limit: Version,
        goes: &dyn Fn(&Stretch<'_>) -> bool,
        ledger: Ledger,
    ) -> Option<Covers> {
        let mut entries = Entries::default();
        for stretch in self.stretches() {
            let mut all = stretch.piece.0.clone();
            if all.iter().any(|own| own.version() <= limit) && goes(&stretch) {
                all.retain(|own| own.version() > limit);
            }
            entries.push(stretch.low, Arc::new(Piece::of(all, ledger)));
        }
        Covers::new(Arc::new(Index::new(entries.0)), self.durable_to, ledger)
    }

    /// The list for the part `range` of the chunk.
    pub(crate) fn clip(&self, range: &KeyRange, ledger: Ledger) -> Option<Covers> {
        let mut entries = Entries::default();
        for stretch in self.stretches() {
            let ends_before = stretch.high.is_some_and(|high| *high <= *range.low);
            let begins_behind = range
                .high
                .as_ref()
                .is_some_and(|high| *stretch.low >= **high);
            if !ends_before && !begins_behind {
                let low = match entries.0.is_empty() {
                    true => &[][..],
                    false => stretch.low,
                };
                entries.push(low, Arc::new(stretch.piece.clone()));
            }
        }
        Covers::new(Arc::new(Index::new(entries.0)), self.durable_to, ledger)
    }

    /// One list for neighbours in order, each with its least key. Each list is within its chunk.
    pub(crate) fn joined(all: &[(&[u8], Option<&Arc<Covers>>)], ledger: Ledger) -> Option<Covers> {
        let mut entries = Entries::default();
        for (border, covers) in all {
            let Some(covers) = covers else {
                entries.push(border, Arc::new(Piece::default()));
                continue;
            };
            for (low, piece) in covers.pieces.iter() {
                entries.push(low.max(border), piece.clone());
            }
        }
        if let Some(first) = entries.0.first_mut() {
            first.0 = Box::default();
        }
        // The manifest has the range deletions of all of them up to the same checkpoint: one
        // checkpoint takes all chunks.
        let durable_to = all.iter().filter_map(|(_, covers)| covers.as_ref());
        let durable_to = durable_to.map(|covers| covers.durable_to).max()?;
        Covers::new(Arc::new(Index::new(entries.0)), durable_to, ledger)
    }
}

/// The limits of a range deletion within a chunk: empty for the chunk's first key, `None` for its
/// end.
fn clipped<'r>(range: &KeyRange, record: &'r Record) -> (&'r [u8], Option<&'r [u8]>) {
    let low = match *record.key() <= *range.low {
        true => &[][..],
        false => record.key(),
    };
    let within = |high: &&[u8]| range.high.as_ref().is_none_or(|own| **high < **own);
    (low, high_of(record).filter(within))
}

/// Pieces on their way into an index: equal neighbours become one.
#[derive(Default)]
struct Entries(Vec<(Box<[u8]>, Arc<Piece>)>);

impl Entries {
    fn push(&mut self, low: &[u8], piece: Arc<Piece>) {
        let last = self.0.last();
        if last.is_none_or(|(_, last)| !last.is_same(&piece)) {
            self.0.push((low.into(), piece));
        }
    }
}

/// The pieces, with the pieces from `low` to below `high` changed.
fn edited(
    pieces: &Index<Piece>,
    low: &[u8],
    high: Option<&[u8]>,
    change: &dyn Fn(&Piece) -> Piece,
) -> Index<Piece> {
    let mut old: Vec<&[u8]> = Vec::new();
    let mut new = Entries::default();
    let mut next = Some(pieces.entry(low));
    while let Some(entry) = next {
        old.push(entry.low);
        if *entry.low < *low {
            new.push(entry.low, entry.what.clone());
        }
        new.push(entry.low.max(low), Arc::new(change(entry.what)));
        if let Some(high) = high
            && entry.high.is_none_or(|end| *high < *end)
        {
            new.push(high, entry.what.clone());
        }
        let behind = pieces.entry_behind(&entry);
        next = behind.filter(|entry| high.is_none_or(|high| *entry.low < *high));
    }
    pieces.replace(&old, new.0)
}

impl std::fmt::Debug for Covers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut map = f.debug_map();
        for (low, piece) in self.pieces.iter() {
            let versions = piece.0.iter().map(|record| record.version());
            map.entry(
                &low.escape_ascii().to_string(),
                &versions.collect::<Vec<_>>(),
            );
        }
        map.finish()
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
