//! Operations a second, over the time of a trace.

use super::table::Table;
use super::{MakeError, Notes, Source, kind_of};
use crate::curve::Shape;
use crate::curve_fit::{self, CurveFit};
use crate::model::{Mix, Rate};
use crate::periods;
use evendb_report::Document;
use std::collections::BTreeMap;

/// The limits of a burst at the beginning. Its rates are above the upper quartile by more than this
/// many times the distance of the quartiles, and by more than this share of the upper quartile. It
/// lasts at most one part in this number of the time.
const BURST_QUARTILES: f64 = 3.0;
const BURST_SHARE: f64 = 0.5;
const BURST_PART: usize = 10;
/// A sine may go beyond the measured rates, at either end, by this share of their range.
const BEYOND_MAX: f64 = 0.25;
/// A sine must explain at least this share of the variance.
const R_SQUARED_MIN: f64 = 0.5;

/// Operations a second: a sine, if it explains the course and stays near the measured rates, else
/// their mean. If the course has a period, a sine of that period comes before all others.
pub(super) fn rate(sources: &[Source<'_>], notes: &mut Notes) -> Result<Option<Rate>, MakeError> {
    let points = rates(sources)?;
    Ok(fitted(&points, notes))
}

/// The rate that the model of all keyspaces has, beside the measured course: times and rates.
pub(crate) fn of_all(document: &Document) -> Result<Option<Beside>, MakeError> {
    let table = Table::of(document, "rates");
    let mut keyspaces = table.texts_lent("keyspace")?;
    keyspaces.sort_unstable();
    keyspaces.dedup();
    let source = |keyspace| Source {
        document,
        keyspace,
        mix: Mix::default(),
    };
    let sources: Vec<_> = keyspaces.into_iter().map(source).collect();
    let (measured, mut notes) = (rates(&sources)?, Notes::default());
    let rate = fitted(&measured, &mut notes);
    Ok(rate.map(|rate| Beside {
        measured,
        rate,
        notes: notes.all,
    }))
}

/// A measured course, and the rate that a model has for it.
pub(crate) struct Beside {
    pub(crate) measured: Vec<(f64, f64)>,
    pub(crate) rate: Rate,
    pub(crate) notes: Vec<String>,
}

fn fitted(points: &[(f64, f64)], notes: &mut Notes) -> Option<Rate> {
    let burst = burst(points);
    let (first, points) = points.split_at(burst);
    if let Some((until, _)) = points.first().filter(|_| burst > 0) {
        let most = first.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        notes.push(format!(
            "Rate: the first {until:.1} seconds, with up to {most:.1} operations a second, are a burst that is left out."
        ));
    }
    let mean = points.iter().map(|(_, rate)| rate).sum::<f64>() / points.len().max(1) as f64;
    if !(mean.is_finite() && mean > 0.0) {
        notes.unknown("Rate: the trace has no course of time; the model has no rate.");
        return None;
    }
    let of_period = of_period(points, notes);
    Some(of_period.unwrap_or_else(|| of_any_sine(points, mean, notes)))
}

/// A sine of the period that the course has, if it has one and the sine explains enough. A course
/// with a gap in it has none.
fn of_period(points: &[(f64, f64)], notes: &mut Notes) -> Option<Rate> {
    let [(begin, _), (next, _), ..] = points else {
        return None;
    };
    let step = next - begin;
    let mut due = (0..points.len()).map(|at| begin + step * at as f64);
    if !points.iter().all(|(time, _)| {
        due.next()
            .is_some_and(|due| (time - due).abs() < step / 2.0)
    }) {
        return None;
    }
    let course: Vec<f64> = points.iter().map(|(_, rate)| *rate).collect();
    let found = periods::find(&course)?;
    let (seconds, strength) = (found.stretches * step, found.strength);
    let period = format!("the period of {seconds:.1} seconds (strength {strength:.3})");
    match curve_fit::sine_of(points, seconds) {
        Ok(fitted) if explains(&fitted) && stays_near(&sine(&fitted), points) => {
            notes.push(format!(
                "Rate: a sine of {period} (R^2 {:.3}).",
                fitted.r_squared
            ));
            Some(sine(&fitted))
        }
        _ => {
            notes.push(format!(
                "Rate: it has {period}, but no sine explains its course; a model can have nothing else."
            ));
            None
        }
    }
}

/// The sine that is nearest to the points, if it explains enough; else their mean.
fn of_any_sine(points: &[(f64, f64)], mean: f64, notes: &mut Notes) -> Rate {
    let flat = Rate {
        a: 0.0,
        b: 0.0,
        c: 0.0,
        d: mean,
    };
    let fitted = match curve_fit::fit(points, Shape::Sine) {
        Ok(fitted) => fitted,
        Err(error) => {
            notes.push(format!(
                "Rate: {mean:.1} a second, because no sine fits: {error}."
            ));
            return flat;
        }
    };
    let r_squared = fitted.r_squared;
    if !explains(&fitted) {
        notes.push(format!(
            "Rate: {mean:.1} a second, because a sine explains little of it (R^2 {r_squared:.3})."
        ));
        return flat;
    }
    if !stays_near(&sine(&fitted), points) {
        notes.push(format!(
            "Rate: {mean:.1} a second, because the sine that fits (R^2 {r_squared:.3}) goes far beyond the rates that were measured: the trace is too short to show a swing."
        ));
        return flat;
    }
    notes.push(format!("Rate: a sine (R^2 {r_squared:.3})."));
    sine(&fitted)
}

fn sine(fitted: &CurveFit) -> Rate {
    let of = &fitted.curve.parameters;
    let (a, b, c, d) = (of[0], of[1], of[2], of[3]);
    Rate { a, b, c, d }
}

/// Whether a sine explains enough, and never goes to nothing.
fn explains(fitted: &CurveFit) -> bool {
    let sine = sine(fitted);
    fitted.r_squared >= R_SQUARED_MIN && sine.d > sine.a.abs()
}

/// The operations a second of all kinds of a model in these keyspaces, by time.
fn rates(sources: &[Source<'_>]) -> Result<Vec<(f64, f64)>, MakeError> {
    let mut points: BTreeMap<u64, f64> = BTreeMap::new();
    for source in sources {
        let table = source.table("rates")?;
        let (kinds, times, rates) = (
            table.texts("kind")?,
            table.numbers("time")?,
            table.numbers("per_second")?,
        );
        for ((kind, time), rate) in kinds.iter().zip(times).zip(rates) {
            if kind_of(kind).is_some() {
                *points.entry(time.to_bits()).or_default() += rate;
            }
        }
    }
    let points = points.into_iter();
    let mut points: Vec<_> = points
        .map(|(at, rate)| (f64::from_bits(at), rate))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    // The last one may be cut by the end of the trace.
    if points.len() > 2 {
        points.pop();
    }
    Ok(points)
}

/// The number of first points that belong to a burst: a store that is filled, or operations that
/// had gathered before the recording began.
fn burst(points: &[(f64, f64)]) -> usize {
    let mut sorted: Vec<f64> = points.iter().map(|(_, rate)| *rate).collect();
    sorted.sort_by(f64::total_cmp);
    let [Some(low), Some(high)] = [1, 3].map(|part| sorted.get(sorted.len() * part / 4)) else {
        return 0;
    };
    let most = high + (BURST_QUARTILES * (high - low)).max(BURST_SHARE * high);
    let above = points.iter().take_while(|(_, rate)| *rate > most).count();
    match above <= points.len() / BURST_PART {
        true => above,
        false => 0,
    }
}

/// Whether a sine stays near the rates that were measured, over all of its swing.
fn stays_near(sine: &Rate, points: &[(f64, f64)]) -> bool {
    let rates = || points.iter().map(|(_, rate)| *rate);
    let (least, most) = (
        rates().fold(f64::MAX, f64::min),
        rates().fold(0.0, f64::max),
    );
    let beyond = BEYOND_MAX * (most - least);
    sine.d + sine.a.abs() <= most + beyond && sine.d - sine.a.abs() >= least - beyond
}
