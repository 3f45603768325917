//! The slow round: looks at all chunks every now and then, divides the space that logs may take, sets
//! the backpressure of debt, gives free room of the log container back, and keeps the figures of
//! [`SpaceStats`].
//!
//! ```text
//!   live bytes of all chunks  x (space amplification - 1)  =  B, what logs may take
//!   limit of a chunk's log    =  m x B x w / sum of w,  w = sqrt(rate x live bytes)
//!   m = 2 (B / log bytes)^2   a log is half full on average; while there is room, limits are wider
//! ```
//! The rate is that of bytes arriving in the chunk's log, remembered over about as many bytes as the
//! database holds: a time would be wrong for a slow and a fast one alike. A floor of a part of the
//! mean keeps a chunk that has not been written for long from being rewritten for next to nothing.
//!
//! Thread safety: one round at a time (upkeep, or whoever settles). Decisions read the outcome
//! through atomics, at worst of two rounds mixed, which does no harm.

use super::picker::{ChunkStats, Limits, LogBudget, log_bytes_max, log_weight};
use crate::ballast::BALLAST;
use crate::chunk::{Chunk, Heat};
use crate::engine::Engine;
use crate::funk::container::GROW_BYTES_MIN;
use crate::manifest::writer;
use crate::metrics::SpaceStats;
use crate::observe;
use crate::options::Options;
use crate::recovery::{COMMIT_LOG, CONTAINER, LOCK};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A round comes this long after the last one at the earliest, and takes at most a part of the time.
const ROUND_EVERY: Duration = Duration::from_millis(200);
const ROUND_TIME_PART: u32 = 20;
/// The part of the mean rate that every chunk is taken to have at least.
const RATE_FLOOR_PART: f64 = 1.0 / 16.0;
/// Pieces that the container gives back in one turn: each takes some 0.2 ms, or several where the file
/// system tells the disk.
const PIECES_MAX: usize = 2;

/// What the last round found.
#[derive(Default)]
pub(crate) struct Space {
    /// [`LogBudget`], the second one as bits of an `f64`; zero before the first round.
    total_bytes: AtomicU64,
    sum_sqrt: AtomicU64,
    /// Added to each chunk's rate, as bits of an `f32`.
    rate_floor: AtomicU32,
    /// A round has been, and nobody has given room back since.
    give_back: AtomicBool,
    /// Held over a round.
    last: Mutex<Option<(Instant, Duration)>>,
    stats: Mutex<SpaceStats>,
    /// Bytes of a record, on average.
    record_bytes: AtomicU64,
    /// Keys and values in tables, obsolete ones included.
    data_bytes: AtomicU64,
    chunks: AtomicU64,
}

/// The most of [`Engine::room_step`].
fn room_step_max(options: &Options) -> u64 {
    (options.delta_bytes_max() / 4).max(GROW_BYTES_MIN)
}

/// Sums over chunks.
#[derive(Default)]
struct Sums {
    chunks: u64,
    /// Bytes that came to logs since the last round.
    arrived: u64,
    live: u64,
    data: u64,
    log: u64,
    log_garbage: u64,
    tombstones: u64,
    records: u64,
    rate: f64,
    weight: f64,
    /// Log bytes beyond the limits, and all limits together.
    overdue: u64,
    limits: u64,
}

impl Space {
    /// Whether it is time to give room back; the caller does.
    pub(crate) fn takes_give_back(&self) -> bool {
        self.give_back.swap(false, Ordering::Relaxed)
    }

    /// Whether it is time to, and nobody has begun.
    pub(crate) fn owes_give_back(&self) -> bool {
        self.give_back.load(Ordering::Relaxed)
    }

    /// Chunks there were at the last round.
    pub(crate) fn chunks(&self) -> u64 {
        self.chunks.load(Ordering::Relaxed)
    }

    /// What logs may take, if a round has been.
    pub(crate) fn log_budget(&self) -> Option<LogBudget> {
        let sum_sqrt = f64::from_bits(self.sum_sqrt.load(Ordering::Relaxed));
        let total_bytes = self.total_bytes.load(Ordering::Relaxed);
        (sum_sqrt > 0.0).then_some(LogBudget {
            total_bytes,
            sum_sqrt,
        })
    }

    /// A chunk's rate as the square-root rule takes it.
    pub(crate) fn update_rate(&self, chunk: &Chunk) -> f32 {
        Heat::load(&chunk.heat.log_rate) + f32::from_bits(self.rate_floor.load(Ordering::Relaxed))
    }
}

impl Engine {
    /// When the last round ended.
    pub(crate) fn last_space_round(&self) -> Option<Instant> {
        self.space.last.lock().map(|(at, _)| at)
    }

    /// A round if it is time for one, or in any case.
    pub(crate) fn space_round(&self, now: bool) {
        if self.failure().is_some() || self.manifest.is_none() {
            return;
        }
        let mut last = self.space.last.lock();
        let pause = last.map_or(Duration::ZERO, |(_, took)| {
            ROUND_EVERY.max(took * ROUND_TIME_PART)
        });
        if !now && last.is_some_and(|(at, _)| at.elapsed() < pause) {
            return;
        }
        let started = Instant::now();
        let sums = self.look_at_chunks();
        self.divide(&sums);
        let half = self.options.delta_bytes_max() / 2;
        // A worker's queue is never empty: what is behind by little is no debt.
        let overdue = sums.overdue.saturating_sub(sums.limits / 8);
        self.admission.set_debt(overdue, sums.limits.max(half));
        let kept = self.admission.delta_to_write() + self.room_kept().1;
        if self.container.free_bytes() > kept {
            self.space.give_back.store(true, Ordering::Relaxed);
        }
        self.note_space(&sums);
        let record_bytes = self.space.record_bytes.load(Ordering::Relaxed);
        self.earn_for_idle(sums.arrived, record_bytes, sums.live);
        *last = Some((Instant::now(), started.elapsed()));
    }

    fn look_at_chunks(&self) -> Sums {
        let mut sums = Sums::default();
        let limits = self.picker_limits();
        let chunks = self.chunks();
        sums.chunks = chunks.len() as u64;
        let arrived: Vec<u64> = chunks
            .iter()
            .map(|(_, chunk)| chunk.heat.logged.swap(0, Ordering::Relaxed))
            .collect();
        let live_before = self.space.stats.lock().live_bytes.max(1);
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
        self.space
            .rate_floor
            .store((floor as f32).to_bits(), Ordering::Relaxed);
        for (_, chunk) in &chunks {
            if chunk.covered.lock().is_some() {
                self.work.push_maintenance(chunk);
            }
            let view = chunk.view.load_full();
            let stats = self.own_figures(chunk, &view);
            sums.add(&stats, &limits);
            // Limits move with what the others hold, so a chunk comes above its own by itself.
            if !stats.appended_in_order && stats.log_bytes > log_bytes_max(&stats, &limits) {
                self.work.push_maintenance(chunk);
            }
        }
        sums
    }

    /// Feeds the square-root rule.
    fn divide(&self, sums: &Sums) {
        let Some(amplification) = self.options.log_space_amplification() else {
            return;
        };
        let budget = sums.live as f64 * (amplification - 1.0);
        let fill = budget / (sums.log as f64).max(1.0);
        let times = 2.0 * (fill * fill).clamp(0.25, 4.0);
        self.space
            .total_bytes
            .store((budget * times) as u64, Ordering::Relaxed);
        self.space
            .sum_sqrt
            .store(sums.weight.to_bits(), Ordering::Relaxed);
    }

    /// Room on the disk that puts may ask for before the next look: so that they find it there,
    /// and do not wait for a file system that is busy with a checkpoint's writes. In proportion to what
    /// there is: a small database takes little ahead.
    pub(crate) fn room_step(&self) -> u64 {
        let there =
            self.admission.delta_to_write() + self.space.data_bytes.load(Ordering::Relaxed) / 4;
        let step = there.clamp(GROW_BYTES_MIN, room_step_max(&self.options));
        self.container.set_grow_bytes(step);
        step
    }

    /// Room that is kept beyond what the deltas need: at least, and at most.
    pub(super) fn room_kept(&self) -> (u64, u64) {
        let step = self.room_step();
        match self.is_idle() {
            true => (step / 2, step),
            false => (2 * step, 3 * step),
        }
    }

    /// Reserves room ahead of the puts. A full disk shows in the put that needs it, and what is free
    /// there belongs to those who make room.
    pub(crate) fn room_ahead(&self) {
        if self.ballast.is_owed() {
            return;
        }
        let wanted = self.admission.delta_to_write() + self.room_kept().0;
        // What is kept back for so much data first.
        if self.container.free_bytes() < wanted
            && self.cover_data(wanted).is_ok()
            && self.container.ensure_room(wanted).is_ok()
        {
            self.note_disk_room();
        }
    }

    /// Free room of the container that nobody will want soon goes back to the file system.
    /// The bytes that went: while it is some, there may be more.
    pub(crate) fn give_back_room(&self) -> u64 {
        let keep = self.admission.delta_to_write() + self.room_kept().1;
        // A checkpoint that writes to the file waits for a piece, and gets its turn before the next.
        let rest = |worked: Duration| self.manual() || !self.work.wait_for_stop(worked);
        let given = match self.is_idle() {
            true => self.container.give_excess_back(keep, PIECES_MAX, &rest),
            false => self.container.give_back(keep, PIECES_MAX, &rest),
        };
        if given > 0 {
            // Who was told of more room before has had less than what is kept to put into it.
            let room = self.container.free_bytes();
            self.disk_room.fetch_min(room, Ordering::Relaxed);
        }
        given
    }

    fn note_space(&self, sums: &Sums) {
        self.space.chunks.store(sums.chunks, Ordering::Relaxed);
        self.space.data_bytes.store(sums.data, Ordering::Relaxed);
        *self.space.stats.lock() = self.space_stats(sums);
        let record_bytes = sums.live / sums.records.max(1);
        self.space
            .record_bytes
            .store(record_bytes, Ordering::Relaxed);
    }

    /// What a look at the chunks tells; the blocks of files are for who asks.
    fn space_stats(&self, sums: &Sums) -> SpaceStats {
        let (free, punched, _) = self.container.space();
        let garbage = sums.data.saturating_sub(sums.live);
        let log_garbage = sums.log_garbage.min(garbage);
        SpaceStats {
            live_bytes: sums.live,
            garbage_log_bytes: log_garbage,
            garbage_sstable_bytes: garbage - log_garbage,
            tombstones: sums.tombstones,
            container_free_bytes: free,
            container_punched_bytes: punched,
            ..SpaceStats::default()
        }
    }

    /// Whether so many deletions in RAM would free enough on the disk for a checkpoint of their own.
    pub(crate) fn worth_deleting(&self, deletes: u64) -> bool {
        let bytes = deletes.saturating_mul(self.space.record_bytes.load(Ordering::Relaxed));
        bytes > (self.space.stats.lock().live_bytes / 32).max(self.options.chunk_bytes_max())
    }

    /// For [`crate::metrics::Stats`]; the SSTables take `table_bytes`.
    pub(crate) fn fill_space(&self, stats: &mut SpaceStats, table_bytes: u64) {
        *stats = match self.manifest {
            Some(_) => *self.space.stats.lock(),
            // A reader has no rounds.
            None => {
                let limits = self.picker_limits();
                let mut sums = Sums::default();
                for (_, chunk) in self.chunks() {
                    let view = chunk.view.load_full();
                    sums.add(&self.own_figures(&chunk, &view), &limits);
                }
                self.space_stats(&sums)
            }
        };
        stats.deletion_pending_bytes = self.tables.pending_bytes();
        // The file system knows. What cannot be asked is not counted.
        let blocks = |name: &str| {
            let bytes = self.vfs.allocated_bytes(&self.dir.join(name));
            bytes.unwrap_or(0)
        };
        stats.commit_log_bytes = blocks(COMMIT_LOG);
        stats.ballast_bytes = blocks(BALLAST);
        stats.container_bytes = blocks(CONTAINER);
        stats.manifest_bytes = match writer::read_current(&*self.vfs, &self.dir) {
            Ok(current) => blocks(&format!("MANIFEST-{:06}", current.id)),
            Err(_) => 0,
        };
        let small = ["CURRENT", LOCK, observe::live::NAME].map(blocks);
        stats.disk_bytes = table_bytes
            + self.tables.pending_file_bytes()
            + stats.commit_log_bytes
            + stats.ballast_bytes
            + stats.container_bytes
            + stats.manifest_bytes
            + self.value_extents.allocated_bytes()
            + small.iter().sum::<u64>();
    }
}

/// What a rewrite of the chunk would leave.
pub(super) fn expected_live_bytes(stats: &ChunkStats) -> u64 {
    match stats.appended_in_order {
        true => stats.data_bytes,
        false if stats.has_munk => stats.live_bytes_estimate,
        // Each tombstone is taken to hide a record of the base.
        false => {
            let deleted = stats.tombstones as f64 / stats.records.max(1) as f64;
            (stats.live_bytes_estimate as f64 * (1.0 - deleted.min(1.0))) as u64
        }
    }
}

impl Sums {
    fn add(&mut self, stats: &ChunkStats, limits: &Limits) {
        let live = expected_live_bytes(stats);
        self.live += live;
        self.data += stats.data_bytes;
        self.log += stats.log_bytes;
        self.tombstones += stats.tombstones;
        self.records += stats.records;
        self.weight += log_weight(stats);
        // Records that arrive at random in a chunk of `live` bytes: what is overwritten in the log
        // itself.
        let fill = stats.log_bytes as f64 / (live as f64).max(1.0);
        let distinct = (live as f64) * (1.0 - (-fill).exp());
        self.log_garbage += stats.log_bytes.saturating_sub(distinct as u64);
        if !stats.appended_in_order {
            let limit = log_bytes_max(stats, limits);
            self.limits += limit;
            self.overdue += stats.log_bytes.saturating_sub(limit);
        }
    }
}
