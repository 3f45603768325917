//! EvenDB's C interface: the functions of `include/evendb.h`, which is the contract and describes
//! each of them. docs/c.md is for users.
//!
//! ```text
//! a C program          evendb_put(keyspace, key, key_size, value, value_size, &error)
//!     |
//! the functions        a file for each section of the header: they check arguments, and call
//!     |                evendb's public face
//! border               handle (NULL, used up, busy, poisoned), bytes (pointer and length),
//!                      place (where an answer goes), error (status and `evendb_error`)
//! ```
//!
//! # What holds for each function
//!
//! * No panic crosses the border. A panic poisons the handle in whose call it came.
//! * In a forked child no call gets behind the border, and what is freed there is only forgotten.
//! * A place for an answer is written before anything else is done: NULL or 0. A place for an error
//!   is written and never read.
//! * A handle that one thread at a time may use is locked for the time of a call; a second thread
//!   is refused and never waits.
//!
//! # What a caller promises
//!
//! The types of the arguments say it, as far as types can. `Option<&Shared<T>>` and
//! `Option<&Slot<T>>` are handles: NULL, or made by the function that makes their kind and not
//! freed yet. `Place<T>` can be written, or is NULL. `Bytes` with a length can be read for this
//! length during the call. `Text` is NULL or ends with a 0. So the functions need no `unsafe` of
//! their own; it is in `border`, with these promises as its reasons.
#![allow(
    unsafe_code,
    reason = "an interface of C: names without mangling, and pointers of the caller"
)]

mod border;
mod calls;
mod feeds;
mod setup;
mod tasks;
mod tools;
