//! One thread of a replay: does the work of its lane when it is due, and notes the results.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TryRecvError;
use std::thread;
use std::time::{Duration, Instant};

use evendb_trace::{Kind, Outcome, value_hash};

use super::lanes::{Queue, Task};
use super::report::ReplayReport;
use super::work::{Ask, Bytes, Part, Range, Work};
use super::{Merges, ReplaySettings, Speed};
use crate::purposes::{RangeEnd, counter_of};
use crate::random::mix64;
use crate::store::{BatchWrite, Store, StoreError, StoreResult};

/// Sleeping ends up to this much late; the rest of a wait is yielded away.
const SLEEP_ERROR: Duration = Duration::from_micros(100);
const SLEEP_MAX: Duration = Duration::from_millis(20);

pub(super) struct Worker<'a> {
    store: &'a dyn Store,
    is_timed: bool,
    compare_scans: bool,
    merges: Option<Merges>,
    compressible: u8,
    started: Instant,
    failed: &'a AtomicBool,
    stop: &'a AtomicBool,
    report: ReplayReport,
    value: Vec<u8>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        store: &'a dyn Store,
        settings: &ReplaySettings,
        started: Instant,
        (failed, stop): (&'a AtomicBool, &'a AtomicBool),
    ) -> Worker<'a> {
        Worker {
            store,
            is_timed: matches!(settings.speed, Speed::Times(_)),
            compare_scans: settings.threads <= 1,
            merges: settings.merges,
            compressible: settings.compressible,
            started,
            failed,
            stop,
            report: ReplayReport::default(),
            value: Vec::new(),
        }
    }

    /// Does everything in the queue, until the first failure of the store in any lane.
    pub(super) fn run(mut self, queue: Queue) -> StoreResult<ReplayReport> {
        while let Some(chunk) = self.next(&queue) {
            for task in &chunk {
                if self.is_stopped() {
                    return Ok(self.report);
                }
                let done = self.task(task);
                done.inspect_err(|_| self.failed.store(true, Ordering::Relaxed))?;
            }
        }
        Ok(self.report)
    }

    /// The next chunk. Counts the time in which the queue was empty: there the reader of the trace
    /// was the limit.
    fn next(&mut self, queue: &Queue) -> Option<Vec<Task>> {
        match queue.try_recv() {
            Ok(chunk) => return Some(chunk),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => {}
        }
        let begins = Instant::now();
        let chunk = queue.recv().ok()?;
        self.report.waited += begins.elapsed();
        Some(chunk)
    }

    fn is_stopped(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed)
    }

    fn task(&mut self, task: &Task) -> StoreResult<()> {
        let join = match task {
            Task::Alone(work) => return self.work(work),
            Task::Together(join) => join,
        };
        if !join.arrive() {
            join.wait(&|| self.is_stopped());
            return Ok(());
        }
        let done = self.work(&join.work);
        join.finish();
        done
    }

    fn work(&mut self, work: &Work) -> StoreResult<()> {
        if let Ask::Expire(key) = &work.ask {
            // This is no operation of the trace: it has no latency, and is counted apart.
            if self.is_timed {
                self.wait_until(self.started + Duration::from_nanos(work.due_nanos));
            }
            self.report.expired += 1;
            return self.store.delete(key);
        }
        let begins = match self.is_timed {
            true => {
                let due = self.started + Duration::from_nanos(work.due_nanos);
                let late = self.wait_until(due);
                self.report.late_max = self.report.late_max.max(late);
                due
            }
            false => Instant::now(),
        };
        let records = self.ask(work)?;
        let nanos = begins.elapsed().as_nanos() as u64;
        self.report.note(work.kind, nanos, records);
        Ok(())
    }

    /// Waits for a moment. Returns how late it is then.
    fn wait_until(&self, due: Instant) -> Duration {
        loop {
            let now = Instant::now();
            let Some(left) = due
                .checked_duration_since(now)
                .filter(|left| !left.is_zero())
            else {
                return now.saturating_duration_since(due);
            };
            match left.checked_sub(SLEEP_ERROR) {
                Some(sleep) if !self.is_stopped() => {
                    thread::sleep(sleep.min(SLEEP_MAX));
                }
                Some(_) => return Duration::ZERO,
                None => thread::yield_now(),
            }
        }
    }

    /// Asks the store. Returns the number of records.
    pub(super) fn ask(&mut self, work: &Work) -> StoreResult<u64> {
        match &work.ask {
            Ask::Get(key) => {
                let store = self.store;
                self.look(work, Some(key), |lent| store.get(key, lent))
            }
            Ask::Put(key, bytes, _) => {
                let value = value_of(&mut self.value, key, bytes, self.compressible);
                self.store.put(key, value)?;
                Ok(1)
            }
            Ask::Delete(key) | Ask::Expire(key) => {
                self.store.delete(key)?;
                Ok(1)
            }
            Ask::DeleteRange(low, high) => self.delete_range(low, high.as_deref()),
            Ask::Merge(key, operand) => self.merge(key, operand),
            Ask::Pop(range, end) => self.pop(range, *end, work),
            Ask::Parts(parts) => self.parts(parts),
            Ask::Scan {
                range,
                begins,
                limit,
                expected,
            } => {
                let records = self.scan(range, *begins, *limit, *expected)?;
                self.report.scanned += 1;
                self.report.empty_scans += u64::from(records == 0 && !work.may_miss);
                Ok(records)
            }
        }
    }

    /// Does a batch or transaction, its parts in their order. Parts that a batch can hold go into
    /// one batch. If it can hold all of them, this is one call.
    fn parts(&mut self, parts: &[Part]) -> StoreResult<u64> {
        let is_in_batch = |part: &Part| matches!(part, Part::Put(..) | Part::Delete(_));
        let mut records = 0;
        for run in parts.chunk_by(|one, other| is_in_batch(one) && is_in_batch(other)) {
            records += match &run[0] {
                Part::Merge(key, operand) => self.merge(key, operand)?,
                Part::DeleteRange(low, high) => self.delete_range(low, high.as_deref())?,
                Part::Put(..) | Part::Delete(_) => self.batch(run)?,
            };
        }
        Ok(records)
    }

    fn batch(&mut self, parts: &[Part]) -> StoreResult<u64> {
        let filled = parts.iter().filter_map(|part| match part {
            Part::Put(key, bytes, _) => Some((
                &key[..],
                Some(value_of(&mut self.value, key, bytes, self.compressible).to_vec()),
            )),
            Part::Delete(key) => Some((&key[..], None)),
            Part::Merge(..) | Part::DeleteRange(..) => None,
        });
        let filled: Vec<_> = filled.collect();
        let writes = filled.iter().map(|(key, value)| match value {
            Some(value) => BatchWrite::Put(key, value),
            None => BatchWrite::Delete(key),
        });
        let writes: Vec<_> = writes.collect();
        self.store.batch(&writes)?;
        Ok(writes.len() as u64)
    }

    /// If the trace has no operands, 1 is added to a counter.
    fn merge(&mut self, key: &[u8], operand: &Bytes) -> StoreResult<u64> {
        let missing = || StoreError::new("merge", "the store has no merges any more");
        match self.merges {
            Some(Merges::Counters) => {
                let addend = match operand {
                    Bytes::Known(operand) => counter_of(operand).unwrap_or(1),
                    Bytes::Len(_) => 1,
                };
                let counters = self.store.counters().ok_or_else(missing)?;
                counters.add(key, addend)?;
            }
            Some(Merges::Appends) => {
                let operand = value_of(&mut self.value, key, operand, self.compressible);
                let appending = self.store.appending().ok_or_else(missing)?;
                appending.append(key, operand)?;
            }
            None => return Err(missing()),
        }
        Ok(1)
    }

    fn pop(&mut self, range: &Range, end: RangeEnd, work: &Work) -> StoreResult<u64> {
        let missing = || StoreError::new("pop", "the store has no pops any more");
        let both_ends = self.store.both_ends().ok_or_else(missing)?;
        self.look(work, None, |lent| both_ends.pop(range.limits(), end, lent))
    }

    /// Asks for a record by `ask`, and compares what is lent with the trace.
    fn look(
        &mut self,
        work: &Work,
        key: Option<&[u8]>,
        ask: impl FnOnce(&mut dyn FnMut(&[u8])) -> StoreResult<bool>,
    ) -> StoreResult<u64> {
        let wants_hash = matches!(work.expected, Outcome::Present { hash: Some(_), .. });
        let mut seen = Seen::default();
        let found = ask(&mut |value| seen = Seen::of(value, wants_hash))?;
        self.report.looked += 1;
        self.report.misses += u64::from(!found && !work.may_miss);
        self.compare(work, key, found, seen);
        Ok(u64::from(found))
    }

    /// Counts how the result differs from the trace.
    fn compare(&mut self, work: &Work, key: Option<&[u8]>, found: bool, seen: Seen) {
        let is_other = match work.expected {
            Outcome::Present { hash, .. } if hash.is_some() && hash != seen.hash => {
                !(work.may_be_made_up && key.is_some_and(|key| self.is_made_up(key, seen)))
            }
            _ => false,
        };
        let differences = &mut self.report.differences;
        match (work.expected, found) {
            (Outcome::Unknown | Outcome::Done, _) => return,
            (Outcome::Failed(_), _) => differences.failed_in_trace += 1,
            (Outcome::Absent, true) => differences.present_not_absent += 1,
            (Outcome::Present { .. }, false) => differences.absent_not_present += 1,
            (Outcome::Present { len: wanted, .. }, true)
                if work.kind != Kind::Contains && wanted.is_some() && wanted != seen.len =>
            {
                differences.other_length += 1;
            }
            (Outcome::Present { .. }, true) if is_other => differences.other_value += 1,
            _ => {}
        }
        self.report.compared += 1;
    }

    /// Whether the result is the value that is made up for this key.
    fn is_made_up(&mut self, key: &[u8], seen: Seen) -> bool {
        let Some(len) = seen.len else { return false };
        let len = Bytes::Len(len as usize);
        let made = value_of(&mut self.value, key, &len, self.compressible);
        seen.hash == Some(value_hash(made))
    }

    fn scan(
        &mut self,
        range: &Range,
        begins: RangeEnd,
        limit: u64,
        expected: Option<u64>,
    ) -> StoreResult<u64> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let below = range.high.as_deref();
        let mut records = 0;
        let mut each = |key: &[u8], _: &[u8]| {
            let is_in = below.is_none_or(|below| key < below);
            records += u64::from(is_in);
            is_in
        };
        match (begins, self.store.both_ends()) {
            (RangeEnd::Last, Some(both_ends)) => {
                both_ends.scan_back(range.limits(), limit, &mut each)?
            }
            _ => self.store.scan(&range.low, limit, &mut each)?,
        };
        if let Some(expected) = expected.filter(|_| self.compare_scans) {
            self.report.compared += 1;
            self.report.differences.other_count += u64::from(expected != records);
        }
        Ok(records)
    }

    /// Deletes by one write if the store can; else key by key.
    fn delete_range(&mut self, low: &[u8], high: Option<&[u8]>) -> StoreResult<u64> {
        let Some(high) = high else {
            let Some(last) = self.last_key()?.filter(|last| &last[..] >= low) else {
                return Ok(0);
            };
            let deleted = self.delete_range(low, Some(&last))?;
            self.store.delete(&last)?;
            return Ok(deleted + 1);
        };
        match self.store.delete_range(low, high) {
            Ok(()) => Ok(1),
            Err(error) if has_none(&error) => {
                let mut keys = Vec::new();
                self.store.scan(low, usize::MAX, &mut |key, _| {
                    let is_in = key < high;
                    if is_in {
                        keys.push(key.to_vec());
                    }
                    is_in
                })?;
                self.report.ranges_by_key += 1;
                for key in &keys {
                    self.store.delete(key)?;
                }
                Ok(keys.len() as u64)
            }
            Err(error) => Err(error),
        }
    }

    /// The greatest key of the store: the deletion of a range without an end goes up to it.
    fn last_key(&self) -> StoreResult<Option<Vec<u8>>> {
        let mut last = Vec::new();
        let mut each = |key: &[u8], _: &[u8]| {
            last.clear();
            last.extend_from_slice(key);
            true
        };
        let found = match self.store.both_ends() {
            Some(both_ends) => both_ends.scan_back((b"", None), 1, &mut each)?,
            None => self.store.scan(b"", usize::MAX, &mut each)?,
        };
        Ok((found > 0).then_some(last))
    }
}

/// What a read was lent.
#[derive(Clone, Copy, Default)]
struct Seen {
    len: Option<u64>,
    hash: Option<u64>,
}

impl Seen {
    fn of(value: &[u8], wants_hash: bool) -> Seen {
        Seen {
            len: Some(value.len() as u64),
            hash: wants_hash.then(|| value_hash(value)),
        }
    }
}

/// The bytes to put: those of the trace, or bytes of that length as a function of the key. The last
/// `compressible` percent of these compress to next to nothing, the others not at all.
pub(super) fn value_of<'v>(
    made: &'v mut Vec<u8>,
    key: &[u8],
    bytes: &'v Bytes,
    compressible: u8,
) -> &'v [u8] {
    let len = match bytes {
        Bytes::Known(value) => return value,
        Bytes::Len(len) => *len,
    };
    made.clear();
    let mut seed = value_hash(key);
    let plain = len as u128 * u128::from(compressible.min(100)) / 100;
    let noisy = len - plain as usize;
    while made.len() < noisy {
        seed = mix64(seed.wrapping_add(1));
        made.extend_from_slice(&seed.to_le_bytes());
    }
    made.truncate(noisy);
    made.resize(len, 0);
    made
}

/// Replaces `made` by the value of this length that is made up for a key.
pub(crate) fn make_value(made: &mut Vec<u8>, key: &[u8], bytes: usize, compressible: u8) {
    let _ = value_of(made, key, &Bytes::Len(bytes), compressible);
}

/// Whether a store says that it has no range deletions.
fn has_none(error: &StoreError) -> bool {
    error.to_string().ends_with("has no range deletions")
}
