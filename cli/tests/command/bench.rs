//! `evendb bench` and `evendb calibrate`.

use crate::common::{Outcome, Place, Terminal, evendb, on_a_terminal};
use crate::interrupt;
use std::fs;
use std::path::Path;
use std::process::Stdio;

fn bench(directory: &Path, more: &[&str]) -> Outcome {
    let mut command = evendb();
    command.arg("bench").arg("--dir").arg(directory);
    command
        .args(["--size", "100KiB", "--value-bytes", "100", "--ops", "300"])
        .args(more);
    Outcome::of(command.output().unwrap())
}

#[test]
fn bench_takes_the_space_that_it_is_given() {
    let place = Place::new();
    let flag = "--space-amplification";
    let done = bench(&place.path("larger"), &["--mixes", "P", flag, "2"]);
    assert_eq!(done.code, Some(0), "{}", done.error);
    let printed = String::from_utf8_lossy(&done.out);
    assert!(printed.contains("space amplification 2"), "{printed}");
    let refused = bench(&place.path("refused"), &["--mixes", "P", flag, "1"]);
    assert_eq!(refused.code, Some(2));
    let error = refused.error;
    assert!(error.contains("between 1.01 and 10"), "{error}");
}

#[test]
fn bench_runs_every_mix_and_writes_json() {
    let place = Place::new();
    let json = place.path("result.json");
    let mixes = [
        "--mixes",
        "P,A,B,C,D,E10,F",
        "--distributions",
        "zipf-composite,uniform",
    ];
    let outcome = bench(
        &place.path("bench"),
        &[&mixes[..], &["--json", json.to_str().unwrap()]].concat(),
    );
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let text = String::from_utf8_lossy(&outcome.out).into_owned();
    for words in [
        "load key order",
        "P zipf-composite",
        "F uniform",
        "D latest",
        "p99.9",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let result: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let phases = result["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 1 + 6 * 2 + 1, "load, six mixes twice, D once");
    assert!(
        phases[1..].iter().all(|phase| phase["operations"] == 300),
        "{result:#}"
    );
    bench(&place.path("bench"), &[]).complains(1, "not empty");
}

fn json_of(path: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// A reader of the output needs no other page: the measurement and its memory, the meaning of each
/// line, and the outcome.
#[test]
fn bench_explains_its_figures() {
    let place = Place::new();
    let json = place.path("result.json");
    let arguments = ["--mixes", "A,E10", "--distributions", "uniform"];
    let more = ["--json", json.to_str().unwrap()];
    let outcome = bench(&place.path("small"), &[&arguments[..], &more].concat());
    outcome.expect_code(0);
    let text = String::from_utf8_lossy(&outcome.out).into_owned();
    for words in [
        "99.97 KiB in all",
        "memory budget 512.00 MiB, the default; the data is 0 % of it and fits",
        "What the figures mean:",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let (head, blocks) = text.split_once("\n\nload ").unwrap();
    let explained = |label: &str| head.contains(&format!("\n  {label}"));
    let labels = blocks.lines().filter_map(|line| line.strip_prefix("  "));
    let labels: Vec<&str> = labels.map(|line| line[..18].trim()).collect();
    assert!(labels.contains(&"gets served by"), "{labels:?}");
    for label in labels {
        let operation = ["get", "put", "scan"].contains(&label);
        assert!(operation || explained(label), "{label} in {head}");
    }
    let last = text.lines().last().unwrap();
    assert!(
        last.starts_with("Shown: ") && last.contains("every answer checked and right"),
        "{last}"
    );
    assert!(
        last.contains("of the gets were answered from RAM"),
        "{last}"
    );
    assert_eq!(json_of(&json)["settings"]["memory_bytes"], 512 << 20);
    // If standard error is no terminal, lines show the progress, and nothing moves a cursor.
    assert!(
        outcome.error.starts_with("[1/3] load key order\n"),
        "{}",
        outcome.error
    );
    assert!(
        outcome.error.ends_with("[3/3] E10 uniform\n"),
        "{}",
        outcome.error
    );
    let plain = |text: &str| {
        text.chars()
            .all(|letter| letter == '\n' || !letter.is_control())
    };
    assert!(plain(&text) && plain(&outcome.error), "{outcome:?}");

    let mut tight = evendb();
    tight.args(["bench", "--memory", "1MiB", "--size", "4MiB", "--ops", "9"]);
    tight
        .args(["--mixes", "C", "--dir"])
        .arg(place.path("tight"));
    let tight = Outcome::of(tight.output().unwrap());
    let text = String::from_utf8_lossy(&tight.out).into_owned();
    assert!(
        text.contains("the data is 400 % of it and does not all fit"),
        "{text}"
    );
}

/// On a terminal every phase shows its progress, the first one and settling too.
#[cfg(unix)]
#[test]
fn bench_shows_progress_on_a_terminal() {
    let place = Place::new();
    let line = "--size 4MiB --ops 200 --mixes C --distributions uniform";
    let mut bench = evendb();
    bench.arg("bench").arg("--dir").arg(place.path("bench"));
    bench.args(line.split(' ')).stdin(Stdio::null());
    let (status, text) = on_a_terminal(bench, Terminal::OutputAndErrors);
    assert!(status.success(), "{text}");
    for words in [
        "\u{1b}[",
        "[1/2] load key order",
        ", settling",
        "[2/2] C uniform",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
}

#[test]
fn bench_at_a_rate_states_it() {
    let place = Place::new();
    let json = place.path("result.json");
    let to_json = ["--json", json.to_str().unwrap(), "--mixes", "A,F"];
    let open = ["--rate", "20000", "--arrivals", "poisson"];
    let outcome = bench(&place.path("open"), &[&to_json[..], &open].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let text = String::from_utf8_lossy(&outcome.out).into_owned();
    assert!(text.contains("20,000 op/s intended (poisson)"), "{text}");
    let result = json_of(&json);
    let phases = result["phases"].as_array().unwrap();
    assert!(
        phases[0]["intended_operations_per_second"].is_null(),
        "the load is a closed loop"
    );
    for phase in &phases[1..] {
        assert_eq!(phase["intended_operations_per_second"], 20000.0);
        assert_eq!(
            (&phase["operations"], &phase["not_started"]),
            (&300.into(), &0.into())
        );
    }
    for wrong in [
        &["--rate", "0"][..],
        &["--rate", "nan"],
        &["--arrivals", "even"],
    ] {
        assert_eq!(
            bench(&place.path("wrong"), wrong).code,
            Some(2),
            "{wrong:?}"
        );
    }
}

#[test]
fn bench_ingests_and_queries_an_event_log() {
    let place = Place::new();
    let json = place.path("result.json");
    let more = ["--event-log", "--json", json.to_str().unwrap()];
    let outcome = bench(&place.path("bench"), &more);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let result = json_of(&json);
    let [ingest, analytics] = &result["phases"].as_array().unwrap()[..] else {
        panic!("two phases: {result:#}");
    };
    // 100 KiB in events of 112 bytes.
    assert_eq!(
        (&ingest["phase"], &ingest["operations"]),
        (&"ingest".into(), &914.into())
    );
    assert_eq!(analytics["operations"], 300);
    assert!(
        analytics["records_scanned"].as_u64().unwrap() > 300,
        "{analytics:#}"
    );
    let both = ["--event-log", "--mixes", "A"];
    assert_eq!(bench(&place.path("wrong"), &both).code, Some(2));
}

#[test]
fn bench_runs_transactions() {
    let place = Place::new();
    let json = place.path("result.json");
    let more = [
        "--transactions",
        "low,high",
        "--json",
        json.to_str().unwrap(),
    ];
    let outcome = bench(&place.path("bench"), &more);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let result = json_of(&json);
    let phases = result["phases"].as_array().unwrap();
    let names: Vec<_> = phases.iter().map(|phase| &phase["phase"]).collect();
    assert_eq!(names, ["load", "transactions", "transactions"]);
    assert_eq!(phases[1]["operations"], 300);
    let refused = result["transactions"].as_array().unwrap();
    assert_eq!(
        (&refused[0]["contention"], &refused[1]["contention"]),
        (&"low".into(), &"high".into())
    );
    assert!(refused[1]["aborts_per_commit"].as_f64() >= Some(0.0));
    let both = ["--transactions", "low", "--mixes", "A"];
    assert_eq!(bench(&place.path("wrong"), &both).code, Some(2));
}

#[test]
fn bench_replays_a_log_and_tells_bad_lines() {
    let place = Place::new();
    let json = place.path("result.json");
    place.file("log", "app,time,bytes\n1,1,50\nwhat\n2 7\n# end\n3 8 0\n");
    let replay = |store: &str, more: &[&str]| {
        // No run writes over the report of another one.
        let _ = fs::remove_file(&json);
        let mut command = evendb();
        command.arg("bench").arg("--dir").arg(place.path(store));
        command.arg("--replay").arg(place.path("log"));
        command.arg("--json").arg(&json).args(more);
        Outcome::of(command.output().unwrap())
    };
    let told = replay("all", &["--threads", "3", "--rate", "1000"]);
    let told = told
        .complains(3, "log:3: ")
        .complains(3, "log:1: skipped as a heading: `app,time,bytes`")
        .complains(3, "1 line of 6 is no event\n");
    // It only puts.
    let shown = String::from_utf8(told.out).unwrap();
    assert!(shown.contains("Shown: 3 operations at "), "{shown}");
    assert!(
        shown.contains("; nothing was read, so no answer was checked"),
        "{shown}"
    );
    assert_eq!(
        json_of(&json)["settings"]["log"]["replay_heading"],
        "app,time,bytes"
    );
    let result = json_of(&json);
    assert_eq!(result["settings"]["log"]["replay_bad_lines"], 1);
    assert_eq!(result["phases"][0]["operations"], 3);
    assert_eq!(result["phases"][0]["user_bytes_written"], 50 + 800 + 3 * 12);
    assert_eq!(replay("one", &["--ops", "1"]).code, Some(0));
    assert_eq!(json_of(&json)["phases"][0]["operations"], 1);
    place.file("log", "1 1\n");
    assert_eq!(replay("good", &[]).code, Some(0));
    for (name, text) in [("refused", "a b c\nwhat 1\n"), ("empty", "")] {
        place.file("log", text);
        let outcome = replay(name, &[]);
        let shown = String::from_utf8(outcome.out.clone()).unwrap();
        assert!(!shown.contains("Shown:"), "{shown}");
        outcome.complains(1, "nothing was replayed");
    }
    fs::remove_file(place.path("log")).unwrap();
    replay("none", &[]).complains(1, "cannot read");
}

#[test]
fn calibrate_measures_and_leaves_nothing() {
    let place = Place::new();
    let missing = place.path("missing");
    let run = |dir: &Path, more: &[&str]| {
        let mut command = evendb();
        command
            .args(["calibrate", "--seconds", "0.01", "--dir"])
            .arg(dir)
            .args(more);
        Outcome::of(command.output().unwrap())
    };
    run(&missing, &[]).complains(1, "missing: No such file");
    let outcome = run(place.0.path(), &["--json"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let result: serde_json::Value = serde_json::from_slice(&outcome.out).unwrap();
    assert!(result["calibration"]["sync"]["per_second"]["median"].as_f64() > Some(0.0));
    assert_eq!(result["limits"].as_array().unwrap().len(), 8);
    assert_eq!(fs::read_dir(place.0.path()).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn an_interrupted_bench_reports_and_removes_its_store() {
    let place = Place::new();
    let mut child = evendb();
    child.env("TMPDIR", place.0.path());
    child.args([
        "bench",
        "--size",
        "1MiB",
        "--seconds",
        "600",
        "--mixes",
        "C",
    ]);
    child.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    // The first line of the output comes after the signal handlers.
    let mut first = [0; 1];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    interrupt(child.id());
    Outcome::of(child.wait_with_output().unwrap()).complains(130, "interrupted");
    assert_eq!(
        fs::read_dir(place.0.path()).unwrap().count(),
        0,
        "the store is removed"
    );
}

#[test]
fn a_model_is_printed_edited_and_run() {
    let place = Place::new();
    let mixgraph = |more: &[&str]| {
        let mut command = evendb();
        Outcome::of(command.arg("mixgraph").args(more).output().unwrap())
    };
    let printed = mixgraph(&["up2x", "--print-model"]);
    assert_eq!(printed.code, Some(0), "{}", printed.error);
    let text = String::from_utf8(printed.out).unwrap();
    assert!(text.contains("[mix]") && text.contains("# "), "{text}");

    let (file, json) = (place.path("mine.toml"), place.path("result.json"));
    fs::write(
        &file,
        text.replace("pairs = 4_710_000", "pairs = 4_000_000"),
    )
    .unwrap();
    let directory = place.path("stores");
    let [file, directory] = [&file, &directory].map(|path| path.to_str().unwrap());
    let small = [
        "--dir",
        directory,
        "--quick",
        "--rounds=1",
        "--operations=2000",
    ];
    let run = |more: &[&str]| mixgraph(&[&[file][..], &small[..], more].concat());
    let done = run(&[
        "--allocation=all-dist,uniform",
        "--json",
        json.to_str().unwrap(),
    ]);
    assert_eq!(done.code, Some(0), "{}", done.error);
    let report = String::from_utf8_lossy(&done.out).into_owned();
    for words in [
        "on 2,000 pairs",
        "all-dist",
        "uniform",
        "merge",
        "write amplif.",
    ] {
        assert!(report.contains(words), "{words} in {report}");
    }
    let result: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let cells = &result["results"][0]["figures"]["cells"];
    assert_eq!(cells[1]["allocation"], "uniform");

    let broken = text.replace("size = 8", "size = 9");
    fs::write(file, broken).unwrap();
    let refused = run(&[]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.error.contains("mix.merge: is above 0"),
        "{}",
        refused.error
    );
    assert!(refused.out.is_empty());
}

#[test]
fn a_model_of_six_keyspaces_is_run_traced_and_replayed_with_its_keys() {
    let place = Place::new();
    let evendb = |arguments: &[&str]| {
        let mut command = evendb();
        command.args(arguments).current_dir(place.0.path());
        Outcome::of(command.output().unwrap())
    };
    let small = ["mixgraph", "udb", "--scale", "0.00002", "--operations=2000"];
    let with = |more: &[&str]| evendb(&[&small[..], more].concat());
    let drawn = [
        "--only-trace",
        "--trace",
        "u.trace",
        "--trace-keys",
        "u.keys",
    ];
    let drawn = with(&drawn);
    assert_eq!(drawn.code, Some(0), "{}", drawn.error);
    let keys = fs::read_to_string(place.path("u.keys")).unwrap();
    // A fifty-thousandth of 20, 30, 10, 20, 40 and 10 million pairs.
    for (name, pairs) in [
        ("Object", 400),
        ("Assoc", 600),
        ("Assoc_count", 200),
        ("Object_2ry", 400),
        ("Assoc_2ry", 800),
        ("Non_SG", 200),
    ] {
        let own = keys
            .lines()
            .filter(|line| line.split('\t').next() == Some(name));
        assert_eq!(own.count(), pairs, "{name}");
    }
    let measured = with(&[
        "--rounds=1",
        "--replay",
        "u.trace",
        "--replay-keys",
        "u.keys",
        "--json",
        "result.json",
    ]);
    assert_eq!(measured.code, Some(0), "{}", measured.error);
    let report = String::from_utf8_lossy(&measured.out).into_owned();
    for words in [
        // A fifth of the trace warms the store.
        "1,600 operations (6 keyspaces) on 2,600 pairs",
        "Assoc_2ry: 7.00 % of the operations (40.00 % put",
        "are not those of the trace",
        "value bytes",
    ] {
        assert!(report.contains(words), "{words} in {report}");
    }
    let result = fs::read_to_string(place.path("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    let sizes = &result["results"][0]["figures"]["cells"][1]["sizes"];
    assert_eq!(sizes[0]["keyspace"], "Object");
    let replayed = evendb(&["replay", "u.trace", "--keys", "u.keys", "--prepare"]);
    assert_eq!(replayed.code, Some(0), "{}", replayed.error);
    let text = String::from_utf8_lossy(&replayed.out).into_owned();
    assert!(text.contains("2,600 listed keys were put before"), "{text}");
    assert!(text.contains("results compared, 0 differ"), "{text}");
    // A list whose lines name no keyspace fits none of the six.
    let bare: String = keys
        .lines()
        .map(|line| format!("{}\n", line.split('\t').next_back().unwrap()))
        .collect();
    fs::write(place.path("bare.keys"), bare).unwrap();
    let refused = evendb(&["replay", "u.trace", "--keys", "bare.keys"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.error.contains("line 1: a key without its keyspace"),
        "{}",
        refused.error
    );
}
