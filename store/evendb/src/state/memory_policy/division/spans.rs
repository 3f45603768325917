//! Which spans of chunks are in RAM: a policy in constant work for each decision.
//!
//! ```text
//! miss ---> wants(worth, bytes)?   room is free, or the span is worth more than what would go
//! full ---> sample some present spans; the least dense goes        note_least(its density)
//! round --> advance: accesses become ticks
//!           sample as above, though no span goes                   note_least(its density)
//!           the rows' share by the price of a byte of spans        split.rs
//! ```
//!
//! The **price** is the recent worth of a byte of the least dense spans, in decayed reads per byte.
//! A span comes in if its worth is more than [`BEAT_FACTOR`] times the price of its bytes plus
//! [`LOAD_READS`]. A density is the worth of a span beside rows
//! ([`Worth::beside_rows`](crate::munk::heat::Worth::beside_rows)), divided by its bytes.
//!
//! **The price must not grow old.** After a change of load the present spans cool, and no span goes
//! because none comes in; an old price would keep it so. Hence the sample of each round.
//!
//! **By counts alone.** With [`MunkPolicy::Counts`] the worth of a span is its decayed count,
//! whatever rows could do, and it comes in once the count is above the least count: the paper's
//! policy, for comparison.
//!
//! **The clock** counts accesses: gets as one, refills of scans as [`REFILL_ACCESSES`]. A quiet
//! database forgets nothing.
//!
//! Thread safety: relaxed atomics; a figure that is a moment old does no harm. Not here: where
//! spans lie, and who loads and evicts them. Nothing here knows a span.

use crate::munk::heat::{Worth, number};
use crate::options::MunkPolicy;
// Not the seam's atomics: they order no other data, so the models need not step through them.
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A span must be worth this many times the spans that would go for it.
const BEAT_FACTOR: f32 = 1.2;
/// The cost of loading a span, in reads. With less, spans of equal worth keep replacing each other.
const LOAD_READS: f32 = 6.0;
/// The number of spans that are examined to choose one to evict.
pub(crate) const SAMPLED: usize = 16;
/// The part of the way by which the price moves to the density of the least dense span of a sample.
const PRICE_GAIN: f32 = 0.2;
/// A tick is over after this many accesses for each row that would fit into the memory.
const ACCESSES_PER_ROW: f32 = 0.14;
/// The largest number of ticks in one round.
const TICKS_MAX: f32 = 16.0;
/// The accesses that a refill of a scan counts on the clock. It counts several reads in the heat,
/// so the hot spans of scans show sooner; with the same number on the clock, chance would show,
/// too.
pub(crate) const REFILL_ACCESSES: f32 = 2.0;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SpanPolicy {
    by: MunkPolicy,
    /// The price, as `f32` bits.
    price: AtomicU32,
    has_room: AtomicBool,
    /// Spans of the last life are being loaded, and have the room.
    is_warming: AtomicBool,
    tick: AtomicU32,
    /// The part of the next tick that is over, as `f32` bits; written by the round alone.
    part: AtomicU32,
    /// The greatest density that was refused since the last round, as `f32` bits.
    refused: AtomicU32,
}

impl SpanPolicy {
    pub(crate) fn new(by: MunkPolicy) -> SpanPolicy {
        SpanPolicy {
            by,
            ..SpanPolicy::default()
        }
    }

    /// The worth of a span of `bytes` bytes beside rows of `row_bytes` bytes.
    pub(crate) fn worth(&self, worth: Worth, bytes: usize, row_bytes: usize) -> f32 {
        match self.by {
            MunkPolicy::Worth => worth.beside_rows(bytes, row_bytes),
            MunkPolicy::Counts => worth.heat,
        }
    }

    /// The tick for [`SpanHeat`](crate::munk::heat::SpanHeat).
    #[inline]
    pub(crate) fn tick(&self) -> u16 {
        self.tick.load(Ordering::Relaxed) as u16
    }

    /// Notes that a round saw `accesses` accesses; memory would have room for `rows` rows if it
    /// held nothing else. Returns the number of ticks. Called by one thread.
    pub(crate) fn advance(&self, accesses: f32, rows: f32) -> f32 {
        let came = number(accesses) / (ACCESSES_PER_ROW * number(rows).max(1.0));
        let came = came.min(TICKS_MAX);
        let part = f32::from_bits(self.part.load(Ordering::Relaxed)) + came;
        self.tick.fetch_add(part as u32, Ordering::Relaxed);
        self.part.store(part.fract().to_bits(), Ordering::Relaxed);
        came
    }

    /// Notes whether there is memory that nothing uses.
    pub(crate) fn set_room(&self, yes: bool) {
        self.has_room.store(yes, Ordering::Relaxed);
    }

    /// Notes whether spans of the last life are being loaded: until that is over, free memory is
    /// for them.
    pub(crate) fn set_warming(&self, yes: bool) {
        self.is_warming.store(yes, Ordering::Relaxed);
    }

    /// Whether there is memory for every span that is read.
    pub(crate) fn has_room(&self) -> bool {
        self.has_room.load(Ordering::Relaxed) && !self.is_warming.load(Ordering::Relaxed)
    }

    /// Whether a span of this worth, which takes `bytes` bytes, should come in.
    pub(crate) fn wants(&self, worth: f32, bytes: u64) -> bool {
        if self.has_room() {
            return true;
        }
        let worth = number(worth);
        let price = self.price() * bytes as f32;
        let wanted = match self.by {
            MunkPolicy::Worth => worth > price * BEAT_FACTOR + LOAD_READS,
            MunkPolicy::Counts => worth > price,
        };
        if !wanted {
            let density = worth / bytes.max(1) as f32;
            // Of two concurrent notes one may be lost.
            if density > f32::from_bits(self.refused.load(Ordering::Relaxed)) {
                self.refused.store(density.to_bits(), Ordering::Relaxed);
            }
        }
        wanted
    }

    /// Notes the density of the least dense of [`SAMPLED`] spans, which went, or which a round
    /// found.
    pub(crate) fn note_least(&self, density: f32) {
        let price = self.price();
        let price = price + (number(density) - price) * PRICE_GAIN;
        self.price.store(price.to_bits(), Ordering::Relaxed);
    }

    /// The worth of a byte of the least dense spans.
    pub(crate) fn price(&self) -> f32 {
        f32::from_bits(self.price.load(Ordering::Relaxed))
    }

    /// The greatest density that was refused since the last call.
    pub(crate) fn take_refused(&self) -> f32 {
        f32::from_bits(self.refused.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
#[cfg(not(evendb_loom))]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_accesses_in_however_many_rounds() {
        let (few, many) = (SpanPolicy::default(), SpanPolicy::default());
        let rows = 1000.0;
        let tick = ACCESSES_PER_ROW * rows;
        let came = few.advance(10.5 * tick, rows);
        assert!((came - 10.5).abs() < 0.01, "{came}");
        (0..105).for_each(|_| {
            many.advance(0.1 * tick, rows);
        });
        assert_eq!((few.tick(), many.tick()), (10, 10));
        assert_eq!(few.advance(f32::MAX, 0.0), TICKS_MAX);
        assert_eq!(few.advance(f32::NAN, f32::NAN), 0.0);
    }

    #[test]
    fn what_comes_in_is_worth_clearly_more_than_the_price() {
        let policy = SpanPolicy::default();
        (0..100).for_each(|_| policy.note_least(0.01));
        assert!((policy.price() - 0.01).abs() < 1e-4);
        // At that price a thousand bytes are worth ten reads.
        let enough = 10.0 * BEAT_FACTOR + LOAD_READS;
        assert!(policy.wants(enough + 0.1, 1000));
        assert_eq!(policy.take_refused(), 0.0);
        assert!(!policy.wants(enough - 0.1, 1000));
        assert!(!policy.wants(5.0, 1000));
        let refused = policy.take_refused();
        assert!((refused - (enough - 0.1) / 1000.0).abs() < 1e-6);
        assert_eq!(policy.take_refused(), 0.0);
        policy.set_room(true);
        assert!(policy.wants(0.0, 1000));
    }

    #[test]
    fn by_counts_alone_the_higher_count_takes_the_place_of_the_lower() {
        let (ours, counts) = (SpanPolicy::default(), SpanPolicy::new(MunkPolicy::Counts));
        for policy in [&ours, &counts] {
            (0..100).for_each(|_| policy.note_least(0.01));
        }
        // At that price a thousand bytes are worth ten reads.
        assert!(counts.wants(10.5, 1000) && !counts.wants(9.5, 1000));
        assert!(!ours.wants(10.5, 1000));
        // Gets of one key count like gets of many keys.
        let worth = Worth {
            heat: 100.0,
            repeats: 1.0,
        };
        assert_eq!(counts.worth(worth, 64 << 10, 1000), 100.0);
        assert!(ours.worth(worth, 64 << 10, 1000) < 10.0);
    }

    #[test]
    fn the_price_follows_a_change_within_some_rounds() {
        let policy = SpanPolicy::default();
        (0..100).for_each(|_| policy.note_least(1.0));
        (0..10).for_each(|_| policy.note_least(0.0));
        assert!(policy.price() < 0.15, "{}", policy.price());
        policy.note_least(f32::NAN);
        assert!(policy.price().is_finite());
        assert!(!policy.wants(f32::NAN, 0));
    }
}
