//! The commands on small scales, with EvenDB and with a store in memory.

use super::*;
use crate::experiments::tests::{self, Command, parsed};
use crate::stores::evendb::EvenDbOpener;
use crate::stores::memory::MemoryStore;
use crate::stores::simulated_blocks::SimulatedBlocksOpener;
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
        "--print-model --ycsb-sizes mean",
        "--trace t --only-trace --ycsb-sizes mean",
        "--quick --scale 0.1",
        "--trace t --only-trace --threads 2",
        "--trace t --only-trace --seconds 1",
        "--trace t --only-trace --memory-mib 4",
        "--trace t --only-trace --pace model",
        "--trace t --only-trace --json j",
        "--trace t --only-trace --stores evendb",
        "--trace t --only-trace --replay r",
        "--trace t --only-trace --compressible 50",
        "--trace t --only-trace --set compression=lz4",
        "--print-model --compressible 50",
        "--compressible 101",
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

/// A load of puts with values of 400 bytes, as a file in a directory.
fn of_large_values(directory: &Path) -> String {
    let text = "format = 1
        name = \"large\"
        pairs = 4000
        operations = 4000
        [mix]
        get = 0.2
        put = 0.8
        [keys]
        spread = \"constant\"
        size = 24
        [values.put]
        spread = \"constant\"
        size = 400
        [rate]
        a = 0.0
        b = 0.0
        c = 0.0
        d = 1000.0\n";
    let path = directory.join("large.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn all_benchmarks_and_the_replay_have_the_same_compression_ratio() {
    let directory = tempfile::tempdir().unwrap();
    let model = of_large_values(directory.path());
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (trace, keys) = (file("trace"), file("keys"));
    let drawn = [
        "--scale=1",
        "--only-trace",
        "--trace",
        &trace,
        "--trace-keys",
        &keys,
    ];
    let drawn: MixgraphArguments = parsed(["mixgraph", &model].iter().chain(&drawn));
    assert!(!drawn.begin().unwrap());
    let written = |set: &str| -> Vec<f64> {
        let more = [
            "--scale=1",
            "--memory-mib=80",
            "--replay",
            &trace,
            "--replay-keys",
            &keys,
        ];
        let stored = ["--compressible=78", "--set", set];
        let all = ["--allocation=prefix-dist,all-random,zipfian,uniform"];
        let words = ["mixgraph", &model]
            .into_iter()
            .chain(more)
            .chain(stored)
            .chain(all);
        let arguments: AllocationsArguments = parsed(words.collect::<Vec<_>>().iter());
        let one = measured(&arguments);
        let cells = one.figures["cells"].as_array().unwrap().clone();
        let figures = |cell: &Value| cell["load"]["figures"].clone();
        let tables = |figures: Value| {
            let of = |name: &str| figures[name].as_f64().unwrap();
            of("written.log") + of("written.sstable")
        };
        cells.iter().map(|cell| tables(figures(cell))).collect()
    };
    let (plain, packed) = (written("compression=none"), written("compression=lz4"));
    assert_eq!(packed.len(), 5);
    let ratios: Vec<f64> = plain
        .iter()
        .zip(&packed)
        .map(|(plain, packed)| plain / packed)
        .collect();
    let (least, most) = (
        ratios.iter().copied().fold(f64::MAX, f64::min),
        ratios.iter().copied().fold(0.0, f64::max),
    );
    assert!(least > 2.0 && most / least < 1.2, "{ratios:?}");
}

#[test]
fn a_setting_that_no_store_has_is_refused() {
    let begin = |more: &[&str]| tiny(more).begin().map_err(|error| error.to_string());
    assert!(begin(&["--set", "compression=lz4"]).unwrap());
    let error = begin(&["--set", "compression=zip"]).unwrap_err();
    assert!(error.contains("no value of compression"), "{error}");
    let error = begin(&["--set", "max-files-per-guard=2"]).unwrap_err();
    assert!(
        error.contains("chunks has no max-files-per-guard"),
        "{error}"
    );
    // Other stores have no settings of EvenDB: they take no part, and say so where one is named.
    let arguments = tiny(&["--set", "compression=lz4"]);
    assert!(arguments.takes_part(&EvenDbOpener));
    assert!(!arguments.takes_part(&SimulatedBlocksOpener));
    let directory = tempfile::tempdir().unwrap();
    let turn = Turn {
        opener: &SimulatedBlocksOpener,
        directory: directory.path(),
        round: 0,
    };
    let error = arguments.measure(turn).unwrap_err().to_string();
    assert!(
        error.contains("takes no settings, only evendb does"),
        "{error}"
    );
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
            text.starts_with("misses are measured: 1,600 of 1,600 scans (100.0 %)")
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

/// Draws a trace of this model and the list of its keys at this scale; returns their arguments.
fn drawn(
    directory: &Path,
    (model, scale): (&str, &str),
    operations: u64,
    seed: u64,
) -> [String; 4] {
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let operations = format!("--operations={operations}");
    let (seed, trace, keys) = (format!("--seed={seed}"), path("trace"), path("keys"));
    let words = [
        "mixgraph",
        model,
        scale,
        &operations,
        &seed,
        "--only-trace",
        "--trace",
        &trace,
        "--trace-keys",
        &keys,
    ];
    assert!(!parsed::<MixgraphArguments>(words).begin().unwrap());
    ["--replay".into(), trace, "--replay-keys".into(), keys]
}

/// The study's main result, its figure 14, on blocks that are counted: a benchmark with the model's
/// hot ranges asks for the blocks that the replayed trace asks for, and YCSB for far more.
#[test]
fn prefix_dist_is_nearest_on_simulated_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let scale = "--scale=0.001";
    // The trace has its hot ranges at other places than the benchmarks.
    let replay = drawn(directory.path(), ("zippydb", scale), 25_000, 7);
    // The study's cache of 256 MiB for 50 million pairs.
    let words = [
        "mixgraph",
        scale,
        "--operations=20000",
        "--memory-mib=0.256",
        "--threads=1",
        "--ycsb-sizes=mean",
    ];
    let words = words.map(str::to_owned).into_iter().chain(replay);
    let arguments: AllocationsArguments = parsed(words);
    let one = Measured {
        store: "simulated-blocks".to_owned(),
        round: 0,
        figures: arguments
            .measure(Turn {
                opener: &SimulatedBlocksOpener,
                directory: directory.path(),
                round: 0,
            })
            .unwrap(),
    };
    let cells = one.figures["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 9);
    let of = |name: &str, figure: &str| {
        let cell = cells.iter().find(|cell| cell["allocation"] == name);
        cell.unwrap()[figure].as_f64().unwrap()
    };
    for figure in ["read_calls", "cache_hits"] {
        let by_replay = |name: &str| of(name, figure) / of("replay", figure);
        let distance = |name: &str| by_replay(name).ln().abs();
        let told: Vec<_> = Allocation::FIGURE_14
            .map(|one| format!("{} {:.3}", one.name(), by_replay(one.name())))
            .to_vec();
        for allocation in Allocation::FIGURE_14 {
            let name = allocation.name();
            assert_eq!(of(name, "operations"), of("replay", "operations"));
            if allocation != Allocation::PrefixDist {
                assert!(
                    distance("prefix-dist") < distance(name),
                    "{figure}: {told:?}"
                );
            }
            if allocation.is_ycsb() {
                // At least 6 times the reads, and 0.17 of the hits, in the study.
                let (less, more) = ("cache_hits", "read_calls");
                assert!(
                    figure == more && by_replay(name) > 1.5
                        || figure == less && by_replay(name) < 0.8,
                    "{figure}: {told:?}"
                );
            }
        }
        assert!(
            (0.9..1.1).contains(&by_replay("prefix-dist")),
            "{figure}: {told:?}"
        );
    }
}

/// Notes the puts that a store is asked for.
#[derive(Default)]
struct Noting {
    store: MemoryStore,
    puts: parking_lot::Mutex<Vec<(Vec<u8>, usize)>>,
}

impl Store for Noting {
    crate::passed_on!(store: name, get, delete, scan, batch, stats, settle_debt, close);

    fn put(&self, key: &[u8], value: &[u8]) -> crate::store::StoreResult<()> {
        self.puts.lock().push((key.to_vec(), value.len()));
        self.store.put(key, value)
    }
}

#[test]
fn a_replay_and_a_benchmark_begin_with_the_same_puts_in_the_same_order() {
    begins_with_the_same_puts(("zippydb", "--scale=0.0001"));
}

#[test]
fn a_replay_of_several_keyspaces_begins_as_its_benchmark_does() {
    begins_with_the_same_puts(("udb", "--scale=0.00001"));
}

fn begins_with_the_same_puts((model, scale): (&str, &str)) {
    let directory = tempfile::tempdir().unwrap();
    let replay = drawn(directory.path(), (model, scale), 2_000, 1);
    let words = ["mixgraph", model, scale, "--operations=100", "--threads=1"];
    let words = words.map(str::to_owned);
    let arguments: MixgraphArguments = parsed(words.into_iter().chain(replay));
    let model = arguments.scaled().unwrap();
    let trace = arguments.replay.as_deref().unwrap();
    let keys = paired(&arguments.replay_keys, &arguments.replay_keys_of).unwrap();
    let replayed = Replayed::new(trace, keys, model.operations).unwrap();
    assert_eq!(replayed.operations(), 100);
    let (of_replay, of_benchmark) = (Noting::default(), Noting::default());
    let load = Load::new(&model, Allocation::PrefixDist, 1);
    replayed.cell(&of_replay, &load, 1).unwrap();
    let allocation = Allocation::Zipfian;
    arguments
        .cell((&of_benchmark, None), &model, allocation, 0)
        .unwrap();
    let puts = |store: Noting| store.puts.into_inner();
    let (of_replay, of_benchmark) = (puts(of_replay), puts(of_benchmark));
    let pairs = model.pairs() as usize;
    assert_eq!(of_replay[..pairs], of_benchmark[..pairs]);
    assert!(!of_replay[..pairs].is_sorted());
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
        "mixgraph",
        "--memory-mib=80",
        "--scale=0.0002",
        // A fifth of the trace warms the store, and the rest is measured.
        "--operations=30000",
        "--allocation=prefix-dist",
        "--replay",
        trace,
    ];
    let arguments: AllocationsArguments = parsed(replayed);
    assert!(arguments.begin().unwrap());
    let one = measured(&arguments);
    let cell = &one.figures["cells"][0];
    assert_eq!(
        (cell["allocation"].as_str(), cell["operations"].as_u64()),
        (Some("replay"), Some(16_000))
    );
    assert_eq!(one.figures["cells"][1]["operations"], 16_000);
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
