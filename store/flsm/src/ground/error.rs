//! The error of the public face, which all engines share.

pub use evendb_base::{Error, ErrorKind, Result};
