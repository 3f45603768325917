//! A damaged byte in the live commit log, from the outside: the command refuses such a database
//! with its exit code for corruption, goes on refusing it, and offers ways on that work.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use evendb::{Durability, Options};

const DIR_VARIABLE: &str = "EVENDB_DAMAGE_DIR";
const RECORDS: usize = 500;
const DAMAGED: usize = 250;

fn key(number: usize) -> String {
    format!("key{number:04}")
}

fn value(number: usize) -> String {
    format!("the value of {number}, told from others")
}

/// Not a test by itself: the process that writes, says so, and waits until it is killed.
#[test]
fn child_process() {
    let Ok(dir) = std::env::var(DIR_VARIABLE) else {
        return;
    };
    let options = Options::new().memory_budget(64 << 20).workers(0);
    let db = options.durability(Durability::Sync).open(dir).unwrap();
    for number in 0..RECORDS {
        db.put(key(number), value(number)).unwrap();
    }
    println!("\nwritten");
    std::io::stdin().lines().for_each(drop);
}

fn write_and_kill(dir: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child_process", "--exact", "--nocapture"])
        .env(DIR_VARIABLE, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = output.lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "written"));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Changes a byte of the value in the log's record of this number.
fn damage(dir: &Path, number: usize) {
    let path = dir.join("COMMIT-LOG");
    let mut bytes = fs::read(&path).unwrap();
    let wanted = value(number).into_bytes();
    let mut places = bytes.windows(wanted.len());
    let at = places.position(|window| window == wanted).unwrap();
    bytes[at + 5] ^= 1;
    fs::write(&path, bytes).unwrap();
}

#[track_caller]
fn run(code: i32, arguments: &[&str], dir: &Path) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evendb"));
    command.args(arguments).current_dir(dir);
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let out = String::from_utf8(stdout).unwrap();
    let error = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(code), "{arguments:?}: {out}{error}");
    (out, error)
}

#[test]
fn a_damaged_byte_in_the_log_is_refused_until_somebody_decides() {
    let place = tempfile::tempdir().unwrap();
    let here = place.path();
    let db = here.join("db");
    write_and_kill(&db);
    damage(&db, DAMAGED);
    for _ in 0..2 {
        // Neither a look nor an attempt to open changes anything.
        let (out, _) = run(5, &["verify", "db"], here);
        assert!(out.contains("commit-log-hole"), "{out}");
        for command in [
            &["scan", "db"][..],
            &["get", "db", "key0001"],
            &["put", "db", "k", "v"],
        ] {
            let (out, error) = run(5, command, here);
            assert!(out.is_empty(), "{out}");
            assert!(error.contains("COMMIT-LOG at offset"), "{error}");
            assert!(error.contains("--into"), "{error}");
        }
    }
    // Everything except the damaged record is saved.
    let (out, _) = run(5, &["repair", "db", "--into", "saved"], here);
    assert!(out.contains("499 records saved"), "{out}");
    run(0, &["get", "saved", &key(RECORDS - 1)], here);
    run(4, &["get", "saved", &key(DAMAGED)], here);
    // Or the database goes on with the state before the damage, and says so.
    let (out, _) = run(5, &["repair", "db", "--accept-log-loss"], here);
    assert!(out.starts_with("249 records"), "{out}");
    let (out, _) = run(0, &["scan", "db"], here);
    assert_eq!(out.lines().count(), DAMAGED);
    let (out, _) = run(0, &["verify", "db"], here);
    assert!(out.contains("COMMIT-LOG.damaged-"), "{out}");
    let (out, _) = run(0, &["repair", "db", "--accept-log-loss"], here);
    assert!(out.starts_with("no record"), "{out}");
}
