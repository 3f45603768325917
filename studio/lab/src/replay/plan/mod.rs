//! [`Planner`]: what each operation of a trace is for a store of the lab.
//!
//! ```text
//!   operation --+-- alone -----------------> asking: what the store is asked --> Work
//!               +-- of a batch or of a       groups: its writes wait until
//!                   transaction -----------> the end is known, and are one Work
//! ```
//! An operation that cannot be replayed, or that had no effect in the load, is left out and counted
//! with the reason.
//!
//! Not here: in which lanes work is done (`lanes`), and how a store is asked (`worker`).

mod asking;
mod groups;

use std::collections::BTreeMap;
use std::io::Read;

use evendb_trace::{Kind, Operation, Outcome, Reader};

use super::expiry::Expiry;
use super::report::ReplayReport;
use super::values::Values;
use super::work::{Ask, Part, Work};
use super::{Merges, ReplaySettings, Speed, has_several_keyspaces};
use crate::store::Store;
use crate::stores::keyspaces::{self, KEYSPACE_BYTES};
use asking::NOTHING;
pub(super) use asking::VALUE_BYTES_MAX;
use groups::{Groups, TOO_MANY};

const FAILED: &str = "writes that failed in the trace";
const NOT_COMMITTED: &str = "batches and transactions that were not committed in the trace";
const KEYLESS: &str = "calls without a key";

/// Reasons for which a replay rightly leaves an operation out: in the load it had no effect, or no
/// record.
pub(super) const RIGHTLY: [&str; 4] = [FAILED, NOT_COMMITTED, NOTHING, KEYLESS];

/// Abilities that not every store has.
#[derive(Clone, Copy)]
struct Abilities {
    both_ends: bool,
    /// The merges that were asked for, if the store was opened for them.
    merges: Option<Merges>,
}

/// What takes the work of an operation.
pub(super) type Give<'a> = &'a mut dyn FnMut(Work);

/// See the module.
pub(super) struct Planner {
    with_keyspaces: bool,
    /// The one keyspace, if keys are unchanged.
    only: Option<u32>,
    is_sample: bool,
    without_ends: bool,
    compare: bool,
    value_bytes: usize,
    scan_length: u64,
    /// 1 / speed. None at most speed.
    slowness: Option<f64>,
    abilities: Abilities,
    asked_merges: Option<Merges>,
    groups: Groups,
    left_out: BTreeMap<&'static str, u64>,
    /// The number of scans whose length the trace does not tell.
    unknown_lengths: u64,
    expiry: Expiry,
    values: Values,
    last_nanos: u64,
    /// The time from which the times of this part of the trace count. Without it, they count from
    /// the next operation.
    begin_nanos: Option<u64>,
    taken: u64,
}

impl Planner {
    pub(super) fn new<R: Read>(
        reader: &Reader<R>,
        settings: &ReplaySettings,
        store: &dyn Store,
    ) -> Planner {
        let header = reader.header();
        let has = |merges: &Merges| match merges {
            Merges::Counters => store.counters().is_some(),
            Merges::Appends => store.appending().is_some(),
        };
        Planner {
            abilities: Abilities {
                both_ends: store.both_ends().is_some(),
                merges: settings.merges.filter(has),
            },
            asked_merges: settings.merges,
            with_keyspaces: has_several_keyspaces(reader, settings),
            only: reader.keyspaces().keys().next().copied(),
            is_sample: header.one_in > 1,
            without_ends: header.without_ends,
            compare: settings.compare,
            value_bytes: settings.value_bytes,
            scan_length: settings.scan_length.max(1),
            unknown_lengths: 0,
            expiry: Expiry::default(),
            values: Values::new(header, settings.compare),
            slowness: match settings.speed {
                Speed::Times(speed) => Some(1.0 / speed),
                Speed::Max => None,
            },
            groups: Groups::default(),
            left_out: BTreeMap::new(),
            last_nanos: 0,
            begin_nanos: Some(0),
            taken: 0,
        }
    }

    /// The time of the last operation, from the beginning of the part.
    pub(super) fn last_nanos(&self) -> u64 {
        self.last_nanos
    }

    /// Counts and times begin with the next operation. Open batches and transactions stay.
    pub(super) fn begin_anew(&mut self) {
        self.left_out.clear();
        (self.unknown_lengths, self.expiry.kept) = (0, 0);
        (self.taken, self.last_nanos, self.begin_nanos) = (0, 0, None);
    }

    pub(super) fn finish(self, report: &mut ReplayReport) {
        report.operations_in_trace = self.taken;
        report.left_out = self.left_out;
        report.unknown_lengths = self.unknown_lengths;
        report.kept_for_ever = self.expiry.kept;
        let open = self.groups.unended();
        if open > 0 {
            report
                .left_out
                .insert("batches and transactions without an end", open);
        }
    }

    fn leave_out(&mut self, why: &'static str) {
        *self.left_out.entry(why).or_default() += 1;
    }

    /// Plans an operation: gives the work that the store is asked now.
    pub(super) fn take(&mut self, mut operation: Operation, give: Give<'_>) {
        self.taken += 1;
        let begin = *self.begin_nanos.get_or_insert(operation.start_nanos);
        while let Some((when, key)) = self.expiry.next(operation.start_nanos) {
            let mut over = Operation::new(Kind::Delete, Vec::new());
            over.start_nanos = when.saturating_sub(begin);
            self.give(self.work(&over, Ask::Expire(key), Outcome::Unknown), give);
        }
        let until = operation.ttl_millis.map(|millis| {
            let nanos = millis.saturating_mul(1_000_000);
            operation.start_nanos.saturating_add(nanos)
        });
        operation.start_nanos = operation.start_nanos.saturating_sub(begin);
        self.last_nanos = self.last_nanos.max(operation.start_nanos);
        if !self.with_keyspaces {
            let only = *self.only.get_or_insert(operation.keyspace);
            let has_key = !is_of_group(operation.kind) && operation.kind != Kind::Other;
            if has_key && operation.keyspace != only {
                return self.leave_out("of a keyspace that the trace does not name");
            }
        }
        match operation.kind {
            Kind::Begin | Kind::BatchCommit | Kind::Commit | Kind::Abort => {
                self.end_group(&operation, give);
            }
            Kind::Other => self.other(&operation),
            kind if operation.group != 0
                && (kind.is_point_write() || kind == Kind::DeleteRange) =>
            {
                self.part(operation, until);
            }
            _ => match self.ask(operation, until) {
                Ok(work) => self.give(work, give),
                Err(why) => self.leave_out(why),
            },
        }
    }

    /// Gives work, and follows what it writes.
    fn give(&mut self, work: Work, give: Give<'_>) {
        self.values.ask(&work.ask);
        match &work.ask {
            Ask::Put(key, _, until) => self.expiry.written(key, *until),
            Ask::Delete(key) | Ask::Merge(key, _) => self.expiry.written(key, None),
            Ask::Parts(parts) => {
                for part in parts {
                    match part {
                        Part::Put(key, _, until) => self.expiry.written(key, *until),
                        Part::Delete(key) | Part::Merge(key, _) => self.expiry.written(key, None),
                        Part::DeleteRange(..) => {}
                    }
                }
            }
            // Keys that are deleted with a range or popped may be deleted once more.
            Ask::Get(_)
            | Ask::DeleteRange(..)
            | Ask::Expire(_)
            | Ask::Pop(..)
            | Ask::Scan { .. } => {}
        }
        give(work);
    }

    fn other(&mut self, operation: &Operation) {
        match &operation.key[..] {
            b"savepoint" => self.groups.savepoint(operation),
            b"rollback_to" => self.groups.roll_back(operation),
            _ => self.leave_out(KEYLESS),
        }
    }

    /// A write that counts when its batch or transaction ends.
    fn part(&mut self, operation: Operation, until: Option<u64>) {
        if matches!(operation.outcome, Outcome::Failed(_)) {
            return self.leave_out(FAILED);
        }
        if !self.groups.open(&operation) {
            return self.leave_out(TOO_MANY);
        }
        let number = operation.group;
        match self.ask(operation, until).map(|work| work.ask) {
            Ok(Ask::Put(key, bytes, until)) => {
                self.groups.add(number, Part::Put(key, bytes, until));
            }
            Ok(Ask::Delete(key)) => self.groups.add(number, Part::Delete(key)),
            Ok(Ask::Merge(key, operand)) => self.groups.add(number, Part::Merge(key, operand)),
            Ok(Ask::DeleteRange(low, high)) => {
                self.groups.add(number, Part::DeleteRange(low, high));
            }
            // Only writes come here.
            Ok(_) => {}
            Err(why) => self.leave_out(why),
        }
    }

    fn end_group(&mut self, operation: &Operation, give: Give<'_>) {
        if operation.kind == Kind::Begin {
            return;
        }
        let Some(parts) = self.groups.end(operation.group) else {
            return;
        };
        let is_done = operation.kind != Kind::Abort
            && matches!(operation.outcome, Outcome::Done | Outcome::Unknown);
        if !is_done {
            return self.leave_out(NOT_COMMITTED);
        }
        match parts {
            Ok(parts) if parts.is_empty() => {}
            Ok(parts) => {
                let work = self.work(operation, Ask::Parts(parts), Outcome::Unknown);
                self.give(work, give);
            }
            Err(why) => self.leave_out(why),
        }
    }

    fn work(&self, operation: &Operation, ask: Ask, expected: Outcome) -> Work {
        let due = |slowness: f64| (operation.start_nanos as f64 * slowness) as u64;
        Work {
            due_nanos: self.slowness.map_or(0, due),
            kind: operation.kind,
            ask,
            keyspace: operation.keyspace,
            prefix: if self.with_keyspaces {
                KEYSPACE_BYTES
            } else {
                0
            },
            expected,
            may_miss: operation.outcome == Outcome::Absent
                || operation.older_moment
                || operation.kind == Kind::Scan && operation.count == Some(0),
            may_be_made_up: true,
        }
    }

    fn key(&self, keyspace: u32, key: Vec<u8>) -> Vec<u8> {
        key_in_store(self.with_keyspaces, keyspace, key)
    }

    /// The end of the keys of a keyspace.
    fn end_of(&self, keyspace: u32) -> Option<Vec<u8>> {
        let next = keyspace.checked_add(1).filter(|_| self.with_keyspaces)?;
        Some(keyspaces::prefix(next).to_vec())
    }
}

/// The key in the store for a key of the trace in a keyspace.
pub(crate) fn key_in_store(with_keyspaces: bool, keyspace: u32, key: Vec<u8>) -> Vec<u8> {
    match with_keyspaces {
        false => key,
        true => [&keyspaces::prefix(keyspace)[..], &key].concat(),
    }
}

fn is_of_group(kind: Kind) -> bool {
    kind == Kind::Begin || is_end_of_group(kind)
}

/// Whether it ends a batch or transaction.
pub(super) fn is_end_of_group(kind: Kind) -> bool {
    matches!(kind, Kind::BatchCommit | Kind::Commit | Kind::Abort)
}
