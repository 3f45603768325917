//! Where in the key space accesses are, and what a cache would have of it.
//!
//! The key space of a keyspace are the keys that the trace names and those that the store has, in key order; a key has a number there, its id. Where
//! nobody lists what the store has, parts of the key space have as many *named* keys as they say.
//!
//! Joins have the small table first: the engine keeps that one in memory, unless it knows better.

pub(super) mod caches;
pub(super) mod hottest;
pub(super) mod pairs;
pub(super) mod ranges;
pub(super) mod space;

use super::Context;

/// Which keys are the key space, in words.
fn space_of_keys(context: &Context<'_>) -> &'static str {
    match context.has_stored {
        true => {
            "The key space are the keys of the store by the list of them, and the others that the trace names."
        }
        false => "The key space are the keys that the trace names.",
    }
}
