//! What lies in RAM beside the chunks: the row cache, and what decides how munks and rows share
//! memory.
//!
//! Thread safety: any; each part says its own. Not here: which munk goes ([`crate::rebalance::munks`]).

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
    /// How far its rows were moved together; the policy's round has it.
    pub(crate) row_compaction: Mutex<RowCompaction>,
    pub(crate) sampler: Sampler,
    /// How munks and rows share memory; the policy's round has it.
    pub(crate) split: Mutex<Split>,
    /// Which spans are in RAM.
    pub(crate) spans: SpanPolicy,
    /// Chunks some of whose spans are in RAM, as the last round found them: spans that may go are looked for here.
    pub(crate) residents: Mutex<Residents>,
    pub(crate) warming: Mutex<Warming>,
    /// How much a chunk must be read, as an `f32`'s bits, to get a munk in which its spans are counted.
    pub(crate) list_heat_min: AtomicU32,
    /// What a row takes, about.
    pub(crate) row_bytes_mean: AtomicU32,
    pub(crate) search_settings: SearchSettings,
    /// Chunks that the last munk round saw.
    pub(crate) round_chunks: AtomicU32,
    /// There is room for the munks of two chunks in three. Found in each round of the memory policy.
    pub(crate) most_fit: AtomicBool,
    /// There is room for all of every chunk.
    pub(crate) all_fit: AtomicBool,
    /// Memory of the munks that readers see: as the last round found it, and what was loaded and evicted since.
    pub(crate) munk_bytes: AtomicU64,
    /// Memory that munks have given up and that is not free, as far as it counts.
    pub(crate) no_munks_bytes: AtomicU64,
    /// The part of chunks' decayed counts that the next round leaves, as an `f32`'s bits.
    pub(crate) heat_left: AtomicU32,
    /// Rounds of the memory policy in which puts waited for reorganisation, less those in which none did, within
    /// bounds: how long puts have been more than it keeps up with.
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
    /// Rounds until the next may begin.
    pub(crate) pause: u32,
}

/// How far warm reopening is.
pub(crate) enum Warming {
    /// Nobody has looked for what the last life left.
    Untried,
    /// One thread reads what the last life left.
    Reading,
    /// Spans that are still to be loaded, the next one last.
    Loading { plan: Vec<HotSpan> },
    /// Nothing is left to load; when it was last looked or written.
    Done { saved: Instant },
}

/// See [`Caches::residents`].
#[derive(Default)]
pub(crate) struct Residents {
    pub(crate) chunks: Vec<Weak<Chunk>>,
    /// For choosing among them: a xorshift's state.
    random: u64,
}

impl Residents {
    /// Another random number.
    pub(crate) fn random(&mut self) -> u64 {
        let mut word = self.random.max(1);
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        self.random = word;
        word
    }

    /// One of the chunks, if it is still there.
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

    /// No more spans of the last life are loaded.
    pub(crate) fn give_up_warming(&self) {
        *self.warming.lock() = Warming::Done {
            saved: Instant::now(),
        };
        self.spans.set_warming(false);
    }

    /// Spans of the last life that are still to be loaded.
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
