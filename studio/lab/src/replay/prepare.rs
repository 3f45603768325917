//! Puts what a store must have before a replay, so that the replay's reads find what the trace's
//! reads found.
//!
//! The first operation of a key says whether it was there: a read that found it. Such keys are put
//! first, with the length that was found. Writes count when they are done, in the plan of the
//! replay: a write that failed, was aborted or rolled back says nothing of its key. A read of a
//! transaction after its own write says nothing either, unless the transaction has taken the write
//! back. If a read does not tell whether it found something, as in traces of other stores, its key
//! is put.
//!
//! If a read does not tell the length, a later read of the key before it is written tells it, or
//! else that write. Otherwise the length is [`value_bytes`](ReplaySettings::value_bytes). A key
//! that is added to as a counter before its length is known has a counter's 8 bytes.
//!
//! If a trace begins with the filling of a store ([`Part::load`](super::Part)), its writes are done
//! too, as a replay does them. Memory: 16 bytes for each key, with a hash of 64 bits. If two keys
//! have the same hash, the second one may be left out.

use std::collections::HashMap;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use evendb_trace::{InOrder, Kind, Operation, Outcome, Reader, value_hash};

use super::plan::{Planner, VALUE_BYTES_MAX, is_end_of_group};
use super::work::{Ask, Bytes, Part, Work};
use super::worker::{Worker, value_of};
use super::{Merges, ReplaySettings};
use crate::purposes::COUNTER_BYTES;
use crate::recorder::RunError;
use crate::store::{Store, StoreResult};

/// For transactions that have not ended, at most this number of keys of their own writes is
/// remembered.
const OWN_MAX: usize = 8 << 20;

/// What was put before a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Prepared {
    /// Records.
    pub put: u64,
    /// The keys among them for which the trace does not tell whether they were there at their first
    /// read.
    pub assumed: u64,
}

/// Puts what the trace finds before it puts it.
///
/// # Errors
/// The store's; `Input` if the trace cannot be read.
pub fn prepare<R: Read>(
    reader: Reader<R>,
    store: &dyn Store,
    settings: &ReplaySettings,
    stop: &AtomicBool,
) -> Result<Prepared, RunError> {
    let settings = &ReplaySettings {
        compare: false,
        ..*settings
    };
    let mut planner = Planner::new(&reader, settings, store);
    let mut filling = Filling {
        store,
        worker: Worker::new(store, settings, Instant::now(), (stop, stop)),
        value_bytes: settings.value_bytes,
        compressible: settings.compressible,
        merges: settings.merges,
        keys: HashMap::new(),
        own: Own::default(),
        prepared: Prepared::default(),
        value: Vec::new(),
    };
    let until = usize::try_from(settings.part.until).unwrap_or(usize::MAX);
    let operations = InOrder::new(reader, settings.order_bytes).take(until);
    for (number, operation) in (0..).zip(operations) {
        let operation = operation?;
        let (group, outcome) = (operation.group, operation.outcome);
        filling.own.note(&operation);
        let mut done = Ok(());
        planner.take(operation, &mut |work| {
            if done.is_ok() {
                done = filling.work(&work, (group, outcome), number < settings.part.load);
            }
        });
        done?;
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    store.settle_debt()?;
    Ok(filling.prepared)
}

/// The keys, by hash, that open transactions and batches have written.
#[derive(Default)]
struct Own {
    of_group: HashMap<u64, OwnOfGroup>,
    count: usize,
}

#[derive(Default)]
struct OwnOfGroup {
    /// Each key that was written, and the number of the group's writes before its first one.
    keys: HashMap<u64, usize>,
    writes: usize,
    /// Savepoints by number, and the number of writes before each.
    savepoints: Vec<(u64, usize)>,
}

impl OwnOfGroup {
    fn len(&self) -> usize {
        self.keys.len() + self.savepoints.len()
    }

    fn note(&mut self, operation: &Operation) {
        if operation.kind.is_point_write() {
            let hash = hash(operation.keyspace, &operation.key);
            self.keys.entry(hash).or_insert(self.writes);
            self.writes += 1;
        } else if let Some(number) = operation.count {
            match &operation.key[..] {
                b"savepoint" => self.savepoints.push((number, self.writes)),
                b"rollback_to" if operation.outcome == Outcome::Done => self.roll_back_to(number),
                _ => {}
            }
        }
    }

    /// Forgets the writes since that savepoint, since nobody can read them any more. 0: since the
    /// beginning.
    fn roll_back_to(&mut self, number: u64) {
        let known = self
            .savepoints
            .iter()
            .rposition(|(known, _)| *known == number);
        let (savepoints, writes) = match known {
            Some(at) => (at + 1, self.savepoints[at].1),
            None if number == 0 => (0, 0),
            None => return,
        };
        self.savepoints.truncate(savepoints);
        self.keys.retain(|_, before| *before < writes);
    }
}

impl Own {
    fn note(&mut self, operation: &Operation) {
        if operation.group == 0 {
            return;
        }
        let kind = operation.kind;
        if is_end_of_group(kind) {
            let ended = self.of_group.remove(&operation.group);
            self.count -= ended.map_or(0, |own| own.len());
        } else if (kind.is_point_write() || kind == Kind::Other) && self.count < OWN_MAX {
            let own = self.of_group.entry(operation.group).or_default();
            let before = own.len();
            own.note(operation);
            self.count = self.count + own.len() - before;
        }
    }

    fn has(&self, group: u64, keyspace: u32, key: &[u8]) -> bool {
        let own = self.of_group.get(&group);
        own.is_some_and(|own| own.keys.contains_key(&hash(keyspace, key)))
    }
}

fn hash(keyspace: u32, key: &[u8]) -> u64 {
    value_hash(key).wrapping_add(u64::from(keyspace))
}

struct Filling<'a> {
    store: &'a dyn Store,
    worker: Worker<'a>,
    value_bytes: usize,
    compressible: u8,
    merges: Option<Merges>,
    /// The keys that were named. True: the key was put, and its length is not known yet.
    keys: HashMap<u64, bool>,
    own: Own,
    prepared: Prepared,
    value: Vec<u8>,
}

impl Filling<'_> {
    /// Follows work of this group with this outcome.
    fn work(&mut self, work: &Work, read: (u64, Outcome), fills: bool) -> StoreResult<()> {
        match &work.ask {
            Ask::Get(key) => return self.read(key, work, read),
            Ask::Put(key, value, _) => self.written(key, Some(value), fills)?,
            Ask::Delete(key) => self.written(key, None, fills)?,
            Ask::Merge(key, _) => self.merged(key)?,
            Ask::Parts(parts) => {
                for part in parts {
                    match part {
                        Part::Put(key, value, _) => self.written(key, Some(value), fills)?,
                        Part::Delete(key) => self.written(key, None, fills)?,
                        Part::Merge(key, _) => self.merged(key)?,
                        Part::DeleteRange(..) => {}
                    }
                }
            }
            Ask::DeleteRange(..) | Ask::Expire(_) => {}
            Ask::Pop(..) | Ask::Scan { .. } => return Ok(()),
        }
        match fills {
            true => self.worker.ask(work).map(|_| ()),
            false => Ok(()),
        }
    }

    fn read(
        &mut self,
        key: &[u8],
        work: &Work,
        (group, outcome): (u64, Outcome),
    ) -> StoreResult<()> {
        if group != 0 && self.own.has(group, work.keyspace, work.bare_key(key)) {
            return Ok(());
        }
        let hash = value_hash(key);
        let known = self.keys.get(&hash).copied();
        match (known, outcome) {
            (Some(false), _) | (_, Outcome::Failed(_) | Outcome::Done) => Ok(()),
            (None, Outcome::Absent) | (Some(true), Outcome::Absent) => {
                self.keys.insert(hash, false);
                Ok(())
            }
            (_, Outcome::Present { len: Some(len), .. }) => {
                self.keys.insert(hash, false);
                self.prepared.put += u64::from(known.is_none());
                self.put(key, len)
            }
            (Some(true), _) => Ok(()),
            (None, _) => {
                self.keys.insert(hash, true);
                self.prepared.put += 1;
                self.prepared.assumed += u64::from(outcome == Outcome::Unknown);
                self.put(key, self.value_bytes as u64)
            }
        }
    }

    /// Notes that a key is written. If its length before is not known, it is taken to be that of
    /// the value.
    fn written(&mut self, key: &[u8], value: Option<&Bytes>, fills: bool) -> StoreResult<()> {
        self.prepared.put += u64::from(fills && value.is_some());
        let was_open = self.keys.insert(value_hash(key), false) == Some(true);
        match value {
            Some(value) if was_open => self.put(key, value.len() as u64),
            _ => Ok(()),
        }
    }

    /// Notes that a key is merged to. If its length before is not known, it is one that merges can
    /// add to.
    fn merged(&mut self, key: &[u8]) -> StoreResult<()> {
        let was_open = self.keys.insert(value_hash(key), false) == Some(true);
        match was_open && self.merges == Some(Merges::Counters) {
            true => self.put(key, COUNTER_BYTES as u64),
            false => Ok(()),
        }
    }

    fn put(&mut self, key: &[u8], len: u64) -> StoreResult<()> {
        if len > VALUE_BYTES_MAX {
            return Ok(());
        }
        let len = Bytes::Len(len as usize);
        let value = value_of(&mut self.value, key, &len, self.compressible);
        self.store.put(key, value)
    }
}
