//! [`MemoryTable`]: the newest records of a keyspace, sorted, until they are flushed to tables.
//!
//! ```text
//!   level 2   head ------------------------> "k"/9 -----------> |    a skip list: each node is in
//!   level 1   head --------> "c"/7 --------> "k"/9 -----------> |    all levels up to its height;
//!   level 0   head <-> "a"/3 <-> "c"/7 <-> "c"/2 <-> "k"/9 <--> |    one node in four, about, is
//!                                                                    in the next level, too;
//!                                                                    level 0 has links both ways
//! ```
//! Records are in the order of tables: keys ascending, versions of a key descending. No record is
//! ever changed or removed; all memory is freed at once with the table.
//!
//! Backward links cost 8 bytes a record and one store into a node that the search has just
//! compared. Without them (as in LevelDB) each step back is a search from the top.
//!
//! Invariants: a reachable node is complete. The links of level 0 reach all nodes. The links of
//! other levels and the backward links may lag behind while a record is inserted: they lead past
//! it, and never to a node that is out of order.
//!
//! Thread safety: one thread inserts at a time, by a lock. Any number of threads read meanwhile,
//! without a lock and without waiting. A record that a reader must see was inserted before the
//! reader learned its version ([`crate::write`]).
//!
//! Not here: which record a reader sees, when a table is full, counts over several keyspaces.

mod arena;
mod list;
#[cfg(all(test, evendb_loom))]
mod loom_tests;
#[cfg(all(test, not(evendb_loom)))]
mod tests;

#[cfg(test)]
pub(crate) use list::MemoryCursor;
pub(crate) use list::MemoryTable;
