//! Random programs over every public call, against an ordered map with its history: reads, writes, batches, range
//! deletions, iterators, snapshots, transactions, changes, keyspaces, copies, compaction, reopenings with other options,
//! and crashes at any operation of the disk, after which the state must be a prefix no shorter than was promised.
//!
//! ```text
//! seed -> program: steps 0, 1, 2 ...   each step is one call of the table (`calls/mod.rs`), with dice of its own, so that
//!                                      what a step does is the same when other steps are left out
//! world                                the database, the simulated disk, the oracle, and what is held over steps
//! ```
//! A program that fails is cut down (`shrink.rs`) and printed with the variables that replay it. `EVENDB_PROGRAM_OPERATIONS`
//! sets how many public calls there are (default 100,000), `EVENDB_PROGRAM_SEED` the first seed; with `EVENDB_PROGRAM_STEPS`
//! (numbers with commas) the steps of that one seed alone are run, and told.
//!
//! A new call needs an entry in a table of `calls` and `did` with its name; [`every_call_is_there`] says which calls
//! of the sources are in no program.

#[path = "../common/mod.rs"]
mod common;

mod calls;
mod dice;
mod model;
mod shrink;
mod sources;
mod world;

use common::{count_from_env, number_from_env};
use shrink::Program;
use std::collections::BTreeMap;

/// How often each public call was made.
pub type Counts = BTreeMap<&'static str, u64>;

/// Calls without which a run says little of whether all are there.
const ENOUGH: u64 = 50_000;

/// The steps that `EVENDB_PROGRAM_STEPS` names.
fn steps_from_env() -> Option<Vec<u64>> {
    let text = std::env::var("EVENDB_PROGRAM_STEPS").ok()?;
    let number = |part: &str| part.trim().parse().expect("numbers with commas");
    Some(text.split(',').map(number).collect())
}

#[test]
fn programs_over_all_calls() {
    let wanted = count_from_env("EVENDB_PROGRAM_OPERATIONS", 100_000);
    let first = number_from_env("EVENDB_PROGRAM_SEED", 1);
    if let Some(steps) = steps_from_env() {
        Program::of(first, steps).replay();
        return;
    }
    let mut counts = Counts::new();
    let (mut seed, mut done) = (first, 0);
    while done < wanted {
        done += Program::whole(seed).run_or_explain(&mut counts);
        seed += 1;
    }
    println!("{done} calls, seeds {first} to {}", seed - 1);
    for (name, count) in &counts {
        println!("{count:>10} {name}");
    }
    if done >= ENOUGH {
        sources::every_call_is_there(&counts);
    }
}
