//! Fills a buffer with the records of one chunk, in one direction, as one version sees them.
//!
//! ```text
//! with a munk:  active, frozen... , munk         merged lazily under one pin, no I/O
//! without:      active, frozen...  -> overlay    gathered under a pin, counted, at most as many
//!               overlay, runs newest first, base keys as the buffer takes; then merged unpinned
//! ```
//!
//! Sources are ordered newest first: if several sources have a key, the first one with a visible
//! record decides. A pending record never has a version that a registered snapshot sees.

mod funk_scan;
mod overlay;

use crate::chunk::View;
use crate::error::Result;
use crate::expiry::ReadTime;
use crate::munk::{Munk, MunkCursor};
use crate::read::buffer::Buffer;
use crate::read::covered::{Look, Shade, look_at};
use crate::read::tables::Direction;
use crate::record::Record;
use crate::sync::reclaim::Guard;
use crate::value::Value;
use crate::visibility::{Candidate, RecordSearch, live};
use evendb_storage::table::TableMeta;
use evendb_storage::{Kind, Time, Version};
pub(crate) use funk_scan::FunkScan;
use overlay::Overlay;
pub(crate) use overlay::{GatheredDeltas, gather};
use std::cmp::Ordering;

/// The span that a fill covers: from a position in a direction, within a chunk and the caller's
/// bounds.
pub(crate) struct FillSpan<'a> {
    pub(crate) direction: Direction,
    /// Forward: first key wanted. Backward: keys below this are wanted; `None`: no limit.
    pub(crate) from: Option<&'a [u8]>,
    /// Forward: keys below this are wanted. Backward: last key wanted.
    pub(crate) to: Option<&'a [u8]>,
    pub(crate) at: Version,
    /// The time by which records expire.
    pub(crate) time: Time,
    pub(crate) records_max: usize,
    /// The fill from tables ends once its blocks have this number of bytes.
    pub(crate) block_bytes_max: usize,
    pub(crate) fold: Fold<'a>,
}

/// Gives the value of a key whose record lists operands, in the view that is read.
pub(crate) type Fold<'a> = &'a dyn Fn(&View, &[u8]) -> Result<Option<Value>>;

impl FillSpan<'_> {
    pub(crate) fn wants(&self, key: &[u8]) -> bool {
        match (self.direction, self.to) {
            (_, None) => true,
            (Direction::Forward, Some(to)) => *key < *to,
            (Direction::Backward, Some(to)) => *key >= *to,
        }
    }

    /// Whether a table has keys at or behind the span's start, and wanted keys.
    fn begins_in(&self, meta: &TableMeta) -> bool {
        match self.direction {
            Direction::Forward => {
                self.from.is_none_or(|from| *meta.max_key >= *from) && self.wants(&meta.min_key)
            }
            Direction::Backward => {
                self.from.is_none_or(|from| *meta.min_key < *from) && self.wants(&meta.max_key)
            }
        }
    }

    /// Whether the next key of the deltas (`upper`) comes before the next key of the munk or funk
    /// below them; `None` if no key is left.
    #[inline]
    fn order(&self, upper: Option<&[u8]>, lower: Option<&[u8]>) -> Option<Ordering> {
        match (upper, lower) {
            (None, None) => None,
            (Some(_), None) => Some(Ordering::Less),
            (None, Some(_)) => Some(Ordering::Greater),
            (Some(a), Some(b)) => Some(self.before(a, b)),
        }
    }

    /// Whether `a` comes before `b` in this direction.
    fn before(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.direction {
            Direction::Forward => a.cmp(b),
            Direction::Backward => b.cmp(a),
        }
    }
}

/// A record of the deltas, or one of the munk or funk below them.
enum Seen<'g, B> {
    Record(&'g Record),
    Below(B),
}

impl<B: Candidate> Candidate for Seen<'_, B> {
    #[inline]
    fn kind(&self) -> Kind {
        match self {
            Seen::Record(record) => record.kind(),
            Seen::Below(below) => below.kind(),
        }
    }

    #[inline]
    fn stored_value(&self) -> &[u8] {
        match self {
            Seen::Record(record) => record.value(),
            Seen::Below(below) => below.stored_value(),
        }
    }
}

/// The number of pages whose fronts are fetched ahead.
const PAGES_AHEAD: usize = 3;
/// A fill may gather this many times its wanted records from pages that nothing overlays.
const RUNS_FACTOR: usize = 2;

/// The way in which a fill ended.
pub(crate) enum Filled {
    /// The span holds no more records.
    Exhausted,
    /// Everything up to and including this key has been seen.
    UpTo(Vec<u8>),
    /// Forward: everything below this key has been seen.
    Below(Vec<u8>),
}

/// A cursor of the munk at the span's start.
#[inline]
fn cursor_at<'m>(munk: &'m Munk, span: &FillSpan<'_>) -> MunkCursor<'m> {
    let mut cursor = munk.cursor();
    match (span.direction, span.from) {
        (Direction::Forward, Some(key)) => cursor.seek(key),
        (Direction::Forward, None) => cursor.seek_first(),
        (Direction::Backward, Some(key)) => cursor.seek_before(key),
        (Direction::Backward, None) => cursor.seek_last(),
    }
    cursor
}

/// Fills from a view with a munk, under the caller's pin.
pub(crate) fn fill_from_munk(
    buffer: &mut Buffer,
    view: &View,
    munk: &Munk,
    span: &FillSpan<'_>,
    guard: &Guard,
) -> Result<Filled> {
    let mut overlay = Overlay::new(view, span, guard);
    let mut shade = Shade::new(view, span.at, true);
    let mut munk = cursor_at(munk, span);
    let mut upper = overlay.key(span);
    // Whether the page, or the next key of the deltas, has changed since the last call of
    // `push_runs`.
    let mut ask = true;
    // The end of the last run, if nothing was gathered after it.
    let mut below = None;
    while buffer.gathered() < span.records_max {
        if ask && let Some(end) = push_runs(buffer, &mut munk, upper, &mut shade, span) {
            (below, ask) = (Some(end), false);
            continue;
        }
        ask = false;
        let lower = munk
            .valid()
            .then(|| munk.key())
            .filter(|key| span.wants(key));
        let Some(order) = span.order(upper, lower) else {
            return Ok(Filled::Exhausted);
        };
        let at = if order.is_le() { upper } else { lower };
        let mut search = RecordSearch::open();
        if order.is_le()
            && let Some(key) = upper
        {
            search.ask(|| overlay.take(key, span).map(Seen::Record));
            upper = overlay.key(span);
            ask = true;
        }
        if order.is_ge() {
            search.ask(|| munk.newest_at(span.at).map(Seen::Below));
        }
        let seen = search.live(ReadTime::At(span.time));
        let look = seen.as_ref().map(|seen| match seen {
            Seen::Record(record) => look_at(&mut shade, record.key(), record.version()),
            Seen::Below(hit) => look_at(&mut shade, munk.key(), hit.version),
        });
        match seen.filter(|_| look == Some(Look::Shown)) {
            Some(seen) if seen.kind() == Kind::Merge => {
                push_folded(buffer, view, at.unwrap_or_default(), span)?;
            }
            Some(Seen::Record(record)) => buffer.push_record(record),
            Some(Seen::Below(hit)) => buffer.push_page(&munk, hit.shown(), hit.kind),
            None if look == Some(Look::Long) => {
                return Ok(Filled::UpTo(at.unwrap_or_default().to_vec()));
            }
            None => {}
        }
        below = None;
        if order.is_ge() {
            match span.direction {
                Direction::Forward => ask |= !munk.next_within_page(),
                Direction::Backward => munk.prev(),
            }
        }
    }
    Ok(match below {
        Some(end) => Filled::Below(end.to_vec()),
        None => up_to_last(buffer),
    })
}

/// Gathers the value of a key whose record lists operands, if the key has a value.
#[cold]
fn push_folded(buffer: &mut Buffer, view: &View, key: &[u8], span: &FillSpan<'_>) -> Result<()> {
    if let Some(value) = (span.fold)(view, key)? {
        buffer.push_bytes(key, &value);
    }
    Ok(())
}

/// Gathers the rest of the cursor's page, and the pages after it, as long as nothing overlays them.
/// Their records cost nothing until they are taken, so more of them may be gathered than are
/// probably wanted. Returns the end of the last page.
fn push_runs<'m>(
    buffer: &mut Buffer,
    munk: &mut MunkCursor<'m>,
    upper: Option<&[u8]>,
    shade: &mut Option<Shade<'_>>,
    span: &FillSpan<'_>,
) -> Option<&'m [u8]> {
    let mut below = None;
    while buffer.gathered() < RUNS_FACTOR * span.records_max
        && let Some(end) = end_if_alone(munk, upper, span)
        && shade
            .as_mut()
            .is_none_or(|shade| shade.leaves_alone(munk.key(), end))
    {
        munk.fetch_page(PAGES_AHEAD);
        buffer.push_run(munk, span.at, span.time);
        munk.next_page();
        below = Some(end);
    }
    below
}

/// The result of a fill that stops early, which happens only at a record.
fn up_to_last(buffer: &Buffer) -> Filled {
    let last = buffer
        .last_key()
        .expect("a fill stops early only at a record");
    Filled::UpTo(last.to_vec())
}

/// The end of the page that a forward cursor stands on, if its whole rest is wanted and no delta
/// has a key in it. This takes two comparisons, and not two for each record, and reads nothing of
/// the page.
#[inline]
fn end_if_alone<'m>(
    munk: &MunkCursor<'m>,
    upper: Option<&[u8]>,
    span: &FillSpan<'_>,
) -> Option<&'m [u8]> {
    if !munk.valid() || span.direction == Direction::Backward || munk.has_others() {
        return None;
    }
    // The last page has no known end, so it is read record by record.
    let end = munk.end_of_page()?;
    let not_above = |key: Option<&[u8]>| key.is_none_or(|key| *end <= *key);
    (not_above(upper) && not_above(span.to)).then_some(end)
}

/// Fills from a view's deltas alone, under the caller's pin: nothing below them is visible.
pub(crate) fn fill_from_deltas(
    buffer: &mut Buffer,
    view: &View,
    span: &FillSpan<'_>,
    guard: &Guard,
) -> Result<Filled> {
    let mut overlay = Overlay::new(view, span, guard);
    let mut shade = Shade::new(view, span.at, false);
    while buffer.gathered() < span.records_max {
        let Some(key) = overlay.key(span) else {
            return Ok(Filled::Exhausted);
        };
        let record = overlay.take(key, span);
        let record = record.and_then(|record| live(record, ReadTime::At(span.time)));
        if let Some(record) = record
            && look_at(&mut shade, key, record.version()) == Look::Shown
        {
            match record.kind() {
                Kind::Merge => push_folded(buffer, view, key, span)?,
                _ => buffer.push_record(record),
            }
        }
    }
    Ok(up_to_last(buffer))
}

/// Fills from a funk and what was gathered from the deltas above it; does I/O, takes no pin.
pub(crate) fn fill_from_funk(
    buffer: &mut Buffer,
    funk: &mut FunkScan,
    gathered: &GatheredDeltas,
    span: &FillSpan<'_>,
    view: &View,
) -> Result<Filled> {
    let mut shade = Shade::new(view, span.at, false);
    let mut upper = gathered.records.iter().peekable();
    let mut key = Vec::new();
    let mut lower = funk.next_key(span, &mut key)?;
    let mut taken = false;
    let ended = loop {
        if buffer.gathered() >= span.records_max || buffer.block_bytes() >= span.block_bytes_max {
            break None;
        }
        // Not earlier than it is wanted: it may cost a read.
        if std::mem::take(&mut taken) {
            lower = funk.next_key(span, &mut key)?;
        }
        let next = upper.peek().map(|record| record.key());
        if next.is_none() && !gathered.complete {
            // The deltas may hold more beyond the last gathered record.
            let last = gathered.records.last();
            break last.map(|record| Filled::UpTo(record.key().to_vec()));
        }
        let Some(order) = span.order(next, lower.then_some(&key[..])) else {
            break Some(Filled::Exhausted);
        };
        let at = match upper.peek() {
            Some(record) if order.is_le() => record.key(),
            _ => &key[..],
        };
        let mut search = RecordSearch::open();
        if order.is_le() {
            search.ask(|| upper.next().map(|record| Seen::Record(record)));
        }
        if order.is_ge() {
            // The key is left behind in the funk whether or not the funk's record decides.
            let below = funk.take(&key, search.is_open())?;
            search.ask(|| below.map(Seen::Below));
            taken = true;
        }
        let seen = search.live(ReadTime::At(span.time));
        let look = seen.as_ref().map(|seen| match seen {
            Seen::Record(record) => look_at(&mut shade, at, record.version()),
            Seen::Below(hit) => look_at(&mut shade, at, hit.version),
        });
        match seen.filter(|_| look == Some(Look::Shown)) {
            Some(seen) if seen.kind() == Kind::Merge => push_folded(buffer, view, at, span)?,
            Some(Seen::Record(record)) => buffer.push_record(record),
            Some(Seen::Below(hit)) => buffer.push_block(&key, &hit),
            None if look == Some(Look::Long) => break Some(Filled::UpTo(at.to_vec())),
            None => {}
        }
    };
    buffer.seal();
    Ok(ended.unwrap_or_else(|| up_to_last(buffer)))
}
