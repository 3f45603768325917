//! [`Sampler`]: looks at the counters of a phase from the side: how many operations each step of
//! its course has, the longest time without any, and whether its time is over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Phase, Progress, sum};
use crate::recorder::FinishedCounter;

pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_millis(5);

/// Follows the counters while the workers run.
pub(super) struct Sampler<'a> {
    phase: &'a Phase,
    counters: &'a [Arc<FinishedCounter>],
    start: Instant,
    course: Vec<u64>,
    finished: u64,
    in_course: u64,
    moved: Instant,
    longest_stall: Duration,
    samples: u64,
    /// The time after which the workers are stopped.
    pub(super) duration_max: Option<Duration>,
}

impl<'a> Sampler<'a> {
    pub(super) fn new(
        phase: &'a Phase,
        counters: &'a [Arc<FinishedCounter>],
        start: Instant,
    ) -> Self {
        Self {
            phase,
            counters,
            start,
            course: Vec::new(),
            finished: 0,
            in_course: 0,
            moved: start,
            longest_stall: Duration::ZERO,
            samples: 0,
            duration_max: phase.limit.duration,
        }
    }

    /// Takes one sample. `true` when the phase's time is over.
    pub(super) fn sample(&mut self, progress: &dyn Progress) -> bool {
        let now = Instant::now();
        let finished = sum(self.counters);
        if finished != self.finished {
            self.longest_stall = self.longest_stall.max(now - self.moved);
            self.moved = now;
            self.finished = finished;
        }
        let elapsed = now - self.start;
        let step = (elapsed.as_secs_f64() / self.phase.course_interval.as_secs_f64()) as usize;
        while self.course.len() < step {
            // If a sample is late, the operations of the steps before it count in the first of
            // them.
            self.course.push(finished - self.in_course);
            self.in_course = finished;
        }
        self.samples += 1;
        if self.samples.is_multiple_of(20) {
            progress.update(finished, self.fraction(finished, elapsed));
        }
        self.duration_max.is_some_and(|limit| elapsed >= limit)
    }

    fn fraction(&self, finished: u64, elapsed: Duration) -> Option<f64> {
        let operations = self
            .phase
            .limit
            .operations
            .or(self.phase.expected_operations);
        let by_count = operations.map(|all| finished as f64 / all.max(1) as f64);
        let by_time = self
            .phase
            .limit
            .duration
            .map(|all| elapsed.as_secs_f64() / all.as_secs_f64());
        match (by_count, by_time) {
            (Some(count), Some(time)) => Some(count.max(time).min(1.0)),
            (one, other) => one.or(other).map(|share| share.min(1.0)),
        }
    }

    pub(super) fn longest_stall(&self, end: Instant) -> f64 {
        let last = end.saturating_duration_since(self.moved);
        // A stall shorter than two looks cannot be told from the interval between them.
        let longest = self.longest_stall.max(last);
        if longest < SAMPLE_INTERVAL * 2 {
            0.0
        } else {
            longest.as_secs_f64()
        }
    }

    /// Operations in each step of the course; the last step is usually a short one.
    pub(super) fn course(&self, end: Instant) -> Vec<(f64, u64)> {
        let width = self.phase.course_interval.as_secs_f64();
        let mut course: Vec<(f64, u64)> = self
            .course
            .iter()
            .enumerate()
            .map(|(index, &operations)| ((index + 1) as f64 * width, operations))
            .collect();
        let rest = sum(self.counters) - self.in_course;
        if rest > 0 {
            course.push(((end - self.start).as_secs_f64(), rest));
        }
        course
    }
}
