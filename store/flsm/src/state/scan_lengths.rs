//! [`ScanLengths`]: how long the last scans of a keyspace were. The next scan is expected to be as
//! long, and reads accordingly.
//!
//! A scan that leaves the block of its seek reads several pages at once. If it reads too few, it
//! waits for the disk once more; if too many, it reads some in vain. With 8 pages instead of one,
//! scans of 50 pairs of 1 KB took 0.8 of the time, and scans of 5 pairs took 1.4 of the time
//! (docs/decisions/second-engine.md, 0086). A scan does not say how far it will go, but
//! programs scan many times.
//!
//! ```text
//!   first window = 2 * mean of bytes that scans showed / sources,    from 2 to 8 pages
//! ```
//! The sources are the parts that a scan merges: tables of level 0, and levels. Each source has a
//! part of the records that the scan shows. The parts are uneven, so the window is twice the even
//! part.
//!
//! All threads share the lengths. One scan in 16, chosen at random, is counted (`read/looks.rs`),
//! so that threads do not wait for each other. Of two updates at once one may be lost. The mean
//! orders nothing else, and it decides only how much is read at once. So it is no atomic that
//! shuttle replaces: shuttle's schedules would then depend on chance.

use evendb_storage::table::PAGE_BYTES;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PAGES_MIN: u64 = 2;
const PAGES_MAX: u64 = 8;

/// A scan counts at most this many bytes: one scan of everything says little about other scans.
const BYTES_MAX: u64 = 2 * PAGES_MAX * PAGE_BYTES as u64;

/// The mean follows about this many of the last counted scans.
const SCANS: u64 = 8;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ScanLengths {
    mean_bytes: AtomicU64,
}

impl ScanLengths {
    /// Notes the end of a scan that showed this many bytes of keys and values. Call it for one scan
    /// in some, chosen by chance.
    pub(crate) fn note(&self, bytes: u64) {
        let before = self.mean_bytes.load(Relaxed);
        let mean = (before * (SCANS - 1) + bytes.min(BYTES_MAX)) / SCANS;
        if mean != before {
            self.mean_bytes.store(mean, Relaxed);
        }
    }

    /// A scan over `sources` sources leaves the block of its seek: the number of pages that it then
    /// reads at once from one source.
    pub(crate) fn first_window(&self, sources: usize) -> usize {
        let bytes = 2 * self.mean_bytes.load(Relaxed) / sources.max(1) as u64;
        (bytes / PAGE_BYTES as u64).clamp(PAGES_MIN, PAGES_MAX) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lengths: &ScanLengths, scans: impl Iterator<Item = u64>) -> usize {
        scans.for_each(|bytes| lengths.note(bytes));
        lengths.first_window(2)
    }

    #[test]
    fn windows_follow_the_scans() {
        let lengths = ScanLengths::default();
        assert_eq!(lengths.first_window(2), 2);
        assert_eq!(after(&lengths, [5 << 10; 100].into_iter()), 2);
        assert_eq!(after(&lengths, [20 << 10; 100].into_iter()), 4);
        assert_eq!(after(&lengths, [52 << 10; 100].into_iter()), 8);
        let by_sources = [0, 1, 4, 8, 12, 100].map(|sources| lengths.first_window(sources));
        assert_eq!(by_sources, [8, 8, 6, 3, 2, 2]);
        // Every second one is a seek, which needs no window: the mean is half the length of the
        // scans.
        assert_eq!(after(&lengths, (0..100).map(|at| at % 2 * (52 << 10))), 6);
        assert_eq!(after(&lengths, [1 << 10; 100].into_iter()), 2);
        // One long scan now and then changes little.
        assert_eq!(after(&lengths, [u64::MAX].into_iter()), 2);
        assert_eq!(after(&lengths, [u64::MAX; 100].into_iter()), 8);
    }
}
