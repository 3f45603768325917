//! What each operation of a trace is for a store of the lab, and in which lanes.

use std::collections::{BTreeMap, HashMap};

use evendb_trace::{Kind, Operation, Outcome};

use super::lanes::Lanes;
use super::report::ReplayReport;
use super::{ReplaySettings, Speed};
use crate::random::mix64;

/// Transactions and batches that have begun and not ended. Those of a trace that was torn would be kept for ever.
const GROUPS_MAX: usize = 100_000;

/// What is to be asked of the store.
pub(super) struct Work {
    /// When it is due, in nanoseconds since the start; 0 where nothing is.
    pub(super) due_nanos: u64,
    /// Under which kind it is counted.
    pub(super) kind: Kind,
    pub(super) ask: Ask,
    /// What came of it in the trace, as far as that can be compared.
    pub(super) expected: Outcome,
}

pub(super) enum Ask {
    Get(Vec<u8>),
    Put(Vec<u8>, Bytes),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
    Batch(Vec<Write>),
    /// From a key on, to below another one; so many records at most; so many the trace had.
    Scan {
        from: Vec<u8>,
        below: Option<Vec<u8>>,
        limit: u64,
        expected: Option<u64>,
    },
}

/// A value: that of the trace, or one of this length.
pub(super) enum Bytes {
    Known(Vec<u8>),
    Len(usize),
}

pub(super) struct Write {
    pub(super) key: Vec<u8>,
    /// `None`: a delete.
    pub(super) value: Option<Bytes>,
}

/// See the module.
pub(super) struct Planner {
    with_keyspaces: bool,
    /// The one keyspace, where keys are as they are.
    only: Option<u32>,
    is_sample: bool,
    compare: bool,
    value_bytes: usize,
    /// 1 / speed; none at most speed.
    slowness: Option<f64>,
    open: HashMap<u64, Group>,
    left_out: BTreeMap<&'static str, u64>,
    last_nanos: u64,
    taken: u64,
}

#[derive(Default)]
struct Group {
    writes: Vec<Write>,
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
    /// Why it cannot be replayed.
    left_out: Option<&'static str>,
}

impl Planner {
    pub(super) fn new(
        keyspaces: &BTreeMap<u32, String>,
        one_in: u64,
        settings: &ReplaySettings,
    ) -> Planner {
        Planner {
            with_keyspaces: keyspaces.len() > 1,
            only: keyspaces.keys().next().copied(),
            is_sample: one_in > 1,
            compare: settings.compare,
            value_bytes: settings.value_bytes,
            slowness: match settings.speed {
                Speed::Times(speed) => Some(1.0 / speed),
                Speed::Max => None,
            },
            open: HashMap::new(),
            left_out: BTreeMap::new(),
            last_nanos: 0,
            taken: 0,
        }
    }

    pub(super) fn last_nanos(&self) -> u64 {
        self.last_nanos
    }

    pub(super) fn finish(self, report: &mut ReplayReport) {
        report.operations_in_trace = self.taken;
        report.left_out = self.left_out;
        let open = self.open.values().filter(|group| !group.is_empty());
        let open = open.count() as u64;
        if open > 0 {
            report
                .left_out
                .insert("batches and transactions without an end", open);
        }
    }

    fn leave_out(&mut self, why: &'static str) {
        *self.left_out.entry(why).or_default() += 1;
    }

    /// Gives an operation to the lanes that it concerns.
    pub(super) fn take(&mut self, operation: Operation, lanes: &mut Lanes) {
        self.taken += 1;
        self.last_nanos = self.last_nanos.max(operation.start_nanos);
        if !self.with_keyspaces {
            let only = *self.only.get_or_insert(operation.keyspace);
            let has_key = !is_of_group(operation.kind) && operation.kind != Kind::Other;
            if has_key && operation.keyspace != only {
                return self
                    .leave_out("of a keyspace that the trace does not name at its beginning");
            }
        }
        match operation.kind {
            Kind::Begin | Kind::BatchCommit | Kind::Commit | Kind::Abort => {
                self.end_group(&operation, lanes);
            }
            Kind::Other => self.other(&operation),
            kind if operation.group != 0
                && (kind.is_point_write() || kind == Kind::DeleteRange) =>
            {
                self.part(operation);
            }
            _ => match self.ask(operation) {
                Ok(work) => give(work, lanes),
                Err(why) => self.leave_out(why),
            },
        }
    }

    fn other(&mut self, operation: &Operation) {
        let group = self.open.get_mut(&operation.group);
        if operation.key == b"rollback_to" && operation.outcome == Outcome::Done {
            if let Some(group) = group {
                group.left_out = Some("transactions that went back to a savepoint");
            }
            return;
        }
        self.leave_out("calls without a key");
    }

    /// A write that counts when its batch or transaction ends.
    fn part(&mut self, operation: Operation) {
        if matches!(operation.outcome, Outcome::Failed(_)) {
            return self.leave_out("writes that failed in the trace");
        }
        if self.open.len() >= GROUPS_MAX && !self.open.contains_key(&operation.group) {
            return self.leave_out("parts of too many batches and transactions at once");
        }
        let number = operation.group;
        let asked = self.ask(operation);
        let group = self.open.entry(number).or_default();
        match asked.map(|work| work.ask) {
            Ok(Ask::Put(key, bytes)) => group.writes.push(Write {
                key,
                value: Some(bytes),
            }),
            Ok(Ask::Delete(key)) => group.writes.push(Write { key, value: None }),
            Ok(Ask::DeleteRange(low, high)) => {
                // What was put before it goes; so all ranges may come first.
                let is_in = |write: &Write| low <= write.key && write.key < high;
                group.writes.retain(|write| !is_in(write));
                group.ranges.push((low, high));
            }
            Ok(_) => {}
            Err(why) => self.leave_out(why),
        }
    }

    fn end_group(&mut self, operation: &Operation, lanes: &mut Lanes) {
        if operation.kind == Kind::Begin {
            return;
        }
        let Some(group) = self.open.remove(&operation.group) else {
            return;
        };
        let is_done = operation.kind != Kind::Abort
            && matches!(operation.outcome, Outcome::Done | Outcome::Unknown);
        if !is_done {
            return self.leave_out("batches and transactions that were not committed in the trace");
        }
        if let Some(why) = group.left_out {
            return self.leave_out(why);
        }
        for (low, high) in group.ranges {
            let ask = Ask::DeleteRange(low, high);
            give(self.work(operation, ask, Outcome::Unknown), lanes);
        }
        if !group.writes.is_empty() {
            let ask = Ask::Batch(group.writes);
            give(self.work(operation, ask, Outcome::Unknown), lanes);
        }
    }

    fn work(&self, operation: &Operation, ask: Ask, expected: Outcome) -> Work {
        let due = |slowness: f64| (operation.start_nanos as f64 * slowness) as u64;
        Work {
            due_nanos: self.slowness.map_or(0, due),
            kind: operation.kind,
            ask,
            expected,
        }
    }

    /// What it is for the store; or why it cannot be asked.
    fn ask(&self, mut operation: Operation) -> Result<Work, &'static str> {
        let keyspace = operation.keyspace;
        let key = self.key(keyspace, std::mem::take(&mut operation.key));
        let end = operation.end_key.take();
        let end = end.map(|end| self.key(keyspace, end));
        let end = end.or_else(|| self.end_of(keyspace));
        let has_failed = matches!(operation.outcome, Outcome::Failed(_));
        let mut expected = Outcome::Unknown;
        let ask = match operation.kind {
            Kind::Get | Kind::Contains | Kind::GetForUpdate | Kind::MultiGet => {
                if self.compare && !operation.older_moment {
                    expected = operation.outcome;
                }
                Ask::Get(key)
            }
            kind if kind.is_point_write() && has_failed => {
                return Err("writes that failed in the trace");
            }
            Kind::DeleteRange if has_failed => return Err("writes that failed in the trace"),
            Kind::Put | Kind::Ingest => {
                let len = operation
                    .value_len
                    .map_or(self.value_bytes, |len| len as usize);
                Ask::Put(
                    key,
                    operation.value.take().map_or(Bytes::Len(len), Bytes::Known),
                )
            }
            Kind::Delete | Kind::SingleDelete => Ask::Delete(key),
            Kind::DeleteRange => match end {
                Some(end) => Ask::DeleteRange(key, end),
                None => return Err("deletions of ranges without an end"),
            },
            Kind::Scan if operation.reverse => return Err("scans in reverse"),
            Kind::Scan => Ask::Scan {
                from: key,
                below: end,
                limit: operation.limit.or(operation.count).unwrap_or(u64::MAX),
                expected: operation
                    .count
                    .filter(|_| self.compare && !operation.older_moment && !self.is_sample),
            },
            Kind::Merge => return Err("merges"),
            Kind::Pop => return Err("pops"),
            _ => return Err("kinds that this program does not know"),
        };
        if matches!(ask, Ask::Scan { limit: 0, .. }) {
            return Err("scans that asked for nothing");
        }
        Ok(self.work(&operation, ask, expected))
    }

    fn key(&self, keyspace: u32, key: Vec<u8>) -> Vec<u8> {
        key_in_store(self.with_keyspaces, keyspace, key)
    }

    /// Where the keys of a keyspace end.
    fn end_of(&self, keyspace: u32) -> Option<Vec<u8>> {
        let next = keyspace.checked_add(1).filter(|_| self.with_keyspaces)?;
        Some(number_that_sorts(next).to_vec())
    }
}

/// The key by which a store has what the trace has in a keyspace.
pub(super) fn key_in_store(with_keyspaces: bool, keyspace: u32, key: Vec<u8>) -> Vec<u8> {
    match with_keyspaces {
        false => key,
        true => [&number_that_sorts(keyspace)[..], &key].concat(),
    }
}

fn is_of_group(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Begin | Kind::BatchCommit | Kind::Commit | Kind::Abort
    )
}

fn number_that_sorts(number: u32) -> [u8; 4] {
    [24, 16, 8, 0].map(|shift| (number >> shift) as u8)
}

impl Group {
    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.ranges.is_empty()
    }
}

/// The lane of a key.
fn lane_of(key: &[u8], lanes: usize) -> usize {
    (mix64(evendb_trace::value_hash(key)) % lanes as u64) as usize
}

/// Gives work to its lane, or to all of those that it concerns.
fn give(work: Work, lanes: &mut Lanes) {
    let count = lanes.count();
    match &work.ask {
        Ask::Get(key) | Ask::Put(key, _) | Ask::Delete(key) | Ask::Scan { from: key, .. } => {
            let lane = lane_of(key, count);
            lanes.add(lane, work);
        }
        Ask::DeleteRange(..) => {
            let all: Vec<_> = (0..count).collect();
            lanes.add_together(&all, work);
        }
        Ask::Batch(writes) => {
            let each = writes.iter();
            let mut of: Vec<_> = each.map(|write| lane_of(&write.key, count)).collect();
            of.sort_unstable();
            of.dedup();
            lanes.add_together(&of, work);
        }
    }
}
