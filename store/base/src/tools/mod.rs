//! What works on a closed database, whichever engine made it.

pub mod inspect;
