//! One look at a chunk: what it needs is decided from its figures, and done.

use super::layout::{Munks, NewChunk};
use super::picker::{ChunkStats, Decision, Limits, pick};
use crate::ballast::Need;
use crate::chunk::{Chunk, View};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::funk::Run;
use crate::funk::tables::TableHandle;
use crate::keyspace::KeyspaceState;
use crate::manifest::edit::Place;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Weak};
use crate::trace;
use crate::version::clock::checkpoint_of;

/// Edits that may wait for upkeep to make them durable.
const QUEUED_EDITS_MAX: usize = 64;

/// A log of no more than this part of the base is rewritten with it only when there is another reason.
const LOG_PART_SMALL: u64 = 32;

/// A chunk to whose base nothing was added for so many checkpoints does not grow any more.
const GROWS_CHECKPOINTS: u64 = 16;

impl Engine {
    /// Makes queued edits durable. A full disk is no error: they stay queued.
    pub(crate) fn flush_manifest(&self) -> Result<()> {
        let flushed = self.with_ballast(Need::Jobs, || Ok(self.manifest().flush(Vec::new())?));
        let flushed = match flushed {
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                self.manifest().flush_into_reserve().map_err(Error::from)
            }
            flushed => flushed,
        };
        match flushed {
            Ok(bytes) => self.metrics.bytes_manifest.add(bytes),
            Err(error) if error.kind() == ErrorKind::NoSpace => {}
            Err(error) => return Err(self.latch_error(error)),
        }
        // What the edits dropped may go.
        self.work.stir();
        Ok(())
    }

    /// Looks at a chunk until it needs nothing more. Whether anything was done. Errors of kind
    /// `NoSpace` are for later; others have marked the chunk or latched the database.
    pub(crate) fn maintain(&self, chunk: &Arc<Chunk>) -> Result<bool> {
        let Some(keyspace) = self.keyspace_of(chunk) else {
            return Ok(false);
        };
        let Some(_token) = chunk.try_token() else {
            return Ok(false);
        };
        let mut worked = false;
        // A chunk that is split is not looked at again: its parts are queued.
        for _ in 0..4 {
            if chunk.latch.lock().retired || self.failure().is_some() {
                break;
            }
            if chunk.damaged.load(Ordering::Relaxed) {
                // Nothing that reads its tables; but deltas kept for its munk must not stay.
                worked |= self.absorb(chunk);
                break;
            }
            worked |= self.drop_covered(&keyspace, chunk)?;
            let view = chunk.view.load_full();
            match self.decide(&keyspace, chunk, &view) {
                Decision::None => {
                    self.note_log_merge(chunk, &view);
                    break;
                }
                Decision::Absorb => worked |= self.absorb(chunk),
                Decision::RebalanceFunk => {
                    self.absorb(chunk);
                    let parts = self.rewrite(&keyspace, std::slice::from_ref(chunk))?;
                    self.finish_layout(&parts)?;
                    worked = true;
                }
                Decision::Split => {
                    self.absorb(chunk);
                    let parts = self.split(&keyspace, chunk)?;
                    if let [whole] = &parts[..] {
                        // Old versions of one key may be most of it: not again before it grows.
                        let bytes = live_bytes(chunk, &whole.view.load_full());
                        whole.whole_at_bytes.store(bytes, Ordering::Relaxed);
                    }
                    self.finish_layout(&parts)?;
                    worked = true;
                }
                Decision::Merge => {
                    let merged = self.merge_with_next(&keyspace, chunk)?;
                    worked |= merged;
                    if !merged {
                        break;
                    }
                }
            }
        }
        Ok(worked)
    }

    pub(crate) fn keyspace_of(&self, chunk: &Chunk) -> Option<Arc<KeyspaceState>> {
        let catalog = self.catalog.lock();
        catalog
            .values()
            .find(|keyspace| keyspace.id == chunk.keyspace)
            .cloned()
    }

    /// After a layout change: new chunks are looked at. The edit becomes durable with the next
    /// flush, by upkeep or a checkpoint, which saves a sync a job; only a long queue is flushed here.
    pub(crate) fn finish_layout(&self, chunks: &[Arc<Chunk>]) -> Result<()> {
        if self.manifest().queued() >= QUEUED_EDITS_MAX {
            self.flush_manifest()?;
        }
        for chunk in chunks {
            self.work.push_maintenance(chunk);
        }
        Ok(())
    }

    /// Cuts a chunk in two or more, by sharing its tables where that costs nothing later.
    fn split(&self, keyspace: &KeyspaceState, chunk: &Arc<Chunk>) -> Result<Vec<Arc<Chunk>>> {
        let view = chunk.view.load_full();
        // Data that arrived in order lies in disjoint tables: cut between them, write nothing.
        if let Some(lows) = self.cuts_between_tables(chunk, &view) {
            return self.split_sharing(keyspace, chunk, lows);
        }
        // The first phase of the paper's split: a munk is cut in RAM, the tables are shared until
        // the halves' next rebalance, which comes before they split again.
        // Unless it grows in one place: it is cut around that then.
        if let Some(munk) = &view.munk
            && self.growth(chunk, &view)?.streams().is_empty()
            && let Some(middle) = munk.middle_key()
            && chunk.range.contains(&middle)
            && *middle > *chunk.range.low
        {
            return self.split_sharing(keyspace, chunk, vec![chunk.range.low.to_vec(), middle]);
        }
        self.rewrite(keyspace, std::slice::from_ref(chunk))
    }

    /// Low keys that group the base's tables into chunks of up to the rebalance size, without
    /// cutting through any table or run.
    fn cuts_between_tables(&self, chunk: &Chunk, view: &View) -> Option<Vec<Vec<u8>>> {
        let group_max = self.options.chunk_bytes_max() * 8 / 10;
        let whole = |key: &[u8]| {
            let cuts = |run: &Run| {
                let meta = &run.table.part.meta;
                *meta.min_key < *key && *key <= *meta.max_key
            };
            let runs = &view.funk.runs;
            chunk.range.contains(key) && (log_is_small(view) || !runs.iter().any(cuts))
        };
        let mut lows = vec![chunk.range.low.to_vec()];
        let mut group = 0;
        for table in &view.funk.base {
            let meta = &table.part.meta;
            if group > 0 && group + meta.data_bytes > group_max && whole(&meta.min_key) {
                lows.push(meta.min_key.clone());
                group = 0;
            }
            group += meta.data_bytes;
        }
        (lows.len() > 1).then_some(lows)
    }

    fn split_sharing(
        &self,
        keyspace: &KeyspaceState,
        chunk: &Arc<Chunk>,
        lows: Vec<Vec<u8>>,
    ) -> Result<Vec<Arc<Chunk>>> {
        let new = lows
            .into_iter()
            .map(|low| NewChunk {
                low,
                base: Vec::new(),
            })
            .collect();
        let old = std::slice::from_ref(chunk);
        let job = trace::job!("split", chunk = chunk.id.0, keyspace = &*keyspace.name);
        let parts = self.replace_chunks(keyspace, old, new, None, Munks::Keep)?;
        self.metrics.splits.add(1);
        // Nothing is written: the parts share the tables.
        trace::event!(
            DEBUG,
            "split",
            chunk = chunk.id.0,
            chunks_after = parts.len(),
            bytes = 0_u64,
            duration_micros = job.micros()
        );
        Ok(parts)
    }

    /// Merges the chunk with its right neighbour if nobody else is at work on that.
    fn merge_with_next(&self, keyspace: &KeyspaceState, chunk: &Arc<Chunk>) -> Result<bool> {
        let root = keyspace.index.load_full();
        let Some((_, next)) = root.next(&chunk.range.low) else {
            return Ok(false);
        };
        let next = next.clone();
        let Some(_token) = next.try_token() else {
            return Ok(false);
        };
        if next.latch.lock().retired || next.damaged.load(Ordering::Relaxed) {
            return Ok(false);
        }
        self.absorb(chunk);
        self.absorb(&next);
        let merged = self.rewrite(keyspace, &[chunk.clone(), next.clone()])?;
        self.finish_layout(&merged)?;
        Ok(true)
    }

    fn decide(&self, keyspace: &KeyspaceState, chunk: &Chunk, view: &View) -> Decision {
        let (stats, mut limits) = self.figures(keyspace, chunk, view);
        let live = stats.live_bytes_estimate;
        let whole_at = chunk.whole_at_bytes.load(Ordering::Relaxed);
        if live > limits.chunk_bytes_max && (live <= whole_at * 5 / 4 || !splittable(chunk, view)) {
            // One key, however large, stays one chunk.
            limits.chunk_bytes_max = u64::MAX;
        }
        pick(&stats, &limits).decision
    }

    /// Bytes that reorganising the chunk now would write.
    pub(crate) fn debt_of(&self, keyspace: &KeyspaceState, chunk: &Chunk, view: &View) -> u64 {
        match self.decide(keyspace, chunk, view) {
            Decision::None | Decision::Absorb => 0,
            _ => super::rewrite::data_bytes(view),
        }
    }

    fn figures(
        &self,
        keyspace: &KeyspaceState,
        chunk: &Chunk,
        view: &View,
    ) -> (ChunkStats, Limits) {
        let root = keyspace.index.load_full();
        let neighbour = |found: Option<(&[u8], &Arc<Chunk>)>| {
            found.map(|(_, chunk)| super::rewrite::data_bytes(&chunk.view.load_full()))
        };
        let stats = ChunkStats {
            // Only the right neighbour is merged with: every pair has one left member.
            next_bytes: neighbour(
                root.next(&chunk.range.low)
                    .filter(|(_, next)| !self.grows(chunk) && !self.grows(next)),
            ),
            ..self.own_figures(chunk, view)
        };
        (stats, self.picker_limits())
    }

    /// Whether data arrives in order at the chunk's end: in one chunk with a neighbour it would be
    /// rewritten with that one's.
    fn grows(&self, chunk: &Chunk) -> bool {
        let joined_at = chunk.joined_at.load(Ordering::Relaxed);
        joined_at > 0 && joined_at + GROWS_CHECKPOINTS >= checkpoint_of(self.clock.now())
    }

    /// A chunk's figures without its neighbours'.
    pub(super) fn own_figures(&self, chunk: &Chunk, view: &View) -> ChunkStats {
        let funk = &view.funk;
        let small_log = log_is_small(view);
        let shared = |table: &Arc<TableHandle>| !inside(chunk, table);
        ChunkStats {
            data_bytes: base_data_bytes(chunk, view) + funk.log_bytes(),
            log_bytes: funk.log_bytes(),
            log_runs: funk.runs.len() as u32,
            live_bytes_estimate: live_bytes(chunk, view),
            has_munk: view.munk.is_some(),
            update_rate: self.space.update_rate(chunk),
            shares_tables: funk.base.iter().any(shared)
                || (!small_log && funk.runs.iter().any(|run| shared(&run.table))),
            appended_in_order: funk.base.len() > 1 && small_log,
            records: records(view),
            // A snapshot keeps tombstones alive: rewriting would not get rid of them.
            tombstones: match self.clock.snapshot_count() {
                0 => funk.tables().map(|table| table.part.meta.deletes).sum(),
                _ => 0,
            },
            frozen_deltas: view.frozen.iter().filter(|frozen| frozen.durable).count() as u32,
            previous_bytes: None,
            next_bytes: None,
        }
    }

    pub(super) fn picker_limits(&self) -> Limits {
        let chunk_bytes_max = self.options.chunk_bytes_max();
        let (cold, munk) = self
            .options
            .log_bytes_limits
            .unwrap_or((chunk_bytes_max * 35 / 100, chunk_bytes_max * 2));
        Limits {
            chunk_bytes_max,
            rebalance_bytes: chunk_bytes_max * 7 / 10,
            log_bytes_max_cold: cold,
            log_bytes_max_munk: munk,
            runs_max: self.log_runs_max(),
            frozen_deltas_max: 1,
            square_root: match self.options.log_bytes_limits {
                Some(_) => None,
                None => self.space.log_budget(),
            },
            merge_bytes: chunk_bytes_max * 2 / 5,
        }
    }

    /// All chunks looked at, their jobs done, until nothing is owed. A chunk for which there is no
    /// room on the disk is looked at again as long as others give some back.
    pub(crate) fn settle(&self) -> Result<()> {
        loop {
            let mut worked = false;
            let mut out_of_room = Ok(());
            // Not held all together: what is replaced meanwhile must go.
            let chunks: Vec<_> = {
                let chunks = self.chunks();
                let each = chunks.iter();
                each.map(|(_, chunk)| Arc::downgrade(chunk)).collect()
            };
            for chunk in chunks.iter().filter_map(Weak::upgrade) {
                match self.maintain_on_full_disk(chunk) {
                    Ok(done) => worked |= done,
                    Err(error) if error.kind() == ErrorKind::KeyspaceDropped => {}
                    Err(error) if error.kind() == ErrorKind::NoSpace => out_of_room = Err(error),
                    Err(error) => return Err(error),
                }
            }
            self.collect();
            if !worked {
                return out_of_room;
            }
        }
    }
}

/// Whether a rewrite of the chunk surely takes less of the disk than it gives back. What it frees in
/// the container does not count: that room is the container's.
pub(crate) fn will_shrink(view: &View) -> bool {
    let files = view
        .funk
        .tables()
        .filter(|table| table.part.place == Place::File);
    output_bytes(view) * 4 / 3 <= files.map(|table| table.part_len()).sum()
}

/// About what a rewrite of the chunk writes.
pub(crate) fn output_bytes(view: &View) -> u64 {
    let metas = || view.funk.tables().map(|table| &table.part.meta);
    match &view.munk {
        Some(munk) => munk.data_bytes() as u64,
        None => {
            // Each tombstone takes a record with it, as a rule.
            let entries: u64 = metas().map(|meta| meta.entries).sum();
            let deletes: u64 = metas().map(|meta| meta.deletes).sum();
            let bytes: u64 = metas().map(|meta| meta.data_bytes).sum();
            bytes / entries.max(1) * entries.saturating_sub(2 * deletes)
        }
    }
}

/// Whether the log is next to nothing beside the base: records that came late into data that arrives
/// in order.
fn log_is_small(view: &View) -> bool {
    view.funk.log_bytes() * LOG_PART_SMALL <= view.funk.base_bytes()
}

/// Whether a table lies within the chunk, or was left to it and a neighbour by a split.
fn inside(chunk: &Chunk, table: &TableHandle) -> bool {
    let meta = &table.part.meta;
    chunk.range.contains(&meta.min_key) && chunk.range.contains(&meta.max_key)
}

/// Keys and values of the base within the chunk: of a table shared with a neighbour, half.
fn base_data_bytes(chunk: &Chunk, view: &View) -> u64 {
    let own = |table: &Arc<TableHandle>| {
        table.part.meta.data_bytes / if inside(chunk, table) { 1 } else { 2 }
    };
    view.funk.base.iter().map(own).sum()
}

/// Keys and values that a rewrite would leave. Whether the log's records are new keys or old ones
/// only a munk knows; without one they are taken for old.
fn live_bytes(chunk: &Chunk, view: &View) -> u64 {
    match &view.munk {
        Some(munk) => munk.data_bytes() as u64,
        None => base_data_bytes(chunk, view),
    }
}

/// Records of the base, of the log if there is none.
fn records(view: &View) -> u64 {
    let entries = |table: &Arc<TableHandle>| table.part.meta.entries;
    match view.funk.base.is_empty() {
        true => view.funk.tables().map(entries).sum(),
        false => view.funk.base.iter().map(entries).sum(),
    }
}

/// Whether the chunk holds at least two different keys on disk.
fn splittable(chunk: &Chunk, view: &View) -> bool {
    if let Some(munk) = &view.munk {
        return munk
            .middle_key()
            .is_some_and(|key| chunk.range.contains(&key) && *key > *chunk.range.low);
    }
    let metas = || view.funk.tables().map(|table| &table.part.meta);
    let least = metas().map(|meta| &meta.min_key[..]).min();
    let greatest = metas().map(|meta| &meta.max_key[..]).max();
    least.map(|key| key.max(&chunk.range.low)) < greatest
}
