//! [`SweepWorker`]: reads the whole data set once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::wrong;
use crate::dataset::{Dataset, key_of, record_of};
use crate::driver::Worker;
use crate::recorder::{OperationKind, Recorder, RunError};
use crate::store::Store;
use crate::value::Thoroughness;

/// Reads the data set once, by scans in key order, to warm caches and to check every byte.
pub struct SweepWorker {
    dataset: Dataset,
    cursor: Arc<AtomicU64>,
}

/// Records one step of a [`SweepWorker`] reads.
const SWEEP_STEP: u64 = 256;

impl SweepWorker {
    /// A worker that takes its stretches from `cursor`, which starts at zero and is shared.
    #[must_use]
    pub fn new(dataset: Dataset, cursor: Arc<AtomicU64>) -> Self {
        Self { dataset, cursor }
    }
}

impl Worker for SweepWorker {
    fn step(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<bool, RunError> {
        let start = self.cursor.fetch_add(SWEEP_STEP, Ordering::Relaxed);
        if start >= self.dataset.records {
            return Ok(false);
        }
        let length = SWEEP_STEP.min(self.dataset.records - start);
        let (values, mut next, mut fault) = (&self.dataset.values, start, None);
        recorder.time(OperationKind::Scan, || {
            store.scan(&key_of(start), length as usize, &mut |key, value| {
                fault = match record_of(key) {
                    Some(record) if record == next => values
                        .check(record, value, Thoroughness::Whole)
                        .err()
                        .map(|why| why.to_string()),
                    _ => Some(format!(
                        "the scan yielded key `{}`",
                        String::from_utf8_lossy(key)
                    )),
                };
                next += u64::from(fault.is_none());
                fault.is_none()
            })
        })?;
        if let Some(fault) = fault {
            return Err(wrong(next, "scan", fault));
        }
        if next != start + length {
            return Err(wrong(next, "scan", "the record is missing"));
        }
        recorder.records_scanned += length;
        recorder.user_bytes_read += length * self.dataset.record_bytes();
        Ok(true)
    }
}
