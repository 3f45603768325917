//! A number of the statistics with its name, its kind, its unit and its meaning; and the forms of
//! such numbers, which the rows of [`super::table`] name.

use super::table::Group;
use super::{GetStats, WaitStats};
use FigureKind::{Counter, Gauge};
use FigureUnit::{Bytes, Count, Nanoseconds};

/// Whether a [`Figure`] only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// Counts events or bytes since the database was opened.
    Counter,
    /// The state at this moment.
    Gauge,
}

/// The unit of a [`Figure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FigureUnit {
    /// Operations, records, chunks.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
}

/// One named number of [`Stats`](crate::Stats).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figure {
    /// Its dotted name, for example `gets.munk`. The unit is part of the name unless it is a count.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// Whether it only grows.
    pub kind: FigureKind,
    /// Its unit.
    pub unit: FigureUnit,
    /// Its meaning: a sentence without its full stop.
    pub description: &'static str,
}

const fn figure(
    kind: FigureKind,
    unit: FigureUnit,
    name: &'static str,
    value: u64,
    description: &'static str,
) -> Figure {
    Figure {
        name,
        value,
        kind,
        unit,
        description,
    }
}

/// The number of events of a kind.
pub(super) const fn events(name: &'static str, value: u64, what: &'static str) -> [Figure; 1] {
    [figure(Counter, Count, name, value, what)]
}

/// The number of bytes that were moved.
pub(super) const fn moved(name: &'static str, value: u64, what: &'static str) -> [Figure; 1] {
    [figure(Counter, Bytes, name, value, what)]
}

/// The time of all events of a kind.
pub(super) const fn spent(name: &'static str, value: u64, what: &'static str) -> [Figure; 1] {
    [figure(Counter, Nanoseconds, name, value, what)]
}

/// The present number of things of a kind.
pub(super) const fn number(name: &'static str, value: u64, what: &'static str) -> [Figure; 1] {
    [figure(Gauge, Count, name, value, what)]
}

/// The present number of bytes.
pub(super) const fn held(name: &'static str, value: u64, what: &'static str) -> [Figure; 1] {
    [figure(Gauge, Bytes, name, value, what)]
}

/// The time of one event, such as the longest or the mean.
pub(super) const fn time(name: &'static str, value: u64, what: &'static str) -> [Figure; 1] {
    [figure(Gauge, Nanoseconds, name, value, what)]
}

/// The figures of waits of one cause; `names` are those of their number, of their sum, of the
/// longest, and of the number of long waits.
pub(super) const fn waits(
    names: [&'static str; 4],
    waits: WaitStats,
    what: &'static str,
) -> [Figure; 4] {
    let [count, total, longest, long] = names;
    [
        figure(Counter, Count, count, waits.count, what),
        figure(Counter, Nanoseconds, total, waits.nanos_total, what),
        figure(Gauge, Nanoseconds, longest, waits.nanos_max, what),
        figure(Counter, Count, long, waits.above_5_ms, what),
    ]
}

/// The figures of gets, and with `names` the time of all gets by component, extrapolated from the
/// sampled ones.
pub(super) fn gets(names: [&'static str; 6], gets: GetStats, _: &'static str) -> Vec<Figure> {
    let mut figures = Vec::new();
    gets.list(&mut figures);
    let (counts, means) = figures.split_at(names.len());
    let times = counts.iter().zip(means);
    let times = times.map(|(count, mean)| count.value.saturating_mul(mean.value));
    let what = "Time of these gets in all, from a sample";
    let totals = names.into_iter().zip(times);
    let totals: Vec<_> = totals
        .flat_map(|(name, time)| spent(name, time, what))
        .collect();
    figures.extend(totals);
    figures
}
