//! Looking after a mapped ring, by one thread of its own.
//!
//! ```text
//!            |<- written back piece by piece ->|        |<- touched ->|
//!   ---------+---------------------------------+--------+-------------+---->
//!        head - capacity                            head        (LSNs)
//! ```
//! Pages ahead of the head are touched, so that no appender takes a page fault under the ring latch.
//!
//! The kernel writes a file back when it has been dirty for half a minute, all of it at once: reads wait
//! behind a whole ring. So shortly before such a **visit** the pieces that the head has left are written
//! back one by one, and the visit finds little. A visit can be noticed: it protects the pages, so a
//! **probe**, a page that was touched before, faults when it is touched again. The only additional bytes
//! written are those appended in these seconds.
//!
//! A byte that is copied or touched may make the kernel write a huge page. So while the log is slow
//! its records are written by system calls ([`CommitLog::write_from`]), as they are after a sync, and
//! no page is probed before enough was appended for a probe to be worth it.
//!
//! Invariants: no byte is changed, only bytes with a block are touched, and no thread waits for this
//! one. Nothing depends on it for being correct. Where the kernel's visits come at other times they are
//! missed, and after [`MISSED_MAX`] misses nothing more is written back here.
//!
//! Thread safety: a [`Tending`] belongs to one thread. Not here: making anything durable.

use super::append::{CommitLog, HUGE_PAGE_BYTES};
use crate::sync::atomic::Ordering;
use evendb_storage::vfs::Mapping;
use std::time::{Duration, Instant};

/// Bytes ahead of the head that are touched.
const AHEAD_BYTES: u64 = 4 << 20;
/// What is written back by one call.
const PIECE_BYTES: u64 = HUGE_PAGE_BYTES;
/// The kernel writes less than this back fast enough at once.
const BURST_BYTES: u64 = 8 * PIECE_BYTES;
/// A log that grows by fewer bytes a second than this is slow.
const SLOW_RATE: u64 = 320 << 10;

/// The age at which the kernel writes back what is dirty, as Linux has it by default.
const EXPIRE: Duration = Duration::from_secs(30);
/// How long before a visit the first piece is written: enough for a ring of 256 MiB.
const LEAD: Duration = Duration::from_millis(1_600);
/// How late a visit may be: the kernel looks every five seconds.
const LATE_MAX: Duration = Duration::from_secs(7);
/// After this many visits in a row that did not come, none is expected any more.
const MISSED_MAX: u32 = 2;

/// Between two looks at the log.
const TICK: Duration = Duration::from_millis(50);
/// Between two looks at the log while pieces are written.
const TICK_WRITING: Duration = Duration::from_millis(12);

/// What the thread that looks after the ring remembers.
#[derive(Clone, Copy)]
pub(crate) struct Tending {
    /// LSN up to which pages were touched.
    touched: u64,
    /// The last look, and the head then.
    looked: Instant,
    head: u64,
    /// Since when the file has been dirty, and where the head was then.
    dirty: (Instant, u64),
    /// Whether the probes were touched since then, and only the kernel can have protected them.
    armed: bool,
    /// Visits in a row that did not come.
    missed: u32,
    /// LSN up to which pieces were written back before the coming visit.
    written: u64,
}

impl Tending {
    /// After a visit: what is appended from now on makes the file dirty again.
    fn restart(&mut self, now: Instant) {
        self.dirty = (now, self.head);
        self.written = 0;
    }
}

impl CommitLog {
    /// Marks a log without any appends yet as slow, so that no page of the mapping is touched for it.
    pub(crate) fn begin_slowly(&self) {
        if self.is_mapped() {
            let tending = self.tending(Instant::now());
            self.write_from(tending.head);
            self.keep_tending(&tending);
        }
    }

    /// The state in which the last thread that looked after the ring left it.
    pub(crate) fn take_tending(&self, now: Instant) -> Tending {
        let kept = *self.tended.lock();
        let mut tending = kept.unwrap_or_else(|| self.tending(now));
        // What was appended since came a moment ago: it is the reason for looking again.
        tending.looked = now.checked_sub(TICK).unwrap_or(now);
        tending
    }

    /// Keeps the state for the next thread that looks after the ring.
    pub(crate) fn keep_tending(&self, tending: &Tending) {
        *self.tended.lock() = Some(*tending);
    }

    /// Whether anything was appended to a mapped ring since the last thread stopped looking after it.
    pub(crate) fn is_untended(&self) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        self.is_mapped()
            && self
                .tended
                .lock()
                .is_none_or(|tending| tending.head != head)
    }

    /// Whether the ring has to be looked after though nothing is appended: what was appended still waits
    /// for the kernel's visit.
    pub(crate) fn needs_tending(&self, tending: &Tending) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        let expects = self.room() >= BURST_BYTES && tending.missed < MISSED_MAX;
        head != tending.head || (expects && head - tending.dirty.1 >= BURST_BYTES)
    }

    /// A fresh state for [`CommitLog::tend`]. A file that was created a moment ago counts as dirty since
    /// then.
    pub(crate) fn tending(&self, now: Instant) -> Tending {
        let head = self.head().0;
        Tending {
            touched: head,
            looked: now,
            head,
            dirty: (now, head),
            armed: false,
            missed: 0,
            written: 0,
        }
    }

    /// Does what is to be done at `now`, and returns the time after which to come again.
    pub(crate) fn tend(&self, tending: &mut Tending, now: Instant) -> Duration {
        let Some(mapping) = self.mapping.as_deref() else {
            return TICK;
        };
        // Relaxed: a hint. A head that is a little old only makes less of this.
        let head = self.head.load(Ordering::Relaxed);
        let appended = head - tending.head;
        tending.head = head;
        let time = now.saturating_duration_since(std::mem::replace(&mut tending.looked, now));
        if appended * 1_000 <= SLOW_RATE * time.as_millis() as u64 {
            self.write_from(head);
        }
        let is_copied = self.written_below.load(Ordering::Relaxed) <= head;
        if is_copied {
            self.touch_ahead(mapping, tending);
        } else {
            // A sync may have protected the probes.
            tending.armed = false;
        }
        // No visit is expected of a ring that is still small, either.
        if self.room() < BURST_BYTES || tending.missed >= MISSED_MAX {
            return TICK;
        }
        let age = now.saturating_duration_since(tending.dirty.0);
        if head - tending.dirty.1 < BURST_BYTES {
            if age > EXPIRE + LATE_MAX {
                tending.restart(now);
            }
            return TICK;
        }
        if is_copied && self.probe(mapping, tending) {
            tending.missed = 0;
            tending.restart(now);
        } else if age > EXPIRE + LATE_MAX {
            tending.missed += u32::from(tending.armed);
            tending.restart(now);
        } else if age + LEAD >= EXPIRE {
            // Not where the log grows faster than pieces are written: they would be dirty again.
            if appended <= PIECE_BYTES {
                self.write_back(tending);
            }
            return TICK_WRITING;
        }
        TICK
    }

    /// Touches the probes; whether the kernel has written them back since the last time.
    fn probe(&self, mapping: &dyn Mapping, tending: &mut Tending) -> bool {
        let room = self.room();
        let faulted = self
            .probes()
            .map(|at| at < room && mapping.prefault(at as usize, 1))
            .contains(&true);
        std::mem::replace(&mut tending.armed, true) && faulted
    }

    /// Touches what lies ahead of the head.
    fn touch_ahead(&self, mapping: &dyn Mapping, tending: &mut Tending) {
        let mut end = tending.head + AHEAD_BYTES.min(self.capacity);
        let room = self.room();
        if room < self.capacity {
            // There are no blocks beyond it; the pages after the wrap were touched a lap ago.
            let lap = tending.head - tending.head % self.capacity;
            end = end.min(lap + room);
        }
        let mut at = tending.touched.max(tending.head);
        while at < end {
            let offset = at % self.capacity;
            let len = (end - at).min(self.capacity - offset);
            mapping.prefault(offset as usize, len as usize);
            at += len;
        }
        tending.touched = at;
    }

    /// Where the probes lie: two, since one may be where records are copied to at the time.
    fn probes(&self) -> [u64; 2] {
        let middle = self.capacity / 2;
        [0, middle - middle % PIECE_BYTES]
    }

    /// Starts to write the oldest piece back that the head has left and will not come to soon.
    fn write_back(&self, tending: &mut Tending) {
        let oldest = (tending.head + AHEAD_BYTES + PIECE_BYTES).saturating_sub(self.capacity);
        let from = tending.written.max(oldest);
        let offset = from % self.capacity;
        let len = (PIECE_BYTES - offset % PIECE_BYTES).min(self.capacity - offset);
        if from + len > tending.head {
            return;
        }
        // The probes wait for the kernel.
        if !self.probes().contains(&(offset - offset % PIECE_BYTES)) {
            self.file.start_writing(offset, len);
        }
        tending.written = from + len;
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::super::Lsn;
    use super::super::test_file::TestFile;
    use super::*;
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
            let log = CommitLog::start(shared, CAPACITY, writing, 1, 1, start, start).unwrap();
            let tending = log.tending(Instant::now());
            AppendedLog {
                file,
                log,
                tending,
                now: Instant::now(),
            }
        }

        /// Appends `rate` bytes a second for this time; returns the bytes that were written back.
        fn run(&mut self, time: Duration, rate: u64) -> u64 {
            let before = self.file.0.lock().written_back.len();
            let end = self.now + time;
            while self.now < end {
                let pause = self.log.tend(&mut self.tending, self.now);
                self.now += pause;
                self.append(rate * pause.as_micros() as u64 / 1_000_000);
            }
            let state = self.file.0.lock();
            state.written_back[before..]
                .iter()
                .map(|piece| piece.1)
                .sum()
        }

        fn append(&self, bytes: u64) {
            let until = self.log.head().0 + bytes;
            while self.log.head().0 < until {
                let len = (until - self.log.head().0).min(1 << 20) as usize;
                let end = self.log.append(Version(1), &[&vec![0; len]]).unwrap();
                let _ = self.log.set_tail(end);
            }
        }

        fn visit(&self) {
            self.file.0.lock().writable.clear();
        }
    }

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_visit_finds_little_and_is_waited_for_again() {
        let mut run = AppendedLog::new();
        assert_eq!(run.run(seconds(28), 20 << 20), 0);
        // From the lead on: one lap at once, and then what is appended.
        let written = run.run(seconds(3), 20 << 20);
        assert!(
            written > CAPACITY / 2 && written < 4 * CAPACITY,
            "{written}"
        );
        let head = run.log.head().0;
        let left: Vec<_> = run
            .file
            .0
            .lock()
            .written_back
            .iter()
            .rev()
            .take(8)
            .copied()
            .collect();
        for (offset, len) in left {
            assert!(
                offset + len <= CAPACITY
                    && (offset + len - 1) / PIECE_BYTES == offset / PIECE_BYTES
            );
            assert!(!run.log.probes().contains(&offset));
            let behind = (head - offset) % CAPACITY;
            assert!((len..CAPACITY - AHEAD_BYTES).contains(&behind), "{behind}");
        }
        run.visit();
        assert_eq!(run.run(seconds(28), 20 << 20), 0);
        assert!(run.run(seconds(3), 20 << 20) > 0);
    }

    #[test]
    fn a_kernel_that_does_not_come_is_not_waited_for() {
        let mut run = AppendedLog::new();
        assert!(run.run(seconds(80), 1 << 20) > 0);
        assert_eq!(run.tending.missed, MISSED_MAX);
        assert_eq!(run.run(seconds(80), 1 << 20), 0);
    }

    #[test]
    fn an_early_visit_counts() {
        let mut run = AppendedLog::new();
        run.run(seconds(10), 2 << 20);
        run.visit();
        assert_eq!(run.run(seconds(28), 2 << 20), 0);
        assert!(run.run(seconds(5), 2 << 20) > 0);
    }

    #[test]
    fn a_log_that_is_slow_is_written() {
        let mut run = AppendedLog::new();
        assert_eq!(run.run(seconds(100), 100 << 10), 0);
        run.visit();
        run.file.0.lock().copies = 0;
        assert_eq!(run.run(seconds(100), 100 << 10), 0);
        let state = run.file.0.lock();
        assert_eq!((state.copies, state.touched), (0, 0));
    }

    #[test]
    fn what_is_left_of_a_burst_is_written_back() {
        let mut run = AppendedLog::new();
        run.run(seconds(2), 30 << 20);
        assert_eq!(run.run(seconds(25), 0), 0);
        let written = run.run(seconds(8), 0);
        assert!(written > CAPACITY / 2 && written < CAPACITY, "{written}");
        run.visit();
        let touched = run.file.0.lock().touched;
        assert_eq!(run.run(seconds(100), 0), 0);
        assert_eq!(run.file.0.lock().touched, touched);
        // That visit could not be seen, which says nothing of the kernel.
        assert_eq!(run.tending.missed, 0);
    }

    #[test]
    fn a_log_that_is_fast_is_left_to_the_kernel() {
        let mut run = AppendedLog::new();
        run.run(seconds(28), 2 << 20);
        assert!(run.run(seconds(3), 200 << 20) <= 2 * PIECE_BYTES);
    }

    #[test]
    fn a_sync_is_no_visit_and_nothing_is_touched_after_it() {
        let mut run = AppendedLog::new();
        run.run(seconds(20), 2 << 20);
        run.log.append(Version(1), &[b"to be synced"]).unwrap();
        run.log.flush().unwrap();
        run.visit();
        let touched = run.file.0.lock().touched;
        run.run(Duration::from_millis(500), 2 << 20);
        assert_eq!(run.file.0.lock().touched, touched);
        assert_eq!(run.run(seconds(7), 2 << 20), 0);
        assert!(run.run(seconds(3), 2 << 20) > 0);
    }
}
