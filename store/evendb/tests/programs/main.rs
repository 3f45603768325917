//! Random programs over every public call, against an ordered map with its history: reads, writes,
//! batches, range deletions, iterators, snapshots, transactions, changes, keyspaces, copies,
//! compaction, reopenings with other options, and crashes at any operation of the disk. After a
//! crash the state must be a prefix that has at least all promised writes.
//!
//! ```text
//! seed -> program: steps 0, 1, 2 ...   each step is one call of the table (`calls/mod.rs`), with
//!                                      dice of its own, so it does the same without other steps
//! world                                the database, the simulated disk, the oracle, and the
//!                                      handles that are held over steps
//! ```
//! A program that fails is cut down (`shrink.rs`) and printed with the variables that replay it.
//! `EVENDB_PROGRAM_OPERATIONS` sets the number of public calls (default 100,000),
//! `EVENDB_PROGRAM_SEED` the first seed. With `EVENDB_PROGRAM_STEPS` (numbers with commas) only the
//! steps of that one seed are run, and printed.
//!
//! A new call needs an entry in a table of `calls` and `did` with its name; [`every_call_is_there`]
//! says which calls of the sources are in no program.

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

/// With fewer calls a run says little about whether each call is made.
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
