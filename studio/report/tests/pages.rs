//! Pages of documents: what is on them, that no text of a trace becomes markup, and that they stay
//! small.

use evendb_report::{
    Beside, Border, Chart, Document, Exactness, Figure, Mark, Summary, Unit, page,
};
use serde_json::{Value, json};

const UNITS: [Unit; 8] = [
    Unit::Text,
    Unit::Count,
    Unit::Share,
    Unit::Bytes,
    Unit::Seconds,
    Unit::Nanoseconds,
    Unit::PerSecond,
    Unit::Number,
];
const MARKS: [Mark; 5] = [Mark::Line, Mark::Step, Mark::Bar, Mark::Point, Mark::Heat];

/// A figure of three columns, `name`, `x` and `y`, with a plot of each mark.
fn figure(id: &str, x: Unit, y: Unit, log: bool, rows: Vec<Vec<Value>>) -> Figure {
    let chart = |mark: Mark| {
        let is_heat = mark == Mark::Heat;
        let mut chart = Chart::new(mark, "x", if is_heat { "name" } else { "y" });
        chart.title = format!("as {mark:?}");
        match is_heat {
            true => chart.heat = Some("y".into()),
            false => chart.series = Some("name".into()),
        }
        (chart.x_log, chart.y_log) = (log, log);
        chart
    };
    let columns = [("name", Unit::Text), ("x", x), ("y", y)];
    let about = "How often a key is asked for.";
    Figure {
        exactness: Exactness::Sketched("one key in 100".into()),
        rows,
        charts: MARKS.map(chart).into(),
        ..Figure::new(id, "Accesses of a key", about, "4.2, figure 3", &columns)
    }
}

fn document(figures: Vec<Figure>) -> Document {
    let mut document = Document::new("A load");
    document.figures = figures;
    document
}

/// Fails if a tag does not belong to this crate's output, or a coordinate is no number.
fn assert_whole(html: &str) {
    for wrong in ["NaN", "inf", "\"-\"", "\u{0}", "\u{1b}", "\u{202e}"] {
        let at = html.find(wrong);
        assert!(
            at.is_none(),
            "{wrong:?}: {}",
            String::from_utf8_lossy(&html.as_bytes()[at.unwrap_or(0).saturating_sub(300)..][..300])
        );
    }
    for tag in [
        "script", "style", "main", "section", "svg", "figure", "details", "bdi", "dl",
    ] {
        let opened =
            html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    assert_eq!(html.matches("<script").count(), 1);
    for outside in ["http:", "https:", "url(", "@import", "<link", "<img"] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn a_page_has_what_the_document_has() {
    let rows = (1..=40).map(|x| vec![json!("get"), json!(x * 1024), json!(f64::from(x) / 40.0)]);
    let mut figure = figure("sizes", Unit::Bytes, Unit::Share, false, rows.collect());
    figure.rows_before = Some(12_345);
    figure.beside.push(Beside {
        what: "one access".into(),
        study: "80 %".into(),
        here: "78 %".into(),
        why: "fewer keys".into(),
    });
    let mut document = document(vec![figure]);
    document.facts.push(("operations".into(), "1,000".into()));
    let html = page(&document);
    assert_whole(&html);
    for part in [
        "<h1>A load</h1>",
        "<dt>operations</dt><dd><bdi>1,000</bdi></dd>",
        "<a href=\"#sizes\">Accesses of a key</a>",
        "study: 4.2, figure 3",
        "one key in 100",
        "40 of 12,345 rows",
        "<th>one access<td>80 %<td>78 %<td class=why>fewer keys",
        ">40 KiB</text>",
        ">100 %</text>",
        "prefers-color-scheme:dark",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert_eq!(html.matches("<svg viewBox").count(), MARKS.len());
}

#[test]
fn hostile_cells_become_text_in_every_unit_and_mark() {
    let cells = [
        json!("</td></table><script>alert('x')</script>"),
        json!("\"onload=\"x\u{0}\u{1b}[2J\u{202e}abc\n"),
        json!("<".repeat(100_000)),
        json!("\u{5d0}\u{5d1}\u{5d2}"),
        Value::Null,
        json!(true),
        json!([1, "<b>"]),
        json!({ "<a>": 1 }),
        json!(0),
        json!(-1),
        json!(1e300),
        json!(-1e308),
        json!(1.7e308),
        json!(5e-324),
        json!(u64::MAX),
        json!(i64::MIN),
    ];
    for x in UNITS {
        for log in [false, true] {
            let all = cells.iter().flat_map(|a| {
                cells
                    .iter()
                    .map(move |b| vec![a.clone(), b.clone(), a.clone()])
            });
            let mixed = figure("mixed", x, UNITS[7 - x as usize], log, all.collect());
            assert_whole(&page(&document(vec![mixed])));
            for cell in &cells {
                let row = vec![cell.clone(); 3];
                let equal = figure("equal", x, x, log, vec![row.clone(); 3]);
                let one = figure("one", x, x, log, vec![row]);
                assert_whole(&page(&document(vec![equal, one])));
            }
        }
    }
}

#[test]
fn how_a_figure_came_about_is_told_and_explained_once() {
    let of = |exactness: Exactness| {
        let rows = vec![vec![json!("get"), json!(1), json!(2)]];
        let figure = figure("speeds", Unit::Count, Unit::Count, false, rows);
        page(&document(vec![Figure {
            exactness,
            ..figure
        }]))
    };
    let measured = of(Exactness::Measured("three rounds <each>".into()));
    assert!(measured.contains("three rounds &lt;each&gt;"));
    assert!(measured.contains("measured</span> means that runs were timed"));
    assert!(!measured.contains("means that every operation is counted"));
    assert!(!measured.contains("comes from a sample"));
    let exact = of(Exactness::Exact);
    assert!(exact.contains("means that every operation is counted"));
    assert!(!exact.contains("runs were timed"));
}

#[test]
fn hostile_names_become_text_too() {
    let bad = "\"><script>x</script>\u{202e}\u{0}";
    let mut figure = figure(
        bad,
        Unit::Count,
        Unit::Count,
        false,
        vec![vec![json!(bad), json!(1), json!(2)]],
    );
    figure.title = bad.into();
    figure.about = bad.into();
    figure.section = bad.into();
    figure.exactness = Exactness::Measured(bad.into());
    figure.columns[1].name = bad.into();
    figure
        .charts
        .iter_mut()
        .for_each(|chart| chart.x = bad.into());
    figure.charts[0].title = bad.into();
    figure.charts[1].y = "not there".into();
    figure.beside.push(Beside {
        what: bad.into(),
        study: bad.into(),
        here: bad.into(),
        why: bad.into(),
    });
    let mut document = document(vec![figure.clone(), figure]);
    document.title = bad.into();
    document.facts.push((bad.into(), bad.into()));
    let html = page(&document);
    assert_whole(&html);
    assert!(html.contains("No plot: the figure has no column not there"));
    assert!(html.contains("id=\"figure-0_\"") && html.contains("id=\"figure-1_\""));
}

/// The last section of a page.
fn last_section(html: &str) -> &str {
    let at = html.rfind("<section").expect("a figure has one");
    &html[at..html.rfind("</main>").expect("a page has one")]
}

#[test]
fn a_heat_map_takes_no_colour_of_a_series() {
    let rows = |name: &str| {
        let row = |x| vec![json!(name), json!(x), json!(x)];
        (1..5).map(row).collect::<Vec<_>>()
    };
    let mut heat = figure("heat", Unit::Count, Unit::Count, false, rows("zebra"));
    heat.charts.retain(|chart| chart.mark == Mark::Heat);
    heat.charts[0].series = Some("name".into());
    let line = figure("line", Unit::Count, Unit::Count, false, rows("ant"));
    let alone = page(&document(vec![line.clone()]));
    let after = page(&document(vec![heat.clone(), line.clone()]));
    assert_eq!(last_section(&after), last_section(&alone));
    // A line takes one look, so that a later line has another.
    let zebra = figure("zebra", Unit::Count, Unit::Count, false, rows("zebra"));
    let after = page(&document(vec![zebra, line]));
    assert_ne!(last_section(&after), last_section(&alone));
    heat.charts[0].series = Some("colour".into());
    assert!(page(&document(vec![heat])).contains("No plot: the figure has no column colour"));
}

#[test]
fn bars_that_are_left_out_are_told() {
    let rows =
        |count: u32| (0..count).map(|x| vec![json!("get"), json!(format!("key {x}")), json!(x)]);
    let bars = |count: u32| {
        let mut bars = figure(
            "bars",
            Unit::Text,
            Unit::Count,
            false,
            rows(count).collect(),
        );
        bars.columns[1].name = "hot_<key>".into();
        bars.charts.retain(|chart| chart.mark == Mark::Bar);
        bars.charts[0].x = "hot_<key>".into();
        page(&document(vec![bars]))
    };
    let html = bars(34);
    assert_whole(&html);
    assert!(html.contains("The first 20 of 34 values of hot &lt;key&gt; are drawn."));
    assert!(!bars(20).contains("are drawn."));
}

#[test]
fn what_is_empty_is_told() {
    let mut none = figure("none", Unit::Count, Unit::Count, true, Vec::new());
    assert!(page(&document(Vec::new())).contains("no figures"));
    let html = page(&document(vec![none.clone()]));
    assert_whole(&html);
    assert!(html.contains("No plot: there are no rows") && html.contains("The table has no rows"));
    // A row that is too short, which only a program can make, causes no failure.
    none.rows = vec![vec![json!("get")], vec![json!("get"), json!(0), json!(0)]];
    let html = page(&document(vec![none]));
    assert_whole(&html);
    assert!(html.contains("No row has a number for both axes"));
}

#[test]
fn a_page_of_25_figures_of_500_rows_a_series_stays_small() {
    let mut state = 1_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1 << 31)
    };
    let mut figures = Vec::new();
    for at in 0..25 {
        let rows = (0..8 * 500).map(|row| {
            let (series, x) = (row / 500, row % 500 + 1);
            vec![
                json!(format!("kind {series}")),
                json!(x),
                json!(random() * 1e6),
            ]
        });
        let mut figure = figure(
            &format!("f{at}"),
            Unit::Count,
            Unit::PerSecond,
            at % 2 == 0,
            rows.collect(),
        );
        figure.charts.truncate(2);
        figures.push(figure);
    }
    let html = page(&document(figures));
    assert_whole(&html);
    assert!((500_000..3_000_000).contains(&html.len()), "{}", html.len());
}

#[test]
fn the_summary_stands_on_top_and_comes_back_from_json() {
    let mut document = document(Vec::new());
    let plain = page(&document);
    assert!(!plain.contains("What stands out") && !plain.contains("<pre>"));
    document.summary = Summary {
        verdict: "Mostly reads <b>.".into(),
        code: "Options::new().memory_budget(256 << 20)".into(),
        figures: vec![
            ("operations".into(), "1 M".into()),
            ("keys".into(), "3 k".into()),
        ],
        stands_out: vec!["Half of the keys are named once.".into()],
    };
    let html = page(&document);
    assert_whole(&html);
    let places = [
        "<p class=verdict>Mostly reads &lt;b&gt;.</p>",
        "<pre><code>Options::new().memory_budget(256 &lt;&lt; 20)</code></pre>",
        "<dt>operations</dt><dd><bdi>1 M</bdi></dd>",
        "<h2>What stands out</h2><ul><li>Half of the keys are named once.</ul>",
        "<p>Each figure says",
    ];
    let places = places.map(|part| html.find(part).unwrap_or_else(|| panic!("{part}")));
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(Document::from_json(&document.to_json()).unwrap(), document);
}

#[test]
fn all_rows_are_on_the_page_while_there_is_room_and_else_it_says_where_they_are() {
    let of = |rows: usize| {
        let rows = (0..rows).map(|x| vec![json!(format!("key {x}")), json!(x), json!(1)]);
        let mut figure = figure("keys", Unit::Count, Unit::Count, false, rows.collect());
        figure.charts.clear();
        figure
    };
    let rows = |html: &str| html.matches("<tr><td>").count();
    let html = page(&document(vec![of(5000)]));
    assert_eq!(rows(&html), 5000);
    assert!(!html.contains("JSON file beside"));
    // Many figures share the room.
    let html = page(&document((0..40).map(|_| of(5000)).collect()));
    assert_eq!(
        html.matches("The JSON file beside this page has all of these rows.")
            .count(),
        40
    );
    assert!(
        rows(&html) >= 40 * 160 && html.len() < 3_000_000,
        "{}",
        html.len()
    );
}

#[test]
fn a_long_text_in_a_table_is_whole_and_has_several_lines() {
    let why = "smaller chunks keep less cold data in RAM beside scattered hot keys, \
               and larger ones are rewritten less often, which matters where much is written over";
    let rows = vec![vec![json!(why), json!(1), json!(2)]];
    let mut figure = figure("why", Unit::Count, Unit::Count, false, rows);
    figure.charts.clear();
    let html = page(&document(vec![figure]));
    assert!(html.contains(&format!("<td class=w><bdi>{why}</bdi>")));
}

#[test]
fn a_bar_that_would_flatten_all_others_is_cut_and_marked() {
    let of = |values: &[f64], unit: Unit, log: bool| {
        let name = |at: usize| match unit {
            Unit::Text => json!(format!("k{at}")),
            _ => json!(at),
        };
        let rows = values.iter().enumerate();
        let rows = rows.map(|(at, value)| vec![json!("get"), name(at), json!(value)]);
        let mut bars = figure("bars", unit, Unit::Count, log, rows.collect());
        bars.charts.retain(|chart| chart.mark == Mark::Bar);
        page(&document(vec![bars]))
    };
    // The width of a horizontal bar or the height of a vertical one.
    let lengths = |html: &str, attribute: &str| -> Vec<f64> {
        let bars = html.split("<rect class=\"b ").skip(1);
        let of = |bar: &str| -> Option<f64> {
            let (_, rest) = bar.split_once(&format!(" {attribute}=\""))?;
            rest.split_once('"')?.0.parse().ok()
        };
        bars.map(|bar| of(bar).unwrap()).collect()
    };
    let flat = [5.0, 6.0, 4000.0, 7.0, 5.0];
    for (unit, attribute) in [(Unit::Text, "width"), (Unit::Count, "height")] {
        let html = of(&flat, unit, false);
        assert_whole(&html);
        let bars = lengths(&html, attribute);
        let (longest, shortest) = (
            bars.iter().copied().fold(0.0, f64::max),
            bars.iter().copied().fold(f64::MAX, f64::min),
        );
        assert!(shortest > longest / 4.0, "{bars:?}");
        assert_eq!(html.matches("<path class=c ").count(), 1);
        assert!(html.contains("Bars with a tip at their end are cut"));
        // The value of the cut bar is told.
        assert!(html.contains("4,000") || html.contains("4 k"));
        for values in [
            &[5.0, 6.0, 30.0, 7.0, 5.0][..],
            &[1.0, 4000.0],
            &[5.0, 900.0, 950.0, 6.0],
        ] {
            let html = of(values, unit, false);
            assert!(!html.contains("<path class=c "), "{values:?}");
        }
        assert!(!of(&flat, unit, true).contains("<path class=c "));
    }
}

#[test]
fn a_plot_that_stands_alone_has_the_width_of_the_page_and_panels_say_of_what_they_are() {
    let rows = |names: &[&str]| -> Vec<Vec<Value>> {
        let of = |name: &&str| {
            (1..9)
                .map(|x| vec![json!(name), json!(x), json!(x)])
                .collect::<Vec<_>>()
        };
        names.iter().flat_map(of).collect()
    };
    let of = |names: &[&str]| {
        let mut figure = figure("f", Unit::Count, Unit::Count, false, rows(names));
        figure.columns[0].name = "keyspace".into();
        figure.charts = vec![Chart::new(Mark::Line, "x", "y").with_panel("keyspace")];
        page(&document(vec![figure]))
    };
    let one = of(&["app"]);
    assert!(one.contains("<div class=\"plots wide\">") && one.contains("viewBox=\"0 0 960 "));
    let two = of(&["app", "log"]);
    assert!(two.contains("viewBox=\"0 0 440 ") && !two.contains("plots wide"));
    assert!(two.contains("<figcaption>keyspace <bdi>log</bdi></figcaption>"));
}

/// The places from left to right of the borders in a part of a page.
fn borders(part: &str) -> Vec<f64> {
    let lines = part.split("<path class=br d=\"M").skip(1);
    let place = |line: &str| -> Option<f64> { line.split(' ').next()?.parse().ok() };
    lines.map(|line| place(line).expect("a number")).collect()
}

#[test]
fn borders_are_drawn_in_their_panel_at_their_place() {
    let row = |name: &str, x: u64| vec![json!(name), json!(x), json!(x + 1)];
    let rows = ["app", "log"]
        .iter()
        .flat_map(|name| (0..=10).map(|x| row(name, x)));
    let border = |panel: &str, at: f64| Border {
        panel: panel.to_owned(),
        at,
        name: format!("<{panel}>"),
    };
    let mut all = figure("map", Unit::Count, Unit::Count, false, rows.collect());
    let mut points = Chart::new(Mark::Point, "x", "y").with_panel("name");
    points.borders = [0.0, 5.0, 10.0].map(|at| border("app", at)).into();
    points.borders.extend([
        border("log", 2.5),
        border("log", 11.0),
        border("log", f64::NAN),
    ]);
    points.borders.push(border("other", 3.0));
    let mut heat = Chart::new(Mark::Heat, "x", "y").with_panel("name");
    heat.heat = Some("y".to_owned());
    // The last cell of a map of 11 cells ends at 11.
    heat.borders = [0.0, 5.5, 11.0].map(|at| border("app", at)).into();
    for (chart, right) in [(points.clone(), [3, 1]), (heat, [3, 0])] {
        all.charts = vec![chart];
        let html = page(&document(vec![all.clone()]));
        assert_whole(&html);
        let (app, log) = html.split_once("<bdi>log</bdi></figcaption>").unwrap();
        let (app, log) = (borders(app), borders(log));
        assert_eq!([app.len(), log.len()], right);
        assert!(
            app[0] < app[1] && (app[0] + app[2] - 2.0 * app[1]).abs() < 0.3,
            "{app:?}"
        );
        assert!(html.contains("<title>&lt;app&gt;</title>"));
    }
    // They come back from the JSON; without panels all are drawn.
    points.panel = None;
    points.borders.retain(|border| border.at.is_finite());
    all.charts = vec![points];
    let read = Document::from_json(&document(vec![all]).to_json()).unwrap();
    assert_eq!(borders(&page(&read)).len(), 5);
}
