//! Successive halving: finds the best of several candidates by measurements that are noisy.
//!
//! ```text
//!   stage 1: all         round 1: a b c d e f g h   round 2: b c d e f g h a   ...
//!                                                    --> the better half, and the default
//!   stage 2: 5 of them   longer parts               ...
//!   last:    the default, the two best, both of these together
//! ```
//! In a round every candidate does the same part of the load, so a figure is compared within its
//! round: the ratio of a candidate is its speed divided by the speed of the default in that round.
//! Its score is the time of the default for all rounds, divided by its own time. Parts of a load
//! may differ, as puts by day and scans by night do, and a part counts by how long it takes.
//!
//! The noise of a stage is the standard error of a score, found by leaving out one round at a time.
//! The candidate in the middle counts, and the noise is at least [`NOISE_MIN`]. More rounds make it
//! smaller, so the last stage has all the rounds that there is time for. The default wins against a
//! candidate that is not faster by more than the noise.
//!
//! Pure: what is measured comes from outside. The default is candidate 0.

use super::schedule::{FINALISTS, Plan};
use crate::experiments::table;

/// Two stores with equal settings may always differ by this share, and rounds on one store do not
/// show it.
pub const NOISE_MIN: f64 = 0.05;

/// The assumed noise where there is one round only.
pub const NOISE_OF_ONE: f64 = 0.10;

/// How a candidate stands after a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Its number.
    pub candidate: usize,
    /// Its speed divided by that of the default, in each round.
    pub ratios: Vec<f64>,
    /// The time of the default for an operation, in each round.
    pub base: Vec<f64>,
}

impl Standing {
    /// The speed over all rounds divided by that of the default; 0 if there are none, or if it
    /// failed in one.
    #[must_use]
    pub fn score(&self) -> f64 {
        self.score_without(usize::MAX)
    }

    fn score_without(&self, left_out: usize) -> f64 {
        let rounds = self.ratios.iter().zip(&self.base).enumerate();
        let rounds = rounds.filter(|(round, _)| *round != left_out);
        let (mut own, mut base) = (0.0, 0.0);
        for (_, (ratio, seconds)) in rounds {
            own += seconds / ratio;
            base += seconds;
        }
        match own > 0.0 {
            true => base / own,
            false => 0.0,
        }
    }

    /// The standard error of its score, by the jackknife.
    fn error(&self) -> f64 {
        let count = self.ratios.len();
        let each = (0..count).map(|round| self.score_without(round));
        let each: Vec<f64> = each.collect();
        let mean = each.iter().sum::<f64>() / count as f64;
        let squares = each.iter().map(|score| (score - mean).powi(2));
        (squares.sum::<f64>() * (count - 1) as f64 / count as f64).sqrt()
    }
}

/// The [median](table::median) of some numbers. None if there are none.
#[must_use]
pub fn median(numbers: Vec<f64>) -> Option<f64> {
    (!numbers.is_empty()).then(|| table::median(numbers))
}

/// Measures the runs of a course.
pub trait Course {
    /// Why it cannot go on.
    type Error;

    /// Begins a stage whose runs count `counted` operations each.
    fn next_stage(&mut self, counted: u64);

    /// Adds two candidates together as one more. Returns its number, or none if they contradict
    /// each other.
    fn together(&mut self, one: usize, other: usize) -> Option<usize>;

    /// Begins a round of these candidates, in which all do the same part of the load. False if
    /// there is no time for it.
    ///
    /// # Errors
    /// As [`run`](Course::run).
    fn begin(&mut self, candidates: &[usize]) -> Result<bool, Self::Error>;

    /// The speed of a candidate in this round; 0 if it fails.
    ///
    /// # Errors
    /// The whole course ends with this error.
    fn run(&mut self, candidate: usize) -> Result<f64, Self::Error>;
}

/// Measures the plan's stages, beginning with the candidates from 0 on. Returns the stages that
/// there was time for.
///
/// # Errors
/// The course's.
pub fn halved<C: Course>(course: &mut C, plan: &Plan) -> Result<Vec<Vec<Standing>>, C::Error> {
    let mut on: Vec<usize> = (0..plan.candidates).collect();
    let mut stages: Vec<Vec<Standing>> = Vec::new();
    let Some((last, before)) = plan.stages.split_last() else {
        return Ok(stages);
    };
    for planned in before {
        course.next_stage(planned.counted);
        let standings = stage(course, &on, planned.rounds)?;
        if standings[0].ratios.is_empty() {
            return Ok(stages);
        }
        on = better_half(&standings);
        stages.push(standings);
    }
    on.truncate(FINALISTS - 1);
    if let [_, one, other] = on[..] {
        // Without an earlier stage, nothing speaks against them.
        let is_better = |candidate| {
            let before = stages.last();
            let mut of = before.into_iter().flatten();
            let standing = of.find(|standing| standing.candidate == candidate);
            standing.is_none_or(|standing| standing.score() > 1.0)
        };
        if is_better(one) && is_better(other) {
            on.extend(course.together(one, other));
        }
    }
    course.next_stage(last.counted);
    let standings = stage(course, &on, last.rounds)?;
    if !standings[0].ratios.is_empty() {
        stages.push(standings);
    }
    Ok(stages)
}

/// Measures `rounds` rounds of some candidates, the default among them. If time runs out there are
/// fewer rounds: only whole rounds count.
///
/// # Errors
/// The course's.
pub fn stage<C: Course>(
    course: &mut C,
    candidates: &[usize],
    rounds: usize,
) -> Result<Vec<Standing>, C::Error> {
    let mut standings: Vec<Standing> = candidates
        .iter()
        .map(|candidate| Standing {
            candidate: *candidate,
            ratios: Vec::new(),
            base: Vec::new(),
        })
        .collect();
    for round in 0..rounds {
        if !course.begin(candidates)? {
            break;
        }
        let mut speeds = vec![0.0; candidates.len()];
        // Each round begins with another candidate: the first one may find a disk that is still
        // busy.
        for place in 0..candidates.len() {
            let at = (place + round) % candidates.len();
            speeds[at] = course.run(candidates[at])?;
        }
        let default = candidates.iter().position(|candidate| *candidate == 0);
        let base = default.map_or(1.0, |at| speeds[at]).max(f64::MIN_POSITIVE);
        for (standing, speed) in standings.iter_mut().zip(speeds) {
            standing.ratios.push(speed / base);
            standing.base.push(1.0 / base);
        }
    }
    Ok(standings)
}

/// The noise of a stage.
#[must_use]
pub fn noise(standings: &[Standing]) -> f64 {
    if standings.iter().any(|standing| standing.ratios.len() < 2) {
        return NOISE_OF_ONE;
    }
    let others = standings.iter().filter(|standing| standing.candidate != 0);
    let errors = others.map(Standing::error).collect();
    median(errors).unwrap_or(0.0).max(NOISE_MIN)
}

/// The candidates that go on: the default, and the better half of the others.
#[must_use]
pub fn better_half(standings: &[Standing]) -> Vec<usize> {
    let others = ranked(standings);
    let half = others.len().div_ceil(2);
    let mut on = vec![0];
    on.extend(others.into_iter().take(half));
    on
}

/// All candidates except the default, the best first.
#[must_use]
pub fn ranked(standings: &[Standing]) -> Vec<usize> {
    let others = standings.iter().filter(|standing| standing.candidate != 0);
    let mut others: Vec<_> = others.collect();
    others.sort_by(|one, other| other.score().total_cmp(&one.score()));
    others.iter().map(|standing| standing.candidate).collect()
}

/// The best candidate. The default, if it is as good within the noise.
#[must_use]
pub fn winner(standings: &[Standing]) -> usize {
    let best = ranked(standings).first().copied();
    let best = best.and_then(|best| standings.iter().find(|one| one.candidate == best));
    match best {
        Some(best) if best.score() - 1.0 > noise(standings) => best.candidate,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::Stage;
    use super::*;
    use crate::random::Random;

    /// Planted speeds, which are measured with an error of up to `error`.
    struct Planted {
        /// The speeds of each candidate: in a store that was just filled, and after [`LATE`] of the
        /// data has been written over.
        speeds: Vec<[f64; 2]>,
        error: f64,
        random: Random,
        rounds_left: usize,
        runs: Vec<usize>,
        /// The share of a store's data that is written over before it is measured.
        age: f64,
        /// The share of the data that has been written over up to now, for each store.
        written: Vec<f64>,
        counted: u64,
        position: u64,
        two_go_together: bool,
    }

    /// Some settings act only after this share of the data has been written over.
    const LATE: f64 = 0.25;
    /// Operations of the trace, and the share of the data that each of them writes over.
    const TRACE: u64 = 100;
    const WRITES: f64 = 0.001;

    impl Planted {
        fn new(speeds: &[f64], error: f64, seed: u64) -> Planted {
            let alike: Vec<_> = speeds.iter().map(|speed| [*speed; 2]).collect();
            Planted::changing(&alike, 1.0, (error, seed))
        }

        fn changing(speeds: &[[f64; 2]], age: f64, (error, seed): (f64, u64)) -> Planted {
            Planted {
                speeds: speeds.to_vec(),
                error,
                random: Random::new(seed, 0),
                rounds_left: usize::MAX,
                runs: vec![0; speeds.len()],
                age,
                written: vec![age; speeds.len()],
                counted: 0,
                position: 0,
                two_go_together: false,
            }
        }
    }

    impl Course for Planted {
        type Error = String;

        fn next_stage(&mut self, counted: u64) {
            self.counted = counted;
        }

        fn together(&mut self, one: usize, other: usize) -> Option<usize> {
            if !self.two_go_together {
                return None;
            }
            let both = |at: usize| self.speeds[one][at] * self.speeds[other][at] / 100.0;
            self.speeds.push([both(0), both(1)]);
            self.written.push(self.age);
            self.runs.push(0);
            Some(self.speeds.len() - 1)
        }

        fn begin(&mut self, _: &[usize]) -> Result<bool, String> {
            let has_time = self.rounds_left > 0;
            self.rounds_left = self.rounds_left.saturating_sub(1);
            if self.position + self.counted > TRACE {
                // All stores are made anew.
                self.position = 0;
                self.written.fill(self.age);
            }
            self.position += self.counted;
            Ok(has_time)
        }

        fn run(&mut self, candidate: usize) -> Result<f64, String> {
            self.runs[candidate] += 1;
            let written = &mut self.written[candidate];
            *written += self.counted as f64 * WRITES;
            let is_late = usize::from(*written >= LATE);
            let off = (self.random.unit() * 2.0 - 1.0) * self.error;
            Ok(self.speeds[candidate][is_late] * (1.0 + off))
        }
    }

    fn won(course: &mut Planted) -> usize {
        let plan = Plan {
            candidates: course.speeds.len(),
            stages: [(8, 3), (16, 3), (32, 12)]
                .map(|(counted, rounds)| Stage { counted, rounds })
                .into(),
        };
        let stages = halved(course, &plan).unwrap();
        winner(stages.last().unwrap())
    }

    #[test]
    fn the_best_one_wins_in_spite_of_noise() {
        let speeds = [100.0, 80.0, 95.0, 101.0, 140.0, 60.0, 99.0, 120.0, 103.0];
        for seed in 0..40 {
            let mut course = Planted::new(&speeds, 0.06, seed);
            assert_eq!(won(&mut course), 4, "seed {seed}");
            assert!(
                course.runs[5] < course.runs[4],
                "the worst one is left early"
            );
        }
    }

    #[test]
    fn two_that_are_better_are_tried_together() {
        let speeds = [100.0, 90.0, 120.0, 80.0, 130.0, 101.0];
        let mut course = Planted::new(&speeds, 0.05, 1);
        course.two_go_together = true;
        assert_eq!(won(&mut course), speeds.len());
        assert!((course.speeds[speeds.len()][0] - 156.0).abs() < 1e-9);
        let one_is_better = [100.0, 90.0, 95.0, 80.0, 130.0, 91.0];
        let mut course = Planted::new(&one_is_better, 0.02, 1);
        course.two_go_together = true;
        assert_eq!(won(&mut course), 4);
        assert_eq!(course.speeds.len(), one_is_better.len());
    }

    /// One candidate is as good as the others until much has been written over, and another is good
    /// only until then.
    #[test]
    fn what_acts_late_is_judged_by_what_it_does_then() {
        let mut speeds = [
            100.0, 104.0, 105.0, 106.0, 100.0, 107.0, 104.0, 105.0, 106.0,
        ]
        .map(|speed| [speed; 2]);
        for (acts_late, wins_when_new) in [([98.0, 140.0], false), ([140.0, 80.0], true)] {
            speeds[4] = acts_late;
            let wins = |age, seed| won(&mut Planted::changing(&speeds, age, (0.02, seed))) == 4;
            for seed in 0..40 {
                // The stage ends, and stores are made anew, before enough has been written over.
                assert_eq!(wins(0.0, seed), wins_when_new, "seed {seed}");
                assert_eq!(wins(1.0, seed), !wins_when_new, "seed {seed}");
            }
        }
    }

    #[test]
    fn among_equals_the_default_wins() {
        for seed in 0..40 {
            let none_is_better = [100.0; 9];
            let mut course = Planted::new(&none_is_better, 0.0, seed);
            assert_eq!(won(&mut course), 0);
        }
        // Better by less than the noise.
        let close = [
            standing(0, &[1.0; 3], 1.0),
            standing(1, &[1.01, 1.04, 1.16], 1.0),
            standing(2, &[0.9, 1.0, 1.1], 1.0),
        ];
        // The error of a mean of 1.01, 1.04 and 1.16 is 0.046, that of 0.9, 1 and 1.1 0.058.
        assert!((noise(&close) - 0.052).abs() < 2e-3, "{}", noise(&close));
        assert!((close[1].score() - 1.066).abs() < 1e-3);
        assert_eq!(winner(&close[..2]), 1);
        let closer = [
            standing(0, &[1.0; 3], 1.0),
            standing(1, &[1.03, 1.04, 1.05], 1.0),
        ];
        assert_eq!(noise(&closer), NOISE_MIN);
        assert_eq!(winner(&closer), 0);
    }

    fn standing(candidate: usize, ratios: &[f64], seconds: f64) -> Standing {
        Standing {
            candidate,
            ratios: ratios.to_vec(),
            base: vec![seconds; ratios.len()],
        }
    }

    #[test]
    fn more_rounds_make_the_noise_smaller() {
        let ratios = [0.8, 1.0, 1.2, 1.35];
        let default = |times| standing(0, &[1.0; 4].repeat(times), 1.0);
        let of = |times| [default(times), standing(1, &ratios.repeat(times), 1.0)];
        assert!(noise(&of(1)) > 0.1);
        assert_eq!(winner(&of(1)), 0);
        // The rounds leave 2 % of noise by then. What stays is that two stores differ.
        assert_eq!(noise(&of(40)), NOISE_MIN);
    }

    #[test]
    fn a_part_of_the_load_counts_by_how_long_it_takes() {
        // It is slower in two parts with cheap operations, and faster in one part with expensive
        // ones.
        let mut own = standing(1, &[0.8, 0.8, 1.5], 1.0);
        own.base = vec![1.0, 1.0, 10.0];
        let score = 12.0 / (1.0 / 0.8 + 1.0 / 0.8 + 10.0 / 1.5);
        assert!((own.score() - score).abs() < 1e-9, "{}", own.score());
        assert!(own.score() > 1.3);
    }

    #[test]
    fn one_that_fails_is_last() {
        let mut course = Planted::new(&[100.0, 0.0, 150.0, 90.0, 0.0], 0.01, 3);
        assert_eq!(won(&mut course), 2);
        let failing = stage(&mut course, &[0, 1], 3).unwrap();
        assert_eq!(winner(&failing), 0);
    }

    #[test]
    fn without_time_there_is_no_winner_but_the_default() {
        let mut course = Planted::new(&[100.0, 200.0], 0.0, 1);
        course.rounds_left = 0;
        let standings = stage(&mut course, &[0, 1], 3).unwrap();
        assert!(standings.iter().all(|standing| standing.ratios.is_empty()));
        assert_eq!(winner(&standings), 0);
        course.rounds_left = 1;
        assert_eq!(winner(&stage(&mut course, &[0, 1], 3).unwrap()), 1);
    }

    #[test]
    fn the_middle_of_numbers() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
    }
}
