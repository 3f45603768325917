use super::*;
use proptest::prelude::*;

const MB: u64 = 1 << 20;

/// A chunk with nothing to do.
fn fine() -> ChunkStats {
    ChunkStats {
        is_guarded: false,
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
        picked(move |s| (s.data_bytes, s.live_bytes_estimate, s.munk_is_whole) = (data, live, munk))
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
