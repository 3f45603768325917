//! The time at which records expire.
//!
//! ```text
//!   WallClock (the system's, or a test's)       may jump, forward and back
//!        |
//!   ExpiryClock  latest = the greatest time that any reader was told; only grows while the
//!        |       database is open
//!        +-- a get            asks when it meets a record that expires
//!        +-- a moment         is given its time at its registration (version/clock/mod.rs)
//!        +-- a rewrite        is told the time of present and future readers (version/horizon.rs)
//! ```
//! A record that expires at `e` is gone for a reader whose time is `e` or later. Nothing else in
//! the engine asks for the time of day.
//!
//! Invariants: the result of [`ExpiryClock::now`] never falls, whatever the source does. So a
//! record that one reader has seen expire is expired for every reader that asks later. A database
//! in which nothing expires never asks for the time: see [`ExpiryClock::note_use`].
//!
//! Thread safety: any thread. Not here: which record decides (`visibility.rs`).

use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use evendb_storage::{Time, Version};
use std::fmt;
use std::time::{Duration, SystemTime};

/// The source of the time of day by which records expire: see
/// [`Advanced::wall_clock`](crate::Advanced::wall_clock).
pub trait WallClock: Send + Sync + fmt::Debug {
    /// The time of day. It may jump. The database goes by the greatest time that it was told since
    /// its opening.
    fn now(&self) -> SystemTime;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemWallClock;

impl WallClock for SystemWallClock {
    #[expect(clippy::disallowed_methods, reason = "the one place")]
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// A clock by which nothing expires, for code that only passes records on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoppedClock;

impl WallClock for StoppedClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

/// Milliseconds since 1970; with `round_up`, a part of a millisecond counts as one. The result is 0
/// before 1970, and `u64::MAX` where the number would be greater.
fn time_of(at: SystemTime, round_up: bool) -> Time {
    let since = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    millis_of(since, round_up)
}

fn millis_of(duration: Duration, round_up: bool) -> Time {
    // With numbers of 64 and 32 bits: each put that expires comes here twice.
    let part = u64::from(round_up && !duration.subsec_nanos().is_multiple_of(1_000_000));
    let millis = u64::from(duration.subsec_millis()) + part;
    let seconds = duration.as_secs().checked_mul(1000);
    Time(
        seconds
            .and_then(|seconds| seconds.checked_add(millis))
            .unwrap_or(u64::MAX),
    )
}

/// The expiry of a record that is gone from `at` on.
pub(crate) fn expiry_at(at: SystemTime) -> Time {
    time_of(at, true)
}

/// The time of day of an expiry.
pub(crate) fn time_of_day(time: Time) -> SystemTime {
    let at = |millis| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis));
    // On Linux a SystemTime counts seconds in 63 bits: every number of milliseconds fits.
    at(time.0).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ExpiryClock {
    source: Arc<dyn WallClock>,
    latest: AtomicU64,
    in_use: AtomicBool,
    /// Fault P41.
    #[cfg(test)]
    goes_back: AtomicBool,
}

impl ExpiryClock {
    pub(crate) fn new(source: Arc<dyn WallClock>) -> ExpiryClock {
        ExpiryClock {
            source,
            latest: AtomicU64::new(0),
            in_use: AtomicBool::new(false),
            #[cfg(test)]
            goes_back: AtomicBool::new(false),
        }
    }

    #[cfg(test)]
    pub(crate) fn plant_going_back(&self) {
        self.goes_back.store(true, Ordering::Relaxed);
    }

    /// The time, which never falls.
    ///
    /// AcqRel: all times go through one word. If another thread was told a time, and this thread
    /// knows of it, this thread is told that time or a later one. If the word already holds a late
    /// enough time, a load suffices: then the cache line stays shared, and puts that expire do not
    /// contend for it.
    pub(crate) fn now(&self) -> Time {
        self.latest_with(self.source.now())
    }

    fn latest_with(&self, told: SystemTime) -> Time {
        let now = time_of(told, false).0;
        #[cfg(test)]
        if self.goes_back.load(Ordering::Relaxed) {
            return Time(now);
        }
        let latest = self.latest.load(Ordering::Acquire);
        if latest >= now {
            return Time(latest);
        }
        Time(self.latest.fetch_max(now, Ordering::AcqRel).max(now))
    }

    /// The milliseconds left until `expires`. The current time is rounded up, as an expiry is: a
    /// record does not gain time by its rounding.
    pub(crate) fn millis_until(&self, expires: Time) -> u64 {
        let told = self.source.now();
        let now = time_of(told, true).max(self.latest_with(told));
        expires.0.saturating_sub(now.0)
    }

    /// The expiry of a record that lives for `ttl` from now on, and not a part of a millisecond
    /// less: the sum is rounded up, not its parts.
    pub(crate) fn expiry_after(&self, ttl: Duration) -> Time {
        let told = self.source.now();
        let exact = told.checked_add(ttl);
        // A part of a millisecond counts as a whole one; a `ttl` of zero has passed at once.
        let exact = exact.map_or(Time(u64::MAX), |at| time_of(at, !ttl.is_zero()));
        // If the clock was ahead before, its greatest time is in force.
        let latest = self.latest_with(told).0;
        exact.max(Time(latest.saturating_add(millis_of(ttl, true).0)))
    }

    /// Notes that the database has, or will have, records that expire. A write of such records
    /// calls it before the write announces itself.
    ///
    /// A moment without a time sees no record that expires: it reads this flag after it has waited
    /// for all writes that it sees, and these writes have set the flag before they withdrew.
    #[inline]
    pub(crate) fn note_use(&self) {
        if !self.in_use.load(Ordering::Relaxed) {
            self.in_use.store(true, Ordering::Release);
        }
    }

    /// Whether there may be records that expire.
    #[inline]
    pub(crate) fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Acquire)
    }
}

/// The time by which a reader judges.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadTime<'c> {
    /// The time of a moment.
    At(Time),
    /// The time at which the reader meets a record that expires.
    Now(&'c ExpiryClock),
}

impl ReadTime<'_> {
    /// Whether a record that expires at `expiry` is gone.
    #[inline]
    pub(crate) fn is_past(self, expiry: Time) -> bool {
        let now = match self {
            ReadTime::At(time) => time,
            ReadTime::Now(clock) => clock.now(),
        };
        expiry <= now
    }
}

/// The version that a reader sees, and the time by which it judges expiry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadPoint<'c> {
    pub(crate) at: Version,
    pub(crate) time: ReadTime<'c>,
}

impl<'c> ReadPoint<'c> {
    /// The read point of a reader of the newest state.
    #[inline]
    pub(crate) fn newest(clock: &'c ExpiryClock) -> ReadPoint<'c> {
        ReadPoint {
            at: Version::MAX,
            time: ReadTime::Now(clock),
        }
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod planted;
#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    /// A clock that shows this number of seconds.
    #[derive(Debug)]
    pub(super) struct Hands(pub(super) AtomicU64);

    impl WallClock for Hands {
        fn now(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH + Duration::from_secs(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn time_does_not_go_back() {
        let hands = Arc::new(Hands(AtomicU64::new(100)));
        let set = |seconds| hands.0.store(seconds, Ordering::Relaxed);
        let clock = ExpiryClock::new(hands.clone());
        assert_eq!(clock.now(), Time(100_000));
        let expiry = clock.expiry_after(Duration::from_micros(1));
        assert_eq!(expiry, Time(100_001), "a part of a millisecond is one");
        set(50);
        assert_eq!(clock.now(), Time(100_000));
        assert!(!ReadTime::Now(&clock).is_past(expiry));
        set(101);
        assert!(ReadTime::Now(&clock).is_past(expiry));
        set(0);
        assert!(ReadTime::Now(&clock).is_past(expiry), "it came back");
    }

    /// A clock that shows this number of nanoseconds.
    #[derive(Debug)]
    struct Fine(AtomicU64);

    impl WallClock for Fine {
        fn now(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH + Duration::from_nanos(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn nothing_expires_a_part_of_a_millisecond_early() {
        let hands = Arc::new(Fine(AtomicU64::new(0)));
        let at = |nanos| hands.0.store(nanos, Ordering::Relaxed);
        let parts = [
            0, 1, 400_000, 500_000, 600_000, 999_999, 1_000_000, 1_000_001,
        ];
        for begin in parts {
            for ttl in parts.into_iter().chain([2_999_999, 3_000_000]) {
                at(begin);
                let clock = ExpiryClock::new(hands.clone());
                let expiry = clock.expiry_after(Duration::from_nanos(ttl));
                let end = match ttl {
                    0 => begin / 1_000_000,
                    _ => (begin + ttl).div_ceil(1_000_000),
                };
                assert_eq!(expiry, Time(end), "{ttl} from {begin} on");
                // The last nanosecond of its life, and the first behind the millisecond in which
                // that ends.
                at((begin + ttl).saturating_sub(1));
                assert!(ttl == 0 || !ReadTime::Now(&clock).is_past(expiry));
                at(end * 1_000_000);
                assert!(ReadTime::Now(&clock).is_past(expiry));
            }
        }
    }

    #[test]
    fn times_beyond_the_limits_are_the_limits() {
        assert_eq!(
            expiry_at(SystemTime::UNIX_EPOCH - Duration::from_secs(9)),
            Time(0)
        );
        assert_eq!(millis_of(Duration::MAX, true), Time(u64::MAX));
        let clock = ExpiryClock::new(Arc::new(SystemWallClock));
        assert_eq!(clock.expiry_after(Duration::MAX), Time(u64::MAX));
        let third = SystemTime::UNIX_EPOCH + Duration::from_nanos(3_000_001);
        assert_eq!(
            (expiry_at(third), time_of(third, false)),
            (Time(4), Time(3))
        );
        assert_eq!(
            time_of_day(Time(4)),
            SystemTime::UNIX_EPOCH + Duration::from_millis(4)
        );
    }
}
