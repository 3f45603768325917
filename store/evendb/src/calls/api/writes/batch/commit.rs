//! The commit of a batch: its writes in the order of a write, each key once, and the write itself.
//!
//! A commit that may not wait ([`Batch::attempt`]) leaves the batch as it was, so that it can be
//! attempted again by a thread that may.
//!
//! Thread safety: one thread at a time has a batch. Not here: what is added, and its limits.

use super::{Added, Batch, INLINE, RangeWrite, Write, keyspace};
use crate::catalog::KeyspaceState;
use crate::chunk::covers::range_record;
use crate::error::{Error, Result};
use crate::fork;
use crate::op::Op;
use crate::plant::planted;
use crate::range_set::RangeSet;
use crate::read::merges;
use crate::record::RecordRef;
use crate::recording::Recording;
use crate::sync::Arc;
use crate::write::{self, Outcome, Patience, Pending};
use evendb_storage::Kind;
use evendb_trace::{Began, Call, Kind as Asked, Operation};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// What a trace says of a commit, once its outcome is known.
pub(crate) struct BatchRecord {
    began: Began,
    group: u64,
    parts: Vec<Operation>,
    count: usize,
}

impl BatchRecord {
    pub(crate) fn tell(mut self, recording: &Recording, written: &Result<()>) {
        let parts = (self.group, &mut self.parts[..]);
        recording.wrote_batch(self.began, parts, self.count, written);
    }
}

impl Batch {
    /// Writes everything, or nothing.
    ///
    /// # Errors
    /// The errors of [`Keyspace::put`](crate::Keyspace::put), and `BatchTooLarge`,
    /// `InvalidArgument`.
    pub fn commit(self) -> Result<()> {
        fork::check()?;
        let Some(record) = self.record() else {
            return self.write();
        };
        let handle = self.handle.clone();
        let written = self.write();
        record.tell(&handle.engine.core.recording, &written);
        written
    }

    /// What a trace will say of the commit, if one is recorded.
    #[inline]
    pub(crate) fn record(&self) -> Option<BatchRecord> {
        let began = self.handle.engine.core.recording.begin_always()?;
        let ((group, parts), count) = (self.parts_to_record(began), self.len());
        Some(BatchRecord {
            began,
            group,
            parts,
            count,
        })
    }

    /// Writes everything or nothing, up to the wait for durability. If that would have to wait and
    /// there is no patience, nothing is written, and it can be attempted again.
    pub(crate) fn attempt(&mut self, patience: Patience) -> Result<Outcome> {
        fork::check()?;
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.ready.is_none() {
            let ranges = self.resolve_ranges();
            self.sort()?;
            self.ready = Some(ranges);
        }
        let ranges = self.ready.as_deref().unwrap_or_default();
        if ranges.is_empty() && self.writes.is_empty() {
            return Ok(Outcome::Written(Pending::nothing()));
        }
        let core = &self.handle.engine.core;
        let _inside = core.health.enter_writable()?;
        let numbers: SmallVec<[u32; INLINE]> =
            self.writes.iter().map(|write| write.keyspace).collect();
        let of = |number| keyspace(&self.handle, &self.others, number);
        let mut ops = ops_of(of, ranges, &mut self.writes);
        let range_count = ops.len() - numbers.len();
        let engine = &self.handle.engine;
        let outcome = write::perform(engine, &mut ops, self.durability, None, patience)?;
        if matches!(outcome, Outcome::WouldWait) {
            // The records go back; they are sorted, so their heads are needed no more.
            let records = ops.into_iter().skip(range_count).map(|op| op.record);
            let writes = numbers.into_iter().zip(records);
            self.writes.extend(writes.map(|(keyspace, record)| Write {
                key_head: 0,
                keyspace,
                record,
            }));
        }
        Ok(outcome)
    }

    /// Copies of the writes whose keys a trace takes, in their order, and their group. They are
    /// copied first because the records become the store's, or are gone, before the outcome is
    /// known.
    #[cold]
    fn parts_to_record(&self, began: Began) -> (u64, Vec<Operation>) {
        let core = &self.handle.engine.core;
        let slot = &core.recording.slot;
        let group = slot.new_group();
        let mut parts = Vec::new();
        let mut part = |mut call: Call<'_>| {
            if slot.takes(call.key) {
                call.group = match planted!(core.options, PartsWithoutGroup) {
                    true => 0,
                    false => group,
                };
                call.value = call.value.filter(|_| began.wants_value());
                parts.push(Operation::of_call(&call));
            }
        };
        for added in self.in_order() {
            match added {
                Added::Range(range) => {
                    let keyspace = self.keyspace_of(range.keyspace).id.0;
                    let mut call = Call::new(Asked::DeleteRange, keyspace, &range.low);
                    call.end_key = range.high.as_deref();
                    part(call);
                }
                Added::Write(write) => part(write.as_call(self.keyspace_of(write.keyspace).id.0)),
            }
        }
        (group, parts)
    }

    #[inline]
    fn write(mut self) -> Result<()> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let ranges = self.resolve_ranges();
        if ranges.is_empty()
            && self.writes.len() == 1
            && let Some(write) = self.writes.pop()
        {
            // There is nothing to sort, so this costs what a put costs.
            let keyspace = keyspace(&self.handle, &self.others, write.keyspace);
            let mut ops = [Op::one(keyspace, write.record)];
            return write::write(&self.handle.engine, &mut ops, self.durability);
        }
        self.sort()?;
        let of = |number| keyspace(&self.handle, &self.others, number);
        let mut ops = ops_of(of, &ranges, &mut self.writes);
        write::write(&self.handle.engine, &mut ops, self.durability)
    }

    /// The deleted ranges, by keyspace. Removes the writes that came before a deletion of their
    /// keys.
    fn resolve_ranges(&mut self) -> Vec<(u32, RangeSet)> {
        if self.ranges.is_empty() {
            return Vec::new();
        }
        let mut sets: BTreeMap<u32, RangeSet> = BTreeMap::new();
        let ranges = std::mem::take(&mut self.ranges);
        let mut later = ranges.iter().rev().peekable();
        let mut kept: SmallVec<[Write; INLINE]> = SmallVec::new();
        let add = |sets: &mut BTreeMap<u32, RangeSet>, range: &RangeWrite| {
            let own = sets.entry(range.keyspace).or_default();
            own.add(&range.low, range.high.as_deref());
        };
        while let Some(write) = self.writes.pop() {
            while let Some(range) = later.next_if(|range| range.after > self.writes.len()) {
                add(&mut sets, range);
            }
            let own = sets.get(&write.keyspace);
            if own.is_none_or(|set| !set.contains(write.record.key())) {
                kept.push(write);
            }
        }
        later.for_each(|range| add(&mut sets, range));
        kept.reverse();
        self.writes = kept;
        let mut sets: Vec<(u32, RangeSet)> = sets.into_iter().collect();
        sets.sort_by_key(|(number, _)| keyspace(&self.handle, &self.others, *number).id);
        sets
    }

    /// Sorts the writes. Of several writes of one key the last stays, with the values that it
    /// merges folded into it.
    fn sort(&mut self) -> Result<()> {
        let (handle, others) = (&self.handle, &self.others);
        let id = |write: &Write| keyspace(handle, others, write.keyspace).id;
        let compare = |a: &Write, b: &Write| {
            (id(a), a.key_head)
                .cmp(&(id(b), b.key_head))
                .then_with(|| a.record.key().cmp(b.record.key()))
        };
        if self.writes.is_sorted_by(|a, b| compare(a, b).is_lt()) {
            return Ok(());
        }
        // A stable sort keeps the writes of one key in order; the last of each key stays.
        self.writes.sort_by(compare);
        let is_same = |a: &Write, b: &Write| {
            a.key_head == b.key_head && a.keyspace == b.keyspace && a.record.key() == b.record.key()
        };
        for own in self.writes.chunk_by_mut(is_same) {
            let [_, .., last] = &*own else { continue };
            let keyspace = keyspace(handle, others, last.keyspace);
            let records: SmallVec<[&RecordRef; INLINE]> =
                own.iter().map(|write| &write.record).collect();
            if keyspace.kind_of_single_delete() == Kind::SingleDelete {
                check_single_deletes(&records)?;
            }
            let folded = merges::last_of(keyspace, &records)?;
            drop(records);
            let Some(record) = folded else { continue };
            let (key_len, value_len) = (record.key().len(), record.value().len());
            write::check_value_size(&handle.engine.core, key_len, value_len)?;
            if let Some(last) = own.last_mut() {
                last.record = record;
            }
        }
        self.writes.reverse();
        self.writes.dedup_by(|a, b| is_same(a, b));
        self.writes.reverse();
        Ok(())
    }
}

/// The operations of a write: the range deletions, and then the sorted writes, which are taken out.
/// `of` finds a keyspace by its number in the batch.
fn ops_of<'k>(
    of: impl Fn(u32) -> &'k Arc<KeyspaceState>,
    ranges: &[(u32, RangeSet)],
    writes: &mut SmallVec<[Write; INLINE]>,
) -> SmallVec<[Op<'k>; INLINE]> {
    let mut ops = SmallVec::new();
    for (number, set) in ranges {
        let records = set.iter().map(|(low, high)| range_record(low, high));
        ops.extend(records.map(|record| Op::range(of(*number), record)));
    }
    let writes = writes.drain(..);
    ops.extend(writes.map(|write| Op::one(of(write.keyspace), write.record)));
    ops
}

/// Refuses a put that follows a single delete, among the records of one key in their order.
fn check_single_deletes(records: &[&RecordRef]) -> Result<()> {
    let is_refused = |pair: &&[&RecordRef]| {
        pair[0].kind() == Kind::SingleDelete && matches!(pair[1].kind(), Kind::Put | Kind::PutUntil)
    };
    match records.windows(2).find(is_refused) {
        Some(pair) => Err(Error::put_after_single_delete(pair[1].key())),
        None => Ok(()),
    }
}
