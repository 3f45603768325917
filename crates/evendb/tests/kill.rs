//! `kill -9` of a real process with two writing threads and one that scans, again and again on one
//! directory. Every put whose acknowledgement has come through the pipe is there afterwards, each
//! thread's writes are a prefix, and no batch is halved.
//!
//! The test binary starts itself as the process to be killed. `EVENDB_KILLS` sets how many kills
//! per durability level (default 10).

mod common;

use common::{number_from_env, scramble, tiny};
use evendb::{Db, Durability};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const DIR_VARIABLE: &str = "EVENDB_KILL_DIR";
const LEVEL_VARIABLE: &str = "EVENDB_KILL_LEVEL";
const WRITERS: usize = 2;
/// Each thread writes its slots in turn.
const SLOTS: u64 = 400;
/// Every so many writes is a batch that also writes to the keyspace `mirror`.
const BATCH: u64 = 16;

fn slot_key(writer: usize, number: u64) -> String {
    format!("w{writer}/{:04}", number % SLOTS)
}

/// Of a different length each time, so that a value is told from its neighbours.
fn value(number: u64) -> Vec<u8> {
    let mut value = format!("{number:010}").into_bytes();
    value.resize(10 + (number % 90) as usize, (number % 256) as u8);
    value
}

fn number_of(value: &[u8]) -> Result<u64, String> {
    let digits = value.get(..10).ok_or("a value is too short")?;
    let text = std::str::from_utf8(digits).map_err(|error| error.to_string())?;
    let number = text.parse().map_err(|_| format!("{text} is no number"))?;
    if value != self::value(number) {
        return Err(format!("the value of write {number} is damaged"));
    }
    Ok(number)
}

/// Checks that a thread's slots hold exactly its first writes; how many.
fn check_writer(
    writer: usize,
    records: impl Iterator<Item = evendb::Result<(evendb::Value, evendb::Value)>>,
) -> Result<u64, String> {
    let mut found = Vec::new();
    for item in records {
        let (key, value) = item.map_err(|error| error.to_string())?;
        found.push((key.to_vec(), number_of(&value)?));
    }
    let Some(last) = found.iter().map(|(_, number)| *number).max() else {
        return Ok(0);
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
    Ok(last + 1)
}

/// Checks the whole database; the number of writes of each thread.
fn check_all(db: &Db) -> Result<[u64; WRITERS], String> {
    let mirror = db.keyspace("mirror").map_err(|error| error.to_string())?;
    let mut counts = [0; WRITERS];
    let snapshot = db.snapshot().map_err(|error| error.to_string())?;
    for (writer, count) in counts.iter_mut().enumerate() {
        let records = snapshot.prefix(db.default_keyspace(), format!("w{writer}/"));
        *count = check_writer(writer, records)?;
        let mirrored = snapshot
            .get(&mirror, format!("w{writer}"))
            .map_err(|error| error.to_string())?
            .map(|value| number_of(&value))
            .transpose()?;
        let batches = count.checked_sub(1).map(|last| last - last % BATCH);
        if mirrored != batches {
            return Err(format!(
                "writer {writer} has {count} writes, but its last batch is {mirrored:?}"
            ));
        }
    }
    Ok(counts)
}

fn write_forever(db: &Db, writer: usize, from: u64) -> evendb::Result<()> {
    let mirror = db.keyspace("mirror")?;
    for number in from.. {
        let key = slot_key(writer, number);
        if number.is_multiple_of(BATCH) {
            let mut batch = db.batch();
            batch.put(db.default_keyspace(), key, value(number));
            batch.put(&mirror, format!("w{writer}"), value(number));
            batch.commit()?;
        } else {
            db.put(key, value(number))?;
        }
        say(&format!("ack {writer} {number}"));
    }
    Ok(())
}

/// One line to the parent; it may be gone.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "\n{line}");
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
    let options = tiny(level_named(&level), 1);
    let db = options.open(dir).expect("opens");
    let counts = check_all(&db).expect("intact at the start");
    std::thread::scope(|scope| {
        for (writer, from) in counts.into_iter().enumerate() {
            let db = &db;
            scope.spawn(move || {
                if let Err(error) = write_forever(db, writer, from) {
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

/// Starts the process, kills it after so many acknowledgements; the last one of each thread.
fn run_and_kill(dir: &Path, level: &str, acknowledgements: u64) -> [Option<u64>; WRITERS] {
    let mut child = Command::new(std::env::current_exe().expect("the test binary"))
        .args(["child_process", "--exact", "--nocapture"])
        .env(DIR_VARIABLE, dir)
        .env(LEVEL_VARIABLE, level)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut last = [None; WRITERS];
    let mut seen = 0;
    for line in output.lines() {
        // The last line may be cut in the middle.
        let Ok(line) = line else { break };
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["ack", writer, number] => {
                let (Ok(writer), Ok(number)) = (writer.parse::<usize>(), number.parse::<u64>())
                else {
                    continue;
                };
                // A line that was cut shows too small a number, never too large a one.
                last[writer] = last[writer].max(Some(number));
                seen += 1;
                if seen == acknowledgements {
                    child.kill().expect("it runs");
                }
            }
            ["bad", ..] => panic!("{level}: the running process says: {line}"),
            _ => {}
        }
    }
    // Dead already, or it ended by itself, which the number of acknowledgements tells.
    child.wait().expect("it was started");
    assert!(seen >= acknowledgements, "{level}: it ended after {seen}");
    last
}

fn kill_again_and_again(level: &str) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let kills = number_from_env("EVENDB_KILLS", 10);
    let mut total = 0;
    for kill in 0..kills {
        let acknowledgements = 1 + scramble(kill) % 1_500;
        let last = run_and_kill(dir.path(), level, acknowledgements);
        let options = tiny(level_named(level), 1);
        let db = options.open(dir.path()).expect("opens after a kill");
        let counts = check_all(&db).unwrap_or_else(|what| panic!("{level} kill {kill}: {what}"));
        for (writer, (last, count)) in last.iter().zip(counts).enumerate() {
            let needed = last.map_or(0, |last| last + 1);
            assert!(
                count >= needed,
                "{level} kill {kill}: writer {writer} has {count} of {needed} acknowledged"
            );
        }
        total = counts.iter().sum();
        if kill % 2 == 0 {
            db.close().expect("closes");
        }
    }
    println!("{level}: {kills} kills, {total} writes");
}

#[test]
fn killed_at_process_level() {
    kill_again_and_again("process");
}

#[test]
fn killed_at_sync_level() {
    kill_again_and_again("sync");
}
