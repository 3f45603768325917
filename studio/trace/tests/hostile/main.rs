//! Damaged, forged or absurd traces of every format: reading them ends, with a typed error or a
//! count of what was lost, in bounded memory, and without a panic.
//!
//! `EVENDB_TRACE_TRIALS` sets the number of trials of each test, `EVENDB_TRACE_SEED` the random
//! numbers. A failure names the trial, which the seed repeats. This is a binary of its own, because
//! it counts the allocator's requests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "an allocator that counts")]

#[path = "../making/mod.rs"]
mod making;
#[path = "../../../../proof/fuzz/src/memory.rs"]
mod memory;

mod bombs;
mod lines;
mod own;
mod random;
mod rocksdb;

use evendb_trace::formats::{self, Format, Imported};
use evendb_trace::{Error, Operation};
use memory::peak_of;
use random::Random;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

fn variable(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(default, |text| text.parse().expect("a number"))
}

/// Runs the given number of trials, each with random numbers of its own.
fn trials(run: impl Fn(&mut Random)) {
    let (count, seed) = (
        variable("EVENDB_TRACE_TRIALS", 4000),
        variable("EVENDB_TRACE_SEED", 1),
    );
    for trial in 0..count {
        let mut random = Random::new(seed.wrapping_mul(1 << 40).wrapping_add(trial));
        let ran = catch_unwind(AssertUnwindSafe(|| run(&mut random)));
        if let Err(panic) = ran {
            eprintln!("trial {trial} of EVENDB_TRACE_SEED={seed}");
            resume_unwind(panic);
        }
    }
}

/// The highest memory for a damaged file in which nothing is large: some frames or lines.
const MEMORY: usize = 5 << 20;

/// Reads a source whole. The operations are not kept here; they are counted and compared with the
/// reader's counts.
fn import(
    format: Format,
    bytes: &[u8],
    each: &mut dyn FnMut(&Operation),
) -> Result<Imported, Error> {
    let mut given = 0;
    let imported = formats::read(format, &mut &bytes[..], &mut |operation| {
        given += 1;
        each(operation);
        Ok(())
    })?;
    assert_eq!(imported.operations, given);
    assert_eq!(imported.bad > 0, imported.first_bad.is_some());
    Ok(imported)
}
