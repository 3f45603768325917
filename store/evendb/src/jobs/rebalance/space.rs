//! The slow round: looks at all chunks from time to time, divides the space that logs may take,
//! sets the backpressure of debt, gives free room of the log container back, and keeps the figures
//! of [`SpaceStats`].
//!
//! ```text
//!   live bytes of all chunks  x (space amplification - 1)  =  B, what logs may take
//!   limit of a chunk's log    =  m x B x w / sum of w,  w = sqrt(rate x live bytes)
//!   m = 2 (B / log bytes)^2   a log is half full on average; while there is room, limits are wider
//! ```
//! The rate is the rate at which bytes arrive in the chunk's log. It is remembered over about the
//! bytes that the database holds, since no length of time would fit both slow and fast databases.
//! Every chunk counts with at least a share of the mean rate, so that a chunk without writes for a
//! long time is not rewritten for a few bytes.
//!
//! Thread safety: one round at a time (upkeep, or a call that pays the debt). Decisions read the
//! outcome through atomics. They may mix the values of two rounds, which does no harm.

use crate::chunk::Heat;
use crate::engine::disk::Disk;
use crate::engine::space::Space;
use crate::engine::{Engine, JobContext};
use crate::files::{BALLAST, COMMIT_LOG, CURRENT, HEAT, LOCK, STATS, container_name};
use crate::manifest::writer;
use crate::metrics::SpaceStats;
use crate::picker::{ChunkStats, PickerLimits, hidden_pays, log_bytes_max, log_weight};
use crate::rebalance::idle::earn_for_idle;
use crate::rebalance::{covered_tables, expired_tables, guarded, jobs, log_merge};
use crate::sync::atomic::Ordering;
use crate::tables::container::GROW_BYTES_MIN;
use std::time::{Duration, Instant};

/// The least time between two rounds. Also, rounds take at most one part in [`ROUND_TIME_PART`] of
/// all time.
const ROUND_EVERY: Duration = Duration::from_millis(200);
const ROUND_TIME_PART: u32 = 20;
/// Every chunk counts with at least this share of the mean rate.
const RATE_FLOOR_PART: f64 = 1.0 / 16.0;
/// Pieces that the container gives back in one turn: each takes some 0.2 ms, or several ms where
/// the file system tells the disk.
const PIECES_MAX: usize = 2;

/// Sums over chunks.
#[derive(Default)]
struct SpaceSums {
    chunks: u64,
    /// Bytes of metadata that merges of runs would free.
    mergeable: u64,
    /// Bytes that came to logs since the last round.
    arrived: u64,
    live: u64,
    data: u64,
    log: u64,
    log_garbage: u64,
    tombstones: u64,
    range_tombstones: u64,
    records: u64,
    rate: f64,
    weight: f64,
    /// Log bytes beyond the limits, and all limits together.
    overdue: u64,
    limits: u64,
}

/// When the last round ended.
pub(crate) fn last_space_round(space: &Space) -> Option<Instant> {
    space.last.lock().map(|(at, _)| at)
}

/// Makes a round if one is due; with `now` it always does.
pub(crate) fn space_round(context: &JobContext<'_>, now: bool) {
    let &JobContext {
        core, disk, space, ..
    } = context;
    if core.health.failure().is_some() || disk.manifest.is_none() {
        return;
    }
    let mut last = space.last.lock();
    let pause = last.map_or(Duration::ZERO, |(_, took)| {
        ROUND_EVERY.max(took * ROUND_TIME_PART)
    });
    if !now && last.is_some_and(|(at, _)| at.elapsed() < pause) {
        return;
    }
    let started = Instant::now();
    let sums = look_at_chunks(context);
    divide(context, &sums);
    let half = core.options.delta_bytes_max() / 2;
    // Workers always have a few chunks to do, so a little waiting work is no debt.
    let overdue = sums.overdue.saturating_sub(sums.limits / 8);
    core.admission.set_debt(overdue, sums.limits.max(half));
    let kept = room_to_keep(context);
    if disk.container.free_bytes() > kept {
        space.give_back.store(true, Ordering::Relaxed);
    }
    note_space(disk, space, &sums);
    let record_bytes = space.record_bytes.load(Ordering::Relaxed);
    earn_for_idle(context, sums.arrived, record_bytes, sums.live);
    *last = Some((Instant::now(), started.elapsed()));
}

fn look_at_chunks(context: &JobContext<'_>) -> SpaceSums {
    let &JobContext {
        core, space, work, ..
    } = context;
    let mut sums = SpaceSums::default();
    let percent = core.options.advanced.value_file_live_percent;
    core.value_files.look_for_files_to_empty(percent);
    let any_thin = context.disk.container.segments().look_for_thin();
    let limits = jobs::picker_limits(context);
    let chunks = context.catalog.chunks();
    sums.chunks = chunks.len() as u64;
    let arrived: Vec<u64> = chunks
        .iter()
        .map(|(_, chunk)| chunk.heat.logged.swap(0, Ordering::Relaxed))
        .collect();
    let live_before = space.stats.lock().live_bytes.max(1);
    let arrived_bytes: u64 = arrived.iter().sum();
    sums.arrived = arrived_bytes;
    let share = arrived_bytes as f64 / live_before as f64;
    let kept = (-share).exp() as f32;
    for ((_, chunk), arrived) in chunks.iter().zip(arrived) {
        let rate = Heat::load(&chunk.heat.log_rate) * kept + arrived as f32;
        chunk.heat.log_rate.store(rate.to_bits(), Ordering::Relaxed);
        sums.rate += f64::from(rate);
    }
    let floor = sums.rate / (chunks.len().max(1) as f64) * RATE_FLOOR_PART;
    space
        .rate_floor
        .store((floor as f32).to_bits(), Ordering::Relaxed);
    for (_, chunk) in &chunks {
        let view = chunk.view.load_full();
        let stats = jobs::own_figures(context, chunk, &view);
        // A snapshot that needed the hidden records may have ended.
        let covered = view.covers.is_some()
            && (hidden_pays(&stats) || covered_tables::has_spent(&core.clock, chunk, &view));
        if covered || stats.files_to_empty || expired_tables::has_expired(&core.clock, &view) {
            work.push_maintenance(chunk);
        }
        sums.add(&stats, &limits);
        let (late, most) = guarded::late_bytes(context.core, &view.funk);
        (sums.overdue, sums.limits) = (sums.overdue + late, sums.limits + most);
        // Merges that lower this backpressure are under way.
        let mergeable = log_merge::mergeable_bytes(context, chunk, &view);
        if mergeable > 0 {
            sums.mergeable += mergeable;
            work.push_merge(chunk, false);
        } else if any_thin && log_merge::empties_container(context, &view) {
            work.push_merge(chunk, false);
        }
        // A chunk's limit depends on the bytes of other chunks, so the chunk may exceed it without
        // a put of its own.
        let by_log = !stats.appended_in_order && !stats.is_guarded;
        if by_log && stats.log_bytes > log_bytes_max(&stats, &limits) {
            work.push_maintenance(chunk);
        }
    }
    sums
}

/// Updates the rates that the square-root rule uses.
fn divide(context: &JobContext<'_>, sums: &SpaceSums) {
    let &JobContext { core, space, .. } = context;
    let Some(amplification) = core.options.log_space_amplification() else {
        return;
    };
    let budget = sums.live as f64 * (amplification - 1.0);
    let fill = budget / (sums.log as f64).max(1.0);
    let times = 2.0 * (fill * fill).clamp(0.25, 4.0);
    space
        .total_bytes
        .store((budget * times) as u64, Ordering::Relaxed);
    space
        .sum_sqrt
        .store(sums.weight.to_bits(), Ordering::Relaxed);
}

/// Room on the disk that puts may ask for before the next look. It is reserved ahead, so that puts
/// do not wait for a file system that is busy with a checkpoint's writes. It is in proportion to
/// the data: a small database reserves little.
pub(crate) fn room_step(context: &JobContext<'_>) -> u64 {
    let &JobContext { core, space, .. } = context;
    let there = core.admission.delta_to_write() + space.data_bytes.load(Ordering::Relaxed) / 4;
    let most = (core.options.delta_bytes_max() / 4).max(GROW_BYTES_MIN);
    let step = there.clamp(GROW_BYTES_MIN, most);
    context.disk.container.set_grow_bytes(step);
    step
}

/// Bytes of room that are kept beyond the deltas' need: the least and the most.
pub(crate) fn room_kept(context: &JobContext<'_>) -> (u64, u64) {
    let step = room_step(context);
    match context.idle.is_idle(&context.core.metrics) {
        true => (step / 2, step),
        false => (2 * step, 3 * step),
    }
}

/// The most bytes of room that the container keeps: for the deltas, and some beyond them.
fn room_to_keep(context: &JobContext<'_>) -> u64 {
    context.core.admission.delta_to_write() + room_kept(context).1
}

/// Reserves room ahead of the puts. On a full disk nothing is reserved: the put that needs room
/// finds out, and the free room belongs to the jobs that make room.
pub(crate) fn room_ahead(engine: &Engine) {
    if engine.disk.full_disk.is_owed() {
        return;
    }
    let wanted = engine.core.admission.delta_to_write() + room_kept(&engine.jobs()).0;
    // First the room that is kept back for this number of bytes.
    if engine.disk.container.free_bytes() < wanted
        && engine.disk.full_disk.cover(&engine.catalog, wanted).is_ok()
        && engine.disk.container.ensure_room(wanted).is_ok()
    {
        engine.disk.full_disk.note_room(&engine.catalog);
    }
}

/// Gives free room of the container that will not be needed soon back to the file system. Returns
/// the bytes given back; unless they are 0 there may be more.
pub(crate) fn give_back_room(engine: &Engine) -> u64 {
    let keep = room_to_keep(&engine.jobs());
    // A checkpoint that writes to the file waits for one piece at most, and goes before the next
    // one.
    let rest = |worked: Duration| engine.core.manual() || !engine.work.wait_for_stop(worked);
    let given = match engine.idle.is_idle(&engine.core.metrics) {
        true => engine
            .disk
            .container
            .give_excess_back(keep, PIECES_MAX, &rest),
        false => engine.disk.container.give_back(keep, PIECES_MAX, &rest),
    };
    if given > 0 {
        // Puts that were admitted when there was more room do not need more than the kept room.
        let room = engine.disk.container.free_bytes();
        engine.disk.full_disk.limit_room(room);
    }
    given
}

fn note_space(disk: &Disk, space: &Space, sums: &SpaceSums) {
    space.chunks.store(sums.chunks, Ordering::Relaxed);
    // On a full disk no logs are merged.
    let mergeable = match disk.full_disk.is_owed() {
        true => 0,
        false => sums.mergeable,
    };
    space.mergeable_bytes.store(mergeable, Ordering::Relaxed);
    space.data_bytes.store(sums.data, Ordering::Relaxed);
    *space.stats.lock() = space_stats(disk, sums);
    let record_bytes = sums.live / sums.records.max(1);
    space.record_bytes.store(record_bytes, Ordering::Relaxed);
}

/// The figures of a look at the chunks; the file system is asked for the files' blocks only where
/// they are needed.
fn space_stats(disk: &Disk, sums: &SpaceSums) -> SpaceStats {
    let (free, punched, _) = disk.container.space();
    let garbage = sums.data.saturating_sub(sums.live);
    let log_garbage = sums.log_garbage.min(garbage);
    SpaceStats {
        live_bytes: sums.live,
        garbage_log_bytes: log_garbage,
        garbage_sstable_bytes: garbage - log_garbage,
        tombstones: sums.tombstones,
        range_tombstones: sums.range_tombstones,
        container_free_bytes: free,
        container_punched_bytes: punched,
        ..SpaceStats::default()
    }
}

/// Whether a checkpoint of its own is worth its cost for the room that it frees on the disk.
/// `deletes` is the number of deletions in RAM; `covered` is the bytes of chunks that range
/// deletions have emptied.
pub(crate) fn worth_deleting(context: &JobContext<'_>, deletes: u64, covered: u64) -> bool {
    let &JobContext { core, space, .. } = context;
    let bytes = deletes.saturating_mul(space.record_bytes.load(Ordering::Relaxed));
    bytes + covered > (space.stats.lock().live_bytes / 32).max(core.options.chunk_bytes_max())
}

/// Fills in a part of [`crate::metrics::Stats`]; the SSTables take `table_bytes`.
pub(crate) fn fill_space(engine: &Engine, stats: &mut SpaceStats, table_bytes: u64) {
    *stats = match engine.disk.manifest {
        Some(_) => *engine.space.stats.lock(),
        // A reader has no rounds.
        None => {
            let limits = jobs::picker_limits(&engine.jobs());
            let mut sums = SpaceSums::default();
            for (_, chunk) in engine.catalog.chunks() {
                let view = chunk.view.load_full();
                sums.add(&jobs::own_figures(&engine.jobs(), &chunk, &view), &limits);
            }
            space_stats(&engine.disk, &sums)
        }
    };
    stats.deletion_pending_bytes = engine.disk.tables.pending_bytes();
    // The blocks as the file system counts them. Files for which it has no answer are not counted.
    let blocks = |name: &str| {
        let bytes = engine.disk.vfs.allocated_bytes(&engine.disk.dir.join(name));
        bytes.unwrap_or(0)
    };
    let (value_bytes, live, _) = engine.core.value_files.totals();
    stats.value_file_bytes = value_bytes;
    stats.value_file_live_bytes = live.min(value_bytes);
    stats.commit_log_bytes = blocks(COMMIT_LOG);
    stats.ballast_bytes = blocks(BALLAST);
    let containers = engine.disk.container.segments().numbers();
    let containers = containers
        .iter()
        .map(|&number| blocks(&container_name(number)));
    stats.container_bytes = containers.sum();
    stats.manifest_bytes = match writer::read_current(&*engine.disk.vfs, &engine.disk.dir) {
        Ok(current) => {
            let path = writer::manifest_path(&engine.disk.dir, current.id);
            engine.disk.vfs.allocated_bytes(&path).unwrap_or(0)
        }
        Err(_) => 0,
    };
    let small = [CURRENT, LOCK, STATS, HEAT].map(blocks);
    stats.disk_bytes = table_bytes
        + engine.disk.tables.pending_file_bytes()
        + stats.commit_log_bytes
        + stats.ballast_bytes
        + stats.container_bytes
        + stats.manifest_bytes
        + engine.log.value_extents.allocated_bytes()
        + stats.value_file_bytes
        + small.iter().sum::<u64>();
}

/// The bytes that a rewrite of the chunk would leave.
pub(super) fn expected_live_bytes(stats: &ChunkStats) -> u64 {
    let live = match stats.appended_in_order {
        true => stats.data_bytes,
        false if stats.munk_is_whole => stats.live_bytes_estimate,
        // Each tombstone is assumed to hide a record of the base.
        false => {
            let deleted = stats.tombstones as f64 / stats.records.max(1) as f64;
            (stats.live_bytes_estimate as f64 * (1.0 - deleted.min(1.0))) as u64
        }
    };
    live.saturating_sub(stats.hidden_bytes)
}

impl SpaceSums {
    fn add(&mut self, stats: &ChunkStats, limits: &PickerLimits) {
        let live = expected_live_bytes(stats);
        self.live += live;
        self.data += stats.data_bytes;
        self.log += stats.log_bytes;
        self.tombstones += stats.tombstones;
        self.range_tombstones += u64::from(stats.covers);
        self.records += stats.records;
        self.weight += log_weight(stats);
        // The bytes that records of the log overwrite in the log itself, if they arrive at random
        // in a chunk of `live` bytes.
        let fill = stats.log_bytes as f64 / (live as f64).max(1.0);
        let distinct = (live as f64) * (1.0 - (-fill).exp());
        self.log_garbage += stats.log_bytes.saturating_sub(distinct as u64);
        if !stats.appended_in_order && !stats.is_guarded {
            let limit = log_bytes_max(stats, limits);
            self.limits += limit;
            self.overdue += stats.log_bytes.saturating_sub(limit);
        }
    }
}
