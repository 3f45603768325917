//! Ghosts: the fingerprints of evicted rows, and their ages.
//!
//! ```text
//! slots, a power of two, sets of four
//!   [ fingerprint 40 | evicted at 24 ]  8 bytes; 0 is empty; the oldest of a full set goes
//! clock: steps of the queue that the rows left
//! ```
//!
//! Age is counted in steps of the queue's end, not in time: a row evicted at step `s` would still
//! be there after step `s + n` if the queue were `n` rows longer.
//!
//! Memory: 8 to 16 bytes for each of the rows it is told to remember; none before the first.
//!
//! Thread safety: plain data, guarded by the shard's lock.

/// Slots that a fingerprint may be in.
const WAYS: usize = 4;
const AGE_BITS: u32 = 24;
const AGE_MASK: u64 = (1 << AGE_BITS) - 1;

#[derive(Debug, Default)]
pub(super) struct Ghosts {
    slots: Vec<u64>,
    clock: u64,
}

impl Ghosts {
    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u64>()
    }

    /// Notes that the queue's end moved on by one row.
    pub(super) fn step(&mut self) {
        self.clock += 1;
    }

    /// Remembers a row, in a table for about `rows` rows.
    pub(super) fn push(&mut self, place: u64, rows: usize) {
        let wanted = rows.next_power_of_two().max(4 * WAYS);
        // Made smaller only after a large change, so that the size does not swing.
        if wanted > self.slots.len() || wanted * 4 <= self.slots.len() {
            self.resize(wanted);
        }
        // Never 0, which is an empty slot.
        let entry = fingerprint(place) << AGE_BITS | (self.clock & AGE_MASK);
        self.put(entry);
    }

    /// Forgets a row; returns its age in steps if it was known.
    pub(super) fn take(&mut self, place: u64) -> Option<u64> {
        if self.slots.is_empty() {
            return None;
        }
        let (clock, fingerprint) = (self.clock, fingerprint(place));
        let slot = self
            .set(fingerprint)
            .iter_mut()
            .find(|slot| **slot >> AGE_BITS == fingerprint)?;
        let age = age(*slot, clock);
        *slot = 0;
        Some(age)
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.slots = Vec::new();
    }

    fn put(&mut self, entry: u64) {
        let clock = self.clock;
        let set = self.set(entry >> AGE_BITS);
        let known = set
            .iter()
            .position(|slot| *slot >> AGE_BITS == entry >> AGE_BITS);
        let at = known.or_else(|| set.iter().position(|slot| *slot == 0));
        let oldest = || (0..WAYS).max_by_key(|&at| age(set[at], clock));
        if let Some(at) = at.or_else(oldest) {
            set[at] = entry;
        }
    }

    fn resize(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.slots, vec![0; slots]);
        for entry in old.into_iter().filter(|entry| *entry != 0) {
            self.put(entry);
        }
    }

    fn set(&mut self, fingerprint: u64) -> &mut [u64] {
        let sets = self.slots.len() / WAYS;
        // Some bits of the hash chose the shard and are equal here, so all bits are mixed.
        let mixed = fingerprint.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let start = (mixed as usize & (sets - 1)) * WAYS;
        &mut self.slots[start..start + WAYS]
    }
}

fn fingerprint(place: u64) -> u64 {
    (place >> AGE_BITS).max(1)
}

fn age(entry: u64, clock: u64) -> u64 {
    clock.wrapping_sub(entry) & AGE_MASK
}

#[cfg(test)]
#[cfg(not(evendb_loom))]
mod tests {
    use super::*;

    fn place(n: u64) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes())
    }

    #[test]
    fn ages_count_steps_and_a_ghost_is_taken_once() {
        let mut ghosts = Ghosts::default();
        assert_eq!((ghosts.take(place(1)), ghosts.bytes()), (None, 0));
        ghosts.push(place(1), 100);
        (0..7).for_each(|_| ghosts.step());
        ghosts.push(place(2), 100);
        assert_eq!(ghosts.take(place(1)), Some(7));
        assert_eq!(ghosts.take(place(1)), None);
        assert_eq!(ghosts.take(place(2)), Some(0));
    }

    #[test]
    fn the_newest_are_kept_in_bounded_memory() {
        let mut ghosts = Ghosts::default();
        for n in 0..10_000 {
            ghosts.step();
            ghosts.push(place(n), 1000);
        }
        assert_eq!(ghosts.bytes(), 1024 * 8);
        let known = |ghosts: &mut Ghosts, from: u64, to: u64| {
            (from..to)
                .filter(|&n| ghosts.take(place(n)).is_some())
                .count()
        };
        assert!(known(&mut ghosts, 9_500, 10_000) > 400);
        assert!(known(&mut ghosts, 0, 5_000) < 50);
    }

    #[test]
    fn a_table_that_grows_or_shrinks_keeps_what_fits() {
        let mut ghosts = Ghosts::default();
        (0..100).for_each(|n| ghosts.push(place(n), 100));
        ghosts.push(place(100), 5000);
        assert!(
            (0..=100)
                .filter(|&n| ghosts.take(place(n)).is_some())
                .count()
                > 80
        );
        (0..100).for_each(|n| ghosts.push(place(n), 5000));
        ghosts.push(place(100), 10);
        assert_eq!(ghosts.bytes(), 16 * 8);
        assert_eq!(ghosts.take(place(100)), Some(0));
    }
}
