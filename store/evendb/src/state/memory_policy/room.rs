//! Room for spans: how many bytes munks may have, which absent spans come in, which present ones
//! go, and which munks go as a whole.
//!
//! ```text
//! budget's rest (shares.rs) = | rows | munks that readers see | given up, not free yet | room |
//! a load:  lacking? --no--> note_taken, load           (rebalance/ram/spans.rs)
//!                   --yes-> evict the least dense of a sample, again and again; note_evicted
//! ```
//!
//! Thread safety: any thread. Two loads at once may both take the last room; the next round
//! corrects it. Not here: the worth of a span by its heat, and the price of a byte
//! (`division/spans.rs`).

use super::MemoryPolicy;
use super::division::spans::SAMPLED;
use crate::chunk::{Chunk, Heat};
use crate::munk::Munk;
use crate::munk::heat::Worth;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Arc, Weak};

/// Memory counts as free if one part in this number of it is free.
const ROOM_PART: u64 = 16;
/// The number of rounds after which munks are not spared any more. It is some five seconds, so
/// there is a whole checkpoint in it.
pub(super) const PRESSED_ROUNDS: u32 = 24;
/// The weight of a scan's refill, in gets: it reads several blocks.
const SCAN_WEIGHT: f32 = 4.0;
/// The number of records whose absorption costs the same as one get from disk.
const ABSORBED_PER_READ: f32 = 8.0;

/// Chunks that had spans in RAM at the last round.
#[derive(Default)]
pub(super) struct Residents {
    pub(super) chunks: Vec<Weak<Chunk>>,
    /// The state of a xorshift generator, for choosing among the chunks.
    random: u64,
}

impl Residents {
    /// The next random number.
    fn random(&mut self) -> u64 {
        let mut word = self.random.max(1);
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        self.random = word;
        word
    }

    /// A random one of the chunks, if it still exists.
    fn any(&mut self) -> Option<Arc<Chunk>> {
        let random = self.random();
        let index = (random >> 32) as usize % self.chunks.len().max(1);
        self.chunks.get(index)?.upgrade()
    }
}

/// A span in RAM, and the worth of a byte of it.
pub(crate) struct Resident {
    pub(crate) chunk: Arc<Chunk>,
    pub(crate) span: usize,
    pub(crate) bytes: usize,
    density: f32,
}

/// Bytes.
impl MemoryPolicy {
    /// The bytes that munks may take now: the memory of munks and rows without the rows' part.
    pub(super) fn munk_bytes_max(&self) -> u64 {
        self.cache_bytes().saturating_sub(self.row_bytes())
    }

    /// The bytes that are lacking to have `bytes` free.
    fn lacking(&self, bytes: u64) -> u64 {
        // Relaxed: rounds correct it.
        let others = self.no_munks_bytes.load(Ordering::Relaxed);
        let taken = self.munk_bytes.load(Ordering::Relaxed) + others + bytes;
        taken.saturating_sub(self.munk_bytes_max())
    }

    /// The bytes that must be evicted so that `bytes` of spans have room. Notes whether there is
    /// memory that nothing uses.
    pub(crate) fn look_for_room(&self, bytes: u64) -> u64 {
        let lacks = self.lacking(bytes);
        // The room that a round keeps ahead, and the surplus of an eviction, are not room for any
        // load.
        let much = self.munk_bytes_max() / ROOM_PART;
        if lacks > 0 || self.lacking(bytes + much) == 0 {
            self.spans.set_room(lacks == 0);
        }
        lacks
    }

    /// Takes room for `bytes` of spans if these are free, and returns whether they are.
    pub(crate) fn take_free_room(&self, bytes: u64) -> bool {
        let is_free = self.lacking(bytes) == 0;
        if is_free {
            self.note_taken(bytes);
        }
        is_free
    }

    /// Notes that a load is going to take `bytes` for spans.
    pub(crate) fn note_taken(&self, bytes: u64) {
        self.munk_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that spans of `bytes` bytes were evicted; they may not be reclaimed yet.
    pub(crate) fn note_evicted(&self, bytes: u64) {
        let before = self.munk_bytes.load(Ordering::Relaxed);
        let left = before.saturating_sub(bytes);
        self.munk_bytes.store(left, Ordering::Relaxed);
    }
}

/// Spans and munks.
impl MemoryPolicy {
    /// The worth of a span of `bytes` bytes beside rows.
    pub(super) fn worth_of(&self, worth: Worth, bytes: usize) -> f32 {
        let row_bytes = self.row_bytes_mean.load(Ordering::Relaxed) as usize;
        self.spans.worth(worth, bytes, row_bytes)
    }

    /// The absent spans of a munk that should come in, ascending, at most `spans_max` unless all
    /// chunks fit; and whether there are more.
    pub(crate) fn wanted_spans(&self, munk: &Munk, spans_max: usize) -> (Vec<usize>, bool) {
        let tick = self.spans.tick();
        if self.all_fit() {
            return (munk.wanted(tick, |_| true), false);
        }
        let bytes = munk.span_bytes();
        let wants = |worth: Worth| {
            let worth = self.worth_of(worth, bytes);
            worth > 0.0 && self.spans.wants(worth, bytes as u64)
        };
        let mut wanted = munk.wanted(tick, wants);
        let more = wanted.len() > spans_max;
        wanted.truncate(spans_max);
        (wanted, more)
    }

    /// The least dense of [`SAMPLED`] spans in RAM: the one that goes if room is needed.
    pub(crate) fn least_dense(&self) -> Option<Resident> {
        let tick = self.spans.tick();
        let mut least: Option<Resident> = None;
        let mut residents = self.residents.lock();
        for _ in 0..SAMPLED {
            let Some(chunk) = residents.any() else {
                continue;
            };
            let random = residents.random();
            let munk = chunk.view.load_full().munk.clone();
            let any = munk.and_then(|munk| munk.any_span(random, tick));
            let Some((span, worth, bytes)) = any else {
                continue;
            };
            let density = self.worth_of(worth, bytes) / bytes.max(1) as f32;
            if least.as_ref().is_none_or(|least| density < least.density) {
                least = Some(Resident {
                    chunk,
                    span,
                    bytes,
                    density,
                });
            }
        }
        least
    }

    /// Notes the price of a byte: this span was the least dense, and went, or was only looked at.
    pub(crate) fn note_least(&self, least: &Resident) {
        self.spans.note_least(least.density);
    }

    /// Whether the chunk's munk should go instead of taking in durable deltas. It should if three
    /// things hold: puts are about to wait for the deltas' memory, the chunk is hardly read, and
    /// munks need not be spared (decision 0033).
    pub(crate) fn should_go(&self, chunk: &Chunk) -> bool {
        !self.spares_munks() && self.admission.is_behind() && is_mostly_written(chunk)
    }

    /// Whether hardly read munks stay although puts wait: the munks of two chunks in three fit in
    /// memory, and puts have not waited for long. After a short burst of puts the munks are still
    /// there for the next reads.
    fn spares_munks(&self) -> bool {
        // Relaxed: one munk more or less does no harm.
        self.most_fit.load(Ordering::Relaxed)
            && self.pressed_rounds.load(Ordering::Relaxed) < PRESSED_ROUNDS
    }
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
