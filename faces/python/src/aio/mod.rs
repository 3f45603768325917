//! The engine's futures for `evendb.aio`: what is pending, and who is told when it can go on.

pub(crate) mod pending;
mod wakes;
