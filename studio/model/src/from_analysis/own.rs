//! What kinds of operation have of their own: ranges and pairs that differ from those of the
//! busiest kind.
//!
//! ```text
//!   ranges of a kind, beside the busiest's:
//!       shares that differ by more than chance --> a curve and a place of its own
//!   counts of a kind, beside those of the common accesses:
//!       a larger error than with its own best curve --> a curve of its own
//!   hottest keys of a kind, beside the others':
//!       few in common --> an order of pairs of its own
//! ```
//! The figures do not tell the distance between two orders of pairs: orders that differ are set
//! apart as far as possible.

use super::course::Course;
use super::hot::{self, Common};
use super::space::Space;
use super::{MakeError, Notes, Source, kind_of};
use crate::access::{Own, Ranges};
use crate::curve::{Curve, Shape};
use crate::model::{Kind, OwnHeat};

/// A kind with fewer operations says too little about its hot keys.
const OPERATIONS_MIN: f64 = 1000.0;
/// The ranges of two kinds count as the same if they differ by at most this share of all accesses,
/// beyond chance.
const RANGES_OFF_MAX: f64 = 0.05;
/// A curve of its own is used if the error of the common one is above its own error, multiplied by
/// the first number, plus the second. Instead of the second number, the common curve's error for
/// the kind to which it was fitted counts if it is larger: that error is no difference between
/// kinds.
const BETTER: (f64, f64) = (1.1, 0.01);
/// Places that are tried for the hottest range.
const PLACES_MAX: usize = 64;
/// Kinds have the same hot pairs if they have this share of their hottest keys in common.
const SAME_MIN: f64 = 0.25;
/// The last of the hottest keys must be named this number of times, and the first this many times
/// as often. Otherwise chance decides which keys are the hottest.
const HOTTEST_MIN: f64 = 16.0;
const HOTTEST_TIMES: f64 = 2.0;

/// The kinds, and which of them have the ranges of the busiest kind.
pub(super) struct Kinds<'h> {
    pub(super) busiest: Kind,
    pub(super) heats: &'h [Vec<f64>; 5],
    /// The accesses of each kind that was recorded.
    pub(super) courses: &'h [(Kind, Course)],
}

impl Kinds<'_> {
    /// The accesses to ranges by all kinds that have the ranges of the busiest kind.
    pub(super) fn common_heats(&self) -> Vec<f64> {
        let alike = Kind::ALL
            .into_iter()
            .filter(|kind| self.has_common_ranges(*kind));
        let heats: Vec<&[f64]> = alike.map(|kind| &*self.heats[kind as usize]).collect();
        hot::sum(&heats)
    }

    /// Whether the shares of ranges are those of the busiest kind, except for chance.
    fn has_common_ranges(&self, kind: Kind) -> bool {
        let (own, common) = (
            &self.heats[kind as usize],
            &self.heats[self.busiest as usize],
        );
        let total = |heats: &[f64]| heats.iter().sum::<f64>();
        let (of_own, of_common) = (total(own), total(common));
        if of_own < OPERATIONS_MIN || of_common < OPERATIONS_MIN {
            return true;
        }
        let apart = own.iter().zip(common);
        let apart = apart.map(|(own, common)| (own / of_own - common / of_common).abs());
        let chance = (own.len() as f64 / of_own.min(of_common)).sqrt();
        apart.sum::<f64>() / 2.0 <= RANGES_OFF_MAX + chance
    }
}

/// What each kind has of its own.
pub(super) fn own(
    source: &Source<'_>,
    kinds: &Kinds<'_>,
    common: &Common,
    pairs: u64,
    notes: &mut Notes,
) -> Result<[OwnHeat; 5], MakeError> {
    let orders = orders(source, kinds.busiest)?;
    let mut own: [OwnHeat; 5] = Default::default();
    for (kind, course) in kinds.courses {
        if *kind == kinds.busiest || course.accesses < OPERATIONS_MIN {
            continue;
        }
        let found = &mut own[*kind as usize];
        found.ranges = ranges(kinds, *kind, common, notes);
        let ranges = match (&common.ranges, &found.ranges) {
            (Some(Ranges { count, .. }), Some(own)) => Some(Ranges {
                count: *count,
                curve: own.curve.clone(),
            }),
            (common, _) => common.clone(),
        };
        // The keys that this kind named, even if other kinds named more.
        let named = course.pairs as u64;
        let off = Space::new(ranges.as_ref(), pairs).off(&common.accesses, course, named);
        let best = hot::accesses(ranges.as_ref(), pairs, named, course);
        let is_better = off > best.off() * BETTER.0 + common.off.max(BETTER.1);
        let first = orders[*kind as usize];
        if !is_better && first == 0.0 {
            continue;
        }
        let curve = if is_better {
            best.chosen()
        } else {
            common.accesses
        };
        let order = match first == 0.0 {
            true => "The order of its pairs is the common one",
            false => "The order of its pairs is its own, because its hottest keys are others",
        };
        notes.push(format!(
            "Accesses of {}, its own: by the common ones what is compared is off by {off:.4}; of its own {}. {order}.",
            kind.name(),
            best.told(),
        ));
        notes.push(format!(
            "Of {}: {}",
            kind.name(),
            hot::once_told(ranges.as_ref(), pairs, &curve, course)
        ));
        found.accesses = Some(Own { curve, first });
    }
    Ok(own)
}

/// The ranges of a kind, if they are not the common ones.
fn ranges(kinds: &Kinds<'_>, kind: Kind, common: &Common, notes: &mut Notes) -> Option<Own<Curve>> {
    if kinds.has_common_ranges(kind) {
        return None;
    }
    let name = kind.name();
    if common.ranges.is_none() {
        notes.push(format!(
            "Attention: {name} goes to other ranges than the others, and the model has no ranges."
        ));
        return None;
    }
    let own = hot::together(&kinds.heats[kind as usize], common.merged);
    let (ranges, note) = hot::ranges(&own);
    notes.push(format!("Of {name}, its own. {note}"));
    let others = hot::together(&kinds.common_heats(), common.merged);
    let alike = || Curve::new(Shape::Power, vec![1.0, 0.0]);
    Some(Own {
        curve: ranges.map(|ranges| ranges.curve).or_else(alike)?,
        first: first(&others, &own),
    })
}

/// The place of a kind's hottest range in the common order. From this place on, the kind's accesses
/// in that order are closest to its accesses in its own order.
fn first(common: &[f64], own: &[f64]) -> f64 {
    let mut order: Vec<usize> = (0..common.len()).collect();
    order.sort_by(|a, b| common[*b].total_cmp(&common[*a]));
    let mut falling = own.to_vec();
    falling.sort_by(|a, b| b.total_cmp(a));
    let off = |place: usize| -> f64 {
        let turned = order.iter().cycle().skip(place);
        let pairs = falling.iter().zip(turned);
        pairs.map(|(heat, &range)| (heat - own[range]).abs()).sum()
    };
    let step = own.len().div_ceil(PLACES_MAX);
    let places = (0..own.len()).step_by(step);
    let best = places.min_by(|a, b| off(*a).total_cmp(&off(*b)));
    share(best.unwrap_or(0), own.len())
}

/// A share with few digits that is not below the place.
fn share(place: usize, of: usize) -> f64 {
    const PARTS: f64 = 1e4;
    (place as f64 / of as f64 * PARTS).ceil() / PARTS
}

/// The beginning of each kind's order of pairs: kinds that have hot keys in common begin at the
/// same place.
fn orders(source: &Source<'_>, busiest: Kind) -> Result<[f64; 5], MakeError> {
    let mut orders = [0.0; 5];
    let table = source.table("hottest-keys")?;
    let mut hottest: [Vec<(String, f64)>; 5] = Default::default();
    let rows = table
        .texts("key")?
        .into_iter()
        .zip(table.numbers("accesses")?);
    for (name, row) in table.texts("kind")?.iter().zip(rows) {
        if let Some(kind) = kind_of(name) {
            hottest[kind as usize].push(row);
        }
    }
    let mut groups: Vec<Vec<Kind>> = vec![vec![busiest]];
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != busiest) {
        let own = &hottest[kind as usize];
        let group = groups
            .iter_mut()
            .find(|group| are_same(own, &hottest[group[0] as usize]));
        match group {
            Some(group) => group.push(kind),
            None => groups.push(vec![kind]),
        }
    }
    for (number, group) in groups.iter().enumerate() {
        for kind in group {
            orders[*kind as usize] = share(number, groups.len());
        }
    }
    Ok(orders)
}

/// Whether the hottest keys of two kinds are the same, as far as can be told.
fn are_same(own: &[(String, f64)], others: &[(String, f64)]) -> bool {
    let is_clear = |keys: &[(String, f64)]| {
        let counts = keys.iter().map(|(_, count)| *count);
        let (least, most) = (
            counts.clone().fold(f64::MAX, f64::min),
            counts.fold(0.0, f64::max),
        );
        keys.len() > 1 && least >= HOTTEST_MIN && most >= least * HOTTEST_TIMES
    };
    if !is_clear(own) || !is_clear(others) {
        return true;
    }
    let is_there = |key: &&(String, f64)| others.iter().any(|(other, _)| *other == key.0);
    let same = own.iter().filter(is_there).count() as f64;
    same >= SAME_MIN * own.len().min(others.len()) as f64
}
