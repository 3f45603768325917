//! Reorganisation: deciding what to do ([`picker`](crate::picker), pure) and doing it.
//!
//! [`rewrite`] writes the tables of one chunk (rebalance), of one that is cut up (split), or of two
//! neighbours (merge); [`layout`] makes its outcome the truth; [`munks`] absorbs and evicts,
//! `spans` loads and evicts, and [`tending`] makes the rounds of the memory policy; [`jobs`] looks
//! at a chunk and does what the picker says; [`space`] looks at all chunks from time to time and
//! divides the room that logs may take; [`growth`] finds where a chunk grows, `pieces` where a
//! table ends; [`log_merge`] merges the newest runs of a log; [`covered_tables`] gives back the
//! tables of deleted ranges; [`idle`] makes a database smaller while nothing is written to it.
//!
//! In other rooms: [`compact`](crate::compact) makes everything as small as it can be, when it is
//! called; [`pace`](crate::pace) says when a job rests; [`merge`](crate::merge) is the sorted merge
//! that all jobs use.

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
pub(crate) mod bench;
pub(crate) mod guarded;
pub(crate) mod idle;
pub(crate) mod jobs;
pub(crate) mod layout;
mod ram;
mod rewriting;
pub(crate) mod space;
#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
pub(crate) use rewriting::{
    covered_tables, expired_tables, growth, log_merge, pieces, rewrite, value_moves,
};

pub(crate) use ram::{munks, spans, tending, warm};
