//! How often a span is used: a decayed sum, in reads from disk that the span in RAM would spare.
//!
//! ```text
//! 64 bits   heat: the upper 24 bits of an f32 | tick of the last touch 16 | key 8 | repeats 16
//! ```
//!
//! The sum decays when it is touched, by the ticks since the last touch: nothing goes over all spans. A tick is a
//! number of accesses, not a time.
//!
//! **Repeats** estimate how likely two touches after each other are of the same key: `1 / n` where `n` keys share
//! the gets evenly. A span most of whose gets are of a few keys is worth little, because rows of these keys would
//! take less memory.
//!
//! Thread safety: relaxed loads and stores. What is lost to a race is one observation. Ticks wrap: after 4096
//! half-lives without a touch a sum may look younger than it is.

// Not the seam's: it orders no other data, so the models need not step through it.
use std::sync::atomic::{AtomicU64, Ordering};

/// The ticks in which a sum that is not touched halves.
pub(crate) const HALF_LIFE_TICKS: f32 = 16.0;
/// By what part the estimate of repeats moves with a touch.
const REPEATS_GAIN: f32 = 1.0 / 32.0;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SpanHeat(AtomicU64);

/// What a [`SpanHeat`] says at one moment.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Worth {
    /// Reads from disk, decayed.
    pub(crate) heat: f32,
    /// The likelihood that two touches are of the same key, from 0 to 1.
    pub(crate) repeats: f32,
}

impl Worth {
    /// What the span is worth beside rows of `row_bytes`, which could take its place where few of its keys are
    /// used; it takes `bytes`.
    pub(crate) fn beside_rows(&self, bytes: usize, row_bytes: usize) -> f32 {
        // So many keys would spread their gets like this, if evenly. Twice: the estimate is coarse.
        let keys = 2.0 / self.repeats.max(1e-6);
        self.heat * (keys * row_bytes as f32 / bytes.max(1) as f32).min(1.0)
    }
}

impl SpanHeat {
    pub(crate) fn new(worth: Worth, tick: u16) -> SpanHeat {
        SpanHeat(AtomicU64::new(pack(worth, tick, 0)))
    }

    /// Adds `reads`; `key` is a part of the hash of the key that was asked for, if it was one.
    pub(crate) fn touch(&self, reads: f32, key: Option<u8>, tick: u16) {
        let word = self.0.load(Ordering::Relaxed);
        let mut worth = at(word, tick);
        let last = (word >> 16) as u8;
        let repeated = if key == Some(last) { 1.0 } else { 0.0 };
        worth.heat += reads;
        worth.repeats += (repeated - worth.repeats) * REPEATS_GAIN;
        let packed = pack(worth, tick, key.unwrap_or(last));
        self.0.store(packed, Ordering::Relaxed);
    }

    /// What it says at `tick`.
    pub(crate) fn worth(&self, tick: u16) -> Worth {
        at(self.0.load(Ordering::Relaxed), tick)
    }

    /// One of both.
    pub(crate) fn joined(&self, other: &SpanHeat) -> SpanHeat {
        let tick_of = |heat: &SpanHeat| (heat.0.load(Ordering::Relaxed) >> 24) as u16;
        let (mine, others) = (tick_of(self), tick_of(other));
        // The later one, as far as wrapping lets it be told.
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

    /// A copy that says a `part` of it.
    pub(crate) fn share(&self, part: f32) -> SpanHeat {
        let word = self.0.load(Ordering::Relaxed);
        let tick = (word >> 24) as u16;
        let mut worth = at(word, tick);
        worth.heat *= part;
        SpanHeat(AtomicU64::new(pack(worth, tick, (word >> 16) as u8)))
    }
}

fn at(word: u64, tick: u16) -> Worth {
    let heat = f32::from_bits(((word >> 40) as u32) << 8);
    let since = tick.wrapping_sub((word >> 24) as u16);
    Worth {
        heat: heat * (-f32::from(since) / HALF_LIFE_TICKS).exp2(),
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

    #[test]
    fn it_halves_in_its_half_life() {
        let heat = SpanHeat::default();
        assert_eq!(heat.worth(7).heat, 0.0);
        for _ in 0..100 {
            heat.touch(1.0, None, 65_530);
        }
        assert!((heat.worth(65_530).heat - 100.0).abs() < 0.1);
        // Ticks wrap.
        assert!((heat.worth(10).heat - 50.0).abs() < 0.1);
        heat.touch(10.0, None, 10);
        assert!((heat.share(0.5).worth(26).heat - 15.0).abs() < 0.1);
    }

    #[test]
    fn gets_of_few_keys_make_it_worth_little() {
        let worth = |keys: u64| {
            let heat = SpanHeat::default();
            for get in 0..1000u64 {
                // Not in turns: a cheap mixture.
                let key = get.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                heat.touch(1.0, Some((key % keys) as u8), 3);
            }
            heat.worth(3).beside_rows(64 << 10, 1000)
        };
        assert!(worth(80) > 900.0, "{}", worth(80));
        assert!(worth(1) < 40.0, "{}", worth(1));
        assert!(worth(4) < 300.0, "{}", worth(4));
    }
}
