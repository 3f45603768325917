//! What the engines share above the storage parts, so that an application sees one error and one word for durability
//! whichever it opens, and so that tests control the threads of both.
//!
//! * [`Error`], [`ErrorKind`] - failures of the public faces. [`Durability`] - what an acknowledged write survives.
//! * [`EngineKind`] - which engine made a database. [`RangeSize`] - about how much a range holds.
//! * [`sync`] - locks, atomics, threads and reclamation, which loom and shuttle replace.
//! * [`directory_lock`] - one writer of a directory at a time. [`claim`] - it, for as long as a database is open. [`mod@fork`] -
//!   whether this process is a forked child, which may not touch it. [`gate`] - who touches it, so that closing can wait for
//!   them. [`mod@destroy`] - a database is removed.
//! * [`made_dirs`] - directories that a call makes, and takes away again if it fails.
//! * [`placement`] - nothing is made inside of a database's directory, or of one with backups.
//! * [`ballast`] - room that is kept back for deletes and jobs on a full disk.
//! * [`key_range`] - a range of keys as its least one and its upper limit. [`limits`] - what is said of an option outside of its own.
//! * [`container`] - the memory that a container lets this process have.
//! * [`inspect`] - what a look inside of a closed database finds.
//!
//! Applications use the names that the engines' crates give out. Nothing here knows how data is laid out.

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
