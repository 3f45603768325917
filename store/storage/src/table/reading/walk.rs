//! Steps within a data block, in both directions, with the current key at hand.
//!
//! ```text
//! interval  | row 0 | row 1 | row 2 | row 3 ...      steps = [0, 1, 2], key = that of row 2
//! undo      | what 1 overwrote of 0's key | what 2 overwrote of 1's key |
//! ```
//!
//! Belongs to one cursor. Memory is at most a small multiple of the block, whatever its bytes are.

use crate::table::block::{Block, Row, row_at};
use crate::table::stored::{Decoded, Malformed};
use crate::{EntryRef, Kind, Version};
use std::ops::Range;

/// A position in a block that moves both ways.
///
/// Moving on pushes the bytes of the key that it overwrites, moving back pops them. So a step in
/// either direction costs only the bytes in which two neighbours differ. The step back into the
/// previous interval decodes that interval once. The pushed bytes are never more than the
/// interval's key tails.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub(crate) key: Vec<u8>,
    pub(crate) steps: Vec<Step>,
    pub(crate) undo: Vec<u8>,
    interval: usize,
    interval_end: usize,
}

/// A row that the walk has passed in this interval, and how to get back before it.
#[derive(Debug)]
pub(crate) struct Step {
    /// Bytes kept from the previous key.
    shared: usize,
    /// The place in [`Walk::undo`] of the tail that the previous key lost.
    undo_start: usize,
    version: Version,
    kind: Kind,
    value: Range<usize>,
    end: usize,
}

impl Walk {
    /// The record that it is on, if it is on one. `block` is the block that it walks.
    #[inline]
    pub(crate) fn entry<'a>(&'a self, block: &'a Block) -> Option<EntryRef<'a>> {
        let step = self.steps.last()?;
        let value = &block.bytes()[step.value.clone()];
        Some(EntryRef {
            key: &self.key,
            version: step.version,
            kind: step.kind,
            value,
        })
    }

    /// Range of the current value within the block's bytes.
    pub(crate) fn value(&self) -> Option<Range<usize>> {
        self.steps.last().map(|step| step.value.clone())
    }

    /// Key of the record it is on.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Whether it is on a record.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Whether it is on the block's first row.
    pub(crate) fn is_first(&self) -> bool {
        self.interval == 0 && self.steps.len() == 1
    }

    /// Off every record.
    pub(crate) fn clear(&mut self) {
        self.steps.clear();
        self.undo.clear();
        self.key.clear();
    }

    /// To the first row of the block.
    pub(crate) fn first(&mut self, block: &Block) -> Decoded<()> {
        self.enter(block, 0)
    }

    /// To the last row of the block.
    pub(crate) fn last(&mut self, block: &Block) -> Decoded<()> {
        self.enter(block, block.restarts() - 1)?;
        self.run_to_interval_end(block)
    }

    /// To the first row with key `>= key`; `false` (on the last row) if there is none.
    pub(crate) fn seek(&mut self, block: &Block, key: &[u8]) -> Decoded<bool> {
        let interval = block.last_restart(|found, _| found < key)?;
        self.enter(block, interval)?;
        while self.key.as_slice() < key {
            if !self.advance(block)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// To the next row; `false`, without moving, on the last.
    pub(crate) fn advance(&mut self, block: &Block) -> Decoded<bool> {
        if self.advance_in_interval(block)? {
            return Ok(true);
        }
        if self.interval + 1 >= block.restarts() {
            return Ok(false);
        }
        self.enter(block, self.interval + 1)?;
        Ok(true)
    }

    /// To the previous row; `false`, without moving, on the first.
    pub(crate) fn retreat(&mut self, block: &Block) -> Decoded<bool> {
        if self.steps.len() > 1 {
            if let Some(step) = self.steps.pop() {
                self.key.truncate(step.shared);
                self.key.extend_from_slice(&self.undo[step.undo_start..]);
                self.undo.truncate(step.undo_start);
            }
            return Ok(true);
        }
        if self.interval == 0 {
            return Ok(false);
        }
        self.enter(block, self.interval - 1)?;
        self.run_to_interval_end(block)?;
        Ok(true)
    }

    fn run_to_interval_end(&mut self, block: &Block) -> Decoded<()> {
        while self.advance_in_interval(block)? {}
        Ok(())
    }

    /// To the first row of an interval.
    fn enter(&mut self, block: &Block, interval: usize) -> Decoded<()> {
        self.clear();
        let (start, end) = (block.restart(interval), block.restart(interval + 1));
        if start >= end || end > block.rows_end() {
            return Err(Malformed("restart points out of order"));
        }
        self.interval = interval;
        self.interval_end = end;
        let row = block.restart_row(interval)?;
        self.push(block, row)
    }

    fn advance_in_interval(&mut self, block: &Block) -> Decoded<bool> {
        match self.steps.last() {
            Some(step) if step.end < self.interval_end => {
                let row = row_at(block.rows(), step.end)?;
                self.push(block, row)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn push(&mut self, block: &Block, row: Row) -> Decoded<()> {
        if row.shared > self.key.len() {
            return Err(Malformed("row shares more than the key before it has"));
        }
        if row.end > self.interval_end {
            return Err(Malformed("row crosses a restart point"));
        }
        let undo_start = self.undo.len();
        self.undo.extend_from_slice(&self.key[row.shared..]);
        self.key.truncate(row.shared);
        self.key.extend_from_slice(&block.bytes()[row.tail]);
        let Row {
            shared,
            value,
            version,
            kind,
            end,
            ..
        } = row;
        self.steps.push(Step {
            shared,
            undo_start,
            version,
            kind,
            value,
            end,
        });
        Ok(())
    }
}
