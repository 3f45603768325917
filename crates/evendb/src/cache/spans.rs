//! Which spans of chunks are in RAM: a policy in constant work for each decision.
//!
//! ```text
//! miss ---> wants(worth, bytes)?   room is free, or the span is worth more than what would go for it
//! full ---> sample some spans that are there; the least dense goes, and sets the price
//! round --> tick: so many accesses were made;  rows' share by the price of a byte of spans  (split.rs)
//! ```
//!
//! The **price** is what a byte of the spans that went lately was worth: decayed reads a byte. A span comes in if it
//! is worth more than [`BEAT_FACTOR`] times the price of the bytes it takes, and [`LOAD_READS`] on top, which is what
//! loading it costs.
//!
//! Thread safety: relaxed atomics; a figure that is a moment old does no harm.

// Not the seam's: they order no other data, so the models need not step through them.
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A span must be worth so many times what would go for it.
const BEAT_FACTOR: f32 = 1.2;
/// What loading a span costs, in reads.
const LOAD_READS: f32 = 4.0;
/// How many spans are looked at for one that goes.
pub(crate) const SAMPLED: usize = 16;
/// How far the price moves to that of a span that went.
const PRICE_GAIN: f32 = 0.1;
/// With this many accesses for each row that would fit into the memory a tick is over.
const ACCESSES_PER_ROW: f32 = 0.14;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SpanPolicy {
    /// As `f32` bits.
    price: AtomicU32,
    has_room: AtomicBool,
    tick: AtomicU32,
    /// The part of the next tick that is over, as `f32` bits; written by the round alone.
    part: AtomicU32,
    /// The greatest density that was refused since the last round, as `f32` bits.
    refused: AtomicU32,
}

impl SpanPolicy {
    /// The tick for [`SpanHeat`](crate::munk::SpanHeat).
    #[inline]
    pub(crate) fn tick(&self) -> u16 {
        self.tick.load(Ordering::Relaxed) as u16
    }

    /// A round saw `accesses`, and memory has room for `rows`. How many ticks that was.
    pub(crate) fn advance(&self, accesses: f32, rows: f32) -> f32 {
        let came = accesses / (ACCESSES_PER_ROW * rows.max(1.0));
        let part = f32::from_bits(self.part.load(Ordering::Relaxed)) + came.min(16.0);
        self.tick.fetch_add(part as u32, Ordering::Relaxed);
        self.part.store(part.fract().to_bits(), Ordering::Relaxed);
        came.min(16.0)
    }

    /// Whether there is memory that nothing takes.
    pub(crate) fn set_room(&self, yes: bool) {
        self.has_room.store(yes, Ordering::Relaxed);
    }

    pub(crate) fn has_room(&self) -> bool {
        self.has_room.load(Ordering::Relaxed)
    }

    /// Whether a span that is worth so much, and takes `bytes`, should come in.
    pub(crate) fn wants(&self, worth: f32, bytes: u64) -> bool {
        if self.has_room() {
            return true;
        }
        let wanted = worth > self.price() * bytes as f32 * BEAT_FACTOR + LOAD_READS;
        if !wanted {
            let density = worth / bytes.max(1) as f32;
            // Of two at once one may be lost.
            if density > f32::from_bits(self.refused.load(Ordering::Relaxed)) {
                self.refused.store(density.to_bits(), Ordering::Relaxed);
            }
        }
        wanted
    }

    /// A span went that was worth so much a byte.
    pub(crate) fn note_gone(&self, density: f32) {
        let price = self.price();
        let price = price + (density - price) * PRICE_GAIN;
        self.price.store(price.to_bits(), Ordering::Relaxed);
    }

    /// What a byte of spans is worth where it is worth least.
    pub(crate) fn price(&self) -> f32 {
        f32::from_bits(self.price.load(Ordering::Relaxed))
    }

    /// The greatest density that was refused since this was asked last.
    pub(crate) fn take_refused(&self) -> f32 {
        f32::from_bits(self.refused.swap(0, Ordering::Relaxed))
    }
}
