//! Where hot keys lie: ranges by their accesses, and pairs within a range.
//!
//! What was measured of pairs is over the whole key space: the hottest x of all pairs have this share of the accesses. The model
//! has ranges first, and says of pairs how hot they are within their range. So the parameter of pairs is chosen such that
//! ranges and pairs together give what was measured. How many pairs were named is part of that: of those that are seldom accessed, chance leaves
//! out many.

use super::{MakeError, Source, part_of};
use crate::access::{Accesses, Ranges};
use crate::curve::Shape;
use crate::curve_fit;

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
/// The kind of rows that say which keys the store has. They have no accesses.
const STORED: &str = "stored";
/// An analysis has not more ranges.
const RANGES_OF_ANALYSIS_MAX: usize = 1 << 16;
/// So many ranges stand for all when pairs are fitted.
const RANGES: usize = 64;
/// So many points of the measured course are compared.
const POINTS: usize = 48;

/// So many ranges of the analysis are tried as one of the model.
const MERGED: [usize; 5] = [1, 2, 3, 5, 10];
/// A model has at least so many ranges, if it has any.
const RANGES_MIN: usize = 4;

/// How hot ranges are, and pairs within them. Ranges of the analysis may not be those that the load has: so some of them together are tried as one of the
/// model, and the finest taken whose error is not above the least one by more than a tenth.
pub(super) fn spots(
    source: &Source<'_>,
    pairs: u64,
    named: u64,
    notes: &mut Vec<String>,
) -> Result<(Option<Ranges>, Option<Accesses>), MakeError> {
    let (heats, course) = (heats(source)?, course(source)?);
    let Some(course) = course else {
        notes.push("Accesses: all pairs are alike, because too few were named.".to_owned());
        let (ranges, note) = ranges(&heats);
        notes.push(note);
        return Ok((ranges, None));
    };
    let mut tried = Vec::new();
    for merged in MERGED {
        if merged > 1 && heats.len() / merged < RANGES_MIN {
            continue;
        }
        let together: Vec<f64> = heats
            .chunks(merged)
            .map(|heats| heats.iter().sum())
            .collect();
        let (ranges, note) = ranges(&together);
        let pairs_of = accesses(ranges.as_ref(), pairs, named, &course);
        tried.push((together.len(), ranges, note, pairs_of));
    }
    let least = tried
        .iter()
        .map(|(_, _, _, found)| found.off())
        .fold(f64::MAX, f64::min);
    let errors = tried
        .iter()
        .map(|(count, _, _, found)| format!("{count} ranges {:.4}", found.off()));
    let errors = errors.collect::<Vec<_>>().join(", ");
    let Some((_, ranges, note, found)) = tried
        .into_iter()
        .find(|(_, _, _, found)| found.off() <= least * 1.1)
    else {
        return Ok((None, None));
    };
    notes.push(note);
    notes.push(format!(
        "Accesses: shares up to a rank are off, as root of the mean square, by {:.4} (cumulative) and {:.4} (by rank); the study's, which is cumulative, is taken \
         unless the other is closer by a tenth. Errors by the number of ranges: {errors}.",
        found.cumulative.1, found.by_rank.1
    ));
    let accesses = found.chosen();
    Ok((ranges, Some(accesses)))
}

/// The accesses of each range of the analysis, in the order of keys. Ranges that nobody accessed are known by the keys that the store has in them, where the
/// analysis was given these.
fn heats(source: &Source<'_>) -> Result<Vec<f64>, MakeError> {
    let table = source.table("ranges")?;
    let (kinds, numbers) = (table.texts("kind")?, table.numbers("range")?);
    let mut heats: Vec<f64> = Vec::new();
    for ((kind, number), accesses) in kinds.iter().zip(numbers).zip(table.numbers("accesses")?) {
        let number = number as usize;
        let is_counted = part_of(kind).is_some() || kind == STORED;
        if !is_counted || number > RANGES_OF_ANALYSIS_MAX {
            continue;
        }
        if heats.len() <= number {
            heats.resize(number + 1, 0.0);
        }
        heats[number] += accesses;
    }
    Ok(heats)
}

/// The best curve through the accesses of ranges, the hottest first, and what is told of it.
fn ranges(heats: &[f64]) -> (Option<Ranges>, String) {
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

/// Both descriptions of pairs, each with how far it is off.
struct Found {
    cumulative: (Accesses, f64),
    by_rank: (Accesses, f64),
}

impl Found {
    fn takes_cumulative(&self) -> bool {
        self.cumulative.1 * 0.9 <= self.by_rank.1
    }

    fn off(&self) -> f64 {
        if self.takes_cumulative() {
            self.cumulative.1
        } else {
            self.by_rank.1
        }
    }

    fn chosen(&self) -> Accesses {
        if self.takes_cumulative() {
            self.cumulative.0
        } else {
            self.by_rank.0
        }
    }
}

/// How hot pairs are within a range.
fn accesses(ranges: Option<&Ranges>, pairs: u64, named: u64, course: &Course) -> Found {
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

/// What was measured of the kind with the most operations.
struct Course {
    /// All its accesses.
    accesses: f64,
    /// Rank and share of accesses up to it. Only the pairs that were accessed often: among the others chance decides which is before which, and
    /// sorting them makes a slope of it.
    points: Vec<(f64, f64)>,
    /// How many different pairs it named.
    pairs: f64,
}

/// A pair accessed so often has its rank from its heat, and not from chance.
const OFTEN: f64 = 16.0;

fn course(source: &Source<'_>) -> Result<Option<Course>, MakeError> {
    let table = source.table("access-ranks")?;
    let kinds = table.texts("kind")?;
    let busiest = source
        .totals()?
        .into_iter()
        .filter(|(kind, _)| kinds.contains(kind) && part_of(kind).is_some())
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((kind, accesses)) = busiest else {
        return Ok(None);
    };
    let table = table.only("kind", &kind)?;
    let (ranks, counts) = (table.numbers("rank")?, table.numbers("accesses")?);
    let up_to = table.numbers("accesses_up_to")?;
    let pairs = ranks.last().copied().unwrap_or_default();
    let often = counts.iter().take_while(|count| **count >= OFTEN).count();
    let taken = if often >= 8 { often } else { ranks.len() };
    let points: Vec<(f64, f64)> = ranks.into_iter().zip(up_to).take(taken).collect();
    if points.len() < 3 {
        return Ok(None);
    }
    let step = points.len().div_ceil(POINTS);
    let points = points.into_iter().step_by(step).collect();
    Ok(Some(Course {
        accesses,
        points,
        pairs,
    }))
}

/// Ranges with their shares, some of them standing for several.
struct Space {
    /// Share of the accesses of one range, and how many ranges are like it.
    ranges: Vec<(f64, f64)>,
    pairs_of_range: u64,
    pairs: u64,
}

impl Space {
    fn new(ranges: Option<&Ranges>, pairs: u64) -> Space {
        let shares = ranges.and_then(Ranges::shares).unwrap_or_else(|| vec![1.0]);
        let step = shares.len().div_ceil(RANGES);
        let groups = shares.chunks(step).map(|group| {
            let count = group.len() as f64;
            (group.iter().sum::<f64>() / count, count)
        });
        Space {
            pairs_of_range: (pairs / shares.len() as u64).max(1),
            ranges: groups.collect(),
            pairs,
        }
    }

    /// How far the shares up to the measured ranks are off, and the number of pairs named: the root of the mean square.
    fn off(&self, accesses: &Accesses, course: &Course, named: u64) -> f64 {
        let touched = accesses.touched(self.pairs);
        let points = course.points.iter();
        let squares = points
            .map(|&(rank, share)| (self.share_up_to(rank, accesses, touched) - share).powi(2));
        // Counted as one point.
        let pairs =
            self.named(accesses, touched, course.accesses) / course.pairs.min(named as f64) - 1.0;
        ((squares.sum::<f64>() + pairs.powi(2)) / (course.points.len() + 1) as f64).sqrt()
    }

    /// The share of pairs of a cumulative description of which as many are named as were, by chance.
    fn touched(&self, b: f64, course: &Course, named: u64) -> f64 {
        let least = (course.pairs.min(named as f64) / self.pairs as f64).min(1.0);
        let (mut low, mut high) = (least, 1.0);
        for _ in 0..30 {
            let middle = f64::midpoint(low, high);
            let accesses = Accesses::Cumulative {
                a: (middle * self.pairs as f64).powf(-b),
                b,
            };
            match self.named(&accesses, middle, course.accesses) < course.pairs {
                true => low = middle,
                false => high = middle,
            }
        }
        high
    }

    /// How many different pairs so many accesses name, by chance.
    fn named(&self, accesses: &Accesses, touched: f64, drawn: f64) -> f64 {
        const STEPS: i32 = 48;
        let among = self.pairs_of_range;
        let ratio = (among as f64 + 1.0).powf(f64::from(STEPS).recip());
        self.ranges
            .iter()
            .map(|&(of_range, count)| {
                // Ranks in steps that grow: within one all pairs are taken to be alike.
                let (mut from, mut below, mut named) = (0.0, 0.0, 0.0);
                for step in 1..=STEPS {
                    let to = (ratio.powi(step) - 1.0).min(among as f64);
                    let share = accesses.share_up_to(to, among, touched);
                    let pairs = to - from;
                    if pairs > 0.0 {
                        named -= pairs * (-drawn * of_range * (share - below) / pairs).exp_m1();
                    }
                    (from, below) = (to, share);
                }
                count * named
            })
            .sum()
    }

    /// The share of accesses of the hottest `rank` pairs of all ranges.
    fn share_up_to(&self, rank: f64, accesses: &Accesses, touched: f64) -> f64 {
        // The heat of the coldest of them, by halving between the extremes of heat, in logarithms.
        let (mut low, mut high) = (-80.0_f64, 20.0_f64);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            match self.hotter(middle.exp(), accesses, touched).0 > rank {
                true => low = middle,
                false => high = middle,
            }
        }
        self.hotter(high.exp(), accesses, touched).1
    }

    /// How many pairs are hotter than this share of the accesses each, and the share that they have together.
    fn hotter(&self, heat: f64, accesses: &Accesses, touched: f64) -> (f64, f64) {
        let (mut pairs, mut share) = (0.0, 0.0);
        for &(of_range, count) in &self.ranges {
            let below = accesses.hotter_than(
                heat / of_range.max(f64::MIN_POSITIVE),
                self.pairs_of_range,
                touched,
            );
            pairs += count * below;
            share += count * of_range * accesses.share_up_to(below, self.pairs_of_range, touched);
        }
        (pairs, share)
    }
}

/// What `make` makes of the parameter between two bounds for which `off` is least, and how far that is off. There may be several
/// valleys: the search begins with a grid.
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
