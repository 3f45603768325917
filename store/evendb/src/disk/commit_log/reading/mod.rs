//! What reads the log back: opening, followers, inspection.

pub(crate) mod follow;
pub(crate) mod read_back;
pub(crate) mod recover;
pub(crate) mod survey;
