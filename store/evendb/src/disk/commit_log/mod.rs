//! The commit log: one file, written round and round (a ring), that grows up to its capacity.
//!
//! ```text
//!   tail                       durable           head        tail + capacity
//!    |  records of versions     |  copied, not    |            |
//!    |  not yet checkpointed    |  yet synced     |  free      |      all are LSNs; the place in
//!    v                          v                 v            v      the file is LSN % capacity
//!    [record][record][filler|wrap][record][record]
//! ```
//!
//! A record never wraps around the end of the file: a filler covers the rest of the lap, and is
//! implied where not even a header fits. [`record`] has the bytes, [`recover`] reads them.
//!
//! Invariants (docs/concurrency.md): head is the end of the complete prefix, because it moves under
//! the ring latch and after the copy; a panic in the middle leaves it where it was, and the next
//! append overwrites the rest. Head never passes tail + capacity (I10): admission lets in at most
//! 7/8 of the ring's usable bytes, no record is longer than 1/8 of them, and the live part holds at
//! most one filler ([`room`] has the proof). Appending can fail only where the append itself writes
//! (I12). After an error no write or sync begins, and no more records become durable (I16).
//!
//! Thread safety: any number of appenders and waiters. [`flush`] says which of them syncs,
//! [`mapped_pages`] what one more thread does for a mapped ring, [`idle_pages`] how its memory is
//! lent, [`room`] how the ring grows. Locks: the leader's mutex (held over the sync), the ring
//! latch (it parks, and is held over the write where each append writes), the sync mutex (a leaf,
//! memory only). [`read_back`] reads appended records, also below the tail, and [`follow`] waits
//! for more.
//!
//! Not here: when the tail may move, what a payload means, and the data in other files
//! ([`SyncedFirst`]).

mod reading;
mod record;
mod sealed;
mod writing;

pub(crate) use append::CommitLog;
pub(crate) use flush::SyncedFirst;
pub(crate) use flush::awaiting::Awaited;
pub(crate) use read_back::{Passage, ReadBack};
pub(crate) use record::LogRecord;
#[cfg(feature = "fuzzing")]
pub(crate) use recover::seal_ring;
pub(crate) use recover::{Segment, find_record, recover};
pub(crate) use room::{LivePart, create_file, first_room, room_found};
pub(crate) use survey::{Proof, Survey, Surveyed, survey};

use evendb_storage::NUMBER_MAX;

/// Position in the commit log in bytes; only grows, over restarts too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub(crate) struct Lsn(pub u64);

/// Capacities are multiples of this.
pub(crate) const CAPACITY_UNIT: u64 = 4096;
/// The smallest capacity of a ring, in bytes.
pub(crate) const CAPACITY_MIN: u64 = 64 << 10;

/// Whether a ring can have this capacity.
pub(crate) fn is_capacity(bytes: u64) -> bool {
    (CAPACITY_MIN..=NUMBER_MAX).contains(&bytes) && bytes.is_multiple_of(CAPACITY_UNIT)
}

/// Whether a record can begin there: beyond it, one lap more would be no position.
pub(crate) fn is_position(lsn: Lsn) -> bool {
    lsn.0 <= NUMBER_MAX && lsn.0.is_multiple_of(record::ALIGN)
}

/// The longest record, header included, in a ring whose room is its whole capacity. A longer record
/// goes to a value extent.
pub(crate) fn record_bytes_max(capacity: u64) -> u64 {
    room::record_bytes_max_of(capacity)
}

/// Faults that the models must notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum LogPlant {
    #[default]
    Nothing,
    /// P11: a failed sync counts as done.
    AckAfterFailedSync,
    /// The head moves before the record is copied.
    EarlyHead,
    /// The end of the synced part is looked up after the sync.
    LateTarget,
    /// A leader that is done wakes no thread of the next group.
    NoHandOver,
    /// P-count: a reader that waits counts itself without the ring latch.
    CountsOutside,
    /// P-blind: a task that waits does not look again after it has left its waker.
    RegistersBlindly,
    /// P-copy: a reader does not look whether its copy was overwritten.
    NoLookBack,
    /// P50: an encrypted record's nonce is its place in the file, which comes again in every lap.
    PlaceAsNonce,
    /// No fault: each leader dies before its sync, as by a panic.
    LeaderDies,
}

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod golden;
#[cfg(all(test, evendb_loom))]
mod models;
#[cfg(all(test, feature = "encryption", not(any(evendb_loom, evendb_shuttle))))]
mod sealed_tests;
#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod survey_tests;
#[cfg(test)]
mod test_file;
#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
use reading::{follow, read_back, recover, survey};

use writing::{append, blocks, flush, idle_pages, mapped_pages, room};
