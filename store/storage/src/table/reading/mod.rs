//! An open table: searches, cursors, what is read ahead.

pub(crate) mod cursor;
pub(crate) mod keyed;
pub(crate) mod passes;
pub(crate) mod places;
pub(crate) mod reader;
mod tail;
pub(crate) mod walk;
pub(crate) mod window;
