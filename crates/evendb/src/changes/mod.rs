//! The change feed: what was written, in the order of the commit log, for replicas and caches.
//!
//! ```text
//!   db.snapshot() --position--+                 one moment: a change is after it iff the snapshot lacks it
//!                             v
//!   ring   ...[record][record][record][record]......      one record = one put, delete, batch or transaction
//!          ^                  |--- given ---->|           = one Change, whole
//!          oldest kept     position         readable: visible, and as durable as the database promises
//! ```
//!
//! * [`position`]: a place in the log, which names the life of the database and survives reopening.
//! * [`oldest`]: the first position that is kept. [`resume`]: whether a position can be gone on from, and the typed error if not.
//! * [`feed`]: the reader, and how it waits. [`change`]: what it gives.
//!
//! Contract:
//! * **Order.** The order is that of the log. Versions never fall along it: a put appends only after all puts of older
//!   versions are visible (I5), so after their records.
//! * **Visible.** A change is given when a get finds it, or something newer. A record lies in the log before it is
//!   visible, so the feed reads the head, and then waits until every put that is announced has withdrawn once
//!   (`Clock::await_seen`); a put whose record lies below that head is among them or has withdrawn already.
//! * **Durable.** A database at sync level gives what is durable. At process level all that is visible is given: it
//!   survives the death of the process, and a power loss may take it back. After that the position of a consumer that has
//!   seen it lies beyond the end of its life, and is refused (`ChangesLost`).
//! * **Exact snapshots.** Records below the head that was read before a snapshot moved GV have at most its version s;
//!   all of version s lie below the head that was read after. A position has s and both places, and a feed
//!   passes over what lies between and has at most version s.
//! * **Kept.** The log keeps changes until its head comes round to them, and [`crate::kept_changes`] longer; at least what lies above the
//!   tail. A reader holds nothing up; one that is too slow gets `ChangesGone`. So does one that comes to a write whose
//!   value extent a checkpoint has removed, or to a life that wrote no log.
//! * **Never silent.** Each record that is passed is verified by its life's seed, place and checksums, and begins
//!   where the one before ended. Whatever does not is an error: no change is left out, and none is given for another.
//! * A keyspace that was dropped has no changes any more; that it was dropped is not in the log. A change of several
//!   keyspaces has what is left.
//!
//! Cost: a put that nobody waits for makes one relaxed load. A reader takes the ring latch for a moment per
//! 256 KiB, and as a rule does not move GV.
//!
//! Thread safety: a feed belongs to one thread at a time; any number of feeds run beside writers. Not here: how the ring is
//! read beside appenders (`commit_log/read_back.rs`), and how a waiting reader is woken (`commit_log/follow.rs`).

mod change;
mod feed;
mod oldest;
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod planted;
mod position;
mod resume;

pub use change::{Change, Operands, Write, Writes};
pub use feed::Changes;
pub(crate) use oldest::oldest_position;
pub use position::Position;
pub(crate) use resume::position_of;
