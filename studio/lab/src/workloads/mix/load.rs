//! [`LoadWorker`]: puts a data set, in one order or another.

use std::sync::Arc;

use super::Population;
use crate::dataset::{Dataset, key_of};
use crate::driver::Worker;
use crate::permutation::Permutation;
use crate::recorder::{OperationKind, Recorder, RunError};
use crate::store::Store;

/// The order in which a data set is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LoadOrder {
    /// Keys ascend
    #[default]
    Key,
    /// Keys are in random order, the same in every run with the seed
    Random,
}

impl LoadOrder {
    /// The name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LoadOrder::Key => "key order",
            LoadOrder::Random => "random order",
        }
    }
}

/// Loads a data set; several workers share the population and stay close together.
pub struct LoadWorker {
    dataset: Dataset,
    population: Arc<Population>,
    value: Vec<u8>,
    /// Maps the numbers in which records are taken to the numbers of the records, if they differ.
    shuffled: Option<Permutation>,
}

impl LoadWorker {
    /// A worker that puts the records that the population hands out, up to the data set's end, in
    /// key order.
    #[must_use]
    pub fn new(dataset: Dataset, population: Arc<Population>) -> Self {
        Self::in_order(dataset, population, LoadOrder::Key, 0)
    }

    /// The same worker with another order. All workers of a load need the same seed.
    #[must_use]
    pub fn in_order(
        dataset: Dataset,
        population: Arc<Population>,
        order: LoadOrder,
        seed: u64,
    ) -> Self {
        let shuffles = order == LoadOrder::Random && dataset.records > 0;
        Self {
            shuffled: shuffles.then(|| Permutation::new(dataset.records, seed)),
            dataset,
            population,
            value: Vec::new(),
        }
    }
}

impl Worker for LoadWorker {
    fn step(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<bool, RunError> {
        // Numbers taken beyond the end are never acknowledged. A later phase starts with a
        // population of its own.
        let taken = self.population.take();
        if taken >= self.dataset.records {
            return Ok(false);
        }
        let record = self
            .shuffled
            .map_or(taken, |permutation| permutation.apply(taken));
        self.dataset.values.fill(record, 0, &mut self.value);
        let (key, value) = (key_of(record), &self.value);
        recorder.time(OperationKind::Put, || store.put(&key, value))?;
        recorder.user_bytes_written += self.dataset.record_bytes();
        self.population.acknowledge(taken);
        Ok(true)
    }
}
