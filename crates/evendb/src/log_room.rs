//! When the commit log's ring grows ([`super::commit_log`] says how).
//!
//! ```text
//!   reserved of what is usable:   more than 1/2   upkeep grows it, to three times what is reserved
//!                                 more than 6/8   the put that finds it so does it itself
//!   a record longer than 1/8 of it: the put grows it, or writes a value extent
//!   whole, or not to be grown:    as ever: checkpoints at 1/2, puts wait at the limit
//! ```
//! So a ring is as large as what it has to hold between two checkpoints, and whole where puts are many.
//! Nothing rests on its growing: a disk that has no room for it leaves a small ring, in which puts and
//! deletes go on with more checkpoints. Nor does it take room while some of what is kept back
//! for a full disk is owed.
//!
//! Thread safety: any; the caller holds nothing, for this waits for the disk.

use crate::commit_log::CommitLog;
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::engine::log::Log;
use crate::error::{ErrorKind, Result};
use crate::full_disk::Need;
use crate::sync::atomic::Ordering;

/// Eighths of what is usable that are reserved: from where upkeep grows the ring and puts do, and up to
/// where.
const EIGHTHS_UPKEEP: u64 = 4;
const EIGHTHS_PUTS: u64 = 6;
const EIGHTHS_ENOUGH: u64 = 3;

/// Grows the ring by a step, if it can be: whether it did. A failure of the device has latched.
fn grow_commit_log(core: &Core, disk: &Disk, log: &Log, ring: &CommitLog) -> bool {
    // Room that came free belongs to what is kept back, and a disk is not asked again at once.
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
pub(crate) fn grow_log_ahead(core: &Core, disk: &Disk, log: &Log) {
    let Some(ring) = log.commit_log.as_ref().filter(|ring| ring.is_growing()) else {
        return;
    };
    if !core.admission.ring_fuller_than(EIGHTHS_UPKEEP, 0) {
        return;
    }
    while core.admission.ring_fuller_than(EIGHTHS_ENOUGH, 0)
        && grow_commit_log(core, disk, log, ring)
    {}
}

/// A put's part: for a record of so many bytes in the ring, which fits it as it is.
pub(crate) fn grow_log_for(
    core: &Core,
    disk: &Disk,
    log: &Log,
    ring_bytes: u64,
    deletes: bool,
) -> Result<()> {
    let Some(ring) = &log.commit_log else {
        return Ok(());
    };
    if !ring.is_backed() {
        // The disk was full when it was opened.
        let back = || Ok(ring.back()?);
        match deletes {
            true => disk.full_disk.with(Need::Deletes, back)?,
            false => back()?,
        }
    }
    while ring.is_growing()
        && core.admission.ring_fuller_than(EIGHTHS_PUTS, ring_bytes)
        && grow_commit_log(core, disk, log, ring)
    {}
    Ok(())
}

/// Whether the ring takes a payload of so many bytes, now that it has grown for it if it can.
pub(crate) fn log_takes(core: &Core, disk: &Disk, log: &Log, payload_bytes: u64) -> bool {
    let Some(ring) = &log.commit_log else {
        return true;
    };
    let total = CommitLog::record_bytes(payload_bytes as usize + ring.seal_bytes());
    if payload_bytes > log.ring_record_bytes_max() {
        return false;
    }
    while total > ring.record_max() {
        if !grow_commit_log(core, disk, log, ring) {
            return false;
        }
    }
    true
}
