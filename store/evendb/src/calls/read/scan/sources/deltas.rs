//! The deltas of a view as one source: for each key the record that a version sees, from the newest
//! delta that has one.
//!
//! Thread safety: under the caller's pin; what is gathered is counted, and outlives it.

use super::FillSpan;
use crate::chunk::{DeltaKeys, View};
use crate::read::tables::Direction;
use crate::record::{Record, RecordRef};
use crate::sync::reclaim::Guard;
use smallvec::SmallVec;

/// The deltas of a view, merged: for each key the record that a version sees.
pub(super) struct Overlay<'g> {
    deltas: SmallVec<[DeltaKeys<'g>; 4]>,
}

impl<'g> Overlay<'g> {
    pub(super) fn new(view: &'g View, span: &FillSpan<'_>, guard: &'g Guard) -> Self {
        let filled = view.deltas().filter(|layer| !layer.delta.is_empty());
        let deltas: SmallVec<[DeltaKeys<'g>; 4]> = filled
            .map(|layer| {
                let mut keys = layer.keys(guard);
                match span.direction {
                    Direction::Forward => keys.seek(span.from),
                    Direction::Backward => keys.seek_before(span.from),
                }
                keys
            })
            .collect();
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
        let mut newest = None;
        for delta in &mut self.deltas {
            if delta.key().is_some_and(|own| *own == *key) {
                newest = newest.or_else(|| delta.cursor.newest_at(span.at));
                match span.direction {
                    Direction::Forward => delta.cursor.next(),
                    Direction::Backward => delta.cursor.prev(),
                }
            }
        }
        newest
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
