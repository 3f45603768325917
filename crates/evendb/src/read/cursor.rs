//! Cursors and iterators over a key range, as one snapshot sees it, from both ends.
//!
//! ```text
//! low [ front.buffer | .......... | back.buffer ] high
//!        taken ^ ->                  <- ^ taken
//! ```
//!
//! An end keeps a key and a bounded buffer, no view and no root: a refill looks the key up in the
//! current root, so splits, merges and evictions in between do not matter. Only where that leads to
//! the same funk as before does the scan of its tables go on without seeking. The ends meet by
//! comparing keys. A cursor's error is sticky: it is returned again by every later call, at either end. An
//! iterator gives it once, and then nothing more, so that what collects or counts comes to an end.

use super::buffer::{Buffer, SMALL_BYTES};
use super::counting;
use super::covered::{self, Below, Shade};
use super::fill::{
    FillSpan, Filled, FunkScan, GatheredDeltas, fill_from_deltas, fill_from_funk, fill_from_munk,
    gather,
};
use super::tables::Direction;
use crate::catalog::KeyspaceState;
use crate::chunk::{Chunk, Heat, View};
use crate::engine::Engine;
use crate::engine::core::Core;
use crate::error::{Error, Result};
use crate::memory::{Charge, Ledger, Use};
use crate::metrics::Metrics;
use crate::munk::Munk;
pub(crate) use crate::op::prefix_end;
use crate::read::moment::Moment;
use crate::rebalance::spans;
use crate::sync::{Arc, reclaim};
use crate::value::Value;
use crate::{fork, memory_shares};
use evendb_storage::Version;
use std::iter::FusedIterator;
use std::ops::{Bound, RangeBounds};

/// The first refill takes as many records as a scan does as a rule, so many while that is not known;
/// each further one what is left of those, or half of what came before.
const FIRST_RECORDS: usize = 32;
const RECORDS_MIN: usize = 16;
const RECORDS_MAX: usize = 512;
/// A refill from tables takes about so many bytes of blocks at most, and so many while the buffers of
/// all cursors take more than a 32nd of the budget.
const BLOCK_BYTES_MAX: usize = 256 << 10;
const BLOCK_BYTES_SHORT: usize = 16 << 10;

/// One end of a range.
struct End {
    buffer: Buffer,
    /// Last key taken before the buffer was last refilled.
    last: Option<Vec<u8>>,
    /// Forward: where the next refill begins. Backward: below what.
    position: Option<Vec<u8>>,
    exhausted: bool,
    /// Records to take by the next refill, and those that a scan takes as a rule.
    records: usize,
    usual: usize,
    /// Records that were given out before the buffer was last refilled.
    given: u64,
    /// Whether the buffer came from RAM.
    from_ram: bool,
    /// Where the last fill left a funk.
    scan: Option<FunkScan>,
    charge: Option<Charge>,
}

impl End {
    fn new(position: Option<Vec<u8>>, records: usize) -> End {
        End {
            buffer: Buffer::default(),
            last: None,
            position,
            exhausted: false,
            records,
            usual: records,
            given: 0,
            from_ram: false,
            scan: None,
            charge: None,
        }
    }

    /// Empties the buffer, and remembers what was given out of it.
    fn empty(&mut self, metrics: &Metrics) {
        if let Some(last) = self.buffer.taken_key() {
            self.last = Some(last.to_vec());
        }
        self.count_given(metrics);
        self.given += self.buffer.taken_count() as u64;
        match self.buffer.is_new() {
            true => self.buffer = Buffer::spare(),
            false => self.buffer.clear(),
        }
    }

    /// Counts what was given out of the buffer.
    fn count_given(&self, metrics: &Metrics) {
        let given = self.buffer.taken_count() as u64;
        metrics.scanned_records.add(given);
        if self.from_ram {
            metrics.scanned_from_ram.add(given);
        }
    }

    /// Goes on behind what came, which was sought up to `to`; nothing lies behind that if it was the `last`.
    fn move_on(&mut self, direction: Direction, filled: Filled, to: Option<Vec<u8>>, last: bool) {
        match filled {
            Filled::Exhausted if last => self.exhausted = true,
            Filled::Below(end) if last && to.as_ref() == Some(&end) => self.exhausted = true,
            Filled::Exhausted => self.position = to,
            Filled::Below(end) => self.position = Some(end),
            Filled::UpTo(key) => {
                self.position = Some(match direction {
                    Direction::Forward => successor(&key),
                    Direction::Backward => key,
                });
            }
        }
    }

    /// How many records the next refill takes.
    fn plan_next(&mut self) {
        let seen = self.given as usize + self.buffer.gathered();
        let left = self.usual.saturating_sub(seen);
        self.records = left.max(seen / 2).clamp(RECORDS_MIN, RECORDS_MAX);
    }

    /// Charges what the end holds now.
    fn count(&mut self, ledger: Ledger) {
        let bytes = self.buffer.bytes() + self.scan.as_ref().map_or(0, FunkScan::bytes);
        // Small ones are not worth an addition that all cursors share.
        match &mut self.charge {
            Some(charge) => charge.set(bytes),
            None if bytes >= SMALL_BYTES => {
                self.charge = Some(Charge::new(ledger, Use::Buffers, bytes));
            }
            None => {}
        }
    }

    /// The last key this end has given out.
    fn last_key(&self) -> Option<&[u8]> {
        self.buffer.taken_key().or(self.last.as_deref())
    }
}

/// A cursor that lends the bytes of one record at a time, from either end of its range.
///
/// It sees the moment at which it was made, however long it lives; old versions that it needs are
/// kept until it is dropped. No reference is counted per record, so it is the fastest way to
/// scan.
///
/// A cursor that failed stays where it is: both ends return the same error from then on. A loop over
/// it leaves at an error, as `?` does; one that goes on after errors would never end. ([`Iter`] gives
/// an error once, and ends.)
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let db = evendb::Db::open(dir.path()).unwrap();
/// db.put("a", "1").unwrap();
/// let mut cursor = db.cursor::<&str>(..);
/// while let Some((key, value)) = cursor.next().unwrap() {
///     assert_eq!((key, value), (&b"a"[..], &b"1"[..]));
/// }
/// ```
pub struct Cursor {
    moment: Option<Arc<Moment>>,
    keyspace: Arc<KeyspaceState>,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    front: End,
    back: End,
    error: Option<Error>,
}

fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

/// A range as its least key and its exclusive upper limit.
pub(crate) fn limits<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> (Vec<u8>, Option<Vec<u8>>) {
    let low = match range.start_bound() {
        Bound::Included(key) => key.as_ref().to_vec(),
        Bound::Excluded(key) => successor(key.as_ref()),
        Bound::Unbounded => Vec::new(),
    };
    let high = match range.end_bound() {
        Bound::Included(key) => Some(successor(key.as_ref())),
        Bound::Excluded(key) => Some(key.as_ref().to_vec()),
        Bound::Unbounded => None,
    };
    (low, high)
}

impl Cursor {
    pub(crate) fn new(
        moment: Result<Arc<Moment>>,
        keyspace: Arc<KeyspaceState>,
        low: Vec<u8>,
        high: Option<Vec<u8>>,
    ) -> Cursor {
        let checked = moment.and_then(|moment| {
            keyspace.check_readable_at(moment.version())?;
            Ok(moment)
        });
        let (moment, error) = match checked {
            Ok(moment) => {
                moment.engine().core.metrics.scans.add(1);
                (Some(moment), None)
            }
            Err(error) => (None, Some(error)),
        };
        let empty = high.as_ref().is_some_and(|high| *high <= low);
        let records = keyspace.usual_scan().unwrap_or(FIRST_RECORDS);
        let records = records.clamp(RECORDS_MIN, RECORDS_MAX);
        let mut cursor = Cursor {
            moment,
            keyspace,
            front: End::new(Some(low.clone()), records),
            back: End::new(high.clone(), records),
            low,
            high,
            error,
        };
        cursor.front.exhausted = empty;
        cursor.back.exhausted = empty;
        cursor
    }

    /// The next record in key order: key and value, valid until the cursor moves again.
    ///
    /// # Errors
    /// Of kind `Io` or `Corruption` if a table cannot be read, `Closed` after the database was
    /// closed; and from the first call on what kept the cursor from being made (`KeyspaceDropped`, or
    /// `InvalidArgument` for a keyspace that is not of the snapshot's database). Sticky: later calls,
    /// of [`next_back`](Self::next_back) too, return the same error.
    #[expect(
        clippy::should_implement_trait,
        reason = "a lending iterator cannot be an Iterator"
    )]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        Ok(if self.advance(Direction::Forward)? {
            Some(self.front.buffer.current())
        } else {
            None
        })
    }

    /// The next record from the end of the range, in reverse key order.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_back(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        Ok(if self.advance(Direction::Backward)? {
            Some(self.back.buffer.current())
        } else {
            None
        })
    }

    fn advance(&mut self, direction: Direction) -> Result<bool> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        fork::check()?;
        self.try_advance(direction)
            .inspect_err(|error| self.error = Some(error.clone()))
    }

    fn try_advance(&mut self, direction: Direction) -> Result<bool> {
        loop {
            let (end, other) = match direction {
                Direction::Forward => (&mut self.front, &self.back),
                Direction::Backward => (&mut self.back, &self.front),
            };
            if let Some(key) = end.buffer.look_ahead() {
                let met = other.last_key().is_some_and(|other| match direction {
                    Direction::Forward => key >= other,
                    Direction::Backward => key <= other,
                });
                return Ok(!met && end.buffer.take());
            }
            if end.exhausted {
                return Ok(false);
            }
            self.refill(direction)?;
        }
    }

    /// Refills one end from one chunk; leaves the buffer empty if the chunk had nothing.
    fn refill(&mut self, direction: Direction) -> Result<()> {
        let mut may_load = true;
        while !self.refill_unless_loaded(direction, &mut may_load)? {}
        Ok(())
    }

    /// Refills one end. Where the span that it needs is absent and worth having, it loads that instead, once (then
    /// `may_load` is false), and says false.
    fn refill_unless_loaded(&mut self, direction: Direction, may_load: &mut bool) -> Result<bool> {
        let Some(moment) = &self.moment else {
            return Ok(true);
        };
        let engine = moment.engine();
        engine.core.health.check_readable()?;
        engine.work.stir_gently();
        let end = match direction {
            Direction::Forward => &mut self.front,
            Direction::Backward => &mut self.back,
        };
        let metrics = &engine.core.metrics;
        end.empty(metrics);
        let guard = reclaim::pin();
        let index = self.keyspace.index.load(&guard);
        let found = match (direction, &end.position) {
            (Direction::Forward, key) => Some(index.find(key.as_deref().unwrap_or_default())),
            (Direction::Backward, None) => Some(index.last()),
            (Direction::Backward, Some(key)) => index.find_below(key),
        };
        let Some(chunk) = found else {
            end.exhausted = true;
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
        let caches = &engine.caches;
        if munk.is_none()
            && below.is_none()
            && *may_load
            && let Some(wanted) =
                counting::wanted_by_scan(caches, view.get(), direction, from.as_deref())
        {
            *may_load = false;
            counting::runs_read(&engine.core, &engine.work, chunk, view.get());
            let chunk = chunk.clone();
            drop(guard);
            end.position = from;
            // What fails here fails again where the scan reads the funk.
            drop(spans::load_for_scan(engine, &chunk, &wanted));
            return Ok(false);
        }
        let span = FillSpan {
            direction,
            from: from.as_deref(),
            to: to.as_deref(),
            at,
            records_max: end.records,
            block_bytes_max: block_bytes_max(&engine.core),
        };
        let nothing_below = below == Some(Below::Nothing);
        end.from_ram = munk.is_some() || nothing_below;
        let filled = if nothing_below {
            end.scan = None;
            fill_from_deltas(&mut end.buffer, view.get(), &span, &guard)
        } else if let Some(munk) = munk {
            end.scan = None; // The munk moves on without it.
            let filled = fill_from_munk(&mut end.buffer, view.get(), munk, &span, &guard);
            counting::refill_hit(caches, chunk, view.get(), || end.buffer.ends());
            filled
        } else {
            let gathered = gather(view.get(), &span, &guard);
            let view = view.counted();
            let chunk = chunk.clone();
            drop(guard);
            fill_unpinned(engine, end, &chunk, &view, below, &gathered, &span)?
        };
        end.move_on(direction, filled, to, last);
        end.count(engine.core.ledger());
        end.plan_next();
        Ok(true)
    }
}

fn block_bytes_max(core: &Core) -> usize {
    match memory_shares::buffers_are_short(core) {
        true => BLOCK_BYTES_SHORT,
        false => BLOCK_BYTES_MAX,
    }
}

/// Where a refill comes from.
#[derive(Clone, Copy)]
struct RefillSegment<'a> {
    /// The munk, if it has these keys.
    munk: Option<&'a Munk>,
    /// Where that is no longer so, if not at the chunk's limit.
    end: Option<&'a [u8]>,
}

/// What a refill reads below the deltas, and up to where.
struct RefillPlan<'v> {
    /// The munk, if it has these keys.
    munk: Option<&'v Munk>,
    /// What range deletions leave of it.
    below: Option<Below>,
    to: Option<Vec<u8>>,
    /// Nothing wanted lies behind that.
    last: bool,
}

/// A refill at `from`, which may go as far as `to`, ends where it would have to read something else.
fn plan_refill<'v>(
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

impl Drop for Cursor {
    fn drop(&mut self) {
        if fork::is_child() {
            // Tables and blocks are left where they are, with whatever locks guard them.
            for end in [&mut self.front, &mut self.back] {
                std::mem::forget(std::mem::replace(end, End::new(None, 0)));
            }
            return;
        }
        let given = |end: &End| end.given + end.buffer.taken_count() as u64;
        if let Some(moment) = &self.moment {
            self.keyspace
                .note_scan(given(&self.front) + given(&self.back));
            let metrics = &moment.engine().core.metrics;
            self.front.count_given(metrics);
            self.back.count_given(metrics);
        }
        for end in [&mut self.front, &mut self.back] {
            if !end.buffer.is_new() {
                std::mem::take(&mut end.buffer).done();
            }
        }
    }
}

/// Fills from the view's funk, going on where the last fill left it if it is still the same.
fn fill_unpinned(
    engine: &Engine,
    end: &mut End,
    chunk: &Arc<Chunk>,
    view: &View,
    below: Option<Below>,
    gathered: &GatheredDeltas,
    span: &FillSpan<'_>,
) -> Result<Filled> {
    let shade = Shade::new(view, span.at, false);
    if let Some(Below::TablesFrom(least)) = below {
        end.scan = None;
        let filled = FunkScan::seek_from(&view.funk, span, least)
            .and_then(|mut scan| fill_from_funk(&mut end.buffer, &mut scan, gathered, span, shade));
        return filled.inspect_err(|_| chunk.note_damage());
    }
    let left = end.scan.take().filter(|scan| scan.is_of(&view.funk));
    let (core, caches, work) = (&engine.core, &engine.caches, &engine.work);
    counting::refill_miss(core, caches, work, chunk, view, left.is_none());
    let scan = match left {
        Some(scan) => Ok(scan),
        None => FunkScan::seek(&view.funk, span),
    };
    let filled = scan.and_then(|mut scan| {
        let filled = fill_from_funk(&mut end.buffer, &mut scan, gathered, span, shade)?;
        if matches!(filled, Filled::UpTo(_)) {
            end.scan = Some(scan);
        }
        Ok(filled)
    });
    filled.inspect_err(|_| chunk.note_damage())
}

/// Where a refill from `chunk` has to stop, and whether nothing wanted lies beyond the chunk.
fn chunk_limit(
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

/// An iterator over a key range, as one moment sees it, from both ends.
///
/// Items are handles that share the store's memory; they may be kept.
///
/// An error is the last item: after it both ends return `None`, whichever met it, so that `count`,
/// `collect` and the like end. What was given before the error is right; what lies between the two
/// ends was not read. To go on behind a damaged block, begin a new range there.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let db = evendb::Db::open(dir.path()).unwrap();
/// db.put("a", "1").unwrap();
/// db.put("b", "2").unwrap();
/// let keys: Vec<_> = db.iter().rev().map(|item| item.unwrap().0.to_vec()).collect();
/// assert_eq!(keys, [b"b", b"a"]);
/// ```
pub struct Iter {
    cursor: Cursor,
    /// It gave an error, and nothing more is to come.
    failed: bool,
}

impl Iter {
    pub(crate) fn new(cursor: Cursor) -> Iter {
        Iter {
            cursor,
            failed: false,
        }
    }

    fn step(&mut self, direction: Direction) -> Option<Result<(Value, Value)>> {
        if self.failed {
            return None;
        }
        match self.cursor.advance(direction) {
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
            Ok(false) => None,
            Ok(true) => Some(Ok(match direction {
                Direction::Forward => self.cursor.front.buffer.current_values(),
                Direction::Backward => self.cursor.back.buffer.current_values(),
            })),
        }
    }
}

impl Iterator for Iter {
    type Item = Result<(Value, Value)>;
    fn next(&mut self) -> Option<Self::Item> {
        self.step(Direction::Forward)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(Direction::Backward)
    }
}

// An end that returned `None` is exhausted or has met the other, which does not move back; or an error
// was given, after which both ends return nothing else.
impl FusedIterator for Iter {}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cursor")
    }
}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Iter")
    }
}
