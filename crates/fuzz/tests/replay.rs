//! All seeds, all kept finds, and random damage to both, given to every target.
//!
//! `EVENDB_FUZZ_DAMAGES` says how many damaged inputs a fast target gets, a slow one in proportion; `EVENDB_FUZZ_SEED` of which
//! random numbers. A failure says which input it was, in hexadecimal digits.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../trace/tests/hostile/random.rs"]
mod random;

use evendb_fuzz::{TARGETS, Target, seeds};
use random::Random;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

fn variable(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(default, |text| text.parse().expect("a number"))
}

fn give(target: &Target, input: &[u8], what: &str) {
    let ran = catch_unwind(AssertUnwindSafe(|| target.run(input)));
    if let Err(panic) = ran {
        let mut hex = String::new();
        input
            .iter()
            .for_each(|byte| write!(hex, "{byte:02x}").unwrap());
        eprintln!("target {}, {what}: {hex}", target.name);
        resume_unwind(panic);
    }
}

fn replay(name: &str) {
    let target = Target::named(name).expect("a target of this name");
    let mut inputs = seeds::of(&target);
    assert!(!inputs.is_empty(), "it has no seeds");
    inputs.extend(seeds::kept(&target).unwrap());
    inputs.push(Vec::new());
    for (number, input) in inputs.iter().enumerate() {
        assert!(
            input.len() <= 1 << 16,
            "input {number} is too long to be kept"
        );
        give(&target, input, &format!("input {number}"));
    }
    let count = variable("EVENDB_FUZZ_DAMAGES", 4000) / u64::from(target.slowness);
    let seed = variable("EVENDB_FUZZ_SEED", 1);
    for trial in 0..count {
        let mut random = Random::new(seed.wrapping_mul(1 << 40).wrapping_add(trial));
        let mut input = inputs[random.below(inputs.len())].clone();
        for _ in 0..1 + random.below(3) {
            random.damage(&mut input);
        }
        give(
            &target,
            &input,
            &format!("trial {trial} of EVENDB_FUZZ_SEED={seed}"),
        );
    }
}

macro_rules! replays {
    ($($test:ident $name:literal),+ $(,)?) => {
        const REPLAYED: &[&str] = &[$($name),+];
        $(
            #[test]
            fn $test() {
                replay($name);
            }
        )+
    };
}

replays!(
    table "table",
    block "block",
    filter "filter",
    run "run",
    manifest "manifest",
    current "current",
    commit_log "commit-log",
    value_extent "value-extent",
    trace "trace",
    flsm_manifest "flsm-manifest",
    flsm_log "flsm-log",
    keys "keys",
    inputs "inputs",
    directory "directory",
    flsm_directory "flsm-directory",
    programs "programs",
    flsm_programs "flsm-programs",
);

#[test]
fn every_target_is_replayed() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names, REPLAYED);
}

/// What is kept stays small enough to be looked at.
#[test]
fn the_corpus_is_small() {
    let mut sum = 0;
    for target in TARGETS {
        let kept = seeds::kept(&target).unwrap();
        let bytes: usize = kept.iter().map(Vec::len).sum();
        assert!(bytes <= 16 << 10, "{}: {bytes} bytes", target.name);
        sum += bytes;
    }
    assert!(sum <= 128 << 10, "{sum} bytes");
}
