//! When operations come, and how many different keys they name in a period.
//!
//! The time of a trace is cut in bins of equal length; a period is two of them.

use super::Context;
use super::cells::{Row, Words, cells, quoted, whole};
use crate::error::Result;
use crate::operations::Summary;
use crate::tables::{DONE, KEYLESS};
use arrow::array::RecordBatch;
use arrow::array::cast::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt64Type};
use evendb_report::{Chart, Figure, Mark, Unit};
use futures::StreamExt;
use serde_json::Value;
use std::collections::BTreeMap;

const BINS_MAX: u64 = 300;
/// A bin has at least this number of operations on average; otherwise there are fewer bins.
const BIN_OPERATIONS: u64 = 50;
const PERIOD_BINS: u64 = 2;
/// Different keys are counted in several periods at once. These have at most this number of
/// operations together, which bounds the memory.
const OPERATIONS_AT_ONCE: u64 = 4 << 20;

/// The cut of the time.
#[derive(Clone, Copy)]
struct Bins {
    nanos: u64,
    count: u64,
}

impl Bins {
    fn new(summary: &Summary) -> Bins {
        let wanted = (summary.operations / BIN_OPERATIONS).clamp(1, BINS_MAX);
        let nanos = (summary.duration_nanos / wanted).saturating_add(1);
        Bins {
            nanos,
            count: summary.duration_nanos / nanos + 1,
        }
    }

    /// The number of periods.
    fn periods(self) -> u64 {
        self.count.div_ceil(PERIOD_BINS)
    }

    fn period_of(self, nanos: u64) -> u64 {
        nanos / self.nanos / PERIOD_BINS
    }

    /// The first and last nanosecond of periods.
    fn nanos_of(self, first: u64, last: u64) -> (u64, u64) {
        let end = (last + 1).saturating_mul(PERIOD_BINS);
        let end = end.checked_mul(self.nanos);
        let begin = (first * PERIOD_BINS).saturating_mul(self.nanos);
        (begin, end.map_or(u64::MAX, |end| end - 1))
    }

    fn seconds(self) -> f64 {
        self.nanos as f64 / 1e9
    }
}

/// Numbers by keyspace and period.
type Counts = BTreeMap<(String, u64), u64>;

pub(super) async fn find(context: &Context<'_>) -> Result<Vec<Figure>> {
    // If all operations begin at one moment, there is no time to look at.
    if context.summary.duration_nanos == 0 {
        return Ok(Vec::new());
    }
    let bins = Bins::new(context.summary);
    let sql = format!(
        "SELECT keyspace, kind, start_nanos / {} AS bin, count(*) AS operations, kind NOT IN {KEYLESS} AS has_key
         FROM operations WHERE {DONE} GROUP BY keyspace, kind, start_nanos / {} ORDER BY keyspace, kind, bin",
        whole(bins.nanos),
        whole(bins.nanos)
    );
    let counted = cells(&context.session.rows(&sql).await?)?;
    let mut operations = Counts::new();
    for row in counted.iter().filter(|row| row[4] == "true") {
        let (Value::String(keyspace), Some(bin)) = (&row[0], row[2].as_u64()) else {
            continue;
        };
        let count = operations.entry((keyspace.clone(), bin / PERIOD_BINS));
        *count.or_default() += row[3].as_u64().unwrap_or_default();
    }
    let unique = unique_keys(context, bins, &operations).await?;
    let mut figures = vec![rates(bins, &counted), unique];
    figures.retain(|figure| !figure.rows.is_empty());
    Ok(figures)
}

fn rates(bins: Bins, counted: &[Row]) -> Figure {
    let mut rows = Vec::new();
    for same in counted.chunk_by(|a, b| a[..2] == b[..2]) {
        let mut next = same.iter().peekable();
        for bin in 0..bins.count {
            let here = next.next_if(|row| row[2].as_u64() == Some(bin));
            let operations = here.and_then(|row| row[3].as_u64()).unwrap_or_default();
            let mut row = same[0][..2].to_vec();
            row.push((bin as f64 * bins.seconds()).into());
            row.push((operations as f64 / bins.seconds()).into());
            rows.push(row);
        }
    }
    let words = Words {
        id: "rates",
        title: "Operations per second",
        about: "How many operations of a kind came per second, in stretches of equal length; the time is where a stretch begins. \
                A wave of a day's length comes from people, a flat line from machines, peaks from jobs.",
        section: "4.3, figure 7",
        columns: &[
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("time", Unit::Seconds),
            ("per_second", Unit::PerSecond),
        ],
    };
    let mut figure = words.figure(rows);
    let lines = Chart::new(Mark::Line, "time", "per_second")
        .with_series("kind")
        .with_panel("keyspace");
    figure.charts.push(lines);
    figure
}

async fn unique_keys(context: &Context<'_>, bins: Bins, operations: &Counts) -> Result<Figure> {
    let unique = different(context, bins, operations).await?;
    let new = new_keys(context, bins).await?;
    let mut keyspaces: Vec<&String> = operations.keys().map(|(keyspace, _)| keyspace).collect();
    keyspaces.dedup();
    let seconds = bins.seconds() * PERIOD_BINS as f64;
    let mut rows = Vec::new();
    for keyspace in keyspaces {
        for period in 0..bins.periods() {
            let at = (keyspace.clone(), period);
            let count = |of: &Counts| Value::from(of.get(&at).copied().unwrap_or_default());
            let time = period as f64 * seconds;
            let mut row: Row = vec![keyspace.as_str().into(), seconds.into()];
            row.extend([time.into(), count(operations), count(&unique), count(&new)]);
            rows.push(row);
        }
    }
    let words = Words {
        id: "unique-keys",
        title: "Different keys in a period",
        about: "How many operations there were in each period, how many different keys they named, and how many of these had never been named before in the \
                trace. Far fewer keys than operations: a cache of few keys serves much. New keys that do not become fewer: the load moves on. \
                Keys are told apart by a hash of 64 bits.",
        section: "4.2, table 1",
        columns: &[
            ("keyspace", Unit::Text),
            ("period_seconds", Unit::Seconds),
            ("time", Unit::Seconds),
            ("operations", Unit::Count),
            ("unique_keys", Unit::Count),
            ("new_keys", Unit::Count),
        ],
    };
    let mut figure = words.figure(rows);
    for (y, title) in [
        ("operations", "Operations"),
        ("unique_keys", "Different keys"),
        ("new_keys", "Keys not seen before"),
    ] {
        let mut lines = Chart::new(Mark::Line, "time", y).with_series("keyspace");
        lines.title = title.to_owned();
        figure.charts.push(lines);
    }
    Ok(figure)
}

/// The number of different keys in each period, found for a few periods at a time: the table is in
/// the order of time, so a query reads only its part.
async fn different(context: &Context<'_>, bins: Bins, operations: &Counts) -> Result<Counts> {
    let mut found = Counts::new();
    let period = format!(
        "start_nanos / {} / {}",
        whole(bins.nanos),
        whole(PERIOD_BINS)
    );
    for (first, last) in stretches(bins.periods(), operations, OPERATIONS_AT_ONCE) {
        let (begin, end) = bins.nanos_of(first, last);
        let sql = format!(
            "SELECT keyspace, period, count(*) FROM (
                 SELECT keyspace, {period} AS period, key_hash FROM operations
                 WHERE start_nanos BETWEEN {} AND {} AND kind NOT IN {KEYLESS} AND {DONE}
                 GROUP BY keyspace, {period}, key_hash)
             GROUP BY keyspace, period",
            whole(begin),
            whole(end)
        );
        for row in cells(&context.session.rows(&sql).await?)? {
            if let [Value::String(keyspace), period, keys] = &row[..] {
                let at = (keyspace.clone(), period.as_u64().unwrap_or_default());
                found.insert(at, keys.as_u64().unwrap_or_default());
            }
        }
    }
    Ok(found)
}

/// The periods that have operations, grouped into stretches from a first to a last one. A stretch
/// of several periods has at most `at_once` operations.
fn stretches(periods: u64, operations: &Counts, at_once: u64) -> Vec<(u64, u64)> {
    let mut per_period = vec![0; periods as usize];
    for ((_, period), count) in operations {
        per_period[*period as usize] += count;
    }
    let mut stretches: Vec<(u64, u64)> = Vec::new();
    let mut gathered: u64 = 0;
    for (period, count) in (0..).zip(per_period).filter(|(_, count)| *count > 0) {
        match stretches.last_mut() {
            Some((_, last)) if gathered + count <= at_once => {
                *last = period;
                gathered += count;
            }
            _ => {
                stretches.push((period, period));
                gathered = count;
            }
        }
    }
    stretches
}

/// The number of keys that were named for the first time in each period, by a pass over the keys in
/// their order.
async fn new_keys(context: &Context<'_>, bins: Bins) -> Result<Counts> {
    let keyspaces = cells(
        &context
            .session
            .rows("SELECT DISTINCT keyspace FROM keys WHERE accesses > 0")
            .await?,
    )?;
    let mut counts = Counts::new();
    for keyspace in keyspaces.iter().filter_map(|row| row[0].as_str()) {
        let sql = format!(
            "SELECT key, first_nanos FROM keys WHERE keyspace = {} AND accesses > 0 ORDER BY key",
            quoted(keyspace)
        );
        let mut rows = context.session.stream(&sql).await?;
        let mut firsts = Firsts::default();
        let mut count = |nanos: u64| {
            let at = (keyspace.to_owned(), bins.period_of(nanos));
            *counts.entry(at).or_default() += 1;
        };
        while let Some(batch) = rows.next().await {
            firsts.add(&batch?, &mut count)?;
        }
        firsts.first.into_iter().for_each(count);
    }
    Ok(counts)
}

/// The times at which keys were first named. They come in order, once for each kind of operation.
#[derive(Default)]
struct Firsts {
    key: Vec<u8>,
    first: Option<u64>,
}

impl Firsts {
    /// Takes rows of keys and times, and tells the time of each key that is complete.
    fn add(&mut self, rows: &RecordBatch, tell: &mut impl FnMut(u64)) -> Result<()> {
        let keys = cast(rows.column(0), &DataType::BinaryView)?;
        let firsts = rows.column(1).as_primitive::<UInt64Type>();
        for (key, nanos) in keys.as_binary_view().iter().flatten().zip(firsts.values()) {
            match self.first {
                Some(first) if self.key == key => self.first = Some(first.min(*nanos)),
                before => {
                    before.into_iter().for_each(&mut *tell);
                    self.first = Some(*nanos);
                    self.key.clear();
                    self.key.extend_from_slice(key);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_have_all_periods_once_and_few_operations() {
        let mut operations = Counts::new();
        for (period, count) in [(1, 5), (2, 3), (3, 2), (6, 1), (7, 30), (8, 9), (9, 1)] {
            operations.insert(("a".to_owned(), period), count - 1);
            operations.insert(("b".to_owned(), period), 1);
        }
        let found = stretches(12, &operations, 10);
        assert_eq!(found, [(1, 3), (6, 6), (7, 7), (8, 9)]);
        assert_eq!(stretches(12, &operations, u64::MAX), [(1, 9)]);
        assert_eq!(stretches(12, &Counts::new(), 10), []);
    }

    #[test]
    fn bins_have_the_whole_time() {
        for duration_nanos in [
            1,
            7,
            299,
            300,
            301,
            86_400_000_000_000,
            u64::MAX / 2,
            u64::MAX,
        ] {
            for operations in [1, 99, 100, 1_000_000] {
                let bins = Bins::new(&Summary {
                    operations,
                    duration_nanos,
                    ..Summary::default()
                });
                let last = bins.periods() - 1;
                assert!(bins.count <= BINS_MAX && last < 200);
                assert_eq!(duration_nanos / bins.nanos, bins.count - 1);
                assert_eq!(bins.period_of(duration_nanos), last);
                let (begin, end) = bins.nanos_of(last, last);
                assert!((begin..=end).contains(&duration_nanos));
                let (all, before) = bins.nanos_of(0, last.saturating_sub(1));
                assert!(all == 0 && (last == 0 || before + 1 == begin));
            }
        }
    }
}
