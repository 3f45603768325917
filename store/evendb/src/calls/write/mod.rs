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
//! ([`range_deletions`]).
//!
//! A transaction brings what it has read ([`reads`]). The chunks that it read are latched, too, and
//! the write happens only if nothing that it read has changed.

mod announcing;
mod large_values;
mod latched;
mod merges;
mod range_deletions;
pub(crate) mod reads;
mod room;
mod single_deletes;
mod waiting;

use crate::commit_log::{CommitLog, Lsn};
use crate::engine::Engine;
use crate::engine::core::Core;
use crate::engine::log::Log;
use crate::error::Result;
use crate::full_disk::Need;
use crate::log_room;
use crate::metrics::sample;
use crate::op::{Op, Totals, ranges_of};
use crate::options::Durability;
use crate::payload::{self, Encoded, Gathered};
use crate::plant::planted;
use crate::version::stamp::BatchStamp;
use announcing::announce;
use evendb_storage::{Kind, Version};
use large_values::StoredApart;
use latched::{Latched, Mark};
use reads::{Found, Reads};
use room::{Reserved, admit, check_batch_size, try_admit};
pub(crate) use room::{batch_bytes_max, check_value_size};
pub(crate) use waiting::{Awaiting, Pending};

/// Writes `ops` as one. First come range deletions, sorted by keyspace and least key; no two of
/// them overlap. Then come records sorted by (keyspace, key), each key once; no range deletion of
/// the write hides one of them.
pub(crate) fn write(engine: &Engine, ops: &mut [Op<'_>], durability: Durability) -> Result<()> {
    if ops.is_empty() {
        return Ok(());
    }
    // Until it is durable, closing waits for it.
    let _inside = engine.core.health.enter_writable()?;
    match perform(engine, ops, durability, None, Patience::Waits)? {
        Outcome::Written(pending) => pending.wait(engine),
        Outcome::Refused(_) | Outcome::WouldWait => unreachable!("it read nothing, and has waited"),
    }
}

/// Whether a write may wait for room, or for the disk, before it happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    Waits,
    /// If it would have to wait, nothing happens, and `ops` are as before.
    Never,
}

/// Result of a write that met no error.
pub(crate) enum Outcome {
    /// It has happened, and is perhaps not durable yet.
    Written(Pending),
    /// Something that was read has changed, or may have.
    Refused(Found),
    /// It would have to wait, and has no patience.
    WouldWait,
}

/// Writes `ops` as one, as [`write`] does, if nothing of `reads` has changed; up to the wait for
/// durability. The caller is inside, and has checked that writes are taken.
pub(crate) fn perform(
    engine: &Engine,
    ops: &mut [Op<'_>],
    durability: Durability,
    reads: Option<Reads<'_>>,
    patience: Patience,
) -> Result<Outcome> {
    if ops.is_empty() {
        return Ok(Outcome::Written(Pending::nothing()));
    }
    let durability = durability.max(engine.core.options.durability);
    let started = sample();
    let mut totals = Totals::of(ops);
    check_batch_size(&engine.core, &totals)?;
    if patience == Patience::Never && would_wait(engine, ops, &totals, durability) {
        return Ok(Outcome::WouldWait);
    }
    waiting::take_inherited(engine, durability)?;
    let user_bytes = totals.data_bytes;
    let stored_apart = match patience {
        // No value was long a moment ago. One that is long since an option was changed stays with
        // its key: if this attempt has to wait, `ops` must be as before.
        Patience::Never => StoredApart::default(),
        Patience::Waits => large_values::store(engine, ops)?,
    };
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
    match patience {
        Patience::Never if !try_admit(engine, ring_bytes, delta_bytes)? => {
            return Ok(Outcome::WouldWait);
        }
        Patience::Never => {}
        Patience::Waits => wait_for_room(engine, ring_bytes, &totals)
            .inspect_err(|_| discard(&engine.core, &engine.log, &encoded))?,
    }
    let reserved = Reserved {
        engine,
        ring_bytes,
        delta_bytes,
        apart: &stored_apart,
        patience,
    };
    let written = write_admitted(ops, &encoded, reserved, reads, started);
    let outcome = written.inspect_err(|_| discard(&engine.core, &engine.log, &encoded))?;
    let (end, version) = match outcome {
        Admitted::Written(end, version) => (end, version),
        Admitted::Not(outcome) => {
            discard(&engine.core, &engine.log, &encoded);
            return Ok(outcome);
        }
    };
    count_written(&engine.core, &totals, user_bytes, ring_bytes);
    if let Some(log) = &engine.log.commit_log
        && engine.core.options.durability < Durability::Sync
    {
        log.wake_followers();
    }
    Ok(Outcome::Written(Pending::new(end, version, durability)))
}

/// Waits until there is room for the write, which then is its own.
fn wait_for_room(engine: &Engine, ring_bytes: u64, totals: &Totals) -> Result<()> {
    if totals.range_deletes > 0 {
        range_deletions::wait_for_room(engine);
    }
    admit(
        engine,
        ring_bytes,
        totals.memory_bytes,
        totals.deletes_only(),
    )
}

/// Whether the write would wait before it asks for room, or write to files of its own.
fn would_wait(engine: &Engine, ops: &[Op<'_>], totals: &Totals, durability: Durability) -> bool {
    waiting::inherits(engine, durability)
        || large_values::are_any(engine, ops)
        || !log_room::log_takes_now(engine, payload::bytes(totals))
        || (totals.range_deletes > 0 && range_deletions::would_wait(engine))
}

/// Result of a write that was admitted.
enum Admitted {
    /// The end of its record in the commit log, and its version.
    Written(Lsn, Version),
    Not(Outcome),
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
    if log_room::log_takes(engine, payload_bytes) {
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

/// Writes with the latches of all chunks concerned.
fn write_admitted(
    ops: &mut [Op<'_>],
    encoded: &Encoded<'_>,
    reserved: Reserved<'_>,
    reads: Option<Reads<'_>>,
    started: Option<std::time::Instant>,
) -> Result<Admitted> {
    let engine = reserved.engine;
    let unlatched = planted!(engine.core.options, ReadsNotLatched);
    if unlatched && let Some(reads) = reads {
        let found = reads.look_unlatched(&engine.core);
        if found != Found::Same {
            return Ok(Admitted::Not(Outcome::Refused(found)));
        }
    }
    let reads = reads.filter(|_| !unlatched);
    loop {
        let targets = latched::find(ops, reads);
        let mut latched = Latched::take(&engine.core, &targets);
        if latched.any_is_retired() {
            continue;
        }
        if latched.any_is_held() {
            drop(latched);
            if reserved.patience == Patience::Never {
                return Ok(Admitted::Not(Outcome::WouldWait));
            }
            wait_for_ingest(engine)?;
            continue;
        }
        let found = reads.map_or(Found::Same, |reads| {
            latched.find_changes(&engine.core, reads)
        });
        if found != Found::Same {
            return Ok(Admitted::Not(Outcome::Refused(found)));
        }
        let written = write_latched(engine, ops, encoded, reserved, reads, &mut latched);
        drop(latched);
        if let Some(started) = started {
            let pause = started.elapsed().as_nanos() as u64;
            engine.core.metrics.pauses.put(pause);
        }
        return written.map(|(end, version)| Admitted::Written(end, version));
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

/// Announces, logs, links and withdraws. The caller holds the latches of all chunks concerned.
fn write_latched(
    engine: &Engine,
    ops: &mut [Op<'_>],
    encoded: &Encoded<'_>,
    reserved: Reserved<'_>,
    reads: Option<Reads<'_>>,
    latched: &mut Latched<'_>,
) -> Result<(Lsn, Version)> {
    let range_count = ranges_of(ops);
    // Claimed before the announcement: a batch that has a stamp already may be younger, and it may
    // have to be waited for.
    let is_batch = ops.len() > 1 || (range_count > 0 && latched.chunks() > 1);
    let stamp = is_batch.then(BatchStamp::claim);
    let singles = has(ops, Kind::SingleDelete)
        && (planted!(engine.core.options, SingleAsCalled) || single_deletes::settle(ops));
    let announcement = announce(engine, ops, singles, reads, latched)?;
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
    let mark = Mark {
        version,
        stamp: stamp.as_ref(),
    };
    if range_count > 0 {
        range_deletions::link(engine, &mut ops[..range_count], mark, latched);
    }
    let tells = !planted!(engine.core.options, EmptiedStays);
    let (before, after) = latched.link(ops, mark, singles, tells);
    if let Some(reads) = reads {
        latched.note_emptied(reads, version);
    }
    if planted!(engine.core.options, EarlyUnlatch) {
        latched.let_go();
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
