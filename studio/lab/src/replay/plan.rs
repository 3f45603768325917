//! What each operation of a trace is for a store of the lab, and in which lanes.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use evendb_trace::{Kind, Operation, Outcome, Reader};

use super::expiry::Expiry;
use super::lanes::Lanes;
use super::report::ReplayReport;
use super::values::{Source, Values};
use super::{Merges, ReplaySettings, Speed, has_several_keyspaces};
use crate::purposes::{COUNTER_BYTES, RangeEnd};
use crate::random::mix64;
use crate::store::Store;

/// The highest number of open transactions and batches. A torn trace would keep its open ones for
/// ever.
const GROUPS_MAX: usize = 100_000;
/// The highest number of bytes for all their parts together. A part beyond that is left out, with
/// its batch or transaction.
const PARTS_BYTES_MAX: usize = 256 << 20;
/// A trace says how long values are. A value longer than this is not made. EvenDB's own limit is
/// the memory budget.
pub(super) const VALUE_BYTES_MAX: u64 = 64 << 20;

/// A limit of records from here on is no limit.
const UNLIMITED: u64 = u32::MAX as u64;

/// Bytes of a keyspace's number in front of a key.
const KEYSPACE_BYTES: usize = 4;

const SAVEPOINT_BYTES: usize = size_of::<(u64, usize)>();

const TOO_LONG: &str = "values above 64 MiB";
const TOO_MANY: &str = "parts of too many batches and transactions at once";
const FAILED: &str = "writes that failed in the trace";
const NOT_COMMITTED: &str = "batches and transactions that were not committed in the trace";
const NOTHING: &str = "scans that asked for nothing";
const KEYLESS: &str = "calls without a key";

/// Reasons for which a replay rightly leaves an operation out: in the load it had no effect, or no
/// record.
pub(super) const RIGHTLY: [&str; 4] = [FAILED, NOT_COMMITTED, NOTHING, KEYLESS];

/// What the store is asked.
pub(super) struct Work {
    /// When it is due, in nanoseconds since the start. 0 if operations are not due at times.
    pub(super) due_nanos: u64,
    /// The kind that counts it.
    pub(super) kind: Kind,
    pub(super) ask: Ask,
    pub(super) keyspace: u32,
    /// Bytes in front of each key that are not the trace's.
    prefix: usize,
    /// Its result in the trace, as far as that can be compared.
    pub(super) expected: Outcome,
    /// It may find nothing, or no record: the trace says so, or the trace saw another moment or a
    /// transaction's own writes.
    pub(super) may_miss: bool,
    /// The bytes that it finds may be made up.
    pub(super) may_be_made_up: bool,
}

impl Work {
    /// A key of it as in the trace.
    pub(super) fn bare_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        key.get(self.prefix..).unwrap_or_default()
    }
}

pub(super) enum Ask {
    Get(Vec<u8>),
    /// A value, and its time of expiry in nanoseconds from the beginning of the trace, if it does
    /// not stay for ever.
    Put(Vec<u8>, Bytes, Option<u64>),
    Delete(Vec<u8>),
    /// From a key to below another key, or to the last one of all.
    DeleteRange(Vec<u8>, Option<Vec<u8>>),
    Merge(Vec<u8>, Bytes),
    /// The value of this key has expired, by the time to live in the trace.
    Expire(Vec<u8>),
    /// The record at an end of a range.
    Pop(Range, RangeEnd),
    /// A batch or transaction: its parts, in their order.
    Parts(Vec<Part>),
    /// At most `limit` records of the range, from this end of it on. The trace had `expected`
    /// records.
    Scan {
        range: Range,
        begins: RangeEnd,
        limit: u64,
        expected: Option<u64>,
    },
}

/// From a key on, to below another one.
pub(super) struct Range {
    pub(super) low: Vec<u8>,
    pub(super) high: Option<Vec<u8>>,
}

impl Range {
    /// The limits in the form that stores take.
    pub(super) fn limits(&self) -> (&[u8], Option<&[u8]>) {
        (&self.low, self.high.as_deref())
    }
}

/// A value: that of the trace, or a made-up one of this length.
pub(super) enum Bytes {
    Known(Vec<u8>),
    Len(usize),
}

impl Bytes {
    pub(super) fn len(&self) -> usize {
        match self {
            Bytes::Known(value) => value.len(),
            Bytes::Len(len) => *len,
        }
    }
}

/// One write of a batch or transaction.
pub(super) enum Part {
    Put(Vec<u8>, Bytes, Option<u64>),
    Delete(Vec<u8>),
    Merge(Vec<u8>, Bytes),
    DeleteRange(Vec<u8>, Option<Vec<u8>>),
}

impl Part {
    /// The key that it writes, if it writes a single one.
    fn key(&self) -> Option<&[u8]> {
        match self {
            Part::Put(key, ..) | Part::Delete(key) | Part::Merge(key, _) => Some(key),
            Part::DeleteRange(..) => None,
        }
    }

    /// The estimated bytes of memory that it takes.
    fn bytes(&self) -> usize {
        let known = |bytes: &Bytes| match bytes {
            Bytes::Known(value) => value.len(),
            Bytes::Len(_) => 0,
        };
        size_of::<Part>()
            + match self {
                Part::Put(key, value, _) | Part::Merge(key, value) => key.len() + known(value),
                Part::Delete(key) => key.len(),
                Part::DeleteRange(low, high) => low.len() + high.as_ref().map_or(0, Vec::len),
            }
    }
}

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
    open: HashMap<u64, Group>,
    open_bytes: usize,
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

#[derive(Default)]
struct Group {
    parts: Vec<Part>,
    bytes: usize,
    /// Savepoints that are still there: their numbers, and the number of parts before each.
    savepoints: Vec<(u64, usize)>,
    /// The reason why it cannot be replayed.
    left_out: Option<&'static str>,
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
            open: HashMap::new(),
            open_bytes: 0,
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
        let is_done = operation.outcome == Outcome::Done;
        match (&operation.key[..], self.open.get_mut(&operation.group)) {
            (b"savepoint", _) => self.savepoint(operation),
            (b"rollback_to", Some(group)) if is_done => {
                self.open_bytes -= group.bytes;
                group.roll_back_to(operation.count);
                self.open_bytes += group.bytes;
            }
            (b"rollback_to", _) => {}
            _ => self.leave_out(KEYLESS),
        }
    }

    fn savepoint(&mut self, operation: &Operation) {
        let (Some(number), Some(group)) = (operation.count, self.group_of(operation)) else {
            return;
        };
        group.savepoints.push((number, group.parts.len()));
        self.take_room(operation.group, SAVEPOINT_BYTES);
    }

    /// The batch or transaction of an operation. `None` if that would be one too many.
    fn group_of(&mut self, operation: &Operation) -> Option<&mut Group> {
        let number = operation.group;
        let has_room = self.open.len() < GROUPS_MAX || self.open.contains_key(&number);
        (number != 0 && has_room).then(|| self.open.entry(number).or_default())
    }

    /// Counts the new bytes of a group. A group for which there is no room is left out.
    fn take_room(&mut self, number: u64, bytes: usize) {
        let Some(group) = self.open.get_mut(&number) else {
            return;
        };
        group.bytes += bytes;
        self.open_bytes += bytes;
        if self.open_bytes > PARTS_BYTES_MAX {
            self.open_bytes -= group.bytes;
            *group = Group {
                left_out: Some(TOO_MANY),
                ..Group::default()
            };
        }
    }

    /// A write that counts when its batch or transaction ends.
    fn part(&mut self, operation: Operation, until: Option<u64>) {
        if matches!(operation.outcome, Outcome::Failed(_)) {
            return self.leave_out(FAILED);
        }
        if self.group_of(&operation).is_none() {
            return self.leave_out(TOO_MANY);
        }
        let number = operation.group;
        let part = match self.ask(operation, until).map(|work| work.ask) {
            Ok(Ask::Put(key, bytes, until)) => Part::Put(key, bytes, until),
            Ok(Ask::Delete(key)) => Part::Delete(key),
            Ok(Ask::Merge(key, operand)) => Part::Merge(key, operand),
            Ok(Ask::DeleteRange(low, high)) => Part::DeleteRange(low, high),
            // Only writes come here.
            Ok(_) => return,
            Err(why) => return self.leave_out(why),
        };
        let bytes = part.bytes();
        if let Some(group) = self.open.get_mut(&number) {
            group.parts.push(part);
        }
        self.take_room(number, bytes);
    }

    fn end_group(&mut self, operation: &Operation, give: Give<'_>) {
        if operation.kind == Kind::Begin {
            return;
        }
        let Some(group) = self.open.remove(&operation.group) else {
            return;
        };
        self.open_bytes -= group.bytes;
        let is_done = operation.kind != Kind::Abort
            && matches!(operation.outcome, Outcome::Done | Outcome::Unknown);
        if !is_done {
            return self.leave_out(NOT_COMMITTED);
        }
        if let Some(why) = group.left_out {
            return self.leave_out(why);
        }
        if !group.parts.is_empty() {
            let ask = Ask::Parts(group.parts);
            let work = self.work(operation, ask, Outcome::Unknown);
            self.give(work, give);
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

    /// What the operation is for the store, or why it cannot be asked.
    fn ask(&mut self, mut operation: Operation, until: Option<u64>) -> Result<Work, &'static str> {
        let keyspace = operation.keyspace;
        let key = self.key(keyspace, std::mem::take(&mut operation.key));
        if operation.kind == Kind::DeleteRange && operation.end_key.is_none() && self.without_ends {
            return Err("deletions of ranges whose end the trace has lost");
        }
        let end = operation.end_key.take();
        let end = end.map(|end| self.key(keyspace, end));
        let end = end.or_else(|| self.end_of(keyspace));
        let has_failed = matches!(operation.outcome, Outcome::Failed(_));
        let writes = matches!(operation.kind, Kind::DeleteRange | Kind::Pop);
        if has_failed && (writes || operation.kind.is_point_write()) {
            return Err(FAILED);
        }
        let mut expected = Outcome::Unknown;
        let mut may_be_made_up = true;
        let ask = match operation.kind {
            Kind::Get | Kind::Contains | Kind::GetForUpdate | Kind::MultiGet => {
                expected = self.expected(&operation);
                may_be_made_up = self.source(&key, &mut expected) == Source::MadeUp;
                Ask::Get(key)
            }
            Kind::Put | Kind::Ingest => Ask::Put(key, self.value(&mut operation)?, until),
            Kind::Merge => Ask::Merge(key, self.operand(&mut operation)?),
            Kind::Delete | Kind::SingleDelete => Ask::Delete(key),
            Kind::DeleteRange => match end {
                // Some stores refuse these.
                Some(end) if end < key => {
                    return Err("deletions of ranges that end before they begin");
                }
                end => Ask::DeleteRange(key, end),
            },
            Kind::Pop if !self.abilities.both_ends => return Err("pops"),
            // The sample has the least key of the range, and not the key that was popped.
            Kind::Pop if self.is_sample => return Err("pops of a sample of keys"),
            Kind::Pop => {
                expected = self.expected(&operation);
                Ask::Pop(
                    Range {
                        low: key,
                        high: end,
                    },
                    begins_at(&operation),
                )
            }
            Kind::Scan if operation.reverse && !self.abilities.both_ends => {
                return Err("scans in reverse");
            }
            Kind::Scan => {
                let limit = self.scan_limit(&operation, end.is_some())?;
                // For a scan that found nothing, nobody knows whether it was asked for a record.
                let is_known = operation.limit.is_some() || operation.count != Some(0);
                let is_now = !operation.older_moment && !self.is_sample;
                Ask::Scan {
                    range: Range {
                        low: key,
                        high: end,
                    },
                    begins: begins_at(&operation),
                    limit,
                    expected: operation
                        .count
                        .filter(|_| self.compare && is_now && is_known),
                }
            }
            _ => return Err("kinds that this program does not know"),
        };
        let mut work = self.work(&operation, ask, expected);
        work.may_be_made_up = may_be_made_up;
        Ok(work)
    }

    /// The origin of a key's value. What cannot be found again is no longer expected.
    fn source(&self, key: &[u8], expected: &mut Outcome) -> Source {
        let Outcome::Present { hash, .. } = expected else {
            return Source::MadeUp;
        };
        let source = self.values.source(key);
        if source == Source::Mixed {
            *hash = None;
        }
        source
    }

    /// The number of records that a scan asks for. A scan without a limit and an end was ended by
    /// its caller, after the counted records. If neither is known, it may have read one record or
    /// all.
    fn scan_limit(&mut self, operation: &Operation, has_end: bool) -> Result<u64, &'static str> {
        match (operation.limit, operation.count) {
            (Some(0), _) => Err(NOTHING),
            (Some(limit), Some(count)) if limit >= UNLIMITED && !has_end => Ok(count.max(1)),
            (Some(limit), _) if limit < UNLIMITED || has_end => Ok(limit),
            (_, Some(count)) => Ok(count.max(1)),
            (_, None) => {
                self.unknown_lengths += 1;
                Ok(self.scan_length)
            }
        }
    }

    fn expected(&self, operation: &Operation) -> Outcome {
        match self.compare && !operation.older_moment {
            true => operation.outcome,
            false => Outcome::Unknown,
        }
    }

    /// The value that is put, or its length.
    fn value(&self, operation: &mut Operation) -> Result<Bytes, &'static str> {
        if let Some(value) = operation.value.take() {
            return Ok(Bytes::Known(value));
        }
        let len = operation.value_len.unwrap_or(self.value_bytes as u64);
        match len <= VALUE_BYTES_MAX {
            true => Ok(Bytes::Len(len as usize)),
            false => Err(TOO_LONG),
        }
    }

    fn operand(&self, operation: &mut Operation) -> Result<Bytes, &'static str> {
        let merges = match (self.abilities.merges, self.asked_merges) {
            (Some(merges), _) => merges,
            (None, Some(_)) => return Err("merges, which the store does not have"),
            (None, None) => return Err("merges"),
        };
        if merges == Merges::Counters && operation.value.is_none() {
            // A value whose length the trace does not tell is taken to be a counter.
            operation.value_len.get_or_insert(COUNTER_BYTES as u64);
        }
        let value = self.value(operation)?;
        match merges == Merges::Counters && value.len() != COUNTER_BYTES {
            true => Err("merges of what is no counter"),
            false => Ok(value),
        }
    }

    fn key(&self, keyspace: u32, key: Vec<u8>) -> Vec<u8> {
        key_in_store(self.with_keyspaces, keyspace, key)
    }

    /// The end of the keys of a keyspace.
    fn end_of(&self, keyspace: u32) -> Option<Vec<u8>> {
        let next = keyspace.checked_add(1).filter(|_| self.with_keyspaces)?;
        Some(number_that_sorts(next).to_vec())
    }
}

/// The key in the store for a key of the trace in a keyspace.
pub(super) fn key_in_store(with_keyspaces: bool, keyspace: u32, key: Vec<u8>) -> Vec<u8> {
    match with_keyspaces {
        false => key,
        true => [&number_that_sorts(keyspace)[..], &key].concat(),
    }
}

fn is_of_group(kind: Kind) -> bool {
    kind == Kind::Begin || is_end_of_group(kind)
}

/// Whether it ends a batch or transaction.
pub(super) fn is_end_of_group(kind: Kind) -> bool {
    matches!(kind, Kind::BatchCommit | Kind::Commit | Kind::Abort)
}

fn number_that_sorts(number: u32) -> [u8; KEYSPACE_BYTES] {
    [24, 16, 8, 0].map(|shift| (number >> shift) as u8)
}

/// The end of its range at which it begins.
fn begins_at(operation: &Operation) -> RangeEnd {
    match operation.reverse {
        true => RangeEnd::Last,
        false => RangeEnd::First,
    }
}

impl Group {
    fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Goes back to a savepoint, which stays. 0: to before the first part. Unknown: the trace does
    /// not number its savepoints.
    fn roll_back_to(&mut self, number: Option<u64>) {
        let mut savepoints = self.savepoints.iter();
        let (savepoints, parts) = match number {
            Some(0) => (0, 0),
            number => match savepoints.rposition(|(known, _)| Some(*known) == number) {
                Some(at) => (at + 1, self.savepoints[at].1),
                None => {
                    self.left_out = Some("transactions that went back to an unknown savepoint");
                    return;
                }
            },
        };
        self.savepoints.truncate(savepoints);
        self.parts.truncate(parts);
        self.bytes =
            self.parts.iter().map(Part::bytes).sum::<usize>() + savepoints * SAVEPOINT_BYTES;
    }
}

/// The lane of a key.
fn lane_of(key: &[u8], lanes: usize) -> usize {
    (mix64(evendb_trace::value_hash(key)) % lanes as u64) as usize
}

/// Gives work to its lane, or to all lanes that it concerns.
pub(super) fn to_lanes(work: Work, lanes: &mut Lanes) {
    let count = lanes.count();
    let key = match &work.ask {
        Ask::Get(key)
        | Ask::Put(key, ..)
        | Ask::Delete(key)
        | Ask::Expire(key)
        | Ask::Merge(key, _) => Some(&key[..]),
        Ask::Scan { range, .. } => Some(&range.low[..]),
        Ask::DeleteRange(..) | Ask::Pop(..) | Ask::Parts(_) => None,
    };
    if let Some(key) = key {
        return lanes.add(lane_of(key, count), work);
    }
    let keys: Option<Vec<_>> = match &work.ask {
        Ask::Parts(parts) => parts.iter().map(Part::key).collect(),
        _ => None,
    };
    let mut of: Vec<_> = match keys {
        Some(keys) => keys.iter().map(|key| lane_of(key, count)).collect(),
        // Any key may be in a range.
        None => (0..count).collect(),
    };
    of.sort_unstable();
    of.dedup();
    lanes.add_together(&of, work);
}
