//! The time by which records expire.
//!
//! ```text
//!   WallClock (the system's, or a test's)       may jump, forward and back
//!        |
//!   ExpiryClock  latest = the greatest time that any reader was told        only grows while the database is open
//!        |
//!        +-- a get            asks when it meets a record that expires
//!        +-- a moment         is given its time when it is registered (version/clock.rs), and keeps it
//!        +-- a rewrite        is told the time of the readers that there are and will be (version/horizon.rs)
//! ```
//! A record that expires at `e` is gone for a reader whose time is `e` or later. Nothing else of the engine asks for the
//! time of day.
//!
//! Invariants: what [`ExpiryClock::now`] returns never falls, whatever the source does. So what a reader has seen expire is
//! expired for every reader that asks later. A database in which nothing expires asks for no time at all: see
//! [`ExpiryClock::note_use`].
//!
//! Thread safety: any. Not here: which record decides (`visibility.rs`).

use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use evendb_storage::{Time, Version};
use std::fmt;
use std::time::{Duration, SystemTime};

/// Where the time of day comes from, by which records expire: see
/// [`Advanced::wall_clock`](crate::Advanced::wall_clock).
pub trait WallClock: Send + Sync + fmt::Debug {
    /// The time of day. It may jump. The database goes by the greatest time that it was told since it was opened.
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

/// A clock by which nothing expires, for who only passes records on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoppedClock;

impl WallClock for StoppedClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

/// Milliseconds since 1970; a part of one counts as one if `round_up`. 0 before 1970, and the greatest there is where the
/// number would be greater.
fn time_of(at: SystemTime, round_up: bool) -> Time {
    let since = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    millis_of(since, round_up)
}

fn millis_of(duration: Duration, round_up: bool) -> Time {
    // By numbers of 64 and 32 bits: each put that expires comes here twice.
    let part = u64::from(round_up && !duration.subsec_nanos().is_multiple_of(1_000_000));
    let millis = u64::from(duration.subsec_millis()) + part;
    let seconds = duration.as_secs().checked_mul(1000);
    Time(
        seconds
            .and_then(|seconds| seconds.checked_add(millis))
            .unwrap_or(u64::MAX),
    )
}

/// When a record expires that is to be gone from `at` on.
pub(crate) fn expiry_at(at: SystemTime) -> Time {
    time_of(at, true)
}

/// The same as a time of day; the greatest that there is on this platform if it is beyond that.
pub(crate) fn time_of_day(time: Time) -> SystemTime {
    let at = |millis| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis));
    // A SystemTime counts seconds in 63 bits on Linux: every number of milliseconds fits.
    at(time.0).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ExpiryClock {
    source: Arc<dyn WallClock>,
    latest: AtomicU64,
    in_use: AtomicBool,
    /// P41.
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
    /// AcqRel: whoever is told a time after another thread was told a later one, and knows of that, is told no earlier
    /// one, because all of them go through one word. A look at it is enough where it says so much already: then the word
    /// stays shared, and puts that expire do not take it from each other.
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

    /// How many milliseconds are left of what expires then. A time that was rounded up is no more for that.
    pub(crate) fn millis_until(&self, expires: Time) -> u64 {
        let told = self.source.now();
        let now = time_of(told, true).max(self.latest_with(told));
        expires.0.saturating_sub(now.0)
    }

    /// When a record expires that is to live so long from now on, and no part of a millisecond less: the sum is rounded up, not
    /// its parts.
    pub(crate) fn expiry_after(&self, ttl: Duration) -> Time {
        let told = self.source.now();
        let exact = told.checked_add(ttl);
        // A part of a millisecond is a whole one, but none at all has passed at once.
        let exact = exact.map_or(Time(u64::MAX), |at| time_of(at, !ttl.is_zero()));
        // Where the clock has been ahead, its time is in force.
        let latest = self.latest_with(told).0;
        exact.max(Time(latest.saturating_add(millis_of(ttl, true).0)))
    }

    /// Records that expire are in the database, or come to be: called before a write of such records announces itself.
    ///
    /// A moment without a time sees no record that expires: it looks here after it has waited for all writes that it sees,
    /// and these have stored this before they withdrew.
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

/// By what time a reader judges.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadTime<'c> {
    /// That of a moment.
    At(Time),
    /// The time at which it meets a record that expires.
    Now(&'c ExpiryClock),
}

impl ReadTime<'_> {
    /// Whether what expires at `expiry` is gone.
    #[inline]
    pub(crate) fn is_past(self, expiry: Time) -> bool {
        let now = match self {
            ReadTime::At(time) => time,
            ReadTime::Now(clock) => clock.now(),
        };
        expiry <= now
    }
}

/// Where a reader stands: what it sees, and by what time that expires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadPoint<'c> {
    pub(crate) at: Version,
    pub(crate) time: ReadTime<'c>,
}

impl<'c> ReadPoint<'c> {
    /// Of whoever reads the newest.
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

    /// Seconds.
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

    /// Nanoseconds.
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
                // The last moment of its time, and the first one behind the millisecond in which that ends.
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
