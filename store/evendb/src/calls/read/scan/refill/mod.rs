//! Refills one end of a cursor from one chunk, wherever the chunk has its records.
//!
//! The root is loaded, the chunk found, and its view read under one pin. A munk is read under that
//! pin, a funk after it. If the needed span is not in RAM and is worth it, it is loaded first.
//!
//! Not here: which layers are read ([`plan`]); how they are merged ([`crate::read::sources`]); what
//! the disk is asked for ahead ([`ahead`]); which record is given next
//! ([`crate::read::cursor`]).

pub(crate) mod ahead;
pub(crate) mod first_key;
pub(crate) mod plan;

use crate::catalog::KeyspaceState;
use crate::chunk::{Chunk, Lookup, View};
use crate::engine::Engine;
use crate::error::Result;
use crate::expiry::ReadPoint;
use crate::memory_policy::MemoryPolicy;
use crate::read::counting;
use crate::read::cursor::Cursor;
use crate::read::end::End;
use crate::read::merges;
use crate::read::sources::{
    FillSpan, Filled, FunkScan, GatheredDeltas, fill_from_deltas, fill_from_funk, fill_from_munk,
    gather,
};
use crate::read::tables::Direction;
use crate::rebalance::spans;
use crate::sync::Arc;
use crate::sync::reclaim::{self, Guard};
use crate::value::Value;
use ahead::ScanRange;
use evendb_storage::Version;
use first_key::FirstKey;
use plan::{RefillPlan, Source, chunk_at, chunk_limit, plan_refill};

/// The approximate maximum of block bytes for a refill from tables. The second one holds while the
/// buffers of all cursors take more than a 32nd of the budget.
const BLOCK_BYTES_MAX: usize = 256 << 10;
const BLOCK_BYTES_SHORT: usize = 16 << 10;

impl Cursor {
    /// Refills one end from one chunk. The buffer stays empty if the chunk had no records.
    pub(crate) fn refill(&mut self, direction: Direction) -> Result<()> {
        let may_load = self.may_read;
        if !self.refill_unless_loaded(direction, may_load)? {
            self.refill_unless_loaded(direction, false)?;
        }
        self.look_ahead(direction);
        Ok(())
    }

    /// Has the disk read what the next refills of a long scan need.
    fn look_ahead(&mut self, direction: Direction) {
        let Some(moment) = &self.moment else {
            return;
        };
        let range = ScanRange {
            direction,
            low: &self.low,
            high: self.high.as_deref(),
            at: moment.version(),
        };
        let end = end_in(direction, &mut self.front, &mut self.back);
        ahead::look_ahead(&moment.engine().memory, &self.keyspace, end, &range);
    }

    /// Refills one end. If the needed span is absent and worth having, and if this call `may_load`,
    /// it loads the span instead and returns false.
    fn refill_unless_loaded(&mut self, direction: Direction, may_load: bool) -> Result<bool> {
        let Some(moment) = &self.moment else {
            return Ok(true);
        };
        let engine = moment.engine();
        let _inside = engine.core.health.enter()?;
        engine.work.stir_gently();
        let end = end_in(direction, &mut self.front, &mut self.back);
        end.empty(direction, &engine.core.metrics);
        let guard = reclaim::pin();
        let index = self.keyspace.index.load(&guard).get();
        let Some(chunk) = chunk_at(index, direction, end.position.as_deref()) else {
            end.exhaust();
            return Ok(true);
        };
        let to = chunk_limit(chunk, direction, &self.low, self.high.as_deref());
        let (from, view) = (end.position.take(), chunk.view.load(&guard));
        let (at, position) = (moment.version(), from.as_deref());
        let RefillPlan { source, to, last } = plan_refill(view.get(), direction, position, at, to);
        if !self.may_read && source.reads(view.get()) {
            (self.would_read, end.position) = (true, from);
            return Ok(true);
        }
        counting::refill(chunk, may_load || !self.may_read);
        if matches!(source, Source::Funk)
            && may_load
            && let Some(wanted) =
                counting::wanted_by_scan(engine, chunk, view.get(), direction, position)
        {
            let chunk = chunk.clone();
            drop(guard);
            end.from_disk += wanted.0.span_bytes() as u64;
            end.position = from;
            // An error here comes again where the scan reads the funk.
            drop(spans::load_for_scan(&engine.jobs(), &chunk, &wanted));
            return Ok(false);
        }
        let span = FillSpan {
            direction,
            from: position,
            to: to.as_deref(),
            at,
            time: moment.time(),
            records_max: end.records,
            block_bytes_max: block_bytes_max(&engine.memory),
            asks_ahead: asks_ahead(engine),
            fold: &folding(engine, &self.keyspace, moment.point()),
        };
        let pinned = fill_pinned(end, view.get(), source, &span, &guard)?;
        note_refill(&engine.memory, chunk, view.get(), source, end);
        let filled = match pinned {
            Some(filled) => filled,
            None => {
                let fill = FunkFill {
                    engine,
                    keyspace: &self.keyspace,
                    gathered: gather(view.get(), &span, &guard),
                    chunk: chunk.clone(),
                    view: view.counted(),
                    span: &span,
                    least: source.least_in_tables(),
                };
                drop(guard);
                fill.run(end)?
            }
        };
        end.take_in(direction, from, filled, to, last);
        end.count(engine.core.ledger());
        Ok(true)
    }
}

/// Notes for the policy of memory that the munk gave the records of a refill.
fn note_refill(memory: &MemoryPolicy, chunk: &Chunk, view: &View, source: Source<'_>, end: &End) {
    if matches!(source, Source::Munk(_)) {
        memory.note_refill(chunk, view, || end.ends());
    }
}

/// The end of a cursor that moves in `direction`.
fn end_in<'e>(direction: Direction, front: &'e mut End, back: &'e mut End) -> &'e mut End {
    match direction {
        Direction::Forward => front,
        Direction::Backward => back,
    }
}

/// Whether a seek in guards tells the system what it will read in all tables.
fn asks_ahead(engine: &Engine) -> bool {
    engine.core.options.advanced.guards.parallel_seeks
}

fn block_bytes_max(memory: &MemoryPolicy) -> usize {
    match memory.buffers_are_short() {
        true => BLOCK_BYTES_SHORT,
        false => BLOCK_BYTES_MAX,
    }
}

/// Fills under the caller's pin, if the source is in RAM. Returns `None` if it is the funk.
fn fill_pinned(
    end: &mut End,
    view: &View,
    source: Source<'_>,
    span: &FillSpan<'_>,
    guard: &Guard,
) -> Result<Option<Filled>> {
    end.from_ram = source.is_in_ram();
    if end.from_ram {
        end.scan = None; // The deltas and the munk move on without it.
    }
    let buffer = &mut end.buffer;
    match source {
        Source::Nothing => fill_from_deltas(buffer, view, span, guard).map(Some),
        Source::Munk(munk) => fill_from_munk(buffer, view, munk, span, guard).map(Some),
        Source::Funk | Source::TablesFrom(_) => Ok(None),
    }
}

/// A fill from a view's funk, after the pin was left.
struct FunkFill<'a> {
    engine: &'a Engine,
    keyspace: &'a KeyspaceState,
    chunk: Arc<Chunk>,
    view: Arc<View>,
    /// The part of the span in the view's deltas.
    gathered: GatheredDeltas,
    span: &'a FillSpan<'a>,
    /// Tables whose records are all older are left out.
    least: Version,
}

impl FunkFill<'_> {
    /// Fills the buffer of `end`.
    fn run(&self, end: &mut End) -> Result<Filled> {
        let serves = |scan: &FunkScan| scan.serves(&self.view.funk);
        let left = end.scan.take().filter(serves);
        let filled = match left {
            _ if self.least > Version::ZERO => self.leave_tables_out(end),
            Some(scan) => self.go_on(end, scan),
            None => self.begin(end),
        };
        filled.inspect_err(|error| self.chunk.note_damage(error))
    }

    /// Fills without the older tables. The scan is not kept: behind the range deletion, all tables
    /// count again.
    fn leave_tables_out(&self, end: &mut End) -> Result<Filled> {
        let mut scan = FunkScan::seek_from(&self.view.funk, self.span, self.least)?;
        self.merge(end, &mut scan)
    }

    /// Goes on where the last fill left the funk.
    fn go_on(&self, end: &mut End, mut scan: FunkScan) -> Result<Filled> {
        counting::refill_miss(self.engine, &self.chunk, &self.view);
        let filled = self.merge(end, &mut scan)?;
        keep(end, scan, &filled);
        Ok(filled)
    }

    /// Fills with a new seek, or, for a scan of one record, from the table that has its first key.
    fn begin(&self, end: &mut End) -> Result<Filled> {
        let first = FirstKey::of(self.keyspace, &self.view, self.span);
        let first = first.filter(|_| end.given() == 0);
        if let Some(first) = &first
            && let Some(filled) = first.fill(&self.engine.core, &mut end.buffer, &self.gathered)?
        {
            counting::refill_miss(self.engine, &self.chunk, &self.view);
            return Ok(filled);
        }
        counting::refill_miss(self.engine, &self.chunk, &self.view);
        counting::seek(self.engine, &self.chunk, &self.view, self.span.from);
        let mut scan = FunkScan::seek(&self.view.funk, self.span)?;
        let filled = self.merge(end, &mut scan)?;
        counting::runs_read(self.engine, &self.chunk, &self.view, scan.run_reads());
        keep(end, scan, &filled);
        if let Some(first) = &first {
            first.note(&end.buffer);
        }
        Ok(filled)
    }

    /// Merges what the scan and the deltas have.
    fn merge(&self, end: &mut End, scan: &mut FunkScan) -> Result<Filled> {
        fill_from_funk(&mut end.buffer, scan, &self.gathered, self.span, &self.view)
    }
}

/// Keeps a scan of the funk if there may be more records.
fn keep(end: &mut End, scan: FunkScan, filled: &Filled) {
    if matches!(filled, Filled::UpTo(_)) {
        end.scan = Some(scan);
    }
}

/// The function by which a fill folds operands.
fn folding<'a>(
    engine: &'a Engine,
    keyspace: &'a KeyspaceState,
    point: ReadPoint<'a>,
) -> impl Fn(&View, &[u8]) -> Result<Option<Value>> + 'a {
    move |view, key| {
        let lookup = Lookup::new(key, point);
        let apart = merges::WhatIsApart::IsAskedFor;
        let folded = merges::get(engine, keyspace, view, &lookup, apart);
        folded.map(|folded| folded.value)
    }
}
