//! The one write path: a put or delete is a batch of one.
//!
//! Order of steps (protocols in docs/concurrency.md): limits; admission (room in the commit log
//! and in delta memory, holding nothing); latches of all chunks in key order; announce a version;
//! copy into the commit log; link into the deltas; commit the batch's stamp; withdraw; unlatch;
//! wait for durability. Once the record is in the commit log nothing can fail (I12). Between
//! announcing and withdrawing the writer waits only for older announced operations and the ring
//! latch (I9).

pub(crate) mod admission;
pub(crate) mod commit_log;
mod log_room;
pub(crate) mod payload;
pub(crate) mod value_extents;

use crate::ballast::Need;
use crate::chunk::record::{BatchStamp, RecordRef};
use crate::chunk::{ChargedDelta, Chunk, Heat, Writer};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::keyspace::KeyspaceState;
use crate::metrics::sample;
use crate::options::Durability;
use crate::plant::planted;
use crate::sync::{Arc, MutexGuard, epoch};
use crate::trace;
use crate::version::clock::checkpoint_of;
use admission::Refused;
use commit_log::{CommitLog, Lsn};
use evendb_storage::{Kind, Version};
use payload::Encoded;
use smallvec::SmallVec;

/// Longest key, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 65_535;

/// What a record counts beside its key and value towards the largest write: about what is kept with it in
/// memory. A number of the interface, said in its documentation; what is reserved is counted exactly.
const COUNTED_BYTES: u64 = 64;

/// One record to write.
pub(crate) struct Op<'a> {
    pub(crate) keyspace: &'a KeyspaceState,
    pub(crate) record: RecordRef,
}

/// What a record takes of a page of its delta: 11 bytes where the page is full, 21 where a split has just
/// halved it, and a little of the directory. The first records of a delta take more, which is charged
/// when they are linked.
const INDEX_BYTES: u64 = 24;

/// What is reserved for a record: itself and its part of the delta's pages.
pub(crate) fn memory_bytes(record: &RecordRef) -> u64 {
    record.memory_bytes() as u64 + INDEX_BYTES
}

type Chunks = SmallVec<[Arc<Chunk>; 1]>;
type Guards<'a> = SmallVec<[MutexGuard<'a, Writer>; 1]>;

/// Whether `ops` give space back in the end: those may use what is kept back for a full disk.
pub(crate) fn deletes_only(ops: &[Op<'_>]) -> bool {
    ops.iter().all(|op| op.record.kind() == Kind::Delete)
}

/// Rejects keys and values that are over the limits.
pub(crate) fn check_limits(key: &[u8], value: &[u8]) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        let message = format!(
            "a key of {} bytes; at most {KEY_BYTES_MAX} are allowed",
            key.len()
        );
        return Err(Error::new(ErrorKind::KeyTooLarge, message));
    }
    if u32::try_from(value.len()).is_err() {
        let message = format!(
            "a value of {} bytes; at most 4 GiB - 1 are allowed",
            value.len()
        );
        return Err(Error::new(ErrorKind::ValueTooLarge, message));
    }
    Ok(())
}

/// What admission reserved for a write, given back if the write does not happen.
struct Reserved<'a> {
    engine: &'a Engine,
    ring_bytes: u64,
    delta_bytes: u64,
}

impl Reserved<'_> {
    /// The record is in the ring, and the deltas' memory went from `before` to `after`: the ledger
    /// takes the difference between that and what was reserved.
    fn used(mut self, before: u64, after: u64) {
        self.ring_bytes = 0;
        let held = self.delta_bytes + before;
        if after > held {
            // A page grew by more than its share: charged afterwards, it was never refusable.
            self.engine.admission.adopt(0, after - held);
        }
        self.delta_bytes = held.saturating_sub(after);
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if self.ring_bytes > 0 || self.delta_bytes > 0 {
            self.engine
                .admission
                .return_unused(self.ring_bytes, self.delta_bytes);
        }
    }
}

impl Engine {
    /// Writes `ops` as one: sorted by (keyspace, key), each key once.
    pub(crate) fn write(&self, ops: &mut [Op<'_>], durability: Durability) -> Result<()> {
        if ops.is_empty() {
            return Ok(());
        }
        self.check_writable()?;
        let durability = durability.max(self.options.durability);
        if durability == Durability::Sync {
            self.settle_inherited()?;
        }
        let started = sample();
        let payload_bytes = payload::bytes(ops);
        self.check_batch_size(ops)?;
        let delta_bytes: u64 = ops.iter().map(|op| memory_bytes(&op.record)).sum();
        let encoded = self.encode(ops, payload_bytes, durability)?;
        let ring_bytes = match &self.commit_log {
            Some(_) => CommitLog::record_bytes(encoded.len()),
            None => 0,
        };
        self.admit(ring_bytes, delta_bytes, deletes_only(ops))
            .inspect_err(|_| self.discard(&encoded))?;
        let reserved = Reserved {
            engine: self,
            ring_bytes,
            delta_bytes,
        };
        let written = self.write_admitted(ops, &encoded, reserved, started);
        let (end, version) = written.inspect_err(|_| self.discard(&encoded))?;
        self.count_written(ops, ring_bytes);
        self.wait_for_durability(end, version, durability)
    }

    /// Refuses a record that could not be written even alone.
    pub(crate) fn check_value_size(&self, key_len: usize, value_len: usize) -> Result<()> {
        let bytes_max = self.options.memory_budget / 4 - COUNTED_BYTES;
        if (key_len + value_len) as u64 <= bytes_max {
            return Ok(());
        }
        let message = format!(
            "a value of {value_len} bytes with a key of {key_len}; together they may have {bytes_max}, which is \
             a quarter of the memory budget less {COUNTED_BYTES}: cut the value, or raise the budget"
        );
        Err(Error::new(ErrorKind::ValueTooLarge, message))
    }

    /// Refuses what is too much at once. Each record alone was checked.
    fn check_batch_size(&self, ops: &[Op<'_>]) -> Result<()> {
        if ops.len() == 1 {
            return Ok(());
        }
        let counted =
            |op: &Op<'_>| (op.record.key().len() + op.record.value().len()) as u64 + COUNTED_BYTES;
        let bytes: u64 = ops.iter().map(counted).sum();
        let bytes_max = self.options.memory_budget / 4;
        if bytes <= bytes_max {
            return Ok(());
        }
        let message = format!(
            "a batch that counts {bytes} bytes, for each of its {} records key, value and {COUNTED_BYTES}; \
             {bytes_max}, a quarter of the memory budget, is the most: commit it in parts, or raise the \
             budget",
            ops.len()
        );
        Err(Error::new(ErrorKind::BatchTooLarge, message))
    }

    fn count_written(&self, ops: &[Op<'_>], ring_bytes: u64) {
        let mut bytes = 0;
        let mut deletes = 0;
        for op in ops {
            bytes += (op.record.key().len() + op.record.value().len()) as u64;
            deletes += u64::from(op.record.kind() == Kind::Delete);
        }
        let metrics = &self.metrics;
        metrics.bytes_user.add(bytes);
        metrics.bytes_commit_log.add(ring_bytes);
        metrics.puts.add(ops.len() as u64 - deletes);
        if deletes > 0 {
            metrics.deletes.add(deletes);
        }
        if ops.len() > 1 {
            metrics.batches.add(1);
        }
    }

    /// The body for the commit log; one that does not fit goes to a value extent first.
    fn encode(
        &self,
        ops: &[Op<'_>],
        payload_bytes: u64,
        durability: Durability,
    ) -> Result<Encoded> {
        let Some(_) = &self.commit_log else {
            return Ok(Encoded::empty());
        };
        if self.log_takes(payload_bytes) {
            return Ok(Encoded::inline(ops));
        }
        let sync_first = durability == Durability::Sync;
        let write = || {
            let id = self.new_id();
            Ok(self.value_extents.write(id, ops, sync_first)?)
        };
        let encoded = match deletes_only(ops) {
            true => self.with_ballast(Need::Deletes, write)?,
            false => {
                self.check_ballast()?;
                write()?
            }
        };
        self.metrics.bytes_value_extents.add(payload_bytes);
        if encoded.extent_name().is_some_and(|name| name.is_synced) {
            let names = self.value_extents.sync_names();
            names.map_err(|error| self.latch_error(error.into()))?;
        }
        Ok(encoded)
    }

    /// The extent, if there is one, that a write did not come to name.
    fn discard(&self, encoded: &Encoded) {
        // After a failure it is not known what the disk names.
        if self.failure().is_none() {
            self.value_extents.discard(encoded);
        }
    }

    fn write_admitted(
        &self,
        ops: &mut [Op<'_>],
        encoded: &Encoded,
        reserved: Reserved<'_>,
        started: Option<std::time::Instant>,
    ) -> Result<(Lsn, Version)> {
        loop {
            let chunks = find_chunks(ops);
            let mut guards: Guards<'_> = chunks.iter().map(|chunk| self.latch(chunk)).collect();
            if guards.iter().any(|writer| writer.retired) {
                continue;
            }
            let written = self.write_latched(ops, encoded, reserved, &chunks, &mut guards);
            drop(guards);
            if let Some(started) = started {
                let pause = started.elapsed().as_nanos() as u64;
                self.metrics.pauses.put(pause);
            }
            return written;
        }
    }

    /// A chunk's latch; only who must wait for it takes a clock.
    fn latch<'c>(&self, chunk: &'c Chunk) -> MutexGuard<'c, Writer> {
        match chunk.latch.try_lock() {
            Some(guard) => guard,
            None => self.metrics.pauses.chunk.time(|| chunk.latch.lock()),
        }
    }

    /// Announce, log, link, withdraw: the caller holds the latches of all chunks concerned.
    fn write_latched(
        &self,
        ops: &mut [Op<'_>],
        encoded: &Encoded,
        reserved: Reserved<'_>,
        chunks: &Chunks,
        guards: &mut Guards<'_>,
    ) -> Result<(Lsn, Version)> {
        let announcement = loop {
            for (chunk, writer) in chunks.iter().zip(guards.iter_mut()) {
                self.make_dirty(chunk, writer);
            }
            let announcement = self.clock.announce();
            self.check_writable()?;
            if let Some(op) = ops.iter().find(|op| op.keyspace.is_dropped()) {
                return Err(op.keyspace.dropped_error());
            }
            let checkpoint = checkpoint_of(announcement.version());
            if guards
                .iter()
                .all(|writer| writer.active.checkpoint() == checkpoint)
                || planted!(self.options, NoFreeze)
            {
                break announcement;
            }
            // A checkpoint began: its delta is complete. Freezing under an announcement would hold
            // the checkpoint up, so withdraw first.
            drop(announcement);
            for (chunk, writer) in chunks.iter().zip(guards.iter_mut()) {
                if writer.active.checkpoint() < checkpoint {
                    let freeze = || chunk.freeze(writer, checkpoint, &self.admission);
                    self.metrics.pauses.freeze.time(freeze);
                }
            }
        };
        let version = announcement.version();
        let stamp = (ops.len() > 1).then(|| BatchStamp::new(version));
        for op in ops.iter_mut() {
            match &stamp {
                Some(stamp) => op.record.set_stamp(stamp),
                None => op.record.set_version(version),
            }
        }
        let end = match &self.commit_log {
            Some(log) => log
                .append(version, &encoded.parts(ops))
                .map_err(|error| self.latch_error(error.into()))?,
            None => Lsn(0),
        };
        self.value_extents.note(encoded, end);
        let deltas: SmallVec<[Arc<ChargedDelta>; 1]> =
            guards.iter().map(|writer| writer.active.clone()).collect();
        let before: u64 = deltas.iter().map(|delta| delta.bytes() as u64).sum();
        if planted!(self.options, EarlyStamp)
            && let Some(stamp) = &stamp
        {
            stamp.commit();
        }
        let mut at = 0;
        for op in ops.iter() {
            at += chunks[at..]
                .iter()
                .position(|chunk| {
                    chunk.keyspace == op.keyspace.id && chunk.range.contains(op.record.key())
                })
                .expect("every op's chunk was looked up");
            Heat::count(&chunks[at].heat.puts);
            deltas[at].insert(op.record.clone());
        }
        let after: u64 = deltas.iter().map(|delta| delta.bytes() as u64).sum();
        if planted!(self.options, EarlyUnlatch) {
            guards.clear();
        }
        if let Some(stamp) = &stamp {
            stamp.commit();
        }
        drop(announcement);
        if let Some(stamp) = &stamp {
            for op in ops.iter() {
                op.record.settle(stamp);
            }
        }
        reserved.used(before, after);
        Ok((end, version))
    }

    /// Queues the chunk for the checkpoint that will flush its active delta.
    fn make_dirty(&self, chunk: &Arc<Chunk>, writer: &mut Writer) {
        let now = checkpoint_of(self.clock.now());
        if writer.active.is_empty() && writer.active.checkpoint() < now {
            chunk.freeze(writer, now, &self.admission);
        }
        if !writer.queued {
            self.dirty
                .lock()
                .push((Arc::downgrade(chunk), writer.active.checkpoint()));
            writer.queued = true;
            // From now on a checkpoint is due.
            self.work.stir();
        }
    }

    /// Reserves room, holding nothing; a full ring or full memory waits for a checkpoint, but not for
    /// one that finds no room on the disk.
    fn admit(&self, ring_bytes: u64, delta_bytes: u64, deletes: bool) -> Result<()> {
        let watch = trace::Stopwatch::start();
        self.reserve_disk(delta_bytes, deletes)?;
        self.grow_log_for(ring_bytes, deletes)?;
        let reserve = || {
            self.admission
                .reserve(ring_bytes, delta_bytes, &|| self.relieve())
        };
        let mut admitted = reserve();
        if deletes && admitted == Err(Refused::Dismissed) {
            // What it can do itself it does, and asks once more.
            self.make_room_for(delta_bytes)?;
            admitted = reserve();
        }
        admitted.map_err(|refused| self.refusal(refused))?;
        let waited_micros = watch.micros();
        if waited_micros >= trace::STALL_MICROS {
            trace::event!(
                WARN,
                "stalled",
                ring_bytes = ring_bytes,
                delta_bytes = delta_bytes,
                duration_micros = waited_micros
            );
        }
        self.checkpoint_if_half_full();
        self.work.stir_gently();
        Ok(())
    }

    fn wait_for_durability(
        &self,
        end: Lsn,
        version: Version,
        durability: Durability,
    ) -> Result<()> {
        match (&self.commit_log, durability) {
            (Some(log), Durability::Sync) => log
                .wait_durable(end)
                .map_err(|error| self.latch_error(error.into())),
            (None, Durability::Process | Durability::Sync) => {
                self.wait_for_checkpoint(checkpoint_of(version))
            }
            _ => Ok(()),
        }
    }
}

/// The chunks that take `ops`, ascending, each once.
fn find_chunks(ops: &[Op<'_>]) -> Chunks {
    let pin = epoch::pin();
    let mut chunks = Chunks::new();
    for op in ops {
        let key = op.record.key();
        let known = chunks.last().is_some_and(|chunk: &Arc<Chunk>| {
            chunk.keyspace == op.keyspace.id && chunk.range.contains(key)
        });
        if !known {
            chunks.push(op.keyspace.index.load(&pin).get().find(key).clone());
        }
    }
    chunks
}
