//! Writes that reach the device as they are made, a bounded number of bytes ahead of it.
//!
//! ```text
//!   offset ->   | on the device |  before, ...  |  span: not started  |
//!                               ^ the oldest is waited for when the span is started, so that at
//!                                 most two pieces are on their way, or what the writer allows
//! ```
//! Left alone, the system keeps written bytes until a sync, and then hands all of them to the
//! device at once. A read that comes meanwhile waits behind tens of MiB. So each time a piece was
//! written, writing the span to the device is started, and the piece before it is waited for. The
//! sync at the end, which alone makes anything durable, finds little to do.
//!
//! If the last page of a span is not full, it is held back, because it would have to be written
//! twice. The span also covers places in between that were not written; only dirty pages cost
//! anything.
//!
//! It belongs to one thread at a time. Errors of starting and waiting are left to the sync.

use super::File;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;

/// The number of bytes whose writing is started together.
const PIECE_BYTES: u64 = 256 << 10;
/// The least number of bytes that the system writes.
const PAGE_BYTES: u64 = 4096;

/// Keeps writes to one file close to the device.
#[derive(Debug, Default)]
pub struct WriteBehind {
    /// Covers the written bytes whose writing was not started yet.
    span: Range<u64>,
    /// Bytes written to the span.
    bytes: u64,
    /// Ranges that were started and not waited for, oldest first.
    before: VecDeque<Range<u64>>,
    /// The number of pieces that may be on their way, less two.
    more: usize,
}

impl WriteBehind {
    /// How many pieces may be on their way. If nobody waits for the file, two, so that reads find
    /// the disk free. Otherwise enough to keep the disk at work while the next pieces are made
    /// (decision 0087).
    pub fn depth(is_waited_for: bool) -> usize {
        match is_waited_for {
            true => 8,
            false => 2,
        }
    }

    /// Lets this many pieces be on their way, at least two. With more pieces the writer waits less
    /// for the device, and a read waits longer behind them.
    pub fn set_depth(&mut self, pieces: usize) {
        self.more = pieces.saturating_sub(2);
    }

    /// Writes all of `data` at `offset`, as [`File::write_at`] does. Every call is for the same
    /// file.
    pub fn write_at(&mut self, file: &dyn File, data: &[u8], offset: u64) -> io::Result<()> {
        let mut at = offset;
        for piece in data.chunks(PIECE_BYTES as usize) {
            file.write_at(piece, at)?;
            let end = at + piece.len() as u64;
            self.wrote(file, at..end);
            at = end;
        }
        Ok(())
    }

    fn wrote(&mut self, file: &dyn File, range: Range<u64>) {
        self.bytes += range.end - range.start;
        self.span = match self.span.is_empty() {
            true => range.clone(),
            false => self.span.start.min(range.start)..self.span.end.max(range.end),
        };
        if self.bytes < PIECE_BYTES {
            return;
        }
        let full_end = self.span.end / PAGE_BYTES * PAGE_BYTES;
        let full = self.span.start..full_end.max(self.span.start);
        file.start_writing(full.start, full.end - full.start);
        while self.before.len() > self.more {
            let Some(oldest) = self.before.pop_front() else {
                break;
            };
            file.wait_for_writing(oldest.start, oldest.end - oldest.start);
        }
        self.span = full.end..self.span.end;
        self.bytes = 0;
        self.before.push_back(full);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Mapping, SimVfs, Vfs, read_exact_at};
    use super::*;
    use parking_lot::Mutex;
    use std::path::Path;
    use std::sync::Arc;

    /// Each call: a letter for what was done, and the range.
    type Calls = Vec<(char, Range<u64>)>;

    /// Notes what is written, started and waited for, and which writes the way past the cache
    /// refuses.
    #[derive(Debug, Clone)]
    pub(in super::super) struct Noting {
        file: Arc<dyn File>,
        calls: Arc<Mutex<Calls>>,
        past: Past,
    }

    /// The way past the cache of a [`Noting`] file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(in super::super) enum Past {
        /// There is none.
        Missing,
        /// There is one. It refuses writes from this offset on.
        RefusesFrom(u64),
        /// This is the handle of such a way.
        Handle(u64),
    }

    impl Noting {
        fn new() -> Noting {
            Noting::with(Past::Missing)
        }

        pub(in super::super) fn with(past: Past) -> Noting {
            let file = SimVfs::new(1).create(Path::new("/a")).unwrap();
            let calls = Arc::default();
            Noting { file, calls, past }
        }

        fn note(&self, call: char, offset: u64, len: u64) {
            self.calls.lock().push((call, offset..offset + len));
        }

        /// The ranges of one kind of call, without empty ones.
        pub(in super::super) fn of(&self, kind: char) -> Vec<Range<u64>> {
            let calls = self.calls.lock();
            let calls = calls.iter().filter(|(call, _)| *call == kind);
            let ranges = calls.map(|(_, range)| range.clone());
            ranges.filter(|range| !range.is_empty()).collect()
        }
    }

    impl File for Noting {
        fn path(&self) -> &Path {
            self.file.path()
        }
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            self.file.read_at(buf, offset)
        }
        fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
            let len = data.len() as u64;
            match self.past {
                Past::Handle(refused) if offset >= refused => {
                    self.note('r', offset, len);
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                Past::Handle(_) => self.note('d', offset, len),
                _ => self.note('w', offset, len),
            }
            self.file.write_at(data, offset)
        }
        fn past_cache(&self) -> Option<Arc<dyn File>> {
            let Past::RefusesFrom(offset) = self.past else {
                return None;
            };
            let past = Past::Handle(offset);
            Some(Arc::new(Noting {
                past,
                ..self.clone()
            }))
        }
        fn sync_data(&self) -> io::Result<()> {
            self.file.sync_data()
        }
        fn start_writing(&self, offset: u64, len: u64) {
            self.note('s', offset, len);
        }
        fn wait_for_writing(&self, offset: u64, len: u64) {
            self.note('a', offset, len);
        }
        fn len(&self) -> io::Result<u64> {
            self.file.len()
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.file.set_len(len)
        }
        fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
            self.file.preallocate(offset, len)
        }
        fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
            self.file.punch_hole(offset, len)
        }
        fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>> {
            self.file.map(len)
        }
    }

    #[test]
    fn at_most_two_pieces_are_on_their_way() {
        let file = Noting::new();
        let mut behind = WriteBehind::default();
        let data: Vec<u8> = (0..5_000_000u32).map(|at| (at % 251) as u8).collect();
        let mut at = 0;
        // Small writes, and one that is several pieces.
        for part in data[..2_000_000].chunks(60_001).chain([&data[2_000_000..]]) {
            behind.write_at(&file, part, at).unwrap();
            at += part.len() as u64;
        }
        let mut read = vec![0; data.len()];
        read_exact_at(&file, &mut read, 0).unwrap();
        assert_eq!(read, data);
        let started = file.of('s');
        // Full pages were started, each once and in order, and little is left for the sync.
        assert_eq!(started[0].start, 0);
        assert!(started.windows(2).all(|two| two[0].end == two[1].start));
        assert!(started.iter().all(|range| range.end % PAGE_BYTES == 0));
        assert!(
            started
                .iter()
                .all(|range| range.end - range.start < 2 * PIECE_BYTES)
        );
        let left = data.len() as u64 - started.last().unwrap().end;
        assert!(left < PIECE_BYTES + PAGE_BYTES, "{left}");
        // All ranges except the last were waited for, each after the next one was started.
        assert_eq!(file.of('a'), started[..started.len() - 1]);
        let mut on_their_way = 0i32;
        for (call, range) in file.calls.lock().iter().filter(|call| !call.1.is_empty()) {
            on_their_way += match call {
                's' => 1,
                'a' => -1,
                _ => 0,
            };
            assert!(on_their_way <= 2, "at {range:?}");
        }
    }

    /// Writes that go up and down in the file, as runs go to holes, are all covered.
    #[test]
    fn scattered_writes_are_started_together() {
        let file = Noting::new();
        let mut behind = WriteBehind::default();
        // The eighth write makes a piece full.
        let data = vec![7; PIECE_BYTES as usize / 8];
        let places = [900u64, 100, 800, 200, 700, 300, 600, 400, 1000, 50];
        for place in places {
            behind.write_at(&file, &data, place << 20).unwrap();
        }
        let started = file.of('s');
        assert_eq!(started.len(), 1);
        let first = places[..8].iter().map(|place| place << 20);
        for start in first {
            assert!(started[0].contains(&start));
            assert!(started[0].contains(&(start + data.len() as u64 - 1)));
        }
        assert!(file.of('a').is_empty());
    }
}
