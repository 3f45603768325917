//! Reorganisation: deciding what to do ([`picker`], pure) and doing it.
//!
//! [`rewrite`] writes the tables of one chunk (rebalance), of one that is cut up (split), or of two
//! neighbours (merge); [`layout`] makes its outcome the truth; [`munks`] loads, absorbs and evicts;
//! [`jobs`] looks at a chunk and does what the picker says; [`space`] looks at all of them now and
//! then and divides the room that logs may take; [`growth`] finds where a chunk
//! grows; [`cover`] gives back the tables of ranges that were
//! deleted; [`idle`] makes a database smaller that nobody writes to; [`compact`] rewrites all that can become smaller, when somebody asks for it; [`breath`]
//! rests for the foreground; [`merge`] is the sorted merge below them all.

pub(crate) mod cover;
pub(crate) mod growth;
pub(crate) mod idle;
pub(crate) mod jobs;
pub(crate) mod layout;
pub(crate) mod log_merge;
pub(crate) mod munks;
pub(crate) mod rewrite;
pub(crate) mod space;
