//! The memory policy: which spans and rows of the chunks on disk are in RAM, and how much of the
//! memory budget each use may have.
//!
//! ```text
//! note                              decide                             apply
//! a hit, a miss, a refill           which span comes, which goes       load, evict, absorb
//!   calls/read --> notes.rs           room.rs, division/spans.rs         rebalance/ram: spans...
//! a row found, filled, changed      rows' room beside spans            the round; searches, tables
//!   read, checkpoint --> notes.rs     round.rs, division/split.rs        rebalance/ram/tending.rs
//! counts of all chunks              bytes of each use, runs of a log   merges of runs
//!   the round --> round.rs            shares.rs, log_runs.rs             rebalance: log_merge.rs
//! bytes loaded, bytes evicted       what comes back after opening      loads, the file HEAT
//!   rebalance/ram --> room.rs         warming/mod.rs                     rebalance/ram/warm.rs
//! ```
//!
//! A **note** changes figures of the policy, or the heat of a chunk or span. A **decision** is made
//! from these figures and from what is charged now: the ledger, the admission of puts and the
//! commit log's ring, which the policy can ask itself. Calls and jobs **apply** decisions: they
//! change chunks, and note what came of it.
//!
//! Invariants: the fields are private to this folder, so every note and every decision is a method
//! here. No view of a chunk changes here. The policy owns the row cache: a round that gives rows
//! less room removes some at once. All other room is a target, to which jobs come down.
//!
//! Thread safety: any thread. The atomics are relaxed and order no other data; a decision may mix
//! figures of different moments, and the next round corrects it. The mutexes are leaves, held for
//! memory only. One thread at a time makes a round. A get that is answered from RAM takes no lock
//! here and makes no allocation; one that asks for a row tries one lock.
//!
//! Not here: what is charged ([`crate::memory`]); loading, evicting and absorbing
//! ([`crate::rebalance`]); which tables are closed ([`crate::tables`]); how puts wait
//! ([`crate::admission`]).

mod division;
mod log_runs;
mod notes;
mod room;
mod round;
pub(crate) mod row;
mod shares;
pub(crate) mod warming;

pub(crate) use log_runs::RUNS_USUAL;
pub(crate) use room::is_mostly_written;

use crate::admission::Admission;
use crate::commit_log::CommitLog;
use crate::memory::Ledger;
use crate::memory::shared::Member;
use crate::options::Options;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex};
use division::sample::Sampler;
use division::spans::SpanPolicy;
use division::split::Split;
use room::Residents;
use round::RowCompaction;
use row::RowCache;
use shares::MemoryLimits;
use warming::Warming;

/// See the module.
pub(crate) struct MemoryPolicy {
    limits: MemoryLimits,
    /// Options that it needs: the largest chunk, the longest value of a row, both in bytes, and
    /// whether spans are loaded at all.
    chunk_bytes_max: u64,
    row_bytes_max: usize,
    has_munks: bool,
    ledger: Ledger,
    admission: Arc<Admission>,
    /// The commit log if it is mapped: while nobody puts, its memory is lent.
    ring: Option<Arc<CommitLog>>,

    row_cache: Option<RowCache>,
    /// The progress of moving the row cache's rows together; held by the round.
    row_compaction: Mutex<RowCompaction>,
    sampler: Sampler,
    /// The split of memory between munks and rows; held by the round.
    split: Mutex<Split>,
    /// The average bytes of a row, approximately.
    row_bytes_mean: AtomicU32,

    /// Decides which spans are in RAM.
    spans: SpanPolicy,
    /// Chunks that had spans in RAM at the last round: spans that may go are looked for here.
    residents: Mutex<Residents>,
    warming: Mutex<Warming>,
    /// A chunk with at least this many reads gets a munk without images, which only counts. The
    /// bits of an `f32`.
    list_heat_min: AtomicU32,
    /// There is room for the munks of two chunks in three. Each round sets it.
    most_fit: AtomicBool,
    /// There is room for all chunks whole.
    all_fit: AtomicBool,
    /// Bytes of the munks that readers see: as the last round found it, adjusted by later loads and
    /// evictions.
    munk_bytes: AtomicU64,
    /// Memory that munks have given up and nobody else can use yet: pages that users keep, holes of
    /// slabs. It rises slowly (`round.rs`).
    no_munks_bytes: AtomicU64,
    /// Users' values hold much of the memory that munks have given up, so users get copies for now.
    copies_values: AtomicBool,

    /// The number of chunks that the last round saw.
    round_chunks: AtomicU32,
    /// The factor by which the next round multiplies chunks' decayed counts, as an `f32`'s bits.
    heat_left: AtomicU32,
    /// Up by one in each round in which puts waited for reorganisation, down by one in each other,
    /// within bounds. A large number means that reorganisation has long been too slow.
    pressed_rounds: AtomicU32,
}

impl MemoryPolicy {
    /// The policy of a database that has just been opened: nothing is in RAM. `ring` is its commit
    /// log, if it writes one.
    pub(crate) fn new(
        options: &Options,
        ledger: Ledger,
        admission: Arc<Admission>,
        ring: Option<Arc<CommitLog>>,
    ) -> MemoryPolicy {
        let ring = ring.filter(|ring| ring.is_mapped());
        // A part of a shared budget has room for rows from the first round on.
        let (row_bytes, sampled) = match options.member() {
            Some(_) => (0, options.memory_budget / 8),
            None => (options.memory_budget / 10, options.memory_budget),
        };
        let row_cache = options
            .advanced
            .row_cache
            .then(|| RowCache::with_policy(row_bytes as usize, options.advanced.row_policy));
        MemoryPolicy {
            limits: MemoryLimits::of(options, ring.as_ref().map_or(0, |ring| ring.capacity)),
            chunk_bytes_max: options.chunk_bytes_max(),
            row_bytes_max: options.row_bytes_max(),
            has_munks: options.advanced.munks,
            ledger,
            admission,
            ring,
            row_cache,
            row_compaction: Mutex::default(),
            sampler: Sampler::new(sampled),
            split: Mutex::new(Split::new(options.row_share())),
            row_bytes_mean: AtomicU32::new(1024),
            spans: SpanPolicy::new(options.advanced.munk_policy),
            residents: Mutex::default(),
            warming: Mutex::new(Warming::Untried),
            list_heat_min: AtomicU32::new(0),
            most_fit: AtomicBool::new(true),
            all_fit: AtomicBool::new(false),
            munk_bytes: AtomicU64::new(0),
            no_munks_bytes: AtomicU64::new(0),
            copies_values: AtomicBool::new(false),
            round_chunks: AtomicU32::new(0),
            heat_left: AtomicU32::new(1.0f32.to_bits()),
            pressed_rounds: AtomicU32::new(0),
        }
    }

    /// The place in a shared budget, if the database has one.
    pub(crate) fn member(&self) -> Option<&Arc<Member>> {
        self.limits.member.as_ref()
    }

    /// The bytes that the database may have now: its budget, or its part of a shared one.
    pub(crate) fn budget(&self) -> u64 {
        self.limits.budget()
    }

    /// The tick that touches of a span's heat are given.
    #[inline]
    pub(crate) fn tick(&self) -> u16 {
        self.spans.tick()
    }

    /// Bytes of rows in the row cache.
    pub(crate) fn row_bytes(&self) -> u64 {
        let rows = self.row_cache.as_ref();
        rows.map_or(0, |rows| rows.bytes() as u64)
    }

    /// Whether there is memory for every span that is read.
    pub(crate) fn has_room(&self) -> bool {
        self.spans.has_room()
    }

    /// Whether all chunks fit into RAM whole, as the last round found it.
    pub(crate) fn all_fit(&self) -> bool {
        // Relaxed: a hint.
        self.all_fit.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::memory::{Charge, LedgerOwner, Use};

    const BUDGET: u64 = 64 << 20;

    /// The policy of a database without a commit log; its memory is charged while the owner lives.
    fn policy() -> (MemoryPolicy, LedgerOwner) {
        let options = Options::new().memory_budget(BUDGET);
        let owner = LedgerOwner::take();
        let admission = Arc::new(Admission::new(0, options.delta_bytes_max()));
        let policy = MemoryPolicy::new(&options, owner.ledger(), admission, None);
        (policy, owner)
    }

    #[test]
    fn room_for_spans_is_taken_by_loads_and_given_by_evictions() {
        let (policy, owner) = policy();
        let most = policy.cache_bytes();
        assert_eq!(policy.look_for_room(most / 2), 0);
        assert!(policy.has_room());
        assert!(policy.take_free_room(most));
        assert!(!policy.take_free_room(1), "all of it is taken");
        assert_eq!(policy.look_for_room(7), 7);
        assert!(!policy.has_room());
        policy.note_evicted(5);
        assert_eq!(policy.look_for_room(7), 2);
        policy.note_taken(2);
        assert_eq!(policy.look_for_room(7), 4);
        // What other uses take is taken from spans.
        let _tables = Charge::new(owner.ledger(), Use::Tables, 100);
        assert_eq!(policy.look_for_room(7), 104);
        assert!(!policy.has_room());
        policy.note_evicted(most);
        assert_eq!(policy.look_for_room(7), 0);
        assert!(policy.has_room());
    }

    #[test]
    fn a_little_room_is_not_room_for_any_span() {
        let (policy, _owner) = policy();
        let most = policy.cache_bytes();
        assert!(policy.take_free_room(most - 10));
        assert_eq!(policy.look_for_room(20), 10);
        assert_eq!(policy.look_for_room(10), 0);
        assert!(
            !policy.has_room(),
            "what is free now is the surplus of an eviction"
        );
    }

    #[test]
    fn chunks_that_barely_fit_go_on_to_fit_until_they_are_clearly_too_large() {
        let (policy, _owner) = policy();
        assert!(!policy.note_fit(1001, 1000));
        assert!(policy.note_fit(1000, 1000) && policy.all_fit());
        assert!(policy.note_fit(1015, 1000));
        assert!(!policy.note_fit(1016, 1000) && !policy.all_fit());
        assert!(!policy.note_fit(1015, 1000));
    }

    #[test]
    fn bases_have_fewer_tables_while_metadata_is_large() {
        let (policy, owner) = policy();
        assert_eq!(policy.base_tables_max(), 512);
        let charge = |bytes| Charge::new(owner.ledger(), Use::Metadata, bytes as usize);
        let _tenth = charge(BUDGET / 10);
        assert_eq!(policy.base_tables_max(), 512);
        let half = charge(BUDGET / 20);
        assert_eq!(policy.base_tables_max(), 320);
        drop(half);
        let _more = charge(BUDGET / 2);
        assert_eq!(policy.base_tables_max(), 128);
    }
}
