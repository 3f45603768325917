//! Sampled keys: how many hits a little more room for rows would bring.
//!
//! ```text
//! get of a key whose hash ends in enough zeros, answered by a row or by the disk
//!   slots[hash]  [ fingerprint 32 | clock at its last get 32 ]     8 bytes, written over
//!   distance = clock - last     0 ......... horizon / 1.4 ... horizon ... horizon * 1.4 ......
//!                                rows have it           the edge            rows do not have it
//! ```
//!
//! A cache of the size of the row cache holds a key for about the time of the **horizon**. The
//! horizon is set so that the number of sampled gets within it equals the number that the row cache
//! really answers. So nothing is assumed about how rows are evicted. Gets whose distance is near
//! the horizon are hits at the **edge** of memory: [`super::split`] takes them as the gain of one
//! more byte for rows.
//!
//! Gets that spans answer are not counted here: a row would hardly be kept beside its span. The
//! worth of a span with few used keys is estimated by its heat ([`crate::munk::heat`]).
//!
//! Keys are sampled, not gets: all gets of a key are seen, or none. One very hot key therefore
//! counts for nothing or for too much among the sampled gets. It never appears among the gets at
//! the edge.
//!
//! Memory: [`Sampler::bytes`], a 512th of the budget, at most 4 MiB.
//!
//! Thread safety: relaxed atomics and no locks; a race loses one observation. While the sampler is
//! off, it costs a get one load.

// Not the seam's atomics: they order no other data, so the models need not step through them.
use evendb_storage::key_hash::RamHash;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Slots for each sampled key that rows have room for: distances beyond the horizon must be seen,
/// too.
const SLOTS_PER_KEY: u64 = 4;
/// The coarsest sampling: one key in this many.
const KEYS_PER_SAMPLE_MAX: u64 = 256;
/// The finest sampling: one key in this many. A sampled get costs a cache miss.
const KEYS_PER_SAMPLE_MIN: u64 = 8;
/// Sampled gets before each step of the horizon.
const CALIBRATION_SAMPLES: u32 = 64;
/// The distance by which the logarithm of the horizon moves for a difference of 1 in the share of
/// hits. If hits grow with the logarithm of room, as with Zipf, the whole way would be about 10.
const CALIBRATION_GAIN: f32 = 4.0;
/// The largest step of the logarithm.
const CALIBRATION_STEP_MAX: f32 = 0.25;
/// Two horizons are longer and shorter than the real one by this factor. Hits between them count as
/// hits at the edge of memory.
const EDGE: f32 = std::f32::consts::SQRT_2;
/// The part of the rows' memory between these two horizons, if memory grows in proportion to the
/// horizon.
pub(crate) const EDGE_PART: f32 = EDGE - 1.0 / EDGE;
/// The mask while no key is followed: only one hash matches it.
const OFF: u64 = u64::MAX;

/// The source of the answer to a get that neither deltas nor spans in RAM answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Served {
    /// The row cache.
    Row,
    /// Log or base.
    Table,
}

/// See the module.
pub(crate) struct Sampler {
    /// Made when sampling is turned on for the first time: a database that is hardly used has no
    /// slots.
    slots: OnceLock<Box<[AtomicU64]>>,
    /// The number of slots, a power of two.
    slot_count: usize,
    /// Keys are followed if these bits of their place are all 0.
    mask: AtomicU64,
    clock: AtomicU32,
    /// The clock when sampling was turned on.
    since: AtomicU32,
    horizon: AtomicU32,
    /// Since the last calibration: `samples` counts sampled gets, `row_hits` the ones that rows
    /// answered, `near` the ones within the horizon.
    samples: AtomicU32,
    row_hits: AtomicU32,
    near: AtomicU32,
    /// Hits at the edge since the last round.
    edge_hits: AtomicU32,
}

/// The result of a round: hits that a horizon longer by [`EDGE`] has and a horizon shorter by
/// [`EDGE`] has not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Edge {
    /// Sampled hits, multiplied by `keys_per_sample`.
    pub(crate) hits: f32,
    /// One key in this many is sampled.
    pub(crate) keys_per_sample: f32,
    /// Whether sampling has been on for long enough to have seen hits at the edge.
    pub(crate) ripe: bool,
}

impl Sampler {
    /// A sampler for a database with this memory budget, switched off.
    pub(crate) fn new(memory_budget: u64) -> Sampler {
        let slots = (memory_budget / 512 / 8).clamp(64, 1 << 19);
        // The next lower power of two.
        let slots = 1usize << slots.ilog2();
        Sampler {
            slots: OnceLock::new(),
            slot_count: slots,
            mask: AtomicU64::new(OFF),
            clock: AtomicU32::new(1),
            since: AtomicU32::new(1),
            horizon: AtomicU32::new(slots as u32 / SLOTS_PER_KEY as u32),
            samples: AtomicU32::new(0),
            row_hits: AtomicU32::new(0),
            near: AtomicU32::new(0),
            edge_hits: AtomicU32::new(0),
        }
    }

    /// Memory held once it has been on.
    pub(crate) fn bytes(&self) -> u64 {
        (self.slot_count * size_of::<AtomicU64>()) as u64
    }

    /// Looks at a get of `hash` in a keyspace, answered by `served`.
    #[inline]
    pub(crate) fn see(&self, keyspace: u32, hash: RamHash, served: Served) {
        if hash.bits() & self.mask.load(Ordering::Relaxed) == 0 {
            self.follow(keyspace, hash, served);
        }
    }

    #[cold]
    fn follow(&self, keyspace: u32, hash: RamHash, served: Served) {
        let place = hash.bits() ^ u64::from(keyspace).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let horizon = self.horizon.load(Ordering::Relaxed);
        let distance = self.distance(place);
        let [shorter, longer] = [1.0 / EDGE, EDGE].map(|part| (horizon as f32 * part) as u32);
        let count = |counter: &AtomicU32, yes: bool| {
            counter.fetch_add(u32::from(yes), Ordering::Relaxed);
        };
        count(&self.samples, true);
        count(&self.row_hits, served == Served::Row);
        count(&self.near, distance < horizon);
        count(&self.edge_hits, (shorter..longer).contains(&distance));
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

    /// The hits at the edge since the last call. Called by one thread, once a round.
    pub(crate) fn take_edge(&self) -> Edge {
        let hits = self.edge_hits.swap(0, Ordering::Relaxed) as f32;
        let keys_per_sample = self.keys_per_sample().unwrap_or(KEYS_PER_SAMPLE_MIN) as f32;
        let now = self.clock.load(Ordering::Relaxed);
        let seen = now.wrapping_sub(self.since.load(Ordering::Relaxed));
        // However long rows stay, at most as many keys are followed as there are slots.
        let enough = self.horizon.load(Ordering::Relaxed);
        let enough = enough.min(self.slot_count as u32);
        Edge {
            hits: hits * keys_per_sample,
            keys_per_sample,
            ripe: seen / 2 > enough,
        }
    }

    /// Turns sampling on or off, for rows of `row_bytes` bytes and with `bytes_max` bytes for spans
    /// and rows together, and sets the horizon. Called by one thread, once a round, after taking
    /// the edge.
    pub(crate) fn round(&self, on: bool, row_bytes: u64, bytes_max: u64) {
        let wanted = if on {
            let keys = bytes_max / row_bytes.max(1);
            self.slots
                .get_or_init(|| (0..self.slot_count).map(|_| AtomicU64::new(0)).collect());
            let keys_per_sample = keys * SLOTS_PER_KEY / self.slot_count as u64;
            let keys_per_sample = keys_per_sample
                .clamp(KEYS_PER_SAMPLE_MIN, KEYS_PER_SAMPLE_MAX)
                .next_power_of_two();
            // A small change of the row size is ignored, because a change here loses the
            // observations.
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
        let samples = self.samples.load(Ordering::Relaxed);
        if samples < CALIBRATION_SAMPLES {
            return;
        }
        let take = |count: &AtomicU32| count.swap(0, Ordering::Relaxed) as f32;
        let samples = take(&self.samples).max(1.0);
        let off = (take(&self.row_hits) - take(&self.near)) / samples;
        let step = (off * CALIBRATION_GAIN).clamp(-CALIBRATION_STEP_MAX, CALIBRATION_STEP_MAX);
        let horizon = self.horizon.load(Ordering::Relaxed) as f32 * step.exp();
        // Rounded, so that a small horizon can move.
        let horizon = horizon.round().clamp(8.0, (1u32 << 30) as f32);
        self.horizon.store(horizon as u32, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[cfg(not(evendb_loom))]
mod tests {
    use super::*;

    fn hash(key: u64) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&key.to_le_bytes())
    }

    /// Looks at keys, and returns how many were followed and how many of these were near.
    fn seen(sampler: &Sampler, keyspace: u32, keys: std::ops::Range<u64>) -> (u32, u32) {
        sampler.samples.store(0, Ordering::Relaxed);
        sampler.near.store(0, Ordering::Relaxed);
        keys.for_each(|key| sampler.see(keyspace, RamHash::of_bits(hash(key)), Served::Table));
        let load = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
        (load(&sampler.samples), load(&sampler.near))
    }

    #[test]
    fn off_it_sees_nothing() {
        let sampler = Sampler::new(1 << 20);
        assert_eq!(seen(&sampler, 0, 0..10_000), (0, 0));
        assert_eq!(sampler.keys_per_sample(), None);
    }

    #[test]
    fn it_follows_its_share_of_keys_and_knows_distances() {
        let sampler = Sampler::new(64 << 20);
        sampler.round(true, 1000, 1 << 20);
        assert_eq!(sampler.keys_per_sample(), Some(8));
        let (samples, near) = seen(&sampler, 0, 0..8000);
        assert!((850..1150).contains(&samples), "{samples}");
        assert_eq!(near, 0, "none came twice");
        let (samples, near) = seen(&sampler, 0, 0..8000);
        assert!(near * 10 > samples * 9, "{near} of {samples}");
        // Keys of another keyspace are different keys.
        assert_eq!(seen(&sampler, 7, 0..8000).1, 0);
    }

    /// A hot key comes between keys that are asked for in turn: rows answer only the hot key, and
    /// the horizon comes to lie between the two distances.
    #[test]
    fn the_horizon_follows_what_rows_do() {
        let sampler = Sampler::new(1 << 20);
        sampler.round(true, 1000, 10_000);
        let sampled = |keys_per_sample: u64| {
            (0u64..).filter(move |&key| hash(key) & (keys_per_sample - 1) == 0)
        };
        let keys: Vec<u64> = sampled(8).take(100).collect();
        for round in 0..400 {
            for (at, &key) in keys[1..].iter().enumerate() {
                sampler.see(0, RamHash::of_bits(hash(key)), Served::Table);
                if at % 3 == round % 3 {
                    sampler.see(0, RamHash::of_bits(hash(keys[0])), Served::Row);
                }
            }
            sampler.round(true, 1000, 10_000);
        }
        for &key in &keys[1..] {
            assert_eq!(
                seen(&sampler, 0, key..key + 1).1,
                0,
                "rows have none of these"
            );
        }
        let hot = keys[0]..keys[0] + 1;
        seen(&sampler, 0, hot.clone());
        assert_eq!(seen(&sampler, 0, hot).1, 1);
    }

    /// Keys that come back at twice the horizon are beyond the edge, and keys at the horizon are at
    /// the edge.
    #[test]
    fn hits_at_the_edge_are_those_about_the_horizon() {
        let sampler = Sampler::new(64 << 20);
        sampler.round(true, 1000, 1 << 20);
        let keys: Vec<u64> = (0u64..)
            .filter(|&key| hash(key) & 7 == 0)
            .take(4000)
            .collect();
        let edge = |keys: &[u64], horizon: u32| {
            sampler.take_edge();
            sampler.horizon.store(horizon, Ordering::Relaxed);
            let see = |&key: &u64| sampler.see(0, RamHash::of_bits(hash(key)), Served::Table);
            keys.iter().chain(keys).for_each(see);
            sampler.take_edge().hits
        };
        let (at, beyond) = (edge(&keys[..1000], 1000), edge(&keys[1000..3000], 1000));
        assert!(at > 0.9 * 8000.0, "{at}");
        assert_eq!(beyond, 0.0);
        assert_eq!(edge(&keys[3000..3500], 1000), 0.0, "rows have these anyway");
    }
}
