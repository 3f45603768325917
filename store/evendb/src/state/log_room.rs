//! Decides when the commit log's ring grows ([`super::commit_log`] describes how).
//!
//! ```text
//!   reserved part of usable bytes:  above 1/2   upkeep grows the ring, to three times that part
//!                                   above 6/8   the put that finds it so grows the ring itself
//!   a record longer than 1/8 of it: the put grows it, or writes a value extent
//!   whole, or not to be grown:    as ever: checkpoints at 1/2, puts wait at the limit
//! ```
//! So a ring is large enough for the records between two checkpoints, and whole where puts are
//! many. Nothing depends on its growing: a disk that has no room for it leaves a small ring, in
//! which puts and deletes go on with more checkpoints. It takes no room, either, while a part of
//! the reserve for a full disk is owed.
//!
//! Thread safety: any; the caller holds nothing, for this waits for the disk.

use crate::commit_log::CommitLog;
use crate::engine::Engine;
use crate::error::{ErrorKind, Result};
use crate::full_disk::Need;
use crate::sync::atomic::Ordering;

/// Eighths of the usable bytes that are reserved: from the first on upkeep grows the ring, from the
/// second on puts do, and the third is the target.
const EIGHTHS_UPKEEP: u64 = 4;
const EIGHTHS_PUTS: u64 = 6;
const EIGHTHS_ENOUGH: u64 = 3;

/// Grows the ring by a step, if possible; returns whether it grew. A failure of the device has
/// latched.
fn grow_commit_log(engine: &Engine, ring: &CommitLog) -> bool {
    let Engine {
        core, disk, log, ..
    } = engine;
    // Free room belongs to the reserve, and a full disk is not asked again at once.
    if disk.full_disk.is_owed() || log.is_stuck.load(Ordering::Relaxed) {
        return false;
    }
    match ring.grow() {
        Ok(grown) => {
            if grown {
                core.admission.ring_has_grown(ring.usable());
            }
            grown
        }
        Err(error) => {
            let error = crate::error::Error::from(error);
            if error.kind() == ErrorKind::NoSpace {
                log.is_stuck.store(true, Ordering::Relaxed);
            } else {
                core.health.latch(error);
            }
            false
        }
    }
}

/// Upkeep's part, before it looks whether a checkpoint is due.
pub(crate) fn grow_log_ahead(engine: &Engine) {
    let ring = engine.log.commit_log.as_deref();
    let Some(ring) = ring.filter(|ring| ring.is_growing()) else {
        return;
    };
    let admission = &engine.core.admission;
    if !admission.ring_fuller_than(EIGHTHS_UPKEEP, 0) {
        return;
    }
    while admission.ring_fuller_than(EIGHTHS_ENOUGH, 0) && grow_commit_log(engine, ring) {}
}

/// A put's part: for a record with this number of bytes in the ring, which takes it as it is.
pub(crate) fn grow_log_for(engine: &Engine, ring_bytes: u64, deletes: bool) -> Result<()> {
    let Some(ring) = &engine.log.commit_log else {
        return Ok(());
    };
    if !ring.is_backed() {
        // The disk was full when the ring was opened.
        let back = || Ok(ring.back()?);
        match deletes {
            true => engine.disk.full_disk.with(Need::Deletes, back)?,
            false => back()?,
        }
    }
    let admission = &engine.core.admission;
    while ring.is_growing()
        && admission.ring_fuller_than(EIGHTHS_PUTS, ring_bytes)
        && grow_commit_log(engine, ring)
    {}
    Ok(())
}

/// Whether a put of this number of bytes in the ring would not have to make it grow.
pub(crate) fn has_room(engine: &Engine, ring_bytes: u64) -> bool {
    let Some(ring) = &engine.log.commit_log else {
        return true;
    };
    let fuller = || {
        let admission = &engine.core.admission;
        admission.ring_fuller_than(EIGHTHS_PUTS, ring_bytes)
    };
    ring.is_backed() && !(ring.is_growing() && fuller())
}

/// Whether the ring takes a payload of this number of bytes as it is.
pub(crate) fn log_takes_now(engine: &Engine, payload_bytes: u64) -> bool {
    let Some(ring) = &engine.log.commit_log else {
        return true;
    };
    let total = CommitLog::record_bytes(payload_bytes as usize + ring.seal_bytes());
    payload_bytes <= engine.log.ring_record_bytes_max() && total <= ring.record_max()
}

/// Whether the ring takes a payload of this number of bytes, after it has grown for it if it can.
pub(crate) fn log_takes(engine: &Engine, payload_bytes: u64) -> bool {
    let Some(ring) = &engine.log.commit_log else {
        return true;
    };
    let total = CommitLog::record_bytes(payload_bytes as usize + ring.seal_bytes());
    if payload_bytes > engine.log.ring_record_bytes_max() {
        return false;
    }
    while total > ring.record_max() {
        if !grow_commit_log(engine, ring) {
            return false;
        }
    }
    true
}
