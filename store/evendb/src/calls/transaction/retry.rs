//! The retries of a transaction that met others, and the waits before them.
//!
//! The first attempts wait a random time, which doubles each time up to a limit, so that
//! transactions that met part. From the third attempt on, keys are locked when they are got: then
//! transactions that meet wait for each other, first come first served, instead of throwing their
//! work away.
//!
//! Thread safety: plain data.

use crate::sync::thread;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// The number of attempts before the caller gets the conflict.
const ATTEMPTS_MAX: u32 = 64;
/// The number of attempts after which keys are locked when they are got.
const LOCKING_FROM: u32 = 2;
/// The longest pause after the first attempt, and the longest pause at all.
const PAUSE_FIRST: Duration = Duration::from_micros(10);
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// See the module.
pub(crate) struct Retry {
    attempts: u32,
    random: RandomState,
}

impl Retry {
    pub(crate) fn new() -> Retry {
        Retry {
            attempts: 0,
            random: RandomState::new(),
        }
    }

    /// Whether the next attempt locks the keys that it gets.
    pub(crate) fn locks_gets(&self) -> bool {
        self.attempts >= LOCKING_FROM
    }

    /// Called when an attempt met others. Waits, and returns whether there is another attempt.
    pub(crate) fn wait(&mut self) -> bool {
        self.attempts += 1;
        if self.attempts >= ATTEMPTS_MAX {
            return false;
        }
        let longest = PAUSE_MAX.min(PAUSE_FIRST * (1 << self.attempts.min(16)));
        let mut hasher = self.random.build_hasher();
        hasher.write_u32(self.attempts);
        let random = hasher.finish() % longest.as_nanos() as u64;
        thread::sleep(Duration::from_nanos(random));
        true
    }
}
