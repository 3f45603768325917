//! Crashes at every operation: of a workload, of the recovery after it, and of the recovery after that. Whatever a crash leaves, the
//! database opens and equals one prefix of the writes, no shorter than what was promised, and goes on from there.
//!
//! `EVENDB_FLSM_CRASH_STATES` sets how many states are looked at (default 6,000), `EVENDB_FLSM_CRASH_SEED` the first seed. Threads in the
//! background take part, so a place repeats only nearly.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::oracle::{Change, End, Oracle};
use common::{DIR, LEVELS, Random, from_env, scramble, tiny_on};
use evendb_flsm::vfs::{CrashMode, SimVfs};
use evendb_flsm::{Db, Durability, Error, Snapshot};

const STEPS: usize = 160;
const NAMES: [&str; 2] = ["other", "third"];

fn end_of(mode: CrashMode) -> End {
    match mode {
        CrashMode::Process => End::Process,
        _ => End::Power,
    }
}

/// The ways a crash is looked at.
fn modes(number: u64) -> [CrashMode; 5] {
    [
        CrashMode::Process,
        CrashMode::PowerLossNothing,
        CrashMode::PowerLossAll,
        CrashMode::PowerLossRandom(number),
        CrashMode::PowerLossRandom(scramble(number)),
    ]
}

/// A database and what it is to hold.
struct Life {
    vfs: SimVfs,
    oracle: Oracle,
    random: Random,
    db: Option<Db>,
    snapshots: Vec<Snapshot>,
    stamp: u32,
}

impl Life {
    fn new(vfs: &SimVfs, level: Durability, seed: u64) -> Life {
        Life {
            vfs: vfs.clone(),
            oracle: Oracle::new(level),
            random: Random(seed),
            db: None,
            snapshots: Vec::new(),
            stamp: 0,
        }
    }

    fn open(&mut self) -> Result<(), Error> {
        let seed = self.random.next();
        self.db = Some(tiny_on(&self.vfs, self.oracle.level, seed).open(DIR)?);
        Ok(())
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open")
    }

    fn abandon(&mut self) {
        self.snapshots.clear();
        self.db = None;
    }

    fn change(&mut self) -> (String, Change) {
        let names = self.oracle.names();
        let at = self.random.below(names.len() as u64) as usize;
        let (name, id) = names.iter().nth(at).expect("below");
        let (name, id) = (name.clone(), *id);
        let key = format!("k{:02}", self.random.below(60)).into_bytes();
        self.stamp += 1;
        let value = (!self.random.one_in(5)).then(|| {
            let mut value = self.stamp.to_le_bytes().to_vec();
            let len = match self.random.below(12) {
                0 => 600 + self.random.below(1500),
                _ => self.random.below(120),
            };
            value.resize(4 + len as usize, self.stamp as u8);
            value
        });
        (name, (id, key, value))
    }

    fn write(&mut self, count: u64) -> Result<(), Error> {
        let changes: Vec<(String, Change)> = (0..count).map(|_| self.change()).collect();
        let entry = changes.iter().map(|(_, change)| change.clone()).collect();
        let level = match self.random.below(12) {
            0 => LEVELS[self.random.below(3) as usize],
            _ => self.oracle.level,
        };
        let mut batch = self.db().batch();
        batch.durability(level);
        for (name, (_, key, value)) in &changes {
            let keyspace = self.db().keyspace(name)?;
            match value {
                Some(value) => batch.put(&keyspace, key, value),
                None => batch.delete(&keyspace, key),
            };
        }
        self.oracle.begin(entry);
        batch.commit()?;
        self.oracle.acknowledge(level);
        Ok(())
    }

    fn change_name(&mut self) -> Result<(), Error> {
        let name = NAMES[self.random.below(2) as usize];
        if self.oracle.names().contains_key(name) {
            self.oracle.begin_name(name, false);
            self.db().drop_keyspace(name)?;
            self.oracle.dropped(name);
        } else {
            self.oracle.begin_name(name, true);
            let id = self.db().keyspace(name)?.id();
            self.oracle.made(name, id);
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Error> {
        match self.random.below(100) {
            0..68 => self.write(1),
            68..80 => {
                let count = 2 + self.random.below(6);
                self.write(count)
            }
            80..84 => {
                self.db().flush()?;
                self.oracle.persisted();
                Ok(())
            }
            84..87 => {
                self.db().persist()?;
                self.oracle.persisted();
                Ok(())
            }
            87..89 => {
                self.db().settle_debt()?;
                self.oracle.persisted();
                Ok(())
            }
            89..91 => {
                self.snapshots.push(self.db().snapshot()?);
                Ok(())
            }
            91..93 => {
                self.snapshots.pop();
                Ok(())
            }
            93..97 => self.change_name(),
            _ => {
                self.snapshots.clear();
                let db = self.db.take().expect("open");
                db.close()?;
                self.oracle.persisted();
                self.open()
            }
        }
    }

    /// Opens what a crash left, compares, and goes on from there.
    fn recover(&mut self, end: End) -> Result<(), String> {
        self.open().map_err(|error| format!("opening: {error:?}"))?;
        let db = self.db.clone().expect("open");
        self.oracle.recover(&db, end)
    }

    /// Another life on what a crash left of this one.
    fn next(&self, machine: &SimVfs, number: u64) -> Life {
        Life {
            vfs: machine.clone(),
            oracle: self.oracle.clone(),
            random: Random(number),
            db: None,
            snapshots: Vec::new(),
            stamp: self.stamp + 1_000_000,
        }
    }
}

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

/// Runs a workload up to operation `at`, and looks at every way to crash there. Operations of the whole, if it was not crashed.
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
    // What the disk holds is looked at before the threads have ended, and after.
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
    let wanted = from_env("EVENDB_FLSM_CRASH_STATES", 6_000).div_ceil(3);
    let mut seed = from_env("EVENDB_FLSM_CRASH_SEED", 1);
    let mut states = 0;
    while states < wanted {
        let mut at = seed % 7;
        while states < wanted && crash_at(seed, level, at, &mut states).is_none() {
            at += 7;
        }
        seed += 1;
    }
    println!("{level:?}: {states} states, seeds up to {seed}");
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
