//! The limits of a write, and the room that it needs: on the disk, in the commit log and in memory
//! for deltas.
//!
//! Room is reserved while nothing is held, and given back if the write does not happen.
//!
//! Thread safety: any thread. Not here: who waits for room, and in which order
//! ([`crate::admission`]).

use super::Patience;
use super::large_values::StoredApart;
use crate::admission::Refused;
use crate::engine::Engine;
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::error::{Error, ErrorKind, Result};
use crate::op::{COUNTED_BYTES, Totals};
use crate::{log_room, making_room, worker};

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

/// The largest batch, in memory budgets. A batch of more than a quarter of the budget is let in
/// alone, and goes to a value extent; this is the longest extent that is written. Opening after a
/// crash takes about the memory that the commit took, so the bound is far above what a program of
/// such a budget should do, and far below what no machine has.
const BUDGETS_MAX: u64 = 64;

/// The largest count of bytes for a batch of several records.
pub(crate) fn batch_bytes_max(core: &Core) -> u64 {
    core.options.memory_budget.saturating_mul(BUDGETS_MAX)
}

/// Refuses a batch that is too large as a whole. Each of its records has been checked alone.
pub(super) fn check_batch_size(core: &Core, totals: &Totals) -> Result<()> {
    let bytes = totals.counted_bytes();
    let bytes_max = batch_bytes_max(core);
    if totals.records == 1 || bytes <= bytes_max {
        return Ok(());
    }
    let message = format!(
        "a batch that counts {bytes} bytes, for each of its {} records key, value and {COUNTED_BYTES}; \
         {bytes_max}, {BUDGETS_MAX} times the memory budget, is the most: commit it in parts, ingest \
         it, or raise the budget",
        totals.records
    );
    Err(Error::new(ErrorKind::BatchTooLarge, message))
}

/// The room that admission reserved for a write. It is given back if the write does not happen.
pub(super) struct Reserved<'a> {
    pub(super) engine: &'a Engine,
    pub(super) ring_bytes: u64,
    pub(super) delta_bytes: u64,
    /// The files of the write's values that lie apart.
    pub(super) apart: &'a StoredApart,
    pub(super) patience: Patience,
}

impl Reserved<'_> {
    /// The record is in the ring, and the deltas' memory went from `before` to `after`: the ledger
    /// takes the difference between that and what was reserved.
    pub(super) fn used(mut self, before: u64, after: u64) {
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

/// Reserves room while no lock is held. If the ring or the memory of deltas is full, the write
/// waits for a checkpoint; if the checkpoint finds no room on the disk, the write is refused.
pub(super) fn admit(
    engine: &Engine,
    ring_bytes: u64,
    delta_bytes: u64,
    deletes: bool,
) -> Result<()> {
    making_room::reserve_disk(engine, delta_bytes, deletes)?;
    log_room::grow_log_for(engine, ring_bytes, deletes)?;
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

/// Reserves room as [`admit`] does, if that needs no wait, no sleep and no work on the disk.
/// Returns whether it did.
pub(super) fn try_admit(engine: &Engine, ring_bytes: u64, delta_bytes: u64) -> Result<bool> {
    let core = &engine.core;
    if !making_room::has_disk(engine, delta_bytes) || !log_room::has_room(engine, ring_bytes) {
        return Ok(false);
    }
    let admitted = core.admission.try_reserve(ring_bytes, delta_bytes);
    if !admitted.map_err(|refused| refusal(core, &engine.disk, refused))? {
        return Ok(false);
    }
    worker::checkpoint_if_half_full(engine);
    engine.work.stir_gently();
    Ok(true)
}

/// Why admission was refused: closed, or failed, or the disk is full.
fn refusal(core: &Core, disk: &Disk, refused: Refused) -> Error {
    match (core.health.check_healthy(), refused) {
        (Err(error), _) => error,
        (Ok(()), Refused::Dismissed) => disk.full_disk.refusals.last_error(&disk.dir),
        (Ok(()), Refused::Cancelled) => Error::closed(),
    }
}
