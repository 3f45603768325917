//! Looking after a mapped ring, by one thread of its own.
//!
//! ```text
//!                        |<- touched ->|
//!   ---------------------+-------------+---->
//!                      head              (LSNs)
//! ```
//! Pages ahead of the head are touched, so that no appender takes a page fault under the ring
//! latch. After the ring's memory was given back ([`crate::commit_log::idle_pages`]), more pages
//! are touched for one lap, because they have to be read in.
//!
//! A byte that is copied or touched may make the kernel write a huge page. So while the log is
//! slow, its records are written by system calls ([`CommitLog::write_from`]), as they are after a
//! sync.
//!
//! Invariants: no byte is changed, only bytes with a block are touched, and no thread waits for
//! this one. Nothing depends on it for being correct.
//!
//! Thread safety: a [`Tending`] belongs to one thread. Not here: making anything durable, and when
//! the kernel writes the ring back (decision 0023).

use crate::commit_log::append::CommitLog;
use crate::sync::atomic::Ordering;
use evendb_storage::vfs::Mapping;
use std::time::{Duration, Instant};

/// The number of bytes ahead of the head that are touched.
const AHEAD_BYTES: u64 = 4 << 20;
/// A log that grows by fewer bytes per second than this is slow.
pub(crate) const SLOW_RATE: u64 = 320 << 10;
/// The approximate time between two looks at the log.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// The state of the thread that looks after the ring.
#[derive(Clone, Copy)]
pub(crate) struct Tending {
    /// LSN up to which pages were touched.
    touched: u64,
    /// The time of the last look, and the head then.
    looked: Instant,
    head: u64,
}

impl CommitLog {
    /// Marks a log without appends so far as slow, so that no page of the mapping is touched for
    /// it.
    pub(crate) fn begin_slowly(&self) {
        if self.is_mapped() {
            let tending = self.tending(Instant::now());
            self.write_from(tending.head);
            self.keep_tending(&tending);
        }
    }

    /// The state that the last thread which looked after the ring has left.
    pub(crate) fn take_tending(&self, now: Instant) -> Tending {
        let kept = *self.tended.lock();
        let mut tending = kept.unwrap_or_else(|| self.tending(now));
        // Bytes appended since then came a moment ago: they are the reason for this look.
        tending.looked = now.checked_sub(TICK).unwrap_or(now);
        tending
    }

    /// Keeps the state for the next thread that looks after the ring.
    pub(crate) fn keep_tending(&self, tending: &Tending) {
        *self.tended.lock() = Some(*tending);
    }

    /// Whether anything was appended to a mapped ring since the last thread stopped looking after
    /// it.
    pub(crate) fn is_untended(&self) -> bool {
        self.is_mapped()
            && self
                .tended
                .lock()
                .is_none_or(|tending| self.needs_tending(&tending))
    }

    /// Whether anything was appended since the last look.
    pub(crate) fn needs_tending(&self, tending: &Tending) -> bool {
        // Relaxed: a hint. A slightly old head is seen at the next look.
        self.head.load(Ordering::Relaxed) != tending.head
    }

    /// A fresh state for [`CommitLog::tend`].
    pub(crate) fn tending(&self, now: Instant) -> Tending {
        let head = self.head().0;
        Tending {
            touched: head,
            looked: now,
            head,
        }
    }

    /// Does the work that is due at `now`.
    pub(crate) fn tend(&self, tending: &mut Tending, now: Instant) {
        let Some(mapping) = self.mapping.as_deref() else {
            return;
        };
        // Relaxed: a hint. With a slightly old head, less is touched.
        let head = self.head.load(Ordering::Relaxed);
        let appended = head - tending.head;
        tending.head = head;
        let time = now.saturating_duration_since(std::mem::replace(&mut tending.looked, now));
        if appended * 1_000 <= SLOW_RATE * time.as_millis() as u64 {
            self.write_from(head);
        }
        let is_cold = self.idle_pages.is_cold(head);
        if self.written_below.load(Ordering::Relaxed) <= head {
            self.touch_ahead(mapping, tending, is_cold);
        } else if is_cold {
            self.ask_ahead(tending);
        }
    }

    /// Touches pages ahead of the head; after memory was given back, the bytes that stay in memory.
    fn touch_ahead(&self, mapping: &dyn Mapping, tending: &mut Tending, is_cold: bool) {
        let ahead = match is_cold {
            true => self.bytes_kept().max(AHEAD_BYTES),
            false => AHEAD_BYTES,
        };
        self.go_ahead(tending, ahead, &|offset, len| {
            mapping.prefault(offset as usize, len as usize);
        });
    }

    /// Asks for given-back pages ahead of a slow log: a written record needs the rest of its page.
    fn ask_ahead(&self, tending: &mut Tending) {
        let ahead = AHEAD_BYTES.min(self.bytes_kept());
        self.go_ahead(tending, ahead, &|offset, len| {
            self.file.will_need(offset, len)
        });
    }

    /// Calls `act` for the places up to `ahead` bytes ahead of the head for which it was not called
    /// yet.
    fn go_ahead(&self, tending: &mut Tending, ahead: u64, act: &dyn Fn(u64, u64)) {
        let mut end = tending.head + ahead.min(self.capacity);
        let room = self.room();
        if room < self.capacity {
            // There are no blocks beyond the room; the pages after the wrap were touched a lap ago.
            let lap = tending.head - tending.head % self.capacity;
            end = end.min(lap + room);
        }
        let mut at = tending.touched.max(tending.head);
        while at < end {
            let offset = at % self.capacity;
            let len = (end - at).min(self.capacity - offset);
            act(offset, len);
            at += len;
        }
        tending.touched = at;
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::commit_log::Lsn;
    use crate::commit_log::test_file::TestFile;
    use crate::options::Writing;
    use crate::sync::Arc;
    use evendb_storage::Version;

    const CAPACITY: u64 = 32 << 20;

    /// A log to which records are appended all the time, and its time.
    struct AppendedLog {
        file: TestFile,
        log: CommitLog,
        tending: Tending,
        now: Instant,
    }

    impl AppendedLog {
        fn new() -> AppendedLog {
            let file = TestFile::new(CAPACITY);
            let shared: Arc<dyn evendb_storage::vfs::File> = Arc::new(file.clone());
            let start = Lsn(CAPACITY * 5);
            let writing = Writing::Mapped;
            let log = CommitLog::start(shared, CAPACITY, writing, 1, 1, start..start).unwrap();
            let tending = log.tending(Instant::now());
            AppendedLog {
                file,
                log,
                tending,
                now: Instant::now(),
            }
        }

        /// Appends `rate` bytes per second for this time.
        fn run(&mut self, time: Duration, rate: u64) {
            let end = self.now + time;
            while self.now < end {
                self.log.tend(&mut self.tending, self.now);
                self.now += TICK;
                self.append(rate * TICK.as_micros() as u64 / 1_000_000);
            }
        }

        fn append(&self, bytes: u64) {
            let until = self.log.head().0 + bytes;
            while self.log.head().0 < until {
                let len = (until - self.log.head().0).min(1 << 20) as usize;
                let end = self.log.append(Version(1), &[&vec![0; len]]).unwrap();
                let _ = self.log.set_tail(end);
            }
        }

        fn touched(&self) -> usize {
            self.file.0.lock().touched
        }
    }

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_log_that_is_slow_is_written() {
        let mut run = AppendedLog::new();
        run.run(seconds(100), 100 << 10);
        let state = run.file.0.lock();
        assert_eq!((state.copies, state.touched), (0, 0));
    }

    #[test]
    fn what_lies_ahead_of_a_fast_log_is_touched() {
        let mut run = AppendedLog::new();
        run.run(seconds(2), 30 << 20);
        let head = run.log.head().0;
        assert!(run.tending.touched >= head + AHEAD_BYTES / 2);
        assert!(run.tending.touched <= head + AHEAD_BYTES);
        // No page is touched once it rests, except pages for appends since the last look, on both
        // sides of the ring's end.
        let touched = run.touched();
        run.run(seconds(100), 0);
        assert!(run.touched() <= touched + 2);
        assert!(!run.log.needs_tending(&run.tending));
    }

    #[test]
    fn nothing_is_touched_after_a_sync() {
        let mut run = AppendedLog::new();
        run.run(seconds(20), 2 << 20);
        run.log.append(Version(1), &[b"to be synced"]).unwrap();
        run.log.flush().unwrap();
        let touched = run.touched();
        run.run(Duration::from_millis(500), 2 << 20);
        assert_eq!(run.touched(), touched);
        run.run(seconds(3), 2 << 20);
        assert!(run.touched() > touched);
    }
}
