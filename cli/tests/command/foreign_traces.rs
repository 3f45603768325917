//! Traces of other formats, by every command that reads traces; and genuine ones of RocksDB from
//! the file to the advice.

use crate::common::skipped::skipped;
use crate::common::{Outcome, Place, evendb};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn run(arguments: &[&str]) -> Outcome {
    Outcome::of(evendb().args(arguments).output().unwrap())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn said(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.out).into_owned()
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// A trace of another format as one of EvenDB, and the text about it.
fn converted(place: &Place, lines: &str, more: &[&str]) -> (PathBuf, Outcome) {
    let (from, to) = (place.file("lines", lines), place.path("converted"));
    let _ = fs::remove_file(&to);
    let done = run(&[&["trace", "convert", text(&from), text(&to)], more].concat());
    (to, done)
}

/// RocksDB's readable form: a column family and a type in each line, and each key at least once.
fn families() -> String {
    let line = |number: u64| {
        let (kind, family) = (u64::from(number.is_multiple_of(2)), number % 3);
        format!(
            "0x6B{:02X} {kind} {family} 20 {}\n",
            number / 6,
            5000 + number
        )
    };
    (0..300).map(line).collect()
}

#[test]
fn column_families_get_names_at_conversion_and_a_replay_leaves_none_out() {
    let place = Place::new();
    let (trace, done) = converted(
        &place,
        &families(),
        &["--keyspace-names", "1=users,7=never"],
    );
    assert_eq!(done.code, Some(0), "{}", done.error);
    let info = run(&["trace", "info", text(&trace), "--json"]);
    let info = parsed(&info.out);
    let mut names: Vec<_> = info["counts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["keyspace"].as_str().unwrap())
        .collect();
    names.dedup();
    assert_eq!(names, ["default", "users", "cf-2"]);
    let json = place.path("json");
    let replay = run(&["replay", text(&trace), "--prepare", "--json", text(&json)]);
    assert_eq!(replay.code, Some(0), "{}{}", said(&replay), replay.error);
    let report = parsed(&fs::read(&json).unwrap());
    assert_eq!(
        (&report["replayed"], &report["not_asked"]),
        (&300.into(), &0.into()),
        "{report}"
    );
}

#[test]
fn what_a_replay_leaves_out_is_in_its_first_line_and_in_its_exit_code() {
    let place = Place::new();
    let lines = "0,a,1,9,8,incr,0\n0,b,1,9,8,append,0\n0,c,1,9,8,set,0\n1,c,1,9,8,get,0\n";
    let (trace, done) = converted(&place, lines, &[]);
    assert_eq!(done.code, Some(0), "{}", done.error);
    assert!(
        done.error.contains("read as merges: append 1, incr 1"),
        "{}",
        done.error
    );
    assert!(done.error.contains("whole seconds"), "{}", done.error);
    let replay = run(&["replay", text(&trace)]);
    let out = said(&replay);
    assert_eq!(replay.code, Some(3), "{out}{}", replay.error);
    let first = out.lines().next().unwrap();
    assert!(
        first.contains("not the load of the trace: 2 of its 4 operations (50.0 %)"),
        "{first}"
    );
    assert!(out.contains("left out: merges: 2"), "{out}");
    let counters = run(&["replay", text(&trace), "--merges", "counters"]);
    let out = said(&counters);
    assert!(
        out.contains("1 of its 4 operations") && out.contains("merges of what is no counter: 1"),
        "{out}"
    );
}

#[test]
fn what_a_trace_does_not_tell_is_unknown_and_not_0() {
    let place = Place::new();
    let (trace, _) = converted(
        &place,
        "0x6B31 0 0 0 5000\n0x6B31 1 0 7 5001\n0x6B31 6 0 0 5002\n",
        &[],
    );
    let info = parsed(&run(&["trace", "info", text(&trace), "--json"]).out);
    let rows = info["counts"].as_array().unwrap();
    let row = |kind: &str| rows.iter().find(|row| row["kind"] == kind).unwrap();
    for name in ["found", "absent", "failed", "value_bytes", "records"] {
        assert_eq!(row("get")[name], Value::Null, "{name}");
    }
    assert_eq!(row("put")["value_bytes"], 7);
    assert_eq!(row("scan")["records"], Value::Null);
    let table = said(&run(&["trace", "info", text(&trace)]));
    let line = |kind: &str| {
        let line = table.lines().find(|line| line.contains(kind)).unwrap();
        line.split_whitespace()
            .skip(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(line(" get "), ["1", "unknown", "unknown", "unknown", "-"]);
    assert_eq!(line(" put "), ["1", "-", "-", "unknown", "-"]);
    assert_eq!(line(" scan "), ["1", "-", "-", "unknown", "unknown"]);
    // A known length is a number, even if it is 0.
    let (trace, _) = converted(&place, "0,k,1,5,1,get,0\n", &[]);
    let table = said(&run(&["trace", "info", text(&trace)]));
    assert!(
        table.contains(
            "get                          1             1           0         0             -"
        ),
        "{table}"
    );
}

#[test]
fn a_trace_of_another_format_is_named_by_every_command_that_reads_ours() {
    let place = Place::new();
    let file = place.file("twitter.csv", "0,k,1,5,1,get,0\n");
    let out = place.path("out");
    for command in [
        &["trace", "info", text(&file)][..],
        &["trace", "print", text(&file)],
        &["replay", text(&file)],
        &[
            "advise",
            text(&file),
            "--memory-mib",
            "4",
            "--out",
            text(&out),
        ],
    ] {
        let done = run(command);
        assert_eq!(done.code, Some(1), "{command:?}");
        let (name, remedy) = ("the format twitter,", "evendb trace convert");
        assert!(
            done.error.contains(name) && done.error.contains(remedy),
            "{}",
            done.error
        );
    }
}

#[test]
fn a_conversion_that_fails_leaves_no_file_behind() {
    let place = Place::new();
    let to = place.path("to");
    let file = place.file("twitter.csv", "0,k,1,5,1,get,0\n");
    let convert = |format: &str| {
        let from_format = ["--from-format", format];
        run(&[
            &["trace", "convert", text(&file), text(&to)],
            &from_format[..],
        ]
        .concat())
    };
    // With the format of lines nothing can be read. A format with a beginning of its own is
    // refused.
    for (format, code) in [("rocksdb-text", 3), ("rocksdb", 1)] {
        let done = convert(format);
        assert_eq!(done.code, Some(code), "{format}: {}", done.error);
        assert!(!to.exists(), "{format}");
    }
    assert!(convert("rocksdb-text").error.contains("was not written"));
    assert_eq!(convert("twitter").code, Some(0));
    assert!(to.exists());
    // An earlier file stays as it is.
    assert_eq!(convert("twitter").code, Some(1));
    assert!(to.exists());
    let folder = place.path("folder");
    fs::create_dir(&folder).unwrap();
    let done = run(&["trace", "convert", text(&folder), text(&place.path("x"))]);
    assert!(
        done.error.contains("cannot read") && done.error.contains("folder"),
        "{}",
        done.error
    );
}

#[test]
fn a_copy_of_a_trace_that_is_not_whole_says_so() {
    let place = Place::new();
    let (trace, _) = converted(&place, &families(), &[]);
    let mut bytes = fs::read(&trace).unwrap();
    bytes.truncate(bytes.len() - 10);
    let torn = place.file("torn", bytes);
    let (copy, again) = (place.path("copy"), place.path("again"));
    let first = run(&["trace", "convert", text(&torn), text(&copy)]);
    assert_eq!(first.code, Some(5), "{}", first.error);
    for command in [
        &["trace", "info", text(&copy)][..],
        &["trace", "convert", text(&copy), text(&again)],
        &["replay", text(&copy)],
    ] {
        let done = run(command);
        let told = [&done.out[..], done.error.as_bytes()].concat();
        let told = String::from_utf8_lossy(&told).into_owned();
        assert_eq!(done.code, Some(5), "{command:?} {told}");
        assert!(
            told.contains("was not ended") && !told.contains('{'),
            "{told}"
        );
    }
}

#[test]
fn a_trace_of_a_source_with_bad_lines_says_that_it_is_not_whole() {
    let place = Place::new();
    let lines = "0,a,1,9,8,get,0\nno line\n0,b,1,9,8,set,0\n0,c,1,9,8,fly,0\n";
    let (trace, done) = converted(&place, lines, &[]);
    assert_eq!(done.code, Some(3), "{}", done.error);
    assert!(
        done.error.contains("2 lines or records are bad"),
        "{}",
        done.error
    );
    let info = run(&["trace", "info", text(&trace), "--json"]);
    assert_eq!(info.code, Some(5), "{}", info.error);
    let info = parsed(&info.out);
    assert_eq!(
        (&info["is_whole"], &info["operations"]),
        (&false.into(), &2.into()),
        "{info}"
    );
    assert_eq!(info["missing_operations"], 2, "{info}");
    let replay = run(&["replay", text(&trace)]);
    let out = said(&replay);
    assert_eq!(replay.code, Some(5), "{out}");
    assert!(
        out.contains("2 operations that were recorded are not there"),
        "{out}"
    );
    let copy = place.path("copy");
    let done = run(&["trace", "convert", text(&trace), text(&copy)]);
    assert_eq!(done.code, Some(5), "{}", done.error);
    assert_eq!(run(&["trace", "info", text(&copy)]).code, Some(5));
}

/// The same damage, by every command that reads traces.
#[test]
fn a_damaged_header_has_the_exit_code_of_damage_everywhere() {
    let place = Place::new();
    let (trace, _) = converted(&place, "0,k,1,5,1,get,0\n", &[]);
    let mut bytes = fs::read(&trace).unwrap();
    for byte in &mut bytes[16..24] {
        *byte ^= 0xff;
    }
    let trace = place.file("damaged", bytes);
    let (out, to) = (place.path("out"), place.path("to"));
    for command in [
        &["trace", "info", text(&trace)][..],
        &["trace", "print", text(&trace)],
        &["trace", "convert", text(&trace), text(&to)],
        &["replay", text(&trace)],
        &["replay", text(&trace), "--prepare"],
        &["mixgraph", "--quick", "--replay", text(&trace)],
        &[
            "experiment",
            "mixgraph-allocations",
            "--quick",
            "--replay",
            text(&trace),
        ],
        &[
            "advise",
            text(&trace),
            "--memory-mib",
            "4",
            "--out",
            text(&out),
        ],
    ] {
        let done = run(command);
        assert_eq!(done.code, Some(5), "{command:?}: {}", done.error);
        assert!(
            done.error.contains(text(&trace)),
            "{command:?}: {}",
            done.error
        );
        assert_eq!(
            done.error.matches(text(&trace)).count(),
            1,
            "{}",
            done.error
        );
    }
    assert!(!to.exists());
}

#[test]
fn errors_that_concern_a_path_name_it() {
    let place = Place::new();
    let (trace, _) = converted(&place, "0,k,1,5,1,set,0\n", &[]);
    let trace = text(&trace);
    let file = place.file("file", "no folder");
    let (below, missing) = (file.join("below"), place.path("missing/x"));
    let (below, missing, good) = (text(&below), text(&missing), place.path("good"));
    let good = text(&good);
    for (command, path) in [
        (&["replay", missing][..], missing),
        (&["replay", trace, "--json", missing], missing),
        (&["replay", trace, "--dir", below], below),
        (&["trace", "info", missing], missing),
        (&["trace", "convert", missing, good], missing),
        (&["trace", "convert", trace, missing], missing),
        (
            &["advise", trace, "--memory-mib", "4", "--out", below],
            below,
        ),
        (
            &[
                "advise",
                trace,
                "--memory-mib",
                "4",
                "--out",
                good,
                "--dir",
                below,
            ],
            below,
        ),
        (
            &[
                "advise",
                trace,
                "--memory-mib",
                "4",
                "--out",
                good,
                "--analysis",
                missing,
            ],
            missing,
        ),
        (&["mixgraph", missing], missing),
        (&["mixgraph", "--quick", "--replay", missing], missing),
        (&["mixgraph", "--quick", "--dir", below], below),
        (
            &["mixgraph", "--quick", "--only-trace", "--trace", missing],
            missing,
        ),
        (
            &[
                "mixgraph",
                "--quick",
                "--only-trace",
                "--trace",
                good,
                "--trace-keys",
                missing,
            ],
            missing,
        ),
        (&["model", missing], missing),
    ] {
        let done = run(command);
        assert_eq!(done.code, Some(1), "{command:?}: {}", done.error);
        assert!(done.error.contains(path), "{command:?}: {}", done.error);
        let _ = fs::remove_dir_all(good);
        let _ = fs::remove_file(good);
    }
    // The replay is done then, and its result cannot be written.
    if fs::metadata("/dev/full").is_ok() {
        let done = run(&["replay", trace, "--json", "/dev/full"]);
        assert!(
            done.code == Some(1) && done.error.contains("/dev/full"),
            "{}",
            done.error
        );
    }
}

#[test]
fn a_replay_says_when_it_passes_over_more_than_the_trace_has() {
    let place = Place::new();
    let (trace, _) = converted(&place, "0,a,1,5,1,set,0\n1,b,1,5,1,set,0\n", &[]);
    for option in ["--skip", "--load"] {
        let done = run(&["replay", text(&trace), option, "3"]);
        assert_eq!(done.code, Some(1), "{}{}", said(&done), done.error);
        assert!(
            done.error.contains("ends after 2 operations") && done.error.contains(text(&trace)),
            "{}",
            done.error
        );
        let out = said(&run(&["replay", text(&trace), option, "2"]));
        assert!(out.starts_with("nothing was measured"), "{out}");
    }
}

/// A trace of Meta with `op_count` and `cache_hits`, packed by gzip, as such traces are published.
#[test]
fn a_packed_trace_of_another_format_is_converted_and_made_up_order_is_said() {
    let place = Place::new();
    let lines = "op_time,key,key_size,op,op_count,size,cache_hits\n7,a,1,GET,5,9,2\n7,b,1,GET,3,9,3\n7,c,1,SET,1,9,0\n";
    let packed = |lines: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, lines.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let from = place.file("kvcache.csv.gz", packed(lines));
    let to = place.path("to");
    let done = run(&["trace", "convert", text(&from), text(&to)]);
    assert_eq!(done.code, Some(0), "{}", done.error);
    assert!(
        done.error
            .contains("8 operations are of lines that stand for several")
            && done
                .error
                .contains("of 5 of them some found something and some did not"),
        "{}",
        done.error
    );
    let printed = said(&run(&["trace", "print", text(&to)]));
    let found: Vec<_> = printed
        .lines()
        .map(|line| line.contains("found=9"))
        .collect();
    assert_eq!(
        found,
        [true, true, false, false, false, true, true, true, false],
        "{printed}"
    );
    // Keys in order need two passes; and a trace of our own is unpacked too.
    let ordered = place.path("ordered");
    let done = run(&[
        "trace",
        "convert",
        text(&from),
        text(&ordered),
        "--hide-keys",
        "ordered",
    ]);
    assert_eq!(done.code, Some(0), "{}", done.error);
    let own = fs::read(&to).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, &own).unwrap();
    let own = place.file("own.gz", encoder.finish().unwrap());
    let copy = place.path("copy");
    let done = run(&["trace", "convert", text(&own), text(&copy)]);
    assert_eq!(done.code, Some(0), "{}", done.error);
    assert!(said(&done).contains("9 operations"), "{}", said(&done));
    for command in [&["trace", "info", text(&own)][..], &["replay", text(&own)]] {
        let done = run(command);
        assert!(
            done.code == Some(1)
                && done.error.contains("packed by gzip")
                && done.error.contains("convert"),
            "{}",
            done.error
        );
    }
    // A trace that is cut is damaged.
    let many: String = (0..5000)
        .map(|number| format!("{number},k,1,GET,5,9,{number}\n"))
        .collect();
    let mut cut = packed(&(lines.to_owned() + &many));
    cut.truncate(cut.len() - 100);
    let (cut, to) = (place.file("cut.gz", cut), place.path("of cut"));
    let done = run(&["trace", "convert", text(&cut), text(&to)]);
    assert_eq!(done.code, Some(5), "{}", done.error);
    assert!(
        done.error.contains("cut.gz") && !to.exists(),
        "{}",
        done.error
    );
}

#[test]
fn a_replay_says_first_that_it_measures_misses_and_prepares_what_a_trace_reads() {
    let place = Place::new();
    let gets: String = (0..50)
        .map(|number| format!("0x6B{number:02X} 0 0 0 {number}\n"))
        .collect();
    let (trace, _) = converted(&place, &gets, &[]);
    let out = said(&run(&["replay", text(&trace)]));
    let first = out.lines().next().unwrap();
    assert!(
        first.contains("misses are measured: 50 of 50 reads") && first.contains("--prepare"),
        "{out}"
    );
    assert!(out.contains("0.0 %"), "{out}");
    let out = said(&run(&[
        "replay",
        text(&trace),
        "--prepare",
        "--value-bytes",
        "30",
    ]));
    assert!(!out.contains("misses") && out.contains("100.0 %"), "{out}");
    assert!(
        out.contains("50 records were put before; of 50 of them the trace does not tell"),
        "{out}"
    );
}

/// The reader of its output goes away at once: no panic, and the exit code of a success.
#[test]
fn a_pipe_whose_reader_is_gone_ends_a_command_quietly() {
    let place = Place::new();
    let (trace, _) = converted(&place, &families(), &[]);
    for command in [
        &["trace", "info", text(&trace)][..],
        &["trace", "print", text(&trace)],
        &["replay", text(&trace)],
        &["mixgraph", "udb-assoc", "--print-model"],
        &["experiment", "paper", "--list", "--out", "nowhere"],
    ] {
        let mut child = evendb()
            .args(command)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let done = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(0), "{command:?}: {error}");
        assert!(!error.contains("panicked"), "{command:?}: {error}");
    }
}

/// Runs RocksDB's benchmark, if it is there. Returns its output.
fn db_bench(arguments: &[String]) -> Option<String> {
    let output = Command::new("db_bench").args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(text)
}

/// The number after a word of db_bench's line.
fn number(line: &str, name: &str) -> u64 {
    let rest = line.split(name).nth(1).unwrap();
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// The program of the analysis, where `./check` builds it.
fn analysis() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_evendb")).parent()?.parent()?;
    let folder = target.join("analyze/debug");
    folder.join("evendb-analyze").is_file().then_some(folder)
}

/// A genuine trace of RocksDB, from its file to the advice: each step agrees with the operations
/// that db_bench reports.
#[test]
fn a_genuine_trace_of_rocksdb_from_its_file_to_the_advice() {
    let place = Place::new();
    let query = place.path("query.trace");
    let common = [
        format!("--db={}", text(&place.path("rocksdb"))),
        "--num=2000".to_owned(),
        "--key_size=20".to_owned(),
        "--value_size=50".to_owned(),
        "--threads=1".to_owned(),
    ];
    let with = |more: &[&str]| {
        let more = more.iter().map(|argument| (*argument).to_owned());
        common.iter().cloned().chain(more).collect::<Vec<_>>()
    };
    if db_bench(&with(&["--benchmarks=fillseq"])).is_none() {
        return skipped(
            "a genuine trace of RocksDB from its file to the advice",
            "db_bench is missing (Debian's package rocksdb-tools)",
        );
    }
    let traced = format!("--trace_file={}", text(&query));
    let told = db_bench(&with(&[
        "--benchmarks=mixgraph",
        "--use_existing_db=1",
        "--mix_get_ratio=0.6",
        "--mix_put_ratio=0.3",
        "--mix_seek_ratio=0.1",
        "--reads=3000",
        "--keyrange_num=1",
        "--key_dist_a=0.002312",
        "--key_dist_b=0.3467",
        &traced,
    ]))
    .unwrap();
    let line = told.lines().find(|line| line.contains("Gets:")).unwrap();
    let [gets, puts, seeks] = ["Gets:", "Puts:", "Seek:"].map(|name| number(line, name));
    assert_eq!(gets + puts + seeks, 3000, "{line}");

    let trace = place.path("app.trace");
    let convert = run(&["trace", "convert", text(&query), text(&trace)]);
    assert_eq!(convert.code, Some(0), "{}", convert.error);

    let info = parsed(&run(&["trace", "info", text(&trace), "--json"]).out);
    let rows = info["counts"].as_array().unwrap();
    let row = |kind: &str| rows.iter().find(|row| row["kind"] == kind).unwrap();
    for (kind, operations) in [("get", gets), ("put", puts), ("scan", seeks)] {
        assert_eq!(row(kind)["operations"], operations);
        assert_eq!(
            (&row(kind)["keyspace"], &row(kind)["key_bytes"]),
            (&"default".into(), &(20 * operations).into())
        );
    }
    let value_bytes = row("put")["value_bytes"].as_u64().unwrap();
    assert!(value_bytes > puts, "{info}");
    assert_eq!(
        (&row("get")["found"], &row("scan")["records"]),
        (&Value::Null, &Value::Null)
    );

    let json = place.path("replay.json");
    let replay = run(&[
        "replay",
        text(&trace),
        "--prepare",
        "--value-bytes",
        "50",
        "--scan-length",
        "10",
        "--json",
        text(&json),
    ]);
    assert_eq!(replay.code, Some(0), "{}{}", said(&replay), replay.error);
    let report = parsed(&fs::read(&json).unwrap());
    for (kind, operations) in [("get", gets), ("put", puts), ("scan", seeks)] {
        assert_eq!(report["kinds"][kind]["operations"], operations, "{report}");
    }
    assert_eq!(
        (&report["not_asked"], &report["misses_not_in_trace"]),
        (&0.into(), &0.into())
    );
    assert_eq!(report["scans_of_unknown_length"], seeks);
    // No scan reads more than its length, and only scans near the end of the keys read less.
    let scanned = report["kinds"]["scan"]["records"].as_u64().unwrap();
    assert!(scanned <= 10 * seeks && scanned > 5 * seeks, "{scanned}");

    let advice = place.path("advice");
    let advise = run(&[
        "advise",
        text(&trace),
        "--memory-mib",
        "64",
        "--seconds",
        "6",
        "--out",
        text(&advice),
    ]);
    assert_eq!(advise.code, Some(0), "{}{}", said(&advise), advise.error);

    let Some(folder) = analysis() else {
        return skipped(
            "the analysis and the model of a genuine trace of RocksDB",
            "evendb-analyze is not built in this target directory (./check analyze)",
        );
    };
    let out = place.path("analysis");
    let program = folder.join("evendb-analyze");
    let analyze = Command::new(&program)
        .arg(&trace)
        .arg("--out")
        .arg(&out)
        .args(["--memory-mib", "256"])
        .output()
        .unwrap();
    assert_eq!(
        analyze.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&analyze.stderr)
    );
    let document = parsed(&fs::read(out.join("analysis.json")).unwrap());
    let figures = document["figures"].as_array().unwrap();
    let rows = |id: &str| {
        let figure = figures.iter().find(|figure| figure["id"] == id).unwrap();
        figure["rows"].as_array().unwrap().clone()
    };
    for (kind, operations) in [("get", gets), ("put", puts), ("scan", seeks)] {
        let row = rows("composition")
            .into_iter()
            .find(|row| row[1] == kind)
            .unwrap();
        assert_eq!((&row[0], &row[2]), (&"default".into(), &operations.into()));
        // Whether a read found something is not known.
        assert_eq!((&row[5], &row[6]), (&Value::Null, &Value::Null), "{row}");
    }
    let put = rows("sizes")
        .into_iter()
        .find(|row| row[1] == "put" && row[2] == "value")
        .unwrap();
    let mean = value_bytes as f64 / puts as f64;
    assert!(
        (put[3].as_f64().unwrap() - mean).abs() < 1e-9 * mean,
        "{put} {mean}"
    );

    let model = run(&["model", text(&out)]);
    // The trace has no lengths of scans, so a model may be refused with that reason.
    match model.code {
        Some(0) => assert!(!model.out.is_empty()),
        _ => assert!(model.error.contains("scan"), "{}", model.error),
    }
}
