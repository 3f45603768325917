//! Forms of text: how fields, numbers, times and whole records are written and read back.
//!
//! Not here: which line of an input becomes which pair (`input`), and what a key's type is
//! (`typed`).

pub(crate) mod csv;
pub(crate) mod escapes;
pub(crate) mod float_text;
pub(crate) mod json_text;
pub(crate) mod ldb_text;
pub(crate) mod scan_output;
pub(crate) mod time_text;
