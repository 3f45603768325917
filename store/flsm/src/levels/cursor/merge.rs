//! [`MergeCursor`]: several sources as one sorted sequence, in both directions.
//!
//! ```text
//!   forward:   the current record is the least;
//!              each other source is on its first record behind it, or on none
//!   backward:  the current record is the greatest;
//!              each other source is on its last record before it, or on none
//! ```
//! So a turn moves each other source by one step, to the other side of the current record. A source
//! that is on no record has all of its records on the side from which the cursor comes.
//!
//! Records are ordered by key, by version (descending), and by the number of the source. A source
//! may get new records while the cursor is in use, as a memory table does. The cursor may pass or
//! miss these records, but they never make it go back or repeat a record.
//!
//! It keeps all records of the sources: it does not decide which of them a reader sees. After an
//! error it is on no record, and a seek puts all sources in order again. It belongs to one thread
//! at a time.

use super::{EntryCursor, Reads};
use evendb_storage::table::Target;
use evendb_storage::{EntryRef, Result};
use std::cmp::Ordering;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Forward,
    Backward,
}

/// See the module.
pub(crate) struct MergeCursor {
    sources: Vec<Box<dyn EntryCursor>>,
    /// The sources that are on a record, as a heap. The first one is on the current record. No
    /// source comes before its parent, which is at `(index - 1) / 2`.
    heap: Vec<usize>,
    direction: Direction,
}

impl MergeCursor {
    /// A merge that is on no record.
    pub(crate) fn new(sources: Vec<Box<dyn EntryCursor>>) -> MergeCursor {
        MergeCursor {
            heap: Vec::with_capacity(sources.len()),
            sources,
            direction: Direction::Forward,
        }
    }

    /// The number of the source that has the current record. Panics if there is no current record.
    pub(crate) fn source(&self) -> usize {
        let first = self.heap.first();
        *first.expect("source of a cursor that is on no record")
    }

    /// Moves all sources by `seek`. After that the cursor moves in `direction`.
    fn seek_all(
        &mut self,
        direction: Direction,
        mut seek: impl FnMut(&mut dyn EntryCursor) -> Result<()>,
    ) -> Result<()> {
        self.heap.clear();
        self.direction = direction;
        for source in &mut self.sources {
            seek(&mut **source)?;
        }
        self.build_heap();
        Ok(())
    }

    fn build_heap(&mut self) {
        let sources = &self.sources;
        self.heap.clear();
        self.heap
            .extend((0..sources.len()).filter(|&source| sources[source].valid()));
        for parent in (0..self.heap.len() / 2).rev() {
            self.sift_down(parent);
        }
    }

    /// Moves the source at `at` of the heap behind the sources that come before it.
    fn sift_down(&mut self, mut at: usize) {
        loop {
            let mut child = 2 * at + 1;
            if child >= self.heap.len() {
                return;
            }
            if child + 1 < self.heap.len() && self.before(self.heap[child + 1], self.heap[child]) {
                child += 1;
            }
            if !self.before(self.heap[child], self.heap[at]) {
                return;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }

    /// Whether the record of source `a` is reached before that of source `b`.
    fn before(&self, a: usize, b: usize) -> bool {
        let (left, right) = (self.sources[a].entry(), self.sources[b].entry());
        let order = left
            .key
            .cmp(right.key)
            .then_with(|| right.version.cmp(&left.version))
            .then_with(|| a.cmp(&b));
        match self.direction {
            Direction::Forward => order == Ordering::Less,
            Direction::Backward => order == Ordering::Greater,
        }
    }

    fn step(&mut self, direction: Direction) -> Result<()> {
        if self.heap.is_empty() {
            return Ok(());
        }
        let stepped = match self.direction == direction {
            true => self.move_first(),
            false => self.turn(direction).and_then(|()| self.move_first()),
        };
        if stepped.is_err() {
            self.heap.clear();
        }
        stepped
    }

    /// Moves the source that has the current record.
    fn move_first(&mut self) -> Result<()> {
        let source = &mut self.sources[self.heap[0]];
        match self.direction {
            Direction::Forward => source.next()?,
            Direction::Backward => source.prev()?,
        }
        if !source.valid() {
            self.heap.swap_remove(0);
        }
        self.sift_down(0);
        Ok(())
    }

    /// Moves the other sources to the other side of the current record.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let current = self.heap[0];
        self.direction = direction;
        for (number, source) in self.sources.iter_mut().enumerate() {
            if number == current {
                continue;
            }
            match (direction, source.valid()) {
                (Direction::Forward, true) => source.next()?,
                (Direction::Forward, false) => source.seek_first()?,
                (Direction::Backward, true) => source.prev()?,
                (Direction::Backward, false) => source.seek_last()?,
            }
        }
        self.build_heap();
        // Only a source that has got new records meanwhile can be on the wrong side.
        while self.heap[0] != current {
            self.move_first()?;
        }
        Ok(())
    }
}

impl EntryCursor for MergeCursor {
    fn valid(&self) -> bool {
        !self.heap.is_empty()
    }
    fn aim(&mut self, target: Target<'_>, reads: &mut Reads) -> Result<()> {
        self.heap.clear();
        let mut sources = self.sources.iter_mut();
        sources.try_for_each(|source| source.aim(target, reads))
    }
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.seek_all(Direction::Forward, |source| source.seek(key))
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.seek_all(Direction::Backward, |source| source.seek_before(key))
    }
    fn seek_first(&mut self) -> Result<()> {
        self.seek_all(Direction::Forward, |source| source.seek_first())
    }
    fn seek_last(&mut self) -> Result<()> {
        self.seek_all(Direction::Backward, |source| source.seek_last())
    }
    fn next(&mut self) -> Result<()> {
        self.step(Direction::Forward)
    }
    fn prev(&mut self) -> Result<()> {
        self.step(Direction::Backward)
    }
    fn entry(&self) -> EntryRef<'_> {
        self.sources[self.source()].entry()
    }
}
