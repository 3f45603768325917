//! Where hot keys lie: ranges by their accesses, and pairs within a range.
//!
//! The measurements of pairs are over the whole key space: the hottest x of all pairs have this
//! share of the accesses. The model has ranges first, and says how hot pairs are within their
//! range. So the parameter of pairs is chosen such that ranges and pairs together give the
//! measurements. The number of named pairs is one of them: chance leaves out many of the pairs that
//! are seldom accessed.
//!
//! The busiest kind gives what is common to all kinds. Another kind has its own where it differs
//! (`own.rs`).

use super::course::{Course, course};
use super::own::{self, Kinds};
use super::space::Space;
use super::{MakeError, Notes, Source, kind_of};
use crate::access::{Accesses, Ranges};
use crate::curve::Shape;
use crate::curve_fit;
use crate::model::{Kind, OwnHeat};

const SHAPES: [Shape; 9] = [
    Shape::Power,
    Shape::PowerConstant,
    Shape::TwoPowers,
    Shape::Exponential,
    Shape::TwoExponentials,
    Shape::Polynomial(1),
    Shape::Polynomial(2),
    Shape::Polynomial(3),
    Shape::Weibull,
];
/// The kind of rows that list the keys of the store. They have no accesses.
const STORED: &str = "stored";
/// An analysis has at most this number of ranges.
const RANGES_OF_ANALYSIS_MAX: usize = 1 << 16;

/// These numbers of ranges of the analysis are tried as one range of the model.
const MERGED: [usize; 5] = [1, 2, 3, 5, 10];
/// A model has no ranges, or at least this number.
const RANGES_MIN: usize = 4;
/// If the share of keys named once is off by more than this, the note is a warning.
const ONCE_OFF_MAX: f64 = 0.05;

/// Where hot keys lie.
#[derive(Default)]
pub(super) struct Spots {
    pub ranges: Option<Ranges>,
    pub accesses: Option<Accesses>,
    pub own: [OwnHeat; 5],
}

/// The heat of ranges, and of pairs within them, for all kinds and for the kinds that differ.
pub(super) fn spots(
    source: &Source<'_>,
    pairs: u64,
    named: u64,
    notes: &mut Notes,
) -> Result<Spots, MakeError> {
    let heats = heats(source)?;
    let mut courses = Vec::new();
    for kind in Kind::ALL {
        courses.extend(course(source, kind)?.map(|course| (kind, course)));
    }
    let busiest = courses
        .iter()
        .max_by(|a, b| a.1.accesses.total_cmp(&b.1.accesses));
    let Some((busiest, course)) = busiest else {
        notes.unknown("Accesses: all pairs are alike, because too few were named.");
        let all: Vec<&[f64]> = heats.iter().map(Vec::as_slice).collect();
        let (ranges, note) = ranges(&sum(&all));
        notes.push(note);
        return Ok(Spots {
            ranges,
            ..Spots::default()
        });
    };
    let kinds = Kinds {
        busiest: *busiest,
        heats: &heats,
        courses: &courses,
    };
    let Some(common) = common(&kinds.common_heats(), course, (pairs, named), notes) else {
        return Ok(Spots::default());
    };
    let own = own::own(source, &kinds, &common, pairs, notes)?;
    Ok(Spots {
        ranges: common.ranges,
        accesses: Some(common.accesses),
        own,
    })
}

/// What is common to all kinds.
pub(super) struct Common {
    pub ranges: Option<Ranges>,
    pub accesses: Accesses,
    /// Its error in the compared measurements.
    pub off: f64,
    /// This number of ranges of the analysis is one range of the model.
    pub merged: usize,
}

/// Ranges of the analysis may not be the ranges of the load: so several of them together are tried
/// as one of the model. Among the tries whose error is at most a tenth above the least one, the
/// finest is taken.
fn common(
    heats: &[f64],
    course: &Course,
    (pairs, named): (u64, u64),
    notes: &mut Notes,
) -> Option<Common> {
    let mut tried = Vec::new();
    for merged in MERGED {
        if merged > 1 && heats.len() / merged < RANGES_MIN {
            continue;
        }
        let together = together(heats, merged);
        let (ranges, note) = ranges(&together);
        let pairs_of = accesses(ranges.as_ref(), pairs, named, course);
        tried.push((together.len(), ranges, note, pairs_of, merged));
    }
    let off = tried.iter().map(|(_, _, _, found, _)| found.off());
    let least = off.fold(f64::MAX, f64::min);
    let errors = tried
        .iter()
        .map(|(count, _, _, found, _)| format!("{count} ranges {:.4}", found.off()));
    let errors = errors.collect::<Vec<_>>().join(", ");
    let (_, ranges, note, found, merged) = tried
        .into_iter()
        .find(|(_, _, _, found, _)| found.off() <= least * 1.1)?;
    notes.push(note);
    notes.push(format!(
        "Accesses: {}. Errors by the number of ranges: {errors}.",
        found.told()
    ));
    let accesses = found.chosen();
    notes.push(once_told(ranges.as_ref(), pairs, &accesses, course));
    Some(Common {
        ranges,
        accesses,
        off: found.off(),
        merged,
    })
}

/// The share of the keys that is named once, in the trace and by the model.
pub(super) fn once_told(
    ranges: Option<&Ranges>,
    pairs: u64,
    accesses: &Accesses,
    course: &Course,
) -> String {
    let once = Space::new(ranges, pairs).once(accesses, course);
    let attention = match (once - course.once).abs() > ONCE_OFF_MAX {
        true => {
            "Attention: the model has another share of keys that are asked for once, so that caches find more or less of it than of the trace. "
        }
        false => "",
    };
    format!(
        "{attention}Keys named once: {:.3} of all keys that are named; by the model {once:.3}.",
        course.once
    )
}

/// The accesses of each `merged` ranges together.
pub(super) fn together(heats: &[f64], merged: usize) -> Vec<f64> {
    let chunks = heats.chunks(merged);
    chunks.map(|heats| heats.iter().sum()).collect()
}

/// The sums over kinds, range by range.
pub(super) fn sum(kinds: &[&[f64]]) -> Vec<f64> {
    let ranges = kinds.iter().map(|heats| heats.len()).max().unwrap_or(0);
    let of_range = |range: usize| kinds.iter().map(|heats| heats[range]).sum();
    (0..ranges).map(of_range).collect()
}

/// The accesses of each kind to each range of the analysis, in the order of keys. Ranges that
/// nobody accessed are known by the keys of the store in them, if the analysis was given these
/// keys.
fn heats(source: &Source<'_>) -> Result<[Vec<f64>; 5], MakeError> {
    let table = source.table("ranges")?;
    let (kinds, numbers) = (table.texts("kind")?, table.numbers("range")?);
    let mut heats: [Vec<f64>; 5] = Default::default();
    for ((name, number), accesses) in kinds.iter().zip(numbers).zip(table.numbers("accesses")?) {
        let number = number as usize;
        let kind = kind_of(name);
        if kind.is_none() && name != STORED || number > RANGES_OF_ANALYSIS_MAX {
            continue;
        }
        if heats[0].len() <= number {
            heats
                .iter_mut()
                .for_each(|heats| heats.resize(number + 1, 0.0));
        }
        if let Some(kind) = kind {
            heats[kind as usize][number] += accesses;
        }
    }
    Ok(heats)
}

/// The best curve through the accesses of ranges, the hottest first, and the note about it.
pub(super) fn ranges(heats: &[f64]) -> (Option<Ranges>, String) {
    let total: f64 = heats.iter().sum();
    if heats.len() < 2 || total == 0.0 {
        return (None, "Ranges: there is only one.".to_owned());
    }
    let mut heats = heats.to_vec();
    heats.sort_by(|a, b| b.total_cmp(a));
    let ranked = heats.iter().zip(1..);
    let points: Vec<(f64, f64)> = ranked
        .map(|(heat, rank)| (f64::from(rank), heat / total))
        .collect();
    let fits = match curve_fit::choose(&points, &SHAPES) {
        Ok(fits) => fits,
        Err(error) => {
            return (
                None,
                format!("Ranges: all are alike, because no curve fits: {error}."),
            );
        }
    };
    let count = heats.len() as u64;
    let in_order = std::iter::once(&fits.best).chain(&fits.all);
    let sound = in_order
        .map(|fit| {
            (
                fit,
                Ranges {
                    count,
                    curve: fit.curve.clone(),
                },
            )
        })
        .find(|(_, ranges)| ranges.shares().is_some());
    let Some((fit, ranges)) = sound else {
        return (
            None,
            "Ranges: all are alike, because no curve that fits stays above 0.".to_owned(),
        );
    };
    let error = |fit: &curve_fit::CurveFit| {
        format!("{} {:.3e}", fit.curve.shape.name(), fit.standard_error)
    };
    let tried = fits.all.iter().map(error).collect::<Vec<_>>().join(", ");
    let (name, r_squared) = (fit.curve.shape.name(), fit.r_squared);
    let note = format!(
        "Ranges: {count}; {name} chosen (R^2 {r_squared:.4}). Fit standard errors: {tried}."
    );
    (Some(ranges), note)
}

/// Both descriptions of pairs, each with its error.
pub(super) struct Found {
    cumulative: (Accesses, f64),
    by_rank: (Accesses, f64),
}

impl Found {
    fn takes_cumulative(&self) -> bool {
        self.cumulative.1 * 0.9 <= self.by_rank.1
    }

    pub(super) fn off(&self) -> f64 {
        if self.takes_cumulative() {
            self.cumulative.1
        } else {
            self.by_rank.1
        }
    }

    /// The errors of both, in words.
    pub(super) fn told(&self) -> String {
        format!(
            "what is compared is off, as root of the mean square, by {:.4} (cumulative) and {:.4} (by rank); the study's, which is cumulative, is taken unless \
             the other is closer by a tenth",
            self.cumulative.1, self.by_rank.1
        )
    }

    pub(super) fn chosen(&self) -> Accesses {
        if self.takes_cumulative() {
            self.cumulative.0
        } else {
            self.by_rank.0
        }
    }
}

/// How hot pairs are within a range.
pub(super) fn accesses(ranges: Option<&Ranges>, pairs: u64, named: u64, course: &Course) -> Found {
    let space = Space::new(ranges, pairs);
    let cumulative = |b: f64| {
        let touched = space.touched(b, course, named);
        let a = (touched * pairs as f64).powf(-b);
        Accesses::Cumulative { a, b }
    };
    let by_rank = |b: f64| Accesses::ByRank { b };
    let off = |accesses: &Accesses| space.off(accesses, course, named);
    Found {
        cumulative: best(0.02, 1.0, cumulative, off),
        by_rank: best(-2.5, 0.0, by_rank, off),
    }
}

/// The result of `make` for the parameter between two bounds with the least `off`, and that `off`.
/// There may be several valleys: the search begins with a grid.
fn best(
    low: f64,
    high: f64,
    make: impl Fn(f64) -> Accesses,
    off: impl Fn(&Accesses) -> f64,
) -> (Accesses, f64) {
    const GRID: usize = 24;
    let step = (high - low) / GRID as f64;
    let worth = |b: f64| {
        Some(off(&make(b)))
            .filter(|off| off.is_finite())
            .unwrap_or(f64::MAX)
    };
    let grid = (0..=GRID)
        .map(|at| low + step * at as f64)
        .map(|b| (worth(b), b));
    let middle = grid
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(low, |(_, b)| b);
    let (mut from, mut to) = ((middle - step).max(low), (middle + step).min(high));
    for _ in 0..24 {
        let third = (to - from) / 3.0;
        match worth(from + third) < worth(to - third) {
            true => to -= third,
            false => from += third,
        }
    }
    let found = make(f64::midpoint(from, to));
    (found, off(&found))
}
