//! [`Clock`]: the time of day of a life, which jumps when the life says so.
//!
//! Any thread reads it. It is set only while nothing writes.

use evendb::WallClock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// One hour, in milliseconds.
pub const HOUR: u64 = 3_600_000;
/// One year.
pub const YEAR: u64 = 8766 * HOUR;
/// The beginning of lives, in milliseconds since 1970: about 2026.
const BEGINNING: u64 = 56 * YEAR;

/// See the module.
#[derive(Debug)]
pub struct Clock(AtomicU64);

impl Default for Clock {
    fn default() -> Clock {
        Clock(AtomicU64::new(BEGINNING))
    }
}

impl Clock {
    /// Milliseconds since 1970.
    pub fn millis(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Sets it.
    pub fn set(&self, millis: u64) {
        self.0.store(millis, Ordering::SeqCst);
    }
}

/// The time this number of milliseconds after 1970.
pub fn at(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
}

impl WallClock for Clock {
    fn now(&self) -> SystemTime {
        at(self.millis())
    }
}
