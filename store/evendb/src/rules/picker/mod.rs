//! Chooses the work on a chunk: pure functions from statistics to a [`Decision`].
//!
//! Rules, the first that applies wins:
//! 1. absorb, when enough durable deltas wait beside the munk (memory only, and puts wait for it);
//! 2. split, when the live data is above the chunk limit; a chunk that shares tables is rebalanced
//!    first; a chunk loaded in order is split as it is, because it has no garbage;
//! 3. rebalance, for garbage: above the rebalance size, and a quarter of it dead;
//! 4. rebalance, for the log: above its limit in bytes (not in order);
//! 5. rebalance, for tombstones: half of the base's number of records, or a munk with less than
//!    half of the base;
//! 6. rebalance, for range deletions: a quarter is hidden, or there are many;
//! 7. rebalance, for values in value files, or tables in containers, that are being emptied;
//! 8. rebalance, for values apart that the log has overwritten: until then they count as live;
//! 9. merge with the next chunk, when both together are far below the chunk limit.
//!
//! No decision is undone by the next one: halves of a split are above `merge_bytes` together, and a
//! rebalance leaves no log, no garbage and no shared tables.
//!
//! Log limits are fixed (the paper's), or follow the square-root rule: at equal space, limits
//! proportional to sqrt(update rate x live size) make total rewriting least.
//!
//! Thread safety: pure. The caller does the work, and asks again under the chunk's token.

#[cfg(test)]
#[cfg(not(evendb_loom))]
mod tests;

/// Bounds of the square-root rule: the fixed limit is divided by the first number, and multiplied
/// by the second. A wrong rate must not starve a chunk or give it the whole budget.
const LOG_LIMIT_PART_MIN: u64 = 16;
const LOG_LIMIT_TIMES_MAX: u64 = 4;
/// Fewer tombstones than this are no reason to rewrite a chunk.
const TOMBSTONES_MIN: u64 = 64;

/// One part in this many of a chunk: if range deletions hide more, a rewrite is worth it; the
/// second number is the least hidden bytes.
const HIDDEN_PART: u64 = 4;
const HIDDEN_BYTES_MIN: u64 = 4 << 10;
/// A rewrite is also worth it for more pieces of range deletions than this.
const HIDDEN_PIECES_MAX: u32 = 128;

/// Values apart that records of the log name are assumed to have overwritten the same number of
/// bytes of the base. A rewrite is worth it if these are at least one part in
/// `OVERWRITTEN_VALUES_PART` of the bytes that the base names, and at least
/// `OVERWRITTEN_VALUES_TIMES` times the bytes that the rewrite reads and writes. So it adds at most
/// the inverse of the second number to the bytes written per byte put.
const OVERWRITTEN_VALUES_PART: u64 = 8;
const OVERWRITTEN_VALUES_TIMES: u64 = 8;

/// The figures of one chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChunkStats {
    /// It has guards, whose jobs another picker finds.
    pub(crate) is_guarded: bool,
    /// Bytes on disk within the chunk's limits: its part of the SSTable, and its log.
    pub(crate) data_bytes: u64,
    /// Bytes of its log.
    pub(crate) log_bytes: u64,
    /// The estimated bytes of `data_bytes` that a rebalance would leave.
    pub(crate) live_bytes_estimate: u64,
    /// Whether the whole chunk is in RAM.
    pub(crate) munk_is_whole: bool,
    /// Decayed update rate, in bytes per second or any other unit that all chunks share.
    pub(crate) update_rate: f32,
    /// For a chunk whose base is as it was loaded: the share of its log's limit at which a rewrite
    /// is due.
    pub(crate) first_limit_part: Option<f32>,
    /// Whether its SSTable or log extents also belong to another chunk, since a split.
    pub(crate) shares_tables: bool,
    /// Its log's runs are disjoint and ascending, above its SSTable: no garbage.
    pub(crate) appended_in_order: bool,
    /// The number of records of its base; without a base, of its log, tombstones included. (A log
    /// also has records that overwrite others: they say nothing about the records that tombstones
    /// hide.)
    pub(crate) records: u64,
    /// The number of tombstones on disk.
    pub(crate) tombstones: u64,
    /// The number of pieces of range deletions.
    pub(crate) covers: u32,
    /// The approximate bytes that range deletions hide and that a rewrite would remove, and the
    /// number of pieces of these range deletions.
    pub(crate) hidden_bytes: u64,
    pub(crate) hidden_pieces: u32,
    /// Whether some of its values lie in files that are being emptied, or tables of its base in a
    /// container that is.
    pub(crate) files_to_empty: bool,
    /// Bytes of values apart that its log names, and that its base names.
    pub(crate) log_value_bytes: u64,
    pub(crate) base_value_bytes: u64,
    /// The number of frozen deltas that are durable and wait beside the munk.
    pub(crate) frozen_deltas: u32,
    /// Live bytes of the next chunk, if they are known.
    pub(crate) next_bytes: Option<u64>,
}

/// The quotient of the square-root rule: log space, over the sum of [`log_weight`] of all chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogBudget {
    /// Log space of all chunks.
    pub(crate) total_bytes: u64,
    /// Sum of the weights of all chunks.
    pub(crate) sum_sqrt: f64,
}

/// Thresholds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PickerLimits {
    /// Live data above which a chunk is split.
    pub(crate) chunk_bytes_max: u64,
    /// Data above which a chunk with garbage is rebalanced.
    pub(crate) rebalance_bytes: u64,
    /// Log limit of a chunk without a munk.
    pub(crate) log_bytes_max_cold: u64,
    /// Log limit of a chunk with a munk, whose log is not read.
    pub(crate) log_bytes_max_munk: u64,
    /// The number of durable deltas at which a munk absorbs them.
    pub(crate) frozen_deltas_max: u32,
    /// If set, log limits follow the square-root rule, in place of the two fixed ones.
    pub(crate) square_root: Option<LogBudget>,
    /// Two neighbours with at most this number of bytes together are merged.
    pub(crate) merge_bytes: u64,
    /// The number of bytes from which overwritten values apart are searched for.
    pub(crate) overwritten_values_min: u64,
}

impl Default for PickerLimits {
    fn default() -> Self {
        const MB: u64 = 1 << 20;
        PickerLimits {
            chunk_bytes_max: 10 * MB,
            rebalance_bytes: 7 * MB,
            log_bytes_max_cold: 2 * MB,
            log_bytes_max_munk: 20 * MB,
            frozen_deltas_max: 4,
            square_root: None,
            merge_bytes: 4 * MB,
            overwritten_values_min: 16 * MB,
        }
    }
}

/// The decision for a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Decision {
    /// Nothing.
    None,
    /// Absorb durable deltas into the munk.
    Absorb,
    /// Rewrite the SSTable with the log.
    RebalanceFunk,
    /// Cut in two.
    Split,
    /// Join with a neighbour.
    Merge,
}

/// The reason of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    /// No rule applies.
    Fine,
    /// Durable deltas wait.
    FrozenDeltas,
    /// Live data above the limit.
    Size,
    /// To be split, but it shares tables.
    SharesTables,
    /// Large, with dead data.
    Garbage,
    /// Log above its limit.
    LogBytes,
    /// There are many tombstones.
    Tombstones,
    /// Range deletions hide much, or there are many of them.
    RangeTombstones,
    /// Values lie in files that are being emptied.
    FilesToEmpty,
    /// The log has overwritten many values apart.
    OverwrittenValues,
    /// It and the next chunk are small.
    Small,
}

/// Decides for one chunk.
pub(crate) fn pick(stats: &ChunkStats, limits: &PickerLimits) -> Decision {
    decide(stats, limits).0
}

fn decide(stats: &ChunkStats, limits: &PickerLimits) -> (Decision, Reason) {
    if stats.frozen_deltas >= limits.frozen_deltas_max.max(1) {
        return (Decision::Absorb, Reason::FrozenDeltas);
    }
    let live_bytes = if stats.appended_in_order {
        stats.data_bytes
    } else {
        stats.live_bytes_estimate
    };
    if live_bytes > limits.chunk_bytes_max {
        return if stats.shares_tables {
            (Decision::RebalanceFunk, Reason::SharesTables)
        } else {
            (Decision::Split, Reason::Size)
        };
    }
    if !stats.appended_in_order
        && let Some(reason) = rebalance_reason(stats, limits)
    {
        return (Decision::RebalanceFunk, reason);
    }
    if stats.tombstones >= TOMBSTONES_MIN
        && (stats.tombstones >= stats.records.div_ceil(2) || mostly_deleted(stats))
    {
        return (Decision::RebalanceFunk, Reason::Tombstones);
    }
    if hidden_pays(stats) {
        return (Decision::RebalanceFunk, Reason::RangeTombstones);
    }
    if stats.files_to_empty {
        return (Decision::RebalanceFunk, Reason::FilesToEmpty);
    }
    if overwritten_values_pay(stats, limits) {
        return (Decision::RebalanceFunk, Reason::OverwrittenValues);
    }
    let together = stats.next_bytes.map(|next| next.saturating_add(live_bytes));
    match together.is_some_and(|bytes| bytes <= limits.merge_bytes) {
        true => (Decision::Merge, Reason::Small),
        false => (Decision::None, Reason::Fine),
    }
}

/// Whether a rewrite pays because range deletions hide enough, or are enough.
pub(crate) fn hidden_pays(stats: &ChunkStats) -> bool {
    let much = stats.hidden_bytes.saturating_mul(HIDDEN_PART) >= stats.data_bytes;
    (much && stats.hidden_bytes >= HIDDEN_BYTES_MIN) || stats.hidden_pieces > HIDDEN_PIECES_MAX
}

/// Whether a rewrite pays because enough values apart may be dead, which it finds out.
pub(crate) fn overwritten_values_pay(stats: &ChunkStats, limits: &PickerLimits) -> bool {
    let least = [
        limits.overwritten_values_min,
        stats.base_value_bytes / OVERWRITTEN_VALUES_PART,
        stats.data_bytes.saturating_mul(OVERWRITTEN_VALUES_TIMES),
    ];
    stats.log_value_bytes > 0 && least.iter().all(|bytes| stats.log_value_bytes >= *bytes)
}

/// Whether the munk, which knows, has less than half of the base's data.
fn mostly_deleted(stats: &ChunkStats) -> bool {
    let base_bytes = stats.data_bytes.saturating_sub(stats.log_bytes);
    stats.munk_is_whole && stats.live_bytes_estimate < base_bytes / 2
}

/// The reason to rewrite a chunk that was not loaded in order for its size or its log.
fn rebalance_reason(stats: &ChunkStats, limits: &PickerLimits) -> Option<Reason> {
    let dead_bytes = stats.data_bytes.saturating_sub(stats.live_bytes_estimate);
    // Without a munk a smaller log already counts: gets and loads read it. With a munk, the log
    // only takes room, and its limit is the bound. Under the square-root rule the log's limit
    // bounds garbage.
    if limits.square_root.is_none()
        && !stats.munk_is_whole
        && stats.data_bytes > limits.rebalance_bytes
        && dead_bytes >= stats.data_bytes / 4
    {
        return Some(Reason::Garbage);
    }
    (stats.log_bytes > log_bytes_max(stats, limits)).then_some(Reason::LogBytes)
}

/// Log limit of a chunk: fixed, or by the square-root rule within bounds.
pub(crate) fn log_bytes_max(stats: &ChunkStats, limits: &PickerLimits) -> u64 {
    let fixed = if stats.munk_is_whole {
        limits.log_bytes_max_munk
    } else {
        limits.log_bytes_max_cold
    };
    match limits.square_root {
        Some(budget) if budget.sum_sqrt.is_finite() && budget.sum_sqrt > 0.0 => {
            let share = log_weight(stats) / budget.sum_sqrt;
            // A cast of a float saturates.
            let share = share * f64::from(stats.first_limit_part.unwrap_or(1.0));
            let bytes = (budget.total_bytes as f64 * share) as u64;
            bytes.clamp(
                fixed / LOG_LIMIT_PART_MIN,
                fixed.saturating_mul(LOG_LIMIT_TIMES_MAX),
            )
        }
        _ => fixed,
    }
}

/// Weight of a chunk in the square-root rule: sqrt(update rate x live size).
pub(crate) fn log_weight(stats: &ChunkStats) -> f64 {
    let rate = f64::from(stats.update_rate);
    let rate = if rate.is_finite() { rate.max(0.0) } else { 0.0 };
    (rate * stats.live_bytes_estimate as f64).sqrt()
}

/// The effect of rewriting a chunk, for [`pick_idle`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shrinking {
    /// Bytes that the rewrite would write.
    pub(crate) live_bytes: u64,
    /// Bytes that the rewrite would free.
    pub(crate) garbage_bytes: u64,
}

/// Chooses chunks to rewrite when there is nothing else to do, best first. It takes the chunks with
/// the greatest share of garbage, until the rest of garbage is at most `garbage_share` of the live
/// bytes, or until the next chunk would write more than is left of `write_bytes_max`. It takes no
/// chunk whose share of garbage is at most `garbage_share`.
pub(crate) fn pick_idle(
    chunks: &[Shrinking],
    garbage_share: f64,
    write_bytes_max: u64,
) -> Vec<usize> {
    let sum = |bytes: fn(&Shrinking) -> u64| chunks.iter().map(bytes).sum::<u64>();
    let garbage_max = (sum(|chunk| chunk.live_bytes) as f64 * garbage_share) as u64;
    let mut garbage = sum(|chunk| chunk.garbage_bytes);
    let share = |chunk: &Shrinking| chunk.garbage_bytes as f64 / chunk.live_bytes.max(1) as f64;
    let mut order: Vec<usize> = (0..chunks.len())
        .filter(|&at| share(&chunks[at]) > garbage_share)
        .collect();
    order.sort_by(|&a, &b| share(&chunks[b]).total_cmp(&share(&chunks[a])));
    let mut left = write_bytes_max;
    order
        .into_iter()
        .take_while(|&at| {
            let taken = garbage > garbage_max && chunks[at].live_bytes <= left;
            if taken {
                garbage -= chunks[at].garbage_bytes;
                left -= chunks[at].live_bytes;
            }
            taken
        })
        .collect()
}
