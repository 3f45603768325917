//! LevelDB's C interface (of its version 1.23) over EvenDB: the functions of `include/leveldb/c.h`.
//! They have the names and signatures against which programs for LevelDB
//! were compiled. docs/leveldb.md says what each function and option does here, and what is
//! refused.
//!
//! ```text
//! a C program      leveldb_put(db, options, key, keylen, ...)
//!     |
//! the functions    database, iterator, batch, options, helpers: pointers become references, slices
//!     |
//! engine           get, write, moments, cursors by the public calls of EvenDB; LevelDB's errors
//! ```
//!
//! # What a caller promises
//!
//! The types of the arguments say it, as far as types can:
//! * **Handles** are made by the function that makes their kind, and are not destroyed yet. `&T`
//!   and `&mut T` are handles that are not NULL. `Option<Box<T>>` is a handle that is given back,
//!   or NULL, which does nothing.
//! * **Bytes** are a pointer and a length: this many bytes can be read during the call. With a
//!   length of 0 any pointer will do, also NULL.
//! * **Texts** end with a 0.
//! * **The place for an answer** (`&mut MaybeUninit<T>`) can be written, and need not be
//!   initialised.
//! * **The place for an error** is NULL, or it points to NULL or to a text that `malloc` made. An
//!   error replaces that text, which is freed. If the place itself is NULL, errors are not
//!   reported.
//! * **Callbacks** are called during the call that is given them, or by the function that destroys
//!   the object that has them; never by another thread.
//!
//! A bare pointer that is returned was made by `malloc`, and the caller has to free it. Functions
//! that take raw pointers are `unsafe` for these promises alone.
//!
//! # Threads
//!
//! As in LevelDB: any number of threads may use a database at once, and a snapshot with it. Any
//! other handle may be read by several threads at once (a C argument that is `const`). A thread may
//! change it while no other thread uses it.
//!
//! # Panics
//!
//! No panic crosses the border to C. A panic here would be a defect of the store, in the middle of
//! something that other threads share. So it ends the process, as the language does at the end of a
//! C function. That loses nothing: every write that has returned is in the commit log, which
//! outlives the process.
#![allow(
    unsafe_code,
    reason = "an interface of C: names without mangling, and pointers of the caller"
)]

mod batch;
mod database;
mod engine;
mod error;
mod helpers;
mod in_memory;
mod iterator;
mod memory;
mod opening;
mod options;
mod property;
mod repair;
mod trace;

pub use batch::*;
pub use database::*;
pub use helpers::*;
pub use in_memory::*;
pub use iterator::*;
pub use options::*;
