//! [`MemoryTable`]: the newest records of a keyspace, sorted, until they are flushed to a table of level 0.
//!
//! ```text
//!   level 2   head ------------------------> "k"/9 -----------> |       a skip list: each node is of all levels up to its height;
//!   level 1   head --------> "c"/7 --------> "k"/9 -----------> |       of four nodes of a level about one is of the next, too
//!   level 0   head <-> "a"/3 <-> "c"/7 <-> "c"/2 <-> "k"/9 <--> |       linked in both directions
//! ```
//! Records are in the order of tables: key ascending, version descending. None is ever changed or removed; the memory goes
//! all at once with the table.
//!
//! Backward links cost 8 bytes a record and one store, into a node that the search has just compared. Without them (as in
//! LevelDB) each step back is a search from the top.
//!
//! Invariants: a node that is reachable is complete. The links of level 0 reach all nodes; those of other levels, and the
//! backward ones, may lag behind while a record is inserted, so they lead past it, and never to one that is out of order.
//!
//! Thread safety: one inserts at a time, which a lock sees to; any number read meanwhile without a lock or a wait. A
//! record that a reader must see was inserted before the reader learned its version ([`crate::write`]).
//!
//! Not here: which record a reader sees, when a table is full, what is counted for keyspaces together.

mod arena;
mod list;
#[cfg(all(test, evendb_loom))]
mod loom_tests;
#[cfg(all(test, not(evendb_loom)))]
mod tests;

#[cfg(test)]
pub(crate) use list::MemoryCursor;
pub(crate) use list::MemoryTable;
