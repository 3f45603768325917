//! Which bytes were asked for before they were read, and which bytes were read.

use super::names::InodeId;
use std::collections::HashMap;
use std::ops::Range;

/// Counts of [`SimVfs::read_ahead`](super::SimVfs::read_ahead).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadAheadCounts {
    /// Bytes that reads asked for.
    pub read: u64,
    /// The part of these bytes that was asked for ahead.
    pub read_as_asked: u64,
    /// Bytes that were asked for ahead. Bytes that were asked for already, and not read since, do
    /// not count again.
    pub asked: u64,
}

/// The hints of one boot. Bytes that were read no longer count as asked for.
#[derive(Debug, Default)]
pub(super) struct Hints {
    asked: HashMap<InodeId, Vec<Range<u64>>>,
    pub(super) counts: ReadAheadCounts,
}

impl Hints {
    pub(super) fn note_asked(&mut self, id: InodeId, offset: u64, len: u64) {
        let asked = self.asked.entry(id).or_default();
        let new = offset..offset.saturating_add(len);
        // Overlapping ranges become one range.
        let (near, mut ranges): (Vec<_>, Vec<_>) = std::mem::take(asked)
            .into_iter()
            .partition(|range| range.start <= new.end && new.start <= range.end);
        let known = |range: &Range<u64>| {
            let (start, end) = (range.start.max(new.start), range.end.min(new.end));
            end.saturating_sub(start)
        };
        self.counts.asked += len - near.iter().map(known).sum::<u64>();
        let joined = near.into_iter().fold(new, |all, range| {
            all.start.min(range.start)..all.end.max(range.end)
        });
        ranges.push(joined);
        *asked = ranges;
    }

    pub(super) fn note_read(&mut self, id: InodeId, offset: u64, len: u64) {
        self.counts.read += len;
        let Some(asked) = self.asked.get_mut(&id) else {
            return;
        };
        let read = offset..offset.saturating_add(len);
        let mut left = Vec::with_capacity(asked.len());
        for range in asked.drain(..) {
            let (start, end) = (range.start.max(read.start), range.end.min(read.end));
            if start >= end {
                left.push(range);
                continue;
            }
            self.counts.read_as_asked += end - start;
            let rest = [range.start..start, end..range.end];
            left.extend(rest.into_iter().filter(|rest| !rest.is_empty()));
        }
        *asked = left;
    }
}
