//! What the engines share above the storage parts. So an application sees one error and one word
//! for durability, whichever engine it opens, and tests control the threads of both.
//!
//! * [`Error`], [`ErrorKind`] - failures of the public faces. [`Durability`] - what an acknowledged
//!   write survives.
//! * [`EngineKind`] - which engine made a database. [`RangeSize`] - about how much a range holds.
//! * [`sync`] - locks, atomics, threads and reclamation, which loom and shuttle replace.
//! * [`directory_lock`] - one writer of a directory at a time. [`claim`] - this lock, as long as a
//!   database is open. [`mod@fork`] - whether this process is a forked child, which may not touch
//!   the database. [`gate`] - the calls that touch it, so that closing can wait for them.
//!   [`mod@destroy`] - removes a database.
//! * [`made_dirs`] - directories that a call makes, and removes again if it fails.
//! * [`placement`] - nothing is made inside a database's directory, or inside one with backups.
//! * [`ballast`] - room that is kept back for deletes and jobs on a full disk.
//! * [`key_range`] - a range of keys as its least key and its upper limit. [`limits`] - the error
//!   of an option outside its limits.
//! * [`container`] - the memory that a container lets this process have.
//! * [`inspect`] - the findings of a look inside a closed database.
//!
//! Applications use the names that the engines' crates export. Nothing here knows how data is laid
//! out.

#[doc(hidden)]
pub mod ballast;
#[doc(hidden)]
pub mod claim;
#[doc(hidden)]
pub mod container;
#[doc(hidden)]
pub mod destroy;
#[doc(hidden)]
pub mod directory_lock;
mod durability;
mod engine_kind;
#[doc(hidden)]
pub mod error;
#[doc(hidden)]
pub mod fork;
#[doc(hidden)]
pub mod gate;
pub mod inspect;
#[doc(hidden)]
pub mod key_range;
#[doc(hidden)]
pub mod limits;
#[doc(hidden)]
pub mod made_dirs;
pub mod placement;
mod range_size;
#[doc(hidden)]
pub mod sync;

pub use durability::Durability;
pub use engine_kind::EngineKind;
pub use error::{Error, ErrorKind, Result};
pub use range_size::RangeSize;
