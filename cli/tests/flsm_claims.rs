//! `evendb experiment flsm-claims` as a user runs it: measured once, continued, and with mistakes.

use std::path::Path;
use std::process::{Command, Output};

fn run(out: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evendb"))
        .args(["experiment", "flsm-claims", "--no-memory-limit", "--out"])
        .arg(out)
        .args(["--scale", "1/1024", "--seconds", "0.05"])
        .args(["--stores", "evendb,guards-1"])
        .args(more)
        .output()
        .expect("the command starts")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn cells(out: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(out.join("results.jsonl")).expect("there are results");
    let whole = |line: &&str| line.starts_with("{\"kind\":\"cell\"") && line.ends_with('}');
    text.lines().filter(whole).map(str::to_owned).collect()
}

#[test]
fn a_claim_that_was_interrupted_is_measured_again_and_no_other() {
    let place = tempfile::tempdir().expect("a directory");
    let out = place.path().join("results");
    let listed = run(&out, &["--list"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(text.contains("cached: 15,625 pairs, 64.00 MiB"), "{text}");
    assert!(!out.exists(), "a list makes nothing");

    let first = run(&out, &["--claims", "cached"]);
    assert!(first.status.success(), "{}", told(&first));
    assert_eq!(cells(&out).len(), 6, "three phases of two stores");
    let report = out.join("report.md");
    let text = std::fs::read_to_string(&report).expect("there is a report");
    assert!(text.contains("| guards-1 | ") && text.contains("| evendb | "));
    assert!(!out.join("data").exists(), "the stores are removed");

    // The last line is cut off: its store is measured again from the fill on, the other one is not.
    let path = out.join("results.jsonl");
    let text = std::fs::read_to_string(&path).expect("there are results");
    let cut = text.rfind("{\"kind\":\"cell\"").expect("a cell") + 100;
    std::fs::write(&path, &text[..cut]).expect("it can be written");
    let again = run(&out, &["--claims", "cached"]);
    assert!(again.status.success(), "{}", told(&again));
    assert!(told(&again).contains("1 of 2 steps were finished before"));
    assert_eq!(cells(&out).len(), 5 + 3);
    let last = run(&out, &["--claims", "cached"]);
    assert!(told(&last).contains("2 of 2 steps were finished before"));
    assert_eq!(cells(&out).len(), 5 + 3);
}

#[test]
fn mistakes_are_told() {
    let place = tempfile::tempdir().expect("a directory");
    let out = place.path().join("results");
    for (arguments, expected) in [
        (&["--claims", "none"], "no claim `none`; there are "),
        (
            &["--durability", "often"],
            "possible values: relaxed, process, sync",
        ),
    ] {
        let output = run(&out, arguments);
        let told = told(&output);
        assert!(
            !output.status.success() && told.contains(expected),
            "{told}"
        );
        assert!(!out.exists(), "nothing was begun");
    }
    std::fs::create_dir(&out).expect("a directory");
    let other = "{\"kind\":\"run\",\"settings\":{}}\n";
    std::fs::write(out.join("results.jsonl"), other).expect("it can be written");
    let output = run(&out, &[]);
    let told = told(&output);
    assert!(told.contains("holds results with other settings"), "{told}");
}

#[test]
fn stores_get_the_write_buffer_that_is_asked_for_or_are_left_out() {
    let place = tempfile::tempdir().expect("a directory");
    let out = place.path().join("results");
    let given = ["--claims", "cached", "--write-buffer-kib", "64"];
    let run = run(&out, &given);
    assert!(!run.status.success(), "evendb has no write buffer");
    assert!(
        told(&run).contains("evendb has no option"),
        "{}",
        told(&run)
    );
    let cells = cells(&out);
    let named = |cell: &&String| cell.contains("guards-1 (write buffer 64.00 KiB)");
    assert_eq!(cells.iter().filter(named).count(), 3, "{cells:?}");
    assert_eq!(cells.len(), 3);
}
