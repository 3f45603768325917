//! Power cuts of real file systems, a few of each kind. The rig loses what it should lose, and a
//! store that does not sync is found out. The full campaign is the command itself: `cargo run
//! --release -p evendb-powercut --bin power-cut`.
//!
//! Needs root and loop devices. Without them, and for each file system that cannot be made here, it
//! says `SKIPPED`. `EVENDB_POWER_CUTS` sets the number of cuts (default 20).

#[path = "../../../store/storage/tests/knobs/mod.rs"]
mod knobs;
#[path = "../../../store/evendb/tests/common/patience.rs"]
mod patience;
#[path = "../../../store/evendb/tests/common/skipped.rs"]
mod skipped;

use evendb_powercut::device::Way;
use evendb_powercut::filesystem::FileSystem;
use evendb_powercut::missing;
use knobs::count_from_env;
use patience::{text, told};
use skipped::skipped;
use std::process::{Command, Output};
use std::time::Duration;

/// Longer than any run takes: a run that hangs in the kernel ends as a failure.
const PATIENCE: Duration = Duration::from_secs(1200);

/// Runs the command, if this machine can, and prints what it cannot.
fn power_cut(arguments: &[&str]) -> Option<Output> {
    if let Some(why) = missing(Way::Shutdown) {
        skipped("power cuts", why);
        return None;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_power-cut"));
    let command = command.args(arguments);
    Some(patience::run(command, PATIENCE, "power cuts"))
}

#[test]
fn nothing_promised_is_lost_when_power_is_cut() {
    let cuts = count_from_env("EVENDB_POWER_CUTS", 20).to_string();
    let Some(output) = power_cut(&["--cuts", &cuts]) else {
        return;
    };
    println!("{}", told(&output));
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
}

#[test]
fn the_rig_loses_what_was_not_synced_and_nothing_else() {
    let Some(output) = power_cut(&["--probe"]) else {
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
}

#[test]
fn a_store_that_does_not_sync_is_found_out() {
    for way in ["shutdown", "disk"] {
        let mut arguments = vec!["--levels", "lie", "--ways", way];
        arguments.extend(["--file-systems", "ext4", "--cuts", "8"]);
        let Some(output) = power_cut(&arguments) else {
            return;
        };
        let no_disk = way == "disk" && missing(Way::Disk).is_some();
        if no_disk || FileSystem::Ext4.missing().is_some() {
            continue;
        }
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        assert!(text(&output.stderr).contains("Lost: "), "{}", told(&output));
    }
}
