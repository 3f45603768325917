//! Reorganisation: deciding what to do, and doing it.

pub(crate) mod picker;
