//! How often keys were accessed by one kind of operation, in an analysis.

use super::{MakeError, Source, kind_of};
use crate::model::Kind;

/// This number of points of the measured course is compared.
const POINTS: usize = 48;
/// The rank of a pair with at least this number of accesses comes from its heat, and not from
/// chance.
const OFTEN: f64 = 16.0;
/// If fewer ranks than this belong to pairs that are accessed often, the counts of the others are
/// compared.
const RANKS_MIN: usize = 8;
/// If counts are compared: the shares of keys that were named more often than these numbers.
const TIMES: [u32; 8] = [1, 2, 3, 4, 6, 9, 14, 29];

/// The measurements of a trace's kind. Among the kinds of the trace that belong to one kind of the
/// model, it has the highest number of operations.
pub(super) struct Course {
    /// All its accesses.
    pub accesses: f64,
    /// The number of different pairs that it named.
    pub pairs: f64,
    /// The share of these pairs that it named once.
    pub once: f64,
    /// The spread of its accesses over the pairs.
    pub measured: Measured,
}

/// The measurements that are compared with a model.
pub(super) enum Measured {
    /// Rank, and share of accesses up to it, of the pairs that were accessed often. Chance decides
    /// on the order of the others, and sorting them would make a slope from it.
    Ranks(Vec<(f64, f64)>),
    /// Used if few pairs were accessed often.
    Counts(Vec<Above>),
}

/// The keys that were named more often than `times`.
pub(super) struct Above {
    pub times: u32,
    /// Their share of all keys that were named.
    pub keys: f64,
    /// Their share of all accesses.
    pub accesses: f64,
}

/// The course of a kind, if it named enough.
pub(super) fn course(source: &Source<'_>, kind: Kind) -> Result<Option<Course>, MakeError> {
    let table = source.table("access-ranks")?;
    let kinds = table.texts("kind")?;
    let busiest = source
        .totals()?
        .into_iter()
        .filter(|(name, _)| kinds.contains(name) && kind_of(name) == Some(kind))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((name, accesses)) = busiest else {
        return Ok(None);
    };
    let table = table.only("kind", &name)?;
    let ranks = Ranks {
        ranks: table.numbers("rank")?,
        accesses: table.numbers("accesses")?,
        up_to: table.numbers("accesses_up_to")?,
    };
    let pairs = ranks.ranks.last().copied().unwrap_or_default();
    if ranks.ranks.len() < 3 {
        return Ok(None);
    }
    let counts = source.table("access-counts")?.only("kind", &name)?;
    let once = match counts.is_empty() {
        true => 1.0 - ranks.above(1).keys,
        false => {
            let counts = counts
                .numbers("accesses")?
                .into_iter()
                .zip(counts.numbers("keys_up_to")?);
            let once = counts.filter(|(accesses, _)| *accesses <= 1.0);
            once.map(|(_, keys)| keys).fold(0.0, f64::max)
        }
    };
    Ok(Some(Course {
        accesses,
        pairs,
        once,
        measured: ranks.measured(),
    }))
}

/// The rows of a kind. Not every rank has one.
struct Ranks {
    ranks: Vec<f64>,
    accesses: Vec<f64>,
    up_to: Vec<f64>,
}

impl Ranks {
    fn measured(&self) -> Measured {
        let often = |count: &&f64| **count >= OFTEN;
        let often = self.accesses.iter().take_while(often).count();
        if often < RANKS_MIN {
            let above = TIMES.iter().map(|&times| self.above(times));
            return Measured::Counts(above.collect());
        }
        let points = self.ranks.iter().copied().zip(self.up_to.iter().copied());
        let step = often.div_ceil(POINTS);
        Measured::Ranks(points.take(often).step_by(step).collect())
    }

    /// The middle between the last row with more accesses and the first row without.
    fn above(&self, times: u32) -> Above {
        let more = |count: &f64| *count > f64::from(times);
        let end = self.accesses.partition_point(more);
        let (last, up_to) = match end.checked_sub(1) {
            Some(at) => (self.ranks[at], self.up_to[at]),
            None => (0.0, 0.0),
        };
        let all = self.ranks.last().copied().unwrap_or(1.0);
        let Some((&next, &next_up_to)) = self.ranks.get(end).zip(self.up_to.get(end)) else {
            return Above {
                times,
                keys: last / all,
                accesses: up_to,
            };
        };
        let rank = f64::midpoint(last, next - 1.0);
        let part = (rank - last) / (next - last);
        Above {
            times,
            keys: rank / all,
            accesses: up_to + part * (next_up_to - up_to),
        }
    }
}
