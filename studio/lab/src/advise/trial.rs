//! The candidates' stores and runs: successive halving measures with them.
//!
//! Each candidate has a directory of its own, with a store that is aged when it is made
//! ([`Ground::prepare`]). All of them replay the same parts of the trace, one after the other.
//! After its end the trace begins again. If the load repeats, this happens on the same stores, so
//! that garbage goes on growing. Otherwise all stores are made anew, since operations that make new
//! records are another load the second time.
//!
//! A candidate is out if its process fails, or takes many times as long as the default: its speed
//! is 0. If the default fails, there is no advice.
//!
//! Used by one thread.

use std::path::PathBuf;
use std::time::Duration;

use super::candidates::{self, Candidate};
use super::halving::Course;
use super::runs::{Ground, Hold, Measured, Stretch, Who};
use super::schedule::{Pace, WARM_SHARE};
use super::{AdviseError, Clock, Question};
use crate::stores::evendb::tuning::Tuning;

/// A run is ended when it takes this many times as long as the default is expected to take.
const PATIENCE: f64 = 8.0;
const PATIENCE_MIN: Duration = Duration::from_secs(20);

/// One run of a candidate.
#[derive(Clone, Debug)]
pub struct Run {
    /// The candidate.
    pub candidate: usize,
    /// The stage, from 1.
    pub stage: usize,
    /// The round of the stage, from 1.
    pub round: usize,
    /// The figures of the run, or why it failed.
    pub outcome: Result<Measured, String>,
}

/// See the module.
pub struct Trial<'a> {
    pub(super) ground: &'a Ground,
    pub(super) clock: &'a Clock<'a>,
    pub(super) place: PathBuf,
    pub(super) memory_bytes: u64,
    pub(super) fixed: &'a Tuning,
    pub(super) candidates: Vec<Candidate>,
    pub(super) pace: Pace,
    /// The trial ends at this number of seconds since the beginning of the command.
    pub(super) ends_at: f64,
    pub(super) stage: usize,
    /// Operations that a run of this stage counts.
    pub(super) counted: u64,
    pub(super) runs: Vec<Run>,
    round: usize,
    /// The operation of the trace that the stores have reached.
    position: u64,
    stretch: Stretch,
    stores: Vec<StoreState>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StoreState {
    Missing,
    Ready,
    Failed,
}

impl<'a> Trial<'a> {
    /// A trial that ends at the latest `ends_at` seconds after the beginning of the command.
    pub(super) fn new(
        question: &'a Question,
        clock: &'a Clock<'a>,
        candidates: Vec<Candidate>,
        pace: Pace,
        ends_at: f64,
    ) -> Trial<'a> {
        let begin = question.ground.loading;
        Trial {
            stores: vec![StoreState::Missing; candidates.len()],
            stretch: Stretch {
                skip: begin,
                warm: 0,
                until: begin,
            },
            position: begin,
            ground: &question.ground,
            clock,
            place: question.place.clone(),
            memory_bytes: question.memory_bytes,
            fixed: &question.fixed,
            candidates,
            pace,
            ends_at,
            stage: 0,
            counted: 0,
            runs: Vec::new(),
            round: 0,
        }
    }

    /// The trace begins again.
    fn begin_anew(&mut self) {
        self.position = self.ground.loading;
        if self.ground.repeats {
            return;
        }
        for store in &mut self.stores {
            if *store == StoreState::Ready {
                *store = StoreState::Missing;
            }
        }
    }

    fn who(&self, candidate: usize) -> Result<Who, AdviseError> {
        let tuning = &self.candidates[candidate].tuning;
        let contradicts = || AdviseError::Run(format!("{tuning} contradicts what is fixed"));
        Ok(Who::EvenDb(self.fixed.and(tuning).ok_or_else(contradicts)?))
    }

    fn directory(&self, candidate: usize) -> PathBuf {
        self.place.join(format!("candidate-{candidate}"))
    }

    fn prepare(&mut self, candidate: usize) -> Result<(), AdviseError> {
        let name = self.candidates[candidate].name();
        self.clock.tell(&format!("{name}: the store is made"));
        let hold = self.hold(self.pace.prepare);
        let directory = self.directory(candidate);
        let memory_bytes = self.memory_bytes;
        let who = self.who(candidate)?;
        match self.ground.prepare(&who, memory_bytes, &directory, hold) {
            Ok(_) => self.stores[candidate] = StoreState::Ready,
            Err(error) => self.fail(candidate, error)?,
        }
        Ok(())
    }

    fn hold(&self, expected_seconds: f64) -> Hold<'a> {
        let at_most = Duration::from_secs_f64(expected_seconds * PATIENCE);
        Hold {
            at_most: at_most.max(PATIENCE_MIN),
            stop: self.clock.stop,
        }
    }

    /// Notes that a candidate is out. An error if that ends everything.
    fn fail(&mut self, candidate: usize, error: AdviseError) -> Result<(), AdviseError> {
        let only_it = matches!(error, AdviseError::Run(_) | AdviseError::TooLong(_));
        if candidate == 0 || !only_it {
            return Err(error);
        }
        self.clock.tell(&format!("it is out: {error}"));
        self.stores[candidate] = StoreState::Failed;
        self.runs.push(Run {
            candidate,
            stage: self.stage,
            round: self.round,
            outcome: Err(error.to_string()),
        });
        Ok(())
    }
}

impl Course for Trial<'_> {
    type Error = AdviseError;

    fn next_stage(&mut self, counted: u64) {
        (self.stage, self.round, self.counted) = (self.stage + 1, 0, counted);
    }

    /// The new store has done nothing, so all begin anew. If the load repeats, it is as old as the
    /// others were, and that is enough.
    fn together(&mut self, one: usize, other: usize) -> Option<usize> {
        let both = candidates::together(&self.candidates[one], &self.candidates[other])?;
        self.candidates.push(both);
        self.stores.push(StoreState::Missing);
        self.begin_anew();
        Some(self.candidates.len() - 1)
    }

    fn begin(&mut self, candidates: &[usize]) -> Result<bool, AdviseError> {
        let warm = (self.counted as f64 * WARM_SHARE) as u64;
        let end = self.ground.operations;
        if self.position + warm + self.counted > end {
            self.begin_anew();
        }
        let length = (warm + self.counted).min(end - self.position);
        let is_missing = |candidate: &&usize| self.stores[**candidate] == StoreState::Missing;
        let missing: Vec<usize> = candidates.iter().filter(is_missing).copied().collect();
        let run = length as f64 / self.pace.per_second + self.pace.overhead;
        let takes = missing.len() as f64 * self.pace.prepare + candidates.len() as f64 * run;
        if length == 0 || self.clock.seconds() + takes > self.ends_at {
            self.clock.tell("there is no time for another round");
            return Ok(false);
        }
        for candidate in missing {
            self.prepare(candidate)?;
        }
        self.round += 1;
        self.stretch = Stretch {
            skip: self.position,
            warm: warm.min(length / 2),
            until: self.position + length,
        };
        self.position += length;
        Ok(true)
    }

    fn run(&mut self, candidate: usize) -> Result<f64, AdviseError> {
        if self.stores[candidate] != StoreState::Ready {
            return Ok(0.0);
        }
        let length = self.stretch.until - self.stretch.skip;
        let hold = self.hold(length as f64 / self.pace.per_second + self.pace.overhead);
        let (who, directory) = (self.who(candidate)?, self.directory(candidate));
        let run = (self.stretch, hold);
        let measured = match self.ground.run(&who, self.memory_bytes, &directory, run) {
            Ok(measured) => measured,
            Err(error) => {
                self.fail(candidate, error)?;
                return Ok(0.0);
            }
        };
        let (stage, round) = (self.stage, self.round);
        let speed = measured.per_second();
        if candidate == 0 {
            // The pace of the plan comes from a short run. This is how fast things go by now.
            self.pace.per_second = speed.max(1.0);
        }
        self.clock.tell(&format!(
            "stage {stage}, round {round}: {speed:.0} a second by {}",
            self.candidates[candidate].name()
        ));
        self.runs.push(Run {
            candidate,
            stage,
            round,
            outcome: Ok(measured),
        });
        Ok(speed)
    }
}
