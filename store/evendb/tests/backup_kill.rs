//! `kill -9` of a process whose threads write, and which makes one backup after the other, again
//! and again on one database and one directory of backups.
//!
//! After each kill every backup that is listed verifies, and is a state that was: it has a prefix
//! of each thread's writes, no batch halved, in an order that all threads agree on, and every write
//! that was acknowledged before the call. A backup that returned is listed. Then the next process
//! continues.
//!
//! `EVENDB_BACKUP_KILLS` sets the number of kills (default 6; 200 is the full campaign).

mod common;

use common::{count_from_env, perhaps_apart, scramble, tiny};
use evendb::{Backups, Db, Durability};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const DIR_VARIABLE: &str = "EVENDB_KILL_DIR";
const WRITERS: usize = 3;
const SLOTS: u64 = 150;
/// The number of backups that are kept.
const KEEP: usize = 4;

type Counts = [u64; WRITERS];

fn slot_key(writer: usize, number: u64) -> String {
    format!("w{writer}/{:04}", number * 7 % SLOTS)
}

/// The number of a write, and each thread's number of writes that had been acknowledged before.
fn value(number: u64, before: &Counts) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    for count in before {
        value.extend_from_slice(&count.to_le_bytes());
    }
    value.resize(value.len() + (number % 90) as usize, number as u8);
    value
}

fn parse(bytes: &[u8]) -> (u64, Counts) {
    let number =
        |at: usize| u64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().expect("eight bytes"));
    let before = std::array::from_fn(|writer| number(writer + 1));
    assert!(bytes == value(number(0), &before), "a value is damaged");
    (number(0), before)
}

/// Checks that a database holds a state that was; returns its number of writes of each thread.
fn check(db: &Db, place: &str) -> Counts {
    let mut counts = [0; WRITERS];
    let mut known = [[0; WRITERS]; WRITERS];
    for writer in 0..WRITERS {
        let mut found: Vec<(u64, Counts)> = Vec::new();
        for item in db.prefix(format!("w{writer}/")) {
            found.push(parse(&item.expect("reads").1));
        }
        found.sort_unstable();
        let last = db.get(format!("last/{writer}")).expect("reads");
        let Some((last, _)) = last.map(|value| parse(&value)) else {
            assert!(found.is_empty(), "{place}: half a batch of {writer}");
            continue;
        };
        let numbers: Vec<u64> = found.iter().map(|(number, _)| *number).collect();
        let expected: Vec<u64> = ((last + 1).saturating_sub(SLOTS)..=last).collect();
        assert_eq!(numbers, expected, "{place}: writer {writer}");
        counts[writer] = last + 1;
        known[writer] = found.last().expect("not empty").1;
    }
    for (writer, known) in known.iter().enumerate() {
        for other in 0..WRITERS {
            assert!(
                counts[other] >= known[other],
                "{place}: the last write of {writer} began after {} of {other}, which has {}",
                known[other],
                counts[other]
            );
        }
    }
    counts
}

fn write_forever(db: &Db, writer: usize, done: &[AtomicU64; WRITERS]) -> evendb::Result<()> {
    for number in done[writer].load(Ordering::SeqCst).. {
        let before = std::array::from_fn(|other| done[other].load(Ordering::SeqCst));
        let value = value(number, &before);
        let mut batch = db.batch();
        batch.put(db.default_keyspace(), slot_key(writer, number), &value);
        batch.put(db.default_keyspace(), format!("last/{writer}"), &value);
        batch.commit()?;
        done[writer].store(number + 1, Ordering::SeqCst);
    }
    Ok(())
}

/// Not a test of its own: the process that is killed.
#[test]
fn child_process() {
    let Ok(dir) = std::env::var(DIR_VARIABLE) else {
        return;
    };
    let dir = Path::new(&dir);
    let say = |line: &str| drop(writeln!(std::io::stdout().lock(), "\n{line}"));
    let own = u64::from(std::process::id());
    let db = perhaps_apart(tiny(Durability::Process, 1), own).open(dir.join("db"));
    let db = db.expect("opens");
    let counts = check(&db, "opened");
    say("open");
    let done = counts.map(AtomicU64::new);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, done) = (&db, &done);
            scope.spawn(move || write_forever(db, writer, done).expect("writes"));
        }
        let backups = Backups::at(dir.join("backups"));
        loop {
            let before: Counts = std::array::from_fn(|own| done[own].load(Ordering::SeqCst));
            let made = db.backup(dir.join("backups")).expect("backs up");
            let [a, b, c] = before;
            say(&format!("backup {} {a} {b} {c}", made.number));
            backups.prune(KEEP).expect("prunes");
        }
    });
}

/// Starts the process and kills it some time after it has made `wanted` backups; returns the last
/// backup that it reported.
fn run_and_kill(dir: &Path, wanted: u64, pause: Duration) -> Option<(u64, Counts)> {
    let mut child = Command::new(std::env::current_exe().expect("the test binary"))
        .args(["child_process", "--exact", "--nocapture"])
        .env(DIR_VARIABLE, dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let (mut last, mut told) = (None, 0);
    for line in output.lines() {
        let Ok(line) = line else { break };
        let mut words = line.split(' ');
        let numbers = |words: std::str::Split<'_, char>| -> Vec<u64> {
            words.filter_map(|word| word.parse().ok()).collect()
        };
        match words.next() {
            Some("open") => {}
            Some("backup") => {
                // A line that the kill has cut does not count.
                if let [number, counts @ ..] = &numbers(words)[..]
                    && let Ok(counts) = Counts::try_from(counts)
                {
                    last = Some((*number, counts));
                }
            }
            _ => continue,
        }
        if told == wanted {
            std::thread::sleep(pause);
            child.kill().expect("it runs");
        }
        told += 1;
    }
    child.wait().expect("it was started");
    assert!(told > wanted, "it ended by itself");
    last
}

#[test]
fn a_backup_after_a_kill_is_a_state_that_was() {
    if std::env::var(DIR_VARIABLE).is_ok() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let backups = Backups::at(dir.path().join("backups"));
    let mut restored = 0;
    for kill in 0..count_from_env("EVENDB_BACKUP_KILLS", 6) {
        let number = scramble(kill);
        let pause = Duration::from_micros(number / 10 % 60_000);
        let last = run_and_kill(dir.path(), number % 6, pause);
        let place = format!("kill {kill}");
        let Ok(listed) = backups.list() else {
            assert!(last.is_none(), "{place}: no backups");
            continue;
        };
        if let Some((number, _)) = last {
            let newest = listed.last().map(|info| info.number);
            assert!(newest >= Some(number), "{place}: {newest:?}, not {number}");
        }
        for info in listed {
            let place = format!("{place}, backup {}", info.number);
            assert_eq!(info.damage, None, "{place}");
            let verified = backups.verify(Some(info.number));
            verified.unwrap_or_else(|error| panic!("{place}: {error}"));
            let into = dir.path().join("restored");
            let made = backups.restore(Some(info.number), &into);
            made.unwrap_or_else(|error| panic!("{place}: {error}"));
            let db = tiny(Durability::Process, 0).open(&into).expect("opens");
            let counts = check(&db, &place);
            if let Some((number, told)) = last
                && number == info.number
            {
                let enough = counts.iter().zip(told).all(|(own, told)| *own >= told);
                assert!(enough, "{place}: {counts:?}, not {told:?}");
            }
            db.close().expect("closes");
            std::fs::remove_dir_all(&into).expect("removes");
            restored += 1;
        }
    }
    println!("{restored} backups restored, 0 wrong");
    assert!(restored > 0);
}
