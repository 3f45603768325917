//! Notes of reads and rows: what gets and scans report of spans, and the rows that gets find and
//! fill and checkpoints change.
//!
//! In a hot span one get in [`HITS_PER_COUNT`] is counted, with that weight: a sum that all readers
//! share is a cache line that they fight for. A read from disk is always counted.
//!
//! Thread safety: any thread. Notes of spans take no lock; those of rows say whether they wait.

use super::MemoryPolicy;
use super::division::sample::Served;
use super::row::RowValue;
use crate::chunk::{Chunk, Heat, View};
use crate::munk::Munk;
use crate::record::RecordRef;
use crate::sync::atomic::Ordering;
use evendb_storage::Kind;
use evendb_storage::key_hash::RamHash;

/// One get in this many gets from RAM is counted; a power of two.
const HITS_PER_COUNT: u32 = 16;
/// One refill in this many refills from RAM is counted; a power of two.
const REFILLS_PER_COUNT: u32 = 4;
/// The largest number of disk reads that are counted for a scan of a span.
const SCAN_READS_MAX: usize = 16;

/// Gets and scans.
impl MemoryPolicy {
    /// Notes a get that the view's munk answered.
    #[inline]
    pub(crate) fn note_hit(&self, chunk: &Chunk, view: &View, key: &[u8], hash: RamHash) {
        let count = Heat::count(&chunk.heat.gets);
        let sampled = count.is_multiple_of(HITS_PER_COUNT);
        // Relaxed: a hint. Where there is room for all spans, the counts decide nothing.
        if (sampled || !self.all_fit.load(Ordering::Relaxed))
            && let Some(munk) = &view.munk
        {
            let heat = munk.heat_of(key);
            let reads = match heat.is_cool(1.0) {
                true => 1.0,
                false if sampled => HITS_PER_COUNT as f32,
                false => return,
            };
            heat.touch(reads, Some(hash.bits() as u8), self.spans.tick());
        }
    }

    /// Notes a get that was answered from disk. Returns whether something of the chunk should be
    /// loaded: the key's span, or a munk that counts reads.
    pub(crate) fn note_miss(&self, chunk: &Chunk, view: &View, key: &[u8], hash: RamHash) -> bool {
        Heat::count(&chunk.heat.gets_outside);
        if !self.has_munks {
            return false;
        }
        let Some(munk) = &view.munk else {
            return self.is_read_enough(chunk);
        };
        let (heat, tick) = (munk.heat_of(key), self.spans.tick());
        heat.touch(1.0, Some(hash.bits() as u8), tick);
        let bytes = munk.span_bytes();
        let worth = self.worth_of(heat.worth(tick), bytes);
        self.spans.wants(worth, bytes as u64)
    }

    /// Notes a refill that a scan got from RAM. `ends` gives the first and last key of the refill,
    /// and is called only where it is counted.
    pub(crate) fn note_refill<'b>(
        &self,
        chunk: &Chunk,
        view: &View,
        ends: impl FnOnce() -> Option<(&'b [u8], &'b [u8])>,
    ) {
        // Relaxed: a hint.
        let count = chunk.heat.scans.load(Ordering::Relaxed);
        if count.is_multiple_of(REFILLS_PER_COUNT)
            && let Some(munk) = &view.munk
            && let Some(ends) = ends()
        {
            let reads = REFILLS_PER_COUNT as f32 * scan_reads(view);
            munk.count_scan(ends.0, ends.1, reads, self.spans.tick());
        }
    }

    /// Notes the refill of a scan that begins in a span of this munk that is absent. Returns
    /// whether the span is worth loading now.
    pub(crate) fn note_absent(&self, view: &View, munk: &Munk, span: usize) -> bool {
        let worth = munk.count_span(span, scan_reads(view), self.spans.tick());
        self.spans.wants(worth, munk.span_bytes() as u64)
    }

    /// Whether the chunk should get a munk without any span, in which reads of spans are counted.
    pub(crate) fn should_count(&self, chunk: &Chunk, view: &View) -> bool {
        view.munk.is_none() && self.has_munks && self.is_read_enough(chunk)
    }

    fn is_read_enough(&self, chunk: &Chunk) -> bool {
        let least = self.list_heat_min.load(Ordering::Relaxed);
        chunk.heat.reads() >= f32::from_bits(least)
    }

    /// Whether users get copies of values, which keep no page of a munk.
    #[inline]
    pub(crate) fn copies_values(&self) -> bool {
        // Relaxed: a hint.
        self.copies_values.load(Ordering::Relaxed)
    }
}

/// The number of disk reads in a scan of a span: one for each run, and one for the base.
fn scan_reads(view: &View) -> f32 {
    (1 + view.funk.runs.len()).min(SCAN_READS_MAX) as f32
}

/// Rows. A tag is that of the chunk's view ([`crate::chunk::row_tag`]).
impl MemoryPolicy {
    /// The row of a key, if there is one and its shard is not busy; notes the hit. Never waits.
    #[inline]
    pub(crate) fn find_row(
        &self,
        chunk: &Chunk,
        view: &View,
        key: &[u8],
        hash: RamHash,
    ) -> Option<RecordRef> {
        let rows = self.row_cache.as_ref()?;
        let row = rows.find(view.row_tag.number()?, key, hash)?;
        Heat::count(&chunk.heat.gets_outside);
        self.sampler.see(chunk.keyspace.0, hash, Served::Row);
        Some(row)
    }

    /// Notes that tables answered a get of the newest value, which a row could have answered.
    #[inline]
    pub(crate) fn note_no_row(&self, chunk: &Chunk, hash: RamHash) {
        self.sampler.see(chunk.keyspace.0, hash, Served::Table);
    }

    /// Whether a value of this number of bytes may become a row.
    pub(crate) fn may_fill_row(&self, value_bytes: usize) -> bool {
        self.row_cache.is_some() && value_bytes <= self.row_bytes_max
    }

    /// Adds a row if the key has none and `still_valid()` holds, which is asked under the lock of
    /// the row's shard. Never waits.
    pub(crate) fn fill_row(
        &self,
        tag: u32,
        key: &[u8],
        hash: RamHash,
        row: RowValue<'_>,
        still_valid: impl FnOnce() -> bool,
    ) {
        if let Some(rows) = &self.row_cache {
            rows.insert_until_if(tag, key, hash, row, still_valid);
        }
    }

    /// Whether there is any row.
    pub(crate) fn has_rows(&self) -> bool {
        self.row_cache.as_ref().is_some_and(|rows| rows.len() > 0)
    }

    /// Notes a key's newest record: if the key has a row, the row gets this kind and stored value,
    /// or goes for `None`. Waits for the row's shard; no reader finds the old value afterwards.
    pub(crate) fn note_newest(
        &self,
        tag: u32,
        key: &[u8],
        hash: RamHash,
        value: Option<(Kind, &[u8])>,
    ) {
        if let Some(rows) = &self.row_cache {
            rows.update_stored(tag, key, hash, value);
        }
    }
}
