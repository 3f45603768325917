//! Operations that follow a model of a load: keyspaces, kinds, keys, sizes and lengths, on any
//! store.
//!
//! ```text
//!   Workload (evendb-model) --> Load: a Family for each keyspace
//!                                |    -- records:    key and value bytes of a pair, their check
//!                                |    -- allocation: which pair an operation goes to
//!                                +--> FillWorker: puts all pairs, at random
//!                                +--> ModelWorker: one thread's operations
//!      keyspaces | kinds | pairs | lengths | generations: five streams of random numbers
//!                                       +--> drawn_trace: the same as a trace, without a store
//! ```
//! The keyspace of an operation is drawn first, and all else by the model of that keyspace. Kind,
//! pair, sizes and lengths are drawn from streams of their own, so they are independent, except for
//! kinds that have hot keys of their own in the model. The tool that is known for this draws all of
//! them from one number. Shares are used as they are written, not rounded to thousandths.
//!
//! A store of the lab has one keyspace: several lie in it side by side
//! ([`crate::stores::keyspaces`]). A load of one keyspace draws what it drew before there were
//! several.
//!
//! Every get and scan is checked: key, keyspace, length and bytes. If nothing is deleted, each pair
//! must be found and scans have no holes. If values are counters, the counters must add up at the
//! end ([`Load::check_sum`]).
//!
//! A [`Load`] is shared by all threads; a worker belongs to one.

pub mod allocation;
pub mod drawn_trace;
pub mod records;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evendb_model::{Model, Workload};

use crate::permutation::Permutation;
use crate::random::mix64;
use crate::recorder::RunError;
use crate::store::Store;
use allocation::{Allocation, KeySpace};
use records::Records;

pub use evendb_model::model::Kind;
pub use worker::{FillWorker, ModelWorker};

/// The load on one keyspace.
pub struct Family {
    /// The name of the keyspace.
    pub name: String,
    /// What is asked of it.
    pub model: Model,
    /// Keys and values.
    pub records: Records,
    /// Chooses the pair of an operation.
    pub space: Arc<KeySpace>,
    /// Additions that were acknowledged.
    additions: AtomicU64,
}

/// A workload on its key spaces, shared by the threads of a run.
pub struct Load {
    /// The model of the whole.
    pub workload: Workload,
    /// The keyspaces, in the order of the workload.
    pub families: Vec<Family>,
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// For each keyspace, the number of pairs up to its last one.
    pairs_up_to: Vec<u64>,
    /// Gets of pairs that were deleted.
    absent: AtomicU64,
}

/// The seed of a keyspace. The first one has that of the load.
fn seed_of(seed: u64, number: usize) -> u64 {
    match number {
        0 => seed,
        number => mix64(seed ^ mix64(number as u64)),
    }
}

impl Load {
    /// A load of this workload, with hot pairs where the allocation has them.
    #[must_use]
    pub fn new(workload: impl Into<Workload>, allocation: Allocation, seed: u64) -> Self {
        let workload = workload.into();
        let (values, several) = (records::values(seed), workload.keyspaces.len() > 1);
        let family = |(number, keyspace): (usize, &evendb_model::workload::Keyspace)| {
            let (model, seed) = (&keyspace.load, seed_of(seed, number));
            let records = Records::with_values(model, &values, seed);
            Family {
                name: keyspace.name.clone(),
                records: match several {
                    true => records.of_keyspace(number as u32),
                    false => records,
                },
                space: Arc::new(KeySpace::new(model, allocation, seed)),
                model: model.clone(),
                additions: AtomicU64::new(0),
            }
        };
        let families: Vec<_> = workload.keyspaces.iter().enumerate().map(family).collect();
        let up_to = families.iter().scan(0, |sum, family| {
            *sum += family.model.pairs;
            Some(*sum)
        });
        Self {
            pairs_up_to: up_to.collect(),
            families,
            workload,
            seed,
            absent: AtomicU64::new(0),
        }
    }

    /// Whether there are several keyspaces, so that keys in a store have a number before them.
    #[must_use]
    pub fn is_of_several(&self) -> bool {
        self.families.len() > 1
    }

    /// The names of the keyspaces by their numbers, as a trace has them.
    #[must_use]
    pub fn keyspaces(&self) -> BTreeMap<u32, String> {
        let names = self.families.iter().map(|family| family.name.clone());
        (0..).zip(names).collect()
    }

    /// The number of pairs of all keyspaces.
    #[must_use]
    pub fn pairs(&self) -> u64 {
        self.pairs_up_to.last().copied().unwrap_or_default()
    }

    /// The order in which a store is filled with the pairs of all keyspaces.
    #[must_use]
    pub fn fill_order(&self) -> Permutation {
        Self::fill_order_of(self.pairs(), self.seed)
    }

    /// The order in which a store is filled with this number of pairs, at least one.
    #[must_use]
    pub fn fill_order_of(pairs: u64, seed: u64) -> Permutation {
        Permutation::new(pairs, seed ^ 0x6c6f_6164)
    }

    /// The keyspace and the pair of a number below that of all pairs.
    #[must_use]
    pub fn pair_at(&self, number: u64) -> (usize, u64) {
        let keyspace = self.pairs_up_to.partition_point(|up_to| *up_to <= number);
        let before = keyspace.checked_sub(1).map_or(0, |at| self.pairs_up_to[at]);
        (keyspace, number - before)
    }

    /// The number of gets up to now that found nothing, since the pair was deleted.
    #[must_use]
    pub fn absent(&self) -> u64 {
        self.absent.load(Ordering::Relaxed)
    }

    /// Checks that all counters of each keyspace together have what was added. Nothing is checked
    /// where values are no counters, or where puts and deletes take away what was added.
    ///
    /// # Errors
    /// The sums differ, or the store's error.
    pub fn check_sum(&self, store: &dyn Store) -> Result<(), RunError> {
        let checked = self.families.iter().filter(|family| {
            let mix = &family.model.mix;
            family.model.counts() && mix.put == 0.0 && mix.delete == 0.0
        });
        let of_several = |family: &Family| match self.is_of_several() {
            true => format!(" of keyspace {}", family.name),
            false => String::new(),
        };
        for family in checked {
            if let Some(what) = family.wrong_sum(store)? {
                return Err(RunError::Wrong(what + &of_several(family)));
            }
        }
        Ok(())
    }
}

impl Family {
    /// What is wrong with the sum of the counters, if anything is.
    fn wrong_sum(&self, store: &dyn Store) -> Result<Option<String>, RunError> {
        let (mut sum, mut next, pairs) = (0u64, 0, self.model.pairs);
        while next < pairs {
            let before = next;
            let limit = (pairs - next).min(10_000) as usize;
            store.scan(&self.records.key(next), limit, &mut |key, value| {
                if !key.starts_with(self.records.prefix()) {
                    return false;
                }
                sum = sum.wrapping_add(crate::purposes::counter_of(value).unwrap_or(0));
                next += 1;
                true
            })?;
            if next == before {
                return Ok(Some(format!("{next} of {pairs} counters are there")));
            }
        }
        let additions = self.additions.load(Ordering::Relaxed);
        let what = || format!("the counters have {sum}, and {additions} were added");
        Ok((sum != additions).then(what))
    }
}

#[cfg(test)]
mod tests;
