//! The one write path: a put or delete is a batch of one.
//!
//! Order of steps (protocols in docs/concurrency.md): limits; admission (room in the commit log
//! and in delta memory, holding nothing); latches of all chunks in key order; announce a version;
//! copy into the commit log; link into the deltas; commit the batch's stamp; withdraw; unlatch;
//! wait for durability. Once the record is in the commit log nothing can fail (I12). Between
//! announcing and withdrawing the writer waits only for older announced operations and the ring
//! latch (I9).
//!
//! A range deletion is linked into no delta, but into the views of the chunks that it overlaps
//! ([`ranges`]).
//!
//! A transaction brings what it has read ([`reads`]). The chunks that it read are latched, too, and
//! the write happens only if nothing that it read has changed.

mod apart;
mod merges;
mod ranges;
pub(crate) mod reads;
mod singles;

use crate::admission::Refused;
use crate::chunk::emptied::Since;
use crate::chunk::{Chunk, ChunkWriter, Heat};
use crate::commit_log::{CommitLog, Lsn};
use crate::engine::Engine;
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::engine::flow::Flow;
use crate::engine::log::Log;
use crate::engine::work::Work;
use crate::error::{Error, ErrorKind, Result};
use crate::full_disk::Need;
use crate::manifest::KeyspaceId;
use crate::metrics::sample;
use crate::op::{COUNTED_BYTES, Op, Totals, ranges_of};
use crate::options::Durability;
use crate::payload::{self, Encoded, Gathered};
use crate::plant::planted;
use crate::sync::{Arc, MutexGuard, reclaim};
use crate::version::clock::{Announcement, checkpoint_of};
use crate::version::stamp::BatchStamp;
use crate::{checkpoint, log_room, making_room, worker};
use apart::StoredApart;
use evendb_storage::{Kind, Version};
use reads::{Found, Read, Reads};
use smallvec::SmallVec;
use std::ops::Range;

/// A chunk that takes records of a write, or that was read for it.
struct Target {
    chunk: Arc<Chunk>,
    /// The indexes of the chunk's records in the write; empty if the chunk was only read.
    ops: Range<usize>,
    /// The indexes of the range deletions that overlap the chunk.
    ranges: Range<usize>,
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

/// The number of chunks for which a write's lists need no memory of the heap.
const TARGETS_INLINE: usize = 16;
type Targets = SmallVec<[Target; TARGETS_INLINE]>;
type Guards<'a> = SmallVec<[MutexGuard<'a, ChunkWriter>; TARGETS_INLINE]>;

/// The room that admission reserved for a write. It is given back if the write does not happen.
struct Reserved<'a> {
    engine: &'a Engine,
    ring_bytes: u64,
    delta_bytes: u64,
    /// The files of the write's values that lie apart.
    apart: &'a StoredApart,
}

impl Reserved<'_> {
    /// The record is in the ring, and the deltas' memory went from `before` to `after`: the ledger
    /// takes the difference between that and what was reserved.
    fn used(mut self, before: u64, after: u64) {
        self.ring_bytes = 0;
        let held = self.delta_bytes + before;
        if after > held {
            // A page grew by more than its share. That is charged afterwards, when it is too late
            // to refuse it.
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

/// Writes `ops` as one. First come range deletions, sorted by keyspace and least key; no two of
/// them overlap. Then come records sorted by (keyspace, key), each key once; no range deletion of
/// the write hides one of them.
pub(crate) fn write(engine: &Engine, ops: &mut [Op<'_>], durability: Durability) -> Result<()> {
    write_if(engine, ops, durability, None).map(|_| ())
}

/// Writes `ops` as one, as [`write`] does, if nothing of `reads` has changed. [`Found::Same`] says
/// that it was written.
pub(crate) fn write_if(
    engine: &Engine,
    ops: &mut [Op<'_>],
    durability: Durability,
    reads: Option<Reads<'_>>,
) -> Result<Found> {
    if ops.is_empty() {
        return Ok(Found::Same);
    }
    let _inside = engine.core.health.enter_writable()?;
    let durability = durability.max(engine.core.options.durability);
    if durability == Durability::Sync {
        checkpoint::take_inherited(engine)?;
    }
    let started = sample();
    let mut totals = Totals::of(ops);
    check_batch_size(&engine.core, &totals)?;
    let user_bytes = totals.data_bytes;
    let stored_apart = apart::store(engine, ops)?;
    if stored_apart.is_any() {
        totals = Totals::of(ops);
    }
    if totals.expiring > 0 {
        engine.core.clock.expiry.note_use();
    }
    let mut body = Gathered::new();
    let encoded = encode(engine, ops, &totals, durability, &mut body)?;
    let ring_bytes = match &engine.log.commit_log {
        Some(log) => CommitLog::record_bytes(encoded.len() + log.seal_bytes()),
        None => 0,
    };
    let delta_bytes = totals.memory_bytes;
    if totals.range_deletes > 0 {
        ranges::wait_for_room(engine);
    }
    admit(engine, ring_bytes, delta_bytes, totals.deletes_only())
        .inspect_err(|_| discard(&engine.core, &engine.log, &encoded))?;
    let reserved = Reserved {
        engine,
        ring_bytes,
        delta_bytes,
        apart: &stored_apart,
    };
    let written = write_admitted(engine, ops, &encoded, reserved, reads, started);
    let outcome = written.inspect_err(|_| discard(&engine.core, &engine.log, &encoded))?;
    let (end, version) = match outcome {
        Outcome::Written(end, version) => (end, version),
        Outcome::Refused(found) => {
            discard(&engine.core, &engine.log, &encoded);
            return Ok(found);
        }
    };
    count_written(&engine.core, &totals, user_bytes, ring_bytes);
    if let Some(log) = &engine.log.commit_log
        && engine.core.options.durability < Durability::Sync
    {
        log.wake_followers();
    }
    wait_for_durability(engine, end, version, durability)?;
    Ok(Found::Same)
}

/// Result of a write that met no error.
enum Outcome {
    /// The end of its record in the commit log, and its version.
    Written(Lsn, Version),
    /// Something that was read has changed, or may have.
    Refused(Found),
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

/// The largest count of bytes for a batch of several records.
pub(crate) fn batch_bytes_max(core: &Core) -> u64 {
    core.options.memory_budget / 4
}

/// Refuses a batch that is too large as a whole. Each of its records has been checked alone.
fn check_batch_size(core: &Core, totals: &Totals) -> Result<()> {
    let bytes = totals.counted_bytes();
    let bytes_max = batch_bytes_max(core);
    if totals.records == 1 || bytes <= bytes_max {
        return Ok(());
    }
    let message = format!(
        "a batch that counts {bytes} bytes, for each of its {} records key, value and {COUNTED_BYTES}; \
         {bytes_max}, a quarter of the memory budget, is the most: commit it in parts, or raise the \
         budget",
        totals.records
    );
    Err(Error::new(ErrorKind::BatchTooLarge, message))
}

fn count_written(core: &Core, totals: &Totals, user_bytes: u64, ring_bytes: u64) {
    let metrics = &core.metrics;
    metrics.bytes_user.add(user_bytes);
    metrics.bytes_commit_log.add(ring_bytes);
    metrics
        .puts
        .add(totals.records - totals.deletes - totals.range_deletes);
    if totals.deletes > 0 {
        metrics.deletes.add(totals.deletes);
    }
    if totals.range_deletes > 0 {
        metrics.range_deletes.add(totals.range_deletes);
    }
    if totals.records > 1 {
        metrics.batches.add(1);
    }
}

/// Makes the body for the commit log. A body that does not fit there is first written to a value
/// extent.
fn encode<'a>(
    engine: &Engine,
    ops: &[Op<'_>],
    totals: &Totals,
    durability: Durability,
    body: &'a mut Gathered,
) -> Result<Encoded<'a>> {
    let (core, disk, log) = (&engine.core, &engine.disk, &engine.log);
    let payload_bytes = payload::bytes(totals);
    let Some(_) = &log.commit_log else {
        return Ok(Encoded::empty());
    };
    if log_room::log_takes(core, disk, log, payload_bytes) {
        return Ok(Encoded::inline(ops, payload_bytes as usize, body));
    }
    let sync_first = durability == Durability::Sync;
    let write = || Ok(log.value_extents.write(disk.new_id(), ops, sync_first)?);
    let encoded = match totals.deletes_only() {
        true => disk.full_disk.with(Need::Deletes, write)?,
        false => {
            disk.full_disk.check(&engine.catalog)?;
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
fn discard(core: &Core, log: &Log, encoded: &Encoded<'_>) {
    // After a failure it is unknown which files are named on disk, so no file is removed.
    if core.health.may_remove() {
        log.value_extents.discard(encoded);
    }
}

/// Why admission was refused: closed, or failed, or the disk is full.
fn refusal(core: &Core, disk: &Disk, refused: Refused) -> Error {
    match (core.health.check_healthy(), refused) {
        (Err(error), _) => error,
        (Ok(()), Refused::Dismissed) => disk.full_disk.refusals.last_error(&disk.dir),
        (Ok(()), Refused::Cancelled) => Error::closed(),
    }
}

fn write_admitted(
    engine: &Engine,
    ops: &mut [Op<'_>],
    encoded: &Encoded<'_>,
    reserved: Reserved<'_>,
    reads: Option<Reads<'_>>,
    started: Option<std::time::Instant>,
) -> Result<Outcome> {
    let unlatched = planted!(engine.core.options, ReadsNotLatched);
    if unlatched && let Some(reads) = reads {
        let found = reads.look_unlatched(&engine.core);
        if found != Found::Same {
            return Ok(Outcome::Refused(found));
        }
    }
    let reads = reads.filter(|_| !unlatched);
    loop {
        let ranges = ranges_of(ops);
        let mut targets = find_targets(ops, ranges);
        if ranges > 0 {
            ranges::add_targets(&mut targets, &ops[..ranges]);
        }
        if let Some(reads) = reads {
            add_read_chunks(&mut targets, reads.all);
        }
        if ranges > 0 || reads.is_some() {
            put_in_order(&mut targets);
        }
        let mut guards: Guards<'_> = targets
            .iter()
            .map(|target| latch(&engine.core, &target.chunk))
            .collect();
        if guards.iter().any(|writer| writer.retired) {
            continue;
        }
        if written(&targets, &mut guards).any(|(_, writer)| writer.held) {
            drop(guards);
            wait_for_ingest(engine)?;
            continue;
        }
        let found = reads.map_or(Found::Same, |reads| {
            find_changes(&engine.core, reads, &targets, &guards)
        });
        if found != Found::Same {
            return Ok(Outcome::Refused(found));
        }
        let written = write_latched(engine, ops, encoded, reserved, reads, &targets, &mut guards);
        drop(guards);
        if let Some(started) = started {
            let pause = started.elapsed().as_nanos() as u64;
            engine.core.metrics.pauses.put(pause);
        }
        return written.map(|(end, version)| Outcome::Written(end, version));
    }
}

/// Tells whether something that was read has changed. No other thread writes to these chunks while
/// their latches are held.
fn find_changes(core: &Core, reads: Reads<'_>, targets: &[Target], guards: &Guards<'_>) -> Found {
    let mut found = Found::Same;
    for read in reads.all {
        let place = (read.keyspace.id, read.span.low());
        let behind = targets.partition_point(|target| target.place() <= place);
        let latched = targets.iter().zip(guards).skip(behind.saturating_sub(1));
        for (target, writer) in latched {
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

/// Locks a chunk's latch. The wait is timed only when another thread holds it.
fn latch<'c>(core: &Core, chunk: &'c Chunk) -> MutexGuard<'c, ChunkWriter> {
    match chunk.latch.try_lock() {
        Some(guard) => guard,
        None => core.metrics.pauses.chunk.time(|| chunk.latch.lock()),
    }
}

/// An ingest is about to show its records in a chunk of the write. Waits for that, holding no
/// latch, because the write comes after the ingest.
#[cold]
fn wait_for_ingest(engine: &Engine) -> Result<()> {
    engine.core.health.check_writable()?;
    let wait = || {
        let mut wait = engine.flow.run_mutex.lock();
        // A missed signal costs a moment only: the wait is bounded.
        let moment = std::time::Duration::from_millis(5);
        engine.flow.run_cleared.wait_for(&mut wait, moment);
    };
    engine.core.metrics.pauses.chunk.time(wait);
    Ok(())
}

fn has(ops: &[Op<'_>], kind: Kind) -> bool {
    ops.iter().any(|op| op.record.kind() == kind)
}

/// Announces a write at a version that belongs to the same checkpoint as the active deltas of its
/// chunks. The caller holds the latches of these chunks.
#[inline]
fn announce<'e>(
    engine: &'e Engine,
    (ops, singles): (&mut [Op<'_>], bool),
    reads: Option<Reads<'_>>,
    targets: &[Target],
    guards: &mut Guards<'_>,
) -> Result<Announcement<'e>> {
    let merges = has(ops, Kind::Merge);
    loop {
        // Under the latches, before a chunk is queued: a drop takes each latch once after it has
        // set its mark, and only then empties the queue. So no chunk of a dropped keyspace enters
        // the queue after that, and no checkpoint names one that the manifest no longer has.
        if !planted!(engine.core.options, QueuesDropped) {
            refuse_dropped(ops)?;
        }
        for (chunk, writer) in written(targets, guards) {
            chunk.assert_writer(writer);
            make_dirty(&engine.core, &engine.flow, &engine.work, chunk, writer);
        }
        let announcement = engine.core.clock.announce();
        engine.core.health.check_writable()?;
        // Checked again: the drop waits for the writes that were announced before its mark.
        refuse_dropped(ops)?;
        // Otherwise a transaction that read what was dropped could commit after one that saw the
        // drop.
        let mut read = reads.iter().flat_map(|reads| reads.all);
        if let Some(read) = read.find(|read| read.keyspace.is_dropped()) {
            return Err(read.keyspace.dropped_error());
        }
        let checkpoint = checkpoint_of(announcement.version());
        let shares = planted!(engine.core.options, RangeSharesVersion);
        let tied = ranges::tie(targets, guards, announcement.version()) && !shares
            || singles::tie((ops, singles), targets, guards, announcement.version())
                && !planted!(engine.core.options, SingleSharesVersion);
        if tied {
            drop(announcement);
            engine.core.clock.advance();
            continue;
        }
        if written(targets, guards).all(|(_, writer)| writer.active.checkpoint() == checkpoint)
            || planted!(engine.core.options, NoFreeze)
        {
            let version = announcement.version();
            if !merges
                || planted!(engine.core.options, OperandReplaces)
                || prepare_merges(ops, version, targets, guards)
            {
                return Ok(announcement);
            }
            drop(announcement);
            engine.core.clock.advance();
            continue;
        }
        // A checkpoint began: the old active deltas are complete. Freezing them under an
        // announcement would hold the checkpoint up, so withdraw first.
        drop(announcement);
        for (chunk, writer) in written(targets, guards) {
            if writer.active.checkpoint() < checkpoint {
                let freeze = || chunk.freeze(writer, checkpoint, &engine.core.admission);
                engine.core.metrics.pauses.freeze.time(freeze);
            }
        }
    }
}

/// Folds merges with the records that they meet. Returns false if one merge cannot have this
/// version.
#[cold]
fn prepare_merges(
    ops: &mut [Op<'_>],
    version: Version,
    targets: &[Target],
    guards: &Guards<'_>,
) -> bool {
    let mut written = targets.iter().zip(guards);
    written.all(|(target, writer)| {
        let own = &mut ops[target.ops.clone()];
        let own = (own, !target.ranges.is_empty());
        merges::prepare(&target.chunk, writer, own, version)
    })
}

fn refuse_dropped(ops: &[Op<'_>]) -> Result<()> {
    match ops.iter().find(|op| op.keyspace.is_dropped()) {
        Some(op) => Err(op.keyspace.dropped_error()),
        None => Ok(()),
    }
}

/// The chunks that take records, without the chunks that were only read.
fn written<'t, 'g>(
    targets: &'t [Target],
    guards: &'t mut Guards<'g>,
) -> impl Iterator<Item = (&'t Arc<Chunk>, &'t mut MutexGuard<'g, ChunkWriter>)> {
    let all = targets.iter().zip(guards.iter_mut());
    all.filter(|(target, _)| target.is_written())
        .map(|(target, writer)| (&target.chunk, writer))
}

/// Announces, logs, links and withdraws. The caller holds the latches of all chunks concerned.
fn write_latched(
    engine: &Engine,
    ops: &mut [Op<'_>],
    encoded: &Encoded<'_>,
    reserved: Reserved<'_>,
    reads: Option<Reads<'_>>,
    targets: &[Target],
    guards: &mut Guards<'_>,
) -> Result<(Lsn, Version)> {
    // Claimed before the announcement: a batch that has a stamp already may be younger, and it may
    // have to be waited for.
    let range_count = ranges_of(ops);
    let is_batch = ops.len() > 1 || (range_count > 0 && targets.len() > 1);
    let stamp = is_batch.then(BatchStamp::claim);
    let singles = has(ops, Kind::SingleDelete)
        && (planted!(engine.core.options, SingleAsCalled) || singles::settle(ops));
    let announcement = announce(engine, (ops, singles), reads, targets, guards)?;
    let version = announcement.version();
    if !planted!(engine.core.options, RecordsNotNoted) {
        reserved.apart.note_written(version);
    }
    let end = match &engine.log.commit_log {
        Some(log) => log
            .append(version, &encoded.parts(ops))
            .map_err(|error| engine.core.health.latch(error.into()))?,
        None => Lsn(0),
    };
    engine.log.value_extents.note(encoded, end);
    if planted!(engine.core.options, EarlyStamp)
        && let Some(stamp) = &stamp
    {
        stamp.commit();
    }
    let (ranges, ones) = ops.split_at_mut(range_count);
    if !ranges.is_empty() {
        ranges::link(engine, ranges, version, stamp.as_ref(), targets, guards);
    }
    let ones = (ones, range_count, singles);
    let tells = !planted!(engine.core.options, EmptiedStays);
    let (before, after) = link(ones, tells, version, stamp.as_ref(), targets, guards);
    if let Some(reads) = reads {
        note_emptied(reads, version, targets, guards);
    }
    if planted!(engine.core.options, EarlyUnlatch) {
        guards.clear();
    }
    if let Some(stamp) = &stamp {
        stamp.commit();
    }
    drop(announcement);
    if let Some(stamp) = stamp {
        for op in ops.iter() {
            op.linked().leave_stamp(&stamp);
        }
    }
    reserved.used(before, after);
    Ok((end, version))
}

/// Links all records into the active deltas of their chunks. `ranges` is the number of range
/// deletions that precede the records in the write; `singles` says that some records are single
/// deletes. The chunk is told of each record that falls into a range emptied by pops. Returns delta
/// bytes before and after.
fn link(
    (ops, ranges, singles): (&mut [Op<'_>], usize, bool),
    tells: bool,
    version: Version,
    stamp: Option<&BatchStamp>,
    targets: &[Target],
    guards: &mut Guards<'_>,
) -> (u64, u64) {
    // One pin for all records: the first pin costs a fence, nested pins cost next to nothing.
    let _pin = stamp.map(|_| reclaim::pin());
    let (mut before, mut after) = (0, 0);
    for (target, writer) in targets.iter().zip(guards) {
        if target.ops.is_empty() {
            continue;
        }
        writer.changed_at = version;
        let own = &mut ops[target.ops.start - ranges..target.ops.end - ranges];
        if singles {
            singles::note(own, writer, version);
        }
        let ChunkWriter {
            active: delta,
            emptied,
            ..
        } = &mut **writer;
        before += delta.bytes() as u64;
        for op in own {
            let record = op.folded.as_mut().unwrap_or(&mut op.record);
            Heat::count(&target.chunk.heat.puts);
            match stamp {
                Some(stamp) => record.set_stamp(stamp, version),
                None => record.set_version(version),
            }
            if tells && !record.kind().is_tombstone() {
                emptied.touch(record.key());
            }
            delta.insert(record.clone());
        }
        after += delta.bytes() as u64;
    }
    (before, after)
}

/// Tells the chunks which ranges the write has left empty: a pop found nothing there except the
/// record that it takes. The check that nothing newer has come there was made under the same
/// latches.
fn note_emptied(reads: Reads<'_>, version: Version, targets: &[Target], guards: &mut Guards<'_>) {
    let time = reads.time;
    for read in reads.all.iter().filter(|read| read.empties) {
        for (target, writer) in targets.iter().zip(guards.iter_mut()) {
            if target.chunk.keyspace == read.keyspace.id {
                let since = Since { version, time };
                read.span.note_emptied(&target.chunk, writer, since);
            }
        }
    }
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

/// Reserves room while no lock is held. If the ring or the memory of deltas is full, the write
/// waits for a checkpoint; if the checkpoint finds no room on the disk, the write is refused.
fn admit(engine: &Engine, ring_bytes: u64, delta_bytes: u64, deletes: bool) -> Result<()> {
    making_room::reserve_disk(engine, delta_bytes, deletes)?;
    log_room::grow_log_for(&engine.core, &engine.disk, &engine.log, ring_bytes, deletes)?;
    let reserve = || {
        engine
            .core
            .admission
            .reserve(ring_bytes, delta_bytes, &|| worker::relieve(engine))
    };
    let mut admitted = reserve();
    if deletes && admitted == Err(Refused::Dismissed) {
        // Without threads the writer frees room itself, and asks once more.
        making_room::make_room_for(engine, delta_bytes)?;
        admitted = reserve();
    }
    admitted.map_err(|refused| refusal(&engine.core, &engine.disk, refused))?;
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
