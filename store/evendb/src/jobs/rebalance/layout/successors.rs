//! What the chunks of a split or a merge take over from the old ones: deltas, munk, tables, range
//! deletions, rows, and the counters that decisions are made by.
//!
//! ```text
//!   old:  | a ............ |          old:  | a ... | b ... |
//!   new:  | a ... | m .... |          new:  | a ........... |
//! ```
//! Invariants: a new chunk answers for each key of its range as the old chunk did, from the same
//! records. Deltas are shared, and limited to the range. A munk is cut or joined, or it leaves with
//! the durable deltas that were kept for it.
//!
//! Thread safety: the caller holds the latches of the old chunks, so their views do not change.
//! Not here: the edit and the new index (`mod`), and where chunks are cut.

use super::{Munks, NewChunk, Rewritten, leave_covers};
use crate::chunk::covers::Covers;
use crate::chunk::row_tag::RowTag;
use crate::chunk::{ChargedDelta, Chunk, ChunkWriter, Frozen, KeyRange, View};
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::funk::{Funk, Run};
use crate::manifest::edit::Part;
use crate::munk::Munk;
use crate::plant::planted;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, MutexGuard};
use crate::version::clock::checkpoint_of;
use evendb_storage::Version;

/// Old chunks, as their latches leave them.
pub(super) struct Old<'a> {
    chunks: &'a [Arc<Chunk>],
    pub(super) views: Vec<Arc<View>>,
    /// All of their range deletions.
    covers: Option<Arc<Covers>>,
    /// The tag of the rows that stay true.
    row_tag: RowTag,
    /// Puts to the new chunks belong to this checkpoint, or to a later one.
    checkpoint: u64,
    pub(super) changed_at: Version,
    pub(super) single_at: Version,
}

impl<'a> Old<'a> {
    /// Freezes the active deltas of latched chunks.
    pub(super) fn freeze(
        core: &Core,
        chunks: &'a [Arc<Chunk>],
        guards: &mut [MutexGuard<'_, ChunkWriter>],
        rewritten: Option<&Rewritten<'_>>,
    ) -> Old<'a> {
        let checkpoint = freeze_all(core, chunks, guards);
        let changed_at = guards.iter().map(|writer| writer.changed_at).max();
        let single_at = guards.iter().map(|writer| writer.single_at).max();
        let views: Vec<Arc<View>> = chunks.iter().map(|chunk| chunk.view.load_full()).collect();
        Old {
            covers: joined_covers(core, chunks, &views),
            row_tag: joined_row_tag(core, &views, rewritten),
            chunks,
            views,
            checkpoint,
            changed_at: changed_at.unwrap_or(Version::MAX),
            single_at: single_at.unwrap_or_default(),
        }
    }

    /// The new chunks have munks only if every old one has: one cannot serve two merged chunks.
    pub(super) fn munks(&self, wanted: Munks) -> Munks {
        match self.views.iter().all(|view| view.munk.is_some()) {
            true => wanted,
            false => Munks::Drop,
        }
    }

    /// The new chunks' ranges and tables, in order.
    pub(super) fn ranges(&self, new: Vec<NewChunk>) -> Vec<(KeyRange, Vec<Part>)> {
        let end = self.chunks.last().and_then(|last| last.range.high.clone());
        let lows = new.iter().map(|chunk| Box::from(&chunk.low[..]));
        let highs: Vec<Option<Box<[u8]>>> = lows.skip(1).map(Some).chain([end]).collect();
        let ranges = new.into_iter().zip(highs).map(|(chunk, high)| {
            let low = chunk.low.into();
            (KeyRange { low, high }, chunk.base)
        });
        ranges.collect()
    }

    /// What the chunk of this range begins with.
    pub(super) fn view(
        &self,
        core: &Core,
        range: &KeyRange,
        funk: Funk,
        munks: &Munks,
        spent: Option<Version>,
    ) -> View {
        let is_first = self.chunks[0].range.low == range.low;
        let lost = !is_first && planted!(core.options, SplitLosesCovers);
        let covers = self.covers.as_ref().filter(|_| !lost);
        let covers = covers.and_then(|all| all.clip(range, core.ledger()));
        let mut view = View {
            active: ChargedDelta::new(self.checkpoint, &core.admission),
            frozen: limited_deltas(self.chunks, &self.views, range, munks),
            munk: joined_munk(self.chunks, &self.views, range, munks),
            funk: Arc::new(funk),
            covers: covers.map(Arc::new),
            row_tag: self.row_tag,
        };
        if let Some(spent) = spent {
            leave_covers(core, &mut view, spent, &|_| true);
        }
        // The resident spans may all belong to other parts.
        if !planted!(core.options, PartsKeepDeltas) {
            view.keep_deltas_for_spans_alone();
        }
        view
    }
}

/// Freezes the active deltas of latched chunks in the middle of a checkpoint, and returns the
/// checkpoint's number. Later puts to the chunks' successors are announced later, so they have
/// greater versions than the frozen records. Otherwise a merge with the version of a frozen merge
/// of its key would be taken for the same record.
fn freeze_all(
    core: &Core,
    chunks: &[Arc<Chunk>],
    guards: &mut [MutexGuard<'_, ChunkWriter>],
) -> u64 {
    let checkpoint = checkpoint_of(core.clock.now());
    for (chunk, writer) in chunks.iter().zip(guards) {
        if !writer.active.is_empty() {
            let next = checkpoint.max(writer.active.checkpoint());
            chunk.freeze(writer, next, &core.admission);
        }
    }
    if !planted!(core.options, LayoutSharesVersion) {
        core.clock.advance();
    }
    checkpoint
}

/// The range deletions of neighbouring chunks.
pub(crate) fn joined_covers(
    core: &Core,
    chunks: &[Arc<Chunk>],
    views: &[Arc<View>],
) -> Option<Arc<Covers>> {
    let all = chunks.iter().zip(views);
    match views {
        [view] => view.covers.clone(),
        _ => {
            let each = all.map(|(chunk, view)| (&*chunk.range.low, view.covers.as_ref()));
            let each: Vec<_> = each.collect();
            Covers::joined(&each, core.ledger()).map(Arc::new)
        }
    }
}

/// The tag that the rows of all old chunks have, or else a fresh tag, which no row has.
fn joined_row_tag(core: &Core, views: &[Arc<View>], rewritten: Option<&Rewritten<'_>>) -> RowTag {
    if rewritten.is_some_and(|rewritten| rewritten.filtered) {
        return core.row_tags.fresh();
    }
    let mut tags = views.iter().map(|view| view.row_tag);
    let first = tags.next().unwrap_or(RowTag::NONE);
    match tags.all(|tag| tag == first) {
        true => first,
        false => core.row_tags.fresh(),
    }
}

/// A funk of a new base, and of the runs that were written while the base was made.
pub(super) fn rewritten_funk(
    disk: &Disk,
    range: &KeyRange,
    views: &[Arc<View>],
    ordinals: &[u32],
    base: &[Part],
) -> Funk {
    let base = base.iter().map(|part| disk.tables.acquire(part)).collect();
    let kept = views
        .iter()
        .zip(ordinals)
        .flat_map(|(view, from)| view.funk.runs.iter().filter(|run| run.ordinal >= *from));
    let runs = renumbered(disk, range, kept);
    let run_end = runs.len() as u32;
    Funk::new(base, runs, run_end)
}

/// The tables of the old chunk that overlap `range`; other new chunks may share them.
pub(super) fn shared_funk(disk: &Disk, range: &KeyRange, views: &[Arc<View>]) -> Funk {
    let [view] = views else {
        unreachable!("only one chunk at a time is split")
    };
    let old = &view.funk;
    let base = old
        .base
        .iter()
        .filter(|table| range.overlaps(&table.part.meta))
        .map(|table| disk.tables.acquire(&table.part))
        .collect();
    // Ordinals stay, so that the log index can be shared too.
    let runs: Vec<Run> = old
        .runs
        .iter()
        .filter(|run| range.overlaps(&run.table.part.meta))
        .map(|run| Run {
            ordinal: run.ordinal,
            table: disk.tables.acquire(&run.table.part),
        })
        .collect();
    let keeps_all = runs.len() == old.runs.len();
    let mut funk = Funk::new(base, runs, old.run_end);
    if keeps_all && let Some(search) = old.search.get() {
        funk.search.set(search);
        funk.search_shared = true;
    }
    funk
}

/// Runs of one or several chunks under new ordinals. The key ranges of several chunks are disjoint,
/// so only the order within each chunk matters.
fn renumbered<'r>(disk: &Disk, range: &KeyRange, runs: impl Iterator<Item = &'r Run>) -> Vec<Run> {
    runs.filter(|run| range.overlaps(&run.table.part.meta))
        .enumerate()
        .map(|(ordinal, run)| Run {
            ordinal: ordinal as u32,
            table: disk.tables.acquire(&run.table.part),
        })
        .collect()
}

/// The old chunks' frozen deltas, each limited to the keys of the new chunk.
fn limited_deltas(
    old: &[Arc<Chunk>],
    views: &[Arc<View>],
    range: &KeyRange,
    munks: &Munks,
) -> Vec<Frozen> {
    let mut frozen = Vec::new();
    for (chunk, view) in old.iter().zip(views) {
        for delta in &view.frozen {
            let own = delta.limits.as_deref().unwrap_or(&chunk.range);
            let Some(limits) = intersection(own, range) else {
                continue;
            };
            // Without a munk that takes them, deltas whose run is in the funk are not needed.
            if delta.durable && matches!(munks, Munks::Drop) {
                continue;
            }
            frozen.push(Frozen {
                limits: Some(Arc::new(limits)),
                ..delta.clone()
            });
        }
    }
    // Newest first. Deltas of different chunks have disjoint limits, so only the order within each
    // chunk counts.
    frozen.sort_by_key(|frozen: &Frozen| std::cmp::Reverse(frozen.delta.checkpoint()));
    frozen
}

fn intersection(a: &KeyRange, b: &KeyRange) -> Option<KeyRange> {
    let low = a.low.clone().max(b.low.clone());
    let high = match (&a.high, &b.high) {
        (Some(a), Some(b)) => Some(a.min(b).clone()),
        (a, b) => a.clone().or(b.clone()),
    };
    let empty = high.as_ref().is_some_and(|high| *high <= low);
    (!empty).then_some(KeyRange { low, high })
}

/// The new chunk's munk, cut or joined from the munks of the old chunks.
fn joined_munk(
    old: &[Arc<Chunk>],
    views: &[Arc<View>],
    range: &KeyRange,
    munks: &Munks,
) -> Option<Arc<Munk>> {
    if matches!(munks, Munks::Drop) {
        return None;
    }
    let mut whole: Option<Munk> = None;
    for (chunk, view) in old.iter().zip(views) {
        let munk = view.munk.as_ref()?;
        whole = Some(match whole {
            None => (**munk).clone(),
            Some(lower) => Munk::concat(&lower, &chunk.range.low, munk),
        });
    }
    Some(Arc::new(part_of_munk(whole?, range)))
}

/// The part of a munk within `range`.
pub(crate) fn part_of_munk(mut munk: Munk, range: &KeyRange) -> Munk {
    if !range.low.is_empty() {
        munk = munk.split_at(&range.low).1;
    }
    if let Some(high) = &range.high {
        munk = munk.split_at(high).0;
    }
    munk
}

/// The new chunks inherit the counters by which decisions about them are made.
pub(crate) fn inherit(old: &Chunk, new: &[Arc<Chunk>]) {
    for chunk in new {
        chunk.heat.inherit(&old.heat, new.len());
        // Relaxed: for deciding only.
        for (new, old) in [
            (&chunk.based_at, &old.based_at),
            (&chunk.joined_at, &old.joined_at),
        ] {
            new.fetch_max(old.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}
