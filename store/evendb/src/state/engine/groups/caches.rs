//! The caches in RAM beside the chunks: the row cache, and the policy by which munks and rows share
//! memory.
//!
//! Thread safety: any thread; each part has its own rules. Not here: which munk goes
//! ([`crate::rebalance::munks`]).

use crate::cache::row::{Compaction, RowCache};
use crate::cache::sample::Sampler;
use crate::cache::spans::SpanPolicy;
use crate::cache::split::Split;
use crate::cache::warmth::HotSpan;
use crate::chunk::Chunk;
use crate::funk::SearchSettings;
use crate::options::Options;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use crate::sync::{Arc, Mutex, Weak};
use std::time::Instant;

/// See the module.
pub(crate) struct Caches {
    pub(crate) row_cache: Option<RowCache>,
    /// The progress of moving the row cache's rows together; held by the policy's round.
    pub(crate) row_compaction: Mutex<RowCompaction>,
    pub(crate) sampler: Sampler,
    /// The split of memory between munks and rows; held by the policy's round.
    pub(crate) split: Mutex<Split>,
    /// Decides which spans are in RAM.
    pub(crate) spans: SpanPolicy,
    /// Chunks that had spans in RAM at the last round: spans that may go are looked for here.
    pub(crate) residents: Mutex<Residents>,
    pub(crate) warming: Mutex<Warming>,
    /// The least reads of a chunk, as an `f32`'s bits, for which it gets a munk that counts reads
    /// of its spans.
    pub(crate) list_heat_min: AtomicU32,
    /// The average bytes of a row, approximately.
    pub(crate) row_bytes_mean: AtomicU32,
    pub(crate) search_settings: SearchSettings,
    /// The number of chunks that the last munk round saw.
    pub(crate) round_chunks: AtomicU32,
    /// There is room for the munks of two chunks in three. Each round of the memory policy sets it.
    pub(crate) most_fit: AtomicBool,
    /// There is room for all chunks whole.
    pub(crate) all_fit: AtomicBool,
    /// Bytes of the munks that readers see: as the last round found it, adjusted by later loads and
    /// evictions.
    pub(crate) munk_bytes: AtomicU64,
    /// Bytes that munks have given up and that are not free yet, as far as the policy counts them.
    pub(crate) no_munks_bytes: AtomicU64,
    /// The factor by which the next round multiplies chunks' decayed counts, as an `f32`'s bits.
    pub(crate) heat_left: AtomicU32,
    /// Rounds of the memory policy in which puts waited for reorganisation, minus rounds in which
    /// they did not, within bounds. It tells for how long puts have been too many for
    /// reorganisation.
    pub(crate) pressed_rounds: AtomicU32,
    /// Users' values hold much of the memory that munks have given up, so users get copies for now.
    pub(crate) copies_values: AtomicBool,
}

/// See [`Caches::row_compaction`].
#[derive(Default)]
pub(crate) struct RowCompaction {
    pub(crate) at: Compaction,
    /// Whether a pass has begun.
    pub(crate) goes_on: bool,
    /// The number of rounds until the next pass may begin.
    pub(crate) pause: u32,
}

/// The progress of warm reopening.
pub(crate) enum Warming {
    /// No thread has looked for the spans of the last life.
    Untried,
    /// One thread reads the list of the last life's spans.
    Reading,
    /// Spans that are still to be loaded; the next one is the last in the list.
    Loading { plan: Vec<HotSpan> },
    /// Nothing is left to load. `saved` is the time of the last look at the file, or of its last
    /// write.
    Done { saved: Instant },
}

/// See [`Caches::residents`].
#[derive(Default)]
pub(crate) struct Residents {
    pub(crate) chunks: Vec<Weak<Chunk>>,
    /// The state of a xorshift generator, for choosing among the chunks.
    random: u64,
}

impl Residents {
    /// The next random number.
    pub(crate) fn random(&mut self) -> u64 {
        let mut word = self.random.max(1);
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        self.random = word;
        word
    }

    /// A random one of the chunks, if it still exists.
    pub(crate) fn any(&mut self) -> Option<Arc<Chunk>> {
        let random = self.random();
        let index = (random >> 32) as usize % self.chunks.len().max(1);
        self.chunks.get(index)?.upgrade()
    }
}

impl Caches {
    /// Empty caches.
    pub(crate) fn new(options: &Options, search_settings: SearchSettings) -> Caches {
        let row_cache = options.advanced.row_cache.then(|| {
            RowCache::with_policy(
                (options.memory_budget / 10) as usize,
                options.advanced.row_policy,
            )
        });
        Caches {
            row_cache,
            row_compaction: Mutex::default(),
            sampler: Sampler::new(options.memory_budget),
            split: Mutex::new(Split::new(options.row_share())),
            spans: SpanPolicy::new(options.advanced.munk_policy),
            residents: Mutex::default(),
            warming: Mutex::new(Warming::Untried),
            list_heat_min: AtomicU32::new(0),
            row_bytes_mean: AtomicU32::new(1024),
            search_settings,
            round_chunks: AtomicU32::new(0),
            most_fit: AtomicBool::new(true),
            all_fit: AtomicBool::new(false),
            munk_bytes: AtomicU64::new(0),
            no_munks_bytes: AtomicU64::new(0),
            heat_left: AtomicU32::new(1.0f32.to_bits()),
            pressed_rounds: AtomicU32::new(0),
            copies_values: AtomicBool::new(false),
        }
    }

    /// Ends the loading of spans of the last life.
    pub(crate) fn give_up_warming(&self) {
        *self.warming.lock() = Warming::Done {
            saved: Instant::now(),
        };
        self.spans.set_warming(false);
    }

    /// The number of spans of the last life that are still to be loaded.
    pub(crate) fn spans_to_warm(&self) -> u64 {
        match &*self.warming.lock() {
            Warming::Loading { plan } => plan.len() as u64,
            Warming::Untried | Warming::Reading | Warming::Done { .. } => 0,
        }
    }

    /// Bytes of rows in the row cache.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.row_cache
            .as_ref()
            .map_or(0, |rows| rows.bytes() as u64)
    }
}
