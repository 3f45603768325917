//! Calls that answer by a callback: the engine's futures, driven by the threads that wake them.
//!
//! ```text
//! evendb_get_async --memory knows--> the callback, in the call
//!        '--> Driver (future, callback) --first poll, in the call--> over: the callback, in the call
//!                 ^                          '--pending
//!                 |-- a thread of the store wakes it: polls there; over: the callback, there
//!                 '-- evendb_task_free of a read: the future is dropped, the callback, there
//! ```
//! * [`driver`]: one call under way. It calls the callback exactly once.
//! * [`functions`]: the functions of the header.
//!
//! Not here: who reads and who syncs (the engine); docs/async.md says what dropping a future means.

mod driver;
mod functions;
mod lock;
#[cfg(test)]
mod tests;
