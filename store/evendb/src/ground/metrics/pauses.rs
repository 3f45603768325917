//! The pauses of operations, and their causes.
//!
//! ```text
//!   put --+--> waits: room, pace, debt (admission has these), chunk, freeze     every one is timed
//!   get --+--> reads of the disk                     every one is timed
//!   both --> whole operations                        sampled, one in 64 per thread
//! ```
//! Reading the clock takes a fortieth of a put's time, so only slow steps are always timed: the
//! fast path reads no clock, and a thread that is about to wait does. So the longest pause misses
//! only delays outside of the code, such as the scheduler or a page fault: only the samples show
//! these.
//!
//! Thread safety: plain counters, which order nothing. They are not the atomics of `crate::sync`: a
//! model does not step through them.

use crate::metrics::{PauseStats, WaitStats};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Eight steps to a doubling, up to 2^41 ns.
const STEPS: usize = 8;
const BUCKETS: usize = 38 * STEPS;

/// Waits of one cause.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    count: AtomicU64,
    nanos: AtomicU64,
    nanos_max: AtomicU64,
    /// The number of waits above 5 ms.
    long: AtomicU64,
}

impl Waits {
    pub(crate) fn record(&self, wait: Duration) {
        let nanos = wait.as_nanos() as u64;
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        if nanos > self.nanos_max.load(Ordering::Relaxed) {
            self.nanos_max.fetch_max(nanos, Ordering::Relaxed);
        }
        if nanos > 5_000_000 {
            self.long.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs code that may wait, and times it.
    pub(crate) fn time<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.timed(wait).0
    }

    /// Like [`time`](Self::time), and also returns the nanoseconds.
    pub(crate) fn timed<R>(&self, wait: impl FnOnce() -> R) -> (R, u64) {
        let started = Instant::now();
        let result = wait();
        let took = started.elapsed();
        self.record(took);
        (result, took.as_nanos() as u64)
    }

    pub(crate) fn stats(&self) -> WaitStats {
        WaitStats {
            count: self.count.load(Ordering::Relaxed),
            nanos_total: self.nanos.load(Ordering::Relaxed),
            nanos_max: self.nanos_max.load(Ordering::Relaxed),
            above_5_ms: self.long.load(Ordering::Relaxed),
        }
    }
}

/// Latencies of whole operations, in steps of an eighth. The first sample allocates all
/// steps.
#[derive(Default)]
pub(crate) struct Latencies(OnceLock<Box<[AtomicU64]>>);

impl std::fmt::Debug for Latencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Latencies(p99.9 {} ns)", self.quantile(0.999))
    }
}

impl Latencies {
    pub(crate) fn record(&self, nanos: u64) {
        let buckets = || (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        self.0.get_or_init(buckets)[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
    }

    /// The upper end and the count of each step that is not empty.
    pub(crate) fn counts(&self) -> Vec<(u64, u64)> {
        let buckets = self.0.get().map_or(&[][..], |buckets| &buckets[..]);
        let counts = buckets.iter().map(|count| count.load(Ordering::Relaxed));
        let counts = counts.enumerate().filter(|(_, count)| *count > 0);
        counts
            .map(|(bucket, count)| (end_of(bucket), count))
            .collect()
    }

    /// Upper end of the step that holds this share of the samples; 0 without samples.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let counts = self.counts();
        let wanted = counts.iter().map(|(_, count)| count).sum::<u64>() as f64 * share;
        let mut seen = 0;
        for (end, count) in counts {
            seen += count;
            if seen as f64 >= wanted {
                return end;
            }
        }
        0
    }
}

fn bucket(nanos: u64) -> usize {
    let nanos = nanos.max(STEPS as u64);
    let doublings = nanos.ilog2() - STEPS.ilog2();
    let step = (nanos >> doublings) as usize - STEPS;
    (doublings as usize * STEPS + step).min(BUCKETS - 1)
}

fn end_of(bucket: usize) -> u64 {
    ((STEPS + bucket % STEPS) as u64 + 1) << (bucket / STEPS)
}

/// All pauses of one database.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// Waits for the latch of a chunk.
    pub(crate) chunk: Waits,
    /// Freezing a delta, which a put does when a checkpoint has begun.
    pub(crate) freeze: Waits,
    /// Searches of the disk by gets, from beginning to end.
    pub(crate) read: Waits,
    pub(crate) puts: Latencies,
    pub(crate) gets: Latencies,
    put_nanos_max: AtomicU64,
    get_nanos_max: AtomicU64,
}

impl Pauses {
    /// A sampled put.
    pub(crate) fn put(&self, nanos: u64) {
        self.puts.record(nanos);
        self.put_nanos_max.fetch_max(nanos, Ordering::Relaxed);
    }

    /// A sampled get.
    pub(crate) fn get(&self, nanos: u64) {
        self.gets.record(nanos);
        self.get_nanos_max.fetch_max(nanos, Ordering::Relaxed);
    }

    /// All pauses. The caller passes those that `admission` counts: room, pace, debt.
    pub(crate) fn stats(&self, admission: [WaitStats; 3]) -> PauseStats {
        let [room, pace, debt] = admission;
        let waits = [room, pace, debt, self.chunk.stats(), self.freeze.stats()];
        let waited = waits.iter().map(|wait| wait.nanos_max).max().unwrap_or(0);
        let read = self.read.stats();
        PauseStats {
            put_nanos_max: self.put_nanos_max.load(Ordering::Relaxed).max(waited),
            put_nanos_p999: self.puts.quantile(0.999),
            put_nanos_p9999: self.puts.quantile(0.9999),
            get_nanos_max: self
                .get_nanos_max
                .load(Ordering::Relaxed)
                .max(read.nanos_max),
            get_nanos_p999: self.gets.quantile(0.999),
            get_nanos_p9999: self.gets.quantile(0.9999),
            room,
            pace,
            debt,
            chunk: waits[3],
            freeze: waits[4],
            read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_an_eighth() {
        let mut last = 0;
        for nanos in (0..1 << 20).step_by(7) {
            let at = bucket(nanos);
            assert!(at >= last, "{nanos}");
            last = at;
            assert!(end_of(at) > nanos, "{nanos}");
            assert!(end_of(at) <= (nanos + nanos / 8 + 1).max(9), "{nanos}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_and_the_longest_wait() {
        let pauses = Pauses::default();
        assert_eq!(
            pauses.stats([WaitStats::default(); 3]),
            PauseStats::default()
        );
        for _ in 0..999 {
            pauses.put(1000);
        }
        pauses.put(1 << 24);
        pauses.chunk.record(Duration::from_secs(1));
        pauses.read.record(Duration::from_millis(6));
        let stats = pauses.stats([WaitStats::default(); 3]);
        assert!((1000..=1125).contains(&stats.put_nanos_p999));
        assert!(stats.put_nanos_p9999 > 1 << 24);
        assert_eq!(stats.put_nanos_max, 1_000_000_000);
        assert_eq!((stats.chunk.count, stats.chunk.above_5_ms), (1, 1));
        assert_eq!(stats.get_nanos_max, 6_000_000);
    }
}
