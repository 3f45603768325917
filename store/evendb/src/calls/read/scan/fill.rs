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

use crate::chunk::{KeyRange, View};
use crate::delta::DeltaCursor;
use crate::error::Result;
use crate::expiry::ReadTime;
use crate::funk::Funk;
use crate::funk::tables::TableHandle;
use crate::munk::{Munk, MunkCursor};
use crate::read::buffer::Buffer;
use crate::read::covered::{Look, Shade, look_at};
use crate::read::tables::{BaseKeys, Direction, TableHit, TableKeys, base_index, read_until};
use crate::record::{Record, RecordRef};
use crate::sync::reclaim::Guard;
use crate::value::Value;
use crate::visibility::{Candidate, RecordSearch, live};
use evendb_storage::table::{PAGE_BYTES, ReadAhead, Table, TableMeta};
use evendb_storage::{Kind, Time, Version};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::sync::Arc;

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

    /// Whether `a` comes before `b` in this direction.
    fn before(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.direction {
            Direction::Forward => a.cmp(b),
            Direction::Backward => b.cmp(a),
        }
    }
}

/// A delta's keys within its limits.
struct DeltaKeys<'g> {
    cursor: DeltaCursor<'g>,
    limits: Option<&'g KeyRange>,
}

impl<'g> DeltaKeys<'g> {
    fn seek(
        mut cursor: DeltaCursor<'g>,
        limits: Option<&'g KeyRange>,
        span: &FillSpan<'_>,
    ) -> Self {
        match (span.direction, span.from) {
            (Direction::Forward, from) => {
                let low = limits.map(|limits| &*limits.low);
                match from.max(low) {
                    Some(key) => cursor.seek(key),
                    None => cursor.seek_first(),
                }
            }
            (Direction::Backward, from) => {
                let high = limits.and_then(|limits| limits.high.as_deref());
                let start = match (from, high) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                match start {
                    Some(key) => cursor.seek_before(key),
                    None => cursor.seek_last(),
                }
            }
        }
        DeltaKeys { cursor, limits }
    }

    fn key(&self) -> Option<&'g [u8]> {
        if !self.cursor.valid() {
            return None;
        }
        let key = self.cursor.key();
        self.limits
            .is_none_or(|limits| limits.contains(key))
            .then_some(key)
    }

    fn advance(&mut self, direction: Direction) {
        match direction {
            Direction::Forward => self.cursor.next(),
            Direction::Backward => self.cursor.prev(),
        }
    }
}

/// The deltas of a view, merged: for each key the record that a version sees.
struct Overlay<'g> {
    deltas: SmallVec<[DeltaKeys<'g>; 4]>,
}

impl<'g> Overlay<'g> {
    fn new(view: &'g View, span: &FillSpan<'_>, guard: &'g Guard) -> Self {
        let mut deltas: SmallVec<[DeltaKeys<'g>; 4]> = SmallVec::new();
        if !view.active.is_empty() {
            deltas.push(DeltaKeys::seek(view.active.cursor(guard), None, span));
        }
        for frozen in &view.frozen {
            let cursor = frozen.delta.cursor(guard);
            deltas.push(DeltaKeys::seek(cursor, frozen.limits.as_deref(), span));
        }
        // They are looked at only when the munk has been searched.
        deltas.iter().for_each(|delta| delta.cursor.fetch());
        Overlay { deltas }
    }

    /// The next key in the span's direction.
    fn key(&self, span: &FillSpan<'_>) -> Option<&'g [u8]> {
        let mut least: Option<&'g [u8]> = None;
        for key in self.deltas.iter().filter_map(DeltaKeys::key) {
            if least.is_none_or(|least| span.before(key, least).is_lt()) {
                least = Some(key);
            }
        }
        least.filter(|key| span.wants(key))
    }

    /// The visible record of `key`, which all deltas then leave behind.
    fn take(&mut self, key: &[u8], span: &FillSpan<'_>) -> Option<&'g Record> {
        let mut search = RecordSearch::open();
        for delta in &mut self.deltas {
            if delta.key().is_some_and(|own| *own == *key) {
                search.ask(|| delta.cursor.newest_at(span.at));
                delta.advance(span.direction);
            }
        }
        search.record()
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
    let mut munk = munk.cursor();
    match (span.direction, span.from) {
        (Direction::Forward, Some(key)) => munk.seek(key),
        (Direction::Forward, None) => munk.seek_first(),
        (Direction::Backward, Some(key)) => munk.seek_before(key),
        (Direction::Backward, None) => munk.seek_last(),
    }
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
        let order = match (upper, lower) {
            (None, None) => return Ok(Filled::Exhausted),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => span.before(a, b),
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

/// The records of a span in the deltas, counted so that they outlive the pin.
pub(crate) struct GatheredDeltas {
    records: Vec<RecordRef>,
    /// The deltas hold nothing beyond the last record.
    complete: bool,
}

impl GatheredDeltas {
    /// The first record, if it is of `key`.
    pub(crate) fn first_if(&self, key: &[u8]) -> Option<&Record> {
        let first = self.records.first().map(|record| &**record);
        first.filter(|record| *record.key() == *key)
    }
}

/// Gathers the deltas' part of a span.
pub(crate) fn gather(view: &View, span: &FillSpan<'_>, guard: &Guard) -> GatheredDeltas {
    let mut overlay = Overlay::new(view, span, guard);
    let mut records = Vec::new();
    while let Some(key) = overlay.key(span) {
        if records.len() >= span.records_max {
            return GatheredDeltas {
                records,
                complete: false,
            };
        }
        if let Some(record) = overlay.take(key, span) {
            records.push(record.to_ref());
        }
    }
    GatheredDeltas {
        records,
        complete: true,
    }
}

/// Log and base of a funk, key by key, newest source first. It stays where a fill left it, so that
/// the next fill of the same funk goes on without a seek. It keeps the funk alive, but not its
/// view.
pub(crate) struct FunkScan {
    funk: Arc<Funk>,
    /// Newest first.
    runs: Vec<TableKeys>,
    base: BaseKeys,
    /// Approximate bytes of the blocks that it holds.
    block_bytes: usize,
    /// The number of runs in which the seek read a block, and of single records read in keyed runs.
    run_reads: usize,
}

/// Pages that are read at once when a scan moves on; the number doubles each time, up to the
/// maximum.
const READAHEAD_PAGES: usize = 8;
const READAHEAD_PAGES_MAX: usize = 32;

/// The number of pages that a seek reads in a table. `wanted_bytes` are the bytes of wanted records
/// that the table is expected to have. The pages suffice wherever the first record lies in its
/// page; backward they include the record behind the last one, which shows that the last one was
/// the newest version of its key. A page too many costs little; a page too few costs a second read
/// that waits for the first.
fn pages_wanted(direction: Direction, wanted_bytes: u64, record_bytes: u64) -> usize {
    if wanted_bytes < record_bytes {
        // The table probably has no wanted record: one page, with the record that the seek finds.
        return 1;
    }
    let page_bytes = PAGE_BYTES as u64;
    let passed_bytes = match direction {
        Direction::Forward => page_bytes.saturating_sub(record_bytes),
        Direction::Backward => page_bytes,
    };
    (passed_bytes + wanted_bytes).div_ceil(page_bytes) as usize
}

impl FunkScan {
    /// A scan at the start of a span. The wanted records are assumed to be spread over the tables
    /// as all records are. If that is right, each table is read by one read, and no further than
    /// the span reaches. If there are several tables, all these reads are under way at once.
    pub(crate) fn seek(funk: &Arc<Funk>, span: &FillSpan<'_>) -> Result<FunkScan> {
        FunkScan::seek_from(funk, span, Version::ZERO)
    }

    /// Like [`seek`](Self::seek), without tables whose records are all older than `least`.
    pub(crate) fn seek_from(
        funk: &Arc<Funk>,
        span: &FillSpan<'_>,
        least: Version,
    ) -> Result<FunkScan> {
        let (mut entries, mut bytes_all) = (0, 0);
        for table in funk.tables() {
            entries += table.part.meta.entries;
            bytes_all += table.part.meta.data_bytes;
        }
        let entries = u64::max(entries, 1);
        let max = (span.block_bytes_max / PAGE_BYTES).clamp(1, READAHEAD_PAGES_MAX);
        let readahead = |bytes: u64| {
            let wanted = span.records_max as u64 * bytes / entries;
            let seek = pages_wanted(span.direction, wanted, bytes_all / entries).min(max);
            ReadAhead {
                seek,
                next: (seek / 2).clamp(1, max),
                max,
            }
        };
        let base_bytes = funk.base.iter().map(|table| table.part.meta.data_bytes);
        let of_base = readahead(base_bytes.sum());
        let runs = funk.runs.iter().rev().map(|run| &run.table);
        let tables: SmallVec<[_; 8]> = runs
            .filter(|table| span.begins_in(&table.part.meta))
            .filter(|table| table.part.meta.max_version >= least)
            .map(|table| (table, readahead(table.part.meta.data_bytes)))
            .collect();
        if !tables.is_empty() && least == Version::ZERO {
            let first = base_index(funk, span.from, span.direction);
            let base = first.and_then(|index| funk.base.get(index));
            ask_for_blocks(&tables, base.map(|table| (table, of_base)), span)?;
        }
        let mut block_bytes = (of_base.seek + max) * PAGE_BYTES;
        let mut runs = Vec::with_capacity(tables.len());
        for (table, readahead) in tables {
            block_bytes += readahead.seek * PAGE_BYTES;
            runs.push(TableKeys::seek(
                table.open()?,
                span.from,
                span.to,
                span.direction,
                span.at,
                readahead,
            )?);
        }
        let mut base_tables = funk.base.iter();
        let base_is_older =
            least > Version::ZERO && base_tables.all(|table| table.part.meta.max_version < least);
        let base_of = match base_is_older {
            true => Arc::new(Funk::new(Vec::new(), Vec::new(), 0)),
            false => funk.clone(),
        };
        let base = BaseKeys::seek(
            base_of,
            span.from,
            span.to,
            span.direction,
            span.at,
            ReadAhead {
                next: of_base.next.max(READAHEAD_PAGES).min(max),
                ..of_base
            },
        )?;
        Ok(FunkScan {
            funk: funk.clone(),
            run_reads: runs.iter().filter(|run| run.has_read()).count(),
            runs,
            base,
            block_bytes,
        })
    }

    /// The number of blocks of runs that were read. A block directly behind a read block does not
    /// count.
    pub(crate) fn run_reads(&self) -> usize {
        self.run_reads
    }

    /// Memory of the blocks it holds.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<FunkScan>() + self.runs.len() * size_of::<TableKeys>() + self.block_bytes
    }

    /// Whether it is a scan of this very funk.
    pub(crate) fn is_of(&self, funk: &Arc<Funk>) -> bool {
        Arc::ptr_eq(&self.funk, funk)
    }

    /// Copies the next key of all sources into `out`, and returns whether there is one. Sources
    /// whose key was left move on first, which may read.
    fn next_key(&mut self, span: &FillSpan<'_>, out: &mut Vec<u8>) -> Result<bool> {
        for run in &mut self.runs {
            run.settle()?;
        }
        self.base.settle()?;
        let mut least = self.base.key();
        for key in self.runs.iter().filter_map(TableKeys::key) {
            if least.is_none_or(|least| span.before(key, least).is_lt()) {
                least = Some(key);
            }
        }
        out.clear();
        Ok(match least.filter(|key| span.wants(key)) {
            Some(key) => {
                out.extend_from_slice(key);
                true
            }
            None => false,
        })
    }

    /// The visible record of `key`; all sources then leave the key behind. If it is not `wanted`,
    /// nothing is read for it.
    fn take(&mut self, key: &[u8], wanted: bool) -> Result<Option<TableHit>> {
        let mut search = RecordSearch::open();
        for run in &mut self.runs {
            if run.key().is_some_and(|own| *own == *key) {
                if wanted {
                    self.run_reads += usize::from(!run.has_read() && search.is_open());
                    search.try_ask(|| run.take_hit())?;
                }
                run.leave();
            }
        }
        if self.base.key().is_some_and(|own| *own == *key) {
            if wanted {
                search.try_ask(|| self.base.take_hit())?;
            }
            self.base.leave();
        }
        Ok(search.record())
    }
}

/// Has the disk read what a seek in each of the tables will read, before the first read is waited
/// for. Of a keyed run it asks for the keys in the stretch that will be read from the base.
fn ask_for_blocks(
    runs: &[(&Arc<TableHandle>, ReadAhead)],
    base: Option<(&Arc<TableHandle>, ReadAhead)>,
    span: &FillSpan<'_>,
) -> Result<()> {
    for (table, _) in runs.iter().chain(&base) {
        table.will_open();
    }
    let ask = |table: &Table, readahead: ReadAhead| {
        let blocks = read_until(table, span.from, span.to, span.direction, readahead).seek;
        match span.direction {
            Direction::Forward => table.will_need_from(span.from, blocks),
            Direction::Backward => table.will_need_before(span.from, blocks),
        }
    };
    let mut end = None;
    if let Some((table, readahead)) = base {
        let (table, bytes) = (table.open()?, (readahead.seek * PAGE_BYTES) as u64);
        ask(&table, readahead);
        end = match span.direction {
            Direction::Forward => table.stretch_end(span.from, bytes),
            Direction::Backward => table.stretch_begin(span.from, bytes),
        };
    }
    for &(table, readahead) in runs {
        let table = table.open()?;
        match (&end, span.direction) {
            _ if !table.is_keyed() => ask(&table, readahead),
            (None, _) => {}
            (Some(end), Direction::Forward) => table.will_need_keys(span.from, Some(end)),
            (Some(end), Direction::Backward) => table.will_need_keys(Some(end), span.from),
        }
    }
    Ok(())
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
        let order = match (upper.peek(), lower) {
            // The deltas may hold more beyond the last gathered record.
            (None, _) if !gathered.complete => {
                break gathered
                    .records
                    .last()
                    .map(|record| Filled::UpTo(record.key().to_vec()));
            }
            (None, false) => break Some(Filled::Exhausted),
            (Some(_), false) => Ordering::Less,
            (None, true) => Ordering::Greater,
            (Some(record), true) => span.before(record.key(), &key),
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
