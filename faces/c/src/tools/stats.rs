//! Statistics: all figures of one moment, by name and one after the other, and their text.

use crate::border::bytes::terminated;
use crate::border::handle::{call_own, free};
use crate::border::{ErrorPlace, Failure, Place, Shared, Status, Text, call};
use crate::calls::database::DbHandle;
use evendb::{FigureKind, FigureUnit};
use std::ffi::{CString, c_char};

struct Named {
    name: CString,
    value: u64,
    kind: i32,
    unit: i32,
    description: CString,
}

/// `evendb_stats`.
pub struct Figures {
    each: Vec<Named>,
    text: CString,
}

fn text_of(text: &str) -> CString {
    terminated(text.as_bytes().to_vec())
}

#[unsafe(no_mangle)]
extern "C" fn evendb_stats_take(
    db: Option<&DbHandle>,
    stats: Place<'_, *mut Shared<Figures>>,
    error: ErrorPlace<'_>,
) -> Status {
    let stats = stats.cleared();
    call(db, error, |db| {
        stats.needed("stats")?;
        let taken = db.stats();
        let named = taken.figures().into_iter().map(|figure| Named {
            name: text_of(figure.name),
            value: figure.value,
            kind: match figure.kind {
                FigureKind::Counter => 0,
                FigureKind::Gauge => 1,
            },
            unit: match figure.unit {
                FigureUnit::Count => 0,
                FigureUnit::Bytes => 1,
                FigureUnit::Nanoseconds => 2,
                _ => -1,
            },
            description: text_of(figure.description),
        });
        stats.fill(Shared::give(Figures {
            each: named.collect(),
            text: text_of(&taken.to_string()),
        }));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_stats_get(
    stats: Option<&Shared<Figures>>,
    name: Text,
    value: Place<'_, u64>,
    error: ErrorPlace<'_>,
) -> Status {
    let value = value.cleared();
    call_own(stats, error, |stats| {
        value.needed("value")?;
        let name = name.str("name")?;
        let is_it = |figure: &&Named| figure.name.to_bytes() == name.as_bytes();
        let figure = stats.each.iter().find(is_it).ok_or_else(|| {
            Failure::argument(format!("there is no figure {name:?} in the statistics"))
        })?;
        value.fill(figure.value);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_stats_count(stats: Option<&Shared<Figures>>) -> usize {
    stats.map_or(0, |stats| stats.inner().each.len())
}

#[unsafe(no_mangle)]
extern "C" fn evendb_stats_at(
    stats: Option<&Shared<Figures>>,
    index: usize,
    name: Place<'_, *const c_char>,
    value: Place<'_, u64>,
    kind: Place<'_, i32>,
    unit: Place<'_, i32>,
    description: Place<'_, *const c_char>,
    error: ErrorPlace<'_>,
) -> Status {
    let (name, value, description) = (name.cleared(), value.cleared(), description.cleared());
    let (kind, unit) = (kind.cleared(), unit.cleared());
    call_own(stats, error, |stats| {
        if let Some(figure) = stats.each.get(index) {
            name.fill(figure.name.as_ptr());
            value.fill(figure.value);
            kind.fill(figure.kind);
            unit.fill(figure.unit);
            description.fill(figure.description.as_ptr());
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_stats_text(stats: Option<&Shared<Figures>>) -> *const c_char {
    stats.map_or(std::ptr::null(), |stats| stats.inner().text.as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn evendb_stats_free(stats: *mut Shared<Figures>) {
    free(stats);
}
