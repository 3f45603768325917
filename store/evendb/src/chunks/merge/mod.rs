//! Merging sorted sources into one, version by version: checkpoints, rebalances and absorbs write
//! the result.
//!
//! Sources are newest first. [`crate::visibility`] has the rule which record comes first and which
//! may be dropped: versions that no reader can need are dropped (I14). A tombstone is dropped only
//! where the caller says that all older records of the chunk are among the sources (I15), and only
//! if every reader reads at or above it. A record that has expired for all readers that see it
//! comes out as a tombstone.
//!
//! A single delete and the put that comes next below it are dropped together, if no reader falls
//! between the two: the caller of `single_delete` says that no older record of the key is anywhere.
//! A single delete that meets no put stays, even under a newer record, because its put may lie in
//! another component. A munk that is loaded has the records of durable deltas, which it absorbs
//! later: there the put may lie in both, and pairs stay as they are ([`Merge::into_munk`]).
//!
//! Operands of a key meet here with the record that they lie on ([`folding`]). From the first
//! record that lists operands on, the rest of the key is gathered at once; other keys do not pay
//! for it.
//!
//! All long background work steps through one of these merges. If told to, it gives way to threads
//! that wait for the processor: [`Yielder`].

pub(crate) mod chain;
pub(crate) mod count;
mod order;

use crate::error::Result;
use crate::folding::{self, OwnedRecord};
use crate::merge_operator::Operator;
use crate::munk::{Munk, MunkEntries, MunkInput};
use crate::options::FilterDecision;
use crate::sync::Arc;
use crate::sync::yielding::Yielder;
use crate::version::horizon::Horizon;
use crate::visibility::{Dropping, Fate, KeyVersions};
use count::{Fates, Held};
use evendb_storage::table::{ReadAhead, Table, TableCursor};
use evendb_storage::{EntryRef, Kind, Version};
use order::Order;
use std::collections::VecDeque;

/// Records in order: key ascending, version descending.
pub(crate) trait Source {
    /// The number of records from the current one on; asked before the source is advanced.
    fn held(&self) -> Held;
    fn current(&self) -> Option<EntryRef<'_>>;
    fn advance(&mut self) -> Result<()>;
}

/// The records of a table between two keys.
pub(crate) struct TableSource {
    cursor: TableCursor,
    high: Option<Box<[u8]>>,
    /// The cursor is on a record below `high`: found out once for each record, which is asked for
    /// several times.
    is_inside: bool,
    held: Held,
}

impl TableSource {
    /// Reads `readahead_bytes` bytes at a time: a rewrite reads everything once.
    pub(crate) fn new(
        table: Arc<Table>,
        low: &[u8],
        high: Option<&[u8]>,
        readahead_bytes: usize,
    ) -> Result<TableSource> {
        let meta = table.meta();
        let whole = *meta.min_key >= *low && high.is_none_or(|high| *meta.max_key < *high);
        let held = match whole {
            true => Held::exactly(meta.entries),
            false => Held::at_most(meta.entries),
        };
        let blocks = table.blocks_in(readahead_bytes);
        let readahead = ReadAhead {
            seek: blocks.min(table.blocks_between(Some(low), high)).max(1),
            next: blocks,
            max: blocks,
        };
        let mut cursor = TableCursor::new(table, readahead);
        cursor.seek(low)?;
        let mut source = TableSource {
            cursor,
            high: high.map(Box::from),
            is_inside: false,
            held,
        };
        source.look();
        Ok(source)
    }

    fn look(&mut self) {
        let is_below = |high: &[u8]| *self.cursor.entry().key < *high;
        self.is_inside = self.cursor.valid() && self.high.as_deref().is_none_or(is_below);
    }
}

impl Source for TableSource {
    fn held(&self) -> Held {
        self.held
    }

    fn current(&self) -> Option<EntryRef<'_>> {
        self.is_inside.then(|| self.cursor.entry())
    }

    fn advance(&mut self) -> Result<()> {
        // Should the step fail, it is on no record.
        self.is_inside = false;
        self.cursor.next()?;
        self.look();
        Ok(())
    }
}

/// The records of a munk.
pub(crate) struct MunkSource<'m> {
    entries: MunkEntries<'m>,
    held: Held,
}

impl<'m> MunkSource<'m> {
    pub(crate) fn new(munk: &'m Munk) -> MunkSource<'m> {
        MunkSource {
            entries: munk.all_entries(),
            held: Held::exactly(munk.entries() as u64),
        }
    }
}

impl Source for MunkSource<'_> {
    fn held(&self) -> Held {
        self.held
    }

    fn current(&self) -> Option<EntryRef<'_>> {
        self.entries.current()
    }

    fn advance(&mut self) -> Result<()> {
        self.entries.advance();
        Ok(())
    }
}

/// The least version, above the version of a key's record, of a range deletion in the manifest. A
/// range deletion that is not in the manifest might be lost, and then the records that it hides
/// must be there.
pub(crate) type Covering<'s> = Box<dyn Fn(&[u8], Version) -> Option<Version> + 's>;

/// The application's decision about a put, by key, kind and stored value.
pub(crate) type Filtering<'s> = Box<dyn FnMut(&[u8], Kind, &[u8]) -> FilterDecision + 's>;

/// The record that is written instead of the current one.
struct Instead {
    kind: Kind,
    value: Vec<u8>,
}

/// The fate of a put that is the newest record of its key, by the decision of the application, and
/// the record that is written instead. The application is not asked about records that a registered
/// snapshot sees.
fn ask(
    filter: &mut Filtering<'_>,
    horizon: &Horizon,
    entry: EntryRef<'_>,
) -> (Fate, Option<Instead>) {
    let newest_snapshot = horizon.snapshots.last();
    if newest_snapshot.is_some_and(|&newest| newest >= entry.version) {
        return (Fate::Kept, None);
    }
    let prefix = &entry.value[..entry.kind.prefix_bytes()];
    match filter(entry.key, entry.kind, entry.value) {
        FilterDecision::Keep => (Fate::Kept, None),
        FilterDecision::Replace(value) => {
            let (kind, value) = (entry.kind.in_place(), [prefix, &value].concat());
            (Fate::Kept, Some(Instead { kind, value }))
        }
        // Records that a snapshot sees stay below it, and must stay hidden.
        FilterDecision::Drop if newest_snapshot.is_some() => {
            let (kind, value) = (Kind::Delete, Vec::new());
            (Fate::Kept, Some(Instead { kind, value }))
        }
        FilterDecision::Drop => (Fate::Filtered, None),
    }
}

/// Several sources as one.
pub(crate) struct Merge<'s> {
    /// Newest first.
    sources: Vec<Box<dyn Source + 's>>,
    order: Order,
    horizon: Horizon,
    bottom: bool,
    zero_below: Version,
    covers: Option<Covering<'s>>,
    filter: Option<Filtering<'s>>,
    instead: Option<Instead>,
    /// The key of the last record, and the state of its versions.
    key: Vec<u8>,
    versions: KeyVersions,
    /// Folds operands; without it they stay operands.
    operator: Option<Operator>,
    /// The result for the key's records from the first one that lists operands on; its first record
    /// is the current one.
    folded: VecDeque<OwnedRecord>,
    /// The current record is a single delete of this version, which its source has left behind.
    single: Option<Version>,
    /// Whether a single delete is dropped together with its put.
    pairs: bool,
    yielder: Yielder,
    /// Counts for the caller to check: see [`count`].
    held: Held,
    fates: Fates,
    /// The fates up to the last key before the current one that kept a record.
    settled: Fates,
}

impl<'s> Merge<'s> {
    #[cfg(test)]
    pub(crate) fn new(
        sources: Vec<Box<dyn Source + 's>>,
        dropping: Dropping<'_>,
    ) -> Result<Merge<'s>> {
        Merge::under(sources, dropping, None)
    }

    /// A merge that also leaves out what range deletions hide from all readers.
    pub(crate) fn under(
        sources: Vec<Box<dyn Source + 's>>,
        dropping: Dropping<'_>,
        covers: Option<Covering<'s>>,
    ) -> Result<Merge<'s>> {
        Merge::folding(sources, dropping, covers, None)
    }

    /// A merge that also folds operands by `operator`, if there is one. `covers` must have all
    /// range deletions that may lie between records of the sources.
    pub(crate) fn folding(
        sources: Vec<Box<dyn Source + 's>>,
        dropping: Dropping<'_>,
        covers: Option<Covering<'s>>,
        operator: Option<Operator>,
    ) -> Result<Merge<'s>> {
        Merge::filtering(sources, dropping, covers, operator, None)
    }

    /// Like [`folding`](Merge::folding), with a filter. It is asked about the newest record of each
    /// key, if that is a put that no registered snapshot sees. About a value that operands are
    /// folded into, it is asked in the next merge.
    pub(crate) fn filtering(
        sources: Vec<Box<dyn Source + 's>>,
        dropping: Dropping<'_>,
        covers: Option<Covering<'s>>,
        operator: Option<Operator>,
        filter: Option<Filtering<'s>>,
    ) -> Result<Merge<'s>> {
        let mut merge = Merge::not_begun(sources, dropping);
        (merge.covers, merge.operator, merge.filter) = (covers, operator, filter);
        merge.begin()
    }

    /// Like [`Merge::folding`], for a munk that may already have some of these records. A single
    /// delete hides its put in both, and is dropped with it when the munk absorbs it: nothing older
    /// is below a munk.
    pub(crate) fn into_munk(
        sources: Vec<Box<dyn Source + 's>>,
        dropping: Dropping<'_>,
        covers: Option<Covering<'s>>,
        operator: Option<Operator>,
    ) -> Result<Merge<'s>> {
        let mut merge = Merge::not_begun(sources, dropping);
        (merge.covers, merge.operator, merge.pairs) = (covers, operator, false);
        merge.begin()
    }

    fn not_begun(sources: Vec<Box<dyn Source + 's>>, dropping: Dropping<'_>) -> Merge<'s> {
        let order = Order::of(&sources);
        let held = sources.iter().map(|source| source.held());
        let held = held.fold(Held::default(), Held::and);
        Merge {
            sources,
            order,
            horizon: dropping.horizon.clone(),
            bottom: dropping.bottom,
            zero_below: dropping.zero_below,
            covers: None,
            filter: None,
            instead: None,
            key: Vec::new(),
            versions: KeyVersions::default(),
            operator: None,
            folded: VecDeque::new(),
            single: None,
            pairs: true,
            yielder: Yielder::new(false),
            held,
            fates: Fates::default(),
            settled: Fates::default(),
        }
    }

    /// Moves to the first record.
    fn begin(mut self) -> Result<Merge<'s>> {
        self.find()?;
        Ok(self)
    }

    /// Uses these turns for giving way; without them the merge does not give way.
    pub(crate) fn yielding_by(mut self, yielder: Yielder) -> Merge<'s> {
        self.yielder = yielder;
        self
    }

    fn dropping(&self) -> Dropping<'_> {
        Dropping {
            horizon: &self.horizon,
            bottom: self.bottom,
            zero_below: self.zero_below,
        }
    }

    /// The current record; at the bottom its version is zero if no reader can tell the difference.
    pub(crate) fn current(&self) -> Option<EntryRef<'_>> {
        if self.single.is_some() || self.instead.is_some() || !self.folded.is_empty() {
            return self.current_made();
        }
        // Field by field, as in `TableCursor::entry`.
        let EntryRef {
            key,
            version,
            kind,
            value,
        } = self.sources[self.order.least()?].current()?;
        if kind.expires(value).is_some() {
            return self.current_made();
        }
        Some(EntryRef {
            key,
            version: self.dropping().written_version(version),
            kind,
            value,
        })
    }

    /// The current record, where it is not one of a source as it is.
    #[cold]
    fn current_made(&self) -> Option<EntryRef<'_>> {
        let dropping = self.dropping();
        let mut entry = match (self.single, self.folded.front()) {
            (Some(version), _) => EntryRef {
                key: &self.key,
                version,
                kind: Kind::SingleDelete,
                value: &[],
            },
            (None, Some(record)) => EntryRef {
                key: &self.key,
                version: record.version,
                kind: record.kind,
                value: &record.value,
            },
            (None, None) => {
                let entry = self.sources[self.order.least()?].current()?;
                dropping.as_all_read(entry)
            }
        };
        if let Some(instead) = &self.instead {
            (entry.kind, entry.value) = (instead.kind, &instead.value);
        }
        // Of operands and the record below them only the last can become zero: no two records of a
        // key have one version.
        if self.folded.len() <= 1 {
            entry.version = dropping.written_version(entry.version);
        }
        Some(entry)
    }

    /// The number of records that the sources claim to have.
    pub(crate) fn held(&self) -> Held {
        self.held
    }

    /// The fates of the records before the current one.
    pub(crate) fn fates_so_far(&self) -> Fates {
        let mut fates = self.fates;
        if let Some(entry) = self.current() {
            fates.kept -= 1;
            fates.kept_deletes -= u64::from(entry.kind.is_tombstone());
        }
        fates
    }

    /// The fates of all records at the end of the merge. Before that, the fates up to the last kept
    /// key: another merge of the same sources, which begins behind that key, takes the others.
    pub(crate) fn fates_of_kept_keys(&self) -> Fates {
        match self.order.least().is_none() && self.folded.is_empty() && self.single.is_none() {
            true => self.fates,
            false => self.settled,
        }
    }

    pub(crate) fn advance(&mut self) -> Result<()> {
        if !self.folded.is_empty() {
            self.yielder.yield_if_due();
            self.folded.pop_front();
            return match self.note_folded() {
                true => Ok(()),
                false => self.find(),
            };
        }
        if self.single.take().is_some() {
            return self.find();
        }
        if self.order.least().is_some() {
            self.yielder.yield_if_due();
            self.advance_least()?;
            self.find()?;
        }
        Ok(())
    }

    fn advance_least(&mut self) -> Result<()> {
        if let Some(least) = self.order.least() {
            self.sources[least].advance()?;
            self.order.least_advanced(&self.sources);
        }
        Ok(())
    }

    /// Moves to the least record that is kept.
    fn find(&mut self) -> Result<()> {
        loop {
            self.instead = None;
            let least = self.order.least();
            let Some(EntryRef {
                key,
                version,
                mut kind,
                value,
            }) = least.and_then(|least| self.sources[least].current())
            else {
                return Ok(());
            };
            if *self.key != *key {
                if self.fates.kept > self.settled.kept {
                    self.settled = self.fates;
                }
                self.key.clear();
                self.key.extend_from_slice(key);
                self.versions = KeyVersions::default();
            }
            let dropping = Dropping {
                horizon: &self.horizon,
                bottom: self.bottom,
                zero_below: self.zero_below,
            };
            let entry = EntryRef {
                key,
                version,
                kind,
                value,
            };
            if kind.expires(value).is_some() {
                kind = dropping.as_all_read(entry).kind;
            }
            let before = self.versions;
            let mut fate = self.versions.fate(version, kind, dropping);
            if fate == Fate::Kept && self.is_covered(key, version) {
                fate = Fate::Covered;
            }
            if fate == Fate::Kept && kind == Kind::Merge {
                self.fold(before)?;
                if self.note_folded() {
                    return Ok(());
                }
                continue;
            }
            if fate == Fate::Kept
                && before.is_first()
                && let Some(filter) = &mut self.filter
                && kind.is_put()
            {
                let (decided, instead) = ask(filter, &self.horizon, entry);
                (fate, self.instead) = (decided, instead);
                kind = self.instead.as_ref().map_or(kind, |instead| instead.kind);
            }
            if fate == Fate::Kept && kind == Kind::SingleDelete && self.takes_pair(version)? {
                // Neither of the two is left to hide older records.
                self.versions = before;
                continue;
            }
            self.fates.note(fate, kind);
            if fate == Fate::Kept {
                return Ok(());
            }
            self.advance_least()?;
        }
    }

    /// Whether a range deletion hides the record from all readers.
    fn is_covered(&self, key: &[u8], version: Version) -> bool {
        let covers = self.covers.as_ref();
        let least = covers.and_then(|covers| covers(key, version));
        least.is_some_and(|least| self.horizon.may_drop(version, least))
    }

    /// Leaves the single delete behind that has this version, and is kept, with its put if that
    /// comes next and both may go; returns whether they go.
    fn takes_pair(&mut self, version: Version) -> Result<bool> {
        self.advance_least()?;
        if !self.pairs || !self.meets_put_of(version) {
            self.single = Some(version);
            return Ok(false);
        }
        self.fates.paired += 2;
        self.advance_least()?;
        Ok(true)
    }

    /// Takes the rest of the key, whose next record lists operands and is kept.
    #[cold]
    fn fold(&mut self, before: KeyVersions) -> Result<()> {
        let mut records = Vec::new();
        while let Some(least) = self.order.least()
            && let Some(entry) = self.sources[least].current()
            && *self.key == *entry.key
        {
            records.push(OwnedRecord::of(&entry));
            self.advance_least()?;
        }
        let taken = records.len();
        let cover_above = |version| self.covers.as_ref()?(&self.key, version);
        let operator = self.operator.as_ref();
        let kept = folding::rewritten(
            &self.key,
            records,
            before,
            self.dropping(),
            &cover_above,
            operator,
        );
        self.fates.folded += (taken - kept.len()) as u64;
        self.folded = kept.into();
        Ok(())
    }

    /// Notes the fate of the next folded record; returns whether there is one.
    fn note_folded(&mut self) -> bool {
        let next = self.folded.front();
        if let Some(record) = next {
            self.fates.note(Fate::Kept, record.kind);
        }
        next.is_some()
    }

    /// Whether the next record is the put of a single delete of this version, and no reader falls
    /// between the two.
    fn meets_put_of(&self, version: Version) -> bool {
        let next = self.order.least();
        let next = next.and_then(|least| self.sources[least].current());
        next.is_some_and(|next| {
            *next.key == *self.key
                && next.kind.is_put()
                && self.horizon.may_drop(next.version, version)
        })
    }
}

/// A merge of sources in RAM, for a munk to absorb.
pub(crate) struct RamMerge<'s>(pub(crate) Merge<'s>);

impl MunkInput for RamMerge<'_> {
    fn current(&self) -> Option<EntryRef<'_>> {
        self.0.current()
    }

    fn advance(&mut self) {
        self.0.advance().expect("sources in RAM do not fail");
    }
}
