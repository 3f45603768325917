//! The program of a seed: it is run, and if it fails it is cut down to few steps.

use super::Counts;
use super::calls;
use super::world::World;
use std::any::Any;
use std::panic::{self, AssertUnwindSafe};

/// The steps of a seed that are run.
pub struct Program {
    seed: u64,
    steps: Vec<u64>,
}

/// The most runs that a search for a smaller program may take.
const RUNS_MAX: u32 = 400;

impl Program {
    /// All steps of a seed: now and then a long program.
    pub fn whole(seed: u64) -> Program {
        let count = match seed % 16 {
            7 => 6_000,
            3 | 11 => 60,
            _ => 600,
        };
        Program::of(seed, (0..count).collect())
    }

    pub fn of(seed: u64, steps: Vec<u64>) -> Program {
        Program { seed, steps }
    }

    /// Runs it and prints each step. A failure becomes the test's own.
    pub fn replay(&self) {
        let counts = self
            .run(true)
            .map(|world| world.counts.values().sum::<u64>());
        match counts {
            Ok(calls) => println!("nothing fails in {calls} calls"),
            Err(failure) => panic!("seed {}: {failure}", self.seed),
        }
    }

    /// Runs it, adds to the counts, and returns the number of calls. If it fails, it ends the test
    /// with the smallest program that fails.
    pub fn run_or_explain(&self, counts: &mut Counts) -> u64 {
        let failure = match self.run(false) {
            Ok(world) => {
                for (name, count) in &world.counts {
                    *counts.entry(name).or_default() += count;
                }
                return calls_of(&world.counts);
            }
            Err(failure) => failure,
        };
        println!("seed {} fails: {failure}", self.seed);
        let smaller = self.cut_down();
        let steps: Vec<String> = smaller.steps.iter().map(u64::to_string).collect();
        println!("{} of {} steps are left", steps.len(), self.steps.len());
        let replayed = smaller
            .run(true)
            .err()
            .unwrap_or_else(|| "nothing".to_owned());
        panic!(
            "seed {}: {failure}\ncut down: {replayed}\nreplay: EVENDB_PROGRAM_SEED={} EVENDB_PROGRAM_STEPS={} \
             cargo test -p evendb --test programs -- --nocapture",
            self.seed,
            self.seed,
            steps.join(",")
        );
    }

    fn run(&self, tells: bool) -> Result<Box<World>, String> {
        let mut at = 0;
        let run = panic::catch_unwind(AssertUnwindSafe(|| {
            let mut world = Box::new(World::new(self.seed, tells));
            for &step in &self.steps {
                at = step;
                calls::step(&mut world, self.seed, step);
            }
            calls::finish(&mut world);
            world
        }));
        run.map_err(|panic| format!("step {at}: {}", text_of(&*panic)))
    }

    /// A smaller program that fails: halves, quarters and so on are left out while the rest still
    /// fails.
    fn cut_down(&self) -> Program {
        let said = panic::take_hook();
        panic::set_hook(Box::new(|_| {}));
        let mut smaller = Program::of(self.seed, self.steps.clone());
        let mut runs = 0;
        let mut part = smaller.steps.len().div_ceil(2);
        while part > 0 && runs < RUNS_MAX {
            let mut from = 0;
            let mut found = false;
            while from < smaller.steps.len() && runs < RUNS_MAX {
                let mut steps = smaller.steps.clone();
                steps.drain(from..(from + part).min(steps.len()));
                let fewer = Program::of(self.seed, steps);
                runs += 1;
                match fewer.run(false) {
                    Ok(_) => from += part,
                    Err(_) => {
                        smaller = fewer;
                        found = true;
                    }
                }
            }
            part = match (part, found) {
                (1, true) => 1,
                (1, false) => 0,
                _ => part.div_ceil(2),
            };
        }
        panic::set_hook(said);
        smaller
    }
}

/// The number of calls, without those that only return a handle.
fn calls_of(counts: &Counts) -> u64 {
    let handles = [
        "Db::keyspace",
        "Db::default_keyspace",
        "Keyspace::id",
        "Keyspace::name",
    ];
    let each = counts.iter().filter(|(name, _)| !handles.contains(name));
    each.map(|(_, count)| count).sum()
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a panic without words".to_owned())
}
