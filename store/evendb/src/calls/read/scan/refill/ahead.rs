//! Reading ahead for a long scan: the system is asked for the next data while records are given
//! out.
//!
//! ```text
//!   position of the end           at
//!        | step | step | in RAM | step |  next step
//!        |<------- window ------------>|
//!                 chunk        ^ border of a chunk, of a table, of spans that are in RAM
//! ```
//! A [`TableCursor`](evendb_storage::table::TableCursor) asks for its own next blocks, up to the
//! end of its table. This module goes beyond that end: a step is a stretch of keys, and all tables
//! of its chunk are asked for their part of it, before any of them is read. Tables that are not
//! open are asked for their ends first, and opened one refill later. Stretches that are in RAM, or
//! hidden by range deletions, are passed over.
//!
//! Invariants: a scan that has read little asks for nothing ([`FROM_BYTES`]). A window is no larger
//! than [`WINDOW_BYTES`], and no larger than what the scan is expected to read: half of what it has
//! read, unless scans usually read more. So when a scan stops, at most a third of what was read for
//! it was asked for in vain, beyond what usual scans read. Nothing waits for a hint and nothing
//! rests on one: a cursor that is dropped leaves no trace except reads that end by themselves.
//!
//! Thread safety: belongs to one end of a cursor. Takes no pin while it opens tables. Not here:
//! reading.

use super::plan::{RefillPlan, Source, chunk_at, chunk_limit, plan_refill};
use crate::catalog::KeyspaceState;
use crate::error::Result;
use crate::funk::Funk;
use crate::memory_policy::MemoryPolicy;
use crate::read::end::End;
use crate::read::tables::{Direction, chain_index};
use crate::sync::{Arc, reclaim};
use crate::tables::TableHandle;
use evendb_storage::codec::successor;
use evendb_storage::{TableId, Version};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// A scan that has read fewer bytes from disk is short, and nothing is read ahead for it.
const FROM_BYTES: u64 = 128 << 10;
/// The largest number of bytes that are asked for ahead of a scan; the second one holds while
/// buffers take much memory.
const WINDOW_BYTES: u64 = 1 << 20;
const WINDOW_BYTES_SHORT: u64 = 128 << 10;
/// Bytes of one step, and the fewest bytes for which a step is made.
const STEP_BYTES: u64 = 256 << 10;
const STEP_BYTES_MIN: u64 = 64 << 10;
/// The largest number of steps in one refill.
const STEPS_MAX: usize = 8;
/// The bytes that a stretch in RAM counts for, so that the window does not reach far behind it.
const IN_RAM_BYTES: u64 = STEP_BYTES;
/// The number of tables of a chain, behind the table being read, whose ends are asked for.
const TABLES_AHEAD: usize = 2;
/// The largest number of remembered names of tables.
const OPENING_MAX: usize = 256;

/// The stretches that were asked for and not read yet.
#[derive(Default)]
pub(crate) struct Ahead {
    /// The end of the keys that were asked for: forward the keys below it, backward the keys from
    /// it on.
    at: Option<Vec<u8>>,
    /// Ends of the steps that the scan has not passed, and the bytes of all these steps.
    steps: VecDeque<(Vec<u8>, u64)>,
    bytes: u64,
    /// Tables whose ends were asked for.
    opening: Vec<TableId>,
    /// Nothing is left to ask for.
    ended: bool,
}

/// The range that a scan covers.
pub(crate) struct ScanRange<'a> {
    pub(crate) direction: Direction,
    pub(crate) low: &'a [u8],
    pub(crate) high: Option<&'a [u8]>,
    pub(crate) at: Version,
}

/// Called after a refill: asks for what the next refills will read, if the scan is long enough.
pub(crate) fn look_ahead(
    memory: &MemoryPolicy,
    keyspace: &KeyspaceState,
    end: &mut End,
    range: &ScanRange<'_>,
) {
    if end.from_disk < FROM_BYTES || end.exhausted {
        return;
    }
    let Some(position) = end.position.as_deref() else {
        return;
    };
    let usual = keyspace.usual_scan().unwrap_or(0);
    let window = match memory.buffers_are_short() {
        true => WINDOW_BYTES_SHORT,
        false => WINDOW_BYTES,
    };
    let window = window.min(end.bytes_expected(usual));
    let mut ahead = end.ahead.take().unwrap_or_default();
    ahead.pass(range.direction, position);
    for _ in 0..STEPS_MAX {
        let room = window.saturating_sub(ahead.bytes);
        // An error here comes again where the scan reads the table.
        if ahead.ended
            || room < STEP_BYTES_MIN
            || !ahead
                .step(keyspace, range, room.min(STEP_BYTES))
                .unwrap_or(false)
        {
            break;
        }
    }
    end.ahead = Some(ahead);
}

impl Ahead {
    /// Drops the steps that the scan has passed.
    fn pass(&mut self, direction: Direction, position: &[u8]) {
        let passed = |key: &[u8]| match direction {
            Direction::Forward => *key <= *position,
            Direction::Backward => *key >= *position,
        };
        while self.steps.front().is_some_and(|(to, _)| passed(to)) {
            let bytes = self.steps.pop_front().map_or(0, |(_, bytes)| bytes);
            self.bytes -= bytes;
        }
        if self.at.as_deref().is_none_or(passed) {
            self.at = Some(position.to_vec());
        }
    }

    /// Asks for a stretch of about `bytes` bytes. Returns whether another step may follow at once.
    fn step(
        &mut self,
        keyspace: &KeyspaceState,
        range: &ScanRange<'_>,
        bytes: u64,
    ) -> Result<bool> {
        let guard = reclaim::pin();
        let index = keyspace.index.load(&guard);
        let (direction, from) = (range.direction, self.at.as_deref());
        let Some(chunk) = chunk_at(index.get(), direction, from) else {
            self.ended = true;
            return Ok(false);
        };
        let limit = chunk_limit(chunk, direction, range.low, range.high);
        let view = chunk.view.load(&guard);
        let RefillPlan { source, to, last } =
            plan_refill(view.get(), direction, from, range.at, limit);
        let stretch = match source {
            Source::Nothing | Source::Munk(_) | Source::TablesFrom(_) => Some((None, IN_RAM_BYTES)),
            Source::Funk => {
                let view = view.counted();
                drop(guard);
                self.ask(&view.funk, direction, to.as_deref(), bytes)?
            }
        };
        let Some((end, asked)) = stretch else {
            return Ok(false);
        };
        self.ended = end.is_none() && last;
        if let Some(end) = end.or(to) {
            self.steps.push_back((end.clone(), asked));
            self.bytes += asked;
            self.at = Some(end);
        }
        Ok(true)
    }

    /// Asks the tables for a stretch of keys from here to at most `to`. Returns where the stretch
    /// ends, if it ends before `to`, and how many bytes it has. `None` means that tables have to be
    /// opened, and that their ends are asked for now.
    fn ask(
        &mut self,
        funk: &Funk,
        direction: Direction,
        to: Option<&[u8]>,
        bytes: u64,
    ) -> Result<Option<(Option<Vec<u8>>, u64)>> {
        let from = self.at.clone();
        let (low, high) = match direction {
            Direction::Forward => (from.as_deref(), to),
            Direction::Backward => (to, from.as_deref()),
        };
        let runs = || {
            let runs = funk.runs.iter().map(|run| &run.table);
            runs.filter(|table| overlaps(table, low, high))
        };
        let mut below: SmallVec<[&Arc<TableHandle>; 1]> = SmallVec::new();
        let mut behind: SmallVec<[&Arc<TableHandle>; TABLES_AHEAD]> = SmallVec::new();
        for chain in funk.chains() {
            let Some(first) = chain_index(chain, from.as_deref(), direction) else {
                continue;
            };
            let table = chain.get(first);
            if let Some(table) = table.filter(|table| overlaps(table, low, high)) {
                below.push(table);
                behind.extend(tables_behind(chain, first, direction));
            }
        }
        let data_bytes = |table: &&Arc<TableHandle>| table.part.meta.data_bytes;
        let lead = below.iter().copied().max_by_key(data_bytes);
        let Some(lead) = lead.or_else(|| runs().max_by_key(data_bytes)) else {
            return Ok(Some((None, 0)));
        };
        let mut waits = false;
        for table in below.iter().copied().chain(runs()) {
            waits |= self.will_open(table);
        }
        for table in behind {
            self.will_open(table);
        }
        if waits {
            return Ok(None);
        }
        let table = lead.open()?;
        let meta = &lead.part.meta;
        let end = match direction {
            Direction::Forward => table
                .stretch_end(low, bytes)
                .unwrap_or_else(|| successor(&meta.max_key)),
            Direction::Backward => table
                .stretch_begin(high, bytes)
                .unwrap_or_else(|| meta.min_key.to_vec()),
        };
        let end = Some(end).filter(|end| match direction {
            Direction::Forward => high.is_none_or(|high| **end < *high),
            Direction::Backward => low.is_none_or(|low| **end > *low),
        });
        let (low, high) = match direction {
            Direction::Forward => (low, end.as_deref().or(high)),
            Direction::Backward => (end.as_deref().or(low), high),
        };
        let mut asked = 0;
        for table in below.into_iter().chain(runs()) {
            if overlaps(table, low, high) {
                asked += table.open()?.will_need_between(low, high);
            }
        }
        Ok(Some((end, asked)))
    }

    /// Asks for the end of a table that is not open, once. Returns whether it asked.
    fn will_open(&mut self, table: &Arc<TableHandle>) -> bool {
        let id = table.part.table;
        if table.is_open() || self.opening.contains(&id) {
            return false;
        }
        if self.opening.len() >= OPENING_MAX {
            self.opening.clear();
        }
        self.opening.push(id);
        table.will_open_for_scan();
        true
    }
}

/// Whether a table may have keys from `low` to below `high`.
fn overlaps(table: &TableHandle, low: Option<&[u8]>, high: Option<&[u8]>) -> bool {
    table.part.meta.overlaps(low.unwrap_or_default(), high)
}

/// The tables of a chain that come after one.
fn tables_behind(
    chain: &[Arc<TableHandle>],
    index: usize,
    direction: Direction,
) -> impl Iterator<Item = &Arc<TableHandle>> {
    (1..=TABLES_AHEAD).filter_map(move |step| {
        let next = match direction {
            Direction::Forward => index.checked_add(step),
            Direction::Backward => index.checked_sub(step),
        };
        next.and_then(|next| chain.get(next))
    })
}
