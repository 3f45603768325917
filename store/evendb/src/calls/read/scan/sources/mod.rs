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

mod deltas;
mod funk;
pub(crate) mod tables;

use crate::chunk::View;
use crate::error::Result;
use crate::expiry::ReadTime;
use crate::munk::{Munk, MunkCursor};
use crate::read::buffer::Buffer;
use crate::read::scan::range_deletions::{Look, Shade, look_at};
use crate::read::tables::Direction;
use crate::sync::reclaim::Guard;
use crate::value::Value;
use crate::visibility::{Candidate, live};
use deltas::Overlay;
pub(crate) use deltas::{GatheredDeltas, gather};
use evendb_storage::table::TableMeta;
use evendb_storage::{Kind, Time, Version};
pub(crate) use funk::FunkScan;
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
    /// Whether a seek in guards tells the system what it will read in all tables.
    pub(crate) asks_ahead: bool,
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

    /// Whether all keys of a table lie before the span's start.
    fn has_passed(&self, meta: &TableMeta) -> bool {
        self.from.is_some_and(|from| match self.direction {
            Direction::Forward => *meta.max_key < *from,
            Direction::Backward => *meta.min_key >= *from,
        })
    }

    /// The key of a table to which a scan in this direction comes first.
    fn nearest_of<'t>(&self, meta: &'t TableMeta) -> &'t [u8] {
        match self.direction {
            Direction::Forward => &meta.min_key,
            Direction::Backward => &meta.max_key,
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

/// A fill under way: where its records go, and by what it judges them.
struct Filling<'f> {
    buffer: &'f mut Buffer,
    view: &'f View,
    span: &'f FillSpan<'f>,
    shade: Option<Shade<'f>>,
}

impl<'f> Filling<'f> {
    /// A fill of `buffer`; `in_ram` says that the view's munk has the keys.
    fn new(
        buffer: &'f mut Buffer,
        view: &'f View,
        span: &'f FillSpan<'f>,
        in_ram: bool,
    ) -> Filling<'f> {
        let shade = Shade::new(view, span.at, in_ram);
        Filling {
            buffer,
            view,
            span,
            shade,
        }
    }

    /// Gathers what the record that decides shows of `key`, if it shows anything. Returns whether
    /// the fill should end here, because range deletions hid this record and many before it.
    #[inline]
    fn show<R: Candidate>(
        &mut self,
        key: &[u8],
        decides: Option<R>,
        push: impl FnOnce(&mut Buffer, R),
    ) -> Result<bool> {
        let time = ReadTime::At(self.span.time);
        let Some(shown) = decides.and_then(|record| live(record, time)) else {
            return Ok(false);
        };
        match look_at(&mut self.shade, key, shown.version()) {
            Look::Shown if shown.kind() == Kind::Merge => self.push_merged(key)?,
            Look::Shown => push(self.buffer, shown),
            Look::Hidden => {}
            Look::Long => return Ok(true),
        }
        Ok(false)
    }

    /// Gathers the value of a key whose record lists operands, if the key has a value.
    #[cold]
    fn push_merged(&mut self, key: &[u8]) -> Result<()> {
        if let Some(value) = (self.span.fold)(self.view, key)? {
            self.buffer.push_bytes(key, &value);
        }
        Ok(())
    }

    /// The result of a fill that stops early, which happens only at a record.
    fn up_to_last(&self) -> Filled {
        let last = self.buffer.last_key();
        Filled::UpTo(last.expect("a fill stops early only at a record").to_vec())
    }
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
    let mut filling = Filling::new(buffer, view, span, true);
    let mut munk = cursor_at(munk, span);
    let mut upper = overlay.key(span);
    // Whether the page, or the next key of the deltas, has changed since the last call of
    // `push_runs`.
    let mut ask = true;
    // The end of the last run, if nothing was gathered after it.
    let mut below = None;
    while filling.buffer.gathered() < span.records_max {
        if ask && let Some(end) = push_runs(&mut filling, &mut munk, upper) {
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
        let at = if order.is_le() { upper } else { lower }.unwrap_or_default();
        let mut record = None;
        if order.is_le() {
            record = overlay.take(at, span);
            upper = overlay.key(span);
            ask = true;
        }
        let is_long = match record {
            None if order.is_ge() => filling.show(at, munk.newest_at(span.at), |buffer, hit| {
                buffer.push_page(&munk, hit.shown(), hit.kind);
            })?,
            _ => filling.show(at, record, Buffer::push_record)?,
        };
        if is_long {
            return Ok(Filled::UpTo(at.to_vec()));
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
        None => filling.up_to_last(),
    })
}

/// Gathers the rest of the cursor's page, and the pages after it, as long as nothing overlays them.
/// Their records cost nothing until they are taken, so more of them may be gathered than are
/// probably wanted. Returns the end of the last page.
fn push_runs<'m>(
    filling: &mut Filling<'_>,
    munk: &mut MunkCursor<'m>,
    upper: Option<&[u8]>,
) -> Option<&'m [u8]> {
    let Filling {
        buffer,
        span,
        shade,
        ..
    } = filling;
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
    let mut filling = Filling::new(buffer, view, span, false);
    while filling.buffer.gathered() < span.records_max {
        let Some(key) = overlay.key(span) else {
            return Ok(Filled::Exhausted);
        };
        let record = overlay.take(key, span);
        // Where many records are hidden it goes on: it reads nothing that could be left out.
        filling.show(key, record, Buffer::push_record)?;
    }
    Ok(filling.up_to_last())
}

/// Fills from a funk and what was gathered from the deltas above it; does I/O, takes no pin.
pub(crate) fn fill_from_funk(
    buffer: &mut Buffer,
    funk: &mut FunkScan,
    gathered: &GatheredDeltas,
    span: &FillSpan<'_>,
    view: &View,
) -> Result<Filled> {
    let mut filling = Filling::new(buffer, view, span, false);
    let mut upper = gathered.records.iter().map(|record| &**record).peekable();
    let mut key = Vec::new();
    let mut lower = funk.next_key(span, &mut key)?;
    let mut taken = false;
    let ended = loop {
        let block_bytes = filling.buffer.block_bytes();
        if filling.buffer.gathered() >= span.records_max || block_bytes >= span.block_bytes_max {
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
        let at = next.filter(|_| order.is_le()).unwrap_or(&key);
        let record = upper.next_if(|_| order.is_le());
        let mut below = None;
        if order.is_ge() {
            // The key is left behind in the funk whether or not the funk's record decides.
            below = funk.take(&key, record.is_none())?;
            taken = true;
        }
        let is_long = match record {
            Some(_) => filling.show(at, record, Buffer::push_record)?,
            None => filling.show(at, below, |buffer, hit| buffer.push_block(&key, &hit))?,
        };
        if is_long {
            break Some(Filled::UpTo(at.to_vec()));
        }
    };
    filling.buffer.seal();
    Ok(ended.unwrap_or_else(|| filling.up_to_last()))
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
