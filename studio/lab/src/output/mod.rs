//! What people and files get: units, the standard streams, and files that are written whole or not
//! at all.

#[macro_use]
pub(crate) mod said;

pub(crate) mod own_output;
pub mod readable;
pub mod standard_streams;
pub mod whole_file;
