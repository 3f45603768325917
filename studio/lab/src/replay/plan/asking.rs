//! [`Planner::ask`]: what an operation is for the store, or why it cannot be asked.

use evendb_trace::{Kind, Operation, Outcome};

use super::{FAILED, Planner};
use crate::purposes::{COUNTER_BYTES, RangeEnd};
use crate::replay::Merges;
use crate::replay::values::Source;
use crate::replay::work::{Ask, Bytes, Range, Work};

/// A trace says how long values are. A value longer than this is not made. EvenDB's own limit is
/// the memory budget.
pub(in crate::replay) const VALUE_BYTES_MAX: u64 = 64 << 20;

/// A limit of records from here on is no limit.
const UNLIMITED: u64 = u32::MAX as u64;

const TOO_LONG: &str = "values above 64 MiB";
pub(super) const NOTHING: &str = "scans that asked for nothing";

impl Planner {
    /// What the operation is for the store, or why it cannot be asked.
    pub(super) fn ask(
        &mut self,
        mut operation: Operation,
        until: Option<u64>,
    ) -> Result<Work, &'static str> {
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
            Kind::Pop => {
                expected = self.expected(&operation);
                self.pop(&operation, between(key, end))?
            }
            Kind::Scan => self.scan(&operation, between(key, end))?,
            _ => return Err("kinds that this program does not know"),
        };
        let mut work = self.work(&operation, ask, expected);
        work.may_be_made_up = may_be_made_up;
        Ok(work)
    }

    fn pop(&self, operation: &Operation, range: Range) -> Result<Ask, &'static str> {
        if !self.abilities.both_ends {
            return Err("pops");
        }
        if self.is_sample {
            // The sample has the least key of the range, and not the key that was popped.
            return Err("pops of a sample of keys");
        }
        Ok(Ask::Pop(range, begins_at(operation)))
    }

    fn scan(&mut self, operation: &Operation, range: Range) -> Result<Ask, &'static str> {
        if operation.reverse && !self.abilities.both_ends {
            return Err("scans in reverse");
        }
        let limit = self.scan_limit(operation, range.high.is_some())?;
        // For a scan that found nothing, nobody knows whether it was asked for a record.
        let is_known = operation.limit.is_some() || operation.count != Some(0);
        let is_now = !operation.older_moment && !self.is_sample;
        Ok(Ask::Scan {
            range,
            begins: begins_at(operation),
            limit,
            expected: operation
                .count
                .filter(|_| self.compare && is_now && is_known),
        })
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
}

fn between(low: Vec<u8>, high: Option<Vec<u8>>) -> Range {
    Range { low, high }
}

/// The end of its range at which it begins.
fn begins_at(operation: &Operation) -> RangeEnd {
    match operation.reverse {
        true => RangeEnd::Last,
        false => RangeEnd::First,
    }
}
