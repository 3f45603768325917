//! When operations start in an open loop, and the clock that measures it.
//!
//! ```text
//!   schedule:   0     1     2     3     4     5  ...    intended starts, whatever the store does
//!                \     \     \
//!   gate:         one worker waits for the next start; the others queue behind it
//!                  |     |
//!   workers:       0     1   ...   latency = end - intended start
//! ```
//! In a closed loop a store that stalls is asked nothing meanwhile, so the stall shows as one slow
//! operation per thread. In an open loop operations come due all the same. Each waits for a free
//! worker, and that waiting is part of its latency. There is one schedule for all workers: the
//! first free worker carries out the next operation.
//!
//! The rate may swing as a sine ([`Arrivals::swing`]). Then operation n starts when the integral of
//! the rate reaches n. For a Poisson process, it starts when the integral reaches the sum of n
//! exponential gaps.
//!
//! The gate sleeps until shortly before a start and then yields in a loop, since sleeping alone is
//! late by some 60 us. That costs CPU time of one core at high rates: figures of CPU per operation
//! come from closed loops.
//!
//! A [`Clock`] is that of the system, or one for tests that is moved by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evendb_model::model::Rate;
use parking_lot::Mutex;

use crate::random::Random;

/// Sleeping ends up to this much late.
const SLEEP_ERROR: Duration = Duration::from_micros(100);
/// The longest sleep without a look at whether the phase is to end.
const SLEEP_MAX: Duration = Duration::from_millis(5);

/// The highest rate; above it the gate itself is the limit.
pub const RATE_MAX: f64 = 1e7;

/// An open loop that is behind its schedule is ended after this many times its duration.
pub(crate) const GRACE: u32 = 2;

/// How starts are spread in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Evenly: one every `1 / rate` seconds.
    Even,
    /// As a Poisson process, which many independent clients make together: gaps are exponentially
    /// distributed.
    Poisson,
}

impl Spacing {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Poisson => "poisson",
        }
    }
}

/// The settings of an open loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    /// Operations a second over all workers; above 0 and at most [`RATE_MAX`].
    pub per_second: f64,
    /// The rate over time, if it swings. Then `per_second` is its mean.
    pub swing: Option<Rate>,
    /// How the operations are spread in time.
    pub spacing: Spacing,
    /// Seeds the gaps of [`Spacing::Poisson`].
    pub seed: u64,
}

impl Arrivals {
    /// Seconds after which this number of operations is due.
    fn time_of(&self, operations: f64) -> f64 {
        match &self.swing {
            None => operations / self.per_second,
            Some(rate) => rate.time_of(operations),
        }
    }

    /// Operations that are due between two times.
    fn due_between(&self, from: f64, to: f64) -> f64 {
        match &self.swing {
            None => (to - from) * self.per_second,
            Some(rate) => rate.due(to) - rate.due(from),
        }
    }
}

/// How well an open loop kept to its schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenLoop {
    /// The intended number of operations that start in a second.
    pub intended_rate: f64,
    /// How the operations were spread in time.
    pub spacing: Spacing,
    /// Operations that were due and had not started when the phase ended: the percentiles leave
    /// them out. For a Poisson process it is the expected number.
    pub not_started: u64,
    /// How far behind the schedule the phase ended, in seconds: the time since the oldest operation
    /// that had not started was due. If all had started, the delay of the last one.
    pub behind_seconds: f64,
    /// The greatest delay of an operation's start, in seconds.
    pub late_seconds_max: f64,
}

/// The time: the system's, or one that only tests move.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<Manual>>);

#[derive(Debug)]
struct Manual {
    base: Instant,
    nanos: AtomicU64,
}

impl Clock {
    /// A clock that only [`Clock::advance`] and waits move. A wait moves it to the time that it
    /// waits for. Clones are the same clock.
    #[must_use]
    pub fn manual() -> Self {
        Self(Some(Arc::new(Manual {
            base: Instant::now(),
            nanos: AtomicU64::new(0),
        })))
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Instant {
        match &self.0 {
            None => Instant::now(),
            Some(manual) => manual.base + Duration::from_nanos(manual.nanos.load(Ordering::SeqCst)),
        }
    }

    /// Moves a manual clock. With the system's clock, the thread sleeps.
    pub fn advance(&self, time: Duration) {
        match &self.0 {
            None => thread::sleep(time),
            Some(manual) => {
                let nanos = time.as_nanos() as u64;
                manual.nanos.fetch_add(nanos, Ordering::SeqCst);
            }
        }
    }

    /// Waits until `time`, or until `stop`; returns the time then.
    fn wait_until(&self, time: Instant, stop: &AtomicBool) -> Instant {
        loop {
            let now = self.now();
            if now >= time || stop.load(Ordering::Relaxed) {
                return now;
            }
            let left = time - now;
            match &self.0 {
                Some(_) => self.advance(left),
                None if left > SLEEP_ERROR => thread::sleep((left - SLEEP_ERROR).min(SLEEP_MAX)),
                None => thread::yield_now(),
            }
        }
    }
}

/// The intended starts, one after the other.
#[derive(Debug)]
struct Schedule {
    arrivals: Arrivals,
    random: Random,
    number: u64,
    /// The integral of the rate at the start of the next operation.
    due: f64,
    /// Seconds from the phase's start to the next operation's.
    next: f64,
}

impl Schedule {
    fn new(arrivals: Arrivals) -> Self {
        let mut schedule = Self {
            arrivals,
            random: Random::new(arrivals.seed, 0x6172_7269),
            number: 0,
            due: 0.0,
            next: 0.0,
        };
        if arrivals.spacing == Spacing::Poisson {
            schedule.due = schedule.gap();
            schedule.next = arrivals.time_of(schedule.due);
        }
        schedule
    }

    fn gap(&mut self) -> f64 {
        // `unit` is below 1, so the logarithm is of something above 0.
        -(1.0 - self.random.unit()).ln()
    }

    fn advance(&mut self) {
        self.number += 1;
        self.due = match self.arrivals.spacing {
            // Not a sum: that would drift.
            Spacing::Even => self.number as f64,
            Spacing::Poisson => self.due + self.gap(),
        };
        self.next = self.arrivals.time_of(self.due);
    }
}

/// Lets operations through when they are due. Shared by the workers of a phase.
#[derive(Debug)]
pub(crate) struct Gate {
    clock: Clock,
    start: Instant,
    operations: u64,
    duration: Option<Duration>,
    state: Mutex<GateState>,
}

#[derive(Debug)]
struct GateState {
    schedule: Schedule,
    late: Duration,
    late_max: Duration,
}

impl Gate {
    /// A gate whose schedule starts now and ends at the limits, if there are any.
    pub(crate) fn new(
        arrivals: Arrivals,
        operations: Option<u64>,
        duration: Option<Duration>,
        clock: &Clock,
    ) -> Self {
        Self {
            clock: clock.clone(),
            start: clock.now(),
            operations: operations.unwrap_or(u64::MAX),
            duration,
            state: Mutex::new(GateState {
                schedule: Schedule::new(arrivals),
                late: Duration::ZERO,
                late_max: Duration::ZERO,
            }),
        }
    }

    /// Waits until the next operation is due and returns its intended start. `None` at the end of
    /// the schedule, when it is hopelessly behind, or when `stop` is set.
    pub(crate) fn next(&self, stop: &AtomicBool) -> Option<Instant> {
        // The wait is under the lock, so that only one worker watches the clock.
        let mut state = self.state.lock();
        let intended = Duration::from_secs_f64(state.schedule.next);
        let over = state.schedule.number >= self.operations
            || self.duration.is_some_and(|duration| intended >= duration);
        if over || stop.load(Ordering::Relaxed) {
            return None;
        }
        let due = self.start + intended;
        let now = self.clock.wait_until(due, stop);
        let end = self.duration.map(|duration| self.start + duration * GRACE);
        if now < due || end.is_some_and(|end| now >= end) {
            return None;
        }
        state.schedule.advance();
        state.late = now - due;
        state.late_max = state.late_max.max(state.late);
        Some(due)
    }

    /// How well the schedule was kept, at the phase's end.
    pub(crate) fn result(&self, end: Instant) -> OpenLoop {
        let state = self.state.lock();
        let arrivals = state.schedule.arrivals;
        let mut over = (end - self.start).as_secs_f64();
        if let Some(duration) = self.duration {
            // Operations that are due after the phase's time do not belong to the phase.
            over = over.min(duration.as_secs_f64());
        }
        let (number, next) = (state.schedule.number, state.schedule.next);
        let (not_started, behind) = if number < self.operations && next < over {
            // A little less: an operation that is due at the very end does not belong to the phase.
            let due = (arrivals.due_between(next, over) - 1e-3).ceil().max(1.0) as u64;
            let behind = (end - self.start).as_secs_f64() - next;
            (due.min(self.operations - number), behind)
        } else {
            (0, state.late.as_secs_f64())
        };
        OpenLoop {
            intended_rate: arrivals.per_second,
            spacing: arrivals.spacing,
            not_started,
            behind_seconds: behind,
            late_seconds_max: state.late_max.as_secs_f64().max(behind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVEN: Arrivals = Arrivals {
        per_second: 1000.0,
        swing: None,
        spacing: Spacing::Even,
        seed: 1,
    };

    fn millis(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    /// The intended starts that a gate lets through while nothing takes any time.
    fn starts(arrivals: Arrivals, operations: Option<u64>, duration: Option<Duration>) -> Vec<f64> {
        let clock = Clock::manual();
        let gate = Gate::new(arrivals, operations, duration, &clock);
        let next = || gate.next(&AtomicBool::new(false));
        let all = std::iter::from_fn(next).map(|due| (due - gate.start).as_secs_f64());
        all.collect()
    }

    #[test]
    fn even_starts_are_evenly_spaced_and_do_not_drift() {
        let arrivals = Arrivals {
            per_second: 3.0,
            ..EVEN
        };
        let all = starts(arrivals, Some(30_001), None);
        assert_eq!((all.len(), all[0]), (30_001, 0.0));
        assert!((all[1] - 1.0 / 3.0).abs() < 1e-8);
        assert!((all[30_000] - 10_000.0).abs() < 1e-8);
        assert_eq!(starts(EVEN, None, Some(millis(25))).len(), 25);
    }

    #[test]
    fn poisson_gaps_are_exponential_and_depend_on_the_seed_alone() {
        let arrivals = Arrivals {
            spacing: Spacing::Poisson,
            ..EVEN
        };
        let all = starts(arrivals, Some(20_000), None);
        assert_eq!(all, starts(arrivals, Some(20_000), None));
        let other = Arrivals {
            seed: 2,
            ..arrivals
        };
        assert_ne!(all, starts(other, Some(20_000), None));
        let gaps: Vec<f64> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean - 0.001).abs() < 0.00003, "{mean}");
        // A share of exp(-1) of exponential gaps is longer than the mean, exp(-3) than its triple.
        for (times, share) in [(1.0, 0.368), (3.0, 0.0498)] {
            let longer = gaps.iter().filter(|gap| **gap > times * 0.001).count();
            let longer = longer as f64 / gaps.len() as f64;
            assert!((longer - share).abs() < 0.01, "{times}: {longer}");
        }
    }

    #[test]
    fn a_swinging_rate_has_its_operations_at_its_times() {
        // 1,000 a second on average, from 100 to 1,900 in swings of a second.
        let (a, b, c, d) = (900.0, std::f64::consts::TAU, 0.0, 1000.0);
        for spacing in [Spacing::Even, Spacing::Poisson] {
            let arrivals = Arrivals {
                swing: Some(Rate { a, b, c, d }),
                spacing,
                ..EVEN
            };
            let all = starts(arrivals, None, Some(millis(10_000)));
            let parts = |from: f64| {
                all.iter()
                    .filter(|start| (from..from + 0.25).contains(&start.fract()))
                    .count()
            };
            // The quarter around the highest rate: 250 + 900 / 2 pi (cos(pi / 4) - cos(3 pi / 4))
            // operations a swing.
            let fast = parts(0.125) as f64;
            let expected = 10.0 * (250.0 + 900.0 / std::f64::consts::TAU * 2f64.sqrt());
            assert!(
                (fast / expected - 1.0).abs() < 0.05,
                "{spacing:?}: {fast} {expected}"
            );
            let whole = all.len() as f64;
            assert!(
                (whole / 10_000.0 - 1.0).abs() < 0.04,
                "{spacing:?}: {whole}"
            );
        }
    }

    #[test]
    fn a_late_worker_is_told_when_it_should_have_started() {
        let clock = Clock::manual();
        let gate = Gate::new(EVEN, None, Some(millis(50)), &clock);
        let never = AtomicBool::new(false);
        assert_eq!(gate.next(&never), Some(gate.start));
        clock.advance(millis(10));
        // Due 1, 2, ... ms after the start; nothing is left out.
        for number in 1..=5 {
            assert_eq!(gate.next(&never), Some(gate.start + millis(number)));
        }
        let result = gate.result(clock.now());
        // 6, 7, 8 and 9 ms.
        assert_eq!(result.not_started, 4);
        assert!((result.behind_seconds - 0.004).abs() < 1e-9);
        assert!((result.late_seconds_max - 0.009).abs() < 1e-9);
        clock.advance(millis(90));
        // Nothing was due after 50 ms, and after 100 ms no more is begun.
        assert_eq!(gate.next(&never), None);
        assert_eq!(gate.result(clock.now()).not_started, 44);
    }

    #[test]
    fn a_count_ends_the_schedule_and_so_does_a_stop() {
        let clock = Clock::manual();
        let gate = Gate::new(EVEN, Some(3), None, &clock);
        let stop = AtomicBool::new(false);
        assert!(gate.next(&stop).is_some() && gate.next(&stop).is_some());
        stop.store(true, Ordering::Relaxed);
        assert_eq!(gate.next(&stop), None);
        stop.store(false, Ordering::Relaxed);
        clock.advance(millis(7));
        assert!(gate.next(&stop).is_some());
        assert_eq!(gate.next(&stop), None);
        let result = gate.result(clock.now());
        assert_eq!(result.not_started, 0);
        assert!((result.behind_seconds - 0.006).abs() < 1e-9, "{result:?}");
    }

    #[test]
    fn workers_share_one_schedule() {
        let gate = Gate::new(EVEN, Some(400), None, &Clock::manual());
        let never = AtomicBool::new(false);
        let take = || std::iter::from_fn(|| gate.next(&never)).collect::<Vec<_>>();
        let mut all: Vec<Instant> = thread::scope(|scope| {
            let workers: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            let starts = workers
                .into_iter()
                .flat_map(|worker| worker.join().unwrap());
            starts.collect()
        });
        all.sort_unstable();
        let expected = (0..400).map(|number| gate.start + millis(number));
        assert!(all.into_iter().eq(expected));
    }
}
