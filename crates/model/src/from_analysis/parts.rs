//! Sizes, lengths of scans, and the rate: each a fit over one figure.

use super::{MakeError, Source, kind_of};
use crate::curve::Shape;
use crate::curve_fit;
use crate::model::{
    COUNTER_BYTES, KEY_BYTES_MAX, KEY_BYTES_MIN, Kind, Rate, SCAN_LENGTH_MAX, VALUE_BYTES_MAX,
    Values,
};
use crate::size_fit::{self, Candidate, Known};
use crate::sizes::{Sizes, Spread};

/// So few different sizes are a histogram as they stand.
const BARS_MAX: usize = 16;
/// A fit whose shares are off by more than this is none: a histogram of so many parts takes its place.
const DISTANCE_MAX: f64 = 0.1;
const PARTS: usize = 64;
/// Beyond this two parts are not independent.
const CORRELATED: f64 = 0.1;

/// Sizes of keys.
pub(super) fn keys(source: &Source<'_>, notes: &mut Vec<String>) -> Result<Sizes, MakeError> {
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
    fitted.ok_or_else(|| MakeError::Nothing("no operation of the trace names a key".to_owned()))
}

/// Sizes of values that are put, and of those that are there before.
pub(super) fn values(source: &Source<'_>, notes: &mut Vec<String>) -> Result<Values, MakeError> {
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
            notes.push(
                "Values: the trace has no sizes of values; the model has 100 bytes.".to_owned(),
            );
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
    notes: &mut Vec<String>,
) -> Result<Option<Sizes>, MakeError> {
    if source.mix.scan == 0.0 {
        return Ok(None);
    }
    let mut counts = counts(source, "scan-lengths", "records", "scans", |_| true)?;
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
    Ok(Some(fitted.unwrap_or_else(|| {
        notes.push(
            "Scans: the trace does not say how long they are; the model has 1 record.".to_owned(),
        );
        Sizes::constant(1)
    })))
}

/// Sizes and how many operations have them, in the order of size, from a cumulative figure whose rows may be thinned: a row
/// stands for those between the row before and itself.
fn counts(
    source: &Source<'_>,
    id: &str,
    size: &str,
    count: &str,
    takes: impl Fn(&str) -> bool,
) -> Result<Vec<(u64, u64)>, MakeError> {
    let table = source.table(id)?;
    let (sizes, up_to) = (
        table.numbers(size)?,
        table.numbers(&format!("{count}_up_to"))?,
    );
    let kinds = match id {
        "scan-lengths" => vec!["scan".to_owned(); sizes.len()],
        _ => table.texts("kind")?,
    };
    let totals = source.totals()?;
    let (mut counts, mut before): (Vec<(u64, u64)>, _) = (Vec::new(), (String::new(), 0.0));
    for ((kind, size), up_to) in kinds.iter().zip(sizes).zip(up_to) {
        if before.0 != *kind || up_to < before.1 {
            before = (kind.clone(), 0.0);
        }
        let share = (up_to - before.1).max(0.0);
        before.1 = up_to;
        let total = totals
            .iter()
            .find(|(name, _)| name == kind)
            .map_or(0.0, |(_, total)| *total);
        let here = (share * total).round() as u64;
        if takes(kind) && here > 0 {
            counts.push((size as u64, here));
        }
    }
    Ok(counts)
}

/// The spread that these sizes have; none if there are none.
fn fitted(
    counts: Vec<(u64, u64)>,
    most: u64,
    what: &str,
    notes: &mut Vec<String>,
) -> Option<Sizes> {
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

/// At most [`PARTS`] sizes: the largest of each part stands for it.
fn grouped(counts: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    let part = total.div_ceil(PARTS as u64).max(1);
    let (mut groups, mut gathered) = (Vec::new(), 0);
    for &(size, count) in counts {
        gathered += count;
        if gathered >= part {
            groups.push((size, gathered));
            gathered = 0;
        }
    }
    if gathered > 0 {
        groups.extend(counts.last().map(|&(size, _)| (size, gathered)));
    }
    merged(groups)
}

fn histogram(counts: &[(u64, u64)]) -> Sizes {
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    let mut bars: Vec<(u64, f64)> = counts
        .iter()
        .map(|&(size, count)| (size, count as f64 / total as f64))
        .collect();
    // What rounding has left over goes to the largest bar, so that the shares add up to 1.
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

/// Operations a second: a sine where one explains the course, else their mean.
pub(super) fn rate(
    source: &Source<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<Rate>, MakeError> {
    let table = source.table("rates")?;
    let (kinds, times, rates) = (
        table.texts("kind")?,
        table.numbers("time")?,
        table.numbers("per_second")?,
    );
    let mut points: Vec<(f64, f64)> = Vec::new();
    for ((kind, time), rate) in kinds.iter().zip(times).zip(rates) {
        if kind_of(kind).is_none() {
            continue;
        }
        match points.iter_mut().find(|(at, _)| *at == time) {
            Some((_, sum)) => *sum += rate,
            None => points.push((time, rate)),
        }
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    // The last one may be cut by the end of the trace.
    if points.len() > 2 {
        points.pop();
    }
    let mean = points.iter().map(|(_, rate)| rate).sum::<f64>() / points.len().max(1) as f64;
    if !(mean.is_finite() && mean > 0.0) {
        return Ok(None);
    }
    let flat = Rate {
        a: 0.0,
        b: 0.0,
        c: 0.0,
        d: mean,
    };
    let fitted = match curve_fit::fit(&points, Shape::Sine) {
        Ok(fitted) => fitted,
        Err(error) => {
            notes.push(format!(
                "Rate: {mean:.1} a second, because no sine fits: {error}."
            ));
            return Ok(Some(flat));
        }
    };
    let of = &fitted.curve.parameters;
    let sine = Rate {
        a: of[0],
        b: of[1],
        c: of[2],
        d: of[3],
    };
    if fitted.r_squared >= 0.5 && sine.d > sine.a.abs() {
        notes.push(format!("Rate: a sine (R^2 {:.3}).", fitted.r_squared));
        return Ok(Some(sine));
    }
    notes.push(format!(
        "Rate: {mean:.1} a second, because a sine explains little of it (R^2 {:.3}).",
        fitted.r_squared
    ));
    Ok(Some(flat))
}

/// A model draws its parts one by one; where the trace's depend on each other, it is told.
pub(super) fn warn_of_correlations(
    source: &Source<'_>,
    notes: &mut Vec<String>,
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
