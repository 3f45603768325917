//! Reports seeks to trees, so that the jobs that seeks have paid for are done
//! ([`crate::tree::looks`]).
//!
//! One seek in [`SAMPLED`] is reported, and counts as [`SAMPLED`] seeks. All threads share the
//! counters, and a store in each seek would make threads wait for each other.
//!
//! A get that reads a block in vain counts as a seek. As a rule filters spare it that.

use crate::engine::Engine;
use crate::tree::Tree;
use std::cell::Cell;

/// One seek in this many is reported, by chance.
const SAMPLED: u32 = 16;

thread_local! {
    /// The state of the thread's own generator of random numbers (xorshift).
    static CHANCE: Cell<u32> = const { Cell::new(0x9e37_79b9) };
}

/// Notes that a seek went to `key`; `None`: to the last key.
pub(super) fn note_seek(engine: &Engine, tree: &Tree, key: Option<&[u8]>) {
    let look_bytes = engine.options.look_bytes();
    if look_bytes > 0 && is_sampled() && tree.note_seek(key, u64::from(SAMPLED), look_bytes) {
        engine.work.wake_all();
    }
}

/// Whether the thread reports its current step. Chance decides.
pub(super) fn is_sampled() -> bool {
    CHANCE.with(|chance| {
        let mut state = chance.get();
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        chance.set(state);
        state.is_multiple_of(SAMPLED)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_one_seek_of_so_many_is_told() {
        let all = 100_000;
        let sampled = (0..all).filter(|_| is_sampled()).count() as u32;
        let expected = all / SAMPLED;
        assert!(
            sampled > expected * 9 / 10 && sampled < expected * 11 / 10,
            "{sampled}"
        );
    }
}
