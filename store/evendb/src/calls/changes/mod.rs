//! The change feed: all writes in the order of the commit log, for replicas and caches.
//!
//! ```text
//!   db.snapshot() --position--+          a change is after it iff the snapshot lacks the change
//!                             v
//!   ring   ...[record][record][record][record]......   one record = one put, delete, batch or
//!          ^                  |--- given ---->|          transaction = one Change, whole
//!          oldest kept     position         readable: visible, and as durable as promised
//! ```
//!
//! * [`position`]: a place in the log, which names the life of the database and survives reopening.
//! * [`oldest`]: the first position that is kept. [`resume`]: whether a feed can start at a
//!   position, and the typed error if it cannot.
//! * [`feed`]: the reader. [`waiting`]: how it waits, as a thread or as a task. [`change`]: the
//!   changes that it gives. [`filter`]: the part that a watch gives.
//!
//! Contract:
//! * **Order.** The order is the log's order. Versions never fall along it: a put appends its
//!   record only after all puts of older versions are visible (I5), so after their records.
//! * **Visible.** A change is given only when a get finds it, or something newer. A record is in
//!   the log before it is visible. So the feed reads the head, and then waits until every announced
//!   put has withdrawn once (`Clock::await_seen`); a put whose record lies below that head is one
//!   of them, or has withdrawn already.
//! * **Durable.** At sync level a feed gives only durable changes. At process level it gives all
//!   visible changes: they survive the death of the process, and a power loss may take them back.
//!   After a power loss, the position of a consumer that has seen such a change lies beyond the end
//!   of its life, and is refused (`ChangesLost`).
//! * **Exact snapshots.** A snapshot of version s reads the head before and after it moves GV.
//!   Records below the first head have at most version s; all records of version s lie below the
//!   second head. The snapshot's position holds s and both heads, and a feed skips the records
//!   between them that have at most version s.
//! * **Kept.** The log keeps changes until its head comes round to them, and at least the changes
//!   above the tail; [`crate::kept_changes`] keeps them longer. A reader holds nothing up: a reader
//!   that is too slow gets `ChangesGone`. It gets the same error at a write whose value extent a
//!   checkpoint has removed, and at a life that wrote no log.
//! * **Never silent.** Each record that the feed passes is verified by its life's seed, its place
//!   and its checksums, and begins where the record before ended. Anything else is an error: no
//!   change is left out, and no change is given for another.
//! * The changes of a dropped keyspace are not given any more; the drop itself is not in the log. A
//!   change of several keyspaces has the writes to keyspaces that still exist.
//!
//! Cost: while no reader waits, a put makes one relaxed load for the feed. A reader takes the ring
//! latch for a moment per 256 KiB, and usually does not move GV.
//!
//! Thread safety: a feed belongs to one thread at a time; any number of feeds run beside writers.
//! Not here: how the ring is read beside appenders (`commit_log/reading/read_back.rs`), and how a
//! waiting reader is woken (`commit_log/reading/follow.rs`).

mod change;
mod feed;
mod filter;
mod oldest;
mod position;
mod resume;
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests;
mod waiting;

pub use change::{Change, Operands, Write, Writes};
pub use feed::Changes;
pub(crate) use filter::Filter;
pub(crate) use oldest::oldest_position;
pub use position::Position;
pub(crate) use resume::position_of;
