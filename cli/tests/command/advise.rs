//! `evendb advise`, on small loads with little time.

use crate::common::{Outcome, Place, evendb};
use std::fs;
use std::path::Path;

fn run(arguments: &[&str]) -> Outcome {
    Outcome::of(evendb().args(arguments).output().unwrap())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The rows of a figure.
fn rows(document: &serde_json::Value, id: &str) -> Vec<serde_json::Value> {
    let figures = document["figures"].as_array().unwrap();
    let figure = figures.iter().find(|figure| figure["id"] == id);
    let figure = figure.unwrap_or_else(|| panic!("no figure {id}"));
    figure["rows"].as_array().unwrap().clone()
}

fn fact(document: &serde_json::Value, name: &str) -> Option<String> {
    let facts = document["facts"].as_array().unwrap();
    let fact = facts.iter().find(|fact| fact[0] == name)?;
    Some(fact[1].as_str().unwrap().to_owned())
}

#[test]
fn a_small_load_is_advised_on_and_the_advice_checked() {
    let place = Place::new();
    let out = place.path("advice");
    // Three megabytes of data, and two of memory. The settings that are fixed leave few candidates.
    let arguments = [
        "advise",
        "udb-assoc",
        "--scale",
        "0.001",
        "--operations",
        "5000",
        "--memory-mib",
        "2",
        "--seconds",
        "8",
        "--set",
        "chunk-bytes=262144",
        "--set",
        "munks=on",
        "--out",
        text(&out),
    ];
    let done = run(&arguments);
    assert_eq!(done.code, Some(0), "{}", done.error);
    let said = String::from_utf8(done.out).unwrap();
    assert!(said.contains("Open EvenDB with a budget of"), "{said}");
    assert!(said.contains("chunk_bytes(262144)"), "{said}");
    let document = json(&out.join("advice.json"));
    let settings = fact(&document, "advised settings").unwrap();
    assert!(settings.contains("chunk-bytes=262144"), "{settings}");
    let aged = fact(&document, "written over before measuring, at most").unwrap();
    assert!(aged.ends_with('B'), "{aged}");
    let candidates = rows(&document, "candidates");
    assert_eq!(candidates[0][0], "default");
    assert_eq!(rows(&document, "load")[0][1], 5000);
    for run in rows(&document, "runs") {
        assert!(run[3].as_u64().unwrap() > 0, "{run}");
    }
    let page = fs::read_to_string(out.join("page.html")).unwrap();
    assert!(page.contains("What is advised") && page.contains("<svg"));
    assert_eq!(
        fs::read_dir(&out).unwrap().count(),
        2,
        "stores and drawn traces are removed"
    );

    let exhaustive = run(&[&arguments[..], &["--exhaustive", "--rounds", "1"]].concat());
    assert_eq!(exhaustive.code, Some(0), "{}", exhaustive.error);
    let said = String::from_utf8(exhaustive.out).unwrap();
    // In that time all are done, or the text says that they are not.
    assert!(
        said.contains("% slower than the best of all") || said.contains("no verdict yet"),
        "{said}"
    );
    assert!(!rows(&json(&out.join("exhaustive.json")), "exhaustive").is_empty());
    let other = ["--memory-mib", "3", "--exhaustive"];
    let other = [&arguments[..6], &other, &arguments[14..]].concat();
    run(&other).complains(1, "its memory is another one, and not 3.00 MiB");
}

#[test]
fn advice_on_a_part_of_a_trace_says_so_first_and_in_its_exit_code() {
    let place = Place::new();
    let line = |number: u64| match number % 3 {
        0 => format!("0,a{number},1,9,8,append,0\n"),
        1 => format!("0,c{number},1,9,8,set,0\n"),
        _ => format!("0,c{},1,9,8,get,0\n", number - 1),
    };
    let lines: String = (0..300).map(line).collect();
    let (from, trace) = (place.file("lines.csv", lines), place.path("trace"));
    let convert = run(&["trace", "convert", text(&from), text(&trace)]);
    assert_eq!(convert.code, Some(0), "{}", convert.error);
    let mut bytes = fs::read(&trace).unwrap();
    bytes.truncate(bytes.len() - 10);
    let torn = place.file("torn", bytes);
    let out = place.path("advice");
    let asked = ["--memory-mib", "2", "--seconds", "2", "--out", text(&out)];
    let left_out = "This advises on 200 of 300 operations of the load; left out: merges 100 (give";
    for (trace, merges, code, first) in [
        (&trace, None, 3, left_out),
        (&torn, Some("--merges=appends"), 5, "The trace is not whole"),
    ] {
        let more: Vec<_> = merges.into_iter().collect();
        let done = run(&[&["advise", text(trace)], &asked[..], &more].concat());
        assert_eq!(done.code, Some(code), "{}", done.error);
        let said = String::from_utf8(done.out).unwrap();
        assert!(said.starts_with(first), "{said}");
        let document = json(&out.join("advice.json"));
        let verdict = document["summary"]["verdict"].as_str().unwrap();
        assert!(verdict.starts_with(first), "{verdict}");
    }
}

#[test]
fn wrong_questions_are_told() {
    let place = Place::new();
    let out = place.path("out");
    let empty = place.file("empty.trace", "EvenDBtr");
    let ask = |source: &str, more: &[&str]| {
        let all = ["advise", source, "--memory-mib", "4", "--out", text(&out)];
        run(&[&all[..], more].concat())
    };
    ask("no-such", &[]).complains(1, "no trace of EvenDB, and no model");
    ask(text(&empty), &[]).complains(1, "shorter than a header");
    ask("up2x", &["--set", "munks"]).complains(1, "NAME=VALUE is needed");
    ask("up2x", &["--set", "monks=on"]).complains(1, "no setting `monks`");
    ask("up2x", &["--peers", "missing"]).complains(1, "no such program");
    ask("up2x", &["--analysis", "missing.json"]).complains(1, "missing.json");
    ask("up2x", &["--scale", "0.00001", "--load", "99999999"]).complains(1, "no load is left");
    ask("up2x", &["--scale", "2"]).complains(2, "at most 1");
    let small = ["--scale", "0.00001"];
    let ask_small = |source: &str, more: &[&str]| ask(source, &[&small[..], more].concat());
    ask_small("zippydb", &["--merges", "counters"]).complains(1, "--merges has no effect here");
    ask_small("zippydb", &["--value-bytes", "9"]).complains(1, "--value-bytes has no effect here");
    ask("up2x", &["--scale", "0.00001", "--exhaustive"]).complains(1, "without --exhaustive");
    let refused = ["--scale", "0.00001", "--set", "chunk-bytes=1"];
    ask("up2x", &refused).complains(1, "chunk_bytes must be between");
}
