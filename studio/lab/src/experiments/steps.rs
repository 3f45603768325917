//! The steps of a long run: each store's share of it in a process of its own, under a limit of
//! memory, in order.
//!
//! ```text
//!   plan: [Step] -- less the steps whose cells are all in results.jsonl --> steps left
//!                                                                     |
//!   for each: DIR/data made anew -> this program again, with --child=.., in a group of its own
//!             memory -> DIR/data removed -> a line of kind "step"
//!             -> what did not end well: lines of kind "skipped"
//! ```
//! `DIR/data.evendb-mark`, made before `DIR/data`, tells that a step has made it; without the mark
//! it is never removed. The child appends its cells itself, so an interrupted run loses only the
//! step at work. The estimate of the time that is left learns from the steps that ended.
//!
//! Thread safety: one run at a time in a directory; [`Owner`] refuses others. Not here: what a step
//! measures.

use super::results_file::{ResultsFile, key_of};
use super::{Failure, at};
use crate::memory_limit::{self, MemoryLimit};
use evendb::vfs::{OsVfs, Vfs};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const SIGKILL: i32 = rustix::process::Signal::KILL.as_raw();

/// One process that will be started.
pub struct Step {
    /// Its measurement, in results and on the terminal.
    pub what: String,
    /// The store.
    pub store: String,
    /// The round, from 0.
    pub round: usize,
    /// The value of `--child` for the process.
    pub child: String,
    /// The memory that it may take in bytes, page cache included.
    pub memory_bytes: u64,
    /// The estimated seconds.
    pub seconds: f64,
    /// The fields that identify each cell that it measures.
    pub cells: Vec<Value>,
}

/// Where steps run, and whether their memory is limited.
pub struct Runner<'a> {
    pub out: &'a Path,
    pub results: &'a ResultsFile,
    pub no_memory_limit: bool,
}

/// The directory, below that of a run, in which its stores are made.
pub fn data_directory(out: &Path) -> PathBuf {
    out.join("data")
}

impl Runner<'_> {
    /// Runs what is left of a plan. `after` is called after each step.
    ///
    /// # Errors
    /// The number of steps that did not end well; the others were run.
    pub fn run(
        &self,
        plan: &[Step],
        after: &dyn Fn() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let finished = self.results.finished()?;
        let is_done = |step: &&Step| {
            let mut cells = step.cells.iter();
            cells.all(|cell| key_of(cell).is_some_and(|key| finished.contains(&key)))
        };
        let (done, left): (Vec<&Step>, Vec<&Step>) = plan.iter().partition(is_done);
        if !done.is_empty() {
            tell!(
                "{} of {} steps were finished before",
                done.len(),
                plan.len()
            );
        }
        let mut estimate = Estimate::new(left.iter().map(|step| step.seconds).sum());
        let mut failed = 0;
        for (index, step) in left.iter().enumerate() {
            tell!(
                "[{}/{}] {}, {}, round {}: {} phases; {} left",
                index + 1,
                left.len(),
                step.what,
                step.store,
                step.round + 1,
                step.cells.len(),
                estimate.left(),
            );
            let started = Instant::now();
            if let Err(error) = self.step(step) {
                failed += 1;
                tell!("  {}: {error}", step.store);
            }
            estimate.passed(step.seconds, started.elapsed());
            after()?;
        }
        match failed {
            0 => Ok(()),
            _ => Err(format!("{failed} of {} steps did not end well", left.len()).into()),
        }
    }

    /// The limit of a step, or why there is none.
    pub fn limit(&self, memory_bytes: u64) -> Result<MemoryLimit, String> {
        match self.no_memory_limit {
            true => Err("not wanted".to_owned()),
            false => memory_limit::limit(memory_bytes),
        }
    }

    fn step(&self, step: &Step) -> Result<(), Failure> {
        let directory = data_directory(self.out);
        remove(&directory)?;
        OsVfs::own_file(&mark_of(&directory)).map_err(at(&mark_of(&directory)))?;
        fs::create_dir(&directory).map_err(at(&directory))?;
        // The group is removed with the step, and so are its pages in the page cache.
        let limit = self.limit(step.memory_bytes).ok();
        let program = std::env::current_exe()?;
        let mut command = match &limit {
            Some(limit) => limit.command(&program),
            None => Command::new(&program),
        };
        let status = command
            .args(std::env::args_os().skip(1))
            .arg(format!("--child={}", step.child))
            .status()?;
        remove(&directory)?;
        self.results.append(&json!({
            "kind": "step",
            "store": step.store,
            "round": step.round,
            "family": step.what,
            "memory_peak_bytes": limit.as_ref().and_then(MemoryLimit::peak_bytes),
        }))?;
        if status.success() {
            return Ok(());
        }
        let why = match status.signal() {
            // A process that ends by itself has noted what it could not measure.
            None => return Err(format!("ended with {status}").into()),
            Some(SIGKILL) => {
                "its process was killed; more memory than the limit is the usual reason".into()
            }
            Some(signal) => format!("its process was ended by signal {signal}"),
        };
        let finished = self.results.finished()?;
        for cell in &step.cells {
            if key_of(cell).is_none_or(|key| !finished.contains(&key)) {
                self.results.skip(cell, &why)?;
            }
        }
        Err(why.into())
    }
}

/// The time that is left, corrected by the error of the guesses up to now.
struct Estimate {
    left_seconds: f64,
    guessed: f64,
    taken: f64,
}

impl Estimate {
    fn new(left_seconds: f64) -> Estimate {
        Estimate {
            left_seconds,
            // A weight for the guesses, so that the first step alone does not decide.
            guessed: 30.0,
            taken: 30.0,
        }
    }

    fn passed(&mut self, guessed: f64, taken: Duration) {
        self.left_seconds -= guessed;
        self.guessed += guessed;
        self.taken += taken.as_secs_f64();
    }

    fn left(&self) -> String {
        minutes(self.left_seconds.max(0.0) * self.taken / self.guessed)
    }
}

/// A time in words.
pub fn minutes(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 90.0 => format!("{seconds:.0} s"),
        seconds if seconds < 5_400.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3_600.0),
    }
}

/// The file beside a directory that tells that the directory is ours. It is made before the
/// directory and removed after it.
fn mark_of(directory: &Path) -> PathBuf {
    directory.with_extension("evendb-mark")
}

/// Whether the directory of a step is there. Refuses a directory that no step has made.
///
/// # Errors
/// With the directory's path; nothing is changed.
fn is_there(directory: &Path) -> Result<bool, Failure> {
    let there = match directory.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        there => there.map_err(at(directory))?,
    };
    let mark = mark_of(directory);
    if !there.is_dir() || !mark.symlink_metadata().is_ok_and(|mark| mark.is_file()) {
        let place = directory.display();
        let message = format!(
            "{place} is there already, and no step has made it: it is left as it is; name another directory"
        );
        return Err(message.into());
    }
    Ok(true)
}

/// Removes the directory of a step.
fn remove(directory: &Path) -> Result<(), Failure> {
    if !is_there(directory)? {
        return Ok(());
    }
    let mark = mark_of(directory);
    fs::remove_dir_all(directory).map_err(at(directory))?;
    OsVfs.remove(&mark).map_err(at(&mark))
}

/// The right to run in a directory.
pub struct Owner {
    _file: fs::File,
}

impl Owner {
    /// Makes the directory, if it is not there, and takes it, until this is dropped.
    ///
    /// # Errors
    /// Another run has it, or it holds foreign files that a run would write over or remove. Nothing
    /// is changed then.
    pub fn lock(directory: &Path) -> Result<Owner, Failure> {
        fs::create_dir_all(directory).map_err(at(directory))?;
        ResultsFile::refuse_foreign(directory)?;
        is_there(&data_directory(directory))?;
        let path = directory.join("lock");
        let file = OsVfs::own_file(&path).map_err(at(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Owner { _file: file }),
            Err(fs::TryLockError::WouldBlock) => {
                Err(format!("another run is at work in {}", directory.display()).into())
            }
            Err(fs::TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

/// Whether a results file was begun with these settings. Returns its first line, if there is one.
///
/// # Errors
/// It holds results with other settings.
pub fn begun_with(results: &ResultsFile, settings: &Value) -> Result<Option<Value>, Failure> {
    let first = results.first_run()?;
    if let Some(first) = &first
        && first["settings"] != *settings
    {
        let message = format!(
            "{} holds results with other settings: {}; now they are {settings}",
            results.path().display(),
            first["settings"],
        );
        return Err(message.into());
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_learns() {
        let mut estimate = Estimate::new(300.0);
        assert_eq!(estimate.left(), "5 min");
        estimate.passed(150.0, Duration::from_secs(510));
        assert_eq!(estimate.left(), "8 min");
        estimate.passed(150.0, Duration::from_secs(510));
        assert_eq!(estimate.left(), "0 s");
    }
}
