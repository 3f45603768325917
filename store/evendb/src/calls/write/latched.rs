//! The chunks of a write, and their latches.
//!
//! The latches of all chunks are taken in the order of keys and held until the write has happened.
//! Meanwhile no other thread changes these chunks.
//!
//! Thread safety: latches order the writers. Not here: the version ([`super::announcing`]), and how
//! range deletions reach views ([`super::range_deletions`]).

use super::reads::{Found, Read, Reads};
use super::{range_deletions, single_deletes};
use crate::chunk::emptied::Since;
use crate::chunk::{Chunk, ChunkWriter, Heat};
use crate::engine::core::Core;
use crate::manifest::KeyspaceId;
use crate::op::{Op, ranges_of};
use crate::record::RecordRef;
use crate::sync::{Arc, MutexGuard, reclaim};
use crate::version::stamp::BatchStamp;
use evendb_storage::Version;
use smallvec::SmallVec;
use std::ops::Range;

/// A chunk that takes records of a write, or that was read for it.
pub(super) struct Target {
    pub(super) chunk: Arc<Chunk>,
    /// The indexes of the chunk's records in the write; empty if the chunk was only read.
    pub(super) ops: Range<usize>,
    /// The indexes of the range deletions that overlap the chunk.
    pub(super) ranges: Range<usize>,
}

impl Target {
    fn new(chunk: Arc<Chunk>, ops: Range<usize>) -> Target {
        let ranges = 0..0;
        Target { chunk, ops, ranges }
    }

    fn place(&self) -> (KeyspaceId, &[u8]) {
        (self.chunk.keyspace, &self.chunk.range.low)
    }

    fn is_written(&self) -> bool {
        !self.ops.is_empty() || !self.ranges.is_empty()
    }
}

/// From this number of records for one chunk on they are linked all at once.
const SORTED_MIN: usize = if cfg!(any(evendb_loom, evendb_shuttle)) {
    4
} else {
    1024
};

/// The number of chunks for which a write's lists need no memory of the heap.
const TARGETS_INLINE: usize = 16;
pub(super) type Targets = SmallVec<[Target; TARGETS_INLINE]>;
type Guards<'a> = SmallVec<[MutexGuard<'a, ChunkWriter>; TARGETS_INLINE]>;

/// All chunks of a write, in the order of latching, each once: the chunks that take its records,
/// and those that were read for it.
pub(super) fn find(ops: &[Op<'_>], reads: Option<Reads<'_>>) -> Targets {
    let ranges = ranges_of(ops);
    let mut targets = find_targets(ops, ranges);
    if ranges > 0 {
        range_deletions::add_targets(&mut targets, &ops[..ranges]);
    }
    if let Some(reads) = reads {
        add_read_chunks(&mut targets, reads.all);
    }
    if ranges > 0 || reads.is_some() {
        put_in_order(&mut targets);
    }
    targets
}

/// The chunks that take `ops`, in ascending order, each once.
fn find_targets(ops: &[Op<'_>], ranges: usize) -> Targets {
    let pin = reclaim::pin();
    let mut targets = Targets::new();
    for (place, op) in ops.iter().enumerate().skip(ranges) {
        let key = op.record.key();
        let end = place + 1;
        match targets.last_mut() {
            Some(Target {
                chunk, ops: own, ..
            }) if chunk.keyspace == op.keyspace.id && chunk.range.contains(key) => {
                own.end = end;
            }
            _ => {
                let chunk = op.keyspace.index.load(&pin).get().find(key).clone();
                targets.push(Target::new(chunk, place..end));
            }
        }
    }
    targets
}

/// Adds the chunks that were read.
fn add_read_chunks(targets: &mut Targets, reads: &[Read]) {
    let pin = reclaim::pin();
    for read in reads {
        let index = read.keyspace.index.load(&pin);
        let chunks = read.span.chunks(index.get());
        targets.extend(chunks.map(|chunk| Target::new(chunk.clone(), 0..0)));
    }
}

/// Sorts targets into the order of latching, each chunk once. If a root changed while they were
/// gathered, one of the chunks is retired, and the caller begins again.
fn put_in_order(targets: &mut Targets) {
    targets.sort_by(|a, b| (a.place(), a.ranges.start).cmp(&(b.place(), b.ranges.start)));
    // One chunk may occur for its records and for neighbouring range deletions.
    targets.dedup_by(|next, kept| {
        let same = Arc::ptr_eq(&next.chunk, &kept.chunk);
        if same && !next.ops.is_empty() {
            kept.ops = next.ops.clone();
        }
        if same && kept.ranges.is_empty() {
            kept.ranges = next.ranges.clone();
        } else if same && !next.ranges.is_empty() {
            kept.ranges.end = next.ranges.end;
        }
        same
    });
}

/// What a write puts into each of its records: its version and, in a batch, its stamp.
#[derive(Clone, Copy)]
pub(super) struct Mark<'s> {
    pub(super) version: Version,
    pub(super) stamp: Option<&'s BatchStamp>,
}

impl Mark<'_> {
    #[inline]
    pub(super) fn put_into(self, record: &mut RecordRef) {
        match self.stamp {
            Some(stamp) => record.set_stamp(stamp, self.version),
            None => record.set_version(self.version),
        }
    }
}

/// The chunks of a write, each with its latch.
pub(super) struct Latched<'t> {
    targets: &'t [Target],
    guards: Guards<'t>,
}

impl<'t> Latched<'t> {
    /// Takes the latches of all chunks, in their order.
    #[inline]
    pub(super) fn take(core: &Core, targets: &'t [Target]) -> Latched<'t> {
        let mut latched = Latched {
            targets,
            guards: Guards::new(),
        };
        let latches = targets.iter().map(|target| latch(core, &target.chunk));
        latched.guards.extend(latches);
        latched
    }

    /// Releases all latches early, as a planted fault.
    pub(super) fn let_go(&mut self) {
        self.guards.clear();
    }

    /// The number of chunks.
    pub(super) fn chunks(&self) -> usize {
        self.targets.len()
    }

    /// Whether a chunk was replaced by others meanwhile.
    pub(super) fn any_is_retired(&self) -> bool {
        self.guards.iter().any(|writer| writer.retired)
    }

    /// Whether an ingest holds a chunk that takes records.
    pub(super) fn any_is_held(&mut self) -> bool {
        self.written().any(|(_, writer)| writer.held)
    }

    /// All chunks with what their latches protect.
    #[inline]
    pub(super) fn all(&self) -> impl Iterator<Item = (&'t Target, &ChunkWriter)> {
        let writers = self.guards.iter().map(|guard| &**guard);
        self.targets.iter().zip(writers)
    }

    /// Like [`all`](Self::all), to change the chunks.
    #[inline]
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = (&'t Target, &mut ChunkWriter)> {
        let writers = self.guards.iter_mut().map(|guard| &mut **guard);
        self.targets.iter().zip(writers)
    }

    /// The chunks that take records, without the chunks that were only read.
    #[inline]
    pub(super) fn written(&mut self) -> impl Iterator<Item = (&'t Arc<Chunk>, &mut ChunkWriter)> {
        self.all_mut()
            .filter(|(target, _)| target.is_written())
            .map(|(target, writer)| (&target.chunk, writer))
    }

    /// Tells whether something that was read has changed. No other thread writes to these chunks
    /// while their latches are held.
    pub(super) fn find_changes(&self, core: &Core, reads: Reads<'_>) -> Found {
        let mut found = Found::Same;
        for read in reads.all {
            let place = (read.keyspace.id, read.span.low());
            let behind = self
                .targets
                .partition_point(|target| target.place() <= place);
            for (target, writer) in self.all().skip(behind.saturating_sub(1)) {
                let chunk = &*target.chunk;
                let since = (reads.since, reads.time);
                found = found.max(read.span.look(chunk, writer, since, core));
                if !read.goes_on_behind(chunk) {
                    break;
                }
            }
        }
        found
    }

    /// Links the records of `ops` into the active deltas of their chunks. `singles` says that some
    /// of them are single deletes. If `tells`, the chunk is told of each record that falls into a
    /// range emptied by pops. Returns delta bytes before and after.
    pub(super) fn link(
        &mut self,
        ops: &mut [Op<'_>],
        mark: Mark<'_>,
        singles: bool,
        tells: bool,
    ) -> (u64, u64) {
        // One pin for all records: the first pin costs a fence, nested pins cost next to nothing.
        let _pin = mark.stamp.map(|_| reclaim::pin());
        let (mut before, mut after) = (0, 0);
        for (target, writer) in self.all_mut() {
            if target.ops.is_empty() {
                continue;
            }
            writer.changed_at = mark.version;
            let own = &mut ops[target.ops.clone()];
            if singles {
                single_deletes::note(own, writer, mark.version);
            }
            let ChunkWriter {
                active: delta,
                emptied,
                ..
            } = writer;
            before += delta.bytes() as u64;
            let is_long = own.len() >= SORTED_MIN;
            let ready = own.iter_mut().map(|op| {
                let record = op.folded.as_mut().unwrap_or(&mut op.record);
                Heat::count(&target.chunk.heat.puts);
                mark.put_into(record);
                if tells && !record.kind().is_tombstone() {
                    emptied.touch(record.key());
                }
                record.clone()
            });
            match is_long {
                true => delta.insert_sorted(ready),
                false => ready.for_each(|record| delta.insert(record)),
            }
            after += delta.bytes() as u64;
        }
        (before, after)
    }

    /// Tells the chunks which ranges the write has left empty: a pop found nothing there except the
    /// record that it takes. The check that nothing newer has come there was made under the same
    /// latches.
    pub(super) fn note_emptied(&mut self, reads: Reads<'_>, version: Version) {
        let time = reads.time;
        for read in reads.all.iter().filter(|read| read.empties) {
            for (target, writer) in self.all_mut() {
                if target.chunk.keyspace == read.keyspace.id {
                    let since = Since { version, time };
                    read.span.note_emptied(&target.chunk, writer, since);
                }
            }
        }
    }
}

/// Locks a chunk's latch. The wait is timed only when another thread holds it.
fn latch<'c>(core: &Core, chunk: &'c Chunk) -> MutexGuard<'c, ChunkWriter> {
    match chunk.latch.try_lock() {
        Some(guard) => guard,
        None => core.metrics.pauses.chunk.time(|| chunk.latch.lock()),
    }
}
