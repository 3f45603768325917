//! The versions that a rewrite may drop: exactly the versions that no registered reader and no
//! future reader can read (I14 in ARCHITECTURE.md).
//!
//! A value of this type is taken under the mutex of an engine's registry of readers. So every
//! reader that registers later reads at or above `floor`.
//!
//! Thread safety: plain data.

use evendb_storage::{Time, Version};

/// The registered snapshots, and the lowest version of a future snapshot.
#[derive(Clone, Debug, Default)]
pub struct Horizon {
    /// The published version when the registry was read.
    pub floor: Version,
    /// Registered snapshots, ascending.
    pub snapshots: Vec<Version>,
    /// For each snapshot the least time by which it or a later snapshot judges. Empty if nothing
    /// expires.
    pub times: Vec<Time>,
    /// No future reader judges by an earlier time. 0 if nothing expires.
    pub now: Time,
}

impl Horizon {
    /// The horizon of these snapshots, which may come in any order, where nothing expires.
    pub fn new(floor: Version, mut snapshots: Vec<Version>) -> Horizon {
        snapshots.sort_unstable();
        Horizon {
            floor,
            snapshots,
            ..Horizon::default()
        }
    }

    /// Whether a record of version `version` may be dropped from a component that keeps a record of
    /// version `newer >= version` of the same key above it.
    pub fn may_drop(&self, version: Version, newer: Version) -> bool {
        if newer > self.floor {
            return false;
        }
        // The least snapshot at or above `version` decides: it must not lie below `newer`.
        let at = self
            .snapshots
            .partition_point(|&snapshot| snapshot < version);
        self.snapshots
            .get(at)
            .is_none_or(|&snapshot| snapshot >= newer)
    }

    /// Whether every present and future reader reads at or above `version`: then the version need
    /// not be kept, and may be written as zero.
    pub fn below_all(&self, version: Version) -> bool {
        version <= self.least_reader()
    }

    /// Whether a record of this version that expires at `expiry` is gone for every present and
    /// future reader that sees the record: then it has the effect of a tombstone.
    #[inline]
    pub fn is_expired(&self, version: Version, expiry: Time) -> bool {
        if expiry > self.now {
            return false;
        }
        let at = self
            .snapshots
            .partition_point(|&snapshot| snapshot < version);
        self.times.get(at).is_none_or(|&time| expiry <= time)
    }

    /// The least time by which any reader judges.
    pub fn least_time(&self) -> Time {
        let least = self.times.first();
        least.map_or(self.now, |&least| least.min(self.now))
    }

    /// The version below which no present or future reader reads.
    pub fn least_reader(&self) -> Version {
        let least = self.snapshots.first();
        least.map_or(self.floor, |&least| least.min(self.floor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn horizon(floor: u64, snapshots: &[u64]) -> Horizon {
        let snapshots = snapshots.iter().map(|&snapshot| Version(snapshot));
        Horizon::new(Version(floor), snapshots.collect())
    }

    #[test]
    fn a_version_goes_only_when_no_reader_falls_between_it_and_the_newer_one() {
        let horizon = horizon(100, &[10, 20]);
        assert!(horizon.may_drop(Version(11), Version(15)));
        assert!(
            !horizon.may_drop(Version(9), Version(15)),
            "snapshot 10 reads 9"
        );
        assert!(
            !horizon.may_drop(Version(20), Version(30)),
            "snapshot 20 reads 20"
        );
        assert!(horizon.may_drop(Version(21), Version(100)));
        assert!(
            !horizon.may_drop(Version(21), Version(101)),
            "a future snapshot 100 reads 21"
        );
        assert!(
            horizon.may_drop(Version(15), Version(15)),
            "of equal versions the newer wins"
        );
    }

    #[test]
    fn a_record_is_expired_when_all_that_see_it_say_so() {
        let horizon = Horizon {
            times: vec![Time(5), Time(8)],
            now: Time(9),
            ..horizon(100, &[10, 20])
        };
        let expired = |version, expiry| horizon.is_expired(Version(version), Time(expiry));
        assert!(
            expired(10, 5) && !expired(10, 6),
            "snapshot 10 sees it at 5"
        );
        assert!(
            expired(11, 8) && !expired(11, 9),
            "snapshot 20 sees it at 8"
        );
        assert!(expired(21, 9) && !expired(21, 10));
        assert_eq!(horizon.least_time(), Time(5));
    }

    #[test]
    fn zero_stands_for_a_version_only_below_every_reader() {
        assert!(horizon(100, &[]).below_all(Version(100)));
        assert!(horizon(100, &[50]).below_all(Version(50)));
        assert!(!horizon(100, &[50]).below_all(Version(51)));
    }
}
