//! Slowing puts down in proportion to their bytes.
//!
//! Thread safety: any thread. Not here: how much ([`super::Admission`] says what a byte costs), and
//! what models do instead (`models.rs`, which stands in for this file).

use crate::metrics::pauses::Waits;
use crate::sync::thread;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The time that the last quarter of room should last, roughly: a sync took a second on a disk
/// that other processes write to.
pub(super) const TAU_NANOS: f64 = 0.7e9;
/// Two sizes of a quarter, in bytes: up to the first, it is too small to be made to last; from
/// the second on it lasts for all of `TAU_NANOS`.
pub(super) const QUARTERS: (f64, f64) = ((256 << 10) as f64, (1 << 20) as f64);
/// The longest delay of one put; later puts pay for the rest of its bytes.
const PAUSE_NANOS_MAX: u64 = 6_000_000;

/// The moment up to which puts have paid for their bytes. All threads share it, so the rate
/// does not depend on their number.
pub(super) struct Schedule {
    start: Instant,
    paid_until: AtomicU64,
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule {
            start: Instant::now(),
            paid_until: AtomicU64::new(0),
        }
    }
}

impl Schedule {
    #[cold]
    pub(super) fn slow_down(&self, bytes: u64, nanos_per_byte: f64, waits: &Waits) {
        let now = self.start.elapsed().as_nanos() as u64;
        let cost = (bytes as f64 * nanos_per_byte) as u64;
        // Relaxed: no other data depends on the number. Time without puts is not saved up for
        // later ones, and only a bounded part of a put's debt is passed on.
        let pay = |paid: u64| {
            let until = paid.max(now).saturating_add(cost);
            Some(until.min(now + 2 * PAUSE_NANOS_MAX))
        };
        let until = self
            .paid_until
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay)
            .map_or(now, |paid| pay(paid).unwrap_or(now));
        let pause = until.saturating_sub(now).min(PAUSE_NANOS_MAX);
        if pause >= SLEEP_NANOS_MIN {
            waits.time(|| thread::sleep(Duration::from_nanos(pause)));
        }
    }
}

/// The kernel hardly sleeps for a shorter time than this.
const SLEEP_NANOS_MIN: u64 = 200_000;
const SLEEP_NANOS_MAX: u64 = 1_000_000;

std::thread_local! {
    /// The moment up to which this thread's puts have paid. While the thread waits for a sync
    /// or does other things, time passes that moment: a thread that puts no faster than that is
    /// not delayed.
    static PAID_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Delays this thread by the cube of the pressure (0..=256), up to a microsecond for each byte.
#[cold]
pub(super) fn slow_down(bytes: u64, pressure: u64, waits: &Waits) {
    let nanos = bytes.saturating_mul(1000).saturating_mul(pressure.pow(3)) >> 24;
    let now = Instant::now();
    let cost = Duration::from_nanos(nanos.min(SLEEP_NANOS_MAX));
    let pay = |paid: &Cell<Option<Instant>>| {
        let until = paid.get().map_or(now, |paid| paid.max(now)) + cost;
        paid.set(Some(until));
        until
    };
    // A thread that ends has no thread-local value any more.
    let until = PAID_UNTIL.try_with(pay).unwrap_or(now + cost);
    let owed = until.duration_since(now).as_nanos() as u64;
    if owed >= SLEEP_NANOS_MIN {
        waits.time(|| thread::sleep(Duration::from_nanos(owed.min(SLEEP_NANOS_MAX))));
    }
}
