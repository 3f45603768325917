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
//! 7. rebalance, for values in value files that are being emptied;
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
    /// Whether some of its values lie in files that are being emptied.
    pub(crate) values_to_move: bool,
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
    if stats.values_to_move {
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

#[cfg(test)]
#[cfg(not(evendb_loom))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MB: u64 = 1 << 20;

    /// A chunk with nothing to do.
    fn fine() -> ChunkStats {
        ChunkStats {
            data_bytes: 6 * MB,
            log_bytes: MB,
            live_bytes_estimate: 6 * MB,
            update_rate: 1.0,
            records: 10_000,
            next_bytes: Some(6 * MB),
            ..ChunkStats::default()
        }
    }

    fn picked(change: impl FnOnce(&mut ChunkStats)) -> (Decision, Reason) {
        let mut stats = fine();
        change(&mut stats);
        decide(&stats, &PickerLimits::default())
    }

    /// A chunk that was never rewritten is due at its own share of the limit; one that was
    /// rewritten is due at the whole limit.
    #[test]
    fn logs_that_began_together_do_not_end_together() {
        let limits = PickerLimits {
            square_root: Some(LogBudget {
                total_bytes: 8 * MB,
                sum_sqrt: 2.0 * log_weight(&fine()),
            }),
            ..PickerLimits::default()
        };
        let limit_at = |first_limit_part| {
            let stats = ChunkStats {
                first_limit_part,
                ..fine()
            };
            log_bytes_max(&stats, &limits)
        };
        assert_eq!(limit_at(None), 4 * MB);
        assert_eq!(limit_at(Some(0.5)), 2 * MB);
        assert_eq!(limit_at(Some(1.25)), 5 * MB);
    }

    #[test]
    fn each_rule_of_deltas_size_and_garbage() {
        use Decision::{Absorb, RebalanceFunk, Split};
        assert_eq!(picked(|_| ()), (Decision::None, Reason::Fine));
        let deltas = |count| picked(move |s| s.frozen_deltas = count);
        assert_eq!(deltas(4), (Absorb, Reason::FrozenDeltas));
        assert_eq!(deltas(3), (Decision::None, Reason::Fine));

        let overwritten = |log, base| {
            picked(move |s| (s.log_value_bytes, s.base_value_bytes) = (log * MB, base * MB))
        };
        let rewritten = (RebalanceFunk, Reason::OverwrittenValues);
        assert_eq!(overwritten(50, 400), rewritten);
        assert_eq!(overwritten(50, 401), (Decision::None, Reason::Fine));
        // A rewrite reads and writes 6 MB.
        assert_eq!(overwritten(47, 100), (Decision::None, Reason::Fine));
        assert_eq!(overwritten(48, 100), rewritten);
        let short = |log_value_bytes| {
            picked(move |s| (s.data_bytes, s.log_value_bytes) = (1 << 10, log_value_bytes)).1
        };
        assert_eq!(short(16 * MB), Reason::OverwrittenValues);
        assert_ne!(short(16 * MB - 1), Reason::OverwrittenValues);

        let live = |live, shares| {
            picked(move |s| {
                (s.live_bytes_estimate, s.data_bytes, s.shares_tables) = (live, live, shares)
            })
        };
        assert_eq!(live(10 * MB + 1, false), (Split, Reason::Size));
        assert_eq!(
            live(10 * MB + 1, true),
            (RebalanceFunk, Reason::SharesTables)
        );
        assert_eq!(live(10 * MB, false), (Decision::None, Reason::Fine));
        // Large only because of garbage: not split.
        let garbage = |data, live, munk| {
            picked(move |s| {
                (s.data_bytes, s.live_bytes_estimate, s.munk_is_whole) = (data, live, munk)
            })
        };
        assert_eq!(
            garbage(12 * MB, 6 * MB, false),
            (RebalanceFunk, Reason::Garbage)
        );
        assert_eq!(
            garbage(8 * MB, 7 * MB, false),
            (Decision::None, Reason::Fine)
        );
        assert_eq!(
            garbage(12 * MB, 6 * MB, true),
            (Decision::None, Reason::Fine)
        );
    }

    #[test]
    fn each_rule_of_logs_tombstones_and_neighbours() {
        use Decision::{Merge, RebalanceFunk};
        let log = |bytes, munk| picked(move |s| (s.log_bytes, s.munk_is_whole) = (bytes, munk));
        assert_eq!(log(2 * MB + 1, false), (RebalanceFunk, Reason::LogBytes));
        assert_eq!(log(2 * MB, false), (Decision::None, Reason::Fine));
        assert_eq!(log(20 * MB, true), (Decision::None, Reason::Fine));
        assert_eq!(log(20 * MB + 1, true), (RebalanceFunk, Reason::LogBytes));
        assert_eq!(
            picked(|s| s.tombstones = 5_000),
            (RebalanceFunk, Reason::Tombstones)
        );
        assert_eq!(picked(|s| s.tombstones = 4_999).0, Decision::None);
        assert_eq!(
            picked(|s| (s.tombstones, s.records) = (63, 63)).0,
            Decision::None
        );

        let small = |next| {
            picked(move |s| {
                (s.data_bytes, s.live_bytes_estimate, s.next_bytes) = (MB, MB, next);
            })
        };
        assert_eq!(small(Some(3 * MB)), (Merge, Reason::Small));
        assert_eq!(small(Some(3 * MB + 1)), (Decision::None, Reason::Fine));
        assert_eq!(small(None), (Decision::None, Reason::Fine));
    }

    #[test]
    fn data_loaded_in_order_is_split_but_never_rewritten() {
        for log_bytes in (MB..40 * MB).step_by(MB as usize / 2) {
            let (decision, _) = picked(|s| {
                s.appended_in_order = true;
                (s.log_bytes, s.data_bytes) = (log_bytes, log_bytes);
                // A bad estimate does not count: there is no garbage.
                s.live_bytes_estimate = log_bytes / 3;
            });
            let above = log_bytes > 10 * MB;
            assert_eq!(
                decision,
                if above {
                    Decision::Split
                } else {
                    Decision::None
                }
            );
        }
    }

    #[test]
    fn the_square_root_rule_divides_the_budget() {
        let mut chunks = [fine(); 4];
        for (chunk, rate) in chunks.iter_mut().zip([1.0, 4.0, 4.0, 9.0]) {
            chunk.update_rate = rate;
        }
        let sum_sqrt = chunks.iter().map(log_weight).sum();
        let square_root = Some(LogBudget {
            total_bytes: 8 * MB,
            sum_sqrt,
        });
        let limits = PickerLimits {
            square_root,
            ..PickerLimits::default()
        };
        let each: Vec<u64> = chunks
            .iter()
            .map(|chunk| log_bytes_max(chunk, &limits))
            .collect();
        for (bytes, mb) in each.iter().zip([1, 2, 2, 3]) {
            assert!(bytes.abs_diff(mb * MB) < 2, "{each:?}");
        }
        chunks[0].log_bytes = MB + 2;
        assert_eq!(decide(&chunks[0], &limits).1, Reason::LogBytes);
        assert_eq!(decide(&chunks[0], &PickerLimits::default()).1, Reason::Fine);
        // Bounds: 1/16 and 4 times the fixed limit, and no number at all.
        let limit = |rate| {
            log_bytes_max(
                &ChunkStats {
                    update_rate: rate,
                    ..fine()
                },
                &limits,
            )
        };
        assert_eq!((limit(0.0), limit(1e30)), (MB / 8, 8 * MB));
        assert_eq!(limit(f32::NAN), MB / 8);
        let nothing = LogBudget {
            total_bytes: MB,
            sum_sqrt: 0.0,
        };
        let limits = PickerLimits {
            square_root: Some(nothing),
            ..limits
        };
        assert_eq!(log_bytes_max(&fine(), &limits), 2 * MB);
    }

    fn shrinking(figures: &[(u64, u64)]) -> Vec<Shrinking> {
        let one = |&(live_bytes, garbage_bytes)| Shrinking {
            live_bytes,
            garbage_bytes,
        };
        figures.iter().map(one).collect()
    }

    #[test]
    fn idle_work_begins_with_the_most_garbage_and_ends_at_its_target() {
        let chunks = shrinking(&[(1000, 90), (1000, 400), (1000, 0), (1000, 200), (0, 50)]);
        let pick = |share, bytes| pick_idle(&chunks, share, bytes);
        // There are 740 bytes of garbage, and 400 may stay: first the chunk that writes nothing,
        // then the worst.
        assert_eq!(pick(0.1, 10_000), [4, 1]);
        assert_eq!(pick(0.05, 10_000), [4, 1, 3]);
        // Chunks with less than their share are left alone, however far the target is.
        assert_eq!(pick(0.0, 10_000), [4, 1, 3, 0]);
        assert_eq!(pick(0.18, 10_000), [4]);
        assert_eq!(pick(1.0, 10_000), [0; 0]);
        // No more is written than may be.
        assert_eq!(pick(0.0, 2999), [4, 1, 3]);
        assert_eq!(pick(0.0, 999), [4]);
    }

    proptest! {
        /// Idle work reaches its target if it may write enough, and never writes more than it may.
        /// A second time there is nothing left to do.
        #[test]
        fn idle_work_is_bounded(
            figures in prop::collection::vec((0..10 * MB, 0..4 * MB), 0..40),
            share in 0.0f64..0.5,
            bytes in 0..200 * MB,
        ) {
            let mut chunks = shrinking(&figures);
            let picked = pick_idle(&chunks, share, bytes);
            let written: u64 = picked.iter().map(|&at| chunks[at].live_bytes).sum();
            prop_assert!(written <= bytes);
            for &at in &picked {
                prop_assert!(chunks[at].garbage_bytes as f64 > chunks[at].live_bytes as f64 * share);
            }
            for at in pick_idle(&chunks, share, u64::MAX) {
                chunks[at].garbage_bytes = 0;
            }
            let live: u64 = chunks.iter().map(|chunk| chunk.live_bytes).sum();
            let garbage: u64 = chunks.iter().map(|chunk| chunk.garbage_bytes).sum();
            prop_assert!(garbage as f64 <= live as f64 * share + 1.0);
            prop_assert!(pick_idle(&chunks, share, u64::MAX).is_empty());
        }

        /// Under the square-root rule, too, a rewritten chunk is not rewritten again, whatever the
        /// rate and the budget, and a larger budget never means more rewriting.
        #[test]
        fn the_square_root_rule_does_not_undo_either(
            live in 0..10 * MB,
            log in 0..20 * MB,
            rate in 0.0f32..1e9,
            others in 0.0f64..1e9,
            total in 0..1u64 << 40,
            munk_is_whole: bool,
        ) {
            let mut stats = fine();
            (stats.live_bytes_estimate, stats.log_bytes) = (live, log);
            (stats.data_bytes, stats.update_rate) = (live + log, rate);
            stats.munk_is_whole = munk_is_whole;
            let sum_sqrt = log_weight(&stats) + others;
            let with = |total_bytes| PickerLimits {
                square_root: Some(LogBudget { total_bytes, sum_sqrt }),
                ..PickerLimits::default()
            };
            let limits = with(total);
            if pick(&stats, &limits) == Decision::RebalanceFunk {
                let done = ChunkStats { data_bytes: live, log_bytes: 0, ..stats };
                prop_assert_ne!(pick(&done, &limits), Decision::RebalanceFunk);
            } else {
                let more = with(total * 2);
                prop_assert_ne!(pick(&stats, &more), Decision::RebalanceFunk);
            }
        }

        /// Halves of a split and the result of a rebalance need nothing at once.
        #[test]
        fn decisions_do_not_undo_each_other(live in 0..30 * MB, dead in 0..20 * MB, log in 0..20 * MB) {
            let mut stats = fine();
            stats.live_bytes_estimate = live;
            stats.data_bytes = live + dead;
            stats.log_bytes = log.min(stats.data_bytes);
            let limits = PickerLimits::default();
            match pick(&stats, &limits) {
                Decision::Split => {
                    let half = ChunkStats {
                        live_bytes_estimate: live / 2,
                        next_bytes: Some(live - live / 2),
                        shares_tables: true,
                        ..stats
                    };
                    let next = pick(&half, &limits);
                    prop_assert!(next == Decision::RebalanceFunk || next == Decision::None);
                }
                Decision::RebalanceFunk => {
                    let done = ChunkStats { data_bytes: live, log_bytes: 0, ..stats };
                    prop_assert_ne!(pick(&done, &limits), Decision::RebalanceFunk);
                }
                _ => (),
            }
        }
    }
}
