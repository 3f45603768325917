//! `evendb trace` and `evendb replay`, of what `evendb bench` records.

use crate::common::{Outcome, Place, evendb};
use std::fs;
use std::path::Path;

fn run(arguments: &[&str]) -> Outcome {
    Outcome::of(evendb().args(arguments).output().unwrap())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn recorded(place: &Place, more: &[&str]) -> std::path::PathBuf {
    let (trace, bench) = (place.path("trace"), place.path("bench"));
    let arguments = [
        "bench",
        "--dir",
        text(&bench),
        "--size",
        "100KiB",
        "--value-bytes",
        "100",
        "--ops",
        "500",
        "--mixes",
        "P,A,E10",
        "--distributions",
        "uniform",
        "--threads",
        "1",
        "--trace",
        text(&trace),
    ];
    let done = run(&[&arguments, more].concat());
    assert_eq!(done.code, Some(0), "{}", done.error);
    assert!(done.error.contains("trace: "), "{}", done.error);
    trace
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_bench_is_recorded_shown_and_replayed() {
    let place = Place::new();
    let trace = recorded(&place, &[]);
    let info = run(&["trace", "info", text(&trace), "--json"]);
    assert_eq!(info.code, Some(0), "{}", info.error);
    let info: serde_json::Value = serde_json::from_slice(&info.out).unwrap();
    assert_eq!(info["is_whole"], true);
    let operations = info["operations"].as_u64().unwrap();
    assert!(operations > 2000, "{info}");
    let table = run(&["trace", "info", text(&trace)]);
    let table = String::from_utf8_lossy(&table.out).into_owned();
    assert!(
        table.contains("default") && table.contains("scan"),
        "{table}"
    );
    let print = run(&["trace", "print", text(&trace), "--limit", "3"]);
    assert_eq!(String::from_utf8_lossy(&print.out).lines().count(), 3);
    for threads in ["1", "3"] {
        let result = place.path(&format!("result {threads}"));
        let replay = run(&[
            "replay",
            text(&trace),
            "--threads",
            threads,
            "--json",
            text(&result),
        ]);
        assert_eq!(replay.code, Some(0), "{}", replay.error);
        let result = json(&result);
        assert!(result["compared"].as_u64().unwrap() > 200, "{result}");
        let differences = result["differences"].as_object().unwrap();
        assert!(differences.values().all(|count| *count == 0), "{result}");
    }
}

#[test]
fn traces_are_converted_there_and_back() {
    let place = Place::new();
    let trace = recorded(&place, &["--trace-one-key-in", "3"]);
    let (form, back) = (place.path("form.txt"), place.path("back"));
    let to = run(&[
        "trace",
        "convert",
        text(&trace),
        text(&form),
        "--to-format",
        "rocksdb-text",
    ]);
    assert_eq!(to.code, Some(0), "{}", to.error);
    let lines = fs::read_to_string(&form).unwrap().lines().count();
    assert!(lines > 300, "{lines}");
    let from = run(&["trace", "convert", text(&form), text(&back)]);
    assert_eq!(from.code, Some(0), "{}", from.error);
    let info = run(&["trace", "info", text(&back), "--json"]);
    let info: serde_json::Value = serde_json::from_slice(&info.out).unwrap();
    assert_eq!(info["operations"], lines as u64);
    let again = run(&["trace", "convert", text(&form), text(&back)]);
    assert_eq!(again.code, Some(1), "it is there");
    let bad = place.path("bad.csv");
    fs::write(&bad, "0,k,1,2,3,get,0\nnonsense\n").unwrap();
    let unknown = run(&["trace", "convert", text(&bad), text(&place.path("x"))]);
    assert_eq!(unknown.code, Some(2), "{}", unknown.error);
    let other = place.path("x");
    let told = [
        "trace",
        "convert",
        text(&bad),
        text(&other),
        "--from-format",
        "twitter",
    ];
    assert_eq!(run(&told).code, Some(3));
}

#[test]
fn a_damaged_trace_is_told() {
    let place = Place::new();
    let trace = recorded(&place, &[]);
    let mut bytes = fs::read(&trace).unwrap();
    bytes.truncate(bytes.len() - 10);
    fs::write(&trace, &bytes).unwrap();
    let info = run(&["trace", "info", text(&trace)]);
    assert_eq!(info.code, Some(5));
    assert!(info.error.contains("not whole"), "{}", info.error);
    let replay = run(&["replay", text(&trace)]);
    assert_eq!(replay.code, Some(0), "{}", replay.error);
    assert!(String::from_utf8_lossy(&replay.out).contains("not whole"));
    let other = run(&["replay", text(&place.path("bench/CURRENT"))]);
    assert_eq!(other.code, Some(1), "{}", other.error);
    assert!(
        other.error.contains("no trace of EvenDB"),
        "{}",
        other.error
    );
}

#[test]
fn the_analysis_is_another_program_that_is_found_or_told_of() {
    let place = Place::new();
    let alone = place.path("evendb");
    fs::copy(env!("CARGO_BIN_EXE_evendb"), &alone).unwrap();
    let run = || {
        let mut command = std::process::Command::new(&alone);
        command.args(["analyze", "app.trace", "--memory-mib", "512", "--help"]);
        Outcome::of(command.env("PATH", "").output().unwrap())
    };
    run().complains(
        1,
        "cargo build --release --locked --manifest-path crates/analyze/Cargo.toml",
    );
    let program = place.file("evendb-analyze", "#!/bin/sh\necho \"$@\"\nexit 7\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(program, mode).unwrap();
    run().expect(7, "app.trace --memory-mib 512 --help\n");
}

#[test]
fn no_model_is_made_of_what_is_no_analysis() {
    let place = Place::new();
    run(&["model", text(&place.path("none"))]).complains(1, "cannot read");
    let no_json = place.file("no.json", "{");
    run(&["model", text(&no_json)]).complains(1, "no.json: EOF");
    let empty = r#"{"format": 1, "title": "empty", "facts": [], "figures": []}"#;
    let folder = place.path("folder");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("analysis.json"), empty).unwrap();
    run(&["model", text(&folder)]).complains(1, "the analysis has no figure \"composition\"");
}
