//! `evendb stats` beside an owner that is alive, dead or done, and `evendb compact`.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

use evendb::{Db, LiveStats, Options};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn evendb(arguments: &[&str], db: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evendb"));
    let (first, rest) = arguments.split_first().unwrap();
    command.arg(first).arg(db).args(rest).output().unwrap()
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn open(dir: &Path) -> Db {
    let options = Options::new()
        .memory_budget(4 << 20)
        .stats_interval(Duration::from_millis(5));
    let db = options.open(dir).unwrap();
    while LiveStats::read(dir).unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    db
}

#[test]
fn watching_a_database_at_work() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0_u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                db.put(number.to_string(), "value").unwrap();
                db.get(number.to_string()).unwrap();
            }
        });
        // A thread that gets no processor puts nothing in such a short time.
        let watched = (0..200).find_map(|_| {
            let json = evendb(
                &["stats", "--watch", "0.05", "--count", "3", "--json"],
                dir.path(),
            );
            let lines: Vec<Value> = out(&json)
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            let puts = |line: &Value| line["per_second"]["puts"].as_f64().unwrap() > 0.0;
            lines.iter().all(puts).then_some(lines)
        });
        let text = evendb(&["stats", "--watch", "0.05", "--count", "2"], dir.path());
        let once = evendb(&["stats", "--json"], dir.path());
        stop.store(true, Ordering::Relaxed);
        let lines = watched.expect("puts are seen");
        assert_eq!(lines.len(), 3);
        for line in &lines {
            assert_eq!(line["process_id"], std::process::id());
            assert!(line["seconds"].as_f64().unwrap() > 0.0);
            assert_eq!(line["figures"]["memory.budget"], 4 << 20);
        }
        let puts = |line: &Value| line["figures"]["puts"].as_u64().unwrap();
        assert!(puts(&lines[0]) < puts(&lines[2]));
        let text = out(&text);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(
            text.contains("puts/s") && text.contains("pause ms"),
            "{text}"
        );
        // Once, for a database that cannot be opened: the figures that its owner wrote.
        let once: Value = serde_json::from_str(&out(&once)).unwrap();
        assert!(once["puts"].as_u64().unwrap() > 0);
    });
    let mut watcher = Command::new(env!("CARGO_BIN_EXE_evendb"));
    watcher
        .arg("stats")
        .arg(dir.path())
        .args(["--watch", "0.02"]);
    watcher.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watcher = watcher.spawn().unwrap();
    let mut lines = BufReader::new(watcher.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("puts/s"));
    lines.next().unwrap().unwrap();
    db.close().unwrap();
    lines.for_each(drop);
    let ended = watcher.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{ended:?}");
    assert!(told.contains("closed"), "{told}");
}

#[test]
fn nobody_to_watch() {
    let dir = tempfile::tempdir().unwrap();
    let watched = evendb(&["stats", "--watch"], dir.path());
    assert!(complaint(&watched).contains("no database in"));
    open(dir.path()).close().unwrap();
    let watched = evendb(&["stats", "--watch"], dir.path());
    assert!(complaint(&watched).contains("no process has the database open"));
    // An owner that waits for more input, and is killed.
    let mut owner = Command::new(env!("CARGO_BIN_EXE_evendb"));
    owner
        .arg("import")
        .arg(dir.path())
        .args(["-", "--format", "tsv"]);
    owner.stdin(Stdio::piped()).stderr(Stdio::null());
    let mut owner = owner.spawn().unwrap();
    let mut input = owner.stdin.take().unwrap();
    input.write_all(b"a\t1\n").unwrap();
    while LiveStats::read(dir.path()).unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    owner.kill().unwrap();
    owner.wait().unwrap();
    let file = dir.path().join("STATS");
    let file = std::fs::File::options().write(true).open(file).unwrap();
    let earlier = file.metadata().unwrap().modified().unwrap() - Duration::from_secs(60);
    file.set_modified(earlier).unwrap();
    let watched = evendb(&["stats", "--watch"], dir.path());
    let told = complaint(&watched);
    assert!(
        told.contains("stale") && told.contains(&owner.id().to_string()),
        "{told}"
    );
    // The database itself is well.
    assert!(out(&evendb(&["stats"], dir.path())).contains("keyspaces: default"));
    let usage = evendb(&["stats", "--watch", "soon"], dir.path());
    assert_eq!(usage.status.code(), Some(2));
}

#[test]
fn compacting() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options::new().memory_budget(4 << 20);
    let db = options().open(dir.path()).unwrap();
    let other = db.keyspace("other").unwrap();
    for round in 0..3_u8 {
        for number in 0..500 {
            db.put(format!("a{number}"), [round; 100]).unwrap();
            other.put(format!("b{number}"), [round; 100]).unwrap();
        }
        db.flush().unwrap();
    }
    db.close().unwrap();
    let compact = |arguments: &[&str]| -> Value {
        let arguments = [&["compact", "--json", "--memory", "4MiB"], arguments].concat();
        serde_json::from_str(&out(&evendb(&arguments, dir.path()))).unwrap()
    };
    let number = |done: &Value, name: &str| done[name].as_u64().unwrap();
    let one = compact(&["--keyspace", "other"]);
    assert!(number(&one, "bytes_after") < 500 * 130, "{one}");
    let all = compact(&[]);
    let (before, after) = (number(&all, "bytes_before"), number(&all, "bytes_after"));
    assert!(after <= before && after < 2 * 500 * 130, "{all}");
    let again = compact(&["--prefix", "a"]);
    assert_eq!(number(&again, "rewritten"), 0, "{again}");
    let told = out(&evendb(&["compact"], dir.path()));
    assert!(told.contains("MiB after"), "{told}");
    let missing = evendb(&["compact", "--keyspace", "none"], dir.path());
    assert!(complaint(&missing).contains("no keyspace"));
    let db = options().open(dir.path()).unwrap();
    assert_eq!(db.iter().count(), 500);
    assert_eq!(*db.get("a7").unwrap().unwrap(), [2; 100]);
}
