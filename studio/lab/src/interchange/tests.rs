use evendb_model::access::{Accesses, Ranges};
use evendb_model::curve::{Curve, Shape};
use evendb_model::{Model, presets};

use super::popularity::Popularity;
use super::{db_bench, ycsb};

fn preset(name: &str) -> Model {
    presets::named(name).unwrap()
}

/// The study's appendix prints this command line for Prefix_dist. The model of that load says the
/// same, flag by flag.
#[test]
fn zippydb_is_the_command_line_of_the_studys_appendix() {
    let text = db_bench::to_commands(&preset("zippydb"));
    for flag in [
        "--num=50000000",
        "--reads=420000000",
        "--key_size=48",
        "--value_size=43",
        "--keyrange_dist_a=14.18",
        "--keyrange_dist_b=-2.917",
        "--keyrange_dist_c=0.0164",
        "--keyrange_dist_d=-0.08082",
        "--keyrange_num=30",
        "--value_k=0.2615",
        "--value_sigma=25.45",
        "--iter_k=2.517",
        "--iter_sigma=14.236",
        "--mix_get_ratio=0.83",
        "--mix_put_ratio=0.14",
        "--mix_seek_ratio=0.03",
        "--sine_mix_rate_interval_milliseconds=5000",
        "--sine_a=1000",
        "--sine_b=0.000073",
        "--sine_d=4500",
        "--key_dist_a=0.002312",
        "--key_dist_b=0.3467",
        "--cache_size=268435456",
    ] {
        let mut words = text.split_whitespace();
        assert!(words.any(|word| word == flag), "{flag} is not in\n{text}");
    }
    assert!(text.lines().all(|line| line.len() <= 110), "{text}");
}

#[test]
fn what_was_written_for_db_bench_comes_back() {
    let model = preset("zippydb");
    let read = db_bench::from_commands(&db_bench::to_commands(&model)).unwrap();
    let same = Model {
        name: read.model.name.clone(),
        about: read.model.about.clone(),
        ..model
    };
    assert_eq!(read.model, same);
    assert_eq!(read.notes, Vec::<String>::new());
    // A file of a model can be made of it.
    assert_eq!(
        Model::from_toml(&read.model.to_toml().unwrap()).unwrap(),
        same
    );
}

#[test]
fn what_db_bench_cannot_say_is_in_comments() {
    let of = |name| db_bench::to_commands(&preset(name));
    let kinds = of("zippydb-kinds");
    assert!(
        kinds.contains("of the kind delete") && kinds.contains("hot keys of their own"),
        "{kinds}"
    );
    let udb = of("udb-assoc");
    assert!(
        udb.contains("power-constant") && udb.contains("histogram"),
        "{udb}"
    );
    let up2x = of("up2x");
    assert!(up2x.contains("of the kind merge"), "{up2x}");
    // Every preset becomes command lines that can be read, one for each of its keyspaces.
    for name in presets::names() {
        let workload = presets::workload(name).unwrap();
        let each = workload.keyspaces.iter();
        let families: Vec<Model> = match workload.only() {
            Some(only) => vec![only],
            None => each
                .map(|one| workload.of_keyspace(&one.name).unwrap())
                .collect(),
        };
        for model in families {
            let read = db_bench::from_commands(&db_bench::to_commands(&model)).unwrap();
            read.model
                .to_toml()
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(read.model.pairs, model.pairs);
        }
    }
}

/// A power of ranges becomes a two-term exponential. It says how far it is off, and that is true.
#[test]
fn another_curve_of_ranges_is_fitted() {
    let curve = Curve::new(Shape::PowerConstant, vec![1.0, -1.1, 0.005]).unwrap();
    let ranges = Ranges { count: 60, curve };
    let shares = ranges.shares().unwrap();
    let model = Model {
        ranges: Some(ranges),
        ..preset("zippydb")
    };
    let text = db_bench::to_commands(&model);
    let read = db_bench::from_commands(&text)
        .unwrap()
        .model
        .ranges
        .unwrap();
    assert_eq!((read.count, read.curve.shape), (60, Shape::TwoExponentials));
    let off: f64 = shares
        .iter()
        .zip(read.shares().unwrap())
        .map(|(a, b)| (a - b).abs() / 2.0)
        .sum();
    let words: Vec<_> = text
        .split_whitespace()
        .filter(|word| *word != "#")
        .collect();
    let text = words.join(" ");
    assert!(
        text.contains(&format!(
            "{:.2} % of the accesses go to another range",
            100.0 * off
        )),
        "{text}"
    );
    assert!(off < 0.12, "{off}");
}

#[test]
fn command_lines_of_others_are_read() {
    let text = "# fill first\n./db_bench -benchmarks=fillrandom -num=7\n\
                ./db_bench -benchmarks=\"mixgraph,stats\" -num=1000 \\\n  -reads 5000 -key_size=4 --mix_get_ratio=3 -mix_put_ratio=1 \
                -value_k=0 -value_sigma=0 -value_theta=77 -compression_ratio=0.25 -threads=8\n";
    let db_bench::Read { model, notes } = db_bench::from_commands(text).unwrap();
    assert_eq!((model.pairs, model.operations), (1000, 5000));
    assert_eq!(
        (model.mix.get, model.mix.put, model.mix.scan),
        (0.75, 0.25, 0.0)
    );
    assert_eq!(model.values.sizes.mean(), 77.0);
    assert_eq!(
        (model.values.compressible, model.values.loaded.mean()),
        (75, 100.0)
    );
    assert_eq!(
        (&model.ranges, model.accesses, model.rate, &model.scans),
        (&None, None, None, &None)
    );
    assert_eq!(model.memory_bytes, None);
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes[0].contains("8 bytes") && notes[1].contains("--threads"),
        "{notes:?}"
    );
}

/// Numbers that make the known tool divide by zero or wrap are errors with the flag's name.
#[test]
fn flags_without_a_meaning_are_refused_by_name() {
    let of =
        |flags: &str| db_bench::from_commands(&format!("db_bench --benchmarks=mixgraph {flags}"));
    for (flags, name) in [
        ("--key_dist_a=-1 --key_dist_b=0.5", "key_dist_a"),
        ("--key_dist_a=1 --key_dist_b=2", "key_dist_b"),
        ("--value_sigma=-1", "value_sigma"),
        ("--num=0", "num"),
        ("--mix_get_ratio=-1", "mix_get_ratio"),
        ("--mix_get_ratio=0", "mix_get_ratio"),
        ("--sine_mix_rate=1 --sine_a=5 --sine_d=5", "sine_d"),
        ("--compression_ratio=7", "compression_ratio"),
        ("--keyrange_dist_a=nan", "keyrange_dist_a"),
        ("--keyrange_dist_a=-1 --keyrange_num=3", "keyrange_dist_a"),
    ] {
        let error = of(flags).unwrap_err();
        assert!(error.contains(name), "{flags}: {error}");
    }
    assert!(db_bench::from_commands("db_bench --benchmarks=fillseq").is_err());
    // One of the two is 0: db_bench has no hot keys then.
    assert_eq!(of("--key_dist_a=0.1").unwrap().model.accesses, None);
}

#[test]
fn the_hottest_part_of_the_pairs_has_the_share_that_the_model_says() {
    // One range: the share of the hottest x is a x^b itself.
    let (a, b) = (0.01, 0.5);
    let model = Model {
        pairs: 10_000,
        ranges: None,
        accesses: Some(Accesses::Cumulative { a, b }),
        ..preset("zippydb")
    };
    let popularity = Popularity::of(&model).unwrap();
    for part in [0.0001, 0.01, 0.25, 1.0_f64] {
        let expected = a * (part * 10_000.0).powf(b);
        let share = popularity.of_hottest(part);
        assert!(
            (share / expected - 1.0).abs() < 0.05,
            "{part}: {share} {expected}"
        );
    }
    let even = Model {
        accesses: None,
        ..model
    };
    let popularity = Popularity::of(&even).unwrap();
    assert!((popularity.of_hottest(0.3) - 0.3).abs() < 1e-9);
}

#[test]
fn the_nearest_distribution_of_ycsb_is_chosen() {
    let base = Model {
        ranges: None,
        pairs: 100_000,
        ..preset("zippydb")
    };
    let lines = |accesses| {
        let text = ycsb::to_parameters(&Model {
            accesses,
            ..base.clone()
        });
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let has = |lines: &[String], line: &str| {
        assert!(
            lines.iter().any(|one| one == line),
            "{line} not in {lines:?}"
        )
    };
    has(&lines(None), "requestdistribution=uniform");
    let zipf = lines(Some(Accesses::ByRank { b: -0.99 }));
    for line in [
        "requestdistribution=zipfian",
        "recordcount=100000",
        "operationcount=420000000",
        "readproportion=0.83",
        "updateproportion=0.14",
        "scanproportion=0.03",
        "fieldcount=1",
        "scanlengthdistribution=uniform",
        "zeropadding=44",
    ] {
        has(&zipf, line);
    }
    let hot = lines(Some(Accesses::Cumulative { a: 0.03, b: 0.333 }));
    has(&hot, "requestdistribution=hotspot");
}

#[test]
fn what_ycsb_cannot_say_is_in_comments() {
    let kinds = ycsb::to_parameters(&preset("zippydb-kinds"));
    assert!(
        kinds.contains("are deletes") && kinds.contains("-target"),
        "{kinds}"
    );
    let up2x = ycsb::to_parameters(&preset("up2x"));
    assert!(up2x.contains("readmodifywriteproportion=0.925"), "{up2x}");
}
