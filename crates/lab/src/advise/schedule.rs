//! How the time is spent: how many candidates are tried, and how long their runs are in each stage.
//!
//! Pure. Times are estimates from one run of the default; whoever runs looks at the clock before each round.

/// Rounds of a stage.
pub const ROUNDS: usize = 3;
/// Rounds of the last stage, if there is time for them.
pub const LAST_ROUNDS: usize = 12;
/// Finalists: the default, the two best, both together.
pub const FINALISTS: usize = 4;
/// Operations that warm a run up, by those that are counted.
pub const WARM_SHARE: f64 = 0.35;
/// A run that counts for less is mostly its beginning.
const RUN_SECONDS_MIN: f64 = 0.3;

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Seconds to make a store.
    pub prepare: f64,
    /// Operations a second.
    pub per_second: f64,
    /// Seconds of a run beside its operations.
    pub overhead: f64,
}

/// What is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// So many of the candidates, the first ones.
    pub candidates: usize,
    /// For each stage, the last one being the finalists': operations that a run counts.
    pub stages: Vec<u64>,
}

/// How many candidates each stage before the last has.
fn widths(candidates: usize) -> Vec<usize> {
    let (mut widths, mut width) = (Vec::new(), candidates);
    while width > 3 {
        widths.push(width);
        width = 1 + (width - 1).div_ceil(2);
    }
    widths
}

/// What can be done in so many seconds with a trace of so many operations.
#[must_use]
pub fn plan(candidates: usize, pace: Pace, seconds: f64, operations: u64) -> Plan {
    let longest = operations as f64 / ROUNDS as f64 / (1.0 + WARM_SHARE);
    for count in (2..=candidates).rev() {
        let widths = widths(count);
        let last = FINALISTS.min(count + 1);
        let runs = ROUNDS * (widths.iter().sum::<usize>() + last);
        let stores = count + last;
        let left = seconds - stores as f64 * pace.prepare - runs as f64 * pace.overhead;
        // Each stage's runs are twice as long as those of the one before.
        let doubled = |stage: usize| f64::from(1u32 << stage.min(16));
        let weights = widths.iter().enumerate();
        let weights: f64 = weights
            .map(|(stage, width)| *width as f64 * doubled(stage))
            .sum();
        let weight = ROUNDS as f64 * (weights + last as f64 * doubled(widths.len()));
        let first = left * pace.per_second / (1.0 + WARM_SHARE) / weight;
        let is_long_enough = first / pace.per_second >= RUN_SECONDS_MIN || first >= longest;
        if left <= 0.0 || (!is_long_enough && count > 2) {
            continue;
        }
        // Where there is more time than trace, all stages see all of it.
        let stage = |stage: usize| (first * doubled(stage)).min(longest).max(1.0) as u64;
        return Plan {
            candidates: count,
            stages: (0..=widths.len()).map(stage).collect(),
        };
    }
    Plan {
        candidates: 1,
        stages: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        prepare: 2.0,
        per_second: 100_000.0,
        overhead: 0.3,
    };

    /// What a plan takes by the estimates.
    fn seconds_of(plan: &Plan, pace: Pace) -> f64 {
        let mut widths = widths(plan.candidates);
        widths.push(FINALISTS.min(plan.candidates + 1));
        let stores = plan.candidates + FINALISTS;
        let runs = widths.iter().zip(&plan.stages).map(|(width, counted)| {
            let run = *counted as f64 * (1.0 + WARM_SHARE) / pace.per_second + pace.overhead;
            (ROUNDS * width) as f64 * run
        });
        runs.sum::<f64>() + stores as f64 * pace.prepare
    }

    #[test]
    fn it_fits_into_the_time_and_uses_it() {
        for seconds in [120.0, 200.0, 1000.0] {
            let plan = plan(9, PACE, seconds, 100_000_000);
            assert_eq!((plan.candidates, plan.stages.len()), (9, 3), "{seconds}");
            let takes = seconds_of(&plan, PACE);
            assert!((0.95..=1.001).contains(&(takes / seconds)), "{takes}");
            assert!(plan.stages.is_sorted());
        }
    }

    #[test]
    fn with_little_time_fewer_are_tried() {
        let few = plan(9, PACE, 30.0, 100_000_000);
        assert!((2..9).contains(&few.candidates), "{few:?}");
        let none = plan(9, PACE, 3.0, 100_000_000);
        assert_eq!(none.candidates, 1);
        assert!(none.stages.is_empty());
        assert_eq!(plan(1, PACE, 300.0, 100).candidates, 1);
    }

    #[test]
    fn a_short_trace_bounds_the_runs() {
        let short = plan(9, PACE, 1000.0, 300_000);
        assert_eq!(short.candidates, 9);
        let last = short.stages.last().copied().unwrap_or(0);
        assert!(last <= 100_000 && last > 50_000, "{short:?}");
        assert!(short.stages.iter().all(|stage| *stage == last), "{short:?}");
    }
}
