//! Crashes at every operation: of a workload, of the recovery after it, and of the recovery after
//! that. Whatever a crash leaves, the database opens, equals one prefix of the writes, not shorter
//! than was promised, and goes on from there.
//!
//! `EVENDB_FLSM_CRASH_STATES` sets how many states are looked at (default 6,000),
//! `EVENDB_FLSM_CRASH_SEED` the first seed. Background threads take part, so a place repeats only
//! approximately.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::life::{Life, end_of, modes};
use common::oracle::End;
use common::{LEVELS, Random, count_from_env, number_from_env, scramble};
use evendb_flsm::Durability;
use evendb_flsm::vfs::SimVfs;
use std::time::Instant;

const STEPS: usize = 160;

/// Looks at one machine after a crash: opens, compares, goes on, crashes again.
fn verify(
    machine: &SimVfs,
    life: &Life,
    end: End,
    number: u64,
    depth: u32,
    states: &mut u64,
) -> Result<(), String> {
    *states += 1;
    let before = machine.fork_state();
    let from = machine.op_count();
    let mut next = life.next(machine, number);
    next.recover(end)?;
    let operations = machine.op_count() - from;
    if number.is_multiple_of(3) {
        go_on(&mut next, number, states)?;
    }
    next.abandon();
    if depth > 0 && operations > 0 {
        // The recovery crashes in the middle.
        let machine = before.fork_state();
        machine.set_crash_at(machine.op_count() + scramble(number ^ u64::from(depth)) % operations);
        let mut cut = life.next(&machine, number);
        let _ = cut.open();
        let mode = modes(number)[(scramble(number + 3) % 5) as usize];
        let left = machine.crash(mode);
        cut.abandon();
        let end = match end {
            End::Power => End::Power,
            End::Process => end_of(mode),
        };
        verify(&left, life, end, scramble(number), depth - 1, states)
            .map_err(|what| format!("recovery crashed, then {mode:?}: {what}"))?;
    }
    Ok(())
}

/// Writes more, crashes between two operations, opens.
fn go_on(life: &mut Life, number: u64, states: &mut u64) -> Result<(), String> {
    for step in 0..12 {
        life.step()
            .map_err(|error| format!("going on, step {step}: {error:?}"))?;
    }
    let mode = modes(number)[(scramble(number) % 5) as usize];
    let machine = life.vfs.crash(mode);
    let mut next = life.next(&machine, scramble(number));
    life.abandon();
    *states += 1;
    next.recover(end_of(mode))
        .map_err(|what| format!("after going on, {mode:?}: {what}"))?;
    next.abandon();
    Ok(())
}

/// Runs a workload up to operation `at`, and looks at every kind of crash there. Returns the number
/// of operations of the whole workload, if it did not crash.
fn crash_at(seed: u64, level: Durability, at: u64, states: &mut u64) -> Option<u64> {
    let vfs = SimVfs::new(seed);
    vfs.set_crash_at(at);
    let mut life = Life::new(&vfs, level, scramble(seed));
    let mut outcome = life.open();
    let mut steps = 0;
    while outcome.is_ok() && steps < STEPS && !vfs.crashed() {
        outcome = life.step();
        steps += 1;
    }
    let place = format!("seed {seed} {level:?} operation {at} (step {steps})");
    if let Err(error) = outcome {
        assert!(vfs.crashed(), "{place}: {error:?}");
    }
    let all = (!vfs.crashed()).then(|| vfs.op_count());
    // The disk is looked at before the threads have ended, and after.
    for (index, mode) in modes(scramble(seed ^ at)).into_iter().enumerate() {
        if index == 2 {
            life.abandon();
        }
        let machine = vfs.crash(mode);
        let number = scramble(at * 8 + index as u64);
        let depth = if number.is_multiple_of(4) { 2 } else { 0 };
        verify(&machine, &life, end_of(mode), number, depth, states)
            .unwrap_or_else(|what| panic!("{place} {mode:?}: {what}"));
    }
    all
}

fn campaign(level: Durability) {
    let wanted = count_from_env("EVENDB_FLSM_CRASH_STATES", 6_000).div_ceil(3);
    let mut seed = number_from_env("EVENDB_FLSM_CRASH_SEED", 1);
    let mut states = 0;
    let started = Instant::now();
    while states < wanted {
        let mut at = seed % 7;
        while states < wanted && crash_at(seed, level, at, &mut states).is_none() {
            at += 7;
        }
        seed += 1;
    }
    println!(
        "{level:?}: {states} states, seeds up to {seed}, {:.0} s",
        started.elapsed().as_secs_f64()
    );
}

#[test]
fn crash_at_every_operation_relaxed() {
    campaign(Durability::Relaxed);
}

#[test]
fn crash_at_every_operation_process() {
    campaign(Durability::Process);
}

#[test]
fn crash_at_every_operation_sync() {
    campaign(Durability::Sync);
}

/// A disk that gets full in the midst of a workload, and has room again in some of the lives.
/// Refused writes have not happened, no acknowledged write is lost, and the rest opens once there
/// is room.
fn around_a_full_disk(seed: u64, level: Durability, states: &mut u64) {
    let place = format!("full disk, seed {seed} {level:?}");
    let vfs = SimVfs::new(seed);
    let mut life = Life::new(&vfs, level, scramble(seed));
    let mut random = Random(seed);
    life.open().unwrap();
    for _ in 0..random.below(60) {
        life.step().unwrap();
    }
    if life.db.is_none() {
        return;
    }
    vfs.set_capacity(vfs.used_bytes() + random.below(24 << 10));
    let mut refused = 0;
    let mut steps = 20 + random.below(150);
    let mut is_open = true;
    while steps > 0 && refused < 1 + seed % 9 && is_open {
        steps -= 1;
        if let Err(error) = life.step() {
            refused += 1;
            is_open = life.goes_on_after(&error);
        }
    }
    if is_open && random.one_in(2) {
        vfs.set_capacity(u64::MAX);
        for _ in 0..random.below(60) {
            if let Err(error) = life.step() {
                // This write waited for room meanwhile.
                is_open = life.goes_on_after(&error);
                if !is_open {
                    break;
                }
            }
        }
    }
    for (index, mode) in modes(scramble(seed)).into_iter().enumerate() {
        let machine = vfs.crash(mode);
        machine.set_capacity(u64::MAX);
        let number = scramble(seed * 8 + index as u64);
        verify(&machine, &life, end_of(mode), number, 1, states)
            .unwrap_or_else(|what| panic!("{place} {mode:?}: {what}"));
    }
    life.abandon();
}

#[test]
fn crash_around_a_full_disk() {
    let wanted = count_from_env("EVENDB_FLSM_CRASH_STATES", 6_000).div_ceil(8);
    let mut seed = number_from_env("EVENDB_FLSM_CRASH_SEED", 1);
    let mut states = 0;
    while states < wanted {
        for level in LEVELS {
            around_a_full_disk(seed, level, &mut states);
        }
        seed += 1;
    }
    println!("full disks: {states} states, seeds up to {seed}");
}
