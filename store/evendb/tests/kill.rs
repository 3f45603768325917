//! `kill -9` of a real process with four writing threads and one that scans, again and again on one
//! directory. Every write whose acknowledgement has come through the pipe is there afterwards, no
//! batch is halved, and the writes that are there are a prefix: of each thread's writes, and over
//! all threads.
//!
//! The writes are single puts, batches over two keyspaces, and batches raised to a higher level.
//! Order over threads: before each write a thread notes how far all others have been acknowledged,
//! and writes that into the value. So each write that is there names other writes that must be
//! there too.
//!
//! The test binary starts itself as the process to be killed. `EVENDB_KILLS` sets the number of
//! kills for each durability level (default 25; 1000 is the full campaign).

mod common;

use common::killing::{
    Counts, DIR_VARIABLE, LEVEL_VARIABLE, THREADS as WRITERS, require, run_and_kill, say,
};
use common::{count_from_env, perhaps_apart, scramble, tiny};
use evendb::{Db, Durability};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Each thread writes its slots in turn.
const SLOTS: u64 = 120;
/// One write in this number is a batch that also writes to the keyspace `mirror`.
const BATCH: u64 = 8;
/// One write in this number is a batch of a raised level.
const RAISED: u64 = 24;

fn slot_key(writer: usize, number: u64) -> String {
    format!("w{writer}/{:04}", number * 7 % SLOTS)
}

/// The write's number, the counts that had been acknowledged before, and a filling of a different
/// length each time, so that a value differs from its neighbours.
fn value(number: u64, before: &Counts) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    for count in before {
        value.extend_from_slice(&count.to_le_bytes());
    }
    let len = value.len() + (number % 90) as usize;
    value.resize(len, (number % 256) as u8);
    value
}

fn parse(bytes: &[u8]) -> Result<(u64, Counts), String> {
    let mut numbers = bytes
        .chunks_exact(8)
        .take(1 + WRITERS)
        .map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight bytes")));
    let number = numbers.next().ok_or("a value is too short")?;
    let mut before = [0; WRITERS];
    for count in &mut before {
        *count = numbers.next().ok_or("a value is too short")?;
    }
    if bytes != value(number, &before) {
        return Err(format!("the value of write {number} is damaged"));
    }
    Ok((number, before))
}

/// Checks that a thread's slots hold exactly its first writes; returns their number, and what the
/// last of them knew of the other threads.
fn check_writer(
    writer: usize,
    records: impl Iterator<Item = evendb::Result<(evendb::Value, evendb::Value)>>,
) -> Result<(u64, Counts), String> {
    let mut found = Vec::new();
    let mut newest: Option<(u64, Counts)> = None;
    for item in records {
        let (key, value) = item.map_err(|error| error.to_string())?;
        let (number, before) = parse(&value)?;
        found.push((key.to_vec(), number));
        if newest.is_none_or(|(last, _)| last < number) {
            newest = Some((number, before));
        }
    }
    let Some((last, before)) = newest else {
        return Ok((0, [0; WRITERS]));
    };
    let first = (last + 1).saturating_sub(SLOTS);
    let mut expected: Vec<(Vec<u8>, u64)> = (first..=last)
        .map(|number| (slot_key(writer, number).into_bytes(), number))
        .collect();
    expected.sort();
    if found != expected {
        let wrong = expected.iter().find(|pair| !found.contains(pair));
        return Err(format!(
            "writer {writer}: {} slots up to write {last}; missing or wrong: {wrong:?}",
            found.len()
        ));
    }
    Ok((last + 1, before))
}

/// Checks the whole database; returns the number of writes of each thread.
fn check_all(db: &Db) -> Result<Counts, String> {
    let mirror = db.keyspace("mirror").map_err(|error| error.to_string())?;
    let mut counts = [0; WRITERS];
    let mut known = [[0; WRITERS]; WRITERS];
    let snapshot = db.snapshot().map_err(|error| error.to_string())?;
    for writer in 0..WRITERS {
        let records = snapshot.prefix(db.default_keyspace(), format!("w{writer}/"));
        (counts[writer], known[writer]) = check_writer(writer, records)?;
        let mirrored = snapshot
            .get(&mirror, format!("w{writer}"))
            .map_err(|error| error.to_string())?
            .map(|value| parse(&value))
            .transpose()?
            .map(|(number, _)| number);
        let batches = counts[writer]
            .checked_sub(1)
            .map(|last| last - last % BATCH);
        if mirrored != batches {
            return Err(format!(
                "writer {writer} has {} writes, but its last batch is {mirrored:?}",
                counts[writer]
            ));
        }
    }
    // The prefix over all threads.
    for (writer, known) in known.iter().enumerate() {
        for (other, &at_least) in known.iter().enumerate() {
            if counts[other] < at_least {
                return Err(format!(
                    "the last write of {writer} began after {at_least} of {other}, and there are only \
                     {} are there",
                    counts[other]
                ));
            }
        }
    }
    Ok(counts)
}

fn write_forever(db: &Db, writer: usize, done: &[AtomicU64; WRITERS]) -> evendb::Result<()> {
    let mirror = db.keyspace("mirror")?;
    for number in done[writer].load(Ordering::SeqCst).. {
        let before = std::array::from_fn(|other| done[other].load(Ordering::SeqCst));
        let key = slot_key(writer, number);
        let value = value(number, &before);
        if number.is_multiple_of(BATCH) {
            let mut batch = db.batch();
            batch.put(db.default_keyspace(), key, &value);
            batch.put(&mirror, format!("w{writer}"), &value);
            if number.is_multiple_of(RAISED) {
                batch.durability(Durability::Sync);
            }
            batch.commit()?;
        } else {
            db.put(key, value)?;
        }
        done[writer].store(number + 1, Ordering::SeqCst);
        say(&format!("ack {writer} {number}"));
    }
    Ok(())
}

fn level_named(name: &str) -> Durability {
    match name {
        "process" => Durability::Process,
        _ => Durability::Sync,
    }
}

/// Not a test of its own: the process that is killed.
#[test]
fn child_process() {
    let (Ok(dir), Ok(level)) = (std::env::var(DIR_VARIABLE), std::env::var(LEVEL_VARIABLE)) else {
        return;
    };
    let own = u64::from(std::process::id());
    let options = perhaps_apart(tiny(level_named(&level), 1), own);
    let db = options.open(dir).expect("opens");
    let counts = match check_all(&db) {
        Ok(counts) => counts,
        Err(what) => {
            say(&format!("bad {what}"));
            return;
        }
    };
    say(&format!(
        "found {}",
        counts.map(|count| count.to_string()).join(" ")
    ));
    let done = counts.map(AtomicU64::new);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                if let Err(error) = write_forever(db, writer, done) {
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

/// Each process checks what the one before left; now and then, and at the end, this process does.
fn kill_again_and_again(level: &str) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let kills = count_from_env("EVENDB_KILLS", 25);
    let started = Instant::now();
    let mut needed = [0; WRITERS];
    let (mut acknowledgements, mut while_opening) = (0, 0);
    for kill in 0..kills {
        let place = format!("{level} kill {kill}");
        let number = scramble(kill);
        let wanted = match number % 10 {
            0 => 0,
            1..=6 => 1 + number / 10 % 60,
            _ => 1 + number / 10 % 1_200,
        };
        let pause = Duration::from_micros(number / 1_000 % 20_000);
        let told = run_and_kill(dir.path(), level, wanted, pause);
        match &told.found {
            Some(found) => {
                require(found, &needed, &place);
                needed = told.acknowledged;
            }
            None => while_opening += 1,
        }
        acknowledgements += told.acknowledgements;
        if kill % 20 == 19 || kill + 1 == kills {
            let options = perhaps_apart(tiny(level_named(level), 1), kill);
            let db = options.open(dir.path()).expect("opens after a kill");
            let counts = check_all(&db).unwrap_or_else(|what| panic!("{place}: {what}"));
            require(&counts, &needed, &place);
            needed = counts;
            if kill % 40 == 19 {
                db.close().expect("closes");
            }
        }
    }
    println!(
        "{level}: {kills} kills ({while_opening} of them while opening), {acknowledgements} \
         acknowledgements, {} writes, 0 lost, 0 batches torn, {:.0} s",
        needed.iter().sum::<u64>(),
        started.elapsed().as_secs_f64()
    );
}

#[test]
fn killed_at_process_level() {
    kill_again_and_again("process");
}

#[test]
fn killed_at_sync_level() {
    kill_again_and_again("sync");
}
