//! Reading appended records while more are appended: also below the tail, as long as the head has
//! not come round to them.
//!
//! ```text
//!   head - capacity              tail               head
//!        | may be gone | kept for nothing | live      |
//!                ^- a reader copies a stretch from the file, then looks how far the head is
//! ```
//!
//! The proof that a copy is whole: a reader holds no thread up: appenders may overwrite what it
//! copies. It copies by `read_at`, a system call, so bytes that change meanwhile are no data race
//! in this process, only bytes of any value. Then it takes the ring latch and reads the head. Each
//! append either left the latch before, and then its end is at most that head; or it takes the
//! latch later, and then it writes after the copy was complete. So if the head is at most a lap
//! above the copy's first byte, no byte of the copy was overwritten. (If records are gathered, the
//! leader of a sync writes them later, and up to the end of a block: the head is rounded up to
//! that.) A copy that passes is parsed at leisure. Checksums are looked at as well; they find
//! damage, and bytes that an earlier life lost.
//!
//! Mapped records are read through the file: the log itself writes through both, so it relies on
//! their being one.
//!
//! Thread safety: a [`ReadBack`] belongs to one thread, beside any number of appenders. Not here:
//! which records are visible, and where a record must begin: the caller gives ends of records.

use crate::commit_log::append::CommitLog;
use crate::commit_log::record::{HEADER_BYTES, HeaderKind, LogRecord};
use crate::commit_log::recover::{Segment, verified};
use crate::commit_log::sealed::{Opener, is_whole};
use crate::commit_log::{LogPlant, Lsn};
use crate::sync::atomic::Ordering;
use evendb_storage::vfs::{BLOCK_BYTES, File, read_exact_at};
use evendb_storage::{Error, Result};

/// Bytes read at once, unless a record is longer.
const READ_BYTES: u64 = 256 << 10;

/// The result of a look at a place.
#[derive(Debug)]
pub(crate) enum Passage<'a> {
    /// The next record.
    Record(LogRecord<'a>),
    /// No more record below the limit.
    End,
    /// The head has come round to the place.
    Overwritten,
    /// Bytes that this life did not write here.
    Foreign,
}

/// A reader's copy of a stretch of the log.
pub(crate) struct ReadBack {
    buffer: Vec<u8>,
    /// LSN of the buffer's first byte.
    start: u64,
    opener: Opener,
}

/// Whether a copy was whole.
enum Copied {
    Whole,
    Overwritten,
    /// The bytes would reach over the limit or the end of a lap.
    Short,
}

impl ReadBack {
    pub(crate) fn new() -> ReadBack {
        ReadBack {
            buffer: Vec::new(),
            start: 0,
            opener: Opener::default(),
        }
    }

    /// The first record at or behind `at` and below `limit`. Both are the end of a record, or the
    /// beginning of `segment`. Without a `log`, no thread appends.
    pub(crate) fn next(
        &mut self,
        file: &dyn File,
        capacity: u64,
        log: Option<&CommitLog>,
        mut at: Lsn,
        limit: Lsn,
        segment: &Segment,
    ) -> Result<Passage<'_>> {
        let header = loop {
            let rest = capacity - at.0 % capacity;
            if rest < HEADER_BYTES as u64 {
                at = Lsn(at.0.saturating_add(rest));
            }
            if at >= limit {
                return Ok(Passage::End);
            }
            match self.copy(file, capacity, log, at, limit, HEADER_BYTES)? {
                Copied::Whole => {}
                Copied::Overwritten => return Ok(Passage::Overwritten),
                Copied::Short => return Ok(Passage::Foreign),
            }
            let bytes = self.bytes(at, HEADER_BYTES).first_chunk();
            let Some(header) = bytes.and_then(|bytes| verified(bytes, at, segment)) else {
                return Ok(Passage::Foreign);
            };
            if header.kind != HeaderKind::Filler {
                break header;
            }
            at = Lsn(at.0.saturating_add(header.total_bytes()));
        };
        let len = HEADER_BYTES + header.payload_len as usize;
        match self.copy(file, capacity, log, at, limit, len)? {
            Copied::Whole => {}
            Copied::Overwritten => return Ok(Passage::Overwritten),
            Copied::Short => return Ok(Passage::Foreign),
        }
        let from = (at.0 - self.start) as usize;
        let stored = self.buffer.get(from + HEADER_BYTES..from + len);
        let stored = stored.unwrap_or_default();
        if !is_whole(segment, &header, stored) {
            return Ok(Passage::Foreign);
        }
        let offset = at.0 % capacity;
        let payload = self.opener.open(file, offset, segment, &header, stored)?;
        Ok(Passage::Record(header.record(payload)))
    }

    /// Fills the buffer with `len` bytes from `at` on.
    fn copy(
        &mut self,
        file: &dyn File,
        capacity: u64,
        log: Option<&CommitLog>,
        at: Lsn,
        limit: Lsn,
        len: usize,
    ) -> Result<Copied> {
        let end = self.start + self.buffer.len() as u64;
        if at.0 >= self.start && at.0.saturating_add(len as u64) <= end {
            return Ok(Copied::Whole);
        }
        let offset = at.0 % capacity;
        let most = (capacity - offset).min(limit.0.saturating_sub(at.0));
        if len as u64 > most {
            return Ok(Copied::Short);
        }
        let stretch = READ_BYTES.max(len as u64).min(most);
        self.start = at.0;
        self.buffer.clear();
        self.buffer.resize(stretch as usize, 0);
        let read = read_exact_at(file, &mut self.buffer, offset)
            .map_err(|error| Error::io(file.path(), "read the commit log", error));
        if read.is_err() || log.is_some_and(|log| !log.still_has(at)) {
            self.buffer.clear();
            read?;
            return Ok(Copied::Overwritten);
        }
        Ok(Copied::Whole)
    }

    fn bytes(&self, at: Lsn, len: usize) -> &[u8] {
        let from = (at.0 - self.start) as usize;
        self.buffer.get(from..from + len).unwrap_or_default()
    }
}

impl CommitLog {
    /// Whether nothing at or above `lsn` was overwritten before the call.
    pub(crate) fn still_has(&self, lsn: Lsn) -> bool {
        if self.is_planted(LogPlant::NoLookBack) {
            return true;
        }
        // Under the latch: the module says why.
        let ring = self.ring.lock();
        let head = self.head.load(Ordering::Relaxed);
        drop(ring);
        let overwritten = match self.mapping {
            Some(_) => head,
            None => head.next_multiple_of(BLOCK_BYTES as u64),
        };
        overwritten.saturating_sub(lsn.0) <= self.capacity
    }
}
