//! The log index: the possible places of a key in a chunk's log.
//!
//! A chunk's log is a list of runs, each a small sorted table. A [`Position`] names a run by its
//! ordinal, which grows over the log's life, and a block of that run.
//!
//! ```text
//! log index: open addressing, one word for each record          0 = free
//!   63            40 39            16 15         0
//!   | tag, 24 bits  | run, 24 bits   | block, 16 |
//! ```
//!
//! **Log index.** The tag is the top of the key's hash, never 0; a record's home slot is the top
//! of its tag, so that a larger table is filled from a smaller one without the hashes. Probing is
//! linear. A look-up of an absent key meets a strange tag with a chance of records / 2^24.
//! Invariants: slots are set once and never change; at least a quarter is free, so a probe ends.
//! Thread safety: one writer at a time (the checkpoint). Readers are wait-free and see every slot
//! that was inserted before their view was published; they ignore entries at or beyond their view's
//! end of the log. [L8]
//!
//! It does not know keys: the named places must be searched, and may turn out not to have the key.
//!
//! Not here: the filter that takes less memory ([`super::log_filter`]).

use crate::memory::{Charge, Ledger, Use, allocated_bytes};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use evendb_storage::key_hash::RamHash;

const RUN_END_MAX: u32 = 1 << 24;
const TAG_BITS: u32 = 24;

/// The place of a record in a chunk's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Position {
    /// Ordinal of the run, below 2^24.
    pub(crate) run: u32,
    /// Ordinal of the block in the run; 65,535 means this block or a later one.
    pub(crate) block: u16,
}

impl Position {
    /// Newest first: later runs come first. In a run, earlier blocks come first, because a run has
    /// the newer versions of a key before the older ones.
    fn order(self) -> (std::cmp::Reverse<u32>, u16) {
        (std::cmp::Reverse(self.run), self.block)
    }
}

/// The log index of one chunk; see the head of this file.
pub(crate) struct LogIndex {
    /// A power of two of slots. Set with Release by the one writer, read with Acquire: a reader
    /// that finds a position sees everything that was written before it was inserted.
    slots: Box<[AtomicU64]>,
    /// Written by the one writer only.
    len: AtomicUsize,
    charge: Charge,
}

impl LogIndex {
    /// An index with room for at least `n` records, charged to `ledger`.
    pub(crate) fn with_capacity(n: usize, ledger: Ledger) -> LogIndex {
        let slots = (n + n.div_ceil(3) + 1).next_power_of_two().max(8);
        let bytes = allocated_bytes(size_of::<LogIndex>() + 16) + allocated_bytes(8 * slots);
        LogIndex {
            slots: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            len: AtomicUsize::new(0),
            charge: Charge::new(ledger, Use::Searches, bytes),
        }
    }

    /// Adds a record. Returns false, with nothing added, if the index is full: it must grow first.
    /// Only one thread inserts at a time.
    pub(crate) fn insert(&self, hash: RamHash, position: Position) -> bool {
        assert!(position.run < RUN_END_MAX, "runs of a log are below 2^24");
        let tag = tag(hash);
        self.insert_slot(tag << 40 | u64::from(position.run) << 16 | u64::from(position.block))
    }

    fn insert_slot(&self, slot: u64) -> bool {
        let mask = self.slots.len() - 1;
        let mut at = self.home(slot >> 40);
        loop {
            // Relaxed: only this thread writes.
            match self.slots[at].load(Ordering::Relaxed) {
                0 => break,
                // Another version of the key, or another key of this block: nothing new.
                same if same == slot => return true,
                _ => at = (at + 1) & mask,
            }
        }
        let len = self.len.load(Ordering::Relaxed);
        if (len + 1) * 4 > self.slots.len() * 3 {
            return false;
        }
        self.len.store(len + 1, Ordering::Relaxed);
        // Pairs with the Acquire in `candidates`.
        self.slots[at].store(slot, Ordering::Release);
        true
    }

    /// A copy with room for at least `at_least` records, and for half as many again as there are.
    pub(crate) fn grown(&self, at_least: usize) -> LogIndex {
        let len = self.len();
        let larger = LogIndex::with_capacity(at_least.max(len + len / 2), self.charge.ledger());
        // From a free slot on, so that records with one home come in the order of their probes,
        // which is the order in which they were inserted.
        let loaded = |slot: &AtomicU64| slot.load(Ordering::Acquire);
        let free = self.slots.iter().position(|slot| loaded(slot) == 0);
        let (head, tail) = self.slots.split_at(free.unwrap_or(0));
        for slot in tail.iter().chain(head).map(loaded) {
            if slot != 0 {
                let inserted = larger.insert_slot(slot);
                assert!(inserted, "a larger index has room for all records");
            }
        }
        larger
    }

    /// Puts the positions into `out` where records of a key with this hash may be in the runs below
    /// `run_end`, newest first. Wait-free.
    pub(crate) fn candidates(&self, hash: RamHash, run_end: u32, out: &mut Candidates) {
        out.clear();
        let tag = tag(hash);
        let mask = self.slots.len() - 1;
        let mut at = self.home(tag);
        // The bound is never reached, because a quarter is free; it only makes the loop's end
        // clear.
        for _ in 0..self.slots.len() {
            let slot = self.slots[at].load(Ordering::Acquire);
            if slot == 0 {
                break;
            }
            let run = (slot >> 16) as u32 & (RUN_END_MAX - 1);
            if slot >> 40 == tag && run < run_end {
                let block = slot as u16;
                out.push(Position { run, block });
            }
            at = (at + 1) & mask;
        }
        out.put_newest_first();
    }

    /// Records inserted.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Memory of the index.
    pub(crate) fn bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// A copy without the records of runs `first` to `last`, and with room for `more` records.
    pub(crate) fn without(&self, first: u32, last: u32, more: usize) -> LogIndex {
        let kept: Vec<u64> = self
            .slots
            .iter()
            .map(|slot| slot.load(Ordering::Acquire))
            .filter(|&slot| {
                let run = (slot >> 16) as u32 & (RUN_END_MAX - 1);
                slot != 0 && !(first..=last).contains(&run)
            })
            .collect();
        let copy = LogIndex::with_capacity(kept.len() + more, self.charge.ledger());
        for slot in kept {
            let inserted = copy.insert_slot(slot);
            assert!(inserted, "made with room for all records");
        }
        copy
    }

    /// Tags and runs of the records in the runs below `run_end`, in order of the runs.
    pub(super) fn tags_by_run(&self, run_end: u32) -> Vec<(u32, u32)> {
        let mut tags: Vec<(u32, u32)> = self
            .slots
            .iter()
            .map(|slot| slot.load(Ordering::Acquire))
            .filter(|&slot| slot != 0)
            .map(|slot| ((slot >> 16) as u32 & (RUN_END_MAX - 1), (slot >> 40) as u32))
            .filter(|&(run, _)| run < run_end)
            .collect();
        tags.sort_unstable();
        tags.dedup();
        tags
    }

    /// The first slot of the probe for a tag.
    fn home(&self, tag: u64) -> usize {
        let slot_bits = self.slots.len().trailing_zeros();
        if slot_bits <= TAG_BITS {
            (tag >> (TAG_BITS - slot_bits)) as usize
        } else {
            (tag << (slot_bits - TAG_BITS)) as usize
        }
    }
}

pub(super) fn tag(hash: RamHash) -> u64 {
    (hash.bits() >> (64 - TAG_BITS)).max(1)
}

impl std::fmt::Debug for LogIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogIndex")
            .field("len", &self.len())
            .finish()
    }
}

/// Positions found, without an allocation for up to eight.
#[derive(Debug)]
pub(crate) struct Candidates {
    inline: [Position; Candidates::INLINE],
    /// The number of valid entries of `inline`, while `spilled` is empty.
    inline_len: usize,
    /// All positions, once there are more than fit `inline`.
    spilled: Vec<Position>,
}

impl Candidates {
    const INLINE: usize = 8;

    /// No positions.
    pub(crate) fn new() -> Candidates {
        Candidates {
            inline: [Position { run: 0, block: 0 }; Candidates::INLINE],
            inline_len: 0,
            spilled: Vec::new(),
        }
    }

    /// The positions in the order of search.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Position> + '_ {
        self.as_slice().iter().copied()
    }

    /// The positions in the order of search.
    pub(crate) fn as_slice(&self) -> &[Position] {
        if self.spilled.is_empty() {
            &self.inline[..self.inline_len]
        } else {
            &self.spilled
        }
    }

    fn clear(&mut self) {
        self.inline_len = 0;
        self.spilled.clear();
    }

    fn push(&mut self, position: Position) {
        if self.spilled.is_empty() {
            if self.inline_len < Candidates::INLINE {
                self.inline[self.inline_len] = position;
                self.inline_len += 1;
                return;
            }
            self.spilled.extend_from_slice(&self.inline);
        }
        self.spilled.push(position);
    }

    fn put_newest_first(&mut self) {
        let positions = if self.spilled.is_empty() {
            &mut self.inline[..self.inline_len]
        } else {
            &mut self.spilled[..]
        };
        // They were inserted run after run, so reversing nearly sorts them.
        positions.reverse();
        positions.sort_by_key(|position| position.order());
    }
}

impl Default for Candidates {
    fn default() -> Self {
        Candidates::new()
    }
}

#[cfg(test)]
#[cfg(not(evendb_loom))]
mod tests {
    use super::super::log_filter::PartitionedBloom;
    use super::*;
    use proptest::prelude::*;

    fn position(run: u32, block: u16) -> Position {
        Position { run, block }
    }

    /// Few distinct tags, so that probes of different keys run into each other.
    fn any_hash() -> impl Strategy<Value = RamHash> {
        prop_oneof![
            (0u64..6).prop_map(|tag| tag << 40 | 0xabc),
            ((1u64 << 24) - 3..1 << 24).prop_map(|tag| tag << 40),
            any::<u64>(),
        ]
        .prop_map(RamHash::of_bits)
    }

    proptest! {
        #[test]
        fn candidates_are_all_records_of_the_tag(
            records in prop::collection::vec((any_hash(), 0u32..40, any::<u16>()), 0..400),
            run_end in 0u32..40,
        ) {
            let mut index = LogIndex::with_capacity(4, Ledger::SHARED);
            for (at, &(hash, run, block)) in records.iter().enumerate() {
                if !index.insert(hash, position(run, block)) {
                    prop_assert!((index.len() + 1) * 4 > index.slots.len() * 3);
                    index = index.grown(at + 1);
                    prop_assert!(index.insert(hash, position(run, block)));
                }
            }
            let mut out = Candidates::new();
            for &(hash, ..) in &records {
                index.candidates(hash, run_end, &mut out);
                let mut expected: Vec<_> = records.iter()
                    .filter(|record| tag(record.0) == tag(hash) && record.1 < run_end)
                    .map(|record| position(record.1, record.2))
                    .collect();
                expected.sort_by_key(|position| position.order());
                expected.dedup();
                prop_assert_eq!(out.as_slice(), &expected);
                prop_assert!(out.iter().eq(expected));
            }
        }

        #[test]
        fn no_run_is_missed_by_the_bloom_filter(
            runs in prop::collection::vec((prop::collection::vec(any_hash(), 0..20), 1u32..3, 0u64..300), 1..60),
            split_factor in 1usize..5,
            run_end in 0u32..120,
        ) {
            let mut filter = PartitionedBloom::new(split_factor, 500, Ledger::SHARED);
            let (mut run, mut numbered) = (0, Vec::new());
            for (hashes, step, run_bytes) in &runs {
                run += step;
                filter = filter.with_run(run, *run_bytes, hashes);
                numbered.push((run, hashes));
            }
            prop_assert!(filter.parts.len() <= split_factor);
            let mut out = Vec::new();
            for hash in runs.iter().flat_map(|run| &run.0) {
                filter.candidates(*hash, run_end, &mut out);
                prop_assert!(out.is_sorted_by(|a, b| a > b), "newest first");
                prop_assert!(out.iter().all(|&run| run < run_end));
                for (run, hashes) in &numbered {
                    if *run < run_end && hashes.contains(hash) {
                        prop_assert!(out.contains(run));
                    }
                }
            }
        }
    }

    #[test]
    fn an_index_holds_what_it_was_made_for_and_then_says_that_it_is_full() {
        for capacity in [0, 1, 6, 7, 100, 1000] {
            let index = LogIndex::with_capacity(capacity, Ledger::SHARED);
            for at in 0..capacity as u64 {
                assert!(index.insert(
                    RamHash::of_bits(at.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                    position(1, at as u16)
                ));
            }
            assert_eq!(index.len(), capacity);
            let mut more = 0u16;
            while index.insert(RamHash::of_bits(0), position(2, more)) {
                more += 1;
            }
            assert_eq!(index.len(), index.slots.len() * 3 / 4);
            // A record that is already there needs no room.
            assert!(index.insert(RamHash::of_bits(0), position(2, 0)));
            assert!(!index.insert(RamHash::of_bits(0), position(2, more)));
            assert!(
                index
                    .grown(0)
                    .insert(RamHash::of_bits(0), position(2, more))
            );
        }
    }

    #[test]
    fn other_keys_are_rarely_candidates() {
        let mix = |n: u64| RamHash::of(&n.to_le_bytes());
        let index = LogIndex::with_capacity(20_000, Ledger::SHARED);
        for n in 0..20_000 {
            assert!(index.insert(mix(n), position((n / 100) as u32, (n % 7) as u16)));
        }
        let mut out = Candidates::new();
        let found = (20_000..120_000).filter(|&n| {
            index.candidates(mix(n), 1 << 24, &mut out);
            out.iter().next().is_some()
        });
        assert!(found.count() < 400, "expected about 120 of 100,000");
    }
}

/// L8: index slot x get.
#[cfg(all(test, evendb_loom))]
mod loom_tests {
    use super::*;
    use crate::sync::atomic::AtomicU32;
    use crate::sync::{Arc, thread};

    const HASH: RamHash = RamHash::of_bits(7 << 40);

    /// A reader whose view ends at a run finds all records of earlier runs and no record of later
    /// runs, although the writer goes on inserting records that run into the same slots.
    #[test]
    fn loom_l8_a_view_finds_all_its_runs() {
        loom::model(|| {
            let index = Arc::new(LogIndex::with_capacity(5, Ledger::SHARED));
            let run_end = Arc::new(AtomicU32::new(1));
            assert!(index.insert(HASH, Position { run: 0, block: 9 }));
            let reader = {
                let (index, run_end) = (Arc::clone(&index), Arc::clone(&run_end));
                thread::spawn(move || {
                    let end = run_end.load(Ordering::Acquire);
                    let mut out = Candidates::new();
                    index.candidates(HASH, end, &mut out);
                    let runs: Vec<u32> = out.iter().map(|position| position.run).collect();
                    assert_eq!(runs, (0..end).rev().collect::<Vec<_>>());
                })
            };
            for run in 1..3 {
                let other = RamHash::of_bits(HASH.bits() + (1 << 40));
                assert!(index.insert(other, Position { run, block: 0 }));
                assert!(index.insert(HASH, Position { run, block: 1 }));
                // This is what publishing a view does.
                run_end.store(run + 1, Ordering::Release);
            }
            reader.join().expect("reader");
        });
    }

    /// A found position leads to everything that was written before it was inserted.
    #[test]
    fn loom_l8_a_slot_publishes_what_it_names() {
        loom::model(|| {
            let index = Arc::new(LogIndex::with_capacity(2, Ledger::SHARED));
            let data = Arc::new(AtomicU32::new(0));
            let reader = {
                let (index, data) = (Arc::clone(&index), Arc::clone(&data));
                thread::spawn(move || {
                    let mut out = Candidates::new();
                    index.candidates(HASH, 1, &mut out);
                    if out.iter().next().is_some() {
                        assert_eq!(data.load(Ordering::Relaxed), 1);
                    }
                })
            };
            data.store(1, Ordering::Relaxed);
            assert!(index.insert(HASH, Position { run: 0, block: 0 }));
            reader.join().expect("reader");
        });
    }

    /// A copy that grows beside a reader of the old index has all records, in order.
    #[test]
    fn loom_l8_growing_beside_a_reader() {
        loom::model(|| {
            let index = Arc::new(LogIndex::with_capacity(2, Ledger::SHARED));
            for run in 0..3 {
                assert!(index.insert(HASH, Position { run, block: 0 }));
            }
            let reader = {
                let index = Arc::clone(&index);
                thread::spawn(move || {
                    let mut out = Candidates::new();
                    index.candidates(HASH, 3, &mut out);
                    assert_eq!(out.iter().count(), 3);
                })
            };
            let larger = index.grown(8);
            assert!(index.insert(HASH, Position { run: 3, block: 0 }));
            assert!(larger.insert(HASH, Position { run: 3, block: 0 }));
            let mut out = Candidates::new();
            larger.candidates(HASH, 4, &mut out);
            assert!(out.iter().map(|position| position.run).eq((0..4).rev()));
            reader.join().expect("reader");
        });
    }
}
