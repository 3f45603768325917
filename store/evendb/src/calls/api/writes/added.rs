//! What was added to a batch, in the order in which it was added.

use crate::folding::operands_of;
use crate::record::RecordRef;
use evendb_storage::Kind;
use evendb_trace::{Call, Kind as Asked};

/// The effect that a [`Batch`](crate::Batch) will have on a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BatchWrite<'a> {
    /// It sets this value.
    Put(&'a [u8]),
    /// It removes the key.
    Delete,
    /// It merges this operand.
    Merge(&'a [u8]),
    /// It removes all keys from the key in the item up to below this one, or to the end.
    /// [`Batch::iter`](crate::Batch::iter) gives it.
    DeleteRange(Option<&'a [u8]>),
}

/// One write, with what places it for nearly all keys without a look at the record.
pub(super) struct Write {
    pub(super) key_head: u64,
    /// 0 for the default keyspace, n for the keyspace with index n - 1 in the batch's `others`.
    pub(super) keyspace: u32,
    pub(super) record: RecordRef,
}

impl Write {
    pub(super) fn as_batch_write(&self) -> BatchWrite<'_> {
        match self.record.kind() {
            Kind::Delete | Kind::SingleDelete => BatchWrite::Delete,
            // Values go apart when the batch is committed.
            kind @ (Kind::Put | Kind::PutUntil | Kind::PutApart | Kind::PutUntilApart) => {
                BatchWrite::Put(&self.record.value()[kind.prefix_bytes()..])
            }
            Kind::Merge => {
                // Each write has one operand until the commit.
                let mut operands = operands_of(self.record.value());
                BatchWrite::Merge(operands.next().unwrap_or_default())
            }
        }
    }

    /// The write as a trace has it.
    pub(super) fn as_call(&self, keyspace: u32) -> Call<'_> {
        let (asked, value) = match self.as_batch_write() {
            BatchWrite::Put(value) => (Asked::Put, Some(value)),
            BatchWrite::Merge(operand) => (Asked::Merge, Some(operand)),
            BatchWrite::DeleteRange(_) => (Asked::DeleteRange, None),
            BatchWrite::Delete if self.record.kind() == Kind::SingleDelete => {
                (Asked::SingleDelete, None)
            }
            BatchWrite::Delete => (Asked::Delete, None),
        };
        let mut call = Call::new(asked, keyspace, self.record.key());
        call.value_len = value.map(|value| value.len() as u64);
        call.value = value;
        call
    }
}

/// A range deletion, and the number of writes that came before it.
pub(super) struct RangeWrite {
    pub(super) keyspace: u32,
    pub(super) low: Vec<u8>,
    pub(super) high: Option<Vec<u8>>,
    pub(super) after: usize,
}

/// One addition to a batch.
pub(super) enum Added<'b> {
    Write(&'b Write),
    Range(&'b RangeWrite),
}

/// The additions in their order, from both ends.
pub(super) struct InOrder<'b> {
    pub(super) writes: &'b [Write],
    pub(super) ranges: &'b [RangeWrite],
    /// The index of the first of `writes` among all writes.
    pub(super) first: usize,
}

impl<'b> Iterator for InOrder<'b> {
    type Item = Added<'b>;

    fn next(&mut self) -> Option<Added<'b>> {
        if let Some((range, rest)) = self.ranges.split_first()
            && range.after <= self.first
        {
            self.ranges = rest;
            return Some(Added::Range(range));
        }
        let (write, rest) = self.writes.split_first()?;
        self.writes = rest;
        self.first += 1;
        Some(Added::Write(write))
    }
}

impl DoubleEndedIterator for InOrder<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if let Some((range, rest)) = self.ranges.split_last()
            && range.after >= self.first + self.writes.len()
        {
            self.ranges = rest;
            return Some(Added::Range(range));
        }
        let (write, rest) = self.writes.split_last()?;
        self.writes = rest;
        Some(Added::Write(write))
    }
}
