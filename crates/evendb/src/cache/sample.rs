//! Sampled keys: whether a row would have answered what a munk did.
//!
//! ```text
//! get of a key whose hash ends in enough zeros
//!   slots[hash]  [ fingerprint 32 | clock at its last get 32 ]     8 bytes, written over
//!   distance = clock - last   < horizon: a row would have been there   } counted at the chunk
//!                            >= horizon: it would not                  }
//! ```
//!
//! A chunk with a munk has no row hits, which hides what rows would do for it: a munk with one hot row
//! looks as good as one with a thousand. Here a sample of keys is followed, whether a munk, a row or the
//! disk answers. A cache of the size of the row cache holds a key for about the time of the **horizon**.
//! The horizon is set by the chunks without munks, where rows do answer: so that as many sampled gets
//! lie within it as the row cache really answers. So nothing is assumed about how rows are evicted.
//!
//! Keys are sampled, not gets: a key's gets are all seen, or none. One very hot key therefore
//! counts for nothing or for too much among the sampled gets. It never appears among those beyond the
//! horizon, and these are what a munk is worth.
//!
//! Memory: [`Sampler::bytes`], a 512th of the budget, at most 4 MiB. Thread safety: relaxed atomics
//! and no locks; what is lost to a race is one observation. While it is off, it costs a get one load.

use super::split::ChunkSight;
use crate::chunk::Heat;
// Not the seam's atomics: they order no other data, so the models need not step through them.
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Slots for each sampled key that rows have room for: twice the number, since munks hold keys too.
const SLOTS_PER_KEY: u64 = 4;
/// The coarsest sampling: one key in this many.
const KEYS_PER_SAMPLE_MAX: u64 = 256;
/// The finest sampling: one key in this many. A sampled get costs a cache miss.
const KEYS_PER_SAMPLE_MIN: u64 = 8;
/// Sampled gets of chunks without munks for one step of the horizon.
const CALIBRATION_SAMPLES: u32 = 64;
/// How far the logarithm of the horizon moves for a difference of 1 in the share of hits. Where
/// hits grow with the logarithm of room, as for Zipf, the whole way would be about 10.
const CALIBRATION_GAIN: f32 = 4.0;
/// Greatest step of the logarithm.
const CALIBRATION_STEP_MAX: f32 = 0.25;
/// Hits between two horizons, longer and shorter by this factor than the real one, count as hits at the
/// edge of memory.
const EDGE: f32 = std::f32::consts::SQRT_2;
/// The part of the rows' memory that lies between these two, if a longer horizon takes as much more.
pub(crate) const EDGE_PART: f32 = EDGE - 1.0 / EDGE;
/// The mask while no key is followed: only one hash matches it.
const OFF: u64 = u64::MAX;

/// What answered a get that deltas did not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Served {
    /// The chunk's munk.
    Munk,
    /// The row cache.
    Row,
    /// Log or base.
    Table,
}

/// See the module.
pub(crate) struct Sampler {
    /// Made when it is turned on for the first time: a database that is hardly used has none.
    slots: OnceLock<Box<[AtomicU64]>>,
    /// A power of two.
    slot_count: usize,
    /// Keys are followed if these bits of their place are all 0.
    mask: AtomicU64,
    clock: AtomicU32,
    /// When it was turned on.
    since: AtomicU32,
    horizon: AtomicU32,
    /// Counts of gets without a munk since the last calibration: sampled ones, and of these the ones
    /// answered by rows, and the ones within the horizon.
    outside: AtomicU32,
    outside_rows: AtomicU32,
    outside_near: AtomicU32,
    /// Hits at the edge since the last round, of the same gets.
    edge_hits: AtomicU32,
}

/// What was seen in a round of gets without a munk: hits that a horizon longer by [`EDGE`] has and
/// one shorter by it has not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Edge {
    /// Samples, times `keys_per_sample`.
    pub(crate) hits: f32,
    /// One key in this many is sampled.
    pub(crate) keys_per_sample: f32,
    /// Whether it has been on for long enough to have seen hits at the edge.
    pub(crate) ripe: bool,
}

impl Sampler {
    /// A sampler for a database with this memory budget, switched off.
    pub(crate) fn new(memory_budget: u64) -> Sampler {
        let slots = (memory_budget / 512 / 8).clamp(64, 1 << 19);
        // The power of two below.
        let slots = 1usize << slots.ilog2();
        Sampler {
            slots: OnceLock::new(),
            slot_count: slots,
            mask: AtomicU64::new(OFF),
            clock: AtomicU32::new(1),
            since: AtomicU32::new(1),
            horizon: AtomicU32::new(slots as u32 / SLOTS_PER_KEY as u32),
            outside: AtomicU32::new(0),
            outside_rows: AtomicU32::new(0),
            outside_near: AtomicU32::new(0),
            edge_hits: AtomicU32::new(0),
        }
    }

    /// Memory held once it has been on.
    pub(crate) fn bytes(&self) -> u64 {
        (self.slot_count * size_of::<AtomicU64>()) as u64
    }

    /// Looks at a get of `hash` in a keyspace, answered by `served`, of the chunk with this heat.
    #[inline]
    pub(crate) fn see(&self, keyspace: u32, hash: u64, heat: &Heat, served: Served) {
        if hash & self.mask.load(Ordering::Relaxed) == 0 {
            self.follow(keyspace, hash, heat, served);
        }
    }

    #[cold]
    fn follow(&self, keyspace: u32, hash: u64, heat: &Heat, served: Served) {
        let place = hash ^ u64::from(keyspace).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let horizon = self.horizon.load(Ordering::Relaxed);
        let distance = self.distance(place);
        Heat::count(&heat.samples);
        if distance < horizon {
            Heat::count(&heat.sample_hits);
        }
        if served != Served::Munk {
            let near = u32::from(distance < horizon);
            let row = u32::from(served == Served::Row);
            self.outside.fetch_add(1, Ordering::Relaxed);
            self.outside_rows.fetch_add(row, Ordering::Relaxed);
            self.outside_near.fetch_add(near, Ordering::Relaxed);
            let [shorter, longer] = [1.0 / EDGE, EDGE].map(|part| (horizon as f32 * part) as u32);
            let edge = u32::from((shorter..longer).contains(&distance));
            self.edge_hits.fetch_add(edge, Ordering::Relaxed);
        }
    }

    /// Sampled gets since the last one of this key; the greatest number if that is not known.
    fn distance(&self, place: u64) -> u32 {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let Some(slots) = self.slots.get() else {
            return u32::MAX;
        };
        let at = (place >> 8) as usize & (slots.len() - 1);
        let fingerprint = place >> 32;
        let entry = fingerprint << 32 | u64::from(now);
        let pair = [&slots[at], &slots[at ^ 1]];
        let seen = pair.map(|slot| slot.load(Ordering::Relaxed));
        for (slot, seen) in pair.iter().zip(seen) {
            if seen >> 32 == fingerprint && seen != 0 {
                slot.store(entry, Ordering::Relaxed);
                return now.wrapping_sub(seen as u32);
            }
        }
        let age = |seen: u64| match seen {
            0 => u32::MAX,
            seen => now.wrapping_sub(seen as u32),
        };
        let older = usize::from(age(seen[1]) > age(seen[0]));
        pair[older].store(entry, Ordering::Relaxed);
        u32::MAX
    }

    /// One key in this many is followed; `None` while sampling is off.
    pub(crate) fn keys_per_sample(&self) -> Option<u64> {
        let mask = self.mask.load(Ordering::Relaxed);
        (mask != OFF).then(|| mask + 1)
    }

    /// What was seen at the edge since the last time. One thread, once a round.
    pub(crate) fn take_edge(&self) -> Edge {
        let hits = self.edge_hits.swap(0, Ordering::Relaxed) as f32;
        let keys_per_sample = self.keys_per_sample().unwrap_or(KEYS_PER_SAMPLE_MIN) as f32;
        let now = self.clock.load(Ordering::Relaxed);
        let seen = now.wrapping_sub(self.since.load(Ordering::Relaxed));
        // However long rows stay, no more keys are followed than there are slots.
        let enough = self.horizon.load(Ordering::Relaxed);
        let enough = enough.min(self.slot_count as u32);
        Edge {
            hits: hits * keys_per_sample,
            keys_per_sample,
            ripe: seen / 2 > enough,
        }
    }

    /// Turns it on or off, for rows of `row_bytes` and with `bytes_max` for munks and rows together, and
    /// sets the horizon. One thread, once a round, after taking the edge.
    pub(crate) fn round(&self, on: bool, row_bytes: u64, bytes_max: u64) {
        let wanted = if on {
            let keys = bytes_max / row_bytes.max(1);
            self.slots
                .get_or_init(|| (0..self.slot_count).map(|_| AtomicU64::new(0)).collect());
            let keys_per_sample = keys * SLOTS_PER_KEY / self.slot_count as u64;
            let keys_per_sample = keys_per_sample
                .clamp(KEYS_PER_SAMPLE_MIN, KEYS_PER_SAMPLE_MAX)
                .next_power_of_two();
            // A small change of the row size is ignored, because a change here loses what was seen.
            match self.keys_per_sample() {
                Some(now) if now == keys_per_sample || now == keys_per_sample * 2 => now,
                _ => keys_per_sample,
            }
        } else {
            0
        };
        if self.keys_per_sample().is_none() {
            let now = self.clock.load(Ordering::Relaxed);
            self.since.store(now, Ordering::Relaxed);
        }
        self.mask.store(wanted.wrapping_sub(1), Ordering::Relaxed);
        self.calibrate();
    }

    fn calibrate(&self) {
        let samples = self.outside.load(Ordering::Relaxed);
        if samples < CALIBRATION_SAMPLES {
            return;
        }
        let take = |count: &AtomicU32| count.swap(0, Ordering::Relaxed) as f32;
        let samples = take(&self.outside).max(1.0);
        let off = (take(&self.outside_rows) - take(&self.outside_near)) / samples;
        let step = (off * CALIBRATION_GAIN).clamp(-CALIBRATION_STEP_MAX, CALIBRATION_STEP_MAX);
        let horizon = self.horizon.load(Ordering::Relaxed) as f32 * step.exp();
        // Rounded, so that a small horizon can move.
        let horizon = horizon.round().clamp(8.0, (1u32 << 30) as f32);
        self.horizon.store(horizon as u32, Ordering::Relaxed);
    }
}

impl Heat {
    /// Empties the counters into the decayed sums: `decay` of each sum stays.
    pub(crate) fn sight(&self, decay: f32) -> ChunkSight {
        let fold = |counter: &super::super::sync::atomic::AtomicU32,
                    sum: &super::super::sync::atomic::AtomicU32| {
            let new = counter.swap(0, crate::sync::atomic::Ordering::Relaxed) as f32;
            let now = Heat::load(sum) * decay + new;
            sum.store(now.to_bits(), crate::sync::atomic::Ordering::Relaxed);
            now
        };
        ChunkSight {
            gets: fold(&self.gets, &self.get_heat),
            row_hits: fold(&self.row_hits, &self.row_heat),
            scans: fold(&self.scans, &self.scan_heat),
            puts: fold(&self.puts, &self.write_heat),
            samples: fold(&self.samples, &self.sample_heat),
            sample_hits: fold(&self.sample_hits, &self.sample_hit_heat),
            ..ChunkSight::default()
        }
    }
}

#[cfg(test)]
#[cfg(not(evendb_loom))]
mod tests {
    use super::*;

    fn hash(key: u64) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&key.to_le_bytes())
    }

    #[test]
    fn off_it_sees_nothing() {
        let (sampler, heat) = (Sampler::new(1 << 20), Heat::default());
        (0..10_000).for_each(|key| sampler.see(0, hash(key), &heat, Served::Munk));
        assert_eq!(heat.sight(1.0).samples, 0.0);
        assert_eq!(sampler.keys_per_sample(), None);
    }

    #[test]
    fn it_follows_its_share_of_keys_and_knows_distances() {
        let (sampler, heat) = (Sampler::new(64 << 20), Heat::default());
        sampler.round(true, 1000, 1 << 20);
        assert_eq!(sampler.keys_per_sample(), Some(8));
        (0..8000).for_each(|key| sampler.see(0, hash(key), &heat, Served::Munk));
        let first = heat.sight(0.0);
        assert!(
            (850.0..1150.0).contains(&first.samples),
            "{}",
            first.samples
        );
        assert_eq!(first.sample_hits, 0.0, "none came twice");
        (0..8000).for_each(|key| sampler.see(0, hash(key), &heat, Served::Munk));
        let second = heat.sight(0.0);
        assert!(second.sample_hits > 0.9 * second.samples, "{second:?}");
        // Keys of another keyspace are others.
        (0..8000).for_each(|key| sampler.see(7, hash(key), &heat, Served::Munk));
        assert_eq!(heat.sight(0.0).sample_hits, 0.0);
    }

    /// A queue of 500 keys that are asked for in turn with a hot one between: rows answer the hot
    /// one only, and the horizon comes to lie between the two distances.
    #[test]
    fn the_horizon_follows_what_rows_do() {
        let (sampler, heat) = (Sampler::new(1 << 20), Heat::default());
        sampler.round(true, 1000, 10_000);
        let sampled = |keys_per_sample: u64| {
            (0u64..).filter(move |&key| hash(key) & (keys_per_sample - 1) == 0)
        };
        let keys: Vec<u64> = sampled(8).take(100).collect();
        for round in 0..400 {
            for (at, &key) in keys[1..].iter().enumerate() {
                sampler.see(0, hash(key), &heat, Served::Table);
                if at % 3 == round % 3 {
                    sampler.see(0, hash(keys[0]), &heat, Served::Row);
                }
            }
            sampler.round(true, 1000, 10_000);
        }
        heat.sight(0.0);
        for &key in &keys[1..] {
            sampler.see(0, hash(key), &heat, Served::Munk);
        }
        assert_eq!(heat.sight(0.0).sample_hits, 0.0, "rows have none of these");
        sampler.see(0, hash(keys[0]), &heat, Served::Munk);
        sampler.see(0, hash(keys[0]), &heat, Served::Munk);
        assert!(heat.sight(0.0).sample_hits >= 1.0);
    }
}
