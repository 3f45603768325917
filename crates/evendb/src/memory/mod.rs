//! The memory ledger: what an open database holds in RAM now, by use; and what the caches may take
//! of the budget.
//!
//! ```text
//! budget = | ring | deltas | reserve | metadata | buffers | tables, log searches | munks, rows |
//!           fixed at opening          as counted now        up to a share          the rest
//! ```
//!
//! **Charging.** Whatever is large or comes in numbers is charged when it is allocated and released
//! when it is freed, that is in the `Drop` of the object itself, after every pin and every user's
//! handle is gone. So memory that waits for its grace period, and pages that a user's value keeps,
//! stay charged; nobody has to estimate them. Sizes are the allocator's: a word in front, rounded up
//! to 16 bytes ([`allocated_bytes`]).
//!
//! **Slots.** A ledger is a number: the gauges are in a static array, so that a page finds its gauge
//! by two bytes in its header, however long it outlives its database. An engine takes a slot whose
//! gauges are zero. Slot 0 belongs to nobody in particular: structures made outside of an engine, and
//! engines that find no other slot.
//!
//! **Caps.** [`Engine::cache_bytes`] is what munks and rows may take together now: the budget without
//! everything else that is charged and without the reserve. Tables and log searches are evicted above
//! their share ([`Limits`]). The reserve is for what nobody counts: stacks, small allocations, and
//! memory that the allocator holds but has not given out.
//!
//! Thread safety: gauges are atomics that order nothing. Not here: which munks, rows, tables and
//! searches go.

pub(crate) mod heap;
pub(crate) mod slab;

use crate::engine::Engine;
use crate::options::Options;
use crate::write::commit_log::Writing;
// Not the seam's: gauges order nothing, so they are no steps of a schedule.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What memory is charged for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Use {
    /// Pages and directories of munks, wherever they are still referred to.
    Munks = 0,
    /// Log indexes and partitioned Bloom filters.
    Searches = 1,
    /// Open tables: block indexes and filters.
    Tables = 2,
    /// Chunks, handles of tables, and their records in the manifest.
    Metadata = 3,
    /// Buffers of checkpoints, jobs and cursors.
    Buffers = 4,
}

const USES: usize = 5;
/// Databases that are open at once and have gauges of their own. Those that nobody takes are no memory
/// but address space.
const SLOTS: usize = 4096;

#[repr(align(64))]
struct Slot {
    taken: AtomicBool,
    bytes: [AtomicU64; USES],
}

static LEDGERS: [Slot; SLOTS] = [const {
    Slot {
        taken: AtomicBool::new(false),
        bytes: [const { AtomicU64::new(0) }; USES],
    }
}; SLOTS];

/// Bytes the allocator takes for a request: a word in front, rounded up to 16.
pub(crate) const fn allocated_bytes(request_bytes: usize) -> usize {
    (request_bytes + 8).next_multiple_of(16)
}

/// The gauges of one database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ledger(u16);

impl Ledger {
    /// The gauges of slot 0, which belong to nobody in particular.
    pub(crate) const SHARED: Ledger = Ledger(0);

    /// The number that [`Ledger::of_number`] takes.
    pub(crate) fn number(self) -> u16 {
        self.0
    }

    pub(crate) fn of_number(number: u16) -> Ledger {
        Ledger(number % SLOTS as u16)
    }

    fn gauge(self, of: Use) -> &'static AtomicU64 {
        &LEDGERS[usize::from(self.0)].bytes[of as usize]
    }

    pub(crate) fn add(self, of: Use, bytes: usize) {
        self.gauge(of).fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn subtract(self, of: Use, bytes: usize) {
        let before = self.gauge(of).fetch_sub(bytes as u64, Ordering::Relaxed);
        debug_assert!(before >= bytes as u64, "more released than was charged");
    }

    pub(crate) fn bytes(self, of: Use) -> u64 {
        self.gauge(of).load(Ordering::Relaxed)
    }

    fn is_empty(self) -> bool {
        let slot = &LEDGERS[usize::from(self.0)];
        let zero = |gauge: &AtomicU64| gauge.load(Ordering::Relaxed) == 0;
        slot.bytes.iter().all(zero)
    }
}

/// A slot taken by an open database; free again when this is dropped and its gauges are zero.
#[derive(Debug)]
pub(crate) struct LedgerOwner(Ledger);

impl LedgerOwner {
    pub(crate) fn take() -> LedgerOwner {
        for number in 1..SLOTS as u16 {
            let ledger = Ledger(number);
            let slot = &LEDGERS[usize::from(number)];
            // What the last owner's users still hold would be charged to this one.
            if slot.taken.load(Ordering::Relaxed)
                || !ledger.is_empty()
                || slot.taken.swap(true, Ordering::AcqRel)
            {
                continue;
            }
            if ledger.is_empty() {
                return LedgerOwner(ledger);
            }
            slot.taken.store(false, Ordering::Release);
        }
        LedgerOwner(Ledger::SHARED)
    }

    pub(crate) fn ledger(&self) -> Ledger {
        self.0
    }
}

impl Drop for LedgerOwner {
    fn drop(&mut self) {
        if self.0 != Ledger::SHARED {
            let slot = &LEDGERS[usize::from(self.0.0)];
            slot.taken.store(false, Ordering::Release);
        }
    }
}

/// Bytes charged until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    bytes: usize,
    ledger: Ledger,
    of: Use,
}

impl Charge {
    pub(crate) fn new(ledger: Ledger, of: Use, bytes: usize) -> Charge {
        ledger.add(of, bytes);
        Charge { bytes, ledger, of }
    }

    /// Charges another number of bytes instead.
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.ledger.add(self.of, bytes - self.bytes);
        } else {
            self.ledger.subtract(self.of, self.bytes - bytes);
        }
        self.bytes = bytes;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn ledger(&self) -> Ledger {
        self.ledger
    }
}

impl Clone for Charge {
    /// For a copy of what is charged: as many bytes again.
    fn clone(&self) -> Charge {
        Charge::new(self.ledger, self.of, self.bytes)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.ledger.subtract(self.of, self.bytes);
    }
}

/// A chunk with an empty view: itself, view, empty delta, empty funk and search, its places in the
/// index, in the manifest's state and in its queues.
pub(crate) const CHUNK_BYTES: usize = 1400;
/// A table that is not open: its handle, its part in the manifest's state, what the two share, its
/// entries in the registry and in the funks.
pub(crate) const TABLE_BYTES: usize = 480;

/// Set while searches are above their share: new ones are made small.
static SEARCHES_SHORT: [AtomicBool; SLOTS] = [const { AtomicBool::new(false) }; SLOTS];

impl Ledger {
    /// Whether log searches take more than their share.
    pub(crate) fn searches_are_short(self) -> bool {
        SEARCHES_SHORT[usize::from(self.0)].load(Ordering::Relaxed)
    }

    fn set_searches_short(self, short: bool) {
        SEARCHES_SHORT[usize::from(self.0)].store(short, Ordering::Relaxed);
    }
}

/// Parts of the budget that do not depend on what the database holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    budget: u64,
    ring: u64,
    deltas: u64,
    reserve: u64,
}

impl Limits {
    /// For these options, with a mapped commit log of `ring` bytes (0: there is none).
    pub(crate) fn of(options: &Options, ring: u64) -> Limits {
        let budget = options.memory_budget;
        Limits {
            budget,
            ring,
            deltas: options.delta_bytes_max(),
            // A sixteenth, but for small budgets an eighth up to 24 MiB: threads, libraries and the heap's
            // holes take some anyway.
            reserve: (budget / 16).max((24 << 20).min(budget / 8)),
        }
    }

    /// What is left when ring, deltas, reserve and `others` have theirs.
    fn left(&self, others: u64) -> u64 {
        let fixed = self.ring + self.deltas + self.reserve;
        self.budget.saturating_sub(fixed + others)
    }

    /// What open tables and log searches may take together, beside this much metadata: a cold get
    /// without its block index reads twice, so they come before rows and munks, up to a third.
    fn indexes(&self, metadata: u64) -> u64 {
        (self.left(metadata) / 3).max(self.budget / 8)
    }
}

/// Runs of a chunk's log, whatever the memory.
const RUNS_MAX: u32 = 64;
const RUNS_MIN: u32 = 24;
/// Merged from this many on, or from fewer while metadata is large: of chunks that are scanned, of
/// others, and of chunks that are hardly read.
const RUNS_MERGE_SCANNED: u32 = 4;
const RUNS_MERGE: u32 = 16;
const RUNS_MERGE_UNREAD: u32 = 48;

/// Tables that a chunk has in any case.
const RUNS_USUAL: usize = 8;

/// Who reads a chunk's log, as far as counts tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogReaders {
    /// Hardly anybody: it is written much more often, or the chunk has a munk.
    None,
    /// Gets, which the log's index leads to one run.
    Gets,
    /// Scans, which read all runs.
    Scans,
}

impl Engine {
    fn limits(&self) -> Limits {
        let ring = match (&self.commit_log, self.options.commit_log_writing()) {
            (Some(_), Writing::Mapped) => self.ring_capacity(),
            _ => 0,
        };
        Limits::of(&self.options, ring)
    }

    /// What munks and rows may take together now: the budget without all that is charged for other
    /// uses, and without the reserve. Memory of munks that is not reclaimed yet, or that users keep,
    /// is the munks'.
    pub(crate) fn cache_bytes(&self) -> u64 {
        let ledger = self.ledger();
        let others = [Use::Metadata, Use::Buffers, Use::Tables, Use::Searches];
        let others: u64 = others.iter().map(|&of| ledger.bytes(of)).sum();
        let limits = self.limits();
        // Large batches may take the deltas above their limit.
        let deltas_above = self.admission.delta_used().saturating_sub(limits.deltas);
        limits.left(others + deltas_above)
    }

    /// `most` while metadata is below a tenth of the budget, `least` above a fifth, evenly between.
    fn by_metadata(&self, most: u32, least: u32) -> u32 {
        let tenth = (self.options.memory_budget / 10).max(1);
        let above = self.ledger().bytes(Use::Metadata).saturating_sub(tenth);
        most - (u64::from(most - least) * above.min(tenth) / tenth) as u32
    }

    /// Runs that a chunk's log may have before the chunk is rewritten. Each costs a handle, a part in
    /// the manifest's state and an entry in the registry, whether it is used or not.
    pub(crate) fn log_runs_max(&self) -> u32 {
        self.by_metadata(RUNS_MAX, RUNS_MIN)
    }

    /// Runs of a chunk's log from which on the newest are merged into one.
    pub(crate) fn log_runs_merge(&self, readers: LogReaders) -> u32 {
        let most = match readers {
            LogReaders::None => RUNS_MERGE_UNREAD,
            LogReaders::Gets => RUNS_MERGE,
            LogReaders::Scans => RUNS_MERGE_SCANNED,
        };
        // Small chunks are rewritten at little cost, so their logs are short.
        let most = (self.options.chunk_bytes_max() / 256).clamp(4, u64::from(most)) as u32;
        self.by_metadata(most, 4)
    }

    /// Whether buffers take so much that cursors should read less at a time.
    pub(crate) fn buffers_are_short(&self) -> bool {
        self.ledger().bytes(Use::Buffers) > self.options.memory_budget / 32
    }

    /// This much memory of munks is not theirs any more. Above a share, users' values are the reason:
    /// until it is less they get copies, which keep no page.
    pub(crate) fn note_kept_pages(&self, bytes: u64) {
        let many = bytes > self.options.memory_budget / 16;
        self.copies_values.store(many, Ordering::Relaxed);
    }

    /// Memory of slabs that is resident for nothing, beyond what deltas may take again at any time.
    pub(crate) fn slack_bytes(&self) -> u64 {
        slab::slack_bytes().saturating_sub(self.delta_room())
    }

    fn delta_room(&self) -> u64 {
        let limits = self.limits();
        limits.deltas.saturating_sub(self.admission.delta_used())
    }

    /// Keeps open tables and log searches within their share, and gives back what slabs hold for
    /// nothing. Called by upkeep.
    pub(crate) fn tend_memory(&self) {
        slab::trim(self.delta_room() + self.limits().reserve / 4);
        let ledger = self.ledger();
        let indexes = self.limits().indexes(ledger.bytes(Use::Metadata));
        let searches = ledger.bytes(Use::Searches);
        let searches_max = indexes / 4;
        self.tables
            .set_bytes_max(indexes - searches.min(searches_max));
        ledger.set_searches_short(searches > searches_max);
        if searches > searches_max {
            self.shrink_searches(searches - searches_max);
        }
        self.slow_for_metadata();
    }

    /// Each run of a log costs memory until it is merged away. Where puts make runs faster than
    /// workers merge them, and nothing else could give way, puts do.
    fn slow_for_metadata(&self) {
        let budget = self.options.memory_budget;
        let usual = self.space.chunks() * (CHUNK_BYTES + RUNS_USUAL * TABLE_BYTES) as u64;
        let metadata = self.ledger().bytes(Use::Metadata);
        let above = metadata.saturating_sub(usual.max(budget / 5));
        self.admission.set_metadata(above, budget / 8);
    }

    /// Whether log searches are so far below their share that a filter may become an index again.
    pub(crate) fn searches_have_room(&self) -> bool {
        let ledger = self.ledger();
        let max = self.limits().indexes(ledger.bytes(Use::Metadata)) / 4;
        ledger.bytes(Use::Searches) < max / 4 * 3
    }

    /// Makes log searches smaller, those first that nobody used since the last time.
    fn shrink_searches(&self, mut excess: u64) {
        for harder in [false, true] {
            for (_, chunk) in self.chunks() {
                let funk = chunk.view.load_full().funk.clone();
                let saved = funk.shrink_search(&self.search_settings, harder);
                excess = excess.saturating_sub(saved as u64);
                if excess == 0 {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn charges_come_back() {
        let owner = LedgerOwner::take();
        let ledger = owner.ledger();
        assert_ne!(ledger, Ledger::SHARED);
        let mut charge = Charge::new(ledger, Use::Tables, 100);
        charge.set(250);
        let copy = charge.clone();
        assert_eq!(ledger.bytes(Use::Tables), 500);
        charge.set(50);
        drop(copy);
        assert_eq!(ledger.bytes(Use::Tables), 50);
        drop(owner);
        let other = LedgerOwner::take();
        assert_ne!(other.ledger(), ledger, "somebody still holds memory of it");
        drop(charge);
        assert_eq!(ledger.bytes(Use::Tables), 0);
    }

    /// The table in the documentation of `Options::memory_budget`.
    #[test]
    fn defaults_scale_with_the_budget() {
        let mib = |bytes: u64| bytes >> 20;
        for (budget, chunk, ring, deltas, reserve, indexes) in [
            (64, 4, 8, 8, 8, 13),
            (256, 4, 32, 32, 24, 56),
            (1024, 10, 128, 128, 64, 234),
            (8192, 10, 256, 1024, 512, 2133),
            (65536, 10, 256, 8192, 4096, 17664),
        ] {
            let options = Options::new().memory_budget(budget << 20);
            let limits = Limits::of(&options, options.ring_bytes());
            assert_eq!(mib(options.chunk_bytes_max()), chunk);
            assert_eq!(mib(limits.ring), ring);
            assert_eq!(mib(limits.deltas), deltas);
            assert_eq!(mib(limits.reserve), reserve);
            assert_eq!(mib(limits.indexes(0)), indexes);
            // Everything but the reserve fits beside what the indexes take at most.
            assert!(limits.left(limits.indexes(0)) >= limits.indexes(0));
        }
    }
}
