//! Sizes and lengths of scans, each a fit over one figure, and which parts depend on each other.

use super::{MakeError, Notes, Source, kind_of};
use crate::model::{
    COUNTER_BYTES, KEY_BYTES_MAX, KEY_BYTES_MIN, Kind, SCAN_LENGTH_MAX, VALUE_BYTES_MAX, Values,
};
use crate::size_fit::{self, Candidate, Known};
use crate::sizes::{Sizes, Spread};

/// Up to this number of different sizes become a histogram unchanged.
const BARS_MAX: usize = 16;
/// If the shares of a fit are off by more than this, it is refused. A histogram with this number of
/// parts takes its place.
const DISTANCE_MAX: f64 = 0.1;
const PARTS: usize = 64;
/// Above this correlation two parts are not independent.
const CORRELATED: f64 = 0.1;

/// Sizes of keys.
pub(super) fn keys(source: &Source<'_>, notes: &mut Notes) -> Result<Sizes, MakeError> {
    let mut counts = counts(source, "key-sizes", "bytes", "operations", |_| true)?;
    let short: u64 = counts
        .iter()
        .filter(|(size, _)| *size < KEY_BYTES_MIN)
        .map(|(_, count)| count)
        .sum();
    if short > 0 {
        notes.push(format!("Keys: {short} operations name a key below {KEY_BYTES_MIN} bytes, the least of a model; it has {KEY_BYTES_MIN} there."));
    }
    for (size, _) in &mut counts {
        *size = (*size).clamp(KEY_BYTES_MIN, KEY_BYTES_MAX);
    }
    let fitted = fitted(counts, KEY_BYTES_MAX, "Keys", notes);
    Ok(fitted.unwrap_or_else(|| {
        notes.unknown("Keys: the analysis has no sizes of keys; the model has 16 bytes.");
        Sizes::constant(16)
    }))
}

/// Sizes of values that are put, and of values that are there before.
pub(super) fn values(source: &Source<'_>, notes: &mut Notes) -> Result<Values, MakeError> {
    if source.mix.merge > 0.0 {
        notes.push("Values: with merges, all are counters.".to_owned());
        let counter = Sizes::constant(COUNTER_BYTES);
        return Ok(Values {
            sizes: counter.clone(),
            loaded: counter,
            compressible: 0,
        });
    }
    let of = |wanted: Kind| {
        counts(source, "value-sizes", "bytes", "operations", move |kind| {
            kind_of(kind) == Some(wanted)
        })
    };
    let put = fitted(
        of(Kind::Put)?,
        VALUE_BYTES_MAX,
        "Values that are put",
        notes,
    );
    let found = fitted(
        of(Kind::Get)?,
        VALUE_BYTES_MAX,
        "Values that are found",
        notes,
    );
    let (sizes, loaded) = match (put, found) {
        (Some(put), Some(found)) => (put, found),
        (Some(one), None) | (None, Some(one)) => (one.clone(), one),
        (None, None) => {
            notes.unknown("Values: the trace has no sizes of values; the model has 100 bytes.");
            (Sizes::constant(100), Sizes::constant(100))
        }
    };
    Ok(Values {
        sizes,
        loaded,
        compressible: 0,
    })
}

/// Lengths of scans, if there are scans.
pub(super) fn scans(
    source: &Source<'_>,
    length: Option<u64>,
    notes: &mut Notes,
) -> Result<Option<Sizes>, MakeError> {
    if source.mix.scan == 0.0 {
        return Ok(None);
    }
    let of = |id: &str| counts(source, id, "records", "scans", |_| true);
    let mut counts = of("scan-lengths")?;
    // A model's scans go forwards.
    counts.extend(of("scan-lengths-reverse")?);
    let empty: u64 = counts
        .iter()
        .filter(|(length, _)| *length == 0)
        .map(|(_, count)| count)
        .sum();
    if empty > 0 {
        notes.push(format!(
            "Scans: {empty} gave nothing; the model's give 1 record at least."
        ));
    }
    for (length, _) in &mut counts {
        *length = (*length).clamp(1, SCAN_LENGTH_MAX);
    }
    let fitted = fitted(counts, SCAN_LENGTH_MAX, "Scans", notes);
    if let (Some(_), Some(_)) = (&fitted, length) {
        let why = "the trace says how long scans are: no length can be given beside";
        return Err(MakeError::Nothing(why.to_owned()));
    }
    Ok(Some(fitted.unwrap_or_else(|| match length {
        Some(length) => {
            notes.push(format!("Scans: {length} records each, as was asked."));
            Sizes::constant(length.clamp(1, SCAN_LENGTH_MAX))
        }
        None => {
            notes.unknown(
                "Scans: the trace does not say how many records they give; the model has 1, which a seek reads at least, unless `evendb model --scan-length` says more.",
            );
            Sizes::constant(1)
        }
    })))
}

/// Sizes and the number of operations with each, from a cumulative figure whose rows may be
/// thinned. A row has the exact number for its size. Operations between the row before and this row
/// are taken to have the size in the middle.
fn counts(
    source: &Source<'_>,
    id: &str,
    size: &str,
    count: &str,
    takes: impl Fn(&str) -> bool,
) -> Result<Vec<(u64, u64)>, MakeError> {
    let table = source.table(id)?;
    let (sizes, here, up_to) = (
        table.numbers(size)?,
        table.numbers(count)?,
        table.numbers(&format!("{count}_up_to"))?,
    );
    let kinds = match count {
        "scans" => vec!["scan".to_owned(); sizes.len()],
        _ => table.texts("kind")?,
    };
    let rows = sizes.into_iter().zip(here).zip(up_to);
    let rows: Vec<Row<'_>> = kinds
        .iter()
        .zip(rows)
        .map(|(kind, ((size, here), up_to))| Row {
            kind,
            size,
            here,
            up_to,
        })
        .collect();
    let of_a_kind = rows.chunk_by(|a, b| a.kind == b.kind && a.up_to <= b.up_to);
    let mut counts = Vec::new();
    for rows in of_a_kind.filter(|rows| takes(rows[0].kind)) {
        // The first row has all operations with its size and below.
        let total = rows[0].here / rows[0].up_to.max(f64::MIN_POSITIVE);
        counts.push((rows[0].size as u64, rows[0].here as u64));
        for pair in rows.windows(2) {
            let [before, row] = [&pair[0], &pair[1]];
            let between = (row.up_to - before.up_to) * total - row.here;
            let middle = f64::midpoint(before.size, row.size).round() as u64;
            counts.push((middle, between.max(0.0).round() as u64));
            counts.push((row.size as u64, row.here as u64));
        }
    }
    counts.retain(|(_, count)| *count > 0);
    Ok(counts)
}

/// A row of a figure of sizes.
struct Row<'a> {
    kind: &'a str,
    size: f64,
    /// Operations with this size.
    here: f64,
    /// The share of operations with at most this size.
    up_to: f64,
}

/// The spread of these sizes. None if there are none.
fn fitted(counts: Vec<(u64, u64)>, most: u64, what: &str, notes: &mut Notes) -> Option<Sizes> {
    let counts = merged(counts);
    let (&(least, _), &(largest, _)) = (counts.first()?, counts.last()?);
    if counts.len() == 1 {
        notes.push(format!("{what}: all are {least}."));
        return Some(Sizes::constant(least));
    }
    if counts.len() <= BARS_MAX {
        notes.push(format!(
            "{what}: {} different sizes, as they stand.",
            counts.len()
        ));
        return Some(histogram(&counts));
    }
    let known = Known {
        theta: 0.0,
        least: least.min(1),
        most: largest.min(most),
    };
    let all = [
        Candidate::GeneralizedPareto,
        Candidate::Weibull,
        Candidate::Exponential,
    ];
    match size_fit::choose(&counts, &all, known) {
        Ok(fits) => {
            let names = fits.all.iter().map(|fit| {
                format!(
                    "{} (criterion {:.0}, shares off by {:.3})",
                    fit.sizes.spread.name(),
                    fit.criterion,
                    fit.distance
                )
            });
            let tried = names.collect::<Vec<_>>().join(", ");
            if fits.best.distance <= DISTANCE_MAX {
                notes.push(format!("{what}: of {tried}, the first."));
                let mut sizes = fits.best.sizes;
                sizes.least = least;
                return Some(sizes);
            }
            notes.push(format!(
                "{what}: {tried} are all off by more than {DISTANCE_MAX}, so they are a histogram."
            ));
        }
        Err(error) => notes.push(format!(
            "{what}: a histogram, because nothing fits: {error}."
        )),
    }
    Some(histogram(&grouped(&counts)))
}

/// One entry for each size, in order.
fn merged(mut counts: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    counts.sort_unstable();
    counts.dedup_by(|next, first| {
        let same = next.0 == first.0;
        if same {
            first.1 += next.1;
        }
        same
    });
    counts
}

/// At most [`PARTS`] sizes. Each part has the mean of its sizes. What rounding takes from one part
/// goes to the next, so that the mean of all stays.
fn grouped(counts: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    let part = total.div_ceil(PARTS as u64).max(1);
    let (mut groups, mut gathered, mut bytes) = (Vec::new(), 0, 0.0);
    for (at, &(size, count)) in counts.iter().enumerate() {
        gathered += count;
        bytes += size as f64 * count as f64;
        if gathered >= part || at + 1 == counts.len() {
            let mean = (bytes / gathered as f64).round().max(counts[0].0 as f64);
            groups.push((mean as u64, gathered));
            bytes -= mean * gathered as f64;
            gathered = 0;
        }
    }
    merged(groups)
}

fn histogram(counts: &[(u64, u64)]) -> Sizes {
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    let mut bars: Vec<(u64, f64)> = counts
        .iter()
        .map(|&(size, count)| (size, count as f64 / total as f64))
        .collect();
    // The remainder of rounding goes to the largest bar, so that the shares add up to 1.
    let off = 1.0 - bars.iter().map(|(_, share)| share).sum::<f64>();
    if let Some(largest) = bars.iter_mut().max_by(|a, b| a.1.total_cmp(&b.1)) {
        largest.1 += off;
    }
    let (least, most) = (counts[0].0, counts[counts.len() - 1].0);
    Sizes {
        spread: Spread::Histogram(bars),
        least,
        most,
    }
}

/// A model draws its parts one by one. Warns if the trace's parts depend on each other.
pub(super) fn warn_of_correlations(
    source: &Source<'_>,
    notes: &mut Notes,
) -> Result<(), MakeError> {
    let table = source.table("pearson")?;
    let names = table.texts("a")?.into_iter().zip(table.texts("b")?);
    let mut dependent = 0;
    for ((a, b), correlation) in names.zip(table.numbers("correlation")?) {
        if correlation.abs() > CORRELATED {
            dependent += 1;
            notes.push(format!("Attention: {a} and {b} are correlated ({correlation:.2}), and the model draws them apart."));
        }
    }
    if dependent == 0 {
        notes.push(format!("No two parts are correlated beyond {CORRELATED} (Pearson), so they are drawn one by one."));
    }
    Ok(())
}
