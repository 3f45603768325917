//! Appends, syncs, and the pages and the room that they need.

pub(crate) mod append;
pub(crate) mod blocks;
pub(crate) mod flush;
pub(crate) mod idle_pages;
pub(crate) mod mapped_pages;
pub(crate) mod room;
