//! `evendb backup`, `backups`, `restore`, `export` and `ingest`.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use common::{Outcome, Place, evendb};
use std::fs;

fn run(place: &Place, arguments: &[&str]) -> Outcome {
    let mut command = evendb();
    command.args(arguments).current_dir(place.0.path());
    Outcome::of(command.output().unwrap())
}

#[test]
fn backups_are_made_listed_pruned_and_restored() {
    let place = Place::new();
    for value in ["1", "2", "3"] {
        place.run("put", &["a", value]).expect(0, "");
        run(&place, &["backup", "db", "backups"]).expect_code(0);
    }
    let listed = run(&place, &["backups", "backups", "--verify"]).text(0);
    let lines: Vec<Vec<&str>> = listed
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(lines.len(), 4, "{listed}");
    assert_eq!(lines[0], ["number", "time", "size", "new", "state"]);
    for (number, line) in lines.iter().enumerate().skip(1) {
        assert_eq!((line[0], line[4]), (&*number.to_string(), "whole"));
        // 2026-11-27T13:35:15Z
        let shape = line[1].replace(|letter: char| letter.is_ascii_digit(), "0");
        assert_eq!(shape, "0000-00-00T00:00:00Z");
    }
    // A backup that was not read now is not called whole.
    let unread = run(&place, &["backups", "backups"]).text(0);
    assert_eq!(unread.matches("\tnot read now\n").count(), 3, "{unread}");
    run(&place, &["backups", ".", "--verify"]).complains(1, "there is no backup in .");
    let json = run(&place, &["backups", "backups", "--json"]).text(0);
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(first["time"], lines[1][1]);
    assert!(first["seconds"].as_u64() > Some(1_700_000_000));
    run(&place, &["restore", "backups", "old", "--number", "2"]).expect(0, "");
    run(&place, &["restore", "backups", "new"]).expect(0, "");
    run(&place, &["get", "old", "a"]).expect(0, "2\n");
    run(&place, &["get", "new", "a"]).expect(0, "3\n");
    run(&place, &["restore", "backups", "new"]).complains(1, "not empty");
    run(&place, &["restore", "backups", "x", "--number", "9"]).complains(1, "no backup 9");
    let listed = run(&place, &["backups", "backups", "--keep", "1"]).text(0);
    assert!(listed.contains("\n3\t"), "{listed}");
    assert_eq!(listed.lines().count(), 2);
    let told = run(&place, &["backup", "db", "backups", "--keep", "1"]).text(0);
    assert!(told.ends_with("; 1 older backup removed\n"), "{told}");
    let manifest = place.path("backups/000004/MANIFEST-000001");
    let mut bytes = fs::read(&manifest).unwrap();
    bytes[40] ^= 1;
    fs::write(&manifest, bytes).unwrap();
    let listed = run(&place, &["backups", "backups", "--verify", "--json"]).text(5);
    assert!(listed.contains("MANIFEST-000001"), "{listed}");
    run(&place, &["restore", "backups", "y"])
        .complains(5, "MANIFEST-000001")
        .complains(
            5,
            "`evendb backups backups --verify` tells which backups are whole",
        );
    assert!(!place.path("y").exists());
}

#[test]
fn sorted_text_is_ingested_and_unsorted_text_is_not() {
    let place = Place::new();
    place.file("sorted.tsv", "a\t1\nb\t2\nc\t3\n");
    run(&place, &["ingest", "db", "sorted.tsv"]).expect(0, "");
    place.run("scan", &[]).expect(0, "a\t1\nb\t2\nc\t3\n");
    place.file("unsorted.tsv", "d\t1\nf\t2\ne\t3\n");
    run(&place, &["ingest", "db", "unsorted.tsv"]).complains(1, "line 3: the key \"e\"");
    place.file("bad.jsonl", "{\"k\":\"d\"}\nno JSON\n");
    let lines = ["--format", "jsonl", "--key-columns", "k"];
    let bad = run(
        &place,
        &[&["ingest", "db", "bad.jsonl"][..], &lines[..]].concat(),
    );
    bad.complains(1, "nothing was ingested");
    place.run("scan", &["--keys-only"]).expect(0, "a\nb\nc\n");
    run(&place, &["export", "db", "files"]).expect(0, "");
    run(&place, &["export", "db", "files"]).complains(1, "not empty");
    run(&place, &["ingest", "other", "files", "--keyspace", "k"]).expect(0, "");
    let scanned = run(&place, &["scan", "other", "--keyspace", "k"]);
    scanned.expect(0, "a\t1\nb\t2\nc\t3\n");
}
