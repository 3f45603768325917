//! Munks: absorbing deltas, evicting a whole munk, and the round that divides memory.
//!
//! * Absorb (the paper's munk rebalance): the durable deltas are merged into copied pages; one new
//!   view has the new munk and no longer these deltas. Puts and gets continue meanwhile.
//! * Evict: the munk and the deltas kept for it leave; both are in the funk, so no I/O is needed.
//!   Where puts are about to wait, a munk that is hardly read is evicted instead of absorbing
//!   (decision 0033).

use crate::cache::row::RowCache;
use crate::cache::spans::REFILL_ACCESSES;
use crate::cache::split::SpanSight;
use crate::catalog::Catalog;
use crate::checkpoint::delta_sources;
use crate::chunk::covers::Covers;
use crate::chunk::{Chunk, Counted, Frozen, Heat, View};
use crate::engine::caches::Caches;
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::engine::log::Log;
use crate::engine::work::Work;
use crate::folding::Folding;
use crate::memory::{Use, slab};
use crate::merge::{Merge, RamMerge};
use crate::munk::Sizes;
use crate::munk::heat::left_after;
use crate::pace;
use crate::plant::planted;
use crate::rebalance::spans::{self, make_room};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Arc, reclaim};
use crate::visibility::Dropping;
use crate::{memory_shares, trace};
use evendb_storage::Version;
use std::time::Duration;

/// Merges the durable deltas into the munk, and returns whether there were any. The caller holds
/// the token.
pub(crate) fn absorb(core: &Core, chunk: &Arc<Chunk>) -> bool {
    let view = chunk.view.load_full();
    chunk.assert_view(&view, "to be absorbed");
    let Some(munk) = &view.munk else { return false };
    let deltas: Vec<Frozen> = view
        .frozen
        .iter()
        .filter(|frozen| frozen.durable)
        .cloned()
        .collect();
    if deltas.is_empty() {
        return false;
    }
    let job = trace::job!("absorb", chunk = chunk.id.0);
    let mut horizon = core.clock.horizon();
    if planted!(core.options, FoldsUnderSnapshots) {
        horizon.snapshots.clear();
    }
    let absorbed = {
        let mut yielder = pace::yielder(core);
        let pin = reclaim::pin();
        let sources = delta_sources(&deltas, None, &pin, &mut yielder);
        let dropping = Dropping {
            horizon: &horizon,
            bottom: false,
            zero_below: Version::ZERO,
        };
        // Range deletions are needed only if operands may lie on records that these hide.
        let named = core.choices.merge_operator(chunk.keyspace);
        let covers = view.covers.as_ref().filter(|_| named.is_some());
        let operator = named.and_then(|named| named.operator);
        let merge = Merge::into_munk(
            sources,
            dropping,
            Covers::covering_now(covers),
            operator.clone(),
        );
        let merge = merge
            .expect("sources in RAM do not fail")
            .yielding_by(yielder);
        let covering = Covers::covering_now(covers);
        let folding = Folding {
            operator: operator.as_ref(),
            cover_above: &|key, version| covering.as_ref()?(key, version),
        };
        Arc::new(munk.absorb(&mut RamMerge(merge), &horizon, true, folding))
    };
    let writer = chunk.latch.lock();
    let mut new_view: View = (*chunk.view.load_full()).clone();
    new_view.munk = Some(absorbed);
    new_view.frozen.retain(|frozen| {
        !deltas
            .iter()
            .any(|delta| Arc::ptr_eq(&delta.delta, &frozen.delta))
    });
    chunk.publish(new_view);
    drop(writer);
    core.metrics.absorbs.add(1);
    trace::event!(
        DEBUG,
        "munk absorbed",
        chunk = chunk.id.0,
        deltas = deltas.len(),
        duration_micros = job.micros()
    );
    true
}

/// Removes from the munk the records that range deletions up to version `limit` hide, so that its
/// spans stay when these deletions leave ([`crate::rebalance::layout::leave_covers`]). The deletions are in
/// the manifest, and every reader reads at `limit` or above. The caller holds the token.
///
/// No range deletion of such a version comes later: everything in the manifest belongs to a
/// complete checkpoint. No later durable delta has records that these deletions hide either: the
/// records of later checkpoints are newer.
pub(crate) fn mend(core: &Core, chunk: &Arc<Chunk>, limit: Version) {
    let has_any = |covers: &Arc<Covers>| covers.oldest() <= limit;
    let view = chunk.view.load_full();
    if !view.munk_holds_any() || !view.covers.as_ref().is_some_and(has_any) {
        return;
    }
    absorb(core, chunk);
    let view = chunk.view.load_full();
    let (Some(munk), Some(covers)) = (&view.munk, &view.covers) else {
        return;
    };
    let horizon = core.clock.horizon();
    let mut yielder = pace::yielder(core);
    let since = munk.mended_to();
    let is_touched = |span: usize| {
        yielder.yield_if_due();
        let (low, high) = munk.limits(span);
        covers.has_any_between(since, limit, low, high)
    };
    let mut hidden_below = |key: &[u8]| {
        let own = covers.stretch(key).newest_up_to(limit);
        own.unwrap_or(Version::ZERO)
    };
    let operator = core.choices.operator(chunk.keyspace);
    let covering = Covers::covering_now(Some(covers));
    let folding = Folding {
        operator: operator.as_ref(),
        cover_above: &|key, version| covering.as_ref()?(key, version),
    };
    let mended = munk.mended(limit, is_touched, &mut hidden_below, &horizon, folding);
    let writer = chunk.latch.lock();
    let mut new_view: View = (*chunk.view.load_full()).clone();
    new_view.munk = Some(Arc::new(mended));
    // All its spans may be gone, and a delta may have become durable since the absorb.
    new_view.keep_deltas_for_spans_alone();
    chunk.publish(new_view);
    drop(writer);
}

/// Mends the munk if there are range deletions that every reader sees, and returns whether there
/// was anything to do. From then on reads of the munk need not ask these deletions
/// ([`View::munk_is_mended`]), however long they stay for the tables. The caller holds the token.
pub(crate) fn mend_spent(core: &Core, chunk: &Arc<Chunk>) -> bool {
    let view = chunk.view.load_full();
    let (Some(munk), Some(covers)) = (&view.munk, &view.covers) else {
        return false;
    };
    if view.munk_is_mended() || !munk.holds_any() {
        return false;
    }
    let limit = covers.spent_limit(&core.clock.horizon());
    let next = covers.oldest_above(munk.mended_to());
    let is_due = next.is_some_and(|next| next <= limit);
    if is_due {
        mend(core, chunk, limit);
    }
    is_due
}

/// Takes the durable deltas into the munk, and returns whether there was anything to do. It drops
/// the munk instead if three things hold: puts are about to wait for the deltas' memory, the chunk
/// is hardly read, and munks need not be spared. The caller holds the token.
pub(crate) fn absorb_or_evict(core: &Core, caches: &Caches, chunk: &Arc<Chunk>) -> bool {
    if spares_munks(caches) || !pace::is_behind(core) || !is_mostly_written(chunk) {
        return absorb(core, chunk);
    }
    let view = chunk.view.load_full();
    let waits = view.munk.is_some() && view.frozen.iter().any(|frozen| frozen.durable);
    if waits {
        evict_munk(core, chunk);
    }
    waits
}

/// Whether hardly read munks stay although puts wait: the munks of two chunks in three fit in
/// memory, and puts have not waited for long. After a short burst of puts the munks are still there
/// for the next reads.
fn spares_munks(caches: &Caches) -> bool {
    // Relaxed: one munk more or less does no harm.
    caches.most_fit.load(Ordering::Relaxed)
        && caches.pressed_rounds.load(Ordering::Relaxed) < PRESSED_ROUNDS
}

/// Whether absorbing the chunk's puts costs more than its munk saves its readers. A read without a
/// munk costs about the same as absorbing [`ABSORBED_PER_READ`] records.
pub(crate) fn is_mostly_written(chunk: &Chunk) -> bool {
    let heat = &chunk.heat;
    let sum = |decayed: &AtomicU32, new: &AtomicU32| {
        Heat::load(decayed) + new.load(Ordering::Relaxed) as f32
    };
    let reads = sum(&heat.get_heat, &heat.gets) + SCAN_WEIGHT * sum(&heat.scan_heat, &heat.scans);
    let puts = sum(&heat.write_heat, &heat.puts);
    reads * ABSORBED_PER_READ < puts
}

/// Drops the chunk's munk. The caller holds the token.
pub(crate) fn evict_munk(core: &Core, chunk: &Chunk) {
    let writer = chunk.latch.lock();
    let mut view: View = (*chunk.view.load_full()).clone();
    let Some(munk) = view.munk.take().filter(|_| !writer.retired) else {
        return;
    };
    view.keep_deltas_for_spans_alone();
    chunk.publish(view);
    drop(writer);
    core.metrics.munk_evictions.add(1);
    trace::event!(
        DEBUG,
        "munk evicted",
        chunk = chunk.id.0,
        bytes = munk.bytes()
    );
}

/// The bytes that munks may take now: the caches' memory without the rows' part.
pub(crate) fn munk_bytes_max(core: &Core, log: &Log, caches: &Caches) -> u64 {
    let rows = caches.row_bytes();
    memory_shares::cache_bytes(core, log).saturating_sub(rows)
}

/// Whether a round is due. With more chunks rounds are rarer, so that their cost is bounded; when
/// too much is in RAM one is due soon.
pub(crate) fn munk_round_due(core: &Core, log: &Log, caches: &Caches, since: Duration) -> bool {
    // Relaxed: only upkeep writes it.
    let chunks = caches.round_chunks.load(Ordering::Relaxed);
    since >= ROUND.max(ROUND_COST * chunks)
        || (since >= ROUND && core.ledger().bytes(Use::Munks) > munk_bytes_max(core, log, caches))
}

/// One round of the memory policy: takes the chunks' counters, decides how munks and rows share
/// memory, gives rows their room, and evicts spans until the others fit.
pub(crate) fn munk_round(
    core: &Core,
    disk: &Disk,
    log: &Log,
    caches: &Caches,
    catalog: &Catalog,
    work: &Work,
) {
    if core.health.failure().is_some() || core.health.is_closed() {
        return;
    }
    let mut restores = match memory_shares::searches_have_room(core, log) {
        true => RESTORES_MAX,
        false => 0,
    };
    // Relaxed: only upkeep writes it.
    let left = f32::from_bits(caches.heat_left.load(Ordering::Relaxed));
    let (mut chunks, mut munks, mut all) = (0, 0, 0);
    let mut came = Counted::default();
    let (mut residents, mut lists) = (Vec::new(), Lists::default());
    each_chunk(catalog, &mut |chunk, view| {
        // The chunk was passed over if another job had it (a load, an eviction) when it was due.
        // The deltas left for its munk hold memory that puts wait for.
        if view.frozen.iter().any(|frozen| frozen.durable) {
            work.push_maintenance(chunk);
        }
        let counted = chunk.heat.fold(left);
        came = came.and(counted);
        if restores > 0
            && view.whole_munk().is_none()
            && counted.gets >= RESTORE_GETS_MIN
            && view.funk.restore_search(&caches.search_settings)
        {
            restores -= 1;
        }
        chunks += 1;
        all += ram_bytes(chunk, view);
        if let Some(munk) = &view.munk {
            munks += munk.bytes() as u64;
            match munk.holds_any() {
                true => residents.push(Arc::downgrade(chunk)),
                false => lists.see(chunk, munk.bytes() as u64),
            }
        }
    });
    caches.munk_bytes.store(munks, Ordering::Relaxed);
    lists.bound(core, caches);
    caches.round_chunks.store(chunks, Ordering::Relaxed);
    caches.residents.lock().chunks = residents;
    note_pressure(core, caches);
    // Pages that are not reclaimed yet, or that users' values keep.
    let kept = core.ledger().bytes(Use::Munks).saturating_sub(munks);
    memory_shares::note_kept_pages(core, caches, kept);
    let bytes_max = memory_shares::cache_bytes(core, log).saturating_sub(caches.sampler.bytes());
    let bytes_max = bytes_max.saturating_sub(note_others(core, log, caches, kept));
    // If all chunks fit into munks, rows get the memory that these leave.
    let row_bytes_most = match note_fit(core, caches, all, bytes_max) {
        true => bytes_max.saturating_sub(all),
        false => bytes_max,
    };
    divide(core, log, caches, &came, bytes_max, row_bytes_most);
    make_room_ahead(core, disk, log, caches, bytes_max);
    compact_rows(core, caches);
}

/// Notes whether most chunks, and all of them, fit into munks of `bytes_max` bytes; `all` bytes is
/// what all would take. Returns whether all fit.
fn note_fit(core: &Core, caches: &Caches, all: u64, bytes_max: u64) -> bool {
    caches
        .most_fit
        .store(all / 3 * 2 <= bytes_max, Ordering::Relaxed);
    // Chunks that barely fit may be a little larger the next moment; then a small part of them is
    // not in RAM.
    let most = match caches.all_fit.load(Ordering::Relaxed) {
        true => bytes_max + bytes_max / ALL_FIT_MARGIN,
        false => bytes_max,
    };
    let all_fit = core.options.advanced.munks && all <= most;
    caches.all_fit.store(all_fit, Ordering::Relaxed);
    all_fit
}

/// Moves rows together, a part of them in each round, if small holes take much memory. Other
/// objects than rows leave such holes too, and fill them again: after a pass that moved few rows
/// the next one waits.
fn compact_rows(core: &Core, caches: &Caches) {
    let Some(rows) = &caches.row_cache else {
        return;
    };
    let mut compaction = caches.row_compaction.lock();
    if !compaction.goes_on {
        compaction.pause = compaction.pause.saturating_sub(1);
        let much = core.options.memory_budget / SMALL_HOLES_SHARE;
        if compaction.pause > 0 || slab::small_holes_bytes() <= much {
            return;
        }
    }
    let moved = rows.compact(&mut compaction.at, ROWS_COMPACTED);
    compaction.goes_on = moved.is_none();
    if moved.is_some_and(|moved| moved < rows.len() as u64 / 16) {
        compaction.pause = COMPACTION_PAUSE;
    }
}

/// Notes how much of the munks' memory is not used by munks: pages that are not reclaimed yet or
/// that users keep, and holes of slabs beyond the holes that the reserve covers. The figure rises
/// slowly, because such memory is usually free again soon: spans that are evicted leave holes until
/// these are trimmed, and holes that deltas leave are filled again. Small holes count at once: rows
/// that have left such holes still take that memory until other rows have moved together.
fn note_others(core: &Core, log: &Log, caches: &Caches, kept: u64) -> u64 {
    let max = memory_shares::cache_bytes(core, log);
    let holes = memory_shares::holes_bytes(core, log).min(max / 4);
    // Relaxed: only upkeep writes it.
    let before = caches.no_munks_bytes.load(Ordering::Relaxed);
    let small_holes = memory_shares::small_holes_bytes(core, log);
    let others = others_after(before, kept + holes, small_holes, max);
    caches.no_munks_bytes.store(others, Ordering::Relaxed);
    others
}

/// The bytes that count as memory of others in this round: `before` counted in the last round,
/// `now` is measured, and `small_holes` is the part of `now` that counts at once.
pub(crate) fn others_after(before: u64, now: u64, small_holes: u64, max: u64) -> u64 {
    now.min(before + max / OTHERS_STEP).max(small_holes)
}

/// About the bytes that the whole chunk takes in RAM.
fn ram_bytes(chunk: &Chunk, view: &View) -> u64 {
    match view.whole_munk() {
        Some(munk) => munk.bytes() as u64,
        None if view.funk.base.is_empty() => crate::rebalance::rewrite::data_bytes(view),
        None => crate::rebalance::jobs::live_bytes(chunk, view) * IMAGE_PERCENT / 100,
    }
}

/// Divides `bytes_max` between rows and spans by the accesses in `came`, those of this round. Rows
/// get at most `row_bytes_most`.
fn divide(
    core: &Core,
    log: &Log,
    caches: &Caches,
    came: &Counted,
    bytes_max: u64,
    row_bytes_most: u64,
) {
    let counts = caches.row_cache.as_ref().map(RowCache::counts);
    let counts = counts.unwrap_or_default();
    let row_bytes = counts.bytes.checked_div(counts.rows).unwrap_or(1024);
    caches
        .row_bytes_mean
        .store(row_bytes as u32, Ordering::Relaxed);
    let rows_max = bytes_max as f32 / row_bytes.max(1) as f32;
    let accesses = came.gets + REFILL_ACCESSES * came.scans;
    let ticks = caches.spans.advance(accesses, rows_max);
    // Counts of chunks decay with puts too, and with time.
    let all_ticks = ticks * (accesses + came.puts) / accesses.max(1.0);
    let left = left_after(all_ticks).min(HEAT_LEFT_MAX);
    caches.heat_left.store(left.to_bits(), Ordering::Relaxed);
    spans::note_price(caches);
    let full = !caches.spans.has_room();
    let sight = SpanSight {
        ticks,
        price: caches.spans.price(),
        refused: caches.spans.take_refused(),
        span_bytes: Sizes::of_chunk(core.options.chunk_bytes_max()).span_bytes as f32,
        full,
        gets_outside: came.gets_outside,
        accesses,
    };
    let edge = caches.sampler.take_edge();
    let plan = caches.split.lock().round(&counts, &edge, &sight, bytes_max);
    if let Some(rows) = &caches.row_cache {
        let row_bytes_max = plan.row_bytes_max.min(row_bytes_most);
        if row_bytes_max != counts.bytes_max {
            rows.set_capacity(row_bytes_max as usize);
            let holes = memory_shares::small_holes_bytes(core, log);
            caches.no_munks_bytes.fetch_max(holes, Ordering::Relaxed);
        }
        caches.sampler.round(plan.sampling, row_bytes, bytes_max);
    }
}

/// Makes room for what the next loads take. Where all chunks fit, none is kept free.
fn make_room_ahead(core: &Core, disk: &Disk, log: &Log, caches: &Caches, bytes_max: u64) {
    // Relaxed: only upkeep writes it.
    let ahead = match caches.all_fit.load(Ordering::Relaxed) {
        true => 0,
        false => ROOM_AHEAD.min(bytes_max / 64),
    };
    make_room(core, disk, log, caches, ahead, None);
}

/// Munks without any span: they only count, for chunks that are read. With one for each chunk of a
/// large database, they would take all memory.
#[derive(Default)]
struct Lists {
    chunks: Vec<Arc<Chunk>>,
    bytes: u64,
    heat: f32,
}

impl Lists {
    fn see(&mut self, chunk: &Arc<Chunk>, bytes: u64) {
        self.chunks.push(chunk.clone());
        self.bytes += bytes;
        self.heat += chunk.heat.reads();
    }

    /// Drops the munks of chunks that are read less than others, if all take more than their share;
    /// and sets how much a chunk must be read to get one.
    fn bound(&self, core: &Core, caches: &Caches) {
        let many = self.bytes > core.options.memory_budget / LISTS_SHARE;
        let mean = self.heat / self.chunks.len().max(1) as f32;
        let least = if many { mean } else { 0.0 };
        caches
            .list_heat_min
            .store(least.to_bits(), Ordering::Relaxed);
        if !many {
            return;
        }
        for chunk in self
            .chunks
            .iter()
            .filter(|chunk| chunk.heat.reads() <= mean)
        {
            if let Some(_token) = chunk.try_token()
                && !chunk.view.load_full().munk_holds_any()
            {
                evict_munk(core, chunk);
            }
        }
    }
}

/// Notes whether puts wait for reorganisation. Called once in each round.
fn note_pressure(core: &Core, caches: &Caches) {
    // Relaxed: only upkeep writes it.
    let pressed = caches.pressed_rounds.load(Ordering::Relaxed);
    let pressed = match pace::is_behind(core) {
        true => (pressed + 1).min(2 * PRESSED_ROUNDS),
        false => pressed.saturating_sub(1),
    };
    caches.pressed_rounds.store(pressed, Ordering::Relaxed);
}

/// Calls `see` for every chunk with its view; one pin serves some of them at a time.
fn each_chunk(catalog: &Catalog, see: &mut dyn FnMut(&Arc<Chunk>, &View)) {
    for keyspace in catalog.keyspaces() {
        let index = keyspace.index.load_full();
        let mut chunks = index.iter();
        loop {
            let pin = reclaim::pin();
            let mut seen = 0;
            for (_, chunk) in chunks.by_ref().take(PINNED_CHUNKS) {
                see(chunk, chunk.view.load(&pin).get());
                seen += 1;
            }
            if seen == 0 {
                break;
            }
        }
    }
}

/// The weight of a scan's refill, in gets: it reads several blocks.
const SCAN_WEIGHT: f32 = 4.0;
/// The part of a chunk's counts that is left after a round without accesses.
const HEAT_LEFT_MAX: f32 = 0.99;
/// The number of records whose absorption costs the same as one get from disk.
const ABSORBED_PER_READ: f32 = 8.0;
/// From this number of gets in a round on it is worth reading a log's keys again for its index.
/// [`RESTORES_MAX`] is the number of logs that are read at a time.
const RESTORE_GETS_MIN: f32 = 4.0;
const RESTORES_MAX: usize = 8;
/// The number of rounds after which munks are not spared any more. It is some five seconds, so
/// there is a whole checkpoint in it.
const PRESSED_ROUNDS: u32 = 24;
/// Memory of a chunk in RAM, in percent of its keys and values.
const IMAGE_PERCENT: u64 = 108;
/// Munks without any span may take one part in this number of the budget.
const LISTS_SHARE: u64 = 64;
/// All chunks count as fitting until they are too large by one part in this number.
const ALL_FIT_MARGIN: u64 = 64;
/// Rows are moved once holes that are too small to be given back take one part in this number of
/// the budget.
const SMALL_HOLES_SHARE: u64 = 64;
/// Rows that are looked at in a round. It takes some milliseconds if all of them move.
const ROWS_COMPACTED: usize = 8192;
/// Rounds without compaction after a pass that moved few rows.
const COMPACTION_PAUSE: u32 = 40;
/// The memory that is not the munks' grows in a round by at most one part in this number.
const OTHERS_STEP: u64 = 256;
/// Bytes of room for spans that are made before a load asks for them.
const ROOM_AHEAD: u64 = 1 << 20;
/// Chunks looked at under one pin.
const PINNED_CHUNKS: usize = 64;
/// The least time between two rounds is [`ROUND`], or [`ROUND_COST`] for each chunk if that is
/// longer: a round takes a microsecond or two for each chunk, so rounds take at most a tenth of a
/// thread.
const ROUND: Duration = Duration::from_millis(50);
const ROUND_COST: Duration = Duration::from_micros(20);
