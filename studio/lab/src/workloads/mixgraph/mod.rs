//! Operations that follow a model of a load: kinds, keys, sizes and lengths, on any store.
//!
//! ```text
//!   Model (evendb-model) --> Load -- records:    key and value bytes of a pair, and their check
//!                             |     -- allocation: which pair an operation goes to
//!                             +--> LoadWorker: puts all pairs, at random
//!                             +--> ModelWorker: one thread's operations
//!        kinds | pairs | lengths | generations: four streams of random numbers
//!                                    +--> drawn_trace: the same as a trace, without a store
//! ```
//! Kind, pair, sizes and lengths of an operation are drawn from streams of their own, so they are
//! independent, except for kinds that have hot keys of their own in the model. The tool that is
//! known for this draws all of them from one number. Shares are used as they are written, not
//! rounded to thousandths.
//!
//! Every get and scan is checked: key, length and bytes. If nothing is deleted, each pair must be
//! found and scans have no holes. If values are counters, the counters must add up at the end
//! ([`Load::check_sum`]).
//!
//! A [`Load`] is shared by all threads; a worker belongs to one.

pub mod allocation;
pub mod drawn_trace;
pub mod records;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evendb_model::Model;

use crate::permutation::Permutation;
use crate::recorder::RunError;
use crate::store::Store;
use allocation::{Allocation, KeySpace};
use records::Records;

pub use evendb_model::model::Kind;
pub use worker::{FillWorker, ModelWorker};

/// A model on a key space, shared by the threads of a run.
pub struct Load {
    /// The model.
    pub model: Model,
    /// Keys and values.
    pub records: Records,
    /// Chooses the pair of an operation.
    pub space: Arc<KeySpace>,
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// Additions that were acknowledged.
    additions: AtomicU64,
    /// Gets of pairs that were deleted.
    absent: AtomicU64,
}

impl Load {
    /// A load of this model, with hot pairs where the allocation has them.
    #[must_use]
    pub fn new(model: &Model, allocation: Allocation, seed: u64) -> Self {
        Self {
            records: Records::new(model, seed),
            space: Arc::new(KeySpace::new(model, allocation, seed)),
            model: model.clone(),
            seed,
            additions: AtomicU64::new(0),
            absent: AtomicU64::new(0),
        }
    }

    /// The order in which a store is filled with all pairs.
    #[must_use]
    pub fn fill_order(&self) -> Permutation {
        Self::fill_order_of(self.model.pairs, self.seed)
    }

    /// The order in which a store is filled with this number of pairs, at least one.
    #[must_use]
    pub fn fill_order_of(pairs: u64, seed: u64) -> Permutation {
        Permutation::new(pairs, seed ^ 0x6c6f_6164)
    }

    /// The number of gets up to now that found nothing, since the pair was deleted.
    #[must_use]
    pub fn absent(&self) -> u64 {
        self.absent.load(Ordering::Relaxed)
    }

    /// Checks that all counters together have what was added. Nothing is checked if values are no
    /// counters, or if puts and deletes take away what was added.
    ///
    /// # Errors
    /// The sums differ, or the store's error.
    pub fn check_sum(&self, store: &dyn Store) -> Result<(), RunError> {
        let mix = &self.model.mix;
        if !self.model.counts() || mix.put > 0.0 || mix.delete > 0.0 {
            return Ok(());
        }
        let (mut sum, mut next) = (0u64, 0);
        while next < self.model.pairs {
            let before = next;
            store.scan(&self.records.key(next), 10_000, &mut |_, value| {
                sum = sum.wrapping_add(crate::purposes::counter_of(value).unwrap_or(0));
                next += 1;
                true
            })?;
            if next == before {
                let what = format!("{next} of {} counters are there", self.model.pairs);
                return Err(RunError::Wrong(what));
            }
        }
        let additions = self.additions.load(Ordering::Relaxed);
        if sum != additions {
            let what = format!("the counters have {sum}, and {additions} were added");
            return Err(RunError::Wrong(what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
