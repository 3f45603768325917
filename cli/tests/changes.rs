//! `evendb changes`: what it prints, where it goes on, and what it does beside a process that has
//! the database open.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use common::{Place, evendb};
use evendb::Options;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

fn lines(out: &[u8]) -> Vec<Vec<String>> {
    let text = String::from_utf8(out.to_vec()).unwrap();
    let columns = |line: &str| line.split('\t').map(str::to_owned).collect();
    text.lines().map(columns).collect()
}

#[test]
fn changes_are_printed_in_order_and_gone_on_from() {
    let place = Place::new();
    place.run("put", &["a", "1"]).expect_code(0);
    place.run("put", &["b\tb", "2"]).expect_code(0);
    place.run("delete", &["a"]).expect_code(0);
    let all = place.run("changes", &[]);
    all.expect_code(0);
    let all = lines(&all.out);
    let what: Vec<_> = all.iter().map(|line| line[1..].join("|")).collect();
    assert_eq!(
        what,
        ["default|put|a|1", "default|put|b\\tb|2", "default|delete|a"]
    );
    let rest = place.run("changes", &["--since", &all[0][0], "--output", "json"]);
    rest.expect_code(0);
    let text = String::from_utf8(rest.out).unwrap();
    let objects: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(objects.len(), 2);
    assert_eq!(objects[0]["position"], all[1][0].as_str());
    let first = &objects[0]["writes"][0];
    assert_eq!(
        (&first["key"], &first["value"]),
        (&"b\tb".into(), &"2".into())
    );
    assert_eq!(objects[1]["writes"][0]["deleted"], true);
    let end = place.run("changes", &["--position"]);
    end.expect_code(0);
    let end = String::from_utf8(end.out).unwrap();
    place.run("changes", &["--since", end.trim()]).expect(0, "");
    place.run("put", &["c", "3"]).expect_code(0);
    let new = lines(&place.run("changes", &["--since", end.trim()]).out);
    assert_eq!(new.len(), 1);
    assert_eq!(new[0][3], "c");
    place
        .run("changes", &["--keyspace", "none"])
        .complains(1, "no keyspace");
}

#[test]
fn positions_of_nowhere_are_failures() {
    let place = Place::new();
    place
        .run("changes", &[])
        .complains(1, "there is no database");
    place.run("put", &["a", "1"]).expect_code(0);
    place
        .run("changes", &["--since", "00"])
        .complains(2, "position");
    let other = Place::new();
    other.run("put", &["a", "1"]).expect_code(0);
    let elsewhere = other.run("changes", &["--position"]).out;
    let elsewhere = String::from_utf8(elsewhere).unwrap();
    let refused = place.run("changes", &["--since", elsewhere.trim()]);
    refused.complains(1, "another database");
}

#[test]
fn an_open_database_is_locked() {
    let place = Place::new();
    let db = Options::new().open(place.path("db")).unwrap();
    place.run("changes", &[]).complains(1, "has it open");
    db.close().unwrap();
    place.run("changes", &[]).expect(0, "");
}

/// While a process has the database open nothing can be printed. Afterwards everything that it
/// wrote is printed.
#[cfg(unix)]
#[test]
fn following_prints_what_others_wrote() {
    let place = Place::new();
    place.run("put", &["first", "1"]).expect_code(0);
    let mut child = evendb()
        .arg("changes")
        .arg(place.path("db"))
        .arg("--follow")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut next = || {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        line.trim_end().split('\t').nth(3).unwrap().to_owned()
    };
    assert_eq!(next(), "first");
    // The command has the database open for a moment at times.
    let open = || loop {
        match Options::new().open(place.path("db")) {
            Ok(db) => break db,
            Err(error) => assert_eq!(error.kind(), evendb::ErrorKind::Locked),
        }
    };
    let db = open();
    db.put("second", "2").unwrap();
    db.put("third", "3").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    db.close().unwrap();
    assert_eq!(next(), "second");
    assert_eq!(next(), "third");
    let db = open();
    db.put("fourth", "4").unwrap();
    drop(db);
    assert_eq!(next(), "fourth");
    let kill = format!("kill -INT {}", child.id());
    assert!(
        Command::new("sh")
            .arg("-c")
            .arg(kill)
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut error = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut error)
        .unwrap();
    assert!(error.contains("--since"), "{error}");
}

/// It has no commit log before somebody writes to it, at any level.
#[cfg(unix)]
#[test]
fn a_restored_database_has_no_changes_yet_and_is_followed() {
    let place = Place::new();
    place.run("put", &["a", "1"]).expect(0, "");
    place.run("backup", &["backups"]).expect_code(0);
    place.run("put", &["b", "2"]).expect(0, "");
    let position = place.run("changes", &["--position"]).text(0);
    std::fs::rename(place.path("db"), place.path("old")).unwrap();
    let mut restore = evendb();
    restore.arg("restore").arg(place.path("backups"));
    assert!(restore.arg(place.path("db")).status().unwrap().success());
    for arguments in [&[][..], &["--since", position.trim()], &["--position"]] {
        place
            .run("changes", arguments)
            .complains(1, "this database has none yet: it was restored or copied");
    }
    let mut child = evendb()
        .arg("changes")
        .arg(place.path("db"))
        .arg("--follow")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = String::new();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    errors.read_line(&mut told).unwrap();
    assert!(
        told.contains("waiting: the database has no commit log yet"),
        "{told}"
    );
    // The follower has it open for a moment.
    while place.run("put", &["c", "3"]).code != Some(0) {}
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert!(line.ends_with("\tdefault\tput\tc\t3\n"), "{line}");
    child.kill().unwrap();
    child.wait().unwrap();
    place
        .run("changes", &["--since", position.trim()])
        .complains(1, "as that of one restored from a backup");
}
