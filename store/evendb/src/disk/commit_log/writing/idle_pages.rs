//! Giving a mapped ring's memory back while next to nothing is appended.
//!
//! ```text
//!   given back            kept                 given back              (places in the file)
//!   |.....................|head ------------>|......................|
//!                          an eighth of the ring, with the pieces at its ends
//!
//!   puts rest for [`IDLE`] --> a pass: one piece a round, written back some rounds before
//!   puts come again        --> used pages count as in memory again; the thread that looks after
//!                              the ring reads pages ahead of them in ([`crate::commit_log::mapped_pages`])
//! ```
//!
//! Why nothing is lost. The mapping is shared: bytes that were copied into it are in the file, for
//! this process and any other. Giving a page back takes it out of the page table, and out of the
//! system's cache only if the device has the same bytes. So recovery after the death of the process
//! reads the same bytes as before; after a power loss only synced bytes count, as ever. The live
//! part may be given back, too.
//!
//! Invariants: the pages that the next puts use stay, so that puts which come again do not wait for
//! the disk. The bytes that count as in memory are never fewer than the bytes that appends have
//! touched since the last pass began.
//!
//! Thread safety: any thread; one thread makes a pass. An append that comes to a piece which was
//! just given back faults its page in again. Not here: who gets the memory
//! ([`crate::memory_policy`]).

use crate::commit_log::CAPACITY_UNIT;
use crate::commit_log::append::{CommitLog, HUGE_PAGE_BYTES};
use crate::commit_log::mapped_pages::{SLOW_RATE, TICK};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::ops::Range;
use std::time::{Duration, Instant};

/// The time without puts after which the ring's memory is given back. With a shorter time, the same
/// pages would be written back, given back and read in again and again.
const IDLE: Duration = Duration::from_secs(5);
/// One part of this many of a ring is kept, with the pieces in which the kept part begins and ends.
const KEPT_PART: u64 = 8;
/// One part of this many of a ring is a piece, if that is no larger than a page can be.
const PIECE_PART: u64 = 32;
/// A pass is worth it only for more than one part of this many of a ring.
const WORTH_PART: u64 = 16;
/// The number of pieces that are being written back ahead of the piece that is given back.
const WRITING_PIECES: u64 = 4;

/// Which pages may have been given back.
pub(crate) struct IdlePages {
    /// The head when the last pass began. Relaxed, like the other one: both are hints.
    since: AtomicU64,
    /// While the head is below it, pages ahead of it may be out of memory.
    cold_below: AtomicU64,
    pass: Mutex<Pass>,
}

/// The state of the thread that makes passes.
struct Pass {
    /// The time of the last look, and the head then.
    looked: Option<(Instant, u64)>,
    /// The time since which next to nothing was appended.
    idle_since: Option<Instant>,
    /// The head when the running pass began, and the place of its next piece.
    running: Option<(u64, u64)>,
}

impl IdlePages {
    /// For a log that begins at `head`: no page of the mapping was touched yet.
    pub(crate) fn new(head: u64) -> IdlePages {
        IdlePages {
            since: AtomicU64::new(head),
            cold_below: AtomicU64::new(0),
            pass: Mutex::new(Pass {
                looked: None,
                idle_since: None,
                running: None,
            }),
        }
    }

    /// Whether pages ahead of this head may have been given back.
    pub(crate) fn is_cold(&self, head: u64) -> bool {
        head < self.cold_below.load(Ordering::Relaxed)
    }
}

impl CommitLog {
    /// Bytes that appends have used since the memory was last given back; at most the room.
    pub(crate) fn bytes_used_lately(&self) -> u64 {
        let used =
            self.head.load(Ordering::Relaxed) - self.idle_pages.since.load(Ordering::Relaxed);
        used.min(self.room())
    }

    /// Bytes of a mapped ring that count as being in memory.
    pub(crate) fn bytes_in_memory(&self) -> u64 {
        (self.bytes_used_lately() + self.capacity / KEPT_PART).min(self.room())
    }

    /// Bytes ahead of the head that stay in memory.
    pub(crate) fn bytes_kept(&self) -> u64 {
        self.capacity / KEPT_PART - 2 * self.piece_bytes()
    }

    /// Takes a look at `now`: gives a piece back if puts rest. One thread calls it, again and
    /// again.
    pub(crate) fn give_memory_back(&self, now: Instant) {
        let Some(mapping) = self.mapping.as_deref() else {
            return;
        };
        let mut pass = self.idle_pages.pass.lock();
        let head = self.head.load(Ordering::Relaxed);
        let (looked, head_then) = pass.looked.replace((now, head)).unwrap_or((now, head));
        let time = now.saturating_duration_since(looked).max(TICK);
        if (head - head_then) * 1_000 > SLOW_RATE * time.as_millis() as u64 {
            // Pieces that a pass has given back so far count as in memory: too much is better than
            // too little.
            (pass.idle_since, pass.running) = (Some(now), None);
            return;
        }
        let idle_since = *pass.idle_since.get_or_insert(now);
        if pass.running.is_none() {
            let worth = self.bytes_used_lately() > self.capacity / WORTH_PART;
            let begins = worth && now.saturating_duration_since(idle_since) >= IDLE;
            if begins {
                pass.running = Some((head, 0));
                let cold_below = head + self.capacity;
                self.idle_pages
                    .cold_below
                    .store(cold_below, Ordering::Relaxed);
                let first = self.room().min(WRITING_PIECES * self.piece_bytes());
                self.file.start_writing(0, first);
            }
        }
        let Some((began, place)) = pass.running else {
            return;
        };
        let ahead = self.piece(place + WRITING_PIECES * self.piece_bytes());
        self.file
            .start_writing(ahead.start, ahead.end - ahead.start);
        let piece = self.piece(place);
        let (start, len) = (piece.start as usize, (piece.end - piece.start) as usize);
        pass.running = Some((began, piece.end));
        if !self.is_kept(&piece, head) && !mapping.give_back(start, len) {
            // The system cannot give memory back.
            (pass.idle_since, pass.running) = (Some(now), None);
        } else if piece.end >= self.room() {
            pass.running = None;
            self.idle_pages.since.store(began, Ordering::Relaxed);
        }
    }

    /// The size of the largest page, except in small rings.
    fn piece_bytes(&self) -> u64 {
        let part = self.capacity / PIECE_PART;
        HUGE_PAGE_BYTES
            .min(part - part % CAPACITY_UNIT)
            .max(CAPACITY_UNIT)
    }

    /// The piece that begins at this place, cut at the end of the room.
    fn piece(&self, place: u64) -> Range<u64> {
        let room = self.room();
        place.min(room)..(place + self.piece_bytes()).min(room)
    }

    /// Whether the next puts use a part of the piece, or of the page before the head.
    fn is_kept(&self, piece: &Range<u64>, head: u64) -> bool {
        let from = head % self.capacity;
        let to = from + self.bytes_kept();
        let beyond = to.saturating_sub(self.room());
        (piece.end + CAPACITY_UNIT > from && piece.start < to) || piece.start < beyond
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
    const START: u64 = CAPACITY * 5;

    /// A mapped log, its file, and its time, which moves by ticks.
    struct TimedLog {
        file: TestFile,
        log: CommitLog,
        now: Instant,
    }

    impl TimedLog {
        fn new() -> TimedLog {
            let file = TestFile::new(CAPACITY);
            let shared: Arc<dyn evendb_storage::vfs::File> = Arc::new(file.clone());
            let start = Lsn(START);
            let log = CommitLog::start(shared, CAPACITY, Writing::Mapped, 1, 1, start..start);
            TimedLog {
                file,
                log: log.unwrap(),
                now: Instant::now(),
            }
        }

        fn append(&self, bytes: u64) {
            let until = self.log.head().0 + bytes;
            while self.log.head().0 < until {
                let len = (until - self.log.head().0).min(1 << 20) as usize;
                let end = self.log.append(Version(1), &[&vec![7; len]]).unwrap();
                let _ = self.log.set_tail(end);
            }
        }

        fn rounds(&mut self, time: Duration) {
            let end = self.now + time;
            while self.now < end {
                self.log.give_memory_back(self.now);
                self.now += TICK;
            }
        }

        fn given_back(&self) -> Vec<Range<usize>> {
            std::mem::take(&mut self.file.0.lock().given_back)
        }
    }

    #[test]
    fn what_rests_is_given_back_but_for_what_comes_next() {
        let mut run = TimedLog::new();
        assert_eq!(run.log.bytes_used_lately(), 0);
        run.append(2 * CAPACITY + (CAPACITY / 4 * 3));
        run.rounds(Duration::from_secs(4));
        assert_eq!(run.given_back(), [], "puts have hardly ended");
        assert_eq!(run.log.bytes_in_memory(), CAPACITY);
        let bytes = run.file.0.lock().bytes.clone();
        run.rounds(Duration::from_secs(10));
        assert_eq!(run.file.0.lock().bytes, bytes, "no byte has changed");
        let head = run.log.head().0 % CAPACITY;
        let kept = head as usize..(head + CAPACITY / 16) as usize;
        let gone = run.given_back();
        assert!(
            gone.iter()
                .all(|piece| piece.end <= kept.start || piece.start >= kept.end)
        );
        let bytes: usize = gone.iter().map(ExactSizeIterator::len).sum();
        let least = (CAPACITY - CAPACITY / 8) as usize;
        assert!(
            (least..=least + (2 << 20)).contains(&bytes),
            "{bytes} bytes"
        );
        assert_eq!(run.log.bytes_in_memory(), CAPACITY / 8);
        // One pass is enough.
        run.rounds(Duration::from_secs(10));
        assert_eq!(run.given_back(), []);
    }

    #[test]
    fn what_is_kept_goes_on_at_the_start_of_the_next_lap() {
        let mut run = TimedLog::new();
        run.append(2 * CAPACITY - (1 << 20));
        run.rounds(Duration::from_secs(10));
        let kept = (CAPACITY / 16 - (1 << 20)) as usize;
        let gone = run.given_back();
        assert!(!gone.is_empty());
        assert!(gone.iter().all(|piece| piece.start >= kept), "{gone:?}");
    }

    #[test]
    fn puts_take_it_back_step_by_step() {
        let mut run = TimedLog::new();
        run.append(2 * CAPACITY);
        run.rounds(Duration::from_secs(10));
        assert!(run.log.idle_pages.is_cold(run.log.head().0));
        run.given_back();
        for step in 1..=32 {
            run.append(1 << 20);
            let wanted = CAPACITY / 8 + (step << 20);
            let counted = run.log.bytes_in_memory();
            assert!(counted >= wanted.min(CAPACITY), "{counted} at step {step}");
            assert!(counted <= wanted + (64 << 10), "{counted} at step {step}");
            run.rounds(TICK);
        }
        assert!(!run.log.idle_pages.is_cold(run.log.head().0));
        assert_eq!(run.given_back(), [], "puts come");
    }

    #[test]
    fn a_pass_ends_when_puts_come() {
        let mut run = TimedLog::new();
        run.append(2 * CAPACITY);
        run.rounds(IDLE + 4 * TICK);
        assert!(!run.given_back().is_empty());
        run.append(1 << 20);
        run.rounds(IDLE - TICK);
        assert_eq!(run.given_back(), []);
        assert_eq!(run.log.bytes_in_memory(), CAPACITY);
    }

    #[test]
    fn where_the_system_cannot_it_stays() {
        let mut run = TimedLog::new();
        run.file.0.lock().keeps_pages = true;
        run.append(2 * CAPACITY);
        run.rounds(Duration::from_secs(20));
        assert_eq!(run.log.bytes_in_memory(), CAPACITY);
    }
}
