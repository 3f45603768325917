//! What is advised: the layout, the memory, and what is read of an analysis.

use super::*;

#[test]
fn misses_are_read_of_an_analysis() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("analysis.json");
    let mut document = Document::new("a load");
    std::fs::write(&path, document.to_json()).unwrap();
    let error = misses(&path).unwrap_err().to_string();
    assert!(error.contains("miss-ratios"), "{error}");
    let columns = [
        ("keyspace", Unit::Text),
        ("grain", Unit::Text),
        ("units", Unit::Count),
        ("bytes", Unit::Bytes),
        ("miss_ratio", Unit::Share),
    ];
    let names = columns.map(|(name, _)| name);
    let mut figure = evendb_report::Figure::new("miss-ratios", "Misses", "", "", &columns);
    assert_eq!(
        figure
            .columns
            .iter()
            .map(|Column { name, .. }| name.as_str())
            .collect::<Vec<_>>(),
        names
    );
    for (grain, bytes, ratio) in [("row", 100, 0.5), ("row", 1000, 0.25), ("block", 500, 0.75)] {
        figure.rows.push(vec![
            "0".into(),
            grain.into(),
            1.into(),
            bytes.into(),
            ratio.into(),
        ]);
    }
    document.figures.push(figure);
    std::fs::write(&path, document.to_json()).unwrap();
    let rows = misses(&path).unwrap();
    assert_eq!(rows.len(), 3);
    assert_eq!(miss_ratio(&rows, "row", 999), Some(0.5));
    assert_eq!(miss_ratio(&rows, "row", 5000), Some(0.25));
    assert_eq!(miss_ratio(&rows, "row", 99), None);
    assert_eq!(miss_ratio(&[] as &[MissRow], "row", 99), None);
}

#[test]
fn the_layout_that_serves_better_is_advised_with_the_figure_of_the_other() {
    let layout = |advice: &Advice| -> Vec<String> {
        let all = page::sentences(advice).into_iter();
        all.filter(|said| said.contains("merge tree")).collect()
    };
    let guards = advised(
        "",
        &[
            ("layout=guards", 1.8),
            ("munks=off", 1.2),
            ("layout=guards max-files-per-guard=1", 1.1),
        ],
    );
    let said = page::sentences(&guards);
    assert!(
        said[0].contains("layout=guards: it does 1.80 times"),
        "{said:?}"
    );
    let said = layout(&guards);
    assert!(
        said[0].contains("serve this load better: with chunks and munks=off it does 0.67 times"),
        "{said:?}"
    );
    assert!(
        guards
            .tuning()
            .code(64 << 20)
            .contains("layout(Layout::Guards)")
    );

    let beside_defaults = layout(&advised("", &[("layout=guards", 1.25)]));
    assert!(
        beside_defaults[0].contains("chunks and its defaults it does 0.80 times"),
        "{beside_defaults:?}"
    );

    let chunks = layout(&advised(
        "",
        &[
            ("munks=off", 1.5),
            ("layout=guards", 0.75),
            ("layout=guards max-files-per-guard=4", 0.5),
        ],
    ));
    assert!(
        chunks[0].contains("merge tree (layout=guards), it does 0.50 times"),
        "{chunks:?}"
    );
    assert!(!chunks[0].contains("better"), "{chunks:?}");

    // Nothing is said where only one was measured, or the other failed.
    for (fixed, scores) in [
        ("", &[("munks=off", 1.5)][..]),
        ("", &[("layout=guards", 0.0)]),
        ("layout=guards", &[("max-files-per-guard=1", 1.5)]),
    ] {
        assert!(
            layout(&advised(fixed, scores)).is_empty(),
            "{fixed} {scores:?}"
        );
    }
}

/// A budget of `mib` MiB with runs of these speeds.
fn budget(mib: u64, speeds: &[f64]) -> Beside {
    let run = |speed: &f64| Measured {
        operations: 1000,
        seconds: 1000.0 / speed,
        ..Measured::default()
    };
    Beside {
        name: "evendb".to_owned(),
        memory_bytes: mib << 20,
        runs: speeds.iter().map(run).collect(),
        failed: None,
    }
}

/// What is said of more memory, with these budgets beside 64 MiB. `misses` are the misses of a
/// cache of rows, by MiB.
fn memory_said(budgets: &[(u64, &[f64])], misses: &[(u64, f64)]) -> String {
    let mut advice = advised("", &[]);
    advice.load.data_bytes = 1 << 30;
    advice.budgets = budgets
        .iter()
        .map(|(mib, speeds)| budget(*mib, speeds))
        .collect();
    let row = |(mib, ratio): &(u64, f64)| MissRow {
        grain: "row".to_owned(),
        bytes: mib << 20,
        miss_ratio: *ratio,
    };
    advice.misses = misses.iter().map(row).collect();
    let all = page::sentences(&advice);
    all.into_iter()
        .find(|said| said.starts_with("Operations a second with other memory"))
        .unwrap()
}

#[test]
fn whether_more_memory_helps_is_judged_by_the_spread_of_repeated_runs() {
    // The same store twice: its single runs differ by a third, and either budget may be ahead.
    for (given, twice) in [(100.0, 133.0), (133.0, 100.0), (100.0, 115.0)] {
        let said = memory_said(&[(64, &[given]), (128, &[twice])], &[]);
        assert!(said.contains("cannot be said"), "{said}");
    }
    let noisy: &[f64] = &[100.0, 133.0, 90.0, 120.0];
    let also: &[f64] = &[125.0, 95.0, 130.0, 110.0];
    let said = memory_said(&[(64, noisy), (128, also)], &[]);
    assert!(said.contains("cannot be said"), "{said}");
    // Three times as fast in each round helps, and so does a tenth where runs differ by a
    // hundredth.
    let said = memory_said(&[(64, noisy), (128, &[300.0, 330.0, 310.0, 290.0])], &[]);
    assert!(said.ends_with("more memory helps."), "{said}");
    let steady: &[f64] = &[100.0, 101.0, 99.0];
    let said = memory_said(&[(64, steady), (256, &[111.0, 112.0, 110.0])], &[]);
    assert!(
        said.contains("1.11 (+-") && said.ends_with("more memory helps."),
        "{said}"
    );
    let said = memory_said(
        &[(64, steady), (128, steady), (256, &[100.0, 102.0, 101.0])],
        &[],
    );
    assert!(said.ends_with("more memory does not help."), "{said}");
    // Less memory says nothing of more.
    let said = memory_said(&[(32, &[50.0, 51.0]), (64, steady)], &[]);
    assert!(said.ends_with("more was not measured."), "{said}");
}

#[test]
fn the_curve_of_misses_is_asked_whether_more_memory_helps() {
    let falls = [(16, 0.6), (64, 0.5), (256, 0.2)];
    let flat = [(16, 0.63), (64, 0.63), (256, 0.63)];
    let faster: [(u64, &[f64]); 2] = [(64, &[100.0, 101.0, 99.0]), (256, &[150.0, 151.0, 149.0])];
    let unclear: [(u64, &[f64]); 2] = [(64, &[100.0]), (256, &[120.0])];
    let of = |budgets: &[(u64, &[f64])], misses: &[(u64, f64)]| memory_said(budgets, misses);
    assert!(of(&faster, &falls).ends_with("more memory helps."));
    let said = of(&faster, &flat);
    assert!(
        said.contains("would miss as many accesses as this one"),
        "{said}"
    );
    // If the runs do not tell it, no curve tells it for them.
    let said = of(&unclear, &flat);
    assert!(
        said.contains("cannot be said") && said.ends_with("as many accesses as this one."),
        "{said}"
    );
    let alike: [(u64, &[f64]); 2] = [(64, &[100.0, 101.0, 99.0]), (256, &[101.0, 100.0, 100.0])];
    assert!(of(&alike, &flat).ends_with("more memory does not help."));
    let said = of(&unclear, &falls);
    assert!(
        said.contains("a larger cache would miss fewer accesses"),
        "{said}"
    );
}

#[test]
fn a_store_that_was_measured_once_has_a_ratio_that_may_be_far_off() {
    let all = [budget(64, &[100.0]), budget(128, &[140.0])];
    let ratio = Ratio::of(&all[1], &all[0], spread(&all)).unwrap();
    assert!(
        (ratio.by - 1.4).abs() < 1e-9 && ratio.off > 0.9,
        "{ratio:?}"
    );
    assert!(!ratio.is_above(1.05) && !ratio.is_below(1.1));
    let failed = Beside {
        failed: Some("no room".to_owned()),
        ..budget(64, &[])
    };
    assert_eq!(Ratio::of(&failed, &all[0], 0.1), None);
    assert_eq!(Ratio::of(&all[0], &failed, 0.1), None);
    assert!(spread(&[failed]) > 0.0);
}

#[test]
fn the_budget_is_no_larger_than_the_data_needs() {
    let load = load_of(&[put("aa", 1_000_000), put("bb", 1_000_000)], 0);
    // Twice two million bytes, and 16 MiB.
    assert_eq!(load.budget_within(1 << 30), 20 << 20);
    assert_eq!(load.budget_within(8 << 20), 8 << 20);
    let unread = Load {
        goes_on: true,
        ..load
    };
    assert_eq!(unread.budget_within(1 << 30), 1 << 30);
    let mut advice = advised("", &[("munks=off", 1.5)]);
    advice.allowed_bytes = 1 << 30;
    let document = page::document(&advice, Vec::new());
    let summary = &document.summary;
    assert!(
        summary.verdict.contains("a budget of 64.00 MiB"),
        "{summary:?}"
    );
    assert!(
        summary.stands_out[0].contains("1.00 GiB were allowed"),
        "{summary:?}"
    );
    assert_eq!(
        summary.code,
        "Options::new().memory_budget(64 << 20).advanced(|all| all.munks(false))"
    );
    assert_eq!(summary.figures.len(), 5);
    let page = evendb_report::page(&document);
    assert!(page.contains("<pre><code>Options::new().memory_budget(64 &lt;&lt; 20)"));
}
