//! `evendb fork`.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use common::{Outcome, Place, evendb};
use std::os::unix::fs::MetadataExt;

fn run(place: &Place, arguments: &[&str]) -> Outcome {
    let mut command = evendb();
    command.args(arguments).current_dir(place.0.path());
    Outcome::of(command.output().unwrap())
}

/// A database whose records are in a table of its own file: they were written twice, in no order.
fn filled() -> Place {
    let place = Place::new();
    for letter in ["v", "w"] {
        let line = |number: u32| format!("{:04}\t{}\n", number * 7 % 500, letter.repeat(200));
        place.file("lines.tsv", (0..500).map(line).collect::<String>());
        run(&place, &["import", "db", "lines.tsv"]).expect_code(0);
    }
    run(&place, &["compact", "db"]).expect_code(0);
    place
}

#[test]
fn a_fork_is_made_and_goes_its_own_way() {
    let place = filled();
    let told = run(&place, &["fork", "db", "trial", "--json"]).text(0);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert!(told["files_linked"].as_u64() > Some(0), "{told}");
    assert_eq!(told["tables_copied"], 0);
    run(&place, &["put", "trial", "0001", "changed"]).expect(0, "");
    run(&place, &["get", "trial", "0001"]).expect(0, "changed\n");
    let kept = format!("{}\n", "w".repeat(200));
    run(&place, &["get", "db", "0001"]).expect(0, &kept);
    run(&place, &["get", "trial", "0499"]).expect(0, &kept);
    for db in ["db", "trial"] {
        run(&place, &["verify", db]).expect_code(0);
    }
    let told = run(&place, &["fork", "trial", "second"]).text(0);
    assert!(told.starts_with("forked: "), "{told}");
    run(&place, &["fork", "db", "trial"]).complains(1, "not empty");
    run(&place, &["fork", "db", "db/inside"]).complains(2, "inside");
    run(&place, &["fork", "nothing", "x"]).complains(1, "nothing");
    run(&place, &["fork", "db", "x", "--keyspace", "default"]).complains(2, "all keyspaces");
}

/// Elsewhere nothing is copied that was not asked for.
#[test]
fn a_fork_on_another_file_system_is_refused_or_copied() {
    let place = filled();
    let device = |path: &std::path::Path| std::fs::metadata(path).map(|meta| meta.dev()).ok();
    let own = device(place.0.path());
    let other = tempfile::tempdir_in("/dev/shm").ok();
    let Some(other) = other.filter(|other| device(other.path()) != own) else {
        println!("skipped: there is no other file system at /dev/shm");
        return;
    };
    let target = other.path().join("trial");
    let target = target.to_str().unwrap();
    run(&place, &["fork", "db", target]).complains(1, "evendb fork --copy");
    run(&place, &["fork", "db", target, "--copy"]).expect_code(0);
    let kept = format!("{}\n", "w".repeat(200));
    run(&place, &["get", target, "0001"]).expect(0, &kept);
}
