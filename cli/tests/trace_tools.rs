//! Parts of traces, several traces as one, comparison of traces, RocksDB's query trace written,
//! times that mean little, and models in the words of other benchmarks: by the built command.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use common::{Outcome, Place, evendb};
use evendb_trace::{Header, Kind, Operation, Outcome as Found, Writer};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// 2026-01-31T12:00:00Z
const BEGAN: u64 = 1_769_860_800_000;

fn run(arguments: &[&str]) -> Outcome {
    Outcome::of(evendb().args(arguments).output().unwrap())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs the command, which must do all of its work.
#[track_caller]
fn done(arguments: &[&str]) -> String {
    run(arguments).text(0)
}

fn header(millis: u64) -> Header {
    Header {
        one_in: 1,
        wall_clock_millis: millis,
        keyspaces: [(0, "default".to_owned()), (1, "users".to_owned())].into(),
        source: "a test".to_owned(),
        ..Header::default()
    }
}

fn at(millis: u64, kind: Kind, key: &str) -> Operation {
    let mut operation = Operation::new(kind, key);
    operation.start_nanos = millis * 1_000_000;
    operation
}

fn trace(place: &Place, name: &str, header: &Header, operations: &[Operation]) -> PathBuf {
    let mut writer = Writer::new(Vec::new(), header).unwrap();
    for operation in operations {
        writer.add(operation).unwrap();
    }
    place.file(name, writer.finish().unwrap().0)
}

fn info(path: &Path) -> Value {
    serde_json::from_str(&done(&["trace", "info", text(path), "--json"])).unwrap()
}

/// Keys of a trace, in its order.
fn keys(path: &Path) -> Vec<String> {
    let printed = done(&["trace", "print", text(path)]);
    let key = |line: &str| line.split('"').nth(1).unwrap().to_owned();
    printed.lines().map(key).collect()
}

/// An operation each second, puts and gets in two keyspaces.
fn some(place: &Place) -> PathBuf {
    let one = |number: u64| {
        let kind = if number.is_multiple_of(2) {
            Kind::Put
        } else {
            Kind::Get
        };
        let mut operation = at(number * 1000, kind, &format!("k{number}"));
        operation.keyspace = u32::from(number >= 5);
        operation.value_len = (kind == Kind::Put).then_some(50);
        operation
    };
    let operations: Vec<_> = (0..10).map(one).collect();
    trace(place, "some.trace", &header(BEGAN), &operations)
}

#[test]
fn a_trace_is_cut_by_time_keyspace_kind_and_prefix() {
    let place = Place::new();
    let from = some(&place);
    let cut = |name: &str, options: &[&str]| {
        let to = place.path(name);
        let said = done(&[&["trace", "convert", text(&from), text(&to)], options].concat());
        (keys(&to), said, info(&to))
    };
    let (all, said, about) = cut("window", &["--from", "3", "--until", "6s"]);
    assert_eq!(all, ["k3", "k4", "k5"]);
    assert_eq!(said, "3 of 10 operations\n");
    assert_eq!(
        (&about["wall_clock_millis"], &about["seconds"]),
        (&(BEGAN + 3000).into(), &2.0.into())
    );
    let clock = ["--from", "2026-01-31T13:00:08+01:00"];
    assert_eq!(cut("clock", &clock).0, ["k8", "k9"]);
    assert_eq!(
        cut("users", &["--keyspace", "users", "--kind", "get"]).0,
        ["k5", "k7", "k9"]
    );
    assert_eq!(
        cut("prefix", &["--prefix", "k1", "--prefix", "\\x6b2"]).0,
        ["k1", "k2"]
    );
    assert_eq!(cut("copy", &[]).1, "10 operations\n");
    // A part of a part: times count from its beginning, and so does the wall clock.
    let again = place.path("again");
    done(&[
        "trace",
        "convert",
        text(&place.path("window")),
        text(&again),
        "--from",
        "2026-01-31T12:00:04Z",
    ]);
    assert_eq!(keys(&again), ["k4", "k5"]);
    for (options, why) in [
        (["--from", "9x"], "a length of time"),
        (["--kind", "look"], "a kind is one of"),
        (["--until", "0"], "not after"),
    ] {
        let to = place.path("never");
        let refused = run(&[&["trace", "convert", text(&from), text(&to)], &options[..]].concat());
        assert_eq!(refused.code, Some(2), "{}", refused.error);
        assert!(
            refused.error.contains(why) && !to.exists(),
            "{}",
            refused.error
        );
    }
}

#[test]
fn a_wall_clock_is_refused_where_the_trace_has_none() {
    let place = Place::new();
    let from = trace(&place, "from", &header(0), &[at(1, Kind::Get, "k")]);
    let to = place.path("to");
    let refused = run(&[
        "trace",
        "convert",
        text(&from),
        text(&to),
        "--from",
        "2026-01-31",
    ]);
    refused.complains(1, "does not say when it began");
    assert!(!to.exists());
}

#[test]
fn shards_become_one_trace_in_the_order_of_their_clocks() {
    let place = Place::new();
    let mut put = at(1000, Kind::Put, "c");
    put.keyspace = 1;
    let one = trace(&place, "one", &header(BEGAN), &[at(0, Kind::Get, "a"), put]);
    // RocksDB's readable form, which begins half a second later.
    let micros = BEGAN * 1000 + 500_000;
    let lines = format!("0x62 0 0 0 {micros}\n0x64 1 7 20 {}\n", micros + 900_000);
    let other = place.file("other.txt", lines);
    let to = place.path("to");
    let merged = run(&["trace", "convert", text(&one), text(&other), text(&to)]);
    assert_eq!((merged.code, &merged.error[..]), (Some(0), ""));
    assert_eq!(keys(&to), ["a", "b", "c", "d"]);
    let about = info(&to);
    assert_eq!(
        (&about["wall_clock_millis"], &about["seconds"]),
        (&BEGAN.into(), &1.4.into())
    );
    let names: Vec<_> = about["counts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["keyspace"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["default", "users", "cf-7"]);
    let left: Vec<_> = fs::read_dir(place.0.path()).unwrap().collect();
    assert_eq!(left.len(), 3, "a temporary file stays: {left:?}");
    // A part of all of them, with hidden keys of both.
    let hidden = place.path("hidden");
    let part = ["--from", "500ms", "--hide-keys", "ordered"];
    done(
        &[
            &["trace", "convert", text(&one), text(&other), text(&hidden)],
            &part[..],
        ]
        .concat(),
    );
    assert_eq!(keys(&hidden).len(), 3);
}

#[test]
fn shards_without_a_clock_are_told() {
    let place = Place::new();
    let one = trace(&place, "one", &header(0), &[at(5, Kind::Get, "b")]);
    let other = trace(&place, "other", &header(BEGAN), &[at(1, Kind::Get, "a")]);
    let to = place.path("to");
    let merged = run(&["trace", "convert", text(&one), text(&other), text(&to)]);
    merged.complains(0, "as if all began at once");
    assert_eq!(keys(&to), ["a", "b"]);
}

/// Trouble of others, line 22: a clock that was set forward and back, and files that were joined.
#[test]
fn jumps_of_the_clock_are_cut_where_that_is_asked_for() {
    let place = Place::new();
    let mut lines = String::new();
    for round in 0..2 {
        for second in 0..5 {
            let day = if round == 0 && second >= 3 { 86_400 } else { 0 };
            lines += &format!("{},k{round}{second},3,9,1,set,0\n", second + day);
        }
    }
    let from = place.file("joined.csv", lines);
    let to = place.path("plain");
    let plain = run(&["trace", "convert", text(&from), text(&to)]);
    plain.complains(0, "5 operations are earlier");
    let mended = place.path("mended");
    let cut = run(&[
        "trace",
        "convert",
        text(&from),
        text(&mended),
        "--gaps-max",
        "10s",
    ]);
    let told = "jumps of the clock that were cut: 1 forward, 1 back";
    cut.complains(0, told);
    // Two seconds, a gap of ten, one second; the second file goes on where the first was.
    assert_eq!(info(&mended)["seconds"], 17.0);
    assert_eq!(info(&to)["seconds"], 86_404.0);
}

#[test]
fn a_foreign_trace_is_named_with_the_command_that_converts_it() {
    let place = Place::new();
    let from = place.file("cache of cluster.csv", "0,k,1,5,1,get,0\n");
    let named = run(&["trace", "info", text(&from)]);
    assert_eq!(named.code, Some(1));
    let command = named.error.split('`').nth(1).unwrap().to_owned();
    assert!(
        named.error.contains("the format twitter,"),
        "{}",
        named.error
    );
    let to = place.path("cache of cluster.trace");
    assert_eq!(
        command,
        format!("evendb trace convert '{}' '{}'", text(&from), text(&to))
    );
    let script = command.replacen("evendb", evendb().get_program().to_str().unwrap(), 1);
    assert!(
        Command::new("sh")
            .args(["-c", &script])
            .output()
            .unwrap()
            .status
            .success()
    );
    assert_eq!(info(&to)["operations"], 1);
}

#[test]
fn what_is_written_for_rocksdb_comes_back() {
    let place = Place::new();
    let from = some(&place);
    let (to, back) = (place.path("query.trace"), place.path("back.trace"));
    let written = run(&[
        "trace",
        "convert",
        text(&from),
        text(&to),
        "--to-format",
        "rocksdb",
    ]);
    assert!(
        written.error.contains("5 values were made"),
        "{}",
        written.error
    );
    written.expect(0, "10 operations\n");
    let names = ["--keyspace-names", "1=users"];
    done(&[&["trace", "convert", text(&to), text(&back)], &names[..]].concat());
    assert_eq!(keys(&back), keys(&from));
    let (one, other) = (info(&from), info(&back));
    let counts = |info: &Value| -> Vec<_> {
        let rows = info["counts"].as_array().unwrap().iter();
        rows.map(|row| {
            ["keyspace", "kind", "operations", "value_bytes"].map(|name| row[name].clone())
        })
        .collect()
    };
    assert_eq!(counts(&one), counts(&other));
    assert_eq!(other["wall_clock_millis"], BEGAN);
}

#[test]
fn two_traces_are_compared() {
    let place = Place::new();
    let from = some(&place);
    let early = place.path("early.trace");
    done(&[
        "trace",
        "convert",
        text(&from),
        text(&early),
        "--until",
        "5",
    ]);
    let report = done(&["trace", "compare", text(&from), text(&early)]);
    assert!(
        report.starts_with("A does not tell of 5 of its 5 reads"),
        "{report}"
    );
    assert!(report.contains("different (0: alike"), "{report}");
    let json: Value = serde_json::from_str(&done(&[
        "trace",
        "compare",
        text(&from),
        text(&early),
        "--json",
    ]))
    .unwrap();
    let part = |what: &str| {
        let parts = json["parts"].as_array().unwrap().iter();
        parts
            .clone()
            .find(|part| part["what"] == what)
            .unwrap()
            .clone()
    };
    let keyspaces = part("keyspaces")["distance"].as_f64().unwrap();
    assert!((keyspaces - 0.5).abs() < 1e-9, "{keyspaces}");
    assert_eq!(
        (&part("operations")["a"], &part("operations")["b"]),
        (&10.into(), &5.into())
    );
    let alike = done(&["trace", "compare", text(&from), text(&from)]);
    assert!(alike.contains("no part differs"), "{alike}");
    let foreign = place.file("foreign.csv", "0,k,1,5,1,get,0\n");
    run(&["trace", "compare", text(&from), text(&foreign)]).complains(1, "evendb trace convert");
}

/// Trouble of others, line 9: times that do not exist have no speed, and whole seconds are told.
#[test]
fn a_replay_in_true_time_needs_times() {
    let place = Place::new();
    let meta = place.file("meta.csv", "key,op,size\nk,SET,5\nk,GET,5\n");
    let to = place.path("meta.trace");
    run(&["trace", "convert", text(&meta), text(&to)]).complains(0, "has no times");
    assert_eq!(info(&to)["times"], "order");
    run(&["replay", text(&to), "--speed", "1"]).complains(1, "has no times, so it has no speed");
    run(&["replay", text(&to)]).expect_code(0);
    let lines: String = (0..100)
        .map(|n| format!("{},k{n},3,9,1,set,0\n", n / 50))
        .collect();
    let twitter = place.file("twitter.csv", lines);
    let (to, json) = (place.path("twitter.trace"), place.path("json"));
    run(&["trace", "convert", text(&twitter), text(&to)]).complains(0, "whole seconds");
    assert_eq!(info(&to)["times"], "seconds");
    let said = done(&["replay", text(&to), "--speed", "100", "--json", text(&json)]);
    assert!(
        said.contains("times of the trace are whole seconds"),
        "{said}"
    );
    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["times_in_trace"], "seconds");
    // The last operation is due in the last fiftieth of the second second.
    assert_eq!(report["intended_seconds"], 0.0198);
}

/// Trouble of others, line 2: the convention is told, and can be turned off.
#[test]
fn the_meaning_of_sizes_of_reads_is_an_option() {
    let place = Place::new();
    let from = place.file("twitter.csv", "0,k,3,250,1,get,0\n0,k,3,0,1,get,0\n");
    let (to, other) = (place.path("to"), place.path("other"));
    run(&["trace", "convert", text(&from), text(&to)]).complains(0, "--read-sizes");
    assert_eq!(
        (
            &info(&to)["counts"][0]["found"],
            &info(&to)["counts"][0]["absent"]
        ),
        (&1.into(), &1.into())
    );
    let ignored = ["--read-sizes", "ignored"];
    done(
        &[
            &["trace", "convert", text(&from), text(&other)],
            &ignored[..],
        ]
        .concat(),
    );
    assert_eq!(info(&other)["counts"][0]["found"], Value::Null);
    let own = place.path("own");
    let idle = run(&[&["trace", "convert", text(&to), text(&own)], &ignored[..]].concat());
    idle.complains(2, "--read-sizes has no effect");
}

/// Trouble of others, line 17: what a directory held before is a part of the figures.
#[test]
fn a_replay_on_a_store_that_was_there_says_so() {
    let place = Place::new();
    let (from, dir) = (some(&place), place.path("store"));
    let first = done(&["replay", text(&from), "--dir", text(&dir)]);
    assert!(!first.contains("had files before"), "{first}");
    let second = done(&["replay", text(&from), "--dir", text(&dir)]);
    assert!(
        second.contains("the directory had files before"),
        "{second}"
    );
}

#[test]
fn a_preset_becomes_command_lines_of_db_bench_and_comes_back() {
    let place = Place::new();
    let script = done(&["model", "zippydb", "--to", "db-bench"]);
    let file = place.file("load.sh", &script);
    let is_shell = Command::new("sh").arg("-n").arg(&file).status().unwrap();
    assert!(
        is_shell.success() && script.contains("--keyrange_dist_a=14.18"),
        "{script}"
    );
    let back = done(&["model", text(&file), "--from", "db-bench"]);
    let toml = place.file("back.toml", &back);
    assert_eq!(
        done(&["model", text(&toml), "--to", "db-bench"])
            .lines()
            .last(),
        script.lines().last()
    );
    let ycsb = done(&["model", text(&toml), "--to", "ycsb"]);
    assert!(
        ycsb.contains("recordcount=50000000\n") && ycsb.contains("readproportion=0.83\n"),
        "{ycsb}"
    );
    run(&["model", "zippydb", "--to", "ycsb", "--pairs", "5"])
        .complains(2, "--pairs has no effect");
    let no_model = place.file("no.sh", "ls\n");
    run(&["model", text(&no_model), "--from", "db-bench"]).complains(1, "--benchmarks=mixgraph");
}

/// How far values compress is measured and carried to the model.
#[test]
fn compressibility_is_measured_and_carried() {
    let place = Place::new();
    let put = |number: u64| {
        let noise =
            (0..25_u64).map(|word| evendb_trace::value_hash(&(number * 25 + word).to_le_bytes()));
        let noise: Vec<u8> = noise.flat_map(u64::to_le_bytes).collect();
        let value = [noise, vec![0; 300]].concat();
        let mut put = at(number, Kind::Put, &format!("k{number}"));
        (put.value_len, put.value) = (Some(500), Some(value));
        put.outcome = Found::Done;
        put
    };
    let operations: Vec<_> = (0..400).map(put).collect();
    let has_values = Header {
        has_values: true,
        ..header(BEGAN)
    };
    let values = trace(&place, "values.trace", &has_values, &operations);
    let ratio = info(&values)["compressed_ratio"].as_f64().unwrap();
    assert!((ratio - 0.4).abs() < 0.03, "{ratio}");
    let script = place.file("load.sh", "db_bench --benchmarks=mixgraph --num=1000\n");
    let arguments = ["model", text(&script), "--from", "db-bench"];
    let model = |more: &[&str]| done(&[&arguments[..], more].concat());
    assert!(model(&[]).contains("compressible = 50\n"));
    let measured = model(&["--values-of", text(&values)]);
    let line = measured
        .lines()
        .find(|line| line.starts_with("compressible = "))
        .unwrap();
    let percent: i32 = line.split(' ').nth(2).unwrap().parse().unwrap();
    assert!((percent - 60).abs() <= 3, "{line}");
    let bare = some(&place);
    let refused = run(&[&arguments[..], &["--values-of", text(&bare)]].concat());
    refused.complains(1, "has no values");
}

/// RocksDB's own benchmark takes the command lines, where it is installed.
#[test]
fn rocksdbs_own_benchmark_takes_the_command_lines() {
    if Command::new("db_bench").arg("--help").output().is_err() {
        let why = "db_bench is not installed (Debian's package rocksdb-tools)";
        return common::skipped::skipped("command lines for RocksDB's benchmark", why);
    }
    let place = Place::new();
    for preset in ["zippydb", "udb-assoc"] {
        let script = done(&["model", preset, "--to", "db-bench", "--name", "small"]);
        let small = |line: &str| {
            let small = [("--num=", "--num=2000 \\"), ("--reads=", "--reads=500 \\")];
            let is = |(flag, _): &&(&str, &str)| line.trim_start().starts_with(flag);
            let changed = small.iter().find(is).map_or(line, |(_, other)| *other);
            changed.replace("--sine_mix_rate=1", "--sine_mix_rate=0")
        };
        let lines: Vec<_> = script.lines().map(small).collect();
        let file = place.file(preset, lines.join("\n") + "\n");
        let db = place.path(&format!("{preset}-db"));
        let ran = Command::new("sh").arg(&file).arg(&db).output().unwrap();
        let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
        assert!(ran.status.success() && said.contains("mixgraph"), "{said}");
    }
}
