//! Room on the disk: what is kept back for a full one, and how much puts may count on.
//!
//! ```text
//! delta_room   bytes of deltas that puts may have without asking            note_disk_room
//!   = free in the container, no more than the ballast covers;
//!     while the ballast is owed: less what deletes will need
//! room_step    taken ahead at once, in proportion to what there is          room_kept: 2 to 3 steps,
//!                                                                           while idle 1/2 to 1
//! ballast      whole -> given up, a part for each need -> owed -> whole     with_ballast, tend_ballast
//!              while it is owed: nothing is taken ahead, and puts are       check_ballast
//!              refused unless there is room beyond what deletes will need
//! ```
//!
//! Invariants: a put that was let in finds room for its run, and what is kept back grows with the data
//! before the data does ([`cover_data`]). The ballast serves deletes and jobs, which give room back, and
//! never a put. Room for edits of the manifest is restored before all else, because without an edit
//! nothing gives room back.
//!
//! Thread safety: any. `delta_room` is an atomic that may be late: a checkpoint copes with too little
//! room. Not here: which calls are refused and how room is made ([`crate::full_disk`]); the files that are
//! kept back ([`crate::ballast`]).

use crate::ballast::Need;
use crate::catalog::Catalog;
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::engine::idle::Idle;
use crate::engine::space::Space;
use crate::engine::work::Work;
use crate::error::{ErrorKind, Result};
use crate::funk::container::GROW_BYTES_MIN;
use crate::options::Options;
use crate::sync::atomic::Ordering;

/// Whether it failed for want of room.
pub(crate) fn is_full<T>(result: &Result<T>) -> bool {
    result
        .as_ref()
        .is_err_and(|error| error.kind() == ErrorKind::NoSpace)
}

/// What must work on a full disk: without room it is tried again without the ballast.
pub(crate) fn with_ballast<T>(
    disk: &Disk,
    need: Need,
    attempt: impl Fn() -> Result<T>,
) -> Result<T> {
    let first = attempt();
    if !is_full(&first) || !disk.ballast.release(need) {
        return first;
    }
    // It has to last: nobody takes steps ahead out of it, and puts look again.
    set_sparing(disk, true);
    disk.delta_room.store(0, Ordering::Relaxed);
    attempt()
}

/// Refuses what may not live on the ballast, as long as the disk has no room for that.
pub(crate) fn check_ballast(core: &Core, disk: &Disk, catalog: &Catalog) -> Result<()> {
    if disk.ballast.is_owed() {
        restore_reserves(core, disk, catalog)?;
        set_sparing(disk, false);
    }
    Ok(())
}

/// Reserves all that is kept back, the room for edits first: nothing gives room back without some.
fn restore_reserves(core: &Core, disk: &Disk, catalog: &Catalog) -> Result<()> {
    let edits = disk.manifest().reserve_ahead();
    if edits.is_err() {
        // As if some had been given up: what is left has to last, and puts look again.
        set_sparing(disk, true);
        disk.delta_room.store(0, Ordering::Relaxed);
    }
    let is_whole = disk.ballast.is_whole();
    if !(is_whole && disk.ballast.covers_any()) {
        let data = table_bytes(disk, catalog) + core.admission.delta_to_write();
        disk.ballast.expect(data);
        if disk.ballast.is_owed() {
            disk.delta_room.store(0, Ordering::Relaxed);
        }
    }
    Ok(disk.ballast.restore(edits)?)
}

fn set_sparing(disk: &Disk, yes: bool) {
    disk.container.set_sparing(yes);
    disk.manifest().set_sparing(yes);
}

/// Lays the ballast down where there is room. When room has come back, jobs that found none
/// are looked at again.
pub(crate) fn tend_ballast(core: &Core, disk: &Disk, catalog: &Catalog, work: &Work) {
    let was_owed = disk.ballast.is_owed();
    if core.health.failure().is_none() && restore_reserves(core, disk, catalog).is_ok() && was_owed
    {
        set_sparing(disk, false);
        for (_, chunk) in catalog.chunks() {
            work.push_maintenance(&chunk);
        }
    }
}

/// The room that puts have without asking: on a full disk not what deletes will need.
pub(crate) fn note_disk_room(disk: &Disk, catalog: &Catalog) {
    let free = disk.container.free_bytes().min(covered_room(disk, catalog));
    let owed_room = || match disk.manifest().is_short() {
        true => 0,
        false => free.saturating_sub(disk.ballast.deletes_bytes()),
    };
    let room = match disk.ballast.is_owed() {
        true => owed_room(),
        false => free,
    };
    disk.delta_room.store(room, Ordering::Relaxed);
    // Somebody may have given the ballast up meanwhile, and set it to nothing before.
    if disk.ballast.is_owed() {
        disk.delta_room.fetch_min(owed_room(), Ordering::Relaxed);
    }
}

/// Has enough kept back for `delta_bytes` that are on their way to tables, beside the tables there
/// are. The error is a full disk.
pub(crate) fn cover_data(disk: &Disk, catalog: &Catalog, delta_bytes: u64) -> Result<()> {
    if disk.ballast.covers_any() {
        return Ok(());
    }
    Ok(disk
        .ballast
        .cover(table_bytes(disk, catalog) + delta_bytes)?)
}

/// Bytes of deltas for which enough is kept back.
fn covered_room(disk: &Disk, catalog: &Catalog) -> u64 {
    match disk.ballast.covers_any() {
        true => u64::MAX,
        // Where there is much data it covers any.
        false => disk
            .ballast
            .covered()
            .saturating_sub(table_bytes(disk, catalog)),
    }
}

/// Bytes in tables, as far as it matters for what is kept back: of much data only that it is much.
/// Tables that chunks share count for each.
pub(crate) fn table_bytes(disk: &Disk, catalog: &Catalog) -> u64 {
    let much = disk.ballast.data_bytes_max();
    let mut sum = 0;
    for keyspace in catalog.keyspaces() {
        for (_, chunk) in keyspace.index.load_full().iter() {
            let view = chunk.view.load_full();
            sum += view
                .funk
                .tables()
                .map(|table| table.part_len())
                .sum::<u64>();
            if sum > much {
                return sum;
            }
        }
    }
    sum
}

/// Room on the disk that puts may ask for before the next look: so that they find it there,
/// and do not wait for a file system that is busy with a checkpoint's writes. In proportion to what
/// there is: a small database takes little ahead.
pub(crate) fn room_step(core: &Core, disk: &Disk, space: &Space) -> u64 {
    let there = core.admission.delta_to_write() + space.data_bytes.load(Ordering::Relaxed) / 4;
    let step = there.clamp(GROW_BYTES_MIN, room_step_max(&core.options));
    disk.container.set_grow_bytes(step);
    step
}

/// Room that is kept beyond what the deltas need: at least, and at most.
pub(crate) fn room_kept(core: &Core, disk: &Disk, space: &Space, idle: &Idle) -> (u64, u64) {
    let step = room_step(core, disk, space);
    match idle.is_idle(&core.metrics) {
        true => (step / 2, step),
        false => (2 * step, 3 * step),
    }
}

/// The most of [`room_step`].
fn room_step_max(options: &Options) -> u64 {
    (options.delta_bytes_max() / 4).max(GROW_BYTES_MIN)
}
