//! [`MixWorker`]: draws the operations of a mix, and checks each answer.

use std::sync::Arc;

use super::{Mix, OwnPuts, Population, thoroughness, wrong};
use crate::dataset::{Dataset, key_of, record_of};
use crate::distribution::{Chooser, Distribution};
use crate::driver::Worker;
use crate::random::Random;
use crate::recorder::{OperationKind, Recorder, RunError};
use crate::store::Store;
use crate::value::generation_of;

/// Carries out one mix over one distribution on one thread.
pub struct MixWorker {
    mix: Mix,
    dataset: Dataset,
    population: Arc<Population>,
    chooser: Chooser,
    value: Vec<u8>,
    reads: u64,
    own_puts: OwnPuts,
}

impl MixWorker {
    /// The worker of thread `thread` in the phase `phase` (both only choose the random numbers).
    #[must_use]
    pub fn new(
        mix: Mix,
        distribution: &Distribution,
        dataset: &Dataset,
        population: &Arc<Population>,
        phase: u64,
        thread: usize,
    ) -> Self {
        let mut random = Random::new(dataset.seed, (phase << 16) | thread as u64);
        let own_puts = OwnPuts::new(random.next_u64());
        Self {
            mix,
            dataset: dataset.clone(),
            population: Arc::clone(population),
            chooser: distribution.chooser(random),
            value: Vec::new(),
            reads: 0,
            own_puts,
        }
    }

    fn choose(&mut self) -> u64 {
        self.chooser.next(self.population.present())
    }

    fn get(
        &mut self,
        store: &dyn Store,
        recorder: &mut Recorder,
        record: u64,
    ) -> Result<(), RunError> {
        let key = key_of(record);
        self.reads += 1;
        let thoroughness = thoroughness(self.reads);
        let (values, mut checked) = (&self.dataset.values, Ok(0));
        let found = recorder.time(OperationKind::Get, || {
            store.get(&key, &mut |value| {
                checked = values
                    .check(record, value, thoroughness)
                    .map(|()| generation_of(value));
            })
        })?;
        let generation = checked.map_err(|fault| wrong(record, "get", fault))?;
        if !found {
            return Err(wrong(record, "get", "the record is missing"));
        }
        if self.own_puts.is_stale(record, generation) {
            return Err(wrong(record, "get", "the value was overwritten before"));
        }
        recorder.user_bytes_read += self.dataset.record_bytes();
        Ok(())
    }

    fn put(
        &mut self,
        store: &dyn Store,
        recorder: &mut Recorder,
        record: u64,
    ) -> Result<(), RunError> {
        let generation = self.own_puts.next_generation();
        self.dataset
            .values
            .fill(record, generation, &mut self.value);
        let (key, value) = (key_of(record), &self.value);
        recorder.time(OperationKind::Put, || store.put(&key, value))?;
        self.own_puts.acknowledged(record, generation);
        recorder.user_bytes_written += self.dataset.record_bytes();
        Ok(())
    }

    fn scan(
        &mut self,
        store: &dyn Store,
        recorder: &mut Recorder,
        longest: u32,
    ) -> Result<(), RunError> {
        let present = self.population.present();
        let start = self.chooser.next(present);
        let length = 1 + self.chooser.random().below(u64::from(longest));
        let (values, mut next, mut fault) = (&self.dataset.values, start, None);
        let reads = self.reads;
        let lent = recorder.time(OperationKind::Scan, || {
            store.scan(&key_of(start), length as usize, &mut |key, value| {
                if record_of(key) != Some(next) {
                    let found = String::from_utf8_lossy(key).into_owned();
                    fault = Some(format!("the scan yielded key `{found}`"));
                } else if let Err(why) = values.check(next, value, thoroughness(reads + next)) {
                    fault = Some(why.to_string());
                } else {
                    next += 1;
                    return true;
                }
                false
            })
        })?;
        if let Some(fault) = fault {
            return Err(wrong(next, "scan", fault));
        }
        if next - start < length.min(present - start) || lent as u64 != next - start {
            let expected = length.min(present - start);
            let got = next - start;
            return Err(wrong(
                next,
                "scan",
                format!("{got} of {expected} records came"),
            ));
        }
        self.reads += next - start;
        recorder.records_scanned += next - start;
        recorder.user_bytes_read += (next - start) * self.dataset.record_bytes();
        Ok(())
    }
}

impl Worker for MixWorker {
    fn step(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<bool, RunError> {
        let [put, insert, scan, modify] = self.mix.percents();
        let dice = self.chooser.random().below(100);
        if dice < put {
            let record = self.choose();
            self.put(store, recorder, record)?;
        } else if dice < put + insert {
            let record = self.population.take();
            self.put(store, recorder, record)?;
            self.population.acknowledge(record);
        } else if dice < put + insert + scan {
            let Mix::E(longest) = self.mix else {
                unreachable!("only E scans")
            };
            self.scan(store, recorder, longest)?;
        } else if dice < put + insert + scan + modify {
            let start = recorder.begin();
            let record = self.choose();
            self.get(store, recorder, record)?;
            self.put(store, recorder, record)?;
            recorder.record_since(OperationKind::ReadModifyWrite, start);
        } else {
            let record = self.choose();
            self.get(store, recorder, record)?;
        }
        Ok(true)
    }
}
