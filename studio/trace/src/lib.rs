//! Traces: the operations of an application on a key-value store, in order.
//!
//! ```text
//!   store's public calls --> Recorder --> file --> Reader --> InOrder --> replay, analysis
//!                            per-thread            frames     by time
//!                            buffers
//!   other formats -------------------------------> Operation --> Writer --> file
//! ```
//! The format is in docs/trace-format.md. Nothing here knows a store: the engine and the lab record
//! by the same [`Recorder`], and everything that reads a trace does so by [`Reader`], in bounded
//! memory.

mod clock;
mod codec;
mod compressible;
mod cut;
mod encode;
mod error;
pub mod formats;
mod frame;
pub mod hidden;
mod in_order;
mod key_lines;
mod lines;
mod mended;
mod merged;
mod operation;
#[cfg(feature = "packed")]
pub mod packed;
mod reader;
mod recorder;
mod sampler;
mod writer;

pub use compressible::Compressible;
pub use cut::{Cut, Window};
pub use error::{Error, ErrorKind, Result};
pub use frame::{EndNote, FRAME_BYTES_MAX, Header, KEYSPACES_MAX, NAMES_BYTES_MAX, Times};
pub use in_order::InOrder;
pub use key_lines::{KeyLines, ListedKeys};
pub use mended::MendedTimes;
pub use merged::Merged;
pub use operation::{Call, Failure, KEY_BYTES_MAX, Kind, Operation, Outcome, VALUE_BYTES_MAX};
pub use reader::{Losses, Reader, keyspaces_of};
pub use recorder::{Began, Recorder, RecorderHandle, RecorderOptions, Summary};
pub use sampler::Sampler;
pub use writer::Writer;

/// The hash by which values are compared: xxh3, 64 bits.
#[must_use]
pub fn value_hash(value: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(value)
}
