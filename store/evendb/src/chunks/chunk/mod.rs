//! The chunk: a contiguous key range and everything that is known about it.
//!
//! ```text
//! Chunk  low..high  latch(Writer)  token  heat
//!   view -> View { active delta | frozen deltas, newest first | munk or none | funk
//!                  | covers or none }
//! ```
//!
//! Invariants (numbers as in docs/concurrency.md):
//! * I1 a view is replaced, never edited; only its active delta (and the funk's lazily loaded
//!   search) grows.
//! * I2 each view alone is complete, in each span: active + frozen + munk, or where the munk does
//!   not have the span active + frozen + funk, hold every record that any reader may need; and the
//!   covers every range deletion.
//! * I4 all records of a delta have one checkpoint number; a frozen delta never changes.
//! * I6 munk and funk hold only records of completed checkpoints.
//!
//! Thread safety: readers pin and load the view. The latch's holder is the one writer of the active
//! delta and the only one to replace the view. The latch is usually held for microseconds. It is
//! held across I/O only where a put writes its record to the commit log by a system call
//! (`commit_log/writing/append.rs`): always at `Writing::Written`, and for a mapped log that is
//! slow or was just synced. The token (try only) admits one reorganising job.

pub(crate) mod check;
pub(crate) mod covers;
pub(crate) mod emptied;
pub(crate) mod index;
pub(crate) mod row_tag;
pub(crate) mod share;
mod view;

use crate::admission::Admission;
use crate::delta::Delta;
use crate::error::{Error, ErrorKind};
use crate::manifest::{ChunkId, KeyspaceId};
use crate::memory::{CHUNK_BYTES, Charge, Ledger, Use};
use crate::record::RecordRef;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::reclaim::ArcCell;
use crate::sync::{Arc, Mutex};
use emptied::Emptied;
use evendb_storage::Version;
use evendb_storage::table::TableMeta;
use share::Share;
use std::ops::Deref;
pub(crate) use view::{DeltaKeys, DeltaLayer, Frozen, InRam, Lookup, View};

/// A delta whose memory is charged to the admission ledger until it is reclaimed.
pub(crate) struct ChargedDelta {
    delta: Delta,
    /// Bytes of an empty one, which are not charged.
    empty_bytes: u64,
    /// Bytes that the ledger knows to be durable: zero until the delta is durable.
    carried_bytes: AtomicU64,
    admission: Arc<Admission>,
}

impl ChargedDelta {
    pub(crate) fn new(checkpoint: u64, admission: &Arc<Admission>) -> Arc<ChargedDelta> {
        let delta = Delta::new(checkpoint);
        let empty_bytes = delta.bytes() as u64;
        Arc::new(ChargedDelta {
            delta,
            empty_bytes,
            carried_bytes: AtomicU64::new(0),
            admission: admission.clone(),
        })
    }

    /// Notes that the frozen delta is durable: from now on no checkpoint frees its memory. One
    /// checkpoint at a time calls it; if two chunks share a delta, it is called for each.
    pub(crate) fn note_durable(&self) {
        let charged = self.charged();
        if self.carried_bytes.swap(charged, Ordering::Relaxed) == 0 {
            self.admission.carry(charged);
        }
    }

    /// Like [`Delta::insert`], for a record for which nothing was reserved. The delta takes less
    /// memory than before if the record makes others superfluous.
    pub(crate) fn adopt(&self, record: RecordRef) {
        let before = self.charged();
        self.delta.insert(record);
        self.admission.adopt_change(before, self.charged());
    }

    /// Bytes of it that are charged.
    pub(crate) fn charged(&self) -> u64 {
        self.delta.bytes() as u64 - self.empty_bytes
    }
}

impl Deref for ChargedDelta {
    type Target = Delta;
    fn deref(&self) -> &Delta {
        &self.delta
    }
}

impl Drop for ChargedDelta {
    fn drop(&mut self) {
        // First the mark that it is durable is taken back, then its bytes: so
        // `Admission::delta_to_write` never leaves out bytes that are still to be written.
        let carried = self.carried_bytes.load(Ordering::Relaxed);
        if carried > 0 {
            self.admission.carry_no_more(carried);
        }
        let charged = self.charged();
        if charged > 0 {
            self.admission.release_delta(charged);
        }
    }
}

/// A key range with an exclusive upper limit; `None` for no limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeyRange {
    pub(crate) low: Box<[u8]>,
    pub(crate) high: Option<Box<[u8]>>,
}

impl KeyRange {
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        *key >= *self.low && self.high.as_ref().is_none_or(|high| *key < **high)
    }

    /// Whether a table may have keys of the range.
    pub(crate) fn overlaps(&self, table: &TableMeta) -> bool {
        table.overlaps(&self.low, self.high.as_deref())
    }
}

/// The stage of a checkpoint's run of a chunk. It decides the changes that may take effect on the
/// chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunStage {
    /// No run is under way.
    None,
    /// The run is being written, and will go to the log. The tables below it may be rewritten
    /// meanwhile, under the same chunk: the run has an ordinal above theirs, and its edit comes
    /// after the edit of the rewrite.
    ForLog,
    /// The run is being written, and may join the base: the set of tables must stay as it is.
    ForBase,
    /// The run's edit may be in the manifest, but the view does not have the run: an edit of the
    /// tables now would come after it and leave the run out.
    Named,
}

/// The data under the latch.
pub(crate) struct ChunkWriter {
    /// The view's active delta.
    pub(crate) active: Arc<ChargedDelta>,
    /// The chunk is in the dirty queue for the active delta's checkpoint.
    pub(crate) queued: bool,
    /// Successors have taken over; puts go to them.
    pub(crate) retired: bool,
    /// Puts wait: an ingest is about to take over.
    pub(crate) held: bool,
    /// The state of a checkpoint's run of this chunk.
    pub(crate) run: RunStage,
    /// The base is being rewritten: no run may join it.
    pub(crate) rebalancing: bool,
    /// A munk is being built: deltas that become durable are kept for it.
    pub(crate) loading: bool,
    /// No record of the chunk has a greater version: a read of it at that version or later is still
    /// valid.
    pub(crate) changed_at: Version,
    /// The version of its last single delete: later records have a greater one.
    pub(crate) single_at: Version,
    /// The ranges that pops have left empty.
    pub(crate) emptied: Emptied,
}

/// The use of a chunk; decayed by the policy.
#[derive(Default)]
pub(crate) struct Heat {
    /// `gets`: gets that no delta answered. `gets_outside`: gets that no span answered, either.
    pub(crate) gets: AtomicU32,
    pub(crate) gets_outside: AtomicU32,
    pub(crate) scans: AtomicU32,
    pub(crate) puts: AtomicU32,
    /// Decayed sums of the above, as `f32` bits; written by the policy alone.
    pub(crate) get_heat: AtomicU32,
    pub(crate) scan_heat: AtomicU32,
    pub(crate) write_heat: AtomicU32,
    /// Bytes that checkpoints wrote into the chunk's log since the last look.
    pub(crate) logged: AtomicU64,
    /// The decayed sum of these bytes, as `f32` bits; written by the slow round alone.
    pub(crate) log_rate: AtomicU32,
}

impl Heat {
    /// Counts one event, and returns the count. It is Relaxed and no atomic addition: a lost count
    /// does no harm, but a locked instruction on a line that every reader of a hot chunk shares
    /// would.
    #[inline]
    pub(crate) fn count(counter: &AtomicU32) -> u32 {
        let count = counter.load(Ordering::Relaxed).wrapping_add(1);
        counter.store(count, Ordering::Relaxed);
        count
    }

    /// Gets and refills of scans, decayed.
    pub(crate) fn reads(&self) -> f32 {
        Heat::load(&self.get_heat) + Heat::load(&self.scan_heat)
    }

    /// Empties the counters into the decayed sums, after multiplying the sums by `left`. Returns
    /// the counts.
    pub(crate) fn fold(&self, left: f32) -> Counted {
        let take = |counter: &AtomicU32| counter.swap(0, Ordering::Relaxed) as f32;
        let fold = |counter: &AtomicU32, sum: &AtomicU32| {
            let new = take(counter);
            sum.store((Heat::load(sum) * left + new).to_bits(), Ordering::Relaxed);
            new
        };
        Counted {
            gets: fold(&self.gets, &self.get_heat),
            gets_outside: take(&self.gets_outside),
            scans: fold(&self.scans, &self.scan_heat),
            puts: fold(&self.puts, &self.write_heat),
        }
    }

    /// Takes a share of the heat of a chunk that this one replaces.
    pub(crate) fn inherit(&self, old: &Heat, new_chunks: usize) {
        for (mine, old) in [
            (&self.get_heat, &old.get_heat),
            (&self.scan_heat, &old.scan_heat),
            (&self.write_heat, &old.write_heat),
            (&self.log_rate, &old.log_rate),
        ] {
            let sum = Heat::load(mine) + Heat::load(old) / new_chunks as f32;
            mine.store(sum.to_bits(), Ordering::Relaxed);
        }
    }

    pub(crate) fn load(counter: &AtomicU32) -> f32 {
        f32::from_bits(counter.load(Ordering::Relaxed))
    }
}

/// The counts that a round of the memory policy took from a chunk's counters, or from all chunks.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) gets: f32,
    pub(crate) gets_outside: f32,
    pub(crate) scans: f32,
    pub(crate) puts: f32,
}

impl Counted {
    /// The sum of these counts and `other`.
    pub(crate) fn and(self, other: Counted) -> Counted {
        Counted {
            gets: self.gets + other.gets,
            gets_outside: self.gets_outside + other.gets_outside,
            scans: self.scans + other.scans,
            puts: self.puts + other.puts,
        }
    }
}

/// A contiguous key range of a keyspace.
pub(crate) struct Chunk {
    pub(crate) id: ChunkId,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) range: KeyRange,
    pub(crate) view: ArcCell<View>,
    pub(crate) latch: Mutex<ChunkWriter>,
    token: AtomicBool,
    /// Reads of its funk failed; its jobs stop until the database is reopened.
    pub(crate) damaged: AtomicBool,
    /// The live bytes at which a split last found no place to cut; 0 for never.
    pub(crate) whole_at_bytes: AtomicU64,
    /// The base has all records up to this checkpoint, as far as is known; used only for decisions.
    pub(crate) based_at: AtomicU64,
    /// The last checkpoint at which a run joined the base, or the chunk began as a stream.
    pub(crate) joined_at: AtomicU64,
    /// With guards: the last checkpoint whose spent range deletions were applied to all that they
    /// hide; 0 for none in this life.
    pub(crate) swept_to: AtomicU64,
    /// The chunk waits for the loading of spans, or a load is queued.
    pub(crate) load_wanted: AtomicBool,
    /// Runs that scans have read from disk since the log was last merged; once they cost more than
    /// a merge, a merge is wanted.
    pub(crate) runs_scanned: AtomicU32,
    pub(crate) log_merge_wanted: AtomicBool,
    /// Known once the chunk was rewritten.
    pub(crate) new_share: Share,
    pub(crate) heat: Heat,
    charge: Charge,
}

impl Chunk {
    pub(crate) fn new(
        id: ChunkId,
        keyspace: KeyspaceId,
        range: KeyRange,
        view: View,
        changed_at: Version,
        ledger: Ledger,
    ) -> Chunk {
        let bytes = CHUNK_BYTES + 4 * range.low.len();
        let writer = ChunkWriter {
            active: view.active.clone(),
            queued: false,
            retired: false,
            held: false,
            run: RunStage::None,
            rebalancing: false,
            loading: false,
            changed_at,
            single_at: Version::ZERO,
            emptied: Emptied::default(),
        };
        Chunk {
            id,
            keyspace,
            range,
            view: ArcCell::new(Arc::new(view)),
            latch: Mutex::new(writer),
            token: AtomicBool::new(false),
            damaged: AtomicBool::new(false),
            whole_at_bytes: AtomicU64::new(0),
            based_at: AtomicU64::new(0),
            joined_at: AtomicU64::new(0),
            swept_to: AtomicU64::new(0),
            load_wanted: AtomicBool::new(false),
            runs_scanned: AtomicU32::new(0),
            log_merge_wanted: AtomicBool::new(false),
            new_share: Share::unknown(),
            heat: Heat::default(),
            charge: Charge::new(ledger, Use::Metadata, bytes),
        }
    }

    /// The right to reorganise the chunk, if no job has it.
    pub(crate) fn try_token(&self) -> Option<Token<'_>> {
        // Acquire pairs with the Release of the last owner's drop.
        let free = self
            .token
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        // Made lazily: a token that is made and dropped here would release the owner's.
        free.is_ok().then(|| Token { chunk: self })
    }

    /// Replaces the view; the caller holds the latch.
    pub(crate) fn publish(&self, view: View) {
        self.assert_publishable(&view);
        self.view.replace(Arc::new(view));
    }

    /// Memory charged for the chunk, without the parts of its view.
    pub(crate) fn charged_bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Notes that a table of the chunk could not be read: the jobs of this chunk stop, others go
    /// on. An error that passes (no descriptor left, a merge operator that fails) is no damage. A
    /// chunk with guards is a whole keyspace: there jobs mark the tables that they cannot read, and
    /// go on with others ([`TableHandle::damaged`](crate::tables::TableHandle::damaged)).
    pub(crate) fn note_damage(&self, error: &Error) {
        let is_damage = matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io);
        if is_damage && !self.view.load_full().funk.is_guarded() {
            self.damaged.store(true, Ordering::Relaxed);
        }
    }

    /// Freezes the active delta: a new view gets a fresh active delta of `checkpoint`, and the old
    /// one becomes the first of the frozen deltas, unless it is empty. The caller holds the latch.
    pub(crate) fn freeze(
        &self,
        writer: &mut ChunkWriter,
        checkpoint: u64,
        admission: &Arc<Admission>,
    ) {
        let mut view = (*self.view.load_full()).clone();
        let old = std::mem::replace(&mut view.active, ChargedDelta::new(checkpoint, admission));
        writer.active = view.active.clone();
        writer.queued = false;
        if !old.is_empty() {
            view.frozen.insert(
                0,
                Frozen {
                    delta: old,
                    limits: None,
                    durable: false,
                },
            );
        }
        self.publish(view);
    }
}

/// The right to reorganise a chunk; given back when dropped.
pub(crate) struct Token<'a> {
    chunk: &'a Chunk,
}

impl Drop for Token<'_> {
    fn drop(&mut self) {
        self.chunk.token.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::row_tag::RowTag;
    use super::*;
    use crate::funk::Funk;

    fn chunk() -> Chunk {
        let admission = Arc::new(Admission::new(0, 1 << 20));
        let view = View {
            active: ChargedDelta::new(1, &admission),
            frozen: Vec::new(),
            munk: None,
            funk: Arc::new(Funk::new(Vec::new(), Vec::new(), 0)),
            covers: None,
            row_tag: RowTag::NONE,
        };
        let range = KeyRange {
            low: Box::default(),
            high: None,
        };
        Chunk::new(
            ChunkId(1),
            KeyspaceId(0),
            range,
            view,
            Version::ZERO,
            Ledger::SHARED,
        )
    }

    #[test]
    fn a_refused_token_leaves_the_owner_its_own() {
        let chunk = chunk();
        let token = chunk.try_token().expect("free");
        assert!(chunk.try_token().is_none());
        assert!(
            chunk.try_token().is_none(),
            "the refusal before must not have released it"
        );
        drop(token);
        assert!(chunk.try_token().is_some());
    }
}
