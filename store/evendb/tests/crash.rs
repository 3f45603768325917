//! Crashes at every operation: of a workload, of the recovery after it, and of the recovery after
//! that. Whatever a crash leaves, the database opens, equals one prefix of the writes that has at
//! least all promised ones, and continues from there.
//!
//! Everything replays from the seed in the message. `EVENDB_CRASH_STATES` sets the number of states
//! that are looked at (default 40,000), `EVENDB_CRASH_SEED` the first seed.

mod common;

use common::oracle::End;
use common::workload::{Runner, Step, extent_steps, steps};
use common::{DIR, LEVELS, count_from_env, number_from_env, scramble, varied};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{Durability, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};

const STEPS: usize = 260;
/// The usual number of states that are looked at.
const USUAL: u64 = 40_000;

fn end_of(mode: CrashMode) -> End {
    match mode {
        CrashMode::Process => End::Process,
        _ => End::Power,
    }
}

/// The ways to look at a crash.
fn modes(number: u64) -> [CrashMode; 6] {
    [
        CrashMode::Process,
        CrashMode::PowerLossNothing,
        CrashMode::PowerLossAll,
        CrashMode::PowerLossRandom(number),
        CrashMode::PowerLossRandom(scramble(number)),
        CrashMode::PowerLossRandom(scramble(number + 1)),
    ]
}

fn worst(a: End, b: End) -> End {
    if a == End::Power { a } else { b }
}

/// Makes the given number of steps of a seed.
type Workload = fn(u64, usize) -> Vec<Step>;

struct Campaign {
    states: AtomicU64,
    workload: Workload,
}

impl Campaign {
    fn new(workload: Workload) -> Campaign {
        Campaign {
            states: AtomicU64::new(0),
            workload,
        }
    }

    /// Steps taken after a recovery, to find damage that it left behind.
    fn more_steps(&self, number: u64) -> Vec<Step> {
        let mut more = (self.workload)(number, 14);
        more.retain(|step| !matches!(step, Step::Drop(_)));
        more
    }

    /// Looks at one machine after a crash: opens, compares, continues, crashes again.
    fn verify(
        &self,
        machine: &SimVfs,
        runner: &Runner,
        end: End,
        number: u64,
        depth: u32,
    ) -> Result<(), String> {
        self.states.fetch_add(1, Ordering::Relaxed);
        let before = machine.fork_state();
        let level = runner.level;
        let mut next = Runner::resume(machine, level, runner.oracle.clone()).vary(number);
        next.recover(end)?;
        let operations = machine.op_count();
        if number.is_multiple_of(3) {
            self.go_on(next, number)?;
        } else {
            next.abandon();
        }
        if depth > 0 && operations > 0 {
            self.crash_recovery(&before, runner, end, number, operations, depth)
                .map_err(|what| format!("recovery crashed, {depth} more allowed: {what}"))?;
        }
        Ok(())
    }

    /// Crashes a recovery in the middle and looks at the state that this leaves.
    fn crash_recovery(
        &self,
        before: &SimVfs,
        runner: &Runner,
        end: End,
        number: u64,
        operations: u64,
        depth: u32,
    ) -> Result<(), String> {
        let at = scramble(number ^ u64::from(depth)) % operations;
        let machine = before.fork_state();
        machine.set_crash_at(at);
        drop(varied(&machine, runner.level, number).open(DIR));
        let mode = modes(number + 7)[(scramble(number + 3) % 6) as usize];
        let left = machine.crash(mode);
        let end = worst(end, end_of(mode));
        self.verify(&left, runner, end, scramble(number), depth - 1)
            .map_err(|what| format!("at {at} then {mode:?}: {what}"))
    }

    /// Writes more after a recovery, crashes between two operations, opens, writes, opens again.
    fn go_on(&self, mut runner: Runner, number: u64) -> Result<(), String> {
        for round in 0..2 {
            for step in self.more_steps(number + round) {
                runner
                    .step(&step)
                    .map_err(|error| format!("going on, round {round}: {step:?}: {error}"))?;
            }
            let mode = modes(number)[(scramble(number + round) % 6) as usize];
            let machine = runner.vfs.crash(mode);
            runner.abandon();
            self.states.fetch_add(1, Ordering::Relaxed);
            let level = runner.level;
            runner = Runner::resume(&machine, level, runner.oracle.clone()).vary(number + round);
            runner
                .recover(end_of(mode))
                .map_err(|what| format!("after going on, round {round}, {mode:?}: {what}"))?;
        }
        Ok(())
    }

    /// Runs the seed's workload up to operation `at`, and looks at every way to crash there.
    fn crash_at(&self, seed: u64, level: Durability, at: u64) {
        let vfs = SimVfs::new(seed);
        vfs.set_crash_at(at);
        let mut runner = Runner::new(&vfs, level).vary(seed);
        let mut last = "opening".to_owned();
        let mut outcome = runner.open();
        for (index, step) in (self.workload)(seed, STEPS).iter().enumerate() {
            if outcome.is_err() || vfs.crashed() {
                break;
            }
            last = format!("step {index}");
            outcome = runner.step(step);
        }
        let place = format!("seed {seed} {level:?} operation {at} ({last})");
        if let Err(error) = outcome {
            assert!(vfs.crashed(), "{place}: {error}");
        }
        runner.abandon();
        for (index, mode) in modes(scramble(seed ^ at)).into_iter().enumerate() {
            let machine = vfs.crash(mode);
            let number = scramble(at * 8 + index as u64);
            let depth = if number.is_multiple_of(4) { 3 } else { 0 };
            self.verify(&machine, &runner, end_of(mode), number, depth)
                .unwrap_or_else(|what| panic!("{place} {mode:?}: {what}"));
        }
    }
}

/// The number of operations of a seed's workload that nothing stops.
fn length_of(workload: Workload, seed: u64, level: Durability) -> u64 {
    let vfs = SimVfs::new(seed);
    let mut runner = Runner::new(&vfs, level).vary(seed);
    runner.open().expect("opens");
    for (index, step) in workload(seed, STEPS).iter().enumerate() {
        if let Err(error) = runner.step(step) {
            panic!("seed {seed} {level:?} step {index}: {step:?}: {error}");
        }
    }
    vfs.op_count()
}

/// The operations of a workload at which it is crashed: one of `stride`, which is a prime, so that
/// several workloads are looked at, and over the seeds every place. They go from the middle to the
/// end and then from the beginning, so that a small campaign sees a database at work.
fn places(seed: u64, stride: u64, operations: u64) -> impl Iterator<Item = u64> {
    let all = move || (seed % stride..operations).step_by(stride as usize);
    let second_half = move |at: &u64| *at >= operations / 2;
    let first_half = move |at: &u64| !second_half(at);
    all().filter(second_half).chain(all().filter(first_half))
}

/// Looks at one of `share` of the wanted states.
fn campaign(workload: Workload, level: Durability, share: u64) {
    let wanted = count_from_env("EVENDB_CRASH_STATES", 40_000).div_ceil(share);
    let campaign = Campaign::new(workload);
    let states = || campaign.states.load(Ordering::Relaxed);
    let mut seed = number_from_env("EVENDB_CRASH_SEED", 1);
    while states() < wanted {
        let operations = length_of(workload, seed, level);
        for at in places(seed, 13, operations).take_while(|_| states() < wanted) {
            campaign.crash_at(seed, level, at);
        }
        seed += 1;
    }
    println!("{level:?}: {} states, seeds up to {seed}", states());
}

#[test]
fn crash_at_every_operation_relaxed() {
    campaign(steps, Durability::Relaxed, 3);
}

#[test]
fn crash_at_every_operation_process() {
    campaign(steps, Durability::Process, 3);
}

#[test]
fn crash_at_every_operation_sync() {
    campaign(steps, Durability::Sync, 3);
}

/// Many writes too long for the commit log: their extents are synced with it, or before it if a
/// batch waits for the disk, or never.
#[test]
fn crashes_with_value_extents_process() {
    campaign(extent_steps, Durability::Process, 8);
}

#[test]
fn crashes_with_value_extents_sync() {
    campaign(extent_steps, Durability::Sync, 16);
}

/// The number of steps of a workload on a disk that is full in the middle half.
const FULL_STEPS: usize = 200;

fn full_disk_steps(seed: u64) -> Vec<Step> {
    let mut all = steps(seed, FULL_STEPS);
    all.retain(|step| !matches!(step, Step::Reopen));
    all
}

/// Runs the workload, with the disk full in its middle half, up to its end or a crash. Returns the
/// number of refused steps.
fn run_on_full_disk(runner: &mut Runner, seed: u64, place: &str) -> u64 {
    let vfs = runner.vfs.clone();
    let all = full_disk_steps(seed);
    let mut refused = 0;
    for (index, step) in all.iter().enumerate() {
        if index == all.len() / 4 {
            // Room that is freed meanwhile can be used again, or another process takes it.
            let slack = (scramble(seed) % 8) << 12;
            let own = seed.is_multiple_of(2);
            vfs.set_capacity(if own { vfs.used_bytes() + slack } else { 0 });
        }
        if index == all.len() * 3 / 4 {
            vfs.set_capacity(u64::MAX);
        }
        let outcome = runner.step(step);
        if vfs.crashed() {
            break;
        }
        let Err(error) = outcome else { continue };
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{place} step {index}");
        refused += 1;
        let visible = runner.oracle.check_live(runner.db());
        let visible = visible.unwrap_or_else(|what| panic!("{place} step {index}: {what}"));
        let names = runner.db().keyspace_names();
        runner.oracle.judge_pending(visible, &names);
    }
    refused
}

impl Campaign {
    /// Like [`Campaign::crash_at`], with a full disk in the middle. The database opens while the
    /// disk is full, unless the power loss has taken room that is kept for that; with room
    /// everything is as usual.
    fn crash_on_full_disk(&self, seed: u64, level: Durability, at: u64) -> u64 {
        let vfs = SimVfs::new(seed);
        vfs.set_crash_at(at);
        let place = format!("full disk, seed {seed} {level:?} operation {at}");
        let mut runner = Runner::new(&vfs, level).vary(seed);
        let refused = match runner.open() {
            Ok(()) => run_on_full_disk(&mut runner, seed, &place),
            Err(_) => 0,
        };
        runner.abandon();
        for (index, mode) in modes(scramble(seed ^ at)).into_iter().enumerate() {
            let place = format!("{place} {mode:?}");
            let machine = vfs.crash(mode);
            let number = scramble(at * 8 + index as u64);
            let full = machine.fork_state();
            let mut opened = Runner::resume(&full, level, runner.oracle.clone()).vary(number);
            match opened.recover(end_of(mode)) {
                Err(what) if what.contains("no storage space") => {}
                outcome => outcome.unwrap_or_else(|what| panic!("{place}: still full: {what}")),
            }
            opened.abandon();
            machine.set_capacity(u64::MAX);
            let depth = u32::from(number.is_multiple_of(4));
            self.verify(&machine, &runner, end_of(mode), number, depth)
                .unwrap_or_else(|what| panic!("{place}: {what}"));
        }
        refused
    }
}

fn full_disk_campaign(level: Durability) {
    let share = 8 * LEVELS.len() as u64;
    let wanted = count_from_env("EVENDB_CRASH_STATES", 40_000).div_ceil(share);
    let campaign = Campaign::new(steps);
    let states = || campaign.states.load(Ordering::Relaxed);
    let was_full = |refused: u64| refused > states() / 20;
    // Not every workload asks a full disk for room. A small campaign continues until the disk has
    // been full often enough, and gives up after the usual number of states.
    let goes_on = |refused| states() < wanted || !was_full(refused) && states() < USUAL / share;
    let mut seed = number_from_env("EVENDB_CRASH_SEED", 1);
    let mut refused = 0;
    while goes_on(refused) {
        let vfs = SimVfs::new(seed);
        let mut runner = Runner::new(&vfs, level).vary(seed);
        runner.open().expect("opens");
        let place = format!("full disk, seed {seed} {level:?}");
        run_on_full_disk(&mut runner, seed, &place);
        let operations = vfs.op_count();
        for at in places(seed, 17, operations) {
            if !goes_on(refused) {
                break;
            }
            refused += campaign.crash_on_full_disk(seed, level, at);
        }
        seed += 1;
    }
    let said = format!("{} states, {refused} steps refused", states());
    println!("{level:?}: {said}, seeds up to {seed}");
    assert!(was_full(refused), "{said}: it was hardly ever full");
}

#[test]
fn crashes_around_a_full_disk_relaxed() {
    full_disk_campaign(Durability::Relaxed);
}

#[test]
fn crashes_around_a_full_disk_process() {
    full_disk_campaign(Durability::Process);
}

#[test]
fn crashes_around_a_full_disk_sync() {
    full_disk_campaign(Durability::Sync);
}

/// One place, for looking at a failure: `EVENDB_CRASH_SEED` and `EVENDB_CRASH_AT`.
#[test]
fn crash_at_one_operation() {
    let seed = number_from_env("EVENDB_CRASH_SEED", 1);
    let at = number_from_env("EVENDB_CRASH_AT", 40);
    let campaign = Campaign::new(steps);
    for level in LEVELS {
        campaign.crash_at(seed, level, at);
    }
}

/// The durability level may be different in each life.
#[test]
fn levels_change_between_lives() {
    for seed in 0..count_from_env("EVENDB_LEVEL_SEEDS", 60) {
        let mut machine = SimVfs::new(seed);
        let level = LEVELS[(seed % 3) as usize];
        let mut runner = Runner::new(&machine, level);
        runner.open().expect("opens");
        for life in 0..12 {
            let number = scramble(seed * 100 + life);
            let place = format!("seed {seed} life {life} {:?}", runner.level);
            let mut all = steps(number, 120);
            all.retain(|step| !matches!(step, Step::Reopen));
            for (index, step) in all.iter().enumerate() {
                let outcome = runner.step(step);
                outcome.unwrap_or_else(|error| panic!("{place} step {index}: {error:?}"));
            }
            let mut end = End::Process;
            if number.is_multiple_of(2) {
                runner.db.take().expect("open").close().expect("closes");
                runner.oracle.everything_is_durable();
            } else {
                let mode = modes(number)[(number / 2 % 6) as usize];
                end = end_of(mode);
                machine = machine.crash(mode);
            }
            runner.abandon();
            let level = LEVELS[(number / 16 % 3) as usize];
            let mut oracle = runner.oracle.clone();
            // The promises of the last life are checked with its own level.
            runner = Runner::resume(&machine, level, oracle.clone());
            let outcome = runner.open();
            outcome.unwrap_or_else(|error| panic!("{place} then {level:?}: {error:?}"));
            let length = oracle.check(runner.db(), end);
            let length = length.unwrap_or_else(|what| panic!("{place} then {level:?}: {what}"));
            oracle.recovered(length, runner.db(), end);
            oracle.set_level(level);
            runner.oracle = oracle;
        }
    }
}
