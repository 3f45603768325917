//! Refills one end of a cursor from one chunk, wherever the chunk has its records.
//!
//! The root is loaded, the chunk found, and its view read under one pin. A munk is read under that
//! pin, a funk after it. If the needed span is not in RAM and is worth it, it is loaded first.
//!
//! Not here: how the sources are merged ([`crate::read::fill`]); which record is given next
//! ([`crate::read::cursor`]).

use crate::catalog::KeyspaceState;
use crate::chunk::index::Index;
use crate::chunk::{Chunk, Heat, View};
use crate::engine::Engine;
use crate::engine::core::Core;
use crate::error::Result;
use crate::expiry::ReadPoint;
use crate::memory_shares;
use crate::munk::Munk;
use crate::read::ahead::{self, ScanRange};
use crate::read::counting;
use crate::read::covered::{self, Below};
use crate::read::cursor::Cursor;
use crate::read::end::End;
use crate::read::fill::{
    FillSpan, Filled, FunkScan, GatheredDeltas, fill_from_deltas, fill_from_funk, fill_from_munk,
    gather,
};
use crate::read::first_key::FirstKey;
use crate::read::folded;
use crate::read::tables::Direction;
use crate::rebalance::spans;
use crate::sync::{Arc, reclaim};
use crate::value::Value;
use evendb_storage::Version;
use evendb_storage::key_hash::RamHash;

/// The approximate maximum of block bytes for a refill from tables. The second one holds while the
/// buffers of all cursors take more than a 32nd of the budget.
const BLOCK_BYTES_MAX: usize = 256 << 10;
const BLOCK_BYTES_SHORT: usize = 16 << 10;

impl Cursor {
    /// Refills one end from one chunk. The buffer stays empty if the chunk had no records.
    pub(crate) fn refill(&mut self, direction: Direction) -> Result<()> {
        let mut may_load = true;
        while !self.refill_unless_loaded(direction, &mut may_load)? {}
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
        let end = match direction {
            Direction::Forward => &mut self.front,
            Direction::Backward => &mut self.back,
        };
        ahead::look_ahead(&moment.engine().core, &self.keyspace, end, &range);
    }

    /// Refills one end. If the needed span is absent and worth having, it loads the span instead,
    /// at most once (`may_load` then becomes false), and returns false.
    fn refill_unless_loaded(&mut self, direction: Direction, may_load: &mut bool) -> Result<bool> {
        let Some(moment) = &self.moment else {
            return Ok(true);
        };
        let engine = moment.engine();
        let _inside = engine.core.health.enter()?;
        engine.work.stir_gently();
        let end = match direction {
            Direction::Forward => &mut self.front,
            Direction::Backward => &mut self.back,
        };
        end.empty(direction, &engine.core.metrics);
        let guard = reclaim::pin();
        let index = self.keyspace.index.load(&guard);
        let Some(chunk) = chunk_at(index.get(), direction, end.position.as_deref()) else {
            end.exhaust();
            return Ok(true);
        };
        if *may_load {
            Heat::count(&chunk.heat.scans);
        }
        let limit = chunk_limit(chunk, direction, &self.low, self.high.as_deref());
        let from = end.position.take();
        let view = chunk.view.load(&guard);
        let at = moment.version();
        let RefillPlan {
            munk,
            below,
            to,
            last,
        } = plan_refill(view.get(), direction, from.as_deref(), at, limit);
        if munk.is_none()
            && below.is_none()
            && *may_load
            && let Some(wanted) =
                counting::wanted_by_scan(&engine.caches, view.get(), direction, from.as_deref())
        {
            *may_load = false;
            end.from_disk += wanted.0.span_bytes() as u64;
            counting::runs_loaded(&engine.core, &engine.work, chunk, view.get());
            let chunk = chunk.clone();
            drop(guard);
            end.position = from;
            // An error here comes again where the scan reads the funk.
            drop(spans::load_for_scan(engine, &chunk, &wanted));
            return Ok(false);
        }
        let span = FillSpan {
            direction,
            from: from.as_deref(),
            to: to.as_deref(),
            at,
            time: moment.time(),
            records_max: end.records,
            block_bytes_max: block_bytes_max(&engine.core),
            fold: &folding(engine, &self.keyspace, moment.point()),
        };
        let nothing_below = below == Some(Below::Nothing);
        end.from_ram = munk.is_some() || nothing_below;
        let filled = if nothing_below {
            end.scan = None;
            fill_from_deltas(&mut end.buffer, view.get(), &span, &guard)?
        } else if let Some(munk) = munk {
            end.scan = None; // The munk moves on without it.
            let filled = fill_from_munk(&mut end.buffer, view.get(), munk, &span, &guard)?;
            counting::refill_hit(&engine.caches, chunk, view.get(), || end.buffer.ends());
            filled
        } else {
            let gathered = gather(view.get(), &span, &guard);
            let (chunk, view) = (chunk.clone(), view.counted());
            drop(guard);
            let place = (&*self.keyspace, &chunk, &*view);
            fill_unpinned(engine, end, place, below, &gathered, &span)?
        };
        end.take_in(from);
        end.move_on(direction, filled, to, last);
        end.count(engine.core.ledger());
        end.plan_next();
        Ok(true)
    }
}

/// The chunk in which a refill from `position` begins.
pub(crate) fn chunk_at<'i>(
    index: &'i Index<Chunk>,
    direction: Direction,
    position: Option<&[u8]>,
) -> Option<&'i Arc<Chunk>> {
    match (direction, position) {
        (Direction::Forward, key) => Some(index.find(key.unwrap_or_default())),
        (Direction::Backward, None) => Some(index.last()),
        (Direction::Backward, Some(key)) => index.find_below(key),
    }
}

fn block_bytes_max(core: &Core) -> usize {
    match memory_shares::buffers_are_short(core) {
        true => BLOCK_BYTES_SHORT,
        false => BLOCK_BYTES_MAX,
    }
}

/// The source of a refill.
#[derive(Clone, Copy)]
struct RefillSegment<'a> {
    /// The munk, if it has these keys.
    munk: Option<&'a Munk>,
    /// The end of the keys for which this holds; `None` for the chunk's limit.
    end: Option<&'a [u8]>,
}

/// The sources that a refill reads below the deltas, and its end.
pub(crate) struct RefillPlan<'v> {
    /// The munk, if it has these keys.
    pub(crate) munk: Option<&'v Munk>,
    /// The part that range deletions leave to be read below the deltas.
    pub(crate) below: Option<Below>,
    pub(crate) to: Option<Vec<u8>>,
    /// No wanted record lies behind `to`.
    pub(crate) last: bool,
}

/// Plans a refill at `from`, which may go as far as `to`: it ends where it would have to read
/// another source.
pub(crate) fn plan_refill<'v>(
    view: &'v View,
    direction: Direction,
    from: Option<&[u8]>,
    at: Version,
    (mut to, mut last): (Option<Vec<u8>>, bool),
) -> RefillPlan<'v> {
    let segment = segment(view, direction, from);
    let munk = segment.and_then(|segment| segment.munk);
    let beneath = covered::beneath(view, direction, from, at, munk.is_some());
    let ends = [
        segment.and_then(|segment| segment.end),
        beneath.and_then(|beneath| beneath.end),
    ];
    for end in ends.into_iter().flatten() {
        if narrows(direction, end, to.as_deref()) {
            (to, last) = (Some(end.to_vec()), false);
        }
    }
    RefillPlan {
        munk,
        below: beneath.map(|beneath| beneath.below),
        to,
        last,
    }
}

/// The segment of the view's munk in which a refill from `from` begins; `None` without a munk.
fn segment<'a>(
    view: &'a View,
    direction: Direction,
    from: Option<&[u8]>,
) -> Option<RefillSegment<'a>> {
    let munk = view.munk.as_deref()?;
    let (segment, end) = match direction {
        Direction::Forward => {
            let segment = munk.segment_from(from);
            (segment, segment.high)
        }
        Direction::Backward => {
            let segment = munk.segment_below(from);
            (segment, segment.low)
        }
    };
    Some(RefillSegment {
        munk: segment.present.then_some(munk),
        end,
    })
}

/// Fills from the view's funk. It goes on where the last fill left the funk, if it is still the
/// same one.
fn fill_unpinned(
    engine: &Engine,
    end: &mut End,
    (keyspace, chunk, view): (&KeyspaceState, &Arc<Chunk>, &View),
    below: Option<Below>,
    gathered: &GatheredDeltas,
    span: &FillSpan<'_>,
) -> Result<Filled> {
    if let Some(Below::TablesFrom(least)) = below {
        end.scan = None;
        let filled = FunkScan::seek_from(&view.funk, span, least)
            .and_then(|mut scan| fill_from_funk(&mut end.buffer, &mut scan, gathered, span, view));
        return filled.inspect_err(|error| chunk.note_damage(error));
    }
    let left = end.scan.take().filter(|scan| scan.is_of(&view.funk));
    let filled = match left {
        Some(scan) => {
            let (core, caches, work) = (&engine.core, &engine.caches, &engine.work);
            counting::refill_miss(core, caches, work, chunk, view);
            go_on(end, scan, view, gathered, span)
        }
        None => begin(engine, end, (keyspace, chunk, view), gathered, span),
    };
    filled.inspect_err(|error| chunk.note_damage(error))
}

/// Fills from the view's funk, with a new seek.
fn begin(
    engine: &Engine,
    end: &mut End,
    (keyspace, chunk, view): (&KeyspaceState, &Arc<Chunk>, &View),
    gathered: &GatheredDeltas,
    span: &FillSpan<'_>,
) -> Result<Filled> {
    let (core, caches, work) = (&engine.core, &engine.caches, &engine.work);
    let first = FirstKey::of(keyspace, view, span).filter(|_| end.given() == 0);
    if let Some(first) = &first
        && let Some(filled) = first.fill(caches, &mut end.buffer, gathered)?
    {
        counting::refill_miss(core, caches, work, chunk, view);
        return Ok(filled);
    }
    counting::refill_miss(core, caches, work, chunk, view);
    let mut scan = FunkScan::seek(&view.funk, span)?;
    let filled = fill_from_funk(&mut end.buffer, &mut scan, gathered, span, view)?;
    counting::runs_read(core, work, chunk, view, scan.run_reads());
    keep(end, scan, &filled);
    if let Some(first) = &first {
        first.note(&end.buffer);
    }
    Ok(filled)
}

/// Fills from a scan of the funk, and keeps the scan if there may be more records.
fn go_on(
    end: &mut End,
    mut scan: FunkScan,
    view: &View,
    gathered: &GatheredDeltas,
    span: &FillSpan<'_>,
) -> Result<Filled> {
    let filled = fill_from_funk(&mut end.buffer, &mut scan, gathered, span, view)?;
    keep(end, scan, &filled);
    Ok(filled)
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
        let (core, key) = (&engine.core, (key, RamHash::of(key)));
        let apart = folded::WhatIsApart::IsAskedFor;
        let folded = folded::get(core, &engine.caches, keyspace, view, key, point, apart);
        folded.map(|folded| folded.value)
    }
}

/// The key where a refill from `chunk` has to stop, and whether nothing wanted lies beyond the
/// chunk.
pub(crate) fn chunk_limit(
    chunk: &Chunk,
    direction: Direction,
    low: &[u8],
    high: Option<&[u8]>,
) -> (Option<Vec<u8>>, bool) {
    let range = &chunk.range;
    match direction {
        Direction::Forward => match (high, range.high.as_deref()) {
            (Some(high), Some(limit)) if limit < high => (Some(limit.to_vec()), false),
            (None, Some(limit)) => (Some(limit.to_vec()), false),
            (high, _) => (high.map(<[u8]>::to_vec), true),
        },
        Direction::Backward if *range.low > *low => (Some(range.low.to_vec()), false),
        Direction::Backward => (Some(low.to_vec()), true),
    }
}

/// Whether a refill that has to stop at `limit` stops before `to`.
fn narrows(direction: Direction, limit: &[u8], to: Option<&[u8]>) -> bool {
    match direction {
        Direction::Forward => to.is_none_or(|to| *limit < *to),
        Direction::Backward => to.is_none_or(|to| *limit > *to),
    }
}
