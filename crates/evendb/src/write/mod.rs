//! The one write path: a put or delete is a batch of one.
//!
//! Order of steps (protocols in docs/concurrency.md): limits; admission (room in the commit log
//! and in delta memory, holding nothing); latches of all chunks in key order; announce a version;
//! copy into the commit log; link into the deltas; commit the batch's stamp; withdraw; unlatch;
//! wait for durability. Once the record is in the commit log nothing can fail (I12). Between
//! announcing and withdrawing the writer waits only for older announced operations and the ring
//! latch (I9).

use crate::admission::Refused;
use crate::ballast::Need;
use crate::chunk::{ChargedDelta, Chunk, ChunkWriter, Heat};
use crate::commit_log::{CommitLog, Lsn};
use crate::engine::Engine;
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::engine::flow::Flow;
use crate::engine::log::Log;
use crate::engine::work::Work;
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::sample;
use crate::op::{COUNTED_BYTES, Op, deletes_only, memory_bytes};
use crate::options::Durability;
use crate::payload::{self, Encoded};
use crate::plant::planted;
use crate::record::BatchStamp;
use crate::sync::{Arc, MutexGuard, reclaim};
use crate::version::clock::{Announcement, checkpoint_of};
use crate::{checkpoint, disk_room, full_disk, log_room, trace, worker};
use evendb_storage::{Kind, Version};
use smallvec::SmallVec;

type Chunks = SmallVec<[Arc<Chunk>; 1]>;
type Guards<'a> = SmallVec<[MutexGuard<'a, ChunkWriter>; 1]>;

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
            // A page grew by more than its share. That is charged afterwards: it could not be refused
            // any more.
            self.engine.core.admission.adopt(0, after - held);
        }
        self.delta_bytes = held.saturating_sub(after);
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if self.ring_bytes > 0 || self.delta_bytes > 0 {
            self.engine
                .core
                .admission
                .return_unused(self.ring_bytes, self.delta_bytes);
        }
    }
}

/// Writes `ops` as one. They are sorted by (keyspace, key), each key once.
pub(crate) fn write(engine: &Engine, ops: &mut [Op<'_>], durability: Durability) -> Result<()> {
    if ops.is_empty() {
        return Ok(());
    }
    engine.core.health.check_writable()?;
    let durability = durability.max(engine.core.options.durability);
    if durability == Durability::Sync {
        checkpoint::take_inherited(engine)?;
    }
    let started = sample();
    let payload_bytes = payload::bytes(ops);
    check_batch_size(&engine.core, ops)?;
    let delta_bytes: u64 = ops.iter().map(|op| memory_bytes(&op.record)).sum();
    let encoded = encode(engine, ops, payload_bytes, durability)?;
    let ring_bytes = match &engine.log.commit_log {
        Some(_) => CommitLog::record_bytes(encoded.len()),
        None => 0,
    };
    admit(engine, ring_bytes, delta_bytes, deletes_only(ops))
        .inspect_err(|_| discard(&engine.core, &engine.log, &encoded))?;
    let reserved = Reserved {
        engine,
        ring_bytes,
        delta_bytes,
    };
    let written = write_admitted(engine, ops, &encoded, reserved, started);
    let (end, version) = written.inspect_err(|_| discard(&engine.core, &engine.log, &encoded))?;
    count_written(&engine.core, ops, ring_bytes);
    wait_for_durability(engine, end, version, durability)
}

/// Refuses a record that could not be written even alone.
pub(crate) fn check_value_size(core: &Core, key_len: usize, value_len: usize) -> Result<()> {
    let bytes_max = core.options.memory_budget / 4 - COUNTED_BYTES;
    if (key_len + value_len) as u64 <= bytes_max {
        return Ok(());
    }
    let message = format!(
        "a value of {value_len} bytes with a key of {key_len}; together they may have {bytes_max}, which is \
         a quarter of the memory budget less {COUNTED_BYTES}: cut the value, or raise the budget"
    );
    Err(Error::new(ErrorKind::ValueTooLarge, message))
}

/// Refuses a batch that is too large as a whole. Each of its records has been checked alone.
fn check_batch_size(core: &Core, ops: &[Op<'_>]) -> Result<()> {
    if ops.len() == 1 {
        return Ok(());
    }
    let counted =
        |op: &Op<'_>| (op.record.key().len() + op.record.value().len()) as u64 + COUNTED_BYTES;
    let bytes: u64 = ops.iter().map(counted).sum();
    let bytes_max = core.options.memory_budget / 4;
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

fn count_written(core: &Core, ops: &[Op<'_>], ring_bytes: u64) {
    let mut bytes = 0;
    let mut deletes = 0;
    for op in ops {
        bytes += (op.record.key().len() + op.record.value().len()) as u64;
        deletes += u64::from(op.record.kind() == Kind::Delete);
    }
    let metrics = &core.metrics;
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
    engine: &Engine,
    ops: &[Op<'_>],
    payload_bytes: u64,
    durability: Durability,
) -> Result<Encoded> {
    let (core, disk, log) = (&engine.core, &engine.disk, &engine.log);
    let Some(_) = &log.commit_log else {
        return Ok(Encoded::empty());
    };
    if log_room::log_takes(core, disk, log, payload_bytes) {
        return Ok(Encoded::inline(ops));
    }
    let sync_first = durability == Durability::Sync;
    let write = || Ok(log.value_extents.write(disk.new_id(), ops, sync_first)?);
    let encoded = match deletes_only(ops) {
        true => disk_room::with_ballast(disk, Need::Deletes, write)?,
        false => {
            disk_room::check_ballast(core, disk, &engine.catalog)?;
            write()?
        }
    };
    core.metrics.bytes_value_extents.add(payload_bytes);
    if encoded.extent_name().is_some_and(|name| name.is_synced) {
        let names = log.value_extents.sync_names();
        names.map_err(|error| core.health.latch(error.into()))?;
    }
    Ok(encoded)
}

/// Removes the value extent of a write that failed before its record named it.
fn discard(core: &Core, log: &Log, encoded: &Encoded) {
    // After a failure it is not known what the disk names.
    if core.health.may_remove() {
        log.value_extents.discard(encoded);
    }
}

/// Why admission was refused: closed, or failed, or the disk is full.
fn refusal(core: &Core, disk: &Disk, refused: Refused) -> Error {
    match (core.health.check_healthy(), refused) {
        (Err(error), _) => error,
        (Ok(()), Refused::Dismissed) => disk.full_disk.last_error(&disk.dir),
        (Ok(()), Refused::Cancelled) => Error::closed(),
    }
}

fn write_admitted(
    engine: &Engine,
    ops: &mut [Op<'_>],
    encoded: &Encoded,
    reserved: Reserved<'_>,
    started: Option<std::time::Instant>,
) -> Result<(Lsn, Version)> {
    loop {
        let chunks = find_chunks(ops);
        let mut guards: Guards<'_> = chunks
            .iter()
            .map(|chunk| latch(&engine.core, chunk))
            .collect();
        if guards.iter().any(|writer| writer.retired) {
            continue;
        }
        let written = write_latched(engine, ops, encoded, reserved, &chunks, &mut guards);
        drop(guards);
        if let Some(started) = started {
            let pause = started.elapsed().as_nanos() as u64;
            engine.core.metrics.pauses.put(pause);
        }
        return written;
    }
}

/// A chunk's latch. The clock is read only where the latch must be waited for.
fn latch<'c>(core: &Core, chunk: &'c Chunk) -> MutexGuard<'c, ChunkWriter> {
    match chunk.latch.try_lock() {
        Some(guard) => guard,
        None => core.metrics.pauses.chunk.time(|| chunk.latch.lock()),
    }
}

/// Announces a write at a version of whose checkpoint the active deltas of its chunks are. The caller holds
/// the latches of those.
#[inline]
fn announce<'e>(
    engine: &'e Engine,
    ops: &[Op<'_>],
    chunks: &Chunks,
    guards: &mut Guards<'_>,
) -> Result<Announcement<'e>> {
    loop {
        for (chunk, writer) in chunks.iter().zip(guards.iter_mut()) {
            chunk.assert_writer(writer);
            make_dirty(&engine.core, &engine.flow, &engine.work, chunk, writer);
        }
        let announcement = engine.core.clock.announce();
        engine.core.health.check_writable()?;
        if let Some(op) = ops.iter().find(|op| op.keyspace.is_dropped()) {
            return Err(op.keyspace.dropped_error());
        }
        let checkpoint = checkpoint_of(announcement.version());
        if guards
            .iter()
            .all(|writer| writer.active.checkpoint() == checkpoint)
            || planted!(engine.core.options, NoFreeze)
        {
            return Ok(announcement);
        }
        // A checkpoint began: its delta is complete. Freezing under an announcement would hold
        // the checkpoint up, so withdraw first.
        drop(announcement);
        for (chunk, writer) in chunks.iter().zip(guards.iter_mut()) {
            if writer.active.checkpoint() < checkpoint {
                let freeze = || chunk.freeze(writer, checkpoint, &engine.core.admission);
                engine.core.metrics.pauses.freeze.time(freeze);
            }
        }
    }
}

/// Announces, logs, links and withdraws. The caller holds the latches of all chunks concerned.
fn write_latched(
    engine: &Engine,
    ops: &mut [Op<'_>],
    encoded: &Encoded,
    reserved: Reserved<'_>,
    chunks: &Chunks,
    guards: &mut Guards<'_>,
) -> Result<(Lsn, Version)> {
    let announcement = announce(engine, ops, chunks, guards)?;
    let version = announcement.version();
    let stamp = (ops.len() > 1).then(|| BatchStamp::new(version));
    for op in ops.iter_mut() {
        match &stamp {
            Some(stamp) => op.record.set_stamp(stamp),
            None => op.record.set_version(version),
        }
    }
    let end = match &engine.log.commit_log {
        Some(log) => log
            .append(version, &encoded.parts(ops))
            .map_err(|error| engine.core.health.latch(error.into()))?,
        None => Lsn(0),
    };
    engine.log.value_extents.note(encoded, end);
    let deltas: SmallVec<[Arc<ChargedDelta>; 1]> =
        guards.iter().map(|writer| writer.active.clone()).collect();
    let before: u64 = deltas.iter().map(|delta| delta.bytes() as u64).sum();
    if planted!(engine.core.options, EarlyStamp)
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
    if planted!(engine.core.options, EarlyUnlatch) {
        guards.clear();
    }
    if let Some(stamp) = &stamp {
        stamp.commit();
    }
    drop(announcement);
    if let Some(stamp) = &stamp {
        for op in ops.iter() {
            op.record.take_version_of(stamp);
        }
    }
    reserved.used(before, after);
    Ok((end, version))
}

/// Queues the chunk for the checkpoint that will flush its active delta.
fn make_dirty(core: &Core, flow: &Flow, work: &Work, chunk: &Arc<Chunk>, writer: &mut ChunkWriter) {
    let now = checkpoint_of(core.clock.now());
    if writer.active.is_empty() && writer.active.checkpoint() < now {
        chunk.freeze(writer, now, &core.admission);
    }
    if !writer.queued {
        flow.dirty
            .lock()
            .push((Arc::downgrade(chunk), writer.active.checkpoint()));
        writer.queued = true;
        // From now on a checkpoint is due.
        work.stir();
    }
}

/// Reserves room, holding nothing; a full ring or full memory waits for a checkpoint, but not for
/// one that finds no room on the disk.
fn admit(engine: &Engine, ring_bytes: u64, delta_bytes: u64, deletes: bool) -> Result<()> {
    let watch = trace::Stopwatch::start();
    full_disk::reserve_disk(engine, delta_bytes, deletes)?;
    log_room::grow_log_for(&engine.core, &engine.disk, &engine.log, ring_bytes, deletes)?;
    let reserve = || {
        engine
            .core
            .admission
            .reserve(ring_bytes, delta_bytes, &|| worker::relieve(engine))
    };
    let mut admitted = reserve();
    if deletes && admitted == Err(Refused::Dismissed) {
        // Without threads the put does the work itself, and asks once more.
        full_disk::make_room_for(engine, delta_bytes)?;
        admitted = reserve();
    }
    admitted.map_err(|refused| refusal(&engine.core, &engine.disk, refused))?;
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
    worker::checkpoint_if_half_full(engine);
    engine.work.stir_gently();
    Ok(())
}

fn wait_for_durability(
    engine: &Engine,
    end: Lsn,
    version: Version,
    durability: Durability,
) -> Result<()> {
    match (&engine.log.commit_log, durability) {
        (Some(log), Durability::Sync) => log
            .wait_durable(end)
            .map_err(|error| engine.core.health.latch(error.into())),
        (None, Durability::Process | Durability::Sync) => {
            worker::wait_for_checkpoint(engine, checkpoint_of(version))
        }
        _ => Ok(()),
    }
}

/// The chunks that take `ops`, ascending, each once.
fn find_chunks(ops: &[Op<'_>]) -> Chunks {
    let pin = reclaim::pin();
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
