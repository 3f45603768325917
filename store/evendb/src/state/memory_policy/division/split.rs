//! The split of memory between rows and spans: a pure policy.
//!
//! **The aim** is the largest number of reads answered from RAM. A row answers gets of one key; a
//! span answers gets of all its keys, and scans. Memory goes to the side on which one more byte is
//! worth clearly more:
//!
//! ```text
//! theta = hits at the rows' edge / its bytes   gain of one more byte for rows    (sample.rs)
//! loss  = price of a byte of spans             cost of one byte less for spans   (spans.rs)
//! gain  = price, or refused density if less    gain of one more byte for spans   (spans.rs)
//!
//! rows grow    if theta > loss, and rows are full
//! rows shrink  if gain > theta, and spans are full
//! ```
//!
//! **One clock.** `theta` and the price are decayed sums of reads per byte, halved in the same
//! number of ticks ([`HALF_LIFE_TICKS`](crate::munk::heat::HALF_LIFE_TICKS)). So they can be
//! compared, and a quiet database forgets nothing.
//!
//! **Chance.** Both sides are counts, and counts vary. A side must be better by more than the
//! variation of `theta` explains. The price comes from the least dense of some spans, which by
//! chance alone lies below their common worth; so a part of its variation is added to it. Without
//! this, rows would take memory from spans that are all worth the same.
//!
//! **Stability.** A side must be better by [`BEAT_FACTOR`]. A step is at most [`STEP_MAX`] of the
//! memory, and less when the sides are close. The next step waits until the counts show the effect
//! of the last one. Rows grow only when they are full, and shrink only when spans are full. The
//! share stays between [`SHARE_MIN`] and [`SHARE_MAX`].
//!
//! Thread safety: plain data. The caller takes counters and carries out the plan. Not here: which
//! rows and which spans go.

use super::super::row::RowCounts;
use super::sample::{EDGE_PART, Edge};
use crate::munk::heat::{left_after, number};

/// The smallest share of rows: enough to notice that rows are worth more.
const SHARE_MIN: f64 = 0.02;
/// The largest share of rows beside spans.
const SHARE_MAX: f64 = 0.95;
/// The first share of rows.
const SHARE_FIRST: f64 = 0.1;
/// Largest step of the share.
const STEP_MAX: f64 = 0.2;
/// The smallest step, as a share of [`STEP_MAX`].
const STEP_PART_MIN: f64 = 0.1;
/// A side's next byte must be worth this many times the other side's for memory to move there.
const BEAT_FACTOR: f32 = 1.1;
/// The factor by which a side must be better for the largest step.
const STEP_FACTOR_FULL: f32 = 4.0;
/// The share of the decayed counts that must be new since the last step.
const STEP_AFTER: f32 = 0.12;
/// Rows count as full from this part of their room on.
const FULL: f64 = 0.95;
/// The number of rows for which full rows may still have room: one or two for each shard.
const FULL_ROWS: u64 = 32;
/// With fewer decayed accesses than this, nothing is decided.
const ACCESSES_MIN: f32 = 500.0;
/// With fewer decayed gets outside of spans than this, the gain of rows does not matter.
const OUTSIDE_MIN: f32 = 50.0;
/// The gain of rows does not matter, either, if gets outside of spans are a smaller part of the
/// accesses.
const OUTSIDE_PART_MIN: f32 = 0.01;
/// The last moments are remembered for a time that is shorter by this factor.
const RECENT: f32 = 16.0;
/// The number of standard deviations that are added to the price for the loss. The least of
/// [`super::spans::SAMPLED`] equal counts lies 1.77 deviations below the mean; the price is a mean
/// of several such counts.
const LOSS_DEVIATIONS: f32 = 1.4;
/// The number of standard deviations that are added to the price for the gain. This is less,
/// because a move back costs what a right move costs.
const GAIN_DEVIATIONS: f32 = 0.7;

/// A round's figures of spans.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpanSight {
    /// The ticks of this round, as [`SpanPolicy::advance`](super::spans::SpanPolicy::advance)
    /// returned them.
    pub(crate) ticks: f32,
    /// The worth of a byte of the least dense spans.
    pub(crate) price: f32,
    /// The greatest density that was refused in this round.
    pub(crate) refused: f32,
    /// Approximate bytes of a span.
    pub(crate) span_bytes: f32,
    /// Spans use all the memory that they may use.
    pub(crate) full: bool,
    /// Gets of this round that rows or the disk answered.
    pub(crate) gets_outside: f32,
    /// All accesses of this round, as the clock counts them.
    pub(crate) accesses: f32,
}

/// The decision of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SplitPlan {
    /// Room for rows in bytes.
    pub(crate) row_bytes_max: u64,
    /// Whether the hits of more rows matter: they do not if spans answer nearly everything.
    pub(crate) sampling: bool,
}

/// State that is kept from round to round.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    share: f64,
    fixed: bool,
    /// The edge, with decayed hits.
    edge: Edge,
    /// Decayed counts.
    gets_outside: f32,
    accesses: f32,
    /// Counts of the last moments.
    recent_outside: f32,
    recent_accesses: f32,
    /// The greatest refused density, decayed.
    refused: f32,
    /// The share of the counts that is new since the last step.
    news: f32,
    sampling: bool,
}

/// Worths of the next or last byte.
#[derive(Clone, Copy, Debug, Default)]
struct Margins {
    /// Lower and upper limit for the worth of the next byte for rows, as far as counting tells.
    rows_low: f32,
    rows_high: f32,
    /// The worth of the last byte of spans.
    span_loss: f32,
    /// The worth of the next byte for spans.
    span_gain: f32,
}

impl Split {
    /// An adaptive split, or a split with a fixed share.
    pub(crate) fn new(fixed: Option<f64>) -> Split {
        Split {
            share: fixed.unwrap_or(SHARE_FIRST),
            fixed: fixed.is_some(),
            edge: Edge::default(),
            gets_outside: 0.0,
            accesses: 0.0,
            recent_outside: 0.0,
            recent_accesses: 0.0,
            refused: 0.0,
            news: 0.0,
            sampling: false,
        }
    }

    /// The rows' share of the memory for spans and rows together.
    #[cfg(all(test, not(evendb_loom)))]
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// Decides a round from the figures of the row cache, the hits at its edge, the figures of
    /// spans, and the memory for spans and rows.
    pub(crate) fn round(
        &mut self,
        rows: &RowCounts,
        edge: &Edge,
        spans: &SpanSight,
        bytes_max: u64,
    ) -> SplitPlan {
        let left = left_after(spans.ticks);
        self.edge = Edge {
            hits: number(self.edge.hits * left + number(edge.hits)),
            keys_per_sample: number(edge.keys_per_sample),
            ripe: edge.ripe,
        };
        self.gets_outside = number(self.gets_outside * left + number(spans.gets_outside));
        self.accesses = number(self.accesses * left + number(spans.accesses));
        let recent = left_after(spans.ticks * RECENT);
        self.recent_outside = self.recent_outside * recent + number(spans.gets_outside);
        self.recent_accesses = self.recent_accesses * recent + number(spans.accesses);
        self.refused = (self.refused * left).max(number(spans.refused));
        self.news += 1.0 - left;
        if !self.fixed {
            self.step(rows, spans, bytes_max);
        }
        // If spans answer nearly everything, there is nothing to decide, and gets should be at
        // their fastest.
        self.sampling = self.gets_outside >= OUTSIDE_MIN
            && self.gets_outside > OUTSIDE_PART_MIN * self.accesses;
        SplitPlan {
            row_bytes_max: (bytes_max as f64 * self.share) as u64,
            sampling: self.sampling && !self.fixed,
        }
    }

    fn step(&mut self, rows: &RowCounts, spans: &SpanSight, bytes_max: u64) {
        if self.accesses < ACCESSES_MIN || bytes_max == 0 {
            return;
        }
        if self.rows_are_idle() {
            // Earlier hits of rows say nothing any more, and waiting would teach nothing.
            self.edge.hits = 0.0;
        } else if self.news < STEP_AFTER || (self.sampling && !self.edge.ripe) {
            return;
        }
        let margins = self.margins(rows, spans);
        let grow = match is_full(rows) {
            true => ratio(margins.rows_low, margins.span_loss),
            false => 0.0,
        };
        let shrink = ratio(margins.span_gain, margins.rows_high);
        let part = |ratio: f32| {
            let part = f64::from(ratio.ln() / STEP_FACTOR_FULL.ln());
            STEP_MAX * part.clamp(STEP_PART_MIN, 1.0)
        };
        let step = match (grow > BEAT_FACTOR, shrink > BEAT_FACTOR) {
            (true, false) => part(grow),
            (false, true) => -part(shrink),
            _ => return,
        };
        self.share = (self.share + step).clamp(SHARE_MIN, SHARE_MAX);
        self.news = 0.0;
    }

    /// Whether rows could have answered hardly any get of the last moments.
    fn rows_are_idle(&self) -> bool {
        self.recent_accesses >= ACCESSES_MIN
            && self.recent_outside < OUTSIDE_PART_MIN * self.recent_accesses
    }

    fn margins(&self, rows: &RowCounts, spans: &SpanSight) -> Margins {
        // Rows that have just got more room do not fill it yet.
        let bytes = rows.bytes.max(rows.bytes_max / 2);
        let edge_bytes = (bytes as f32 * EDGE_PART).max(1.0);
        // A decayed count of n varies by about the square root of n / 2. This count counts
        // samples, and each sample stands for `keys_per_sample` keys.
        let chance = (self.edge.hits * self.edge.keys_per_sample / 2.0).sqrt();
        let price = number(spans.price);
        let span_bytes = number(spans.span_bytes).max(1.0);
        let price_chance = (price / span_bytes / 2.0).sqrt();
        let (span_loss, span_gain) = match spans.full {
            true => {
                let loss = price + LOSS_DEVIATIONS * price_chance;
                let gain = price + GAIN_DEVIATIONS * price_chance;
                (loss, gain.min(self.refused))
            }
            // Spans leave room that nothing uses.
            false => (0.0, 0.0),
        };
        Margins {
            rows_low: number(self.edge.hits - chance) / edge_bytes,
            rows_high: number(self.edge.hits + chance) / edge_bytes,
            span_loss,
            span_gain,
        }
    }
}

/// Whether rows use their room. If there is no row, the room may be too small for any.
fn is_full(rows: &RowCounts) -> bool {
    let Some(row_bytes) = rows.bytes.checked_div(rows.rows) else {
        return true;
    };
    let taken = (rows.bytes + FULL_ROWS * row_bytes) as f64;
    taken >= FULL * rows.bytes_max as f64
}

/// The ratio of `a` to `b`; 0 if `a` is 0, even if `b` is 0.
fn ratio(a: f32, b: f32) -> f32 {
    if a > 0.0 { a / b.max(1e-30) } else { 0.0 }
}

#[cfg(test)]
#[cfg(not(evendb_loom))]
mod tests {
    use super::*;
    use crate::munk::heat::HALF_LIFE_TICKS;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn rows(split: &Split, bytes_max: u64) -> RowCounts {
        let bytes = (bytes_max as f64 * split.share()) as u64;
        RowCounts {
            bytes,
            bytes_max: bytes,
            rows: bytes / 1000,
        }
    }

    /// The edge that a round of one tick sees.
    fn edge(hits: f32) -> Edge {
        Edge {
            hits,
            keys_per_sample: 8.0,
            ripe: true,
        }
    }

    /// Full spans whose least dense ones have a worth of `reads` reads per megabyte.
    fn spans(reads: f32) -> SpanSight {
        SpanSight {
            ticks: 1.0,
            price: reads / MIB as f32,
            refused: reads / MIB as f32,
            span_bytes: (64 << 10) as f32,
            full: true,
            gets_outside: 500.0,
            accesses: 1000.0,
        }
    }

    fn rounds(split: &mut Split, spans: &SpanSight, edge_hits: f32, rounds: usize) {
        for _ in 0..rounds {
            let rows = rows(split, 100 * MIB);
            split.round(&rows, &edge(edge_hits), spans, 100 * MIB);
        }
    }

    #[test]
    fn memory_goes_where_a_byte_brings_more() {
        let mut split = Split::new(None);
        rounds(&mut split, &spans(100.0), 10_000.0, 100);
        assert_eq!(split.share(), SHARE_MAX);
        rounds(&mut split, &spans(1000.0), 0.01, 200);
        assert_eq!(split.share(), SHARE_MIN);
    }

    /// Earlier gets that rows answered are of no help to scans.
    #[test]
    fn rows_that_nothing_asks_for_leave_at_once() {
        let mut split = Split::new(None);
        rounds(&mut split, &spans(100.0), 10_000.0, 100);
        assert_eq!(split.share(), SHARE_MAX);
        // Three ticks; after eight, half is forgotten.
        let scans = SpanSight {
            ticks: 0.1,
            gets_outside: 0.0,
            ..spans(100.0)
        };
        rounds(&mut split, &scans, 0.0, 30);
        assert_eq!(split.share(), SHARE_MIN);
        // Not if spans leave room that nothing uses.
        let mut split = Split::new(Some(0.5));
        split.fixed = false;
        rounds(
            &mut split,
            &SpanSight {
                full: false,
                ..scans
            },
            0.0,
            50,
        );
        assert_eq!(split.share(), 0.5);
    }

    /// The share after some ticks in which spans bring `span_reads` and rows `row_reads` reads per
    /// megabyte, in decayed sums that both begin at zero.
    fn share_between(span_reads: f32, row_reads: f32) -> f64 {
        let mut split = Split::new(None);
        let sum = |ticks: i32| (1.0 - left_after(ticks as f32)) / (1.0 - left_after(1.0));
        let all = sum(1000);
        for tick in 1..30 {
            let edge_bytes = rows(&split, 100 * MIB).bytes as f32 * EDGE_PART / MIB as f32;
            let spans = spans(span_reads * sum(tick) / all);
            rounds(&mut split, &spans, row_reads * edge_bytes / all, 1);
        }
        split.share()
    }

    #[test]
    fn equal_sides_are_left_alone() {
        assert_eq!(share_between(1000.0, 1000.0), SHARE_FIRST);
        assert!(share_between(1000.0, 2000.0) > 2.0 * SHARE_FIRST);
        assert!(share_between(2000.0, 1000.0) < 0.5 * SHARE_FIRST);
    }

    #[test]
    fn a_step_is_bounded_and_waits_for_the_last() {
        let mut split = Split::new(None);
        let (mut last, mut moved_at, mut steps) = (split.share(), 0, 0);
        for round in 1..1000 {
            let tenth = SpanSight {
                ticks: 0.1,
                ..spans(1.0)
            };
            rounds(&mut split, &tenth, 10_000.0, 1);
            let step = split.share() - last;
            assert!((0.0..=STEP_MAX + 1e-9).contains(&step), "{step}");
            if step > 0.0 {
                // An eighth of the counts is new after a fifth of the half-life.
                let least = (HALF_LIFE_TICKS / 5.0 * 10.0) as i32 - 2;
                assert!(moved_at == 0 || round - moved_at >= least, "{round}");
                (moved_at, steps) = (round, steps + 1);
            }
            last = split.share();
        }
        assert!(steps >= 4, "{steps}");
    }

    #[test]
    fn sides_that_are_not_full_do_not_grow() {
        let mut split = Split::new(None);
        for _ in 0..100 {
            let mut rows = rows(&split, 100 * MIB);
            rows.bytes /= 2;
            rows.rows /= 2;
            split.round(&rows, &edge(10_000.0), &spans(1.0), 100 * MIB);
        }
        assert_eq!(split.share(), SHARE_FIRST);
        let mut split = Split::new(None);
        let with_room = SpanSight {
            full: false,
            ..spans(1000.0)
        };
        rounds(&mut split, &with_room, 0.0, 100);
        assert_eq!(split.share(), SHARE_FIRST);
        // Gets outside of spans have no worth.
        let mut split = Split::new(None);
        let alone = SpanSight {
            refused: 0.0,
            ..spans(1000.0)
        };
        rounds(&mut split, &alone, 100.0, 100);
        assert_eq!(split.share(), SHARE_FIRST);
    }

    /// Where the room is too small for any row, rows must be able to grow.
    #[test]
    fn room_for_no_row_is_full() {
        let mut split = Split::new(None);
        rounds(&mut split, &spans(10_000.0), 0.0, 100);
        assert_eq!(split.share(), SHARE_MIN);
        for _ in 0..100 {
            let counts = RowCounts {
                bytes_max: (MIB as f64 * split.share()) as u64,
                ..RowCounts::default()
            };
            split.round(&counts, &edge(1000.0), &spans(1.0), MIB);
        }
        assert!(split.share() > 0.5, "{}", split.share());
    }

    #[test]
    fn nothing_is_decided_on_little_or_on_nothing() {
        let mut split = Split::new(None);
        let few = SpanSight {
            accesses: 10.0,
            gets_outside: 5.0,
            ..spans(1.0)
        };
        rounds(&mut split, &few, 10_000.0, 100);
        assert_eq!(split.share(), SHARE_FIRST);
        // There are gets outside of spans, and no sample yet of the gain of rows.
        for _ in 0..100 {
            let rows = rows(&split, 100 * MIB);
            let unripe = Edge {
                ripe: false,
                ..edge(0.0)
            };
            let plan = split.round(&rows, &unripe, &spans(1000.0), 100 * MIB);
            assert!(plan.sampling);
        }
        assert_eq!(split.share(), SHARE_FIRST);
        // Spans answer everything.
        let inside = SpanSight {
            gets_outside: 0.0,
            ..spans(1000.0)
        };
        rounds(&mut split, &inside, 0.0, 200);
        let rows = rows(&split, 100 * MIB);
        assert!(!split.round(&rows, &edge(0.0), &inside, 100 * MIB).sampling);
    }

    /// The same accesses lead to the same share, in however many rounds they come.
    #[test]
    fn the_clock_is_accesses() {
        let share_after = |parts: usize| {
            let mut split = Split::new(None);
            let part = SpanSight {
                ticks: 1.0 / parts as f32,
                gets_outside: 500.0 / parts as f32,
                accesses: 1000.0 / parts as f32,
                ..spans(1.0)
            };
            rounds(&mut split, &part, 10_000.0 / parts as f32, 6 * parts);
            split.share()
        };
        assert!(share_after(10) > SHARE_FIRST);
        assert_eq!(share_after(10), share_after(40));
    }

    #[test]
    fn a_fixed_share_stays() {
        for share in [0.0, 0.3, 1.0] {
            let mut split = Split::new(Some(share));
            rounds(&mut split, &spans(1.0), 10_000.0, 100);
            assert_eq!(split.share(), share);
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_the_share_stays_in_bounds(
            input in prop::collection::vec(
                (any::<(f32, f32, f32, f32, f32, bool)>(), any::<f32>(), any::<f32>(), 0u64..1 << 40),
                1..30,
            ),
        ) {
            let mut split = Split::new(None);
            for ((ticks, price, refused, gets, accesses, full), span_bytes, hits, bytes) in input {
                let rows = RowCounts { bytes, bytes_max: bytes, rows: bytes / 100 };
                let edge = Edge { hits, keys_per_sample: 8.0, ripe: true };
                let spans = SpanSight {
                    ticks, price, refused, span_bytes, full, gets_outside: gets, accesses,
                };
                let plan = split.round(&rows, &edge, &spans, bytes);
                prop_assert!((SHARE_MIN..=SHARE_MAX).contains(&split.share()));
                prop_assert!(plan.row_bytes_max <= bytes);
            }
        }
    }
}
