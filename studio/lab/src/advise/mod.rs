//! Advice: which layout and settings of EvenDB suit a load, what more memory would bring, and which
//! other store would serve it better.
//!
//! ```text
//!   trace, or model --> source --> load: what it is --> candidates: what is worth trying, and why
//!                                                           |
//!          schedule: how long each run is  -->  halving <-- trial: a store for each,
//!                                                  |               runs in processes (runs)
//!                                    beside: the best at other budgets; other stores
//!                                                  |
//!                                            page: advice.json, page.html, a few sentences (words)
//!   exhaustive: all settings at full length, to see how far the advice is from the best of them
//! ```
//! Everything is measured on the machine where it runs, by replays of the load itself. Only what is
//! worth trying comes from a table of rules. The whole takes no more than the given time, as far as
//! estimates hold, and it says what it leaves out for that.
//!
//! Not here: settings that are not in [`candidates`]; anything about loads longer than what was
//! replayed; changes of a database.

mod beside;
pub mod candidates;
pub mod command;
mod exhaustive;
pub mod halving;
pub mod load;
mod page;
pub mod runs;
pub mod schedule;
pub mod source;
#[cfg(test)]
mod tests;
mod trial;
mod words;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::recorder::RunError;
use crate::stores::evendb::tuning::Tuning;

use beside::{Beside, MissRow};
use candidates::Candidate;
use halving::Standing;
use load::Load;
use runs::{Ground, Hold, Stretch, Who};
use schedule::{Pace, Usable};
use trial::{Run, Trial};

/// Why there is no advice.
#[derive(Debug)]
#[non_exhaustive]
pub enum AdviseError {
    /// What was given cannot be used: what it is, and why.
    Input(String),
    /// The trace is damaged: where, and how.
    Damaged(String),
    /// A file or directory cannot be read or written.
    Io(PathBuf, std::io::Error),
    /// A replay failed: which one, and why.
    Run(String),
    /// A replay took too long.
    TooLong(String),
    /// The command was interrupted.
    Interrupted,
}

impl fmt::Display for AdviseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdviseError::Input(what) | AdviseError::Damaged(what) => f.write_str(what),
            AdviseError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            AdviseError::Run(what) => write!(f, "a replay failed: {what}"),
            AdviseError::TooLong(what) => write!(f, "a replay took too long: {what}"),
            AdviseError::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for AdviseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AdviseError::Io(_, error) => Some(error),
            _ => None,
        }
    }
}

impl AdviseError {
    /// An error of the system at a file or directory.
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> AdviseError {
        let path = path.to_owned();
        |error| AdviseError::Io(path, error)
    }

    /// An error while reading or writing a trace.
    fn of_trace(path: &Path) -> impl FnOnce(evendb_trace::Error) -> AdviseError {
        let path = path.to_owned();
        move |error| RunError::from(error).of_file(&path).into()
    }
}

/// Errors of a trace that is read, which name it.
impl From<RunError> for AdviseError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Input(what) => AdviseError::Input(what),
            RunError::Damaged(what) => AdviseError::Damaged(what),
            error => AdviseError::Run(error.to_string()),
        }
    }
}

/// The available time, and the flag that ends it early.
pub struct Clock<'a> {
    started: Instant,
    seconds: f64,
    stop: &'a AtomicBool,
}

impl<'a> Clock<'a> {
    fn new(seconds: f64, stop: &'a AtomicBool) -> Clock<'a> {
        Clock {
            started: Instant::now(),
            seconds,
            stop,
        }
    }

    /// Seconds since the beginning.
    fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Says on the terminal what is done, and how much time is left.
    fn tell(&self, what: &str) {
        let left = (self.seconds - self.seconds()).max(0.0);
        tell!("[{left:>4.0} s left] {what}");
    }

    fn check(&self) -> Result<(), AdviseError> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(AdviseError::Interrupted),
            false => Ok(()),
        }
    }
}

/// The question that the advice answers.
struct Question {
    ground: Ground,
    /// Where stores are made.
    place: PathBuf,
    memory_bytes: u64,
    /// The memory that the user allowed, in bytes. `memory_bytes` is the part of it that the data
    /// needs.
    allowed_bytes: u64,
    /// What the user fixed.
    fixed: Tuning,
    /// The command of studio/peers, and the stores to ask with it.
    peers: Option<(PathBuf, Vec<String>)>,
    misses: Vec<MissRow>,
}

/// What was found.
struct Advice {
    load: Load,
    memory_bytes: u64,
    allowed_bytes: u64,
    fixed: Tuning,
    /// Candidates that were tried.
    candidates: Vec<Candidate>,
    /// Candidates for which there was no time.
    untried: Vec<Candidate>,
    runs: Vec<Run>,
    /// The standings of each stage that was measured.
    stages: Vec<Vec<Standing>>,
    winner: usize,
    budgets: Vec<Beside>,
    peers: Vec<Beside>,
    peers_were_asked: bool,
    misses: Vec<MissRow>,
    /// Bytes that were written over in each store before it was measured.
    age_bytes: u64,
}

impl Advice {
    /// The advised settings, with what was fixed.
    fn tuning(&self) -> Tuning {
        let own = &self.candidates[self.winner].tuning;
        self.fixed.and(own).unwrap_or_default()
    }

    /// The noise of the last stage.
    fn noise(&self) -> f64 {
        let last = self.stages.last();
        last.map_or(halving::NOISE_MIN, |last| halving::noise(last))
    }

    /// The standing of a candidate after its last stage.
    fn standing(&self, candidate: usize) -> Option<(usize, &Standing)> {
        let stages = self.stages.iter().enumerate().rev();
        let of = |standings: &'_ [Standing]| -> Option<usize> {
            let place = standings
                .iter()
                .position(|one| one.candidate == candidate)?;
            (!standings[place].ratios.is_empty()).then_some(place)
        };
        let mut found = stages.filter_map(|(stage, all)| Some((stage + 1, &all[of(all)?])));
        found.next()
    }
}

/// Candidates, budgets and peers are tried until these shares of the time.
const SHARES: [f64; 3] = [0.7, 0.97, 0.97];
const SHARES_WITH_PEERS: [f64; 3] = [0.55, 0.77, 0.97];

fn advise(mut question: Question, load: Load, clock: &Clock<'_>) -> Result<Advice, AdviseError> {
    let shares = match question.peers {
        Some(_) => SHARES_WITH_PEERS,
        None => SHARES,
    };
    let [tried_until, budgets_until, peers_until] = shares.map(|share| share * clock.seconds);
    let mut candidates = candidates::suitable(&load, question.memory_bytes, &question.fixed);
    let pace = pace(
        &mut question,
        (&load, candidates.len()),
        (clock, tried_until),
    )?;
    let usable = Usable {
        operations: question.ground.operations - question.ground.loading,
        repeats: question.ground.repeats,
    };
    let left = tried_until - clock.seconds();
    let plan = schedule::plan(candidates.len(), pace, left, usable);
    clock.tell(&format!(
        "{} of {} candidates are tried in {} stages",
        plan.candidates,
        candidates.len(),
        plan.stages.len()
    ));
    let untried = candidates.split_off(plan.candidates);
    let memory_bytes = question.memory_bytes;
    let mut trial = Trial::new(&question, clock, candidates, pace, tried_until);
    let stages = halving::halved(&mut trial, &plan)?;
    let winner = stages.last().map_or(0, |stage| halving::winner(stage));
    let Trial {
        candidates, runs, ..
    } = trial;
    let mut advice = Advice {
        memory_bytes,
        allowed_bytes: question.allowed_bytes,
        fixed: question.fixed.clone(),
        candidates,
        untried,
        runs,
        stages,
        winner,
        budgets: Vec::new(),
        peers: Vec::new(),
        peers_were_asked: question.peers.is_some(),
        misses: question.misses.clone(),
        age_bytes: question.ground.age_bytes,
        load,
    };
    let beside = beside::Asked {
        question: &question,
        clock,
        pace,
    };
    advice.budgets = beside.budgets(&advice.tuning(), budgets_until)?;
    if let Some((program, stores)) = &question.peers {
        advice.peers = beside.peers(program, stores, peers_until)?;
    }
    Ok(advice)
}

/// A run of the default counts operations for at least this number of seconds, if the trace is long
/// enough.
const PACE_SECONDS: f64 = 0.7;

/// Measures how fast things go, with a store that has the defaults, and decides how old stores are
/// made. This store is the first one that is aged.
fn pace(
    question: &mut Question,
    (load, candidates): (&Load, usize),
    (clock, until): (&Clock<'_>, f64),
) -> Result<Pace, AdviseError> {
    let ground = &mut question.ground;
    let directory = question.place.join("pace");
    let hold = Hold {
        at_most: Duration::from_secs_f64(clock.seconds.max(1.0)),
        stop: clock.stop,
    };
    let who = Who::EvenDb(question.fixed.clone());
    clock.tell("a store with the defaults is made, to see how fast things go");
    let mut prepare = ground.prepare(&who, question.memory_bytes, &directory, hold)?;
    let share = schedule::age_share(candidates, prepare, until - clock.seconds());
    ground.age_bytes = (load.age_bytes() as f64 * share) as u64;
    if ground.age_bytes > 0 {
        clock.tell("it is made older: what the load writes over is put again");
        let (aged, seconds) = ground.age(&who, question.memory_bytes, &directory, hold)?;
        // The load may write over less than that.
        ground.age_bytes = aged;
        prepare += seconds;
    }
    let mut skip = ground.loading;
    let mut counted = ((ground.operations - skip) / 200).max(200);
    loop {
        clock.check()?;
        let until = (skip + counted).min(ground.operations);
        let stretch = Stretch {
            skip,
            warm: 0,
            until,
        };
        let run = ground.run(&who, question.memory_bytes, &directory, (stretch, hold))?;
        let (seconds, per_second) = (run.seconds, run.per_second());
        (skip, counted) = (until, counted * 4);
        if seconds < PACE_SECONDS && skip + counted <= ground.operations {
            continue;
        }
        std::fs::remove_dir_all(&directory).map_err(AdviseError::io(&directory))?;
        clock.tell(&format!(
            "{prepare:.1} s to make it, {per_second:.0} operations a second"
        ));
        if let Some(why) = run.unlimited {
            clock.tell(&format!("memory is not limited from outside: {why}"));
        }
        return Ok(Pace {
            prepare,
            per_second: per_second.max(1.0),
            overhead: (run.process_seconds - seconds).max(0.0),
        });
    }
}
