//! The round: notes what all chunks count and would take, divides memory between munks and rows,
//! and gives rows their room.
//!
//! ```text
//! begin_round --> Seen --see, for each chunk--> note_seen --> munks without spans that go
//!                                               plan_round -> bytes of room for spans to make
//!                                               compact_rows
//! ```
//!
//! Thread safety: one thread at a time makes a round, upkeep or the put that does its work. The
//! figures that it sets are read by any thread. Not here: who looks at the chunks and evicts
//! ([`crate::rebalance::tending`]); the division by rows' and spans' worth (`division/split.rs`).

use super::MemoryPolicy;
use super::division::spans::REFILL_ACCESSES;
use super::division::split::SpanSight;
use super::room::PRESSED_ROUNDS;
use super::row::{Compaction, RowCache};
use crate::chunk::{Chunk, Counted, View};
use crate::memory::{Use, slab};
use crate::munk::Sizes;
use crate::munk::heat::left_after;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Weak};
use std::time::Duration;

/// The part of a chunk's counts that is left after a round without accesses.
const HEAT_LEFT_MAX: f32 = 0.99;
/// From this number of gets in a round on it is worth reading a log's keys again for its index.
/// [`RESTORES_MAX`] is the number of logs that are read at a time.
const RESTORE_GETS_MIN: f32 = 4.0;
const RESTORES_MAX: usize = 8;
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
/// The least time between two rounds is [`ROUND`], or [`ROUND_COST`] for each chunk if that is
/// longer: a round takes a microsecond or two for each chunk, so rounds take at most a tenth of a
/// thread.
const ROUND: Duration = Duration::from_millis(50);
const ROUND_COST: Duration = Duration::from_micros(20);

/// The progress of moving rows together.
#[derive(Default)]
pub(super) struct RowCompaction {
    at: Compaction,
    /// Whether a pass has begun.
    goes_on: bool,
    /// The number of rounds until the next pass may begin.
    pause: u32,
}

/// What a round sees of all chunks.
pub(crate) struct Seen {
    /// The factor by which their decayed counts are multiplied.
    heat_left: f32,
    /// The number of logs whose index may still be read again.
    restores: usize,
    chunks: u32,
    /// Bytes of the munks that readers see, and of all chunks if all were whole in RAM.
    munks: u64,
    all: u64,
    came: Counted,
    residents: Vec<Weak<Chunk>>,
    lists: Lists,
}

impl Seen {
    /// Sees a chunk with its view, and takes the chunk's counters; whole in RAM it would take about
    /// `whole_bytes`. Returns whether it is worth reading the keys of its log again, so that a
    /// filter becomes an index; if they are read, the caller says [`Seen::restored`].
    pub(crate) fn see(&mut self, chunk: &Arc<Chunk>, view: &View, whole_bytes: u64) -> bool {
        let counted = chunk.heat.fold(self.heat_left);
        self.came = self.came.and(counted);
        self.chunks += 1;
        self.all += whole_bytes;
        if let Some(munk) = &view.munk {
            let bytes = munk.bytes() as u64;
            self.munks += bytes;
            match munk.holds_any() {
                true => self.residents.push(Arc::downgrade(chunk)),
                false => self.lists.see(chunk, bytes),
            }
        }
        self.restores > 0 && view.whole_munk().is_none() && counted.gets >= RESTORE_GETS_MIN
    }

    /// Notes that the index of a log was read again.
    pub(crate) fn restored(&mut self) {
        self.restores -= 1;
    }
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
}

impl MemoryPolicy {
    /// Whether a round is due, at this time after the last one. With more chunks rounds are rarer,
    /// so that their cost is bounded; when too much is in RAM one is due soon.
    pub(crate) fn is_round_due(&self, since: Duration) -> bool {
        // Relaxed: only rounds write it.
        let chunks = self.round_chunks.load(Ordering::Relaxed);
        since >= ROUND.max(ROUND_COST * chunks)
            || (since >= ROUND && self.ledger.bytes(Use::Munks) > self.munk_bytes_max())
    }

    /// Begins a round, which has seen no chunk yet.
    pub(crate) fn begin_round(&self) -> Seen {
        Seen {
            // Relaxed: only rounds write it.
            heat_left: f32::from_bits(self.heat_left.load(Ordering::Relaxed)),
            restores: match self.searches_have_room() {
                true => RESTORES_MAX,
                false => 0,
            },
            chunks: 0,
            munks: 0,
            all: 0,
            came: Counted::default(),
            residents: Vec::new(),
            lists: Lists::default(),
        }
    }

    /// Notes what the round has seen. Returns the chunks whose munks, which have no span, should
    /// go: if such munks take more than their share, those of chunks that are read less than
    /// others.
    pub(crate) fn note_seen(&self, seen: &mut Seen) -> Vec<Arc<Chunk>> {
        self.munk_bytes.store(seen.munks, Ordering::Relaxed);
        self.round_chunks.store(seen.chunks, Ordering::Relaxed);
        self.residents.lock().chunks = std::mem::take(&mut seen.residents);
        let mut lists = std::mem::take(&mut seen.lists);
        let many = lists.bytes > self.limits.budget() / LISTS_SHARE;
        let mean = lists.heat / lists.chunks.len().max(1) as f32;
        let least = if many { mean } else { 0.0 };
        self.list_heat_min.store(least.to_bits(), Ordering::Relaxed);
        match many {
            true => lists.chunks.retain(|chunk| chunk.heat.reads() <= mean),
            false => lists.chunks.clear(),
        }
        lists.chunks
    }

    /// Divides memory between munks and rows by what the round has seen, and gives rows their room.
    /// Returns the bytes of room that should be made for the next loads of spans.
    pub(crate) fn plan_round(&self, seen: &Seen) -> u64 {
        self.note_pressure();
        // Pages that are not reclaimed yet, or that users' values keep.
        let kept = self.ledger.bytes(Use::Munks).saturating_sub(seen.munks);
        self.note_kept_pages(kept);
        let bytes_max = self.cache_bytes().saturating_sub(self.sampler.bytes());
        let bytes_max = bytes_max.saturating_sub(self.note_others(kept));
        // If all chunks fit into munks, rows get the memory that these leave.
        let row_bytes_most = match self.note_fit(seen.all, bytes_max) {
            true => bytes_max.saturating_sub(seen.all),
            false => bytes_max,
        };
        self.divide(&seen.came, bytes_max, row_bytes_most);
        // Where all chunks fit, no room is kept free.
        match self.all_fit() {
            true => 0,
            false => ROOM_AHEAD.min(bytes_max / 64),
        }
    }

    /// Notes whether puts wait for reorganisation. Called once in each round.
    pub(crate) fn note_pressure(&self) {
        // Relaxed: only rounds write it.
        let pressed = self.pressed_rounds.load(Ordering::Relaxed);
        let pressed = match self.admission.is_behind() {
            true => (pressed + 1).min(2 * PRESSED_ROUNDS),
            false => pressed.saturating_sub(1),
        };
        self.pressed_rounds.store(pressed, Ordering::Relaxed);
    }

    /// Notes how much of the munks' memory is not used by munks: pages that are not reclaimed yet
    /// or that users keep, and holes of slabs beyond the holes that the reserve covers. The figure
    /// rises slowly, because such memory is usually free again soon: spans that are evicted leave
    /// holes until these are trimmed, and holes that deltas leave are filled again. Small holes
    /// count at once: rows that have left such holes still take that memory until other rows have
    /// moved together.
    fn note_others(&self, kept: u64) -> u64 {
        let max = self.cache_bytes();
        let holes = self.holes_bytes().min(max / 4);
        // Relaxed: only rounds write it.
        let before = self.no_munks_bytes.load(Ordering::Relaxed);
        let small_holes = self.small_holes_bytes();
        let others = others_after(before, kept + holes, small_holes, max);
        self.no_munks_bytes.store(others, Ordering::Relaxed);
        others
    }

    /// Notes whether most chunks, and all of them, fit into munks of `bytes_max` bytes; `all` bytes
    /// is what all would take. Returns whether all fit.
    pub(crate) fn note_fit(&self, all: u64, bytes_max: u64) -> bool {
        self.most_fit
            .store(all / 3 * 2 <= bytes_max, Ordering::Relaxed);
        // Chunks that barely fit may be a little larger the next moment; then a small part of them
        // is not in RAM.
        let most = match self.all_fit() {
            true => bytes_max + bytes_max / ALL_FIT_MARGIN,
            false => bytes_max,
        };
        let all_fit = self.has_munks && all <= most;
        self.all_fit.store(all_fit, Ordering::Relaxed);
        all_fit
    }

    /// Divides `bytes_max` between rows and spans by the accesses in `came`, those of this round.
    /// Rows get at most `row_bytes_most`.
    fn divide(&self, came: &Counted, bytes_max: u64, row_bytes_most: u64) {
        let counts = self.row_cache.as_ref().map(RowCache::counts);
        let counts = counts.unwrap_or_default();
        let row_bytes = counts.bytes.checked_div(counts.rows).unwrap_or(1024);
        self.row_bytes_mean
            .store(row_bytes as u32, Ordering::Relaxed);
        let rows_max = bytes_max as f32 / row_bytes.max(1) as f32;
        let accesses = came.gets + REFILL_ACCESSES * came.scans;
        let ticks = self.spans.advance(accesses, rows_max);
        // Counts of chunks decay with puts too, and with time.
        let all_ticks = ticks * (accesses + came.puts) / accesses.max(1.0);
        let left = left_after(all_ticks).min(HEAT_LEFT_MAX);
        self.heat_left.store(left.to_bits(), Ordering::Relaxed);
        // The price stays fresh when nothing is evicted.
        if let Some(least) = self.least_dense() {
            self.note_least(&least);
        }
        let full = !self.has_room();
        let sight = SpanSight {
            ticks,
            price: self.spans.price(),
            refused: self.spans.take_refused(),
            span_bytes: Sizes::of_chunk(self.chunk_bytes_max).span_bytes as f32,
            full,
            gets_outside: came.gets_outside,
            accesses,
        };
        let edge = self.sampler.take_edge();
        let plan = self.split.lock().round(&counts, &edge, &sight, bytes_max);
        if let Some(rows) = &self.row_cache {
            let row_bytes_max = plan.row_bytes_max.min(row_bytes_most);
            if row_bytes_max != counts.bytes_max {
                rows.set_capacity(row_bytes_max as usize);
                let holes = self.small_holes_bytes();
                self.no_munks_bytes.fetch_max(holes, Ordering::Relaxed);
            }
            self.sampler.round(plan.sampling, row_bytes, bytes_max);
        }
    }

    /// Moves rows together, a part of them in each round, if small holes take much memory. Other
    /// objects than rows leave such holes too, and fill them again: after a pass that moved few
    /// rows the next one waits.
    pub(crate) fn compact_rows(&self) {
        let Some(rows) = &self.row_cache else {
            return;
        };
        let mut compaction = self.row_compaction.lock();
        if !compaction.goes_on {
            compaction.pause = compaction.pause.saturating_sub(1);
            let much = self.limits.usual_budget() / SMALL_HOLES_SHARE;
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
}

/// The bytes that count as memory of others in this round: `before` counted in the last round,
/// `now` is measured, and `small_holes` is the part of `now` that counts at once.
fn others_after(before: u64, now: u64, small_holes: u64, max: u64) -> u64 {
    now.min(before + max / OTHERS_STEP).max(small_holes)
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_given_up_counts_little_by_little_and_small_holes_at_once() {
        let max = 1 << 20;
        let step = others_after(0, max, 0, max);
        assert!(
            step > 0 && step <= max / 100,
            "it may be reclaimed the next moment"
        );
        let mut others = 0;
        let rounds = (0..1000).find(|_| {
            others = others_after(others, max / 2, 0, max);
            others == max / 2
        });
        assert!(rounds.is_some_and(|rounds| rounds > 50), "{rounds:?}");
        assert_eq!(others_after(others, 7, 0, max), 7, "what came back");
        assert_eq!(others_after(0, max, max / 2, max), max / 2);
    }
}
