//! One end of a cursor's range: where it is, what it has gathered, and where it gathers next.
//!
//! ```text
//!   front          passed | buffer: from .......... position | not looked at yet
//!                         ^ reached, or the key last taken
//!   back      not looked at yet | position .......... from :buffer | passed
//! ```
//! The buffer holds all records that the cursor sees between `from` and `position`; if the end is
//! exhausted, all records behind `from`. So a seek to a key between them moves within the buffer,
//! and any other seek throws the buffer away.
//!
//! Invariants: an end never gives what the other one has passed ([`End::has_passed`]). An end has
//! passed the keys before the last one that it took. If it took none since it was refilled or
//! sought, it has passed the keys before `reached`.
//!
//! Thread safety: belongs to one cursor. Not here: refilling ([`crate::read::refill`]).

use crate::memory::{Charge, Ledger, Use};
use crate::metrics::Metrics;
use crate::read::buffer::{Buffer, SMALL_BYTES};
use crate::read::cursor::successor;
use crate::read::refill::ahead::Ahead;
use crate::read::sources::{Filled, FunkScan};
use crate::read::tables::Direction;

/// The fewest and the largest number of records in a refill, if it is not known how many are
/// wanted.
pub(crate) const RECORDS_MIN: usize = 16;
pub(crate) const RECORDS_MAX: usize = 512;

/// See the module.
pub(crate) struct End {
    pub(crate) buffer: Buffer,
    /// The limit of the passed keys, unless a key was taken out of the buffer: forward the keys
    /// below it are passed, backward the keys from it on.
    reached: Option<Vec<u8>>,
    /// The begin of the buffer: forward its keys are at or above this one, backward they are below
    /// it.
    from: Option<Vec<u8>>,
    /// Forward: the first key of the next refill. Backward: the next refill takes keys below it.
    pub(crate) position: Option<Vec<u8>>,
    pub(crate) exhausted: bool,
    /// Records of the next refill, and the records that a scan usually takes.
    pub(crate) records: usize,
    usual: usize,
    /// The caller gave `usual` as a hint, so no more than the rest of it is wanted.
    expected: bool,
    /// Records that were given out since the last seek and before the last refill.
    given: u64,
    /// Whether the buffer came from RAM.
    pub(crate) from_ram: bool,
    /// The scan of the funk, where the last fill left it.
    pub(crate) scan: Option<FunkScan>,
    /// Bytes that came from disk since the last seek.
    pub(crate) from_disk: u64,
    /// The stretches that a long scan asked the disk for ahead.
    pub(crate) ahead: Option<Ahead>,
    charge: Option<Charge>,
    /// The caller will not ask for values.
    pub(crate) keys_only: bool,
}

impl End {
    pub(crate) fn new(position: Option<Vec<u8>>, records: usize) -> End {
        End {
            buffer: Buffer::default(),
            reached: None,
            from: None,
            position,
            exhausted: false,
            records,
            usual: records,
            expected: false,
            given: 0,
            from_ram: false,
            scan: None,
            from_disk: 0,
            ahead: None,
            charge: None,
            keys_only: false,
        }
    }

    /// The first and the last key gathered.
    pub(crate) fn ends(&self) -> Option<(&[u8], &[u8])> {
        self.buffer.ends()
    }

    /// From now on about `records` records are wanted, until the end is sought.
    pub(crate) fn expect(&mut self, records: usize) {
        (self.records, self.usual) = (records.min(RECORDS_MAX), records);
        self.expected = true;
    }

    /// The usual number of wanted records.
    pub(crate) fn usual(&self) -> usize {
        self.usual
    }

    /// Whether this end, which moves in `direction`, has passed the key.
    #[inline]
    pub(crate) fn has_passed(&self, direction: Direction, key: &[u8]) -> bool {
        if let Some(taken) = self.buffer.taken_key() {
            return match direction {
                Direction::Forward => key <= taken,
                Direction::Backward => key >= taken,
            };
        }
        let reached = self.reached.as_deref();
        reached.is_some_and(|reached| match direction {
            Direction::Forward => key < reached,
            Direction::Backward => key >= reached,
        })
    }

    /// Empties the buffer, and remembers the records that were given out of it.
    pub(crate) fn empty(&mut self, direction: Direction, metrics: &Metrics) {
        if let Some(last) = self.buffer.taken_key() {
            self.reached = Some(match direction {
                Direction::Forward => successor(last),
                Direction::Backward => last.to_vec(),
            });
        }
        self.note_given(metrics);
        match self.buffer.is_new() {
            true => self.buffer = Buffer::spare(),
            false => self.buffer.clear(),
        }
        if self.keys_only {
            self.buffer.fetch_keys_only();
        }
    }

    fn note_given(&mut self, metrics: &Metrics) {
        self.count_given(metrics);
        self.given = self.given();
    }

    /// Counts the records that were given out of the buffer.
    pub(crate) fn count_given(&self, metrics: &Metrics) {
        let given = self.buffer.taken_count() as u64;
        metrics.scanned_records.add(given);
        if self.from_ram {
            metrics.scanned_from_ram.add(given);
        }
    }

    /// Records that were given out since the last seek.
    pub(crate) fn given(&self) -> u64 {
        self.given + self.buffer.taken_count() as u64
    }

    /// Bytes that the scan is expected to read from disk yet. It is expected to take the hint's
    /// number of records; without a hint the usual number, or half of the number that it has taken
    /// if that is more.
    pub(crate) fn bytes_expected(&self, usual: usize) -> u64 {
        let seen = self.given as usize + self.buffer.gathered();
        let left = match self.expected && seen <= self.usual {
            true => self.usual - seen,
            false => usual.max(self.usual).saturating_sub(seen).max(seen / 2),
        };
        self.from_disk.saturating_mul(left as u64) / seen.max(1) as u64
    }

    /// Notes that the buffer was filled from `from` on (`None` means from the end of all keys), up
    /// to where `filled` says; `to` and `last` are those of the
    /// [plan](crate::read::refill::plan::RefillPlan).
    pub(crate) fn take_in(
        &mut self,
        direction: Direction,
        from: Option<Vec<u8>>,
        filled: Filled,
        to: Option<Vec<u8>>,
        last: bool,
    ) {
        if !self.from_ram {
            self.from_disk += self.buffer.block_bytes() as u64;
        }
        self.from = from;
        if self.keys_only {
            self.buffer.forget_blocks();
        }
        self.move_on(direction, filled, to, last);
        self.plan_next();
    }

    /// Notes that no record lies at the position or behind it.
    pub(crate) fn exhaust(&mut self) {
        self.from = self.position.take();
        self.exhausted = true;
    }

    /// Moves the position behind what was filled, which was sought up to `to`. If this was the
    /// `last` part, no record lies behind it.
    fn move_on(&mut self, direction: Direction, filled: Filled, to: Option<Vec<u8>>, last: bool) {
        match filled {
            Filled::Exhausted if last => self.exhausted = true,
            Filled::Below(end) if last && to.as_ref() == Some(&end) => self.exhausted = true,
            Filled::Exhausted => self.position = to,
            Filled::Below(end) => self.position = Some(end),
            Filled::UpTo(key) => {
                self.position = Some(match direction {
                    Direction::Forward => successor(&key),
                    Direction::Backward => key,
                });
            }
        }
    }

    /// Sets the number of records for the next refill.
    fn plan_next(&mut self) {
        let seen = self.given as usize + self.buffer.gathered();
        let left = self.usual.saturating_sub(seen);
        self.records = match left {
            1.. if self.expected => left.min(RECORDS_MAX),
            _ => left.max(seen / 2).clamp(RECORDS_MIN, RECORDS_MAX),
        };
    }

    /// Charges what the end holds now.
    pub(crate) fn count(&mut self, ledger: Ledger) {
        let bytes = self.buffer.bytes() + self.scan.as_ref().map_or(0, FunkScan::bytes);
        // A small buffer is not worth an addition to a counter that all cursors share.
        match &mut self.charge {
            Some(charge) => charge.set(bytes),
            None if bytes >= SMALL_BYTES => {
                self.charge = Some(Charge::new(ledger, Use::Buffers, bytes));
            }
            None => {}
        }
    }

    /// Moves to `to`, which lies within the cursor's range: next comes the first key at or above
    /// `to` or, backward, the last key below it. Returns whether that lies in the buffer; if not,
    /// the buffer is emptied.
    pub(crate) fn seek(&mut self, direction: Direction, to: Vec<u8>, metrics: &Metrics) -> bool {
        let gathered = self.has_gathered(direction, &to);
        if gathered {
            self.note_given(metrics);
            self.buffer.seek(direction, &to);
        } else {
            self.begin_anew(direction, &to, metrics);
            self.position = Some(to.clone());
        }
        self.reached = Some(to);
        gathered
    }

    /// Moves beyond the end of the cursor's range, where `to` lies: no record comes any more.
    pub(crate) fn seek_nothing(&mut self, direction: Direction, to: Vec<u8>, metrics: &Metrics) {
        self.begin_anew(direction, &to, metrics);
        self.exhausted = true;
        self.reached = Some(to);
    }

    fn begin_anew(&mut self, direction: Direction, from: &[u8], metrics: &Metrics) {
        if !self.buffer.is_new() {
            self.empty(direction, metrics);
        }
        self.scan = None;
        (self.from_disk, self.ahead) = (0, None);
        self.given = 0;
        self.records = self.usual.min(RECORDS_MAX);
        self.exhausted = false;
        (self.from, self.position) = (Some(from.to_vec()), None);
    }

    /// Whether the buffer has all records between `to` and the position.
    fn has_gathered(&self, direction: Direction, to: &[u8]) -> bool {
        let from = self.from.as_deref();
        let position = self.position.as_deref();
        match direction {
            Direction::Forward => {
                from.is_none_or(|from| from <= to)
                    && (self.exhausted || position.is_some_and(|position| to < position))
            }
            Direction::Backward => {
                from.is_none_or(|from| to <= from)
                    && (self.exhausted || position.is_some_and(|position| position < to))
            }
        }
    }
}
