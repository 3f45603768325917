//! How the time is spent: how old stores are made, how many candidates are tried, and how long
//! their runs are in each stage.
//!
//! Pure. Times are estimates from one run of the default; the caller looks at the clock before each
//! round.

/// Rounds of a stage whose parts are as long as its time allows.
pub const ROUNDS: usize = 3;
/// The last stage has at least this number of rounds, if there is time for them.
pub const LAST_ROUNDS: usize = 12;
/// A stage sees the trace at most this number of times.
const TIMES_MAX: f64 = 8.0;
/// The number of finalists: the default, the two best, both together.
pub const FINALISTS: usize = 4;
/// Operations that warm a run up, divided by operations that are counted.
pub const WARM_SHARE: f64 = 0.35;
/// A run that counts for fewer seconds is mostly its beginning.
const RUN_SECONDS_MIN: f64 = 0.3;
/// The share of the time for candidates in which their stores may be made.
const STORES_PART: f64 = 0.35;
/// Writing over takes about this many times as long as filling with the same number of bytes, since
/// the data that is there is rewritten meanwhile.
const AGE_BY_FILL: f64 = 2.0;
/// A smaller share of the ageing shows nothing.
const AGE_SHARE_MIN: f64 = 0.1;

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Seconds to make a store.
    pub prepare: f64,
    /// Operations a second.
    pub per_second: f64,
    /// Seconds of a run that do not go into its operations.
    pub overhead: f64,
}

/// The operations that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usable {
    /// Their number.
    pub operations: u64,
    /// Whether a store that has done all of them can do them again. Otherwise it is made anew for
    /// that.
    pub repeats: bool,
}

/// What is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How many candidates are tried. They are the first ones.
    pub candidates: usize,
    /// The last stage is that of the finalists.
    pub stages: Vec<Stage>,
}

/// A stage as it is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Operations that a run counts.
    pub counted: u64,
    /// How many rounds, if there is time for them.
    pub rounds: usize,
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

/// The share of the ageing that there is time for, in `seconds` for these candidates. A store is
/// filled in `fill` seconds.
#[must_use]
pub fn age_share(candidates: usize, fill: f64, seconds: f64) -> f64 {
    // Beside these, there is the store that shows how fast things go, and the store of two
    // together.
    let stores = candidates + 2;
    let for_one = (seconds * STORES_PART / stores as f64).max(0.0);
    let share = (for_one / fill.max(1e-3) - 1.0) / AGE_BY_FILL;
    match share < AGE_SHARE_MIN {
        true => 0.0,
        false => share.min(1.0),
    }
}

/// What can be done with a trace in `seconds`.
#[must_use]
pub fn plan(candidates: usize, pace: Pace, seconds: f64, usable: Usable) -> Plan {
    let third = usable.operations as f64 / ROUNDS as f64 / (1.0 + WARM_SHARE);
    for count in (2..=candidates).rev() {
        let widths = widths(count);
        let last = FINALISTS.min(count + 1);
        let runs = ROUNDS * (widths.iter().sum::<usize>() + last);
        let stores = match usable.repeats {
            true => count + 1,
            false => count + last,
        };
        let left = seconds - stores as f64 * pace.prepare - runs as f64 * pace.overhead;
        // The runs of each stage are twice as long as those of the stage before.
        let doubled = |stage: usize| f64::from(1u32 << stage.min(16));
        let weights = widths.iter().enumerate();
        let weights: f64 = weights
            .map(|(stage, width)| *width as f64 * doubled(stage))
            .sum();
        let weight = ROUNDS as f64 * (weights + last as f64 * doubled(widths.len()));
        let first = left * pace.per_second / (1.0 + WARM_SHARE) / weight;
        let is_long_enough = first / pace.per_second >= RUN_SECONDS_MIN || first >= third;
        if left <= 0.0 || (!is_long_enough && count > 2) {
            continue;
        }
        // If there is more time than trace, the rounds of a stage see the whole trace more than
        // once.
        let run = |counted: f64| counted * (1.0 + WARM_SHARE) / pace.per_second + pace.overhead;
        let stage = |stage: usize| {
            let counted = first * doubled(stage);
            let times = (run(counted) / run(third)).clamp(1.0, TIMES_MAX) as usize;
            let is_last = stage == widths.len();
            let least = if is_last { LAST_ROUNDS } else { 0 };
            Stage {
                counted: counted.min(third).max(1.0) as u64,
                rounds: (ROUNDS * times).max(least),
            }
        };
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

    const fn once(operations: u64) -> Usable {
        Usable {
            operations,
            repeats: false,
        }
    }

    /// What a plan takes by the estimates.
    fn seconds_of(plan: &Plan, pace: Pace) -> f64 {
        let mut widths = widths(plan.candidates);
        widths.push(FINALISTS.min(plan.candidates + 1));
        let stores = plan.candidates + FINALISTS;
        let runs = widths.iter().zip(&plan.stages).map(|(width, stage)| {
            let run = stage.counted as f64 * (1.0 + WARM_SHARE) / pace.per_second + pace.overhead;
            (ROUNDS * width) as f64 * run
        });
        runs.sum::<f64>() + stores as f64 * pace.prepare
    }

    #[test]
    fn it_fits_into_the_time_and_uses_it() {
        for seconds in [120.0, 200.0, 1000.0] {
            let plan = plan(9, PACE, seconds, once(100_000_000));
            assert_eq!((plan.candidates, plan.stages.len()), (9, 3), "{seconds}");
            let takes = seconds_of(&plan, PACE);
            assert!((0.95..=1.001).contains(&(takes / seconds)), "{takes}");
            assert!(plan.stages.is_sorted_by_key(|stage| stage.counted));
            let rounds: Vec<_> = plan.stages.iter().map(|stage| stage.rounds).collect();
            assert_eq!(rounds, [ROUNDS, ROUNDS, LAST_ROUNDS]);
        }
    }

    #[test]
    fn with_little_time_fewer_are_tried() {
        let few = plan(9, PACE, 30.0, once(100_000_000));
        assert!((2..9).contains(&few.candidates), "{few:?}");
        let none = plan(9, PACE, 3.0, once(100_000_000));
        assert_eq!(none.candidates, 1);
        assert!(none.stages.is_empty());
        assert_eq!(plan(1, PACE, 300.0, once(100)).candidates, 1);
    }

    #[test]
    fn a_short_trace_bounds_the_runs_and_is_seen_more_often() {
        let short = plan(9, PACE, 1000.0, once(300_000));
        assert_eq!(short.candidates, 9);
        let third = (100_000.0 / (1.0 + WARM_SHARE)) as u64;
        assert!(
            short.stages.iter().all(|stage| stage.counted == third),
            "{short:?}"
        );
        let rounds: Vec<_> = short.stages.iter().map(|stage| stage.rounds).collect();
        assert!(rounds.is_sorted() && rounds[0] > ROUNDS, "{short:?}");
        let most = ROUNDS * TIMES_MAX as usize;
        assert!(
            rounds
                .iter()
                .all(|rounds| *rounds <= most && rounds % ROUNDS == 0)
        );
    }

    #[test]
    fn stores_that_go_on_leave_more_time_for_runs() {
        let again = Usable {
            operations: 100_000_000,
            repeats: true,
        };
        let (anew, on) = (
            plan(9, PACE, 120.0, once(100_000_000)),
            plan(9, PACE, 120.0, again),
        );
        assert!(
            on.stages[0].counted > anew.stages[0].counted,
            "{on:?}, {anew:?}"
        );
    }

    #[test]
    fn stores_are_as_old_as_there_is_time_for() {
        assert_eq!(age_share(8, 2.0, 300.0), 1.0);
        assert_eq!(age_share(8, 60.0, 300.0), 0.0);
        let some = age_share(8, 6.0, 300.0);
        assert!((some - 0.375).abs() < 1e-9, "{some}");
        // Ten stores, filled and aged, take the time that they may take.
        let takes = 10.0 * 6.0 * (1.0 + AGE_BY_FILL * some);
        assert!((takes - 300.0 * STORES_PART).abs() < 1e-9, "{takes}");
        assert_eq!(age_share(8, 6.0, -1.0), 0.0);
    }
}
