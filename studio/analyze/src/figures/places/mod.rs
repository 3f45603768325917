//! Where in the key space accesses are, and what a cache would keep of them.
//!
//! The key space of a keyspace is the keys that the trace names and the keys that the store has, in
//! key order. A key has a number there, its id. If nobody lists the keys of the store, parts of the
//! key space hold only *named* keys.
//!
//! Joins have the small table first: the engine keeps that one in memory, unless it knows better.

pub(super) mod caches;
pub(super) mod hottest;
pub(super) mod pairs;
pub(super) mod ranges;
pub(super) mod space;

use super::Context;

/// The keys that make up the key space, in words.
fn space_of_keys(context: &Context<'_>) -> &'static str {
    match context.has_stored {
        true => {
            "The key space are the keys of the store by the list of them, and the others that the trace names."
        }
        false => "The key space are the keys that the trace names.",
    }
}
