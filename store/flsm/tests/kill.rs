//! `kill -9` of a real process with four writing threads and one that scans, again and again on one
//! directory, at each level.
//!
//! Every write whose acknowledgement came through the pipe is found afterwards, no batch is halved,
//! and the found writes are a prefix: of each thread's writes, and over all threads. At the relaxed
//! level only writes that were raised to a higher level are acknowledged through the pipe. The
//! found writes are a prefix all the same.
//!
//! The writes are single puts and deletes, batches over two keyspaces, and batches raised to a
//! higher level. The order over threads is checked in this way: before each write a thread notes
//! how many writes of the other threads had been acknowledged, and puts these numbers into the
//! value. So each found value tells which other writes must be found.
//!
//! The test binary starts itself as the process to be killed. `EVENDB_FLSM_KILLS` sets how many
//! kills per level (default 25; 1000 is the full campaign).

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::killing::{Counts, DIR_VARIABLE, LEVEL_VARIABLE, THREADS, require, run_and_kill, say};
use common::{LEVELS, count_from_env, scramble, tiny};
use evendb_flsm::{Db, Durability, Result, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Each thread writes its slots in turn.
const SLOTS: u64 = 120;
/// One write in this many is a batch that also writes to the keyspace `mirror`.
const BATCH: u64 = 8;
/// One write in this many is raised to a higher level, too.
const RAISED: u64 = 24;
/// One write in this many deletes its slot.
const DELETE: u64 = 7;

fn slot_key(thread: usize, number: u64) -> String {
    format!("w{thread}/{:04}", number * 7 % SLOTS)
}

fn deletes(number: u64) -> bool {
    number % DELETE == 3 && !number.is_multiple_of(BATCH)
}

/// The number of the write, the numbers of acknowledged writes before it, and a filling of a
/// different length each time, which distinguishes a value from its neighbours.
fn value(number: u64, before: &Counts) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    for count in before {
        value.extend_from_slice(&count.to_le_bytes());
    }
    let len = value.len() + (number % 90) as usize;
    value.resize(len, (number % 256) as u8);
    value
}

fn parse(bytes: &[u8]) -> std::result::Result<(u64, Counts), String> {
    let numbers: Vec<u64> = bytes
        .chunks_exact(8)
        .take(1 + THREADS)
        .map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap()))
        .collect();
    let (number, before) = numbers.split_first().ok_or("a value is too short")?;
    let before: Counts = before.try_into().map_err(|_| "a value is too short")?;
    match bytes == value(*number, &before) {
        true => Ok((*number, before)),
        false => Err(format!("the value of write {number} is damaged")),
    }
}

/// Checks that a thread's slots hold exactly its first writes. Returns the number of these writes,
/// and what the last put of them knew about the other threads. If the very last write deletes an
/// empty slot, it counts as done.
fn check_thread(
    thread: usize,
    records: impl Iterator<Item = Result<(Value, Value)>>,
) -> std::result::Result<(u64, Counts), String> {
    let mut found = Vec::new();
    let mut newest: Option<(u64, Counts)> = None;
    for item in records {
        let (key, value) = item.map_err(|error| error.to_string())?;
        let (number, before) = parse(&value)?;
        found.push((String::from_utf8_lossy(&key).into_owned(), number));
        if newest.is_none_or(|(last, _)| last < number) {
            newest = Some((number, before));
        }
    }
    let Some((last, before)) = newest else {
        return Ok((0, [0; THREADS]));
    };
    let slots = |last: u64| {
        let first = (last + 1).saturating_sub(SLOTS);
        let numbers = (first..=last).filter(|&number| !deletes(number));
        let mut slots: Vec<_> = numbers
            .map(|number| (slot_key(thread, number), number))
            .collect();
        slots.sort();
        slots
    };
    if deletes(last + 1) && found == slots(last + 1) {
        return Ok((last + 2, before));
    }
    match found == slots(last) {
        true => Ok((last + 1, before)),
        false => Err(format!(
            "thread {thread}: {} slots up to write {last} are not those of its first writes",
            found.len()
        )),
    }
}

/// Checks the whole database. Returns the number of writes of each thread.
fn check_all(db: &Db) -> std::result::Result<Counts, String> {
    let mirror = db.keyspace("mirror").map_err(|error| error.to_string())?;
    let mut counts = [0; THREADS];
    let mut known = [[0; THREADS]; THREADS];
    let snapshot = db.snapshot().map_err(|error| error.to_string())?;
    for thread in 0..THREADS {
        let records = snapshot.prefix(db.default_keyspace(), format!("w{thread}/"));
        (counts[thread], known[thread]) = check_thread(thread, records)?;
        let mirrored = snapshot.get(&mirror, format!("w{thread}"));
        let mirrored = mirrored.map_err(|error| error.to_string())?;
        let mirrored = mirrored.map(|value| parse(&value)).transpose()?;
        let last = counts[thread].checked_sub(1);
        let batch = last.map(|last| last - last % BATCH);
        if mirrored.map(|(number, _)| number) != batch {
            return Err(format!(
                "thread {thread} has {} writes, but its last batch is {mirrored:?}",
                counts[thread]
            ));
        }
    }
    // The prefix over all threads.
    for (thread, known) in known.iter().enumerate() {
        for (other, &at_least) in known.iter().enumerate() {
            if counts[other] < at_least {
                return Err(format!(
                    "the last write of {thread} began after {at_least} of {other}, and only {} of these are there",
                    counts[other]
                ));
            }
        }
    }
    Ok(counts)
}

fn write_forever(
    db: &Db,
    level: Durability,
    thread: usize,
    done: &[AtomicU64; THREADS],
) -> Result<()> {
    let mirror = db.keyspace("mirror")?;
    for number in done[thread].load(Ordering::SeqCst).. {
        let before = std::array::from_fn(|other| done[other].load(Ordering::SeqCst));
        let key = slot_key(thread, number);
        let value = value(number, &before);
        let mut survives = level > Durability::Relaxed;
        if number.is_multiple_of(BATCH) {
            let mut batch = db.batch();
            batch.put(db.default_keyspace(), key, &value);
            batch.put(&mirror, format!("w{thread}"), &value);
            if number.is_multiple_of(RAISED) {
                batch.durability(Durability::Sync);
                survives = true;
            }
            batch.commit()?;
        } else if deletes(number) {
            db.delete(key)?;
        } else {
            db.put(key, value)?;
        }
        // Later writes may say in their values that this write was acknowledged before.
        done[thread].store(number + 1, Ordering::SeqCst);
        if survives {
            say(&format!("ack {thread} {number}"));
        }
    }
    Ok(())
}

fn name(level: Durability) -> &'static str {
    match level {
        Durability::Relaxed => "relaxed",
        Durability::Process => "process",
        _ => "sync",
    }
}

/// Not a test of its own: the process that is killed.
#[test]
fn child_process() {
    let (Ok(dir), Ok(named)) = (std::env::var(DIR_VARIABLE), std::env::var(LEVEL_VARIABLE)) else {
        return;
    };
    let level = LEVELS.into_iter().find(|&level| name(level) == named);
    let level = level.unwrap();
    let options = tiny(u64::from(std::process::id())).durability(level);
    let db = options.open(dir).unwrap();
    let counts = match check_all(&db) {
        Ok(counts) => counts,
        Err(what) => {
            say(&format!("bad {what}"));
            return;
        }
    };
    let told = counts.map(|count| count.to_string()).join(" ");
    say(&format!("found {told}"));
    let done = counts.map(AtomicU64::new);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                if let Err(error) = write_forever(db, level, thread, done) {
                    say(&format!("bad {error}"));
                }
            });
        }
        loop {
            if let Err(what) = check_all(&db) {
                say(&format!("bad {what}"));
            }
        }
    });
}

/// Each process checks what the process before it left. Now and then, and at the end, this process
/// checks it.
fn kill_again_and_again(level: Durability) {
    let dir = tempfile::tempdir().unwrap();
    let kills = count_from_env("EVENDB_FLSM_KILLS", 25);
    let started = Instant::now();
    let mut needed = [0; THREADS];
    let (mut acknowledgements, mut while_opening) = (0, 0);
    for kill in 0..kills {
        let place = format!("{level:?} kill {kill}");
        let number = scramble(kill);
        let wanted = match number % 10 {
            0 => 0,
            1..=6 => 1 + number / 10 % 60,
            _ => 1 + number / 10 % 1_200,
        };
        // At this level only one write in `RAISED` is acknowledged.
        let wanted = match level {
            Durability::Relaxed => wanted.div_ceil(RAISED),
            _ => wanted,
        };
        let pause = Duration::from_micros(number / 1_000 % 20_000);
        let told = run_and_kill(dir.path(), name(level), wanted, pause);
        match &told.found {
            Some(found) => {
                require(found, &needed, &place);
                needed = told.acknowledged;
            }
            None => while_opening += 1,
        }
        acknowledgements += told.acknowledgements;
        if kill % 20 == 19 || kill + 1 == kills {
            let options = tiny(kill).durability(level);
            let db = options.open(dir.path()).unwrap();
            let counts = check_all(&db).unwrap_or_else(|what| panic!("{place}: {what}"));
            require(&counts, &needed, &place);
            needed = counts;
            if kill % 40 == 19 {
                db.close().unwrap();
            }
        }
    }
    println!(
        "{level:?}: {kills} kills ({while_opening} of them while opening), {acknowledgements} acknowledgements, {} writes, 0 \
         lost, 0 batches torn, {:.0} s",
        needed.iter().sum::<u64>(),
        started.elapsed().as_secs_f64()
    );
}

#[test]
fn killed_at_relaxed_level() {
    kill_again_and_again(Durability::Relaxed);
}

#[test]
fn killed_at_process_level() {
    kill_again_and_again(Durability::Process);
}

#[test]
fn killed_at_sync_level() {
    kill_again_and_again(Durability::Sync);
}
