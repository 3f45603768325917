//! The commands on small scales, with EvenDB and with a store in memory.

use super::*;
use crate::experiments::tests::{self, Command, parsed};
use crate::stores::evendb::EvenDbOpener;
use crate::stores::memory::MemoryStore;
use clap::Parser;

const TINY: [&str; 3] = ["mixgraph", "--operations=3000", "--memory-mib=80"];

fn tiny(more: &[&str]) -> MixgraphArguments {
    parsed(TINY.iter().chain(&["--quick"]).chain(more))
}

fn measured(measure: &dyn Measure) -> Measured {
    let directory = tempfile::tempdir().unwrap();
    tests::measured(measure, &EvenDbOpener, directory.path())
}

#[test]
fn evendb_runs_presets_and_reports() {
    for preset in ["zippydb", "up2x"] {
        let arguments = tiny(&[preset]);
        let one = measured(&arguments);
        let cell = &one.figures["cells"][0];
        assert_eq!(cell["operations"], 3000);
        let report = arguments.report(&[one]);
        for words in [
            "prefix-dist",
            "get",
            "write amplif.",
            "B written/op",
            "evendb, round 1",
        ] {
            assert!(report.contains(words), "{words} in\n{report}");
        }
        assert!(!report.contains("NaN"), "{report}");
    }
}

#[test]
fn the_eight_benchmarks_stand_beside_the_study() {
    let arguments: AllocationsArguments = parsed(TINY.iter().chain(&["--scale=0.0002"]));
    let one = measured(&arguments);
    assert_eq!(one.figures["cells"].as_array().unwrap().len(), 8);
    let report = arguments.report(&[one]);
    let row = |table: &str, name: &str| -> Vec<String> {
        let start = report.find(table).unwrap();
        let line = report[start..]
            .lines()
            .find(|line| line.contains(&format!(" {name} ")));
        line.unwrap()
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    };
    for allocation in Allocation::FIGURE_14 {
        assert_eq!(row("kop/s", allocation.name()).len(), 12, "{report}");
    }
    // 6.2 divided by 1.43, and the figure by the replayed trace.
    let zipfian = row("By prefix-dist", "zipfian");
    assert_eq!(
        (&*zipfian[6], &*zipfian[7]),
        ("4.34", "6.20"),
        "{zipfian:?}"
    );
    let own = row("By prefix-dist", "prefix-dist");
    assert_eq!((&*own[6], &*own[7]), ("1.00", "1.43"), "{own:?}");
    assert!(!report.contains("NaN"), "{report}");
}

#[test]
fn operations_come_at_the_models_rate() {
    // 45,000 a second, so that 3,000 take a fifteenth of a second and no less.
    let arguments = tiny(&["--pace=model", "--faster=10"]);
    let model = arguments.scaled().unwrap();
    let cell = arguments
        .cell(
            (&MemoryStore::new(), None),
            &model,
            Allocation::PrefixDist,
            0,
        )
        .unwrap();
    assert_eq!(cell["intended_operations_per_second"], 45_000.0);
    assert_eq!(
        (cell["operations"].as_u64(), cell["not_started"].as_u64()),
        (Some(3000), Some(0))
    );
    assert!(cell["seconds"].as_f64().unwrap() > 0.05, "{cell}");
}

#[test]
fn what_cannot_be_run_is_told() {
    let told = |name: &str| model_named(name).unwrap_err().to_string();
    assert!(
        told("nothing")
            .contains("none of the presets (zippydb, zippydb-kinds, udb, udb-assoc, up2x)")
    );
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mine.toml");
    let text = presets::text("zippydb").unwrap();
    std::fs::write(&path, text.replace("get = 0.83", "get = 0.93")).unwrap();
    let told = told(path.to_str().unwrap());
    assert!(told.contains("mine.toml: line 13: mix.get"), "{told}");
    std::fs::write(&path, text.split("[rate]").next().unwrap()).unwrap();
    let arguments = tiny(&[path.to_str().unwrap(), "--pace=model"]);
    let error = arguments.begin().unwrap_err();
    assert!(error.to_string().contains("has no rate"), "{error}");
    assert!(tiny(&[path.to_str().unwrap()]).begin().unwrap());
}

#[test]
fn options_of_mixgraph_that_have_no_effect_are_refused() {
    let parses = |more: &str| {
        let arguments = ["mixgraph"].into_iter().chain(more.split(' '));
        Command::<MixgraphArguments>::try_parse_from(arguments).is_ok()
    };
    for idle in [
        "--print-model --scale 0.1",
        "--print-model --seconds 1",
        "--print-model --trace t",
        "--quick --scale 0.1",
        "--trace t --only-trace --threads 2",
        "--trace t --only-trace --seconds 1",
        "--trace t --only-trace --memory-mib 4",
        "--trace t --only-trace --pace model",
        "--trace t --only-trace --json j",
        "--trace t --only-trace --stores evendb",
        "--trace t --only-trace --replay r",
        "--trace t --only-trace --per-second 5 --faster 2",
    ] {
        assert!(!parses(idle), "{idle}");
    }
    for used in [
        "--print-model",
        "--quick --seconds 1 --threads 2",
        "--trace t --only-trace --quick --operations 5 --seed 3 --faster 2",
        "--trace t --only-trace --per-second 5 --allocation uniform",
    ] {
        assert!(parses(used), "{used}");
    }
    let error = tiny(&["--faster=2"]).begin().unwrap_err().to_string();
    assert!(error.contains("--faster has no effect"), "{error}");
    assert!(tiny(&["--faster=2", "--pace=model"]).begin().unwrap());
    // All eight allocations would be recorded in one file.
    let all: AllocationsArguments = parsed(["mixgraph", "--trace", "t"]);
    let error = all.begin().unwrap_err().to_string();
    assert!(error.contains("records one allocation"), "{error}");
}

#[test]
fn a_replayed_trace_of_scans_alone_or_that_is_torn_says_so_before_its_figures() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace");
    let mut writer = evendb_trace::Writer::new(Vec::new(), &Default::default()).unwrap();
    for number in 0..2000 {
        let mut scan =
            evendb_trace::Operation::new(evendb_trace::Kind::Scan, format!("{number:04}"));
        scan.count = Some(5);
        writer.add(&scan).unwrap();
    }
    let trace = writer.finish().unwrap().0;
    let torn = &trace[..trace.len() - 3];
    for (trace, is_whole) in [(&trace[..], true), (torn, false)] {
        std::fs::write(&path, trace).unwrap();
        let arguments = tiny(&["--replay", path.to_str().unwrap()]);
        let one = measured(&arguments);
        let text = one.figures["cells"][0]["text"].as_str().unwrap();
        assert!(
            text.starts_with("misses are measured: 2,000 of 2,000 scans (100.0 %)")
                && text.contains("--replay-keys"),
            "{text}"
        );
        assert_eq!(text.contains("the trace is not whole"), !is_whole, "{text}");
        let verdict = arguments.verdict(&[one]);
        assert_eq!(verdict.is_ok(), is_whole);
        if let Err(error) = verdict {
            let damaged = error.downcast_ref::<crate::recorder::RunError>();
            assert!(
                matches!(damaged, Some(crate::recorder::RunError::Damaged(what)) if what.contains("trace")),
                "{error}"
            );
        }
    }
}

#[test]
fn what_is_drawn_is_the_model() {
    for preset in presets::names() {
        let all = [
            "statistics",
            preset,
            "--scale=0.004",
            "--operations=1000000",
        ];
        let report = parsed::<StatisticsArguments>(all).report().unwrap();
        let heads = report.lines().skip(3).take_while(|line| !line.is_empty());
        for line in heads {
            let distance: f64 = line.split_whitespace().last().unwrap().parse().unwrap();
            assert!(distance < 0.02, "{preset}: {line}\n{report}");
        }
        assert!(report.contains("rate "), "{report}");
        // Kinds that have hot keys of their own are compared alone.
        assert_eq!(
            report.contains("ranges: put"),
            ["zippydb-kinds", "udb", "udb-assoc"].contains(&preset),
            "{report}"
        );
        assert_eq!(
            report.contains("generalized-pareto"),
            preset != "up2x",
            "{report}"
        );
    }
}

#[test]
fn a_trace_is_measured_beside_the_model() {
    let directory = tempfile::tempdir().unwrap();
    let (trace, keys) = (
        directory.path().join("trace"),
        directory.path().join("keys"),
    );
    let trace = trace.to_str().unwrap();
    // The trace is that of the same model.
    let drawn = [
        "mixgraph",
        "zippydb",
        "--scale=0.0002",
        "--operations=20000",
        "--trace",
        trace,
        "--only-trace",
        "--trace-keys",
        keys.to_str().unwrap(),
    ];
    assert!(!parsed::<MixgraphArguments>(drawn).begin().unwrap());
    let keys = std::fs::read_to_string(keys).unwrap();
    let digits = |key: &str| key.len() == 96 && key.bytes().all(|digit| digit.is_ascii_hexdigit());
    assert_eq!(keys.lines().count(), 10_000);
    assert!(keys.lines().all(digits), "{keys:.200}");
    let replayed = [
        "--scale=0.0002",
        "--allocation=prefix-dist",
        "--replay",
        trace,
    ];
    let arguments: AllocationsArguments = parsed(TINY.iter().chain(&replayed));
    assert!(arguments.begin().unwrap());
    let one = measured(&arguments);
    let cell = &one.figures["cells"][0];
    assert_eq!(
        (cell["allocation"].as_str(), cell["operations"].as_u64()),
        (Some("replay"), Some(20_000))
    );
    assert!(
        cell["figures"]["gets.absent"].as_u64().unwrap() < 20,
        "{cell}"
    );
    let report = arguments.report(&[one]);
    assert!(
        report.contains("By replay") && !report.contains("NaN"),
        "{report}"
    );
    let no_trace = directory.path().join("none");
    std::fs::write(&no_trace, "none").unwrap();
    let error = tiny(&["--replay", no_trace.to_str().unwrap()])
        .begin()
        .unwrap_err();
    assert!(error.to_string().contains("no trace"), "{error}");
}
