//! The view of a chunk, and the one place that knows its layers and their order.
//!
//! ```text
//!   layer           keys that count in it      asked for one key       read in order
//!   active delta    all                        DeltaLayer::newest      DeltaLayer::keys
//!   frozen deltas   those within its limits    the same                the same
//!   munk            those of its spans         View::newest_in_munk    Munk::cursor
//!   funk            those of other spans       Funk::get               the tables of the funk
//! ```
//! Newer layers stand above older ones. A range deletion of the covers hides what is older than it
//! in all layers. [`View::deltas`] gives the first two layers, [`View::search_ram`] is the whole
//! search for one key as far as RAM goes. Code that asks what a reader sees uses them, so a new
//! layer, or another order, begins here. Which of several records decides is said in
//! `visibility/mod.rs`.
//!
//! Thread safety: a view does not change, except that its active delta grows. Records of deltas are
//! read under the caller's pin. Not here: rows and the funk, which may wait (`read/get.rs`); what a
//! scan reads of munk and funk (`read/scan/refill/plan.rs`).

use super::covers::Covers;
use super::row_tag::RowTag;
use super::{ChargedDelta, KeyRange};
use crate::delta::DeltaCursor;
use crate::expiry::{ReadPoint, ReadTime};
use crate::funk::Funk;
use crate::metrics::Component;
use crate::munk::{Munk, MunkHit, Sought};
use crate::record::Record;
use crate::sync::Arc;
use crate::sync::reclaim::Guard;
use crate::visibility::decide;
use evendb_storage::Version;
use evendb_storage::key_hash::RamHash;
use std::iter;

/// A delta that takes no more records.
#[derive(Clone)]
pub(crate) struct Frozen {
    pub(crate) delta: Arc<ChargedDelta>,
    /// Only keys in this range count. It is set when a split or merge carried the delta to other
    /// chunks, so that the delta never hides newer records of a part that was flushed on its own.
    pub(crate) limits: Option<Arc<KeyRange>>,
    /// Its run is in the funk; it is kept for a munk to absorb.
    pub(crate) durable: bool,
}

/// The parts of a chunk at one moment.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) active: Arc<ChargedDelta>,
    /// Newest first.
    pub(crate) frozen: Vec<Frozen>,
    pub(crate) munk: Option<Arc<Munk>>,
    pub(crate) funk: Arc<Funk>,
    /// The range deletions, if there are any.
    pub(crate) covers: Option<Arc<Covers>>,
    /// The tag under which its cached rows are filed.
    pub(crate) row_tag: RowTag,
}

/// One delta of a view, and the keys in it that count.
#[derive(Clone, Copy)]
pub(crate) struct DeltaLayer<'v> {
    pub(crate) delta: &'v Arc<ChargedDelta>,
    /// Only keys in this range count; `None` if all keys count.
    pub(crate) limits: Option<&'v KeyRange>,
    /// See [`Frozen::durable`].
    pub(crate) durable: bool,
}

impl Frozen {
    /// The frozen delta as a layer.
    #[inline]
    pub(crate) fn layer(&self) -> DeltaLayer<'_> {
        DeltaLayer {
            delta: &self.delta,
            limits: self.limits.as_deref(),
            durable: self.durable,
        }
    }
}

impl<'v> DeltaLayer<'v> {
    /// The newest record of a key that the reader sees.
    #[inline]
    pub(crate) fn newest<'g>(&self, lookup: &Lookup<'_>, guard: &'g Guard) -> Option<&'g Record> {
        let counts = |limits: &KeyRange| limits.contains(lookup.key);
        if !self.limits.is_none_or(counts) {
            return None;
        }
        self.delta.get(lookup.key, lookup.hash, lookup.at(), guard)
    }

    /// The keys that count, before any seek.
    pub(crate) fn keys<'g>(&self, guard: &'g Guard) -> DeltaKeys<'g>
    where
        'v: 'g,
    {
        DeltaKeys {
            cursor: self.delta.cursor(guard),
            limits: self.limits,
        }
    }
}

/// A cursor over the keys of a delta that count.
pub(crate) struct DeltaKeys<'g> {
    /// Moves from one key to the next, and reads the records of the current key.
    pub(crate) cursor: DeltaCursor<'g>,
    limits: Option<&'g KeyRange>,
}

impl<'g> DeltaKeys<'g> {
    /// Moves to the first key at or above `from`; with `None`, to the first key of all.
    pub(crate) fn seek(&mut self, from: Option<&[u8]>) {
        match from.max(self.limits.map(|limits| &*limits.low)) {
            Some(key) => self.cursor.seek(key),
            None => self.cursor.seek_first(),
        }
    }

    /// Moves to the last key below `from`; with `None`, to the last key of all.
    pub(crate) fn seek_before(&mut self, from: Option<&[u8]>) {
        let high = self.limits.and_then(|limits| limits.high.as_deref());
        let start = match (from, high) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        match start {
            Some(key) => self.cursor.seek_before(key),
            None => self.cursor.seek_last(),
        }
    }

    /// The key that it is on, if that key counts; if not, no later key counts.
    #[inline]
    pub(crate) fn key(&self) -> Option<&'g [u8]> {
        let key = self.cursor.valid().then(|| self.cursor.key())?;
        let counts = self.limits.is_none_or(|limits| limits.contains(key));
        counts.then_some(key)
    }
}

/// One key as one reader looks for it: all that a layer is asked.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) hash: RamHash,
    pub(crate) point: ReadPoint<'a>,
}

impl<'a> Lookup<'a> {
    /// The lookup of `key` by a reader at `point`; hashes the key.
    #[inline]
    pub(crate) fn new(key: &'a [u8], point: ReadPoint<'a>) -> Lookup<'a> {
        let hash = RamHash::of(key);
        Lookup { key, hash, point }
    }

    /// The version that the reader sees.
    #[inline]
    pub(crate) fn at(&self) -> Version {
        self.point.at
    }

    /// The time by which the reader judges expiry.
    #[inline]
    pub(crate) fn time(&self) -> ReadTime<'a> {
        self.point.time
    }

    /// Whether the reader sees the newest record. A snapshot's version is never the greatest.
    #[inline]
    pub(crate) fn is_of_newest(&self) -> bool {
        self.at() == Version::MAX
    }

    /// The same lookup for records with versions up to `at`.
    pub(crate) fn up_to(mut self, at: Version) -> Lookup<'a> {
        self.point.at = at;
        self
    }
}

/// What the layers in RAM know of a key.
pub(crate) enum InRam<'v> {
    /// The record of a delta that decides. It may be a tombstone, or may have expired.
    Delta(&'v Record),
    /// The record of the munk that decides.
    Munk(MunkHit<'v>),
    /// The key has no record, or range deletions hide its records; this component knows it.
    Nothing(Component),
    /// The funk decides. Its records with a smaller version than this are deleted.
    Unknown(Version),
}

impl View {
    /// The deltas, newest first.
    #[inline]
    pub(crate) fn deltas(&self) -> impl Iterator<Item = DeltaLayer<'_>> {
        let active = DeltaLayer {
            delta: &self.active,
            limits: None,
            durable: false,
        };
        iter::once(active).chain(self.frozen.iter().map(Frozen::layer))
    }

    /// The munk's answer for a key. Without a munk, every span is absent. Below the deltas the munk
    /// is the only layer of the spans that it has, so a key that it lacks there does not exist.
    #[inline]
    pub(crate) fn newest_in_munk(&self, lookup: &Lookup<'_>) -> Sought<'_> {
        match &self.munk {
            Some(munk) => munk.get(lookup.key, lookup.hash, lookup.at()),
            None => Sought::Absent,
        }
    }

    /// Searches the layers in RAM for the record that decides for a reader.
    #[inline]
    pub(crate) fn search_ram<'v>(&'v self, lookup: &Lookup<'_>, guard: &'v Guard) -> InRam<'v> {
        let record = self.search_deltas(lookup, guard);
        if let Some(covers) = &self.covers
            && record.is_none_or(|record| record.version() <= covers.newest())
        {
            // In a mended munk, range deletions hide nothing.
            if record.is_none() && self.munk_is_mended() {
                let answer = self.decided(None, Version::ZERO, lookup);
                if !matches!(answer, InRam::Unknown(_)) {
                    return answer;
                }
            }
            if let Some(cover) = covers.newest_seen(lookup.key, lookup.at()) {
                return self.search_below(cover, record, lookup, guard);
            }
        }
        self.decided(record, Version::ZERO, lookup)
    }

    /// The record of the deltas that decides.
    #[inline]
    fn search_deltas<'v>(&'v self, lookup: &Lookup<'_>, guard: &'v Guard) -> Option<&'v Record> {
        // The first one stands outside of the loop: most gets end here, and then there is no loop.
        let mut deltas = self.deltas();
        let newest = deltas.next()?.newest(lookup, guard);
        newest.or_else(|| decide(deltas.map(|delta| delta.newest(lookup, guard))))
    }

    /// The rest of a search in RAM for a key in the range deletion `cover`, which the reader sees.
    /// `record` is what the deltas had a moment before.
    ///
    /// The range deletion may belong to a batch that has also put the key, while the put was not
    /// visible when the deltas were searched. So they are searched once more: by now the put is
    /// visible.
    #[cold]
    fn search_below<'v>(
        &'v self,
        cover: &Record,
        record: Option<&'v Record>,
        lookup: &Lookup<'_>,
        guard: &'v Guard,
    ) -> InRam<'v> {
        let record = match cover.is_of_batch() {
            true => self.search_deltas(lookup, guard),
            false => record,
        };
        self.decided(record, cover.version(), lookup)
    }

    /// What the layers in RAM say, if the deltas have this `record` and a range deletion hides
    /// records of versions below `hidden_below`. It is inlined always, because most callers have
    /// no range deletion, and then nothing is left of the comparisons.
    #[inline(always)]
    fn decided<'v>(
        &'v self,
        record: Option<&'v Record>,
        hidden_below: Version,
        lookup: &Lookup<'_>,
    ) -> InRam<'v> {
        if let Some(record) = record {
            // Records below it are older still.
            return match record.version() >= hidden_below {
                true => InRam::Delta(record),
                false => InRam::Nothing(Component::Delta),
            };
        }
        if self.funk.max_version < hidden_below {
            return InRam::Nothing(Component::Absent);
        }
        match self.newest_in_munk(lookup) {
            Sought::Found(hit) if hit.version >= hidden_below => InRam::Munk(hit),
            Sought::Found(_) | Sought::Nothing => InRam::Nothing(Component::Munk),
            Sought::Absent => InRam::Unknown(hidden_below),
        }
    }

    /// Whether a munk needs the deltas that become durable, because it has some spans.
    pub(crate) fn munk_holds_any(&self) -> bool {
        self.munk.as_ref().is_some_and(|munk| munk.holds_any())
    }

    /// Without any span no delta is kept for a munk, so durable deltas leave. Deltas that become
    /// durable later will not stay, either; if an older one stayed, it would be read in place of a
    /// newer one.
    pub(crate) fn keep_deltas_for_spans_alone(&mut self) {
        if !self.munk_holds_any() {
            self.frozen.retain(|frozen| !frozen.durable);
        }
    }

    /// Whether range deletions hide no record of the munk, nor of the deltas. The range deletions
    /// up to the mended version are of completed checkpoints; records of deltas that no munk has
    /// absorbed since then are newer. Every reader sees these range deletions.
    #[inline]
    pub(crate) fn munk_is_mended(&self) -> bool {
        match (&self.munk, &self.covers) {
            (Some(munk), Some(covers)) => covers.newest() <= munk.mended_to(),
            _ => false,
        }
    }

    /// The munk, if none of its spans is absent: then it alone is the truth below the deltas.
    pub(crate) fn whole_munk(&self) -> Option<&Arc<Munk>> {
        self.munk.as_ref().filter(|munk| munk.is_whole())
    }
}
