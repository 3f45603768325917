//! The deltas of a view as one source: for each key the record that a version sees, from the newest
//! delta that has one.
//!
//! Thread safety: under the caller's pin; what is gathered is counted, and outlives it.

use super::FillSpan;
use crate::chunk::{KeyRange, View};
use crate::delta::DeltaCursor;
use crate::read::tables::Direction;
use crate::record::{Record, RecordRef};
use crate::sync::reclaim::Guard;
use crate::visibility::RecordSearch;
use smallvec::SmallVec;

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
pub(super) struct Overlay<'g> {
    deltas: SmallVec<[DeltaKeys<'g>; 4]>,
}

impl<'g> Overlay<'g> {
    pub(super) fn new(view: &'g View, span: &FillSpan<'_>, guard: &'g Guard) -> Self {
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
    pub(super) fn key(&self, span: &FillSpan<'_>) -> Option<&'g [u8]> {
        let mut least: Option<&'g [u8]> = None;
        for key in self.deltas.iter().filter_map(DeltaKeys::key) {
            if least.is_none_or(|least| span.before(key, least).is_lt()) {
                least = Some(key);
            }
        }
        least.filter(|key| span.wants(key))
    }

    /// The visible record of `key`, which all deltas then leave behind.
    pub(super) fn take(&mut self, key: &[u8], span: &FillSpan<'_>) -> Option<&'g Record> {
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

/// The records of a span in the deltas, counted so that they outlive the pin.
pub(crate) struct GatheredDeltas {
    pub(super) records: Vec<RecordRef>,
    /// The deltas hold nothing beyond the last record.
    pub(super) complete: bool,
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
