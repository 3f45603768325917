//! Operations a second, over the time of a trace.

use super::{MakeError, Notes, Source, kind_of};
use crate::curve::Shape;
use crate::curve_fit;
use crate::model::Rate;
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
/// their mean.
pub(super) fn rate(sources: &[Source<'_>], notes: &mut Notes) -> Result<Option<Rate>, MakeError> {
    let points = rates(sources)?;
    let burst = burst(&points);
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
        return Ok(None);
    }
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
    let r_squared = fitted.r_squared;
    if r_squared < R_SQUARED_MIN || sine.d <= sine.a.abs() {
        notes.push(format!(
            "Rate: {mean:.1} a second, because a sine explains little of it (R^2 {r_squared:.3})."
        ));
        return Ok(Some(flat));
    }
    if !stays_near(&sine, points) {
        notes.push(format!(
            "Rate: {mean:.1} a second, because the sine that fits (R^2 {r_squared:.3}) goes far beyond the rates that were measured: the trace is too short to show a swing."
        ));
        return Ok(Some(flat));
    }
    notes.push(format!("Rate: a sine (R^2 {r_squared:.3})."));
    Ok(Some(sine))
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
