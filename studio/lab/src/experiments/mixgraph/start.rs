//! The state in which the store of a replay begins: as that of a benchmark.
//!
//! ```text
//!   keys of the list --+--> sorted, each with its size --> put once each, in random order, by the
//!   what trace finds --+                                   threads of the run --> debt paid
//! ```
//! A benchmark's store is filled with all pairs, once each, in random order ([`FillWorker`]). Here
//! the same is done with the keys that the traced store had: those of a list, and those that the
//! trace finds. A key has the size at which the trace first finds it, and else a size that is drawn
//! as the model says for a loaded pair.
//!
//! If a trace was drawn from the model with the same seed, and the list has all keys, then both
//! stores are filled with the same keys, in the same order, with the same sizes (a test below). If
//! the trace comes from elsewhere, the number of pairs, their order and the spread of their sizes
//! are alike, as far as the model is right.
//!
//! Memory: all keys, with about 40 bytes beside each.
//!
//! [`FillWorker`]: crate::mixgraph::FillWorker

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evendb_trace::{KeyLines, Reader};

use super::super::{Failure, at};
use crate::driver::Worker;
use crate::mixgraph::Load;
use crate::permutation::Permutation;
use crate::purposes::COUNTER_BYTES;
use crate::recorder::{OperationKind, Recorder, RunError};
use crate::replay::{ReplaySettings, make_value, prepare};
use crate::store::Store;
use crate::stores::memory::MemoryStore;

/// The records of a store in front of a replay.
pub(super) struct Start {
    /// Keys in order, each with the size of its value.
    records: Vec<(Vec<u8>, usize)>,
    seed: u64,
}

impl Start {
    /// The records that the trace finds, and those of the list of keys.
    ///
    /// # Errors
    /// A file cannot be read, or is none of these.
    pub(super) fn new<R: Read>(
        (path, trace): (&Path, Reader<R>),
        keys: Option<&Path>,
        load: &Load,
        settings: &ReplaySettings,
    ) -> Result<Self, Failure> {
        let found = MemoryStore::new();
        let prepared = prepare(trace, &found, settings, &AtomicBool::new(false));
        prepared.map_err(|error| error.of_file(path))?;
        let mut sizes: BTreeMap<Vec<u8>, Option<usize>> = BTreeMap::new();
        found.scan(b"", usize::MAX, &mut |key, value| {
            sizes.insert(key.to_vec(), Some(value.len()));
            true
        })?;
        if let Some(path) = keys {
            let file = BufReader::new(File::open(path).map_err(at(path))?);
            let mut lines = KeyLines::new(file);
            let of_file = |error: evendb_trace::Error| RunError::from(error).of_file(path);
            while let Some(key) = lines.next_key().map_err(of_file)? {
                if !sizes.contains_key(key) {
                    sizes.insert(key.to_vec(), None);
                }
            }
        }
        let size = |place: u64| match load.model.counts() {
            true => COUNTER_BYTES as usize,
            false => load.records.value_bytes(place, 0) as usize,
        };
        let records = (0..).zip(sizes);
        let records =
            records.map(|(place, (key, known))| (key, known.unwrap_or_else(|| size(place))));
        Ok(Self {
            records: records.collect(),
            seed: load.seed,
        })
    }

    /// What puts all records, together with others that share `taken`, which begins at zero.
    pub(super) fn worker(self: &Arc<Self>, taken: &Arc<AtomicU64>) -> Box<dyn Worker> {
        let pairs = self.records.len() as u64;
        Box::new(StartWorker {
            start: Arc::clone(self),
            taken: Arc::clone(taken),
            order: Load::fill_order_of(pairs.max(1), self.seed),
            value: Vec::new(),
        })
    }
}

struct StartWorker {
    start: Arc<Start>,
    taken: Arc<AtomicU64>,
    order: Permutation,
    value: Vec<u8>,
}

impl Worker for StartWorker {
    fn step(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<bool, RunError> {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        if number >= self.start.records.len() as u64 {
            return Ok(false);
        }
        let (key, bytes) = &self.start.records[self.order.apply(number) as usize];
        make_value(&mut self.value, key, *bytes);
        recorder.time(OperationKind::Put, || store.put(key, &self.value))?;
        recorder.user_bytes_written += (key.len() + bytes) as u64;
        Ok(true)
    }
}
