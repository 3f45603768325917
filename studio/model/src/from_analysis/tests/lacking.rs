//! Loads that lack something: kinds, lengths, times, operations. And figures whose content a model
//! must not lose.

use super::*;
use crate::model::Kind;

/// All kinds of a trace, with the kinds that a model does not have.
const KINDS: [&str; 18] = [
    "get",
    "contains",
    "get_for_update",
    "multi_get",
    "put",
    "ingest",
    "delete",
    "single_delete",
    "merge",
    "scan",
    "pop",
    "delete_range",
    "begin",
    "commit",
    "abort",
    "batch_commit",
    "other",
    "stored",
];

/// The number of operations of each kind, whether lengths are known, and the number of seconds.
const LACKS: [(u64, bool, u64); 5] = [
    (1, true, 9),
    (1, false, 0),
    (40, false, 0),
    (40, true, 0),
    (40, false, 9),
];

/// The figures of an analysis, and their columns.
const COLUMNS: [(&str, &[&str]); 9] = [
    ("composition", &["keyspace", "kind", "operations"]),
    (
        "access-ranks",
        &["keyspace", "kind", "rank", "accesses", "accesses_up_to"],
    ),
    (
        "access-counts",
        &["keyspace", "kind", "accesses", "keys", "keys_up_to"],
    ),
    ("rates", &["keyspace", "kind", "time", "per_second"]),
    ("unique-keys", &["keyspace", "period_seconds", "new_keys"]),
    ("key-sizes", &SIZES),
    ("value-sizes", &SIZES),
    (
        "scan-lengths",
        &["keyspace", "records", "scans", "scans_up_to"],
    ),
    ("ranges", &["keyspace", "kind", "range", "accesses"]),
];

/// An analysis of `each` operations of each of these kinds, without what the load does not have:
/// sizes of values and lengths of scans if `with_lengths` is false, times if all operations come at
/// one moment.
fn analysis(kinds: &[&str], each: u64, with_lengths: bool, seconds: u64) -> Document {
    let mut rows: BTreeMap<&str, Vec<Vec<Value>>> = BTreeMap::new();
    let mut add = |id: &'static str, row: Vec<Value>| rows.entry(id).or_default().push(row);
    for kind in kinds.iter().filter(|_| each > 0) {
        let of = |cells: &[Value]| [&[json!("app"), json!(kind)], cells].concat();
        add("composition", of(&[json!(each)]));
        if ["begin", "commit", "abort", "batch_commit", "other"].contains(kind) {
            continue;
        }
        for rank in 1..=each {
            add(
                "access-ranks",
                of(&[json!(rank), json!(1), json!(rank as f64 / each as f64)]),
            );
        }
        add("access-counts", of(&[json!(1), json!(each), json!(1.0)]));
        add("key-sizes", of(&[json!(9), json!(each), json!(1.0)]));
        add("ranges", of(&[json!(0), json!(each)]));
        for time in 0..seconds {
            add(
                "rates",
                of(&[json!(time), json!(each as f64 / seconds as f64)]),
            );
        }
        if with_lengths && ["get", "put", "merge"].contains(kind) {
            add("value-sizes", of(&[json!(50), json!(each), json!(1.0)]));
        }
        if with_lengths && *kind == "scan" {
            add(
                "scan-lengths",
                vec![json!("app"), json!(20), json!(each), json!(1.0)],
            );
        }
    }
    if seconds > 0 && each > 0 {
        add(
            "unique-keys",
            vec![
                json!("app"),
                json!(seconds),
                json!(each * kinds.len() as u64),
            ],
        );
    }
    let figures = COLUMNS.into_iter().filter_map(|(id, columns)| {
        // The composition is there even if it has no rows.
        let rows = rows.remove(id).or((id == "composition").then(Vec::new))?;
        Some(figure(id, columns, rows))
    });
    let mut found = Document::new("a load");
    found.figures = figures.collect();
    found
}

#[test]
fn a_model_is_made_of_every_kind_and_every_pair_of_kinds_whatever_the_analysis_lacks() {
    let mut pairs = 0;
    for (at, one) in KINDS.iter().enumerate() {
        for other in &KINDS[at..] {
            let kinds = if one == other {
                vec![*one]
            } else {
                vec![*one, *other]
            };
            // A kind alone lacks everything that a load may lack. A pair of kinds lacks one of it.
            let cases = LACKS.iter().cycle().skip(pairs);
            let cases = cases.take(if one == other { LACKS.len() } else { 1 });
            pairs += 1;
            for &(each, with_lengths, seconds) in cases {
                let found = analysis(&kinds, each, with_lengths, seconds);
                let made = make(&found, &Known::default());
                let case = format!("{kinds:?} {each} {with_lengths} {seconds}");
                if kinds.iter().all(|kind| kind_of(kind).is_none()) {
                    assert!(
                        matches!(made, Err(MakeError::Nothing(_))),
                        "{case}: {made:?}"
                    );
                    continue;
                }
                let made = made.unwrap_or_else(|error| panic!("{case}: {error}"));
                let text = made.to_toml().unwrap();
                assert_eq!(Model::from_toml(&text).unwrap(), made.model, "{case}");
                let modelled = kinds.iter().filter(|kind| kind_of(kind).is_some()).count();
                assert_eq!(made.model.operations, each * modelled as u64, "{case}");
                let unknown = made.unknown.join("\n");
                let is_told = |what: &str| unknown.contains(what);
                assert_eq!(
                    is_told("Scans: "),
                    kinds.contains(&"scan") && !with_lengths,
                    "{case}"
                );
                assert_eq!(is_told("Rate: "), seconds == 0, "{case}");
            }
        }
    }
}

#[test]
fn of_no_operations_no_model_is_made_and_the_reason_is_told() {
    let error = make(&analysis(&["get"], 0, true, 0), &Known::default()).unwrap_err();
    assert_eq!(
        error,
        MakeError::Nothing("the trace has no operations".to_owned())
    );
    let error = make(&Document::new("empty"), &Known::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the analysis has no figure \"composition\""
    );
}

#[test]
fn scans_of_unknown_length_have_the_length_that_is_asked_for_or_one_record() {
    let unknown = analysis(&["get", "scan"], 40, false, 9);
    let with = |found: &Document, scan_length| {
        let known = Known {
            scan_length,
            ..Known::default()
        };
        make(found, &known)
    };
    let scans = |made: &Made| made.model.scans.clone().unwrap();
    let made = with(&unknown, None).unwrap();
    assert_eq!(scans(&made), Sizes::constant(1));
    assert!(
        made.unknown
            .join("\n")
            .contains("does not say how many records"),
        "{:?}",
        made.unknown
    );
    let made = with(&unknown, Some(30)).unwrap();
    assert_eq!(scans(&made), Sizes::constant(30));
    assert!(made.model.mix.scan == 0.5 && !made.unknown.join(" ").contains("Scans"));
    let told = analysis(&["get", "scan"], 40, true, 9);
    assert_eq!(scans(&with(&told, None).unwrap()), Sizes::constant(20));
    let error = with(&told, Some(30)).unwrap_err().to_string();
    assert!(error.contains("no length can be given"), "{error}");
}

#[test]
fn backward_scans_and_single_deletes_are_in_the_model() {
    let mut found = analysis(&["scan", "single_delete"], 40, true, 9);
    for figure in &mut found.figures {
        if figure.id == "scan-lengths" {
            figure.id = "scan-lengths-reverse".to_owned();
        }
    }
    let made = make(&found, &Known::default()).unwrap();
    assert_eq!(made.model.scans, Some(Sizes::constant(20)));
    assert_eq!((made.model.mix.delete, made.model.mix.scan), (0.5, 0.5));
}

/// Gets whose values have these sizes: a size and its number of gets.
fn of_sizes(sizes: &[(u64, u64)]) -> Document {
    let total: u64 = sizes.iter().map(|(_, count)| count).sum();
    let mut found = analysis(&["get"], 40, false, 9);
    let (mut up_to, mut rows) = (0, Vec::new());
    for (size, count) in sizes {
        up_to += count;
        let share = up_to as f64 / total as f64;
        rows.push(vec![
            json!("app"),
            json!("get"),
            json!(size),
            json!(count),
            json!(share),
        ]);
    }
    let columns = [
        "keyspace",
        "kind",
        "bytes",
        "operations",
        "operations_up_to",
    ];
    found.figures.push(figure("value-sizes", &columns, rows));
    found
}

#[test]
fn a_histogram_of_sizes_has_the_mean_of_what_was_counted() {
    // Sizes that no formula fits: two humps, a wide one and one far above.
    let hump = |middle: u64, width: u64, step: usize| {
        (middle - width..=middle + width)
            .step_by(step)
            .map(move |size| {
                let off = size.abs_diff(middle) as f64 / width as f64;
                (size, (1000.0 * (1.0 - off * off)) as u64 + 1)
            })
    };
    let mut sizes: Vec<_> = hump(600, 500, 7).chain(hump(90_000, 9000, 97)).collect();
    let total: u64 = sizes.iter().map(|(_, count)| count).sum();
    let mean = sizes
        .iter()
        .map(|(size, count)| (size * count) as f64)
        .sum::<f64>()
        / total as f64;
    let made = make(&of_sizes(&sizes), &Known::default()).unwrap();
    let values = &made.model.values.loaded;
    assert!(
        matches!(values.spread, Spread::Histogram(_)),
        "{:?}",
        made.notes
    );
    let off = values.mean() / mean - 1.0;
    assert!(off.abs() < 1e-3, "{off}");
    // In a thinned figure, operations between two rows are in their middle.
    let before = sizes.len();
    let (mut up_to, mut rows) = (0.0, Vec::new());
    for (size, count) in sizes.drain(..) {
        up_to += count as f64 / total as f64;
        rows.push(vec![
            json!("app"),
            json!("get"),
            json!(size),
            json!(count),
            json!(up_to),
        ]);
    }
    let last = rows.last().cloned();
    let mut largest = 0.0;
    rows.retain(|row| {
        let size = row[2].as_f64().unwrap();
        let stays = size >= largest * 1.02;
        largest = if stays { size } else { largest };
        stays
    });
    rows.extend(last);
    assert!(rows.len() < before);
    let mut found = of_sizes(&[(1, 1)]);
    found.figures.last_mut().unwrap().rows = rows;
    let made = make(&found, &Known::default()).unwrap();
    let off = made.model.values.loaded.mean() / mean - 1.0;
    assert!(off.abs() < 3e-3, "{off}");
}

/// Gets at these rates, one for each second.
fn of_rates(rates: impl Iterator<Item = f64>) -> Made {
    let mut found = analysis(&["get"], 40, true, 9);
    let rows = rates.zip(0u32..);
    let rows = rows.map(|(rate, time)| vec![json!("app"), json!("get"), json!(time), json!(rate)]);
    let figure = found.figures.iter_mut().find(|figure| figure.id == "rates");
    figure.unwrap().rows = rows.collect();
    make(&found, &Known::default()).unwrap()
}

#[test]
fn a_rate_stays_where_rates_were_measured_whatever_the_fit_says() {
    let noise = || even(GOLDEN).map(|unit| (unit - 0.5) * 20.0);
    let rises = (0..60).map(f64::from);
    // Parts of a swing without bounds in the data: a line, a curve upwards, a fall.
    let courses: [Vec<f64>; 3] = [
        rises.clone().map(|time| 100.0 + 7.0 * time).collect(),
        rises
            .clone()
            .map(|time| 100.0 + 0.3 * time * time)
            .collect(),
        rises.map(|time| 1000.0 * (-time / 30.0).exp()).collect(),
    ];
    for course in courses {
        let course: Vec<f64> = course
            .iter()
            .zip(noise())
            .map(|(rate, off)| rate + off)
            .collect();
        let (least, most) = (
            course.iter().copied().fold(f64::MAX, f64::min),
            course.iter().copied().fold(0.0, f64::max),
        );
        let made = of_rates(course.into_iter());
        let rate = made.model.rate.unwrap();
        let beyond = 0.25 * (most - least);
        assert!(
            rate.d >= least && rate.d + rate.a.abs() <= most + beyond,
            "{rate:?} of {least} to {most}: {:?}",
            made.notes
        );
    }
    // A whole swing comes back.
    let swing = (0..60).map(|time| 500.0 + 200.0 * (f64::from(time) * 0.15).sin());
    let rate = of_rates(swing).model.rate.unwrap();
    assert!(
        (rate.d - 500.0).abs() < 5.0 && (rate.a - 200.0).abs() < 5.0,
        "{rate:?}"
    );
}

#[test]
fn a_burst_at_the_beginning_is_told_and_is_no_part_of_the_rate() {
    let noise = || even(GOLDEN).map(|unit| (unit - 0.5) * 20.0);
    let steady = |from: u32| (from..100).zip(noise()).map(|(_, off)| 500.0 + off);
    for burst in [vec![50_000.0], vec![50_000.0, 8000.0, 2000.0]] {
        let after = steady(burst.len() as u32);
        let made = of_rates(burst.into_iter().chain(after));
        let rate = made.model.rate.unwrap();
        assert!(
            (rate.d - 500.0).abs() < 5.0 && rate.a.abs() < 20.0,
            "{rate:?}"
        );
        let notes = made.notes.join("\n");
        assert!(
            notes.contains("up to 50000.0 operations a second, are a burst"),
            "{notes}"
        );
    }
    // Peaks that come again and again belong to the load.
    let peaks = (0..100).map(|time| if time % 10 == 0 { 5000.0 } else { 500.0 });
    let rate = of_rates(peaks).model.rate.unwrap();
    assert!((rate.d - 950.0).abs() < 60.0, "{rate:?}");
}

#[test]
fn the_rate_has_the_period_that_was_found() {
    let noise = || {
        even(GOLDEN)
            .zip(even(ROOT))
            .map(|(one, other)| 60.0 * (one + other - 1.0))
    };
    let swing = (0..240).map(|time| 500.0 + 100.0 * (f64::from(time) * 0.3).sin());
    let made = of_rates(swing.zip(noise()).map(|(rate, off)| rate + off));
    let (rate, notes) = (made.model.rate.unwrap(), made.notes.join("\n"));
    assert!((rate.b - 0.3).abs() < 0.002, "{rate:?}: {notes}");
    assert!(
        (rate.a - 100.0).abs() < 10.0 && (rate.d - 500.0).abs() < 5.0,
        "{rate:?}"
    );
    // 2 pi / 0.3 seconds.
    let told = |seconds: &str| notes.contains(&format!("a sine of the period of {seconds}"));
    assert!(
        ["20.", "21."].iter().any(|seconds| told(seconds)),
        "{notes}"
    );
    // Peaks of a job are a period, and no sine.
    let peaks = (0..100).map(|time| if time % 10 == 0 { 5000.0 } else { 500.0 });
    let made = of_rates(peaks);
    let (rate, notes) = (made.model.rate.unwrap(), made.notes.join("\n"));
    assert_eq!(rate.a, 0.0);
    assert!(
        notes.contains("the period of 10.0 seconds (strength 1.000), but no sine"),
        "{notes}"
    );
}

#[test]
fn the_share_of_keys_named_once_is_told_beside_that_of_the_model() {
    let load = zippydb(0.5);
    let found = document(&load, &Sizes::constant(40), &Sizes::constant(1));
    let known = Known {
        pairs: Some(load.pairs),
        ..Known::default()
    };
    let made = make(&found, &known).unwrap();
    let note = |made: &Made| {
        let mut notes = made.notes.iter();
        notes
            .find(|note| note.contains("Keys named once"))
            .cloned()
            .unwrap()
    };
    let numbers = |note: &str| -> Vec<f64> {
        let words = note.split([' ', '.', ';']).collect::<Vec<_>>();
        let shares = words
            .windows(2)
            .filter(|pair| pair[0] == "0" || pair[0] == "1");
        shares
            .map(|pair| format!("{}.{}", pair[0], pair[1]).parse().unwrap())
            .collect()
    };
    // The note tells what the model itself draws.
    let told = note(&made);
    let [counted, expected] = numbers(&told)[..] else {
        panic!("{told}")
    };
    assert!(
        (counted - expected).abs() < 0.05 && !told.contains("Attention"),
        "{told}"
    );
    // Hot keys and a long tail of keys that come once. No curve with one parameter has this form.
    let mut found = analysis(&["get"], 40, true, 9);
    let counts = (0..200)
        .map(|at| 4000 / (at / 20 + 1))
        .chain((0..800).map(|_| 1));
    let counts: Vec<u64> = counts.collect();
    let total: u64 = counts.iter().sum();
    let mut up_to = 0;
    let ranks = counts.iter().zip(1u64..).map(|(count, rank)| {
        up_to += count;
        let share = up_to as f64 / total as f64;
        vec![
            json!("app"),
            json!("get"),
            json!(rank),
            json!(count),
            json!(share),
        ]
    });
    let ranks: Vec<_> = ranks.collect();
    for figure in &mut found.figures {
        match figure.id.as_str() {
            "access-ranks" => figure.rows.clone_from(&ranks),
            "access-counts" => figure.rows[0][4] = json!(0.8),
            "composition" => figure.rows[0][2] = json!(total),
            "unique-keys" => figure.rows[0][2] = json!(1000),
            _ => {}
        }
    }
    let made = make(&found, &Known::default()).unwrap();
    let told = note(&made);
    let [counted, expected] = numbers(&told)[..] else {
        panic!("{told}")
    };
    assert_eq!(counted, 0.8, "{told}");
    assert_eq!(
        (counted - expected).abs() > 0.05,
        told.starts_with("Attention"),
        "{told}"
    );
    let accesses = made.model.accesses_of(Kind::Get).unwrap();
    let drawn = crate::counts::expected(&made.model, Kind::Get, total as f64).unwrap();
    assert!(
        (drawn.once - expected).abs() < 0.03,
        "{drawn:?} {accesses:?} {told}"
    );
}
