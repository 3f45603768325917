//! `evendb trace` and `evendb replay`, on recordings of `evendb bench`.

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
    fs::write(&bad, "nonsense\nand more of it\n").unwrap();
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
    let print = run(&["trace", "print", text(&trace)]);
    assert_eq!(print.code, Some(5), "{}", print.error);
    let copy = place.path("copy");
    let convert = run(&["trace", "convert", text(&trace), text(&copy)]);
    assert_eq!(convert.code, Some(5), "{}", convert.error);
    assert!(convert.error.contains("not whole"), "{}", convert.error);
    let replay = run(&["replay", text(&trace)]);
    assert_eq!(replay.code, Some(5), "{}", replay.error);
    let first = String::from_utf8_lossy(&replay.out).into_owned();
    assert!(first.starts_with("the trace is not whole: "), "{first}");
    let other = run(&["replay", text(&place.path("bench/CURRENT"))]);
    assert_eq!(other.code, Some(1), "{}", other.error);
    assert!(
        other.error.contains("no trace of EvenDB"),
        "{}",
        other.error
    );
}

/// Damaged and absurd files, with every subcommand that reads them: each ends with an intended exit
/// code, and no panic.
#[test]
fn hostile_files_end_every_command_in_an_orderly_way() {
    let place = Place::new();
    let good = fs::read(recorded(&place, &[])).unwrap();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        bytes
    };
    let middle = good.len() / 2;
    let files = [
        ("empty", Vec::new()),
        ("header cut", good[..30].to_vec()),
        ("cut", good[..middle].to_vec()),
        ("flipped", with(&|bytes| bytes[middle] ^= 4)),
        ("length of the header", with(&|bytes| bytes[12..16].fill(0xff))),
        ("zeros", with(&|bytes| bytes[middle..].fill(0))),
        ("twice", with(&|bytes| bytes.extend_from_within(middle..))),
        ("a line", vec![b'x'; 5 << 20]),
        ("other lines", b"0x6B31 1 2 100 5000\n0x6B31 9 9 9 9\n0x6B31 0 0 18446744073709551615 18446744073709551615\n".to_vec()),
        ("a length", b"\0\0\0\0\0\0\0\0\x01\x11\0\0\0feedcafedeadbeef\tTrace Version: 0.2".to_vec()),
    ];
    for (name, bytes) in files {
        let file = place.file(name, bytes);
        let converted = place.path(&format!("{name}, converted"));
        let commands: [&[&str]; 5] = [
            &["trace", "info", text(&file)],
            &["trace", "print", text(&file)],
            &["trace", "convert", text(&file), text(&converted)],
            &["replay", text(&file), "--prepare", "--threads", "2"],
            &["replay", text(&file), "--speed", "1000000"],
        ];
        for command in commands {
            let done = run(command);
            let is_meant = matches!(done.code, Some(0..=5));
            assert!(
                is_meant && !done.error.contains("panicked"),
                "{name}, {command:?}: {:?} {}",
                done.code,
                done.error
            );
        }
    }
}

/// Times at the end of all numbers: nothing overflows, and operations that can be asked at once are
/// asked.
#[test]
fn absurd_times_and_lengths_are_read_and_replayed() {
    let place = Place::new();
    let max = u64::MAX;
    let lines = format!(
        "{max},k,1,{max},3,set,{max}\n0,k,1,{max},3,get,0\n{max},l,1,5,3,set,0\n{max},l,1,5,3,get,0\n"
    );
    let file = place.file("lines.csv", lines);
    let trace = place.path("trace");
    let convert = run(&["trace", "convert", text(&file), text(&trace)]);
    assert_eq!(convert.code, Some(0), "{}", convert.error);
    assert!(
        convert.error.contains("1 operations are earlier"),
        "{}",
        convert.error
    );
    for command in [["trace", "info"], ["trace", "print"]] {
        let done = run(&[&command[..], &[text(&trace)]].concat());
        assert_eq!(done.code, Some(0), "{}", done.error);
    }
    let replay = run(&["replay", text(&trace), "--prepare", "--speed", "1000"]);
    // One of four operations is left out.
    assert_eq!(replay.code, Some(3), "{}", replay.error);
    let said = String::from_utf8_lossy(&replay.out).into_owned();
    assert!(said.contains("64 MiB"), "what was left out: {said}");
}

#[test]
fn keys_are_hidden_by_hashes_or_in_order() {
    let place = Place::new();
    let lines = "0,user/ann,1,2,3,set,0\n1,user/bob,1,2,3,get,0\n2,user/ann,1,2,3,get,0\n";
    let file = place.file("lines.csv", lines);
    let secret = place.file(
        "secret",
        [b"00112233445566778899aabbccddeeff".as_slice(), b"\n"].concat(),
    );
    let keys = |name: &str, more: &[&str]| -> Vec<String> {
        let to = place.path(name);
        let done = run(&[&["trace", "convert", text(&file), text(&to)], more].concat());
        assert_eq!(done.code, Some(0), "{}", done.error);
        let print = run(&["trace", "print", text(&to)]);
        let print = String::from_utf8_lossy(&print.out).into_owned();
        let key = |line: &str| line.split('"').nth(1).unwrap().to_owned();
        assert!(
            !print.contains("ann") && !fs::read(&to).unwrap().windows(3).any(|it| it == b"ann")
        );
        print.lines().map(key).collect()
    };
    let of_secret = ["--hide-keys", "hashed", "--secret-file", text(&secret)];
    let hashed = [
        keys("1", &of_secret),
        keys("2", &of_secret),
        keys("3", &["--hide-keys", "hashed"]),
    ];
    assert!(hashed[0] == hashed[1] && hashed[0] != hashed[2]);
    assert!(hashed[0][0] == hashed[0][2] && hashed[0][0] != hashed[0][1]);
    let ordered = keys("4", &["--hide-keys", "ordered"]);
    assert!(
        ordered[0] == ordered[2] && ordered[0] < ordered[1],
        "{ordered:?}"
    );
    let to = place.path("5");
    for wrong in [
        &["--hide-keys", "ordered", "--secret-file", text(&secret)][..],
        &["--secret-file", text(&secret)],
    ] {
        let done = run(&[&["trace", "convert", text(&file), text(&to)], wrong].concat());
        assert_eq!(done.code, Some(2), "{}", done.error);
    }
    let done = run(&[
        "trace",
        "convert",
        text(&file),
        text(&to),
        "--hide-keys",
        "hashed",
        "--secret-file",
        text(&file),
    ]);
    assert!(
        done.code == Some(1) && done.error.contains("16 bytes"),
        "{}",
        done.error
    );
}

/// Copies a program in another process. If this process had the copy open for writing, a child of
/// another test would have it too, until it runs its program, and the system refuses to run the
/// copy meanwhile.
fn copied(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg(from).arg(to).status();
    assert!(copied.unwrap().success());
}

#[test]
fn the_analysis_is_another_program_that_is_found_or_told_of() {
    let place = Place::new();
    let alone = place.path("evendb");
    copied(Path::new(env!("CARGO_BIN_EXE_evendb")), &alone);
    let run = || {
        let mut command = std::process::Command::new(&alone);
        command.args(["analyze", "app.trace", "--memory-mib", "512", "--help"]);
        Outcome::of(command.env("PATH", "").output().unwrap())
    };
    run().complains(
        1,
        "cargo build --release --locked --manifest-path studio/analyze/Cargo.toml",
    );
    let program = place.file("program", "#!/bin/sh\necho \"$@\"\nexit 7\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&program, mode).unwrap();
    copied(&program, &place.path("evendb-analyze"));
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

#[test]
fn a_model_is_printed_whole_and_what_is_not_known_is_said_on_standard_error() {
    let place = Place::new();
    let figure = |id: &str, columns: &str, row: &str| {
        let columns: Vec<String> = columns
            .split(' ')
            .map(|name| format!(r#"{{"name": "{name}", "unit": "number"}}"#))
            .collect();
        format!(
            r#"{{"id": "{id}", "title": "", "about": "", "section": "", "exactness": "exact",
                "columns": [{}], "rows": [{row}]}}"#,
            columns.join(", ")
        )
    };
    // One scan of unknown length.
    let scan = figure(
        "composition",
        "keyspace kind operations",
        r#"["app", "scan", 1]"#,
    );
    let sizes = figure(
        "key-sizes",
        "keyspace kind bytes operations operations_up_to",
        r#"["app", "scan", 12, 1, 1.0]"#,
    );
    let analysis = format!(
        r#"{{"format": 1, "title": "one scan", "facts": [], "figures": [{scan}, {sizes}]}}"#
    );
    let analysis = place.file("analysis.json", analysis);
    let model = run(&["model", text(&analysis)]);
    assert_eq!(model.code, Some(0), "{}", model.error);
    let lines: Vec<&str> = model.error.lines().collect();
    assert!(
        lines
            .iter()
            .all(|line| line.starts_with("evendb: not known: ")),
        "{}",
        model.error
    );
    assert!(
        model.error.contains("how many records they give"),
        "{}",
        model.error
    );
    let toml = String::from_utf8(model.out).unwrap();
    assert!(toml.contains("scan = 1"), "{toml}");
    let model = run(&["model", text(&analysis), "--scan-length", "30"]);
    let toml = String::from_utf8(model.out).unwrap();
    assert!(toml.contains("30 records each, as was asked"), "{toml}");
    assert!(!model.error.contains("how many records"), "{}", model.error);
    // Nothing is printed if there is nothing for a model.
    let nothing = place.file(
        "nothing.json",
        r#"{"format": 1, "title": "nothing", "facts": [], "figures": []}"#,
    );
    let refused = run(&["model", text(&nothing)]);
    assert!(refused.out.is_empty());
    refused.complains(1, "no figure");
}

#[test]
fn profile_refuses_a_scale_of_a_trace() {
    let place = Place::new();
    let trace = recorded(&place, &[]);
    // The option is checked first, whether or not the analysis is built.
    let refused = run(&["profile", text(&trace), "--scale", "0.5"]);
    assert!(!place.path("trace.profile").exists());
    refused.complains(2, "--scale is for a model");
}
