//! The memory ledger: the RAM that an open database holds now, by use; and the part of the budget
//! that the caches may take.
//!
//! ```text
//! budget = | ring | deltas | reserve | metadata | buffers | tables, log searches | munks, rows |
//!           fixed at opening          as counted now        up to a share          the rest
//! ```
//!
//! **Charging.** Objects that are large or many are charged when they are allocated, and released
//! when they are freed: in the `Drop` of the object itself, after every pin and every user's handle
//! is gone. So memory that waits for its grace period stays charged, and so do pages that a user's
//! value keeps; no estimate is needed. Sizes are the allocator's: a word in front, rounded up to 16
//! bytes ([`allocated_bytes`]).
//!
//! **Slots.** A ledger is a number: the gauges are in a static array, so that a page finds its
//! gauge by two bytes in its header, however long it outlives its database. An engine takes a slot
//! whose gauges are zero. Slot 0 is shared: by structures made outside of an engine, and by engines
//! that find no other slot.
//!
//! **Caps.** The memory policy ([`crate::memory_policy`]) says what each use may have. Munks and
//! rows may take together what is left of the budget without the reserve and without everything
//! else that is charged. Tables and log searches are evicted above their share. The reserve is for
//! uncounted memory: stacks, small allocations, and memory that the allocator holds but has not
//! given out.
//!
//! Thread safety: gauges are atomics that order no other data. Not here: which munks, rows, tables
//! and searches go.

pub(crate) mod fetch;
pub(crate) mod heap;
pub(crate) mod shared;
pub(crate) mod slab;

// Not the seam's atomics: gauges order no other data, so the models need not step through them.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The uses that memory is charged for.
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
/// The number of databases open at once that have gauges of their own. Gauges that are not taken
/// cost only address space.
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

/// Bytes that the allocator takes for a request: a word in front, rounded up to 16.
pub(crate) const fn allocated_bytes(request_bytes: usize) -> usize {
    (request_bytes + 8).next_multiple_of(16)
}

/// The gauges of one database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ledger(u16);

impl Ledger {
    /// The gauges of slot 0, which are shared.
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
            // Otherwise this database would be charged for memory that users of the slot's last
            // owner still hold.
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
    /// A charge for a copy of the charged object: the same number of bytes again.
    fn clone(&self) -> Charge {
        Charge::new(self.ledger, self.of, self.bytes)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.ledger.subtract(self.of, self.bytes);
    }
}

/// Bytes of a chunk with an empty view: itself, view, empty delta, empty funk and search, its
/// places in the index, in the manifest's state and in its queues.
pub(crate) const CHUNK_BYTES: usize = 1400;
/// Bytes of a table that is not open: its handle, its part in the manifest's state, what the two
/// share, its entries in the registry and in the funks.
pub(crate) const TABLE_BYTES: usize = 480;

/// Set while log searches are above their share: then new ones are made small.
static SEARCHES_SHORT: [AtomicBool; SLOTS] = [const { AtomicBool::new(false) }; SLOTS];

impl Ledger {
    /// Whether log searches take more than their share.
    pub(crate) fn searches_are_short(self) -> bool {
        SEARCHES_SHORT[usize::from(self.0)].load(Ordering::Relaxed)
    }

    pub(crate) fn set_searches_short(self, short: bool) {
        SEARCHES_SHORT[usize::from(self.0)].store(short, Ordering::Relaxed);
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
}
