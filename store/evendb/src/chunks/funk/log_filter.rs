//! The paper's partitioned Bloom filter (its section 3.1): which runs of a chunk's log may have a
//! key.
//!
//! Each part covers a section of consecutive runs; only the runs of sections that may have the key
//! are searched. Immutable; extended by copying: closed parts are shared, and the open one keeps
//! its tags and gets a new filter. A record costs about 10 bits, and 4 bytes more while its section
//! is open. It knows a key by its tag, as the index does, so that a cold chunk's index can be
//! turned into it.
//!
//!
//! Thread safety: immutable.

use super::log_index::{LogIndex, tag};
use crate::memory::{Charge, Ledger, Use, allocated_bytes};
use crate::sync::Arc;
use evendb_storage::filter::BloomFilter;
use evendb_storage::key_hash::RamHash;

/// The paper's partitioned Bloom filter over one chunk's log; see the module.
#[derive(Clone, Debug)]
pub(crate) struct PartitionedBloom {
    split_factor: usize,
    section_bytes: u64,
    ledger: Ledger,
    /// Oldest first; the last one is open.
    pub(super) parts: Vec<Arc<FilterPart>>,
}

/// The filter of one section of the log.
#[derive(Debug)]
pub(super) struct FilterPart {
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
