//! Where in the key space accesses are, and what a cache would have of it.
//!
//! The key space of a keyspace are the keys that the trace names, in key order; a key has a number there, its id. Keys that the store has and
//! nobody asked for are unknown, so parts of the key space have as many *named* keys as they say.
//!
//! Joins have the small table first: the engine keeps that one in memory, unless it knows better.

pub(super) mod caches;
pub(super) mod hottest;
pub(super) mod pairs;
pub(super) mod ranges;
pub(super) mod space;
