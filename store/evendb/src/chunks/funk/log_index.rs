//! The possible places of a key in a chunk's log: the log index, and the paper's partitioned Bloom
//! filter.
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
//! **Partitioned Bloom filter** (the paper's section 3.1). Each part covers a section of
//! consecutive runs; only the runs of sections that may have the key are searched. Immutable;
//! extended by copying: closed parts are shared, and the open one keeps its tags and gets a new
//! filter. A record costs about 10 bits, and 4 bytes more while its section is open. It knows a key
//! by its tag, as the index does, so that a cold chunk's index can be turned into it.
//!
//! Neither of them knows keys: the named places must be searched, and may turn out not to have the
//! key.

use crate::memory::{Charge, Ledger, Use, allocated_bytes};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use evendb_storage::filter::BloomFilter;
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
    fn tags_by_run(&self, run_end: u32) -> Vec<(u32, u32)> {
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

fn tag(hash: RamHash) -> u64 {
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

/// The paper's partitioned Bloom filter over one chunk's log; see the head of this file.
#[derive(Clone, Debug)]
pub(crate) struct PartitionedBloom {
    split_factor: usize,
    section_bytes: u64,
    ledger: Ledger,
    /// Oldest first; the last one is open.
    parts: Vec<Arc<FilterPart>>,
}

/// The filter of one section of the log.
#[derive(Debug)]
struct FilterPart {
    /// The runs in ascending order, all above the runs of earlier parts.
    runs: Vec<u32>,
    run_bytes: u64,
    filter: Arc<BloomFilter>,
    /// The tags from which the filter was built, sorted, each once; empty in a closed part.
    tags: Vec<u32>,
    charge: Charge,
}

impl PartitionedBloom {
    /// Bits of a filter for each of its records: about 1 % of false positives.
    const BITS_PER_KEY: u32 = 10;

    /// A filter of at most `split_factor` parts, each over a section of about `section_bytes` bytes
    /// of the log (its limit / `split_factor`). If the log is beyond its limit, the last part
    /// grows.
    pub(crate) fn new(split_factor: usize, section_bytes: u64, ledger: Ledger) -> Self {
        PartitionedBloom {
            split_factor: split_factor.max(1),
            section_bytes,
            ledger,
            parts: Vec::new(),
        }
    }

    /// The filter over the part of `runs` (ordinal and bytes, ascending) that `index` covers.
    pub(crate) fn of_index(
        mut self,
        index: &LogIndex,
        runs: impl Iterator<Item = (u32, u64)>,
        run_end: u32,
    ) -> PartitionedBloom {
        let tags = index.tags_by_run(run_end);
        let mut gathered = Section::default();
        let mut runs = runs.peekable();
        while let Some((run, bytes)) = runs.next() {
            let from = tags.partition_point(|&(other, _)| other < run);
            let to = tags.partition_point(|&(other, _)| other <= run);
            gathered.add(run, bytes, tags[from..to].iter().map(|&(_, tag)| tag));
            let full = gathered.run_bytes >= self.section_bytes;
            if full && self.parts.len() + 1 < self.split_factor && runs.peek().is_some() {
                let part = std::mem::take(&mut gathered).part(self.ledger);
                self.parts.push(Arc::new(part.closed()));
            }
        }
        if !gathered.runs.is_empty() {
            self.parts.push(Arc::new(gathered.part(self.ledger)));
        }
        self
    }

    /// This filter with one more run of `run_bytes` bytes; the keys of its records have `hashes`.
    /// Runs come in ascending order.
    pub(crate) fn with_run(
        &self,
        run: u32,
        run_bytes: u64,
        hashes: &[RamHash],
    ) -> PartitionedBloom {
        let newest = self.parts.last().and_then(|part| part.runs.last());
        assert!(newest.is_none_or(|&newest| newest < run), "runs ascend");
        let mut parts = self.parts.clone();
        let full = parts.len() >= self.split_factor;
        let open = match parts.pop() {
            Some(open) if full || open.run_bytes < self.section_bytes => Some(open),
            Some(closing) => {
                parts.push(Arc::new(closing.closed()));
                None
            }
            None => None,
        };
        let mut section = match open {
            Some(open) => Section {
                runs: open.runs.clone(),
                run_bytes: open.run_bytes,
                tags: open.tags.clone(),
            },
            None => Section::default(),
        };
        let tags = hashes.iter().map(|&hash| tag(hash) as u32);
        section.add(run, run_bytes, tags);
        parts.push(Arc::new(section.part(self.ledger)));
        PartitionedBloom { parts, ..*self }
    }

    /// Puts into `out` the runs below `run_end` that may have a key with this hash, newest first.
    pub(crate) fn candidates(&self, hash: RamHash, run_end: u32, out: &mut Vec<u32>) {
        out.clear();
        let hash = spread(tag(hash) as u32);
        for part in self.parts.iter().rev() {
            if part.runs[0] < run_end && part.filter.may_contain(hash) {
                let below = part.runs.partition_point(|&run| run < run_end);
                out.extend(part.runs[..below].iter().rev());
            }
        }
    }

    /// Memory of the filters and of the open section's hashes; shared parts count in full.
    pub(crate) fn bytes(&self) -> usize {
        let parts = self.parts.iter().map(|part| part.charge.bytes());
        parts.sum()
    }
}

impl FilterPart {
    fn new(section: Section, filter: Arc<BloomFilter>, ledger: Ledger) -> FilterPart {
        let bytes = allocated_bytes(size_of::<FilterPart>() + 16)
            + allocated_bytes(section.runs.capacity() * 4)
            + allocated_bytes(section.tags.capacity() * 4)
            + allocated_bytes(filter.bytes() + 32);
        FilterPart {
            runs: section.runs,
            run_bytes: section.run_bytes,
            filter,
            tags: section.tags,
            charge: Charge::new(ledger, Use::Searches, bytes),
        }
    }

    fn closed(&self) -> FilterPart {
        let section = Section {
            runs: self.runs.clone(),
            run_bytes: self.run_bytes,
            tags: Vec::new(),
        };
        FilterPart::new(section, Arc::clone(&self.filter), self.charge.ledger())
    }
}

/// A section of the log while it is gathered.
#[derive(Default)]
struct Section {
    runs: Vec<u32>,
    run_bytes: u64,
    tags: Vec<u32>,
}

impl Section {
    fn add(&mut self, run: u32, bytes: u64, tags: impl Iterator<Item = u32>) {
        self.runs.push(run);
        self.run_bytes += bytes;
        self.tags.extend(tags);
    }

    fn part(mut self, ledger: Ledger) -> FilterPart {
        self.tags.sort_unstable();
        self.tags.dedup();
        self.tags.shrink_to_fit();
        let hashes: Vec<u64> = self.tags.iter().map(|&tag| spread(tag)).collect();
        let filter = BloomFilter::build(&hashes, PartitionedBloom::BITS_PER_KEY);
        FilterPart::new(self, Arc::new(filter), ledger)
    }
}

/// A hash for the filter, made of the part of a key's hash that the log index keeps: so a filter
/// can be made of an index, without reading the log. Few pairs of keys have one tag: records of the
/// log / 2^24.
fn spread(tag: u32) -> u64 {
    let mixed = (u64::from(tag) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[cfg(test)]
#[cfg(not(evendb_loom))]
mod tests {
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

    #[test]
    fn only_sections_that_may_have_the_key_are_searched() {
        let mix = |n: u64| RamHash::of(&n.to_le_bytes());
        let mut filter = PartitionedBloom::new(16, 1000, Ledger::SHARED);
        for run in 0..32 {
            let hashes: Vec<_> = (0..100).map(|n| mix(u64::from(run) * 100 + n)).collect();
            filter = filter.with_run(run, 500, &hashes);
        }
        assert_eq!(filter.parts.len(), 16);
        let (mut out, mut searched) = (Vec::new(), 0);
        for n in 0..3200 {
            filter.candidates(mix(n), 32, &mut out);
            searched += out.len();
        }
        // Two runs of the right section, and 15 sections with one false positive in a hundred.
        assert!((6400..8600).contains(&searched), "{searched}");
        assert!(
            filter.bytes() < 16 * 500 + 8 * 200,
            "closed sections keep no tags"
        );
    }
}

/// L8: index slot x get.
#[cfg(all(test, evendb_loom))]
mod loom_tests {
    use super::*;
    use crate::sync::atomic::AtomicU32;
    use crate::sync::thread;

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
