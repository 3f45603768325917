//! Tells trees of seeks, so that what seeks have paid for is done ([`crate::tree::looks`]).
//!
//! One seek in [`SAMPLED`] is told, for as many: the counters are shared by all threads, and a store in each seek would have these wait
//! for each other.
//!
//! A get counts as a seek where it read a block in vain: filters spare it that as a rule.

use crate::engine::Engine;
use crate::tree::Tree;
use std::cell::Cell;

/// A seek of so many is told of, by chance.
const SAMPLED: u32 = 16;

thread_local! {
    /// The state of a small generator (xorshift), the thread's own.
    static CHANCE: Cell<u32> = const { Cell::new(0x9e37_79b9) };
}

/// A seek went to `key`; `None`: to the last one.
pub(super) fn note_seek(engine: &Engine, tree: &Tree, key: Option<&[u8]>) {
    let look_bytes = engine.options.look_bytes();
    if look_bytes > 0 && is_sampled() && tree.note_seek(key, u64::from(SAMPLED), look_bytes) {
        engine.work.wake_all();
    }
}

/// Whether the thread tells others of what it does now, by chance.
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
