//! The calls that return futures. They depend on no runtime: any executor polls them.
//!
//! ```text
//!   get_async    memory is asked in the call --known--> a future that is ready
//!                  '--a file must be read--> first poll: a job for the readers
//!   commit_async first poll: the write --done--> waits for the sync as an entry in a list
//!                  '--it would have to wait--> a job for the writer, then as above
//! ```
//! * [`task`]: a job for a pool, and its result on the way to the future.
//! * [`gets`], [`commits`], [`chunks`]: the calls.
//!
//! Invariants: a poll reads no file, waits for no sync, no checkpoint and no room, and takes only
//! locks that are held for microseconds; except in a database without threads
//! ([`Options::workers`](crate::Options::workers) is 0) and where no thread can be started: there
//! the poll does the work itself. Every future is `Send` and `Unpin`, and owns what it needs; it
//! keeps the database open. Each future that was polled is woken when there is progress, and not
//! before. In a forked child a poll fails with `Forked`, and dropping a future does nothing.
//!
//! Not here: who does the work ([`crate::worker`], [`crate::engine::pool`]); docs/async.md has what
//! users have to know.

pub(crate) mod chunks;
pub(crate) mod commits;
pub(crate) mod gets;
mod task;
