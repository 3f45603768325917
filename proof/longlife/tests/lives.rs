//! A few long lives. The campaign is the command itself: `cargo run --release -p evendb-longlife --
//! --hours 24`.
//!
//! The command runs in a process of its own, so that its memory and threads are not mixed up with
//! those of tests. If it may not mount, it leaves full disks out, and says `SKIPPED`.
//! `EVENDB_LIVES` sets the number of lives (default 16).

#[path = "../../../store/storage/tests/knobs/mod.rs"]
mod knobs;
#[path = "../../../store/evendb/tests/common/patience.rs"]
mod patience;
#[path = "../../../store/evendb/tests/common/skipped.rs"]
mod skipped;

use knobs::count_from_env;
use patience::{text, told};
use std::process::{Command, Output};
use std::time::Duration;

/// Longer than any run takes: a run that hangs ends as a failure.
const PATIENCE: Duration = Duration::from_secs(1800);

fn long_life(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_long-life"));
    let command = command.args(["--calls", "250", "--kilobytes", "1500"]);
    // The allocator gets few arenas, since each keeps holes. With more arenas it takes more lives
    // than these until all of them have their full size.
    let command = command.args(arguments).env("MALLOC_ARENA_MAX", "2");
    patience::run(command, PATIENCE, "long lives")
}

#[test]
fn lives_end_well_and_leave_all_flat() {
    let lives = count_from_env("EVENDB_LIVES", 16).to_string();
    let output = long_life(&["--lives", &lives]);
    println!("{}", told(&output));
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    for name in ["put ", "scan backward ", "snapshot ", "read together "] {
        assert!(text(&output.stdout).contains(name), "no {name}");
    }
}

#[test]
fn what_leaks_is_found() {
    for (plant, finding) in [
        ("memory", "resident bytes with nothing open"),
        ("descriptor", "with nothing open"),
        ("thread", "with nothing open"),
        ("disk", "bytes of the directory"),
    ] {
        let output = long_life(&["--lives", "8", "--plant", plant]);
        assert_eq!(output.status.code(), Some(1), "{plant}: {}", told(&output));
        let found = format!("NOT FLAT: {finding}");
        assert!(
            text(&output.stdout).contains(&found),
            "{plant}: {}",
            told(&output)
        );
    }
}

#[test]
fn a_write_that_is_lost_is_found() {
    let output = long_life(&["--lives", "1", "--plant", "write"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let found = "FAULT --seed 1 --first-life 0 --lives 1: opening 0 (";
    assert!(text(&output.stdout).contains(found), "{}", told(&output));
}

#[test]
fn a_life_that_does_not_end_is_found() {
    let arguments = ["--lives", "1", "--plant", "hang"];
    let output = long_life(&[&arguments[..], &["--patience", "90"]].concat());
    assert!(!output.status.success(), "{}", told(&output));
    let found = "FAULT --seed 1 --first-life 0 --lives 1: it has not ended after 90s";
    assert!(text(&output.stdout).contains(found), "{}", told(&output));
}
