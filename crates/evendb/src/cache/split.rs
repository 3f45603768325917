//! How memory is split between munks and rows, and what each munk is worth: a pure policy.
//!
//! **What is maximised** is the accesses answered from RAM. A row answers gets of one key; a munk
//! those of all its chunk's keys, and scans. So
//!
//! ```text
//! theta       = hits at the edge / bytes  what a byte more for rows brings      (sample.rs)
//! worth(munk) = gets that rows would not answer                                 (sample.rs)
//!             + scans, puts               which rows never answer; puts while they have room
//! ```
//!
//! and memory goes to the side on which one more byte is worth clearly more. Rows grow while theta is
//! greater than the worth of a byte of the munks that a step would cost, the least dense ones. Rows
//! shrink while theta is less than that of the munks that a step would make room for, those of the densest
//! chunks that have none. If both are so, chunks without a munk displace munks ([`super::policy`]), and
//! the split stays.
//!
//! **Stability.** The clock counts accesses. All counts decay alike, by the number of accesses for each
//! chunk and for each row that would fit. So a quiet database forgets slowly, and a busy one within a
//! quarter of a second. A side must be better by [`BEAT_FACTOR`], and by more than chance in the counts
//! explains. A step is at most [`STEP_MAX`] of the memory, and less when the sides are close. The next step
//! waits until the counts show what the last one brought. Rows grow only when they are full. The share
//! stays between [`SHARE_MIN`] and [`SHARE_MAX`].
//!
//! Thread safety: plain data. The caller takes counters and carries out what comes back.

use super::policy::{ChunkWorth, number};
use super::row::RowCounts;
use super::sample::{EDGE_PART, Edge};

/// Least share of rows: enough to notice that rows are worth more.
const SHARE_MIN: f64 = 0.02;
/// Greatest share of rows beside munks.
const SHARE_MAX: f64 = 0.95;
/// Share that rows begin with.
const SHARE_FIRST: f64 = 0.1;
/// Largest step of the share.
const STEP_MAX: f64 = 0.1;
/// The smallest step, as a share of [`STEP_MAX`].
const STEP_PART_MIN: f64 = 0.1;
/// Share of the memory whose worth is taken as that of the marginal byte of munks.
const MARGIN: f64 = 0.04;
/// A side's marginal byte must be worth this many times the other's for memory to move there.
const BEAT_FACTOR: f32 = 1.1;
/// How many times better a side must be for the largest step.
const STEP_FACTOR_FULL: f32 = 4.0;
/// Share of the decayed counts that must be new since the last step.
const STEP_AFTER: f32 = 0.12;
/// Rows count as full from this part of their room on.
const FULL: f64 = 0.95;
/// Rows for which there may yet be room: one or two for each shard.
const FULL_ROWS: u64 = 32;
/// With fewer decayed gets than this nothing is decided.
const GETS_MIN: f32 = 500.0;
/// The share of a count that is left after a busy round: half after sixteen of them.
const DECAY: f32 = 0.958;
/// The share of a count that is left after a quiet round.
const DECAY_IDLE: f32 = 0.99;
/// With this many accesses for each chunk a round is busy.
const BUSY_PER_CHUNK: f32 = 4.0;
/// With this many accesses for each row that would fit into the memory a round is busy. A multiple of
/// that counts as several rounds, up to [`BUSY_MAX`], because the rows for which a step made room have
/// come by the next round.
const BUSY_PER_ROW: f32 = 0.14;
const BUSY_MAX: f32 = 3.0;
/// A refill of a scan reads several blocks.
pub(crate) const SCAN_WEIGHT: f32 = 4.0;
/// Weight of a put beside a get: absorbing puts in RAM spares reading the funk to rewrite it.
const PUT_WEIGHT: f32 = 0.1;
/// With fewer sampled gets than this nothing is known of rows that could replace munks.
const SAMPLES_MIN: f32 = 64.0;

/// Decayed counts of one chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChunkSight {
    /// Identity of the chunk; unique in a slice.
    pub(crate) id: u64,
    /// Gets that no delta answered.
    pub(crate) gets: f32,
    /// Gets of these that the row cache answered.
    pub(crate) row_hits: f32,
    /// Refills of scans.
    pub(crate) scans: f32,
    /// Puts.
    pub(crate) puts: f32,
    /// Sampled gets, and those of them that a row answered or would have answered. See
    /// [`super::sample`].
    pub(crate) samples: f32,
    pub(crate) sample_hits: f32,
    /// Live data in bytes.
    pub(crate) data_bytes: u64,
    /// Size of its munk in bytes, 0 if it has none.
    pub(crate) munk_bytes: u64,
}

impl ChunkSight {
    fn accesses(&self) -> f32 {
        self.gets + self.scans + self.puts
    }
}

/// What is decided in a round.
#[derive(Clone, Debug, Default)]
pub(crate) struct SplitPlan {
    /// Room for rows in bytes.
    pub(crate) row_bytes_max: u64,
    /// What munks are worth, in the order of the chunks.
    pub(crate) worths: Vec<ChunkWorth>,
    /// Whether it matters what rows would answer, because chunks without a munk get accesses.
    pub(crate) sampling: bool,
}

/// What is remembered from round to round.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    share: f64,
    fixed: bool,
    put_weight: f32,
    decay: f32,
    accesses: f32,
    edge: Edge,
    /// Share of the counts that is new since the last step.
    news: f32,
    /// One key in this many is sampled.
    keys_per_sample: f32,
    sampling: bool,
}

/// Marginal worths of a byte.
#[derive(Clone, Copy, Debug, Default)]
struct Margins {
    /// The worth of the next byte for rows: at least, and at most, as far as counting tells.
    rows_low: f32,
    rows_high: f32,
    /// The worth of the last byte of munks; `None` if there is no munk to lose.
    munk_loss: Option<f32>,
    /// The worth of the next byte for munks.
    munk_gain: f32,
}

impl Split {
    /// An adaptive split, or one with a share that stays.
    pub(crate) fn new(fixed: Option<f64>) -> Split {
        Split {
            share: fixed.unwrap_or(SHARE_FIRST),
            fixed: fixed.is_some(),
            put_weight: PUT_WEIGHT,
            decay: DECAY,
            accesses: 0.0,
            edge: Edge::default(),
            news: 0.0,
            keys_per_sample: 1.0,
            sampling: false,
        }
    }

    /// The rows' share of what munks and rows together may take.
    #[cfg(all(test, not(evendb_loom)))]
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// Sets whether puts count in what a munk is worth. They do not while they wait for reorganisation,
    /// because loading and absorbing would add to it.
    pub(crate) fn count_puts(&mut self, yes: bool) {
        self.put_weight = if yes { PUT_WEIGHT } else { 0.0 };
    }

    /// The share of each chunk's decayed counts that is to be left in this round; it follows from the
    /// number of accesses in the last one.
    pub(crate) fn decay(&self) -> f32 {
        self.decay
    }

    /// Decides a round, from `chunks` with this round's counts folded in by [`Split::decay`], the
    /// figures of the row cache, and the memory for munks and rows.
    pub(crate) fn round(
        &mut self,
        chunks: &[ChunkSight],
        rows: &RowCounts,
        edge: &Edge,
        bytes_max: u64,
    ) -> SplitPlan {
        self.keys_per_sample = edge.keys_per_sample;
        self.edge.ripe = edge.ripe;
        self.edge.hits = self.edge.hits * self.decay + edge.hits;
        self.news += 1.0 - self.decay;
        let worths = self.worths(chunks);
        if !self.fixed {
            self.step(chunks, &worths, rows, bytes_max);
        }
        let accesses: f32 = chunks.iter().map(ChunkSight::accesses).sum();
        let came = number(accesses - self.accesses * self.decay);
        self.accesses = accesses;
        self.decay = DECAY
            .powf(busy(came, chunks.len(), rows, bytes_max))
            .min(DECAY_IDLE);
        let outside = chunks.iter().filter(|chunk| chunk.munk_bytes == 0);
        let gets = outside.map(|chunk| chunk.gets).sum::<f32>();
        // Where munks hold nearly everything there is nothing to decide, and gets are at their fastest.
        self.sampling = gets > 0.01 * accesses && gets >= GETS_MIN / 10.0;
        SplitPlan {
            row_bytes_max: (bytes_max as f64 * self.share) as u64,
            worths,
            sampling: self.sampling && !self.fixed,
        }
    }

    /// What each chunk's munk is worth; see the module.
    fn worths(&self, chunks: &[ChunkSight]) -> Vec<ChunkWorth> {
        let outside = chunks.iter().filter(|chunk| chunk.munk_bytes == 0);
        let are_rows_known = outside.map(|chunk| chunk.samples).sum::<f32>() >= SAMPLES_MIN;
        let worth = |chunk: &ChunkSight| {
            let mut gets = chunk.gets;
            if are_rows_known {
                gets = gets.min((chunk.samples - chunk.sample_hits) * self.keys_per_sample);
            }
            if chunk.munk_bytes == 0 {
                gets = gets.min(chunk.gets - chunk.row_hits);
            }
            ChunkWorth {
                id: chunk.id,
                benefit: number(gets) + SCAN_WEIGHT * chunk.scans + self.put_weight * chunk.puts,
                data_bytes: chunk.data_bytes,
                munk_bytes: chunk.munk_bytes,
            }
        };
        chunks.iter().map(worth).collect()
    }

    fn step(
        &mut self,
        chunks: &[ChunkSight],
        worths: &[ChunkWorth],
        rows: &RowCounts,
        bytes_max: u64,
    ) {
        let gets: f32 = chunks.iter().map(|chunk| chunk.gets + chunk.scans).sum();
        let outside = chunks.iter().filter(|chunk| chunk.munk_bytes == 0);
        let samples: f32 = outside.map(|chunk| chunk.samples).sum();
        let unknown = self.sampling && (samples < SAMPLES_MIN || !self.edge.ripe);
        if gets < GETS_MIN || unknown || self.news < STEP_AFTER || bytes_max == 0 {
            return;
        }
        let margins = self.margins(worths, rows, bytes_max);
        let row_bytes = rows.bytes.checked_div(rows.rows).unwrap_or(0);
        let taken = (rows.bytes + FULL_ROWS * row_bytes) as f64;
        let full = taken >= FULL * rows.bytes_max as f64;
        let grow = match margins.munk_loss {
            Some(loss) if full => ratio(margins.rows_low, loss),
            _ => 0.0,
        };
        let shrink = ratio(margins.munk_gain, margins.rows_high);
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

    fn margins(&self, worths: &[ChunkWorth], rows: &RowCounts, bytes_max: u64) -> Margins {
        let edge_bytes = (rows.bytes as f32 * EDGE_PART).max(1.0);
        // A decayed count of n varies by about the square root of half of it; this one is of
        // samples, times the keys that each stands for.
        let chance = (self.edge.hits * self.keys_per_sample / 2.0).sqrt();
        let step_bytes = (bytes_max as f64 * MARGIN) as u64;
        let mut munks: Vec<&ChunkWorth> = worths.iter().filter(|w| w.munk_bytes > 0).collect();
        munks.sort_by(|a, b| a.density().total_cmp(&b.density()));
        let mut candidates: Vec<&ChunkWorth> = worths.iter().filter(|w| w.is_candidate()).collect();
        candidates.sort_by(|a, b| b.density().total_cmp(&a.density()));
        let used: u64 = munks.iter().map(|munk| munk.bytes()).sum();
        let room = bytes_max.saturating_sub((bytes_max as f64 * self.share) as u64);
        let largest = worths.iter().map(ChunkWorth::bytes).max().unwrap_or(0);
        let munk_loss = if room.saturating_sub(used) > step_bytes + largest {
            // Munks leave room, and no candidate takes it.
            Some(0.0)
        } else {
            density_of(&munks, step_bytes)
        };
        Margins {
            rows_low: number(self.edge.hits - chance) / edge_bytes,
            rows_high: (self.edge.hits + chance) / edge_bytes,
            munk_loss,
            munk_gain: density_of(&candidates, step_bytes).unwrap_or(0.0),
        }
    }
}

/// How many rounds a round with this many accesses counts for: accesses fill caches and show what they are
/// worth, and time does not.
fn busy(came: f32, chunks: usize, rows: &RowCounts, bytes_max: u64) -> f32 {
    let of_chunks = came / (BUSY_PER_CHUNK * chunks.max(1) as f32);
    let row_bytes = rows.bytes.checked_div(rows.rows).unwrap_or(0);
    let fit = bytes_max.checked_div(row_bytes).unwrap_or(u64::MAX);
    let of_rows = came / (BUSY_PER_ROW * fit.max(1) as f32);
    of_chunks.min(1.0).max(of_rows.min(BUSY_MAX))
}

/// Benefit per byte of the first of `worths` that take `bytes` together.
fn density_of(worths: &[&ChunkWorth], bytes: u64) -> Option<f32> {
    let (mut benefit, mut taken) = (0.0, 0);
    for worth in worths {
        if taken >= bytes.max(1) {
            break;
        }
        benefit += number(worth.benefit);
        taken += worth.bytes();
    }
    (taken > 0).then(|| benefit / taken as f32)
}

/// The ratio of `a` to `b`; 0 if `a` is 0, whatever `b` is.
fn ratio(a: f32, b: f32) -> f32 {
    if a > 0.0 { a / b.max(1e-30) } else { 0.0 }
}

#[cfg(test)]
#[cfg(not(evendb_loom))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    /// Munks of a megabyte with as many gets each, chunks without that have as many.
    fn chunks(munks: u64, munk_gets: f32, others: u64, other_gets: f32) -> Vec<ChunkSight> {
        let chunk = |id, munk_bytes, gets: f32| ChunkSight {
            id,
            gets,
            samples: gets / 8.0,
            data_bytes: MIB,
            munk_bytes,
            ..ChunkSight::default()
        };
        let with = (0..munks).map(|id| chunk(id, MIB, munk_gets));
        with.chain((0..others).map(|id| chunk(1000 + id, 0, other_gets)))
            .collect()
    }

    fn rows(split: &Split, bytes_max: u64) -> RowCounts {
        let bytes = (bytes_max as f64 * split.share()) as u64;
        RowCounts {
            bytes,
            bytes_max: bytes,
            rows: bytes / 1000,
        }
    }

    /// What a round sees at the edge, decayed counts coming to about 24 times that.
    fn edge(hits: f32) -> Edge {
        Edge {
            hits,
            keys_per_sample: 8.0,
            ripe: true,
        }
    }

    fn rounds(split: &mut Split, chunks: &[ChunkSight], edge_hits: f32, rounds: usize) {
        for _ in 0..rounds {
            let rows = rows(split, 100 * MIB);
            split.round(chunks, &rows, &edge(edge_hits), 100 * MIB);
        }
    }

    #[test]
    fn memory_goes_where_a_byte_brings_more() {
        let mut split = Split::new(None);
        let chunks = chunks(50, 100.0, 100, 50.0);
        rounds(&mut split, &chunks, 1000.0, 200);
        assert_eq!(split.share(), SHARE_MAX);
        rounds(&mut split, &chunks, 0.01, 2000);
        assert_eq!(split.share(), SHARE_MIN);
    }

    #[test]
    fn a_step_is_bounded_and_waits_for_the_last() {
        let mut split = Split::new(None);
        let chunks = chunks(50, 100.0, 100, 50.0);
        let (mut last, mut moved_at) = (split.share(), 0);
        for round in 1..100 {
            rounds(&mut split, &chunks, 1000.0, 1);
            let step = split.share() - last;
            assert!((0.0..=STEP_MAX + 1e-9).contains(&step), "{step}");
            if step > 0.0 {
                assert!(moved_at == 0 || round - moved_at >= 3, "{round} {moved_at}");
                moved_at = round;
            }
            last = split.share();
        }
    }

    #[test]
    fn rows_that_are_not_full_do_not_grow() {
        let mut split = Split::new(None);
        let chunks = chunks(50, 100.0, 100, 0.0);
        for _ in 0..100 {
            let mut rows = rows(&split, 100 * MIB);
            rows.bytes /= 2;
            split.round(&chunks, &rows, &edge(1000.0), 100 * MIB);
        }
        assert_eq!(split.share(), SHARE_FIRST);
    }

    #[test]
    fn nothing_is_decided_on_little_or_on_nothing() {
        let mut split = Split::new(None);
        rounds(&mut split, &chunks(5, 10.0, 10, 5.0), 1.0, 100);
        assert_eq!(split.share(), SHARE_FIRST);
        // Gets of chunks without munks, and no sample yet of what rows would bring.
        let chunks = chunks(50, 100.0, 100, 50.0);
        for _ in 0..100 {
            let rows = rows(&split, 100 * MIB);
            let unripe = Edge {
                ripe: false,
                ..edge(0.0)
            };
            let plan = split.round(&chunks, &rows, &unripe, 100 * MIB);
            assert!(plan.sampling);
        }
        assert_eq!(split.share(), SHARE_FIRST);
    }

    #[test]
    fn a_munk_is_worth_what_rows_would_not_answer() {
        let mut split = Split::new(None);
        let mut chunks = chunks(2, 1000.0, 10, 100.0);
        // Rows would answer nearly all of the first, nothing of the second.
        chunks[0].sample_hits = chunks[0].samples - 1.0;
        let counts = rows(&split, 100 * MIB);
        let plan = split.round(&chunks, &counts, &edge(0.0), 100 * MIB);
        assert!(plan.worths[0].benefit < 100.0, "{:?}", plan.worths[0]);
        assert!(plan.worths[1].benefit > 500.0, "{:?}", plan.worths[1]);
        // Chunks without a munk: what rows answer does not count, scans do.
        chunks[2].row_hits = 100.0;
        chunks[3].row_hits = 100.0;
        chunks[3].scans = 50.0;
        let plan = split.round(&chunks, &counts, &edge(0.0), 100 * MIB);
        assert_eq!(plan.worths[2].benefit, 0.0);
        assert_eq!(plan.worths[3].benefit, 50.0 * SCAN_WEIGHT);
    }

    /// As many accesses do as much, in however many rounds they come.
    #[test]
    fn the_clock_is_accesses() {
        let counts = RowCounts {
            bytes: MIB,
            bytes_max: MIB,
            rows: 1000,
        };
        // 10,000 rows would fit.
        let rounds = |came| busy(came, 20, &counts, 10 * MIB);
        let one = BUSY_PER_ROW * 10_000.0;
        assert!((rounds(2.0 * one) - 2.0).abs() < 0.01);
        assert_eq!(rounds(100.0 * one), BUSY_MAX);
        // However large memory is, some for each chunk are enough for one round.
        assert_eq!(rounds(20.0 * BUSY_PER_CHUNK), 1.0);
        assert_eq!(rounds(0.0), 0.0);
        assert_eq!(busy(1e9, 0, &RowCounts::default(), 0), 1.0);
    }

    #[test]
    fn a_fixed_share_stays() {
        for share in [0.0, 0.3, 1.0] {
            let mut split = Split::new(Some(share));
            rounds(&mut split, &chunks(50, 100.0, 100, 50.0), 1000.0, 100);
            assert_eq!(split.share(), share);
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_the_share_stays_in_bounds(
            input in prop::collection::vec(
                (prop::collection::vec((any::<f32>(), any::<f32>(), 0u64..1 << 40), 0..20),
                 any::<f32>(), 0u64..1 << 40),
                1..30,
            ),
        ) {
            let mut split = Split::new(None);
            for (chunks, hits, bytes) in input {
                let chunks: Vec<_> = chunks.iter().zip(0..).map(|(&(gets, samples, bytes), id)| ChunkSight {
                    id, gets, samples, data_bytes: bytes, munk_bytes: bytes * (id % 2), ..ChunkSight::default()
                }).collect();
                let rows = RowCounts { bytes, bytes_max: bytes, rows: bytes / 100 };
                let edge = Edge { hits, keys_per_sample: 8.0, ripe: true };
                let plan = split.round(&chunks, &rows, &edge, bytes);
                prop_assert!((SHARE_MIN..=SHARE_MAX).contains(&split.share()));
                prop_assert!(plan.row_bytes_max <= bytes);
                prop_assert_eq!(plan.worths.len(), chunks.len());
            }
        }
    }
}
