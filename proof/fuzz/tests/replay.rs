//! Every target gets all seeds, all kept finds, and damage to both: at random, and numbers of a
//! seed that become 0, 1, the highest possible one, one more, 2^32, 2^63 and 2^64-1.
//!
//! `EVENDB_FUZZ_DAMAGES` sets the number of damaged inputs of a fast target; a slow one gets fewer
//! in proportion. `EVENDB_FUZZ_SEED` sets the random numbers. A failure prints the input in
//! hexadecimal digits.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../studio/trace/tests/hostile/random.rs"]
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
    numbers_at_their_extremes(&target, count as usize);
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

/// A way to write a number over the one that begins at a place of the bytes.
type Put = fn(&mut Vec<u8>, usize, u64);

fn write_varint(bytes: &mut Vec<u8>, at: usize, number: u64) {
    let mut written = Vec::new();
    evendb_storage::codec::put_varint(&mut written, number);
    let old = bytes[at..].iter().position(|byte| *byte < 0x80);
    let end = old.map_or(bytes.len(), |last| at + last + 1);
    bytes.splice(at..end, written);
}

#[expect(
    clippy::ptr_arg,
    reason = "one of several ways, and another one needs it"
)]
fn write_fixed<const BYTES: usize>(bytes: &mut Vec<u8>, at: usize, number: u64) {
    let end = bytes.len().min(at + BYTES);
    bytes[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
}

/// In a text: where digits begin, writes the number in their place. Elsewhere nothing changes.
fn write_digits(bytes: &mut Vec<u8>, at: usize, number: u64) {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    if at > 0 && is_digit(&bytes[at - 1]) {
        return;
    }
    let digits = bytes[at..].iter().take_while(|byte| is_digit(byte)).count();
    if digits > 0 {
        bytes.splice(at..at + digits, number.to_string().into_bytes());
    }
}

/// Each place of a seed is taken for that of a number, in each form in which files have numbers. If
/// there are more than `count` such inputs for each seed, only every nth of them is given.
fn numbers_at_their_extremes(target: &Target, count: usize) {
    const WRITES: [Put; 5] = [
        write_varint,
        write_digits,
        write_fixed::<2>,
        write_fixed::<4>,
        write_fixed::<8>,
    ];
    let seeds = seeds::of(target);
    for (number, seed) in seeds.iter().enumerate() {
        let all = seed.len() * WRITES.len() * 7;
        // Odd, and no multiple of 7: it goes through all places and all numbers.
        let step = (all * seeds.len() / count.max(1)) | 1;
        let step = if step.is_multiple_of(7) {
            step + 2
        } else {
            step
        };
        for trial in (0..all).step_by(step) {
            let (extreme, trial) = (trial % 7, trial / 7);
            let (write, at) = (WRITES[trial % WRITES.len()], trial / WRITES.len());
            let most = (seed.len() - at) as u64;
            let extremes = [0, 1, most, most + 1, 1 << 32, 1 << 63, u64::MAX];
            let mut input = seed.clone();
            write(&mut input, at, extremes[extreme]);
            let what = format!("seed {number} with {} at {at}", extremes[extreme]);
            give(target, &input, &what);
        }
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
    keys "keys",
    inputs "inputs",
    small_files "small-files",
    models "models",
    directory "directory",
    programs "programs",
);

#[test]
fn every_target_is_replayed() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names, REPLAYED);
}

/// The corpus stays small enough for people to look at.
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
