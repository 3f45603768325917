//! LevelDB's C interface (that of its version 1.23) over EvenDB, either engine of it: the functions of `include/leveldb/c.h`, under the names
//! and with the signatures that programs built for LevelDB were compiled against. docs/leveldb.md says what each
//! function and option does here, and what is refused.
//!
//! ```text
//! a C program      leveldb_put(db, options, key, keylen, ...)
//!     |
//! the functions    database, iterator, batch, options, helpers   pointers become references and slices
//!     |
//! engine           one small trait: get, write, moments, cursors; its errors are LevelDB's
//!     |
//! evendb_engine, flsm_engine       the same by the public calls of EvenDB's engines
//! ```
//!
//! # What a caller promises
//!
//! The types of the arguments say it, as far as types can:
//! * **Handles** are made by the function of their kind that makes them, and not destroyed yet. `&T` and `&mut T` are a handle
//!   that is not NULL; `Option<Box<T>>` is one that is given back, or NULL, which does nothing.
//! * **Bytes** are a pointer and a length: so many bytes can be read during the call. Of a length of 0 any pointer will
//!   do, NULL too.
//! * **Texts** end with a 0.
//! * **Where an answer goes** (`&mut MaybeUninit<T>`) can be written, and need not be initialised.
//! * **Where an error goes** is NULL, or leads to NULL or to a text that `malloc` made. An error takes the place of that
//!   text, which is freed. Where it is NULL itself, errors are not told.
//! * **Callbacks** are called during the call that is given them, and by the function that destroys what they were given
//!   to; never by another thread.
//!
//! What is given back as a bare pointer is made by `malloc`, and is the caller's to free. Functions that take raw
//! pointers are `unsafe` for these promises alone.
//!
//! # Threads
//!
//! As LevelDB's: a database may be used by any number of threads at once, and a snapshot with it. Any other handle may be
//! read by several threads at once (a C argument that is `const`), and is changed by one while nobody else uses it.
//!
//! # Panics
//!
//! None crosses the border to C. A panic here would be a defect of the store, in the middle of something that other threads
//! share; so it ends the process, as the language does at the end of a function of C. That loses nothing: every write
//! that has returned is in the commit log, which outlives the process.
#![allow(
    unsafe_code,
    reason = "an interface of C: names without mangling, and pointers of the caller"
)]

mod batch;
mod database;
mod engine;
mod error;
mod evendb_engine;
mod flsm_engine;
mod helpers;
mod iterator;
mod memory;
mod opening;
mod options;
mod property;
mod repair;

pub use batch::*;
pub use database::*;
pub use helpers::*;
pub use iterator::*;
pub use options::*;
