//! The use of a span: a decayed sum, counted in the disk reads that the span in RAM would
//! spare.
//!
//! ```text
//! 64 bits   heat: the upper 24 bits of an f32 | tick of the last touch 16 | key 8 | repeats 16
//! ```
//!
//! The sum decays when it is touched, by the ticks since the last touch, so no job has to visit all
//! spans. A tick is a number of accesses, not a time.
//!
//! **Repeats** estimate how likely two consecutive touches are of the same key: `1 / n` where `n`
//! keys share the gets evenly. If a few keys have the larger part of a span's gets, the span is
//! worth little, because rows of these keys would take less memory.
//!
//! **The cost of counting hits fits the heat** ([`SpanHeat::is_cool`]). All readers of a hot span
//! share its word, and a store makes them wait for each other. So a caller counts one hit in
//! sixteen of a hot span, with sixteen times the weight, and each hit of a cool span. The spans
//! that go are chosen among the cool ones, and there a count of one in sixteen would be largely
//! chance (simulated: with exact counts, misses of prefixes are 1.013 times the ideal's instead of
//! 1.038, with a tenth of the loads).
//!
//! Thread safety: relaxed loads and stores. A race loses one observation. Ticks wrap: after 8192
//! half-lives without a touch a sum may look younger than it is. Not here: what follows from the
//! heat ([`crate::memory_policy`]).

// Not an atomic of the seam: it orders no other data, so the models need not step through it.
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of ticks in which a sum that is not touched halves: about one access for each row
/// that memory has room for. A longer half-life follows a change of load too late, a shorter one
/// takes chance for heat.
pub(crate) const HALF_LIFE_TICKS: f32 = 8.0;
/// The number of used keys that are assumed for each key that the repeats show. An estimate that is
/// too low costs more than one that is too high.
const KEYS_FACTOR: f32 = 4.0;
/// A span with fewer touches than this in its sum is cool.
const COOL_TOUCHES: f32 = 64.0;
/// The part by which one touch moves the estimate of repeats.
const REPEATS_GAIN: f32 = 1.0 / 32.0;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SpanHeat(AtomicU64);

/// The value of a [`SpanHeat`] at one moment.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Worth {
    /// Reads from disk, decayed.
    pub(crate) heat: f32,
    /// The likelihood that two touches are of the same key, from 0 to 1.
    pub(crate) repeats: f32,
}

impl Worth {
    /// The worth of a span of `bytes` bytes beside rows of `row_bytes` bytes, which could replace
    /// it if few of its keys are used.
    pub(crate) fn beside_rows(&self, bytes: usize, row_bytes: usize) -> f32 {
        // The number of keys whose evenly spread gets would repeat like this.
        let keys = KEYS_FACTOR / self.repeats.max(1e-6);
        self.heat * (keys * row_bytes as f32 / bytes.max(1) as f32).min(1.0)
    }
}

impl SpanHeat {
    pub(crate) fn new(worth: Worth, tick: u16) -> SpanHeat {
        SpanHeat(AtomicU64::new(pack(worth, tick, 0)))
    }

    /// Adds `reads`; `key` is a part of the hash of the key that was read, if a single key was
    /// read.
    pub(crate) fn touch(&self, reads: f32, key: Option<u8>, tick: u16) {
        let word = self.0.load(Ordering::Relaxed);
        let mut worth = at(word, tick);
        let last = (word >> 16) as u8;
        let repeated = if key == Some(last) { 1.0 } else { 0.0 };
        worth.heat += number(reads);
        worth.repeats += (repeated - worth.repeats) * REPEATS_GAIN;
        let packed = pack(worth, tick, key.unwrap_or(last));
        self.0.store(packed, Ordering::Relaxed);
    }

    /// Whether each hit of `reads` should be counted. If not, one in several is enough, with
    /// several times the weight.
    #[inline]
    pub(crate) fn is_cool(&self, reads: f32) -> bool {
        heat_of(self.0.load(Ordering::Relaxed)) < COOL_TOUCHES * reads
    }

    /// The worth at `tick`.
    pub(crate) fn worth(&self, tick: u16) -> Worth {
        at(self.0.load(Ordering::Relaxed), tick)
    }

    /// One heat for two spans that become one.
    pub(crate) fn joined(&self, other: &SpanHeat) -> SpanHeat {
        let tick_of = |heat: &SpanHeat| (heat.0.load(Ordering::Relaxed) >> 24) as u16;
        let (mine, others) = (tick_of(self), tick_of(other));
        // The later tick, as far as wrapping allows to tell.
        let tick = match mine.wrapping_sub(others) < 1 << 15 {
            true => mine,
            false => others,
        };
        let (a, b) = (self.worth(tick), other.worth(tick));
        let heat = a.heat + b.heat;
        let repeats = match heat > 0.0 {
            true => (a.repeats * a.heat + b.repeats * b.heat) / heat,
            false => 0.0,
        };
        SpanHeat::new(Worth { heat, repeats }, tick)
    }

    /// The heat of a `part` of the span.
    pub(crate) fn share(&self, part: f32) -> SpanHeat {
        let word = self.0.load(Ordering::Relaxed);
        let tick = (word >> 24) as u16;
        let mut worth = at(word, tick);
        worth.heat *= part;
        SpanHeat(AtomicU64::new(pack(worth, tick, (word >> 16) as u8)))
    }
}

/// The part of a sum that is left after this number of ticks.
pub(crate) fn left_after(ticks: f32) -> f32 {
    (-number(ticks) / HALF_LIFE_TICKS).exp2()
}

/// Makes any number finite and at least zero.
pub(crate) fn number(value: f32) -> f32 {
    if value.is_finite() {
        value.max(0.0)
    } else {
        0.0
    }
}

/// The sum as it was at its last touch.
fn heat_of(word: u64) -> f32 {
    f32::from_bits(((word >> 40) as u32) << 8)
}

fn at(word: u64, tick: u16) -> Worth {
    let since = tick.wrapping_sub((word >> 24) as u16);
    Worth {
        heat: heat_of(word) * left_after(f32::from(since)),
        repeats: f32::from(word as u16) / f32::from(u16::MAX),
    }
}

fn pack(worth: Worth, tick: u16, key: u8) -> u64 {
    let heat = u64::from(worth.heat.to_bits() >> 8);
    let repeats = (worth.repeats * f32::from(u16::MAX)) as u16;
    heat << 40 | u64::from(tick) << 24 | u64::from(key) << 16 | u64::from(repeats)
}

#[cfg(test)]
#[cfg(not(evendb_loom))]
mod tests {
    use super::*;

    const HALF_LIFE: u16 = HALF_LIFE_TICKS as u16;

    #[test]
    fn it_halves_in_its_half_life() {
        let heat = SpanHeat::default();
        assert_eq!(heat.worth(7).heat, 0.0);
        let first = u16::MAX - 3;
        for _ in 0..100 {
            heat.touch(1.0, None, first);
        }
        assert!((heat.worth(first).heat - 100.0).abs() < 0.1);
        // Ticks wrap.
        let then = first.wrapping_add(HALF_LIFE);
        assert!((heat.worth(then).heat - 50.0).abs() < 0.1);
        heat.touch(10.0, None, then);
        assert!((heat.share(0.5).worth(then + HALF_LIFE).heat - 15.0).abs() < 0.1);
    }

    #[test]
    fn gets_of_few_keys_make_it_worth_little() {
        let worth = |keys: u64| {
            let heat = SpanHeat::default();
            for get in 0..1000u64 {
                // Not one key after the other: a cheap mixture.
                let mixed = get.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let key = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40;
                heat.touch(1.0, Some((key % keys) as u8), 3);
            }
            heat.worth(3).beside_rows(64 << 10, 1000)
        };
        assert!(worth(80) > 900.0, "{}", worth(80));
        assert!(worth(1) < 70.0, "{}", worth(1));
        assert!(worth(4) < 400.0, "{}", worth(4));
    }

    #[test]
    fn a_span_is_cool_until_it_was_touched_often() {
        let heat = SpanHeat::default();
        let mut touches = 0;
        while heat.is_cool(1.0) {
            heat.touch(1.0, None, 5);
            touches += 1;
        }
        assert_eq!(touches, COOL_TOUCHES as i32);
        // With more reads per touch, the same sum has fewer touches.
        assert!(heat.is_cool(4.0));
    }

    #[test]
    fn figures_that_are_no_numbers_count_as_nothing() {
        let heat = SpanHeat::default();
        for reads in [f32::NAN, f32::INFINITY, -1.0] {
            heat.touch(reads, None, 0);
        }
        assert_eq!(heat.worth(0).heat, 0.0);
        assert_eq!(left_after(f32::NAN), 1.0);
        assert_eq!(heat.worth(0).beside_rows(0, usize::MAX), 0.0);
    }
}
