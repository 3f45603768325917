//! One thread of a replay: does what its lane has, when it is due, and notes what came of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evendb_trace::{Kind, Outcome, value_hash};

use super::lanes::{Queue, Task};
use super::plan::{Ask, Bytes, Work};
use super::report::ReplayReport;
use super::{ReplaySettings, Speed};
use crate::random::mix64;
use crate::store::{BatchWrite, Store, StoreError, StoreResult};

/// Sleeping ends up to so much late; the rest is yielded away.
const SLEEP_ERROR: Duration = Duration::from_micros(100);
const SLEEP_MAX: Duration = Duration::from_millis(20);

pub(super) struct Worker<'a> {
    store: &'a dyn Store,
    is_timed: bool,
    compare_scans: bool,
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
            started,
            failed,
            stop,
            report: ReplayReport::default(),
            value: Vec::new(),
        }
    }

    /// Does everything in the queue, until the first failure of the store, of whichever lane.
    pub(super) fn run(mut self, queue: Queue) -> StoreResult<ReplayReport> {
        for chunk in queue {
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

    /// Waits for a moment; how late it is then.
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

    /// Asks the store. How many records that were.
    fn ask(&mut self, work: &Work) -> StoreResult<u64> {
        match &work.ask {
            Ask::Get(key) => self.get(key, work.kind, work.expected),
            Ask::Put(key, bytes) => {
                let value = value_of(&mut self.value, key, bytes);
                self.store.put(key, value)?;
                Ok(1)
            }
            Ask::Delete(key) => {
                self.store.delete(key)?;
                Ok(1)
            }
            Ask::DeleteRange(low, high) => self.delete_range(low, high),
            Ask::Batch(writes) => {
                let filled: Vec<_> = writes
                    .iter()
                    .map(|write| {
                        let value = write.value.as_ref();
                        value.map(|bytes| value_of(&mut self.value, &write.key, bytes).to_vec())
                    })
                    .collect();
                let each = writes.iter().zip(&filled);
                let batch: Vec<_> = each
                    .map(|(write, value)| match value {
                        Some(value) => BatchWrite::Put(&write.key, value),
                        None => BatchWrite::Delete(&write.key),
                    })
                    .collect();
                self.store.batch(&batch)?;
                Ok(batch.len() as u64)
            }
            Ask::Scan {
                from,
                below,
                limit,
                expected,
            } => self.scan(from, below.as_deref(), *limit, *expected),
        }
    }

    fn get(&mut self, key: &[u8], kind: Kind, expected: Outcome) -> StoreResult<u64> {
        let wants_hash = matches!(expected, Outcome::Present { hash: Some(_), .. });
        let (mut len, mut hash) = (None, None);
        let found = self.store.get(key, &mut |value| {
            len = Some(value.len() as u64);
            hash = wants_hash.then(|| value_hash(value));
        })?;
        let differences = &mut self.report.differences;
        match (expected, found) {
            (Outcome::Unknown | Outcome::Done, _) => return Ok(u64::from(found)),
            (Outcome::Failed(_), _) => differences.failed_in_trace += 1,
            (Outcome::Absent, true) => differences.present_not_absent += 1,
            (Outcome::Present { .. }, false) => differences.absent_not_present += 1,
            (Outcome::Present { len: wanted, .. }, true)
                if kind != Kind::Contains && wanted.is_some() && wanted != len =>
            {
                differences.other_length += 1;
            }
            (Outcome::Present { hash: wanted, .. }, true) if wanted.is_some() && wanted != hash => {
                differences.other_value += 1;
            }
            _ => {}
        }
        self.report.compared += 1;
        Ok(u64::from(found))
    }

    fn scan(
        &mut self,
        from: &[u8],
        below: Option<&[u8]>,
        limit: u64,
        expected: Option<u64>,
    ) -> StoreResult<u64> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut records = 0;
        self.store.scan(from, limit, &mut |key, _| {
            let is_in = below.is_none_or(|below| key < below);
            records += u64::from(is_in);
            is_in
        })?;
        if let Some(expected) = expected.filter(|_| self.compare_scans) {
            self.report.compared += 1;
            self.report.differences.other_count += u64::from(expected != records);
        }
        Ok(records)
    }

    /// By one write where the store can; else key by key.
    fn delete_range(&mut self, low: &[u8], high: &[u8]) -> StoreResult<u64> {
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
}

/// The bytes to put: those of the trace, or as many that do not compress, a function of the key.
pub(super) fn value_of<'v>(made: &'v mut Vec<u8>, key: &[u8], bytes: &'v Bytes) -> &'v [u8] {
    let len = match bytes {
        Bytes::Known(value) => return value,
        Bytes::Len(len) => *len,
    };
    made.clear();
    let mut seed = value_hash(key);
    while made.len() < len {
        seed = mix64(seed.wrapping_add(1));
        made.extend_from_slice(&seed.to_le_bytes());
    }
    made.truncate(len);
    made
}

/// Whether a store says that it has no range deletions.
fn has_none(error: &StoreError) -> bool {
    error.to_string().ends_with("has no range deletions")
}
