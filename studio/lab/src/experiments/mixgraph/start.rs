//! The state in which the store of a replay begins: as that of a benchmark.
//!
//! ```text
//!   keys of lists -----+--> sorted, each with its size --> put once each, in random order, by the
//!   what trace finds --+                                   threads of the run --> debt paid
//! ```
//! A benchmark's store is filled with all pairs, once each, in random order ([`FillWorker`]). Here
//! the same is done with the keys that the traced store had: those of lists, and those that the
//! trace finds. A key has the size at which the trace first finds it, and else a size that is drawn
//! as the model says for a loaded pair of the key's keyspace. A keyspace of another name than all
//! of the model's has the sizes of the model's first one.
//!
//! If a trace was drawn from the model with the same seed, and the lists have all keys, then both
//! stores are filled with the same keys, in the same order, with the same sizes (a test below). If
//! the trace comes from elsewhere, the number of pairs, their order and the spread of their sizes
//! are alike, as far as the model is right.
//!
//! Memory: all keys, with about 40 bytes beside each.
//!
//! [`FillWorker`]: crate::mixgraph::FillWorker

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evendb_trace::Reader;

use super::super::Failure;
use crate::driver::Worker;
use crate::mixgraph::{Family, Load};
use crate::permutation::Permutation;
use crate::purposes::COUNTER_BYTES;
use crate::recorder::{OperationKind, Recorder, RunError};
use crate::replay::command::keyspaces_in;
use crate::replay::{ReplaySettings, key_in_store, list_in, make_value, prepare};
use crate::store::Store;
use crate::stores::keyspaces;
use crate::stores::memory::MemoryStore;

/// The records of a store in front of a replay.
pub(super) struct Start {
    /// Keys as the store has them, in order, each with the size of its value, and the percentage
    /// of it that compresses to next to nothing.
    records: Vec<(Vec<u8>, usize, u8)>,
    seed: u64,
}

impl Start {
    /// The records that the trace finds, and those of the lists of keys. A list may be said to be
    /// of one keyspace.
    ///
    /// # Errors
    /// A file cannot be read, or is none of these.
    pub(super) fn new<R: Read>(
        (path, trace): (&Path, Reader<R>),
        lists: &[(&Path, Option<&str>)],
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
        let names = keyspaces_in(path)?;
        let several = settings.several_keyspaces;
        for (path, of) in lists {
            let mut list = list_in(path, &names, *of)?;
            let of_file = |error: evendb_trace::Error| RunError::from(error).of_file(path);
            while let Some((keyspace, key)) = list.next_key().map_err(of_file)? {
                let key = key_in_store(several, keyspace, key.to_vec());
                sizes.entry(key).or_default();
            }
        }
        let only = names.keys().next().copied().unwrap_or_default();
        let keyspace_of = |key: &[u8]| match several {
            true => keyspaces::split(key).0,
            false => only,
        };
        Ok(Self {
            records: sized(sizes, load, &names, &keyspace_of),
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

/// Gives each key without a known size the size that a benchmark gives to the pair at its place in
/// its keyspace.
fn sized(
    sizes: BTreeMap<Vec<u8>, Option<usize>>,
    load: &Load,
    names: &BTreeMap<u32, String>,
    keyspace_of: &dyn Fn(&[u8]) -> u32,
) -> Vec<(Vec<u8>, usize, u8)> {
    // The keys of a keyspace are side by side.
    let (mut current, mut family, mut place) = (None, &load.families[0], 0);
    let sized = |(key, known): (Vec<u8>, Option<usize>)| {
        let keyspace = keyspace_of(&key);
        if current != Some(keyspace) {
            let name = names.get(&keyspace).map_or("", String::as_str);
            (current, family, place) = (Some(keyspace), family_named(load, name), 0);
        }
        let bytes = known.unwrap_or_else(|| match family.model.counts() {
            true => COUNTER_BYTES,
            false => family.records.value_bytes(place, 0) as usize,
        });
        place += 1;
        (key, bytes, family.model.values.compressible)
    };
    sizes.into_iter().map(sized).collect()
}

/// The keyspace of the model that has this name, or, where the trace has another name, the first.
fn family_named<'l>(load: &'l Load, name: &str) -> &'l Family {
    let mut families = load.families.iter();
    let named = families.find(|family| family.name == name);
    named.unwrap_or(&load.families[0])
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
        let number = self.order.apply(number) as usize;
        let (key, bytes, compressible) = &self.start.records[number];
        make_value(&mut self.value, key, *bytes, *compressible);
        recorder.time(OperationKind::Put, || store.put(key, &self.value))?;
        recorder.user_bytes_written += (key.len() + bytes) as u64;
        Ok(true)
    }
}
