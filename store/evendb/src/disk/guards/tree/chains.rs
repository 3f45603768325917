//! Chains: the tables of a tree for readers, each a list of disjoint tables that ascend by key.
//!
//! ```text
//!   level 1   guard "": runs 9, 7     guard "f": run 8
//!   level 2   guard "": run 5         guard "f": runs 6, 4
//!
//!   chains    9 8 | 7 | 5 6 | 4       newest first
//! ```
//! A level has a chain for each rank: the newest run of every guard, then the next older run of
//! every guard, and so on. Each table is in exactly one chain. A key lies in at most one table of a
//! chain. For each key, an earlier chain has the newer records. So a reader asks the chains in
//! their order, and a scan merges one source for each chain.

use super::Guards;
use crate::sync::Arc;
use crate::tables::TableHandle;

/// See the module.
pub(crate) type Chain = Arc<[Arc<TableHandle>]>;

/// The chains of levels, from the top.
pub(super) fn chains_of(levels: &[Guards]) -> Arc<[Chain]> {
    levels.iter().flat_map(chains_of_level).collect()
}

fn chains_of_level(guards: &Guards) -> impl Iterator<Item = Chain> + use<> {
    let mut chains: Vec<Vec<Arc<TableHandle>>> = Vec::new();
    for guard in guards.all() {
        for (rank, run) in guard.runs().enumerate() {
            if rank == chains.len() {
                chains.push(Vec::new());
            }
            chains[rank].extend(run.iter().map(|fragment| fragment.table.clone()));
        }
    }
    chains.into_iter().map(Chain::from)
}
